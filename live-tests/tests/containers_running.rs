//! Containers as they run: what they are given, what is left alone, and what is put right.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::containers::{CREDENTIAL, Host, Yard, fetch, fetched, free_port, published};
use live_tests::{eventually, on_both_engines};
use mesh_model::{Health, ModuleState, Port, Probe, Restart};
use mesh_testkit::engine::{Kind, Shape};
use mesh_testkit::registry::{Auth, Image};
use serde_json::{Value, json};
use tokio::time::timeout;

on_both_engines!(
    async:
    a_container_is_given_what_was_declared_byte_for_byte,
    what_the_mesh_did_not_make_is_never_touched,
    a_port_that_is_taken_is_said_and_had_once_it_is_free,
    what_runs_goes_on_under_the_next_agent_and_what_is_declared_no_more_goes,
    a_container_that_somebody_ends_or_removes_is_put_back_and_counted,
    an_engine_is_killed_and_stopped_under_a_module_that_runs_again,
    twenty_orders_in_a_row_end_at_the_last,
    a_release_that_is_not_healthy_gives_way_to_the_one_before,
    a_program_that_is_not_there_is_said,
    what_a_container_says_is_read,
);

/// An engine that has the program of tests, and where it is found.
fn yard(kind: Kind, arguments: &[&str]) -> anyhow::Result<Option<(Yard, String)>> {
    let Some(yard) = Yard::own(kind, Auth::None, Shape::default())? else {
        return Ok(None);
    };
    let image = Image::running(arguments)?;
    let image = yard.registry.push("tests/program", "1", &image)?;
    let tagged = image.tagged(yard.registry.at());
    Ok(Some((yard, tagged)))
}

/// A container's port 80 on a port of loopback.
fn on_loopback(port: u16) -> anyhow::Result<Port> {
    Ok(format!("127.0.0.1:{port}:80").parse()?)
}

/// What tells one life of a container from another.
fn life(found: &Value) -> (Option<&Value>, Option<&Value>) {
    (found.pointer("/Id"), found.pointer("/State/StartedAt"))
}

async fn a_container_is_given_what_was_declared_byte_for_byte(kind: Kind) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let port = free_port()?;
    let values = [
        ("DOLLAR", "abc$def ${HOME} $$ `id`"),
        ("LINES", "-----BEGIN\nline 2\n\n-----END\n"),
        ("SPACES", "  foo bar \t"),
        ("QUOTES", "a\"b'c\\d"),
        ("EMPTY", ""),
    ];
    let (outer, kept) = (on_loopback(port)?, "kept:/kept".parse()?);
    let wanted = host.wants("given", "1", &image, |workload, container| {
        let env = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        workload.env = env.into();
        container.ports = [outer].into();
        container.volumes = [kept].into();
        container.resources.memory = Some(64 << 20);
        container.resources.millicpus = Some(500);
    })?;
    let reads = host.wants("reads", "1", &image, |workload, container| {
        container.args = vec!["cat".to_owned(), "/run/mesh/creds".to_owned()];
        workload.restart = Restart::Never;
    })?;
    host.apply(vec![wanted, reads]).await?;
    host.runs("given").await?;
    let said = fetched(port, "/env")?.text();
    let found: BTreeMap<&str, &str> = said.lines().filter_map(|it| it.split_once('=')).collect();
    for (name, value) in values {
        let expected = format!("{value:?}");
        ensure!(found.get(name) == Some(&&*expected), "{name}: {said}");
    }
    ensure!(found.get("MESH_MODULE") == Some(&"\"given\""), "{said}");

    let made = yard.only("given")?;
    let host_config = |key: &str| made.pointer(&format!("/HostConfig/{key}")).cloned();
    ensure!(host_config("Memory") == Some(json!(64 << 20)), "{made}");
    ensure!(
        host_config("NanoCpus") == Some(json!(500_000_000)),
        "{made}"
    );
    let policy = host_config("RestartPolicy/Name");
    ensure!(
        policy == Some(json!("no")) || policy == Some(json!("")),
        "{made}"
    );
    log_is_limited(&yard, &made)?;

    host.until("reads", "it ended", |it| it.state == ModuleState::Ended)
        .await?;
    let id = yard.only("reads")?;
    let said = yard.says(id.pointer("/Id").and_then(Value::as_str).context("id")?)?;
    ensure!(said.contains(CREDENTIAL), "{said}");
    for found in [&made, &id] {
        ensure!(!found.to_string().contains(CREDENTIAL), "{found}");
    }
    Ok(())
}

/// A log without a limit fills the disk. Podman says its own in words of its own, and knows of one file alone.
fn log_is_limited(yard: &Yard, made: &Value) -> anyhow::Result<()> {
    if yard.engine.kind() == Kind::Docker {
        let config = made.pointer("/HostConfig/LogConfig/Config");
        let config = config.with_context(|| made.to_string())?;
        let limit = |key: &str| config.get(key).and_then(Value::as_str);
        ensure!(limit("max-size") == Some("10m"), "{config}");
        ensure!(limit("max-file") == Some("3"), "{config}");
        return Ok(());
    }
    let id = made.pointer("/Id").and_then(Value::as_str).context("id")?;
    let made = yard.engine.libpod(&format!("/containers/{id}/json"))?;
    let size = made.pointer("/HostConfig/LogConfig/Size");
    ensure!(size == Some(&json!("10MB")), "{made}");
    Ok(())
}

async fn what_the_mesh_did_not_make_is_never_touched(kind: Kind) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let one = host.wants("one", "1", &image, |_, _| {})?;
    host.apply(vec![one.clone()]).await?;
    host.runs("one").await?;
    let name = yard.only("one")?;
    let name = name.get("Name").and_then(Value::as_str).context("a name")?;
    let name = name.trim_start_matches('/').to_owned();
    host.apply(vec![]).await?;
    ensure!(yard.of_module("one")?.is_empty(), "it is still there");

    let pushed = yard
        .registry
        .push("tests/foreign", "1", &Image::running(&["serve", "80"])?)?;
    let theirs = yard.run("theirs", &pushed, &json!({}))?;
    let taken = yard.run(&name, &pushed, &json!({}))?;
    let before = [yard.runs(&theirs)?, yard.runs(&taken)?];
    host.apply(vec![one]).await?;
    let refused = host.says("one", &["is taken by a container"]).await?;
    ensure!(
        refused
            .reason
            .is_some_and(|reason| reason.contains(&name) && reason.contains("not touched")),
    );
    ensure!(yard.of_module("one")?.is_empty(), "it runs all the same");
    let path = format!("/containers/{taken}?force=true");
    let after = [yard.runs(&theirs)?, yard.runs(&taken)?];
    ensure!(before == after, "{before:?} {after:?}");

    yard.engine.ask("DELETE", &path, None)?.ok()?;
    host.runs("one").await?;
    host.apply(vec![]).await?;
    let left = yard.engine.containers()?;
    ensure!(left == [theirs.clone()], "{left:?}");
    ensure!(
        Some(&yard.runs(&theirs)?) == before.first(),
        "it was touched"
    );
    Ok(())
}

async fn a_port_that_is_taken_is_said_and_had_once_it_is_free(kind: Kind) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port();
    let by_another = free_port()?;
    let pushed = yard
        .registry
        .push("tests/foreign", "1", &Image::running(&["serve", "80"])?)?;
    let theirs = yard.run("theirs", &pushed, &published(by_another))?;
    let before = yard.runs(&theirs)?;
    let on = |module: &str, port: u16| {
        let outer = on_loopback(port)?;
        host.wants(module, "1", &image, |_, container| {
            container.ports = [outer].into();
        })
    };
    let all = vec![on("process", port)?, on("container", by_another)?];
    host.apply(all).await?;
    host.says("process", &["port"]).await?;
    host.says("container", &["port"]).await?;
    // Podman's own start takes a rule away before it finds that the port is taken, and with it the other's way.
    if kind == Kind::Docker {
        ensure!(fetched(by_another, "/")?.status == 200, "it was touched");
    }
    ensure!(yard.runs(&theirs)? == before, "it was touched");

    drop(taken);
    host.runs("process").await?;
    ensure!(fetched(port, "/")?.status == 200);
    let path = format!("/containers/{theirs}?force=true");
    yard.engine.ask("DELETE", &path, None)?.ok()?;
    host.runs("container").await?;
    ensure!(fetched(by_another, "/")?.status == 200);
    host.apply(vec![]).await?;
    ensure!(fetch(port, "/").is_err(), "it still serves");
    Ok(())
}

async fn what_runs_goes_on_under_the_next_agent_and_what_is_declared_no_more_goes(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let mut host = Host::open(&yard).await?;
    let stays = host.wants("stays", "1", &image, |_, _| {})?;
    let goes = host.wants("goes", "1", &image, |_, _| {})?;
    let both = vec![stays.clone(), goes];
    host.apply(both.clone()).await?;
    let before = host.runs("stays").await?;
    host.runs("goes").await?;
    let (began, other) = (yard.only("stays")?, yard.only("goes")?);

    host = host.reopen().await?;
    host.apply(both).await?;
    let after = host.runs("stays").await?;
    host.runs("goes").await?;
    ensure!(
        (after.image, after.restarts, after.repairs)
            == (before.image, before.restarts, before.repairs)
    );
    ensure!(life(&yard.only("stays")?) == life(&began));
    ensure!(life(&yard.only("goes")?) == life(&other));

    host = host.reopen().await?;
    host.apply(vec![stays]).await?;
    host.runs("stays").await?;
    ensure!(life(&yard.only("stays")?) == life(&began));
    eventually(SOON, "what is declared no more goes", async || {
        Ok(yard.of_module("goes")?.is_empty())
    })
    .await?;
    Ok(())
}

async fn a_container_that_somebody_ends_or_removes_is_put_back_and_counted(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let wanted = host.wants("drifts", "1", &image, |_, _| {})?;
    host.apply(vec![wanted]).await?;
    host.runs("drifts").await?;
    let first = yard.only("drifts")?;
    let id = |found: &Value| {
        let id = found.pointer("/Id").and_then(Value::as_str);
        id.map(str::to_owned).context("id")
    };
    let path = format!("/containers/{}/kill", id(&first)?);
    yard.engine.post(&path, None)?;
    let ended = host
        .until("drifts", "it runs again", |it| {
            it.state == ModuleState::Running && it.restarts > 0
        })
        .await?;
    let second = yard.only("drifts")?;
    ensure!(life(&second) != life(&first), "{second}");

    let path = format!("/containers/{}?force=true", id(&second)?);
    yard.engine.ask("DELETE", &path, None)?.ok()?;
    let again = host
        .until("drifts", "it is put back", |it| {
            // Docker's engine ends it before it removes it, and either may be seen first.
            it.state == ModuleState::Running
                && it.restarts + it.repairs > ended.restarts + ended.repairs
        })
        .await?;
    ensure!(again.reason.is_none(), "{again:?}");
    ensure!(id(&yard.only("drifts")?)? != id(&second)?);
    Ok(())
}

async fn an_engine_is_killed_and_stopped_under_a_module_that_runs_again(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let port = free_port()?;
    let outer = on_loopback(port)?;
    let wanted = host.wants("lives", "1", &image, |_, container| {
        container.ports = [outer].into();
    })?;
    host.apply(vec![wanted]).await?;
    host.runs("lives").await?;
    fetched(port, "/")?;
    let began = yard.only("lives")?;
    for ends in ["kill", "stop"] {
        match ends {
            "kill" => yard.engine.kill()?,
            _ => yard.engine.stop()?,
        }
        host.says("lives", &["engine is away"]).await?;
        yard.engine.start_again()?;
        let runs = host.runs("lives").await?;
        ensure!(runs.release == "1", "{runs:?}");
        ensure!(fetched(port, "/")?.status == 200, "after {ends}");
        let now = yard.only("lives")?;
        if kind == Kind::Podman {
            // Its containers are none of its service's.
            ensure!(life(&now) == life(&began), "after {ends}: {now}");
        }
        ensure!(now.pointer("/Id") == began.pointer("/Id"), "after {ends}");
    }
    Ok(())
}

async fn twenty_orders_in_a_row_end_at_the_last(kind: Kind) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let others = host.wants("others", "1", &image, |_, _| {})?;
    host.apply(vec![others.clone()]).await?;
    host.runs("others").await?;
    let began = yard.only("others")?;
    for nth in 1..=20_u64 {
        let release = nth.to_string();
        let wanted = host.wants("turns", &release, &image, |workload, _| {
            workload.env = [("NTH".to_owned(), release.clone())].into();
        })?;
        let applied = host.apply(vec![wanted, others.clone()]);
        if nth == 20 {
            applied.await?;
        } else {
            // Given up, as an agent does when a newer declaration comes.
            let _given_up = timeout(Duration::from_millis(37 * (nth % 6)), applied).await;
        }
    }
    let runs = host
        .until("turns", "the last runs", |it| {
            it.state == ModuleState::Running && it.release == "20"
        })
        .await?;
    ensure!(runs.reason.is_none(), "{runs:?}");
    eventually(SOON, "none is left of the others", async || {
        Ok(yard.of_module("turns")?.len() == 1)
    })
    .await?;
    let last = yard.only("turns")?;
    let env = last.pointer("/Config/Env").context("env")?.to_string();
    ensure!(env.contains("NTH=20"), "{env}");
    ensure!(
        life(&yard.only("others")?) == life(&began),
        "it was touched"
    );
    Ok(())
}

async fn a_release_that_is_not_healthy_gives_way_to_the_one_before(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let port = free_port()?;
    let release = |release: &str, status: &str| {
        let outer = on_loopback(port)?;
        host.wants("gated", release, &image, |workload, container| {
            container.args = ["serve", "80", status].map(str::to_owned).into();
            container.ports = [outer].into();
            workload.health = Some(Health {
                probe: Probe::Http(format!("http://127.0.0.1:{port}/")),
                every: 200,
                within: 3_000,
            });
        })
    };
    host.apply(vec![release("1", "200")?]).await?;
    host.runs("gated").await?;
    host.apply(vec![release("2", "503")?]).await?;
    let back = host.says("gated", &["runs again"]).await?;
    ensure!(back.release == "1", "{back:?}");
    eventually(SOON, "the one before serves", async || {
        Ok(fetch(port, "/").is_ok_and(|it| it.status == 200))
    })
    .await?;
    eventually(SOON, "the bad one is gone", async || {
        Ok(yard.of_module("gated")?.len() == 1)
    })
    .await?;
    host.apply(vec![release("3", "200")?]).await?;
    let runs = host.runs("gated").await?;
    ensure!(runs.release == "3", "{runs:?}");

    // Asked inside the container.
    let inside = |release: &str, code: &str| {
        host.wants("inside", release, &image, |workload, _| {
            let exec = ["/program", "check", code].map(str::to_owned);
            workload.health = Some(Health {
                probe: Probe::Exec(exec.into()),
                every: 200,
                within: 3_000,
            });
        })
    };
    host.apply(vec![inside("1", "0")?]).await?;
    host.runs("inside").await?;
    host.apply(vec![inside("2", "1")?]).await?;
    Ok(())
}

async fn a_program_that_is_not_there_is_said(kind: Kind) -> anyhow::Result<()> {
    let Some((yard, good)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let mut image = Image::running(&[])?;
    image.entrypoint = vec!["/nothing".to_owned()];
    let image = yard.registry.push("tests/nothing", "1", &image)?;
    let host = Host::open(&yard).await?;
    let bad = host.wants("bad", "1", &image.tagged(yard.registry.at()), |_, _| {})?;
    let other = host.wants("other", "1", &good, |_, _| {})?;
    host.apply(vec![bad, other]).await?;
    host.says("bad", &["cannot be started"]).await?;
    host.runs("other").await?;
    let mends = host.wants("bad", "2", &good, |_, _| {})?;
    host.apply(vec![mends]).await?;
    host.runs("bad").await?;
    yard.only("bad")?;
    Ok(())
}

async fn what_a_container_says_is_read(kind: Kind) -> anyhow::Result<()> {
    let Some((yard, image)) = yard(kind, &["serve", "80"])? else {
        return Ok(());
    };
    let host = Host::open(&yard).await?;
    let wanted = host.wants("says", "1", &image, |_, _| {})?;
    host.apply(vec![wanted]).await?;
    host.runs("says").await?;
    let tail = mesh_runtime::Tail {
        lines: 10,
        follow: false,
    };
    let module = "says".parse()?;
    let mut logs = host.runtime().logs(&module, tail).await?;
    let line = timeout(SOON, logs.next()).await?.context("a line")??;
    ensure!(line.bytes == b"serving on 80", "{line:?}");
    Ok(())
}

const SOON: Duration = Duration::from_secs(20);
