//! A mesh over RabbitMQ while its parts are killed, stopped and cut off: nothing that was acknowledged is lost, nothing is
//! recorded twice, and who waits does not run in circles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::{Publisher, Site};
use live_tests::{Disk, eventually};
use mesh_amqp::AmqpNode;
use mesh_auth::creds::Credentials;
use mesh_auth::tls::Authority;
use mesh_model::{Generation, Seq};
use mesh_testkit::rabbitmq::Shape;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const STEADY: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n";
const GREETER: &str = "[run]\ncommand = [\"hello-greeter\"]\n[events]\nemits = [\"greeted\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reports_held_at_kill_9_are_the_brokers_again_and_each_is_recorded_once()
-> anyhow::Result<()> {
    let site = tokio::task::spawn_blocking(Site::over_amqp).await??;
    let Some(mut site) = site else {
        return Ok(());
    };
    let Some(disk) = Disk::mount(&site.state_dir().join("store"), 64)? else {
        return Ok(());
    };
    site.start_controller().await?;
    let mut nodes = Vec::new();
    for node in ["bare", "bald"] {
        site.join(node).await?;
        nodes.push((
            node,
            site.declared(node).await?,
            site.amqp_publisher(node).await?,
        ));
    }
    disk.fill()?;
    // The store has some room of its own for a while; from the first that it does not take it takes none.
    let mut next = 0;
    while held(&site).await? < HELD {
        let rest = HELD - held(&site).await?;
        let some = if rest == HELD { 1 } else { rest };
        for _ in 0..some {
            ensure!(next < 120, "the full disk takes everything");
            let (_, _, publisher) = nodes.get_mut(next % 2).context("one of two")?;
            publisher.report(100_000).await?;
            next += 1;
        }
        eventually(DEADLINE, "they are recorded or held", async || {
            let recorded = recorded(&site, &nodes).await.unwrap_or_default();
            Ok(usize::try_from(held(&site).await?)? + recorded == next || recorded == next)
        })
        .await?;
    }
    eventually(DEADLINE, "all of them are out", async || {
        Ok(site.queue("ctl.report")? == (0, HELD))
    })
    .await?;

    site.kill_controller()?;
    eventually(DEADLINE, "the broker has them back", async || {
        Ok(site.queue("ctl.report")? == (HELD, 0))
    })
    .await?;
    disk.free()?;
    site.start_controller().await?;
    for (node, about, publisher) in &nodes {
        recorded_once(&site, node, *about, publisher).await?;
    }
    eventually(DEADLINE, "the queue is empty", async || {
        Ok(site.queue("ctl.report")? == (0, 0) && held(&site).await? == 0)
    })
    .await?;
    Ok(())
}

/// So many, of which the store keeps the newest 64 of each node.
const HELD: u64 = 100;

/// Every report the broker confirmed is in the store, once, and nothing else is.
async fn recorded_once(
    site: &Site,
    node: &str,
    about: Generation,
    publisher: &Publisher<AmqpNode>,
) -> anyhow::Result<()> {
    let confirmed: BTreeSet<Seq> = publisher.confirmed().iter().copied().collect();
    let what = format!("every report of node {node} is recorded");
    eventually(DEADLINE, &what, async || {
        Ok(site.reported(node, about).await?.is_superset(&confirmed))
    })
    .await?;
    let list = site.json(&["reports", node]).await?;
    ensure!(
        items(&list).len() == confirmed.len(),
        "of {} reports: {list}",
        confirmed.len()
    );
    Ok(())
}

/// How many reports of these nodes the store holds.
async fn recorded(
    site: &Site,
    nodes: &[(&str, Generation, Publisher<AmqpNode>)],
) -> anyhow::Result<usize> {
    let mut recorded = 0;
    for (node, _, _) in nodes {
        recorded += items(&site.json(&["reports", node]).await?).len();
    }
    Ok(recorded)
}

fn items(list: &Value) -> &[Value] {
    let items = list.get("items").and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

async fn held(site: &Site) -> anyhow::Result<u64> {
    let status = site.status().await?;
    let held = status.pointer("/window/held").and_then(Value::as_u64);
    held.with_context(|| format!("nobody says what is held: {status}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_broker_is_away_modules_run_nobody_runs_in_circles_and_nothing_is_lost()
-> anyhow::Result<()> {
    let site = tokio::task::spawn_blocking(|| Site::over_own_broker(&Shape::default())).await??;
    let Some(mut site) = site else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("one").await?;
    site.start_agent("one")?;
    let listener = listener(&site);
    site.apply(&[
        ("steady", STEADY, &["one"]),
        ("fragile", STEADY, &["one"]),
        ("greeter", GREETER, &["one"]),
        ("listener", &listener, &["one"]),
    ])
    .await?;
    eventually(DEADLINE, "events are followed", async || {
        Ok(heard(&site) >= 2)
    })
    .await?;
    let about = site.declared("one").await?;
    let unharmed = ["steady", "greeter", "listener"];
    let pids = |site: &Site| -> anyhow::Result<Vec<u32>> {
        unharmed.iter().map(|it| site.pid("one", it)).collect()
    };
    let (before, fragile) = (pids(&site)?, site.pid("one", "fragile")?);

    tokio::task::block_in_place(|| site.broker()?.stop())?;
    // Its node has something to say now, and nobody to say it to.
    let pid = i32::try_from(fragile).ok().and_then(Pid::from_raw);
    kill_process(pid.context("a process has a number")?, Signal::KILL)?;
    nobody_runs_in_circles(&site, fragile).await?;
    ensure!(pids(&site)? == before, "what was well was started again");
    let after = site.pid("one", "fragile")?;
    ensure!(after != fragile, "it was killed");
    site.agent_runs("one")?;
    site.controller_runs()?;

    tokio::task::block_in_place(|| site.broker()?.start_again())?;
    site.settled().await?;
    let newest = newest_of(&site, "one")?;
    eventually(DEADLINE, "what came to pass is reported", async || {
        Ok(site.reported("one", about).await?.contains(&newest))
    })
    .await?;
    let heard_before = heard(&site);
    eventually(DEADLINE, "events are followed again", async || {
        Ok(heard(&site) > heard_before + 2)
    })
    .await?;
    site.ready("one").await?;
    ensure!(pids(&site)? == before, "what was well was started again");
    ensure!(site.pid("one", "fragile")? == after, "it was started twice");
    no_secret_is_logged(&site, &["one"]).await?;
    Ok(())
}

/// For as long as the broker is away nobody takes much of a processor, nor says the same for ever; but for `gone`, which
/// is about to end.
async fn nobody_runs_in_circles(site: &Site, gone: u32) -> anyhow::Result<()> {
    let lines = |log: String| log.lines().count();
    let said = || lines(site.controller_log()) + lines(site.agent_log("one"));
    let mut watched = site.everything();
    watched.retain(|process| process.pid != gone);
    let used = watched.iter().map(|process| ticks(process.pid));
    let used: Vec<u64> = used.collect::<anyhow::Result<_>>()?;
    let said_before = said();
    tokio::time::sleep(outage()).await;
    for (process, used) in watched.iter().zip(used) {
        let share = (ticks(process.pid)? - used) * 100 / (outage().as_secs() * TICKS);
        ensure!(share < 10, "{process:?} takes {share} % of a core");
    }
    let more = said() - said_before;
    ensure!(more < 60, "{more} lines in the logs");
    Ok(())
}

/// How long the broker is away: long enough for who waits to have come to the longest pauses.
fn outage() -> Duration {
    let long = mesh_testkit::in_ci() || std::env::var_os("MESH_TEST_LONG").is_some();
    Duration::from_secs(if long { 60 } else { 20 })
}

/// What a process has used of the processors, in hundredths of a second.
fn ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before this may hold anything.
    let (_, rest) = stat.rsplit_once(')').context("a process has a name")?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system) = (fields.next(), fields.next());
    Ok(user.context("stat")?.parse::<u64>()? + system.context("stat")?.parse::<u64>()?)
}

/// What Linux counts a second in.
const TICKS: u64 = 100;

/// What an agent says it reported last.
fn newest_of(site: &Site, node: &str) -> anyhow::Result<Seq> {
    let remembered = std::fs::read(site.home(node).join("remembered.json"))?;
    let remembered: Value = serde_json::from_slice(&remembered)?;
    let newest = remembered.get("seq").and_then(Value::as_u64);
    Ok(Seq(newest.context("the agent counts its reports")?))
}

/// Nothing that somebody logs in with, or signs with, stands in what the programs said.
async fn no_secret_is_logged(site: &Site, nodes: &[&str]) -> anyhow::Result<()> {
    let token = site.token("two").await?;
    let mut secrets = vec![site.broker()?.management().credentials()?.1, token];
    for key in files(&site.state_dir().join("keys"))? {
        let text = std::fs::read_to_string(key)?;
        // A key is one line; what stands around one in PEM is nobody's secret.
        let lines = text.lines().filter(|line| line.len() > 40);
        secrets.extend(lines.map(str::to_owned));
    }
    for found in files(site.dir())? {
        if found.extension().is_some_and(|it| it == "creds") {
            let own = Credentials::read(&found)?;
            let seed = own.key().seed().expose().to_owned();
            secrets.push(mesh_amqp::Credential::of_seed(&seed).password().to_owned());
            secrets.push(seed);
        }
    }
    ensure!(secrets.len() > 4, "there are more secrets than these");
    let agents = nodes.iter().map(|node| site.agent_log(node));
    let logs: Vec<String> = agents.chain([site.controller_log()]).collect();
    for log in &logs {
        ensure!(log.contains("INFO"), "it says nothing: {log:?}");
        let told = secrets.iter().filter(|it| log.contains(it.as_str()));
        ensure!(told.count() == 0, "a secret is in a log");
    }
    Ok(())
}

/// Every file below a folder.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn listener(site: &Site) -> String {
    let out = site.dir().join("out").display().to_string();
    format!(
        "[run]\ncommand = [\"hello-listener\"]\nenv = {{ HELLO_OUT = {out:?} }}\n[events]\nfollows = [\"greeter.greeted\"]\n"
    )
}

fn heard(site: &Site) -> usize {
    let text = std::fs::read_to_string(site.dir().join("out/listener.log"));
    text.unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_a_mesh_is_the_same_and_who_trusts_another_authority_is_told() -> anyhow::Result<()>
{
    let made = tokio::task::spawn_blocking(Site::over_amqps).await??;
    let Some((mut site, authority)) = made else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("one").await?;
    site.start_agent("one")?;
    let listener = listener(&site);
    site.apply(&[
        ("greeter", GREETER, &["one"]),
        ("listener", &listener, &["one"]),
    ])
    .await?;
    let about = site.declared("one").await?;
    ensure!(!site.reported("one", about).await?.is_empty());
    eventually(DEADLINE, "events are followed", async || {
        Ok(heard(&site) >= 2)
    })
    .await?;
    let doctor = site.ctl(&["doctor"]).await?;
    ensure!(
        doctor.out.contains("connections are encrypted"),
        "{doctor:?}"
    );

    let other = Authority::generate(mesh_host::now().as_millis() / 1000)?;
    site.stop_controller().await?;
    site.tell_controller(Some(other.certificate_pem()))?;
    let refused = site.refused_controller().await?;
    ensure!(refused.err.contains(UNVOUCHED), "{refused:?}");
    site.kill_agent("one")?;
    let own = site.home("one").join("ca.pem");
    std::fs::write(&own, other.certificate_pem())?;
    site.start_agent("one")?;
    eventually(DEADLINE, "it is told", async || {
        Ok(site.agent_log("one").contains(UNVOUCHED))
    })
    .await?;

    // And who trusts the right one again goes on.
    site.kill_agent("one")?;
    std::fs::write(&own, authority.certificate_pem())?;
    site.tell_controller(Some(authority.certificate_pem()))?;
    site.start_controller().await?;
    site.start_agent("one")?;
    site.ready("one").await?;
    Ok(())
}

/// What is said of a broker that somebody else vouches for.
const UNVOUCHED: &str = "does not vouch for the broker's certificate";
const DEADLINE: Duration = Duration::from_mins(1);
