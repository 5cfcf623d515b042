//! A store that is not the one it was: a copy on an empty bus brings everything back, one that lost what it had promised
//! goes nowhere.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use live_tests::Tool;
use live_tests::binaries::{Site, created_at, declared_at};

const STEADY: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_on_a_copy_of_its_store_and_an_empty_bus_brings_everything_back_before_it_declares()
-> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    // The same place for every bus to come, as in a configuration somebody wrote.
    let port = site.server()?.1;
    let text = format!("version = 1\n[bus.nats]\nport = {port}\n");
    site.write("controller.toml", &text)?;
    for node in ["one", "two"] {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    site.apply(&[("steady", STEADY, &["one", "two"])]).await?;
    let steady = (site.pid("one", "steady")?, site.pid("two", "steady")?);

    site.stop_controller().await?;
    copy(
        site.state_dir(),
        &site.dir().join("copy"),
        &["keys", "tls", "store"],
    )?;
    site.start_controller().await?;
    // What the copy knows nothing of, and the nodes have applied.
    let more: &[&str] = &["one", "two"];
    site.apply(&[("steady", STEADY, more), ("later", STEADY, more)])
        .await?;
    let before = site.declared("one").await?;
    site.stop_controller().await?;

    site.use_state_dir("copy");
    site.start_controller().await?;
    brought_back(&mut site, steady).await?;
    let on_copy = site.declared("one").await?;
    ensure!(
        on_copy.incarnation > before.incarnation,
        "{before} became {on_copy}"
    );

    // Once more, through the file an operator keeps.
    site.stop_controller().await?;
    let file = site.dir().join("mesh.backup");
    let mut backup = site.controller()?;
    backup.arg("backup").arg(&file);
    site.run(backup).await?.ok()?;
    let mode = fs::metadata(&file)?.permissions().mode() & 0o777;
    ensure!(
        mode == 0o600,
        "others may read the keys in a backup: {mode:o}"
    );
    // The copy goes on, and is newer than its backup again.
    site.start_controller().await?;
    site.apply(&[("steady", STEADY, more), ("later", STEADY, more)])
        .await?;
    let before = site.declared("one").await?;
    site.stop_controller().await?;
    site.use_state_dir("restored");
    let mut restore = site.controller()?;
    restore.arg("restore").arg(&file);
    site.run(restore).await?.ok()?;
    site.start_controller().await?;
    brought_back(&mut site, steady).await?;
    let restored = site.declared("one").await?;
    ensure!(
        restored.incarnation > before.incarnation,
        "{before} became {restored}"
    );
    Ok(())
}

/// Both nodes hear a controller that knows of `steady` alone, on a bus that was complete before they were told.
async fn brought_back(site: &mut Site, steady: (u32, u32)) -> anyhow::Result<()> {
    let tool = site.tool().await?;
    for node in ["one", "two"] {
        site.ready(node).await?;
        complete_before(&tool, node).await?;
        site.agent_runs(node)?;
        let later = site.processes(node, "later");
        ensure!(
            later.is_empty(),
            "node {node} runs what is not declared: {later:?}"
        );
    }
    let now = (site.pid("one", "steady")?, site.pid("two", "steady")?);
    ensure!(now == steady, "healthy processes {steady:?} became {now:?}");
    Ok(())
}

/// Every stream and each node's consumer are older than what this node was told first on this bus.
async fn complete_before(tool: &Tool, node: &str) -> anyhow::Result<()> {
    let told = declared_at(tool, node).await?;
    for (stream, consumer) in [
        ("NODES", None),
        ("CONTROL", None),
        ("EVENTS", None),
        ("PARKED", None),
        ("NODES", Some("one")),
        ("NODES", Some("two")),
        ("CONTROL", Some("controller")),
    ] {
        let made = created_at(tool, stream, consumer).await?;
        ensure!(
            made <= told,
            "{stream} {consumer:?} was made {made}, and node {node} told {told}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_lost_what_it_promised_refuses_to_start() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    site.stop_controller().await?;
    let (older, newer) = (site.dir().join("older"), site.dir().join("newer"));
    copy(site.state_dir(), &older, &["store"])?;
    site.start_controller().await?;
    site.join("one").await?;
    let revision = site.status().await?.get("revision").cloned();
    site.stop_controller().await?;
    copy(site.state_dir(), &newer, &["store"])?;

    replace(&site, &older)?;
    // Twice: the refusal must not be what makes the next start pass. It names the commits, which stay what they were.
    let mut reasons = BTreeSet::new();
    for _ in 0..2 {
        let said = site.refused_controller().await?;
        ensure!(said.code == Some(1), "{said:?}");
        for part in ["lost what it had promised", "controller restore"] {
            ensure!(said.err.contains(part), "{part:?} is not said: {said:?}");
        }
        ensure!(!said.err.contains("panicked"), "{said:?}");
        let left = site.everything();
        ensure!(
            left.is_empty(),
            "it left running what it had started: {left:?}"
        );
        reasons.extend(said.err.lines().last().map(str::to_owned));
    }
    ensure!(
        reasons.len() == 1,
        "one refusal changed the next: {reasons:?}"
    );
    // What was there is still there for whoever has it.
    replace(&site, &newer)?;
    site.start_controller().await?;
    ensure!(
        site.status().await?.get("revision").cloned() == revision,
        "another revision"
    );
    site.node("one").await?;
    Ok(())
}

/// Puts the store of another folder in place.
fn replace(site: &Site, from: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(site.state_dir().join("store"))?;
    copy(from, site.state_dir(), &["store"])
}

/// Copies folders of plain files, with their modes.
fn copy(from: &Path, to: &Path, parts: &[&str]) -> anyhow::Result<()> {
    for part in parts {
        let (from, to) = (from.join(part), to.join(part));
        fs::create_dir_all(&to)?;
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))
                .with_context(|| format!("{} is no plain file", entry.path().display()))?;
        }
    }
    Ok(())
}
