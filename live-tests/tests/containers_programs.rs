//! Containers through the programs an operator starts: what is told once, what survives a kill, what ends at the last.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::containers::{Yard, fetched, free_port};
use live_tests::{eventually, on_both_engines};
use mesh_testkit::engine::{Kind, Shape};
use mesh_testkit::registry::{Auth, Flow, Image, Pushed};
use serde_json::{Value, json};

on_both_engines!(
    async:
    a_pull_longer_than_the_ack_wait_is_told_once_and_reported,
    an_agent_that_is_killed_amid_a_pull_is_followed_by_one_that_ends_it,
    what_is_declared_while_no_agent_runs_is_true_once_one_does,
    twenty_declarations_in_a_row_end_at_the_last,
);

/// A mesh of one node whose agent uses an engine of the test's own.
async fn begun(kind: Kind) -> anyhow::Result<Option<(Site, Yard)>> {
    let (Some(yard), Some(mut site)) = (
        Yard::own(kind, Auth::None, Shape::default())?,
        tokio::task::spawn_blocking(Site::new).await??,
    ) else {
        return Ok(None);
    };
    site.start_controller().await?;
    site.join("one").await?;
    let file = site.home("one").join("agent.toml");
    let told = std::fs::read_to_string(&file)?;
    let engine = yard.engine.url();
    std::fs::write(
        &file,
        format!("{told}\n[containers]\nengine = {engine:?}\n"),
    )?;
    site.start_agent("one")?;
    site.ready("one").await?;
    Ok(Some((site, yard)))
}

/// The program of tests with some megabytes that take their time.
fn large(yard: &Yard) -> anyhow::Result<Pushed> {
    let image = Image::running(&["serve", "80"])?.padded(3, 1 << 20)?;
    yard.registry.push("tests/large", "1", &image)
}

fn manifest(image: &str, more: &str) -> String {
    format!("[run]\nimage = {image:?}\n{more}")
}

/// Declares modules on the node, without waiting.
async fn declare(site: &Site, modules: &[(&str, &str)]) -> anyhow::Result<()> {
    let modules: Vec<(&str, &str, &[&str])> = modules
        .iter()
        .map(|(module, rest)| (*module, *rest, &["one"][..]))
        .collect();
    let folder = site.mesh(&modules)?.display().to_string();
    site.ctl(&["apply", &folder, "--no-wait"]).await?.ok()?;
    Ok(())
}

/// Waits until what the node was last told is true there.
async fn converged(site: &mut Site, within: Duration) -> anyhow::Result<()> {
    let waited = eventually(within, "the node converges", async || {
        let node = site.node("one").await?;
        let same = node.get("applied") == node.get("declared");
        Ok(same && node.get("state").and_then(Value::as_str) == Some("ready"))
    })
    .await;
    if waited.is_err() {
        let node = site.node("one").await?;
        waited.with_context(|| format!("{node}\n{}", site.agent_log("one")))?;
    }
    site.agent_runs("one")
}

async fn a_pull_longer_than_the_ack_wait_is_told_once_and_reported(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((mut site, yard)) = begun(kind).await? else {
        return Ok(());
    };
    let tool = site.tool().await?;
    let consumer = async || -> anyhow::Result<Value> {
        let found = tool.api("CONSUMER.INFO.NODES.one", &json!({})).await?;
        found.context("the node has a consumer")
    };
    let told = |found: &Value| {
        found
            .pointer("/delivered/consumer_seq")
            .and_then(Value::as_u64)
    };
    let before = consumer().await?;
    let image = large(&yard)?;
    yard.way.set(Flow::Slow(RATE));
    let wanted = manifest(&image.tagged(yard.way.at()), "");
    declare(&site, &[("slow", &wanted)]).await?;
    tokio::task::block_in_place(|| yard.way.wait_for(100_000, DEADLINE))?;
    // Behind the mesh's back, which would put it right: the ack wait as it is derived is too long for a test.
    site.kill_controller()?;
    let mut config = before.get("config").context("it has a definition")?.clone();
    let nanos = u64::try_from(ACK_WAIT.as_nanos())?;
    *config.get_mut("ack_wait").context("an ack wait")? = json!(nanos);
    let shorter = json!({ "stream_name": "NODES", "config": config, "action": "update" });
    tool.api("CONSUMER.DURABLE.CREATE.NODES.one", &shorter)
        .await?;
    let began = tokio::time::Instant::now();
    eventually(ACK_WAIT * 4, "it is fetched, and runs", async || {
        Ok(!yard.of_module("slow")?.is_empty())
    })
    .await?;
    ensure!(began.elapsed() > ACK_WAIT, "it was no long pull");
    let after = consumer().await?;
    ensure!(
        after.pointer("/config/ack_wait") == Some(&json!(nanos)),
        "somebody put the ack wait right meanwhile: {after}"
    );
    ensure!(
        told(&after) == told(&before).map(|seq| seq + 1),
        "told again: {after}"
    );
    site.start_controller().await?;
    converged(&mut site, DEADLINE).await?;
    let found = yard.only("slow")?;
    ensure!(found.to_string().contains("mesh.owner"), "{found}");
    Ok(())
}

async fn an_agent_that_is_killed_amid_a_pull_is_followed_by_one_that_ends_it(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((mut site, yard)) = begun(kind).await? else {
        return Ok(());
    };
    let image = large(&yard)?;
    let small = Image::running(&["serve", "80"])?;
    let small = yard.registry.push("tests/small", "1", &small)?;
    let stays = manifest(&small.tagged(yard.registry.at()), "");
    declare(&site, &[("stays", &stays)]).await?;
    converged(&mut site, DEADLINE).await?;
    let stands = yard.only("stays")?;

    yard.way.set(Flow::Slow(RATE));
    let wanted = manifest(&image.tagged(yard.way.at()), "");
    declare(&site, &[("stays", &stays), ("killed", &wanted)]).await?;
    tokio::task::block_in_place(|| yard.way.wait_for(100_000, DEADLINE))?;
    site.kill_agent("one")?;
    ensure!(yard.of_module("killed")?.is_empty(), "it runs already");
    site.start_agent("one")?;
    yard.way.set(Flow::Free);
    converged(&mut site, DEADLINE).await?;
    yard.only("killed")?;
    let (same, since) = ("/Id", "/State/StartedAt");
    let now = yard.only("stays")?;
    ensure!(now.pointer(same) == stands.pointer(same), "{now}");
    ensure!(now.pointer(since) == stands.pointer(since), "{now}");
    Ok(())
}

async fn what_is_declared_while_no_agent_runs_is_true_once_one_does(
    kind: Kind,
) -> anyhow::Result<()> {
    let Some((mut site, yard)) = begun(kind).await? else {
        return Ok(());
    };
    let image = Image::running(&["serve", "80"])?;
    let image = yard.registry.push("tests/small", "1", &image)?;
    let theirs = yard.run("theirs", &image, &json!({}))?;
    let before = yard.runs(&theirs)?;
    let plain = manifest(&image.tagged(yard.registry.at()), "");
    declare(&site, &[("goes", &plain), ("stays", &plain)]).await?;
    converged(&mut site, DEADLINE).await?;
    yard.only("goes")?;
    let stays = yard.only("stays")?;

    site.kill_agent("one")?;
    let port = free_port()?;
    let values = [
        ("DOLLAR", "abc$def ${HOME} $$"),
        ("LINES", "-----BEGIN\nline 2\n-----END\n"),
        ("SPACES", "  foo bar "),
    ];
    let env: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name} = {}", Value::from(*value)))
        .collect();
    let more = format!(
        "ports = [\"127.0.0.1:{port}:80\"]\nenv = {{ {} }}\n",
        env.join(", ")
    );
    let comes = manifest(&image.pinned(yard.registry.at()), &more);
    declare(&site, &[("comes", &comes), ("stays", &plain)]).await?;
    site.start_agent("one")?;
    converged(&mut site, DEADLINE).await?;
    eventually(DEADLINE, "what is declared no more goes", async || {
        Ok(yard.of_module("goes")?.is_empty())
    })
    .await?;
    let said = tokio::task::block_in_place(|| fetched(port, "/env"))?.text();
    let found: BTreeMap<&str, &str> = said.lines().filter_map(|it| it.split_once('=')).collect();
    for (name, value) in values {
        let expected = format!("{value:?}");
        ensure!(found.get(name) == Some(&&*expected), "{name}: {said}");
    }
    let now = yard.only("stays")?;
    ensure!(now.pointer("/Id") == stays.pointer("/Id"), "{now}");
    ensure!(yard.runs(&theirs)? == before, "it was touched");
    let status = site.json(&["status"]).await?.to_string();
    ensure!(!status.contains("failed"), "{status}");
    Ok(())
}

async fn twenty_declarations_in_a_row_end_at_the_last(kind: Kind) -> anyhow::Result<()> {
    let Some((mut site, yard)) = begun(kind).await? else {
        return Ok(());
    };
    let image = Image::running(&["serve", "80"])?;
    let image = yard.registry.push("tests/small", "1", &image)?;
    let image = image.tagged(yard.registry.at());
    for nth in 1..=20 {
        let wanted = manifest(&image, &format!("env = {{ NTH = \"{nth}\" }}\n"));
        declare(&site, &[("turns", &wanted)]).await?;
    }
    converged(&mut site, DEADLINE).await?;
    eventually(DEADLINE, "one is left", async || {
        Ok(yard.of_module("turns")?.len() == 1)
    })
    .await?;
    let last = yard.only("turns")?;
    let env = last.pointer("/Config/Env").context("env")?.to_string();
    ensure!(env.contains("NTH=20"), "{env}");
    Ok(())
}

/// An agent shows every 30 s that it is at work.
const ACK_WAIT: Duration = Duration::from_secs(36);
/// Bytes a second at which the image takes longer than that.
const RATE: u32 = 70_000;
const DEADLINE: Duration = Duration::from_mins(1);
