//! A mesh whose only bus is RabbitMQ, through the programs an operator starts.

use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::{eventually, soon, within};
use mesh_bus::{Link, NodeBus, NodeEvent};
use serde_json::Value;

const STEADY: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n";
const GREETER: &str = "[run]\ncommand = [\"hello-greeter\"]\n[events]\nemits = [\"greeted\"]\n";

/// A mesh with one node, whose agent runs.
async fn begun() -> anyhow::Result<Option<Site>> {
    let site = tokio::task::spawn_blocking(Site::over_amqp).await??;
    let Some(mut site) = site else {
        return Ok(None);
    };
    site.start_controller().await?;
    site.join("one").await?;
    site.start_agent("one")?;
    site.ready("one").await?;
    Ok(Some(site))
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
async fn what_is_applied_becomes_true_on_a_node_and_its_modules_speak() -> anyhow::Result<()> {
    let Some(site) = begun().await? else {
        return Ok(());
    };
    let listener = listener(&site);
    site.apply(&[
        ("greeter", GREETER, &["one"]),
        ("listener", &listener, &["one"]),
    ])
    .await?;
    let declared = site.declared("one").await?;
    ensure!(
        !site.reported("one", declared).await?.is_empty(),
        "no report is stored"
    );
    within(Duration::from_secs(40), "events are followed", async {
        eventually(Duration::from_secs(30), "three events", async || {
            Ok(heard(&site) >= 3)
        })
        .await
    })
    .await??;

    let users = site.users()?;
    ensure!(
        !users.iter().any(|user| user.starts_with("joiner.")),
        "{users:?}"
    );
    for user in ["node.one", "module.greeter.one", "module.listener.one"] {
        ensure!(
            users.iter().any(|found| found == user),
            "{user} in {users:?}"
        );
    }
    let said = site.ctl(&["doctor"]).await?;
    ensure!(said.out.contains("RabbitMQ"), "{said:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_proves_the_mesh_and_asks_what_somebody_may_do() -> anyhow::Result<()> {
    let Some(site) = begun().await? else {
        return Ok(());
    };
    site.apply(&[("greeter", GREETER, &["one"])]).await?;
    site.token("later").await?;
    let before = site.users()?;
    let verified = site.json(&["verify"]).await?;
    let rows = verified.get("items").and_then(Value::as_array);
    let rows = rows.context("rows")?;
    for principal in [
        "controller",
        "node/one",
        "module/greeter",
        "module/greeter@one",
    ] {
        let is = |row: &&Value| row.get("principal").and_then(Value::as_str) == Some(principal);
        let row = rows.iter().find(is).context(principal)?;
        let tried = |what| row.get(what).and_then(Value::as_u64);
        ensure!(
            tried("allowed") > Some(0) && tried("refused") > Some(50),
            "{row}"
        );
    }
    let joiner = |row: &Value| row.to_string().contains("joiner/");
    ensure!(rows.iter().any(joiner), "{rows:?}");
    ensure!(site.users()? == before, "a guest stays");
    let said = site.ctl(&["verify", "node/one"]).await?.ok()?;
    ensure!(said.contains("as derived"), "{said}");

    for (question, code, broker) in [
        (["node/one", "publish", "mesh.heartbeat.one"], 0, "yes"),
        (["node/one", "publish", "mesh.heartbeat.two"], 5, "no"),
        (["node/one", "subscribe", "mesh.deliver.node.one"], 0, "yes"),
        (
            ["module/greeter@one", "publish", "mesh.mod.greeter.greeted"],
            0,
            "yes",
        ),
        (
            ["module/greeter@one", "subscribe", "mesh.deliver.node.one"],
            5,
            "no",
        ),
        (["node/one", "publish", "$JS.API.INFO"], 5, "not asked"),
    ] {
        let said = site.ctl(&[&["can"], &question[..]].concat()).await?;
        ensure!(said.code == Some(code), "{question:?}: {said:?}");
        ensure!(
            said.out.contains(&format!("broker   {broker}")),
            "{question:?}: {said:?}"
        );
    }
    ensure!(site.users()? == before, "a guest stays");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_is_killed_goes_on_where_it_was() -> anyhow::Result<()> {
    let Some(mut site) = begun().await? else {
        return Ok(());
    };
    site.apply(&[("steady", STEADY, &["one"])]).await?;
    let (told, runs) = (site.declared("one").await?, site.pid("one", "steady")?);
    let reported = site.reported("one", told).await?;
    let key = |status: &Value| status.get("revision").cloned();
    let before = key(&site.status().await?);

    site.kill_controller()?;
    site.start_controller().await?;
    site.ready("one").await?;
    ensure!(
        site.declared("one").await? == told,
        "the node was told something else"
    );
    ensure!(
        site.reported("one", told).await?.is_superset(&reported),
        "a report is gone"
    );
    ensure!(
        key(&site.status().await?) == before,
        "the records are others"
    );
    ensure!(
        site.pid("one", "steady")? == runs,
        "the module was started again"
    );
    // And it still decides.
    site.apply(&[("steady", STEADY, &["one"]), ("other", STEADY, &["one"])])
        .await?;
    ensure!(
        site.pid("one", "steady")? == runs,
        "the module was started again"
    );
    site.pid("one", "other")?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_removed_is_disconnected_and_refused() -> anyhow::Result<()> {
    let Some(mut site) = begun().await? else {
        return Ok(());
    };
    site.apply(&[("steady", STEADY, &["one"])]).await?;
    let connected = site.as_node("one").await?;
    soon("it is connected", until(&connected, Link::Up)).await?;

    site.ctl(&["node", "rm", "one", "--yes"]).await?.ok()?;
    soon(
        "its live connection is closed",
        until(&connected, Link::Down),
    )
    .await?;
    let error = site.as_node("one").await.err();
    let error = error.context("its key is let in again")?.to_string();
    ensure!(error.contains("refuses the login"), "{error}");
    let users = site.users()?;
    ensure!(
        !users.iter().any(|user| user.strip_suffix(".one").is_some()),
        "{users:?}"
    );
    eventually(
        Duration::from_secs(30),
        "the agent is refused",
        async || {
            site.agent_runs("one")?;
            Ok(site.agent_log("one").contains("ACCESS_REFUSED"))
        },
    )
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_good_no_more_makes_no_node() -> anyhow::Result<()> {
    let Some(site) = begun().await? else {
        return Ok(());
    };
    let token = site.token("two").await?;
    let listed = site.json(&["token", "ls"]).await?;
    let items = listed.get("items").and_then(Value::as_array);
    let id = items.into_iter().flatten().find_map(|item| {
        let of = item.get("node").and_then(Value::as_str) == Some("two");
        of.then(|| item.get("id")?.as_str()).flatten()
    });
    let id = id.with_context(|| format!("no token for two in {listed}"))?;
    site.ctl(&["token", "revoke", id]).await?.ok()?;
    let refused = site.enrol(&token, "two", &[]).await?;
    ensure!(refused.code == Some(5), "{refused:?}");
    ensure!(refused.err.contains("meshctl token create"), "{refused:?}");
    ensure!(site.node("two").await.is_err(), "it made a node");
    Ok(())
}

/// Hears what a node hears, until its link is this.
async fn until(node: &impl NodeBus, link: Link) {
    while !matches!(node.next().await, NodeEvent::Link(found) if found == link) {}
}
