//! The engines and the registry that the tests of containers begin with, by the engines' own API.

use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::containers::{Yard, fetch, fetched, free_port, published};
use live_tests::on_both_engines;
use mesh_testkit::engine::{Kind, Shape};
use mesh_testkit::registry::{Auth, Flow, Image};
use serde_json::{Value, json};

on_both_engines!(
    an_image_is_pulled_with_a_password_run_and_removed,
    an_engine_that_is_killed_or_stopped_finds_its_containers_again,
    a_pull_runs_out_of_room_and_is_stalled_and_cut,
    nothing_is_left_of_an_engine_and_its_containers,
);

fn an_image_is_pulled_with_a_password_run_and_removed(kind: Kind) -> anyhow::Result<()> {
    let Some(yard) = Yard::open(kind, Auth::Basic)? else {
        return Ok(());
    };
    let image = Image::running(&["serve", "80"])?;
    let image = yard.registry.push("tests/one", "1", &image)?;
    let refused = yard.pull(yard.registry.at(), &image, "wrong")?.text();
    ensure!(refused.contains("unauthorized"), "{refused}");

    let port = free_port()?;
    let id = yard.run("mesh-tests-one", &image, &published(port))?;
    let answer = fetched(port, "/env")?;
    ensure!(
        answer.status == 200 && answer.text().contains("PATH="),
        "{answer:?}"
    );
    let said = yard.says(&id)?;
    ensure!(said.contains("serving on 80"), "{said}");
    let of = yard.engine.container(&id)?;
    let of = of
        .get("Image")
        .and_then(Value::as_str)
        .context("its image")?;
    let of = yard.engine.get(&format!("/images/{of}/json"))?;
    ensure!(of.to_string().contains(&image.digest), "{of}");

    let path = format!("/containers/{id}?force=true");
    yard.engine.ask("DELETE", &path, None)?.ok()?;
    ensure!(
        !yard.engine.containers()?.contains(&id),
        "it is still there"
    );
    ensure!(fetch(port, "/").is_err(), "its port is still taken");
    Ok(())
}

fn an_engine_that_is_killed_or_stopped_finds_its_containers_again(
    kind: Kind,
) -> anyhow::Result<()> {
    let shape = Shape {
        live_restore: true,
        ..Shape::default()
    };
    let Some(yard) = Yard::own(kind, Auth::None, shape)? else {
        return Ok(());
    };
    let image = Image::running(&["serve", "80"])?;
    let image = yard.registry.push("tests/one", "1", &image)?;
    let id = yard.run("one", &image, &json!({}))?;
    let began = yard.runs(&id)?;
    ensure!(began.0);
    yard.engine.kill()?;
    ensure!(yard.engine.containers().is_err(), "it still answers");
    yard.engine.start_again()?;
    ensure!(yard.runs(&id)? == began, "it was started again");
    yard.engine.stop()?;
    ensure!(yard.engine.containers().is_err(), "it still answers");
    yard.engine.start_again()?;
    ensure!(yard.runs(&id)? == began, "it was started again");
    Ok(())
}

fn a_pull_runs_out_of_room_and_is_stalled_and_cut(kind: Kind) -> anyhow::Result<()> {
    let shape = Shape {
        disk_mib: Some(64),
        ..Shape::default()
    };
    let Some(yard) = Yard::own(kind, Auth::None, shape)? else {
        return Ok(());
    };
    let image = Image::running(&[])?.padded(2, 4 << 20)?;
    let image = yard.registry.push("tests/large", "1", &image)?;
    yard.engine.fill_disk()?;
    let full = yard.pull(yard.registry.at(), &image, "")?.text();
    ensure!(full.contains("no space left on device"), "{full}");
    yard.engine.free_disk()?;

    yard.way.set(Flow::Slow(1 << 20));
    std::thread::scope(|scope| {
        let pulls = scope.spawn(|| yard.pull(yard.way.at(), &image, ""));
        yard.way.wait_for(2 << 20, Duration::from_secs(30))?;
        yard.way.set(Flow::Stalled);
        yard.registry.kill()?;
        yard.way.set(Flow::Cut);
        // An engine tries again by itself, for a while, and may or may not succeed.
        yard.registry.start_again()?;
        yard.way.set(Flow::Free);
        pulls.join().ok().context("a pull panics")??;
        anyhow::Ok(())
    })?;
    let pulled = yard.pull(yard.way.at(), &image, "")?.ok()?.text();
    ensure!(!pulled.contains("error"), "{pulled}");
    Ok(())
}

fn nothing_is_left_of_an_engine_and_its_containers(kind: Kind) -> anyhow::Result<()> {
    let Some(yard) = Yard::own(kind, Auth::None, Shape::default())? else {
        return Ok(());
    };
    let image = Image::running(&["serve", "80"])?;
    let image = yard.registry.push("tests/one", "1", &image)?;
    let port = free_port()?;
    yard.run("one", &image, &published(port))?;
    fetched(port, "/")?;
    let folder = yard
        .engine
        .socket()
        .parent()
        .context("its folder")?
        .to_owned();
    // As a test that fails: what follows is all it does for the engine.
    yard.engine.kill()?;
    drop(yard);
    ensure!(!folder.exists(), "{}", folder.display());
    ensure!(fetch(port, "/").is_err(), "a container still runs");
    let folder = folder.display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    ensure!(!mounts.contains(&folder), "{mounts}");
    for entry in std::fs::read_dir("/proc")? {
        let command = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        ensure!(!command.contains(&folder), "{command}");
    }
    Ok(())
}
