//! Fetching images: how far it is, and each way in which it goes wrong told apart and got over.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::containers::{Host, Yard, with_login};
use live_tests::{on_both_engines, within};
use mesh_model::ModuleState;
use mesh_testkit::engine::{Kind, Shape};
use mesh_testkit::registry::{Auth, Flow, Image, Registry};

on_both_engines!(
    async:
    a_slow_pull_says_how_far_it_is_and_then_which_image_came,
    a_wrong_password_an_unknown_tag_and_a_registry_that_is_away_are_told_apart,
    a_registry_that_is_killed_within_a_pull_is_waited_for,
    a_pull_that_stalls_is_dropped_said_and_tried_again,
    a_pinned_image_is_the_one_it_is_pinned_to_wherever_its_tag_leads,
    a_full_disk_is_said_and_once_there_is_room_the_module_runs,
);

/// An image of some megabytes that nothing makes smaller.
fn large() -> anyhow::Result<Image> {
    Image::running(&["serve", "80"])?.padded(3, 1 << 20)
}

async fn a_slow_pull_says_how_far_it_is_and_then_which_image_came(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some(yard) = Yard::open(kind, Auth::None)? else {
        return Ok(());
    };
    let image = yard.registry.push("tests/slow", "1", &large()?)?;
    let host = Host::open(&yard).await?;
    yard.way.set(Flow::Slow(800_000));
    let wanted = host.wants("slow", "1", &image.tagged(yard.way.at()), |_, _| {})?;
    let mut doing = host.runtime().doing();
    let lines = async {
        let mut lines = BTreeSet::new();
        while doing.changed().await.is_ok() {
            lines.extend(doing.borrow_and_update().values().cloned());
            if lines.iter().any(|line: &String| line.contains("MB")) {
                break;
            }
        }
        lines
    };
    let applied = host.apply(vec![wanted]);
    let pulling = host.until("slow", "it pulls", |it| it.state == ModuleState::Pulling);
    let all = async { tokio::join!(applied, pulling, lines) };
    let (applied, pulling, lines) = within(PULLED, "it is pulled", all).await?;
    applied?;
    pulling?;
    let good = |line: &String| line.starts_with("pulling ") && line.contains(" of 4 layers, ");
    ensure!(lines.iter().any(good), "{lines:?}");
    let runs = host.runs("slow").await?;
    ensure!(runs.image.as_deref() == Some(&image.digest), "{runs:?}");
    let says = host.runtime().doing().borrow().clone();
    ensure!(says.is_empty(), "it still says {says:?}");
    Ok(())
}

async fn a_wrong_password_an_unknown_tag_and_a_registry_that_is_away_are_told_apart(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some(yard) = Yard::open(kind, Auth::Basic)? else {
        return Ok(());
    };
    let image = Image::running(&["serve", "80"])?;
    let image = yard.registry.push("tests/closed", "1", &image)?;
    let host = Host::open(&yard).await?;
    let tagged = image.tagged(yard.registry.at());
    let open = |release: &str, image: &str| host.wants("closed", release, image, |_, _| {});
    let right = format!("{}:{}", Registry::USER, Registry::PASSWORD);

    host.apply(vec![open("1", &tagged)?]).await?;
    let refused = host.says("closed", &["pull_secret"]).await?;
    ensure!(refused.state != ModuleState::Running, "{refused:?}");
    let wrong = format!("{}:wrong", Registry::USER);
    let wanted = with_login(open("2", &tagged)?, &wrong)?;
    host.apply(vec![wanted]).await?;
    let refused = host.says("closed", &["refuses"]).await?;
    let reason = refused.reason.context("it says why")?;
    ensure!(!reason.contains("wrong"), "the password is in {reason}");

    let none = format!("{}/tests/closed:none", yard.registry.at());
    let wanted = with_login(open("3", &none)?, &right)?;
    host.apply(vec![wanted]).await?;
    host.says("closed", &["there is no "]).await?;

    yard.registry.kill()?;
    let wanted = with_login(open("4", &tagged)?, &right)?;
    host.apply(vec![wanted]).await?;
    host.says("closed", &["cannot be reached"]).await?;
    yard.registry.start_again()?;
    let runs = host.runs("closed").await?;
    ensure!(runs.release == "4", "{runs:?}");
    Ok(())
}

async fn a_registry_that_is_killed_within_a_pull_is_waited_for(kind: Kind) -> anyhow::Result<()> {
    let Some(yard) = Yard::open(kind, Auth::None)? else {
        return Ok(());
    };
    let image = yard.registry.push("tests/dies", "1", &large()?)?;
    let host = Host::open(&yard).await?;
    yard.way.set(Flow::Slow(500_000));
    let wanted = host.wants("dies", "1", &image.tagged(yard.way.at()), |_, _| {})?;
    let dies = async {
        tokio::task::block_in_place(|| yard.way.wait_for(700_000, PULLED))?;
        yard.way.set(Flow::Cut);
        yard.registry.kill()?;
        host.says("dies", &["cannot be reached", "stalled"]).await?;
        yard.registry.start_again()?;
        yard.way.set(Flow::Free);
        anyhow::Ok(())
    };
    let all = async { tokio::join!(host.apply(vec![wanted]), dies) };
    let (applied, died) = within(PULLED, "it is said", all).await?;
    applied?;
    died?;
    host.runs("dies").await?;
    Ok(())
}

async fn a_pull_that_stalls_is_dropped_said_and_tried_again(kind: Kind) -> anyhow::Result<()> {
    let Some(yard) = Yard::open(kind, Auth::None)? else {
        return Ok(());
    };
    let image = yard.registry.push("tests/stalls", "1", &large()?)?;
    let host = Host::open(&yard).await?;
    yard.way.set(Flow::Slow(500_000));
    let wanted = host.wants("stalls", "1", &image.tagged(yard.way.at()), |_, _| {})?;
    let stalls = async {
        tokio::task::block_in_place(|| yard.way.wait_for(700_000, PULLED))?;
        yard.way.set(Flow::Stalled);
        let stalled = host.says("stalls", &["stalled"]).await?;
        ensure!(stalled.state != ModuleState::Running, "{stalled:?}");
        yard.way.set(Flow::Free);
        anyhow::Ok(())
    };
    let all = async { tokio::join!(host.apply(vec![wanted]), stalls) };
    let (applied, stalled) = within(PULLED, "it is said", all).await?;
    applied?;
    stalled?;
    host.runs("stalls").await?;
    Ok(())
}

async fn a_pinned_image_is_the_one_it_is_pinned_to_wherever_its_tag_leads(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some(yard) = Yard::open(kind, Auth::None)? else {
        return Ok(());
    };
    let pushed = |padding| {
        let image = Image::running(&["serve", "80"])?.padded(1, padding)?;
        yard.registry.push("tests/moves", "1", &image)
    };
    let first = pushed(1_000)?;
    let host = Host::open(&yard).await?;
    let tagged = first.tagged(yard.registry.at());
    let by_tag = host.wants("tagged", "1", &tagged, |_, _| {})?;
    host.apply(vec![by_tag.clone()]).await?;
    let runs = host.runs("tagged").await?;
    ensure!(runs.image.as_deref() == Some(&first.digest), "{runs:?}");
    let began = yard.only("tagged")?;

    let second = pushed(2_000)?;
    ensure!(second.digest != first.digest);
    let pin = format!("{tagged}@{}", first.digest);
    let pinned = host.wants("pinned", "1", &pin, |_, _| {})?;
    let moved = host.wants("moved", "1", &tagged, |_, _| {})?;
    let all = vec![by_tag.clone(), pinned, moved];
    host.apply(all).await?;
    // What ran before the tag was led elsewhere is not touched by that.
    for (module, image) in [("pinned", &first), ("moved", &second), ("tagged", &first)] {
        let runs = host.runs(module).await?;
        // Podman tells no digest of an image that lost its last tag.
        let told = kind == Kind::Docker || module == "moved";
        ensure!(
            !told || runs.image.as_ref() == Some(&image.digest),
            "{module}: {runs:?}"
        );
    }
    let (same, since) = ("/Id", "/State/StartedAt");
    let now = yard.only("tagged")?;
    ensure!(now.pointer(same) == began.pointer(same), "{now}");
    ensure!(now.pointer(since) == began.pointer(since), "{now}");

    let none = format!("{tagged}@sha256:{}", "0".repeat(64));
    let none = host.wants("none", "1", &none, |_, _| {})?;
    host.apply(vec![by_tag, none]).await?;
    host.says("none", &["there is no "]).await?;
    Ok(())
}

async fn a_full_disk_is_said_and_once_there_is_room_the_module_runs(
    kind: Kind,
) -> anyhow::Result<()> {
    let shape = Shape {
        disk_mib: Some(64),
        ..Shape::default()
    };
    let Some(yard) = Yard::own(kind, Auth::None, shape)? else {
        return Ok(());
    };
    let small = Image::running(&["serve", "80"])?;
    let small = yard.registry.push("tests/small", "1", &small)?;
    let image = yard.registry.push("tests/large", "1", &large()?)?;
    let host = Host::open(&yard).await?;
    let first = host.wants("first", "1", &small.tagged(yard.registry.at()), |_, _| {})?;
    host.apply(vec![first.clone()]).await?;
    host.runs("first").await?;

    yard.engine.fill_disk()?;
    let wanted = host.wants("full", "1", &image.tagged(yard.way.at()), |_, _| {})?;
    host.apply(vec![first, wanted]).await?;
    host.says("full", &["disk-full"]).await?;
    // It is not fetched over and over to find the disk full again.
    let passed = yard.way.passed();
    let again = || yard.way.wait_for(passed + 2_000_000, AGAIN);
    let again = tokio::task::block_in_place(again);
    ensure!(again.is_err(), "it is fetched while there is no room");
    // What ran goes on.
    host.runs("first").await?;
    yard.engine.free_disk()?;
    host.runs("full").await?;
    Ok(())
}

/// Much longer than the wait for another try.
const AGAIN: Duration = Duration::from_secs(6);
const PULLED: Duration = Duration::from_secs(100);
