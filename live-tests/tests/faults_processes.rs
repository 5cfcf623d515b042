//! The real programs, killed without a word: nothing that was acknowledged is lost, nothing runs twice, and what was
//! healthy was not touched.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::{Process, Publisher, Site};
use live_tests::eventually;
use mesh_model::{Generation, Seq};
use serde_json::Value;

const STEADY: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n";
/// Ends at once, for ever: its node has something to report each time.
const FLAKY: &str = "[run]\ncommand = [\"sh\", \"-c\", \"sleep 0.2; exit 1\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_report_survives_kill_9_of_the_controller_while_reports_flow()
-> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    for node in ["one", "two", "bare"] {
        site.join(node).await?;
    }
    site.start_agent("one")?;
    site.start_agent("two")?;
    let both: &[&str] = &["one", "two"];
    let steady = run_both(&site, both).await?;
    let server = site.server()?;
    let mut publisher = site.publisher("bare").await?;
    let about = site.declared("bare").await?;

    for _ in 0..KILLS {
        // Mid-flow: the publisher is ahead of the store, by as much as the store is slower than the bus.
        publish(&mut publisher, 8).await?;
        site.kill_controller()?;
        publish(&mut publisher, 3).await?;
        let (started, published) =
            tokio::join!(site.start_controller(), publish(&mut publisher, 4));
        started?;
        published?;
        ensure!(site.server()? == server, "the server was not adopted");
        let now = pids(&site, "steady")?;
        ensure!(now == steady, "healthy processes: {steady:?}, now {now:?}");
        for node in both {
            let starts = starts(&site.processes(node, "flaky"));
            ensure!(
                starts.len() < 2,
                "flaky runs twice on node {node}: {starts:?}"
            );
        }
    }

    let confirmed: BTreeSet<Seq> = publisher.confirmed().iter().copied().collect();
    ensure!(confirmed.len() == KILLS * 15, "{confirmed:?}");
    all_are_stored(&site, about, &confirmed).await?;
    ensure!(
        site.declared("bare").await? == about,
        "it was declared anew"
    );

    for node in both {
        its_newest_report_is_stored(&site, node).await?;
    }
    ensure!(
        !site.controller_log().contains("panicked"),
        "a controller panicked"
    );
    Ok(())
}

/// How often the controller is killed. The store keeps the newest 64 reports of a node, and each round makes 15.
const KILLS: usize = 4;

/// Declares a healthy and a failing module on each node, and gives the processes of the healthy one.
async fn run_both(site: &Site, nodes: &[&str]) -> anyhow::Result<(u32, u32)> {
    let mesh = site.mesh(&[("steady", STEADY, nodes), ("flaky", FLAKY, nodes)])?;
    let mesh = mesh.display().to_string();
    // A module that fails for ever is never what it was declared to be, so nobody waits for that.
    site.ctl(&["apply", "--no-wait", &mesh]).await?.ok()?;
    let mut steady = None;
    eventually(DEADLINE, "the modules run", async || {
        steady = pids(site, "steady").ok();
        Ok(steady.is_some())
    })
    .await?;
    steady.context("they run")
}

async fn all_are_stored(
    site: &Site,
    about: Generation,
    confirmed: &BTreeSet<Seq>,
) -> anyhow::Result<()> {
    let mut missing = confirmed.clone();
    let stored = eventually(DEADLINE, "every report is stored", async || {
        let stored = site.reported("bare", about).await?;
        missing = confirmed.difference(&stored).copied().collect();
        Ok(missing.is_empty())
    })
    .await;
    ensure!(
        stored.is_ok(),
        "confirmed by the bus and not in the store: {missing:?}"
    );
    Ok(())
}

async fn publish(publisher: &mut Publisher, reports: usize) -> anyhow::Result<()> {
    for _ in 0..reports {
        publisher.report(20).await?;
    }
    Ok(())
}

/// The one process of a module on each of the two nodes.
fn pids(site: &Site, module: &str) -> anyhow::Result<(u32, u32)> {
    Ok((site.pid("one", module)?, site.pid("two", module)?))
}

/// Which starts of a module these processes are of.
fn starts(processes: &[Process]) -> BTreeSet<Option<String>> {
    let start = |process: &Process| process.variable("MESH_INSTANCE");
    processes.iter().map(start).collect()
}

/// What the agent itself says it reported last.
async fn its_newest_report_is_stored(site: &Site, node: &str) -> anyhow::Result<()> {
    let remembered = std::fs::read(site.home(node).join("remembered.json"))?;
    let remembered: Value = serde_json::from_slice(&remembered)?;
    let newest = remembered.get("seq").and_then(Value::as_u64);
    let newest = Seq(newest.context("the agent counts its reports")?);
    let about = site.declared(node).await?;
    let what = format!("report {newest} of node {node} is in the store");
    eventually(DEADLINE, &what, async || {
        Ok(site.reported(node, about).await?.contains(&newest))
    })
    .await?;
    Ok(())
}

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_an_agent_leaves_its_processes_running_and_they_are_adopted() -> anyhow::Result<()>
{
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("one").await?;
    site.start_agent("one")?;
    let steady: &[&str] = &["steady", "other"];
    let modules: Vec<_> = steady
        .iter()
        .map(|module| (*module, STEADY, &["one"][..]))
        .collect();
    site.apply(&modules).await?;
    let before = (site.pid("one", "steady")?, site.pid("one", "other")?);

    for _ in 0..3 {
        site.kill_agent("one")?;
        let running = (site.pid("one", "steady")?, site.pid("one", "other")?);
        ensure!(running == before, "they ended with their agent");
        // And killed again as soon as the next one has taken the directory, while it takes over what is in it.
        site.start_agent("one")?;
        eventually(DEADLINE, "the next agent takes over", async || {
            site.agent_runs("one")?;
            let mut status = site.agent("one")?;
            status.arg("status");
            let status = site.run(status).await?.ok()?;
            Ok(status.contains("agent     running"))
        })
        .await?;
    }

    // Adopted is more than left alone: what is no longer declared ends, the rest is not touched.
    site.apply(&modules[..1]).await?;
    ensure!(
        site.pid("one", "steady")? == before.0,
        "an unchanged module was restarted"
    );
    let gone = site.processes("one", "other").is_empty();
    ensure!(gone, "a module goes on that is not declared");
    site.agent_runs("one")?;
    Ok(())
}
