//! A mesh on a NATS server its controller brings and on a RabbitMQ at once, through the programs an operator starts.

use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::eventually;
use serde_json::Value;

const GREETER: &str = "[run]\ncommand = [\"hello-greeter\"]\n[events]\nemits = [\"greeted\"]\n";
const NODES: [(&str, &str); 2] = [("here", "nats"), ("there", "amqp")];

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

async fn more_is_heard(site: &Site) -> anyhow::Result<()> {
    let before = heard(site);
    eventually(PATIENCE, "three more events", async || {
        Ok(heard(site) >= before + 3)
    })
    .await?;
    Ok(())
}

/// A mesh with a node on each bus, where a module on NATS follows one on RabbitMQ.
async fn begun() -> anyhow::Result<Option<Site>> {
    let Some(mut site) = tokio::task::spawn_blocking(Site::on_both).await?? else {
        return Ok(None);
    };
    site.start_controller().await?;
    for (node, bus) in NODES {
        let create = ["token", "create", "--node", node, "--bus", bus];
        let token = site.ctl(&create).await?.ok()?;
        site.enrol(token.trim(), node, &[]).await?.ok()?;
        site.start_agent(node)?;
        site.ready(node).await?;
    }
    let listener = listener(&site);
    site.apply(&[
        ("greeter", GREETER, &["there"]),
        ("listener", &listener, &["here"]),
    ])
    .await?;
    Ok(Some(site))
}

async fn on(site: &Site, node: &str) -> anyhow::Result<String> {
    let found = site.node(node).await?;
    ensure!(found.get("moving") == Some(&Value::Null), "{found}");
    let bus = found.get("bus").and_then(Value::as_str);
    Ok(bus.context("no bus")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_on_one_bus_follows_a_module_on_the_other_and_status_shows_both()
-> anyhow::Result<()> {
    let Some(site) = begun().await? else {
        return Ok(());
    };
    more_is_heard(&site).await?;
    for (node, bus) in NODES {
        ensure!(on(&site, node).await? == bus, "{node}");
    }
    let said = site.ctl(&["node", "ls"]).await?.ok()?;
    let heading = said.lines().next().unwrap_or_default();
    ensure!(heading.contains("BUS"), "{said}");
    ensure!(said.contains("nats") && said.contains("amqp"), "{said}");
    // What each may is proven on the bus it is on, and the controller's hands on both.
    let said = site.ctl(&["verify"]).await?.ok()?;
    for row in ["controller", "node/", "as derived"] {
        ensure!(said.contains(row), "{said}");
    }
    ensure!(!said.contains("not asked"), "{said}");
    let said = site.ctl(&["doctor"]).await?;
    for bus in ["nats: ", "amqp: "] {
        ensure!(said.out.contains(bus), "{said:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_moved_and_back_while_its_module_is_heard() -> anyhow::Result<()> {
    let Some(site) = begun().await? else {
        return Ok(());
    };
    for (node, to) in [("there", "nats"), ("here", "amqp"), ("here", "nats")] {
        let said = site.ctl(&["node", "move", node, "--to", to]).await?;
        ensure!(said.code == Some(0), "{node} to {to}: {said:?}");
        ensure!(on(&site, node).await? == to, "{node} to {to}");
        more_is_heard(&site)
            .await
            .with_context(|| format!("{node} on {to}"))?;
    }
    let said = site.ctl(&["node", "move", "here", "--to", "nats"]).await?;
    ensure!(
        said.code == Some(0) && said.err.contains("already"),
        "{said:?}"
    );
    let said = site
        .ctl(&["node", "move", "nobody", "--to", "nats"])
        .await?;
    ensure!(said.code == Some(3), "{said:?}");
    Ok(())
}

/// The operator withdraws it sooner than the controller would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_there_is_waited_for_and_its_offer_is_withdrawn() -> anyhow::Result<()> {
    let Some(mut site) = begun().await? else {
        return Ok(());
    };
    site.kill_agent("here")?;
    let said = site
        .ctl(&["node", "move", "here", "--to", "amqp", "--timeout", "3s"])
        .await?;
    ensure!(said.code == Some(6), "{said:?}");
    ensure!(said.err.contains("not heard there yet"), "{said:?}");
    let said = site.ctl(&["node", "ls"]).await?.ok()?;
    ensure!(said.contains("moving to amqp since"), "{said}");
    let said = site.ctl(&["node", "move", "here", "--to", "nats"]).await?;
    ensure!(
        said.code == Some(0) && said.err.contains("withdrawn"),
        "{said:?}"
    );
    ensure!(on(&site, "here").await? == "nats", "it is elsewhere");
    site.start_agent("here")?;
    site.ready("here").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_is_dropped_once_nobody_is_on_it_and_not_before() -> anyhow::Result<()> {
    let Some(mut site) = begun().await? else {
        return Ok(());
    };
    let both = std::fs::read_to_string(site.dir().join("controller.toml"))?;
    let amqp_alone = both.replace("[bus.nats]\n", "");
    site.stop_controller().await?;
    site.write("controller.toml", &amqp_alone)?;
    let refused = site.refused_controller().await?;
    for said in ["nodes here", "meshctl node move --all --to amqp"] {
        ensure!(refused.err.contains(said), "{refused:?}");
    }
    site.write("controller.toml", &both)?;
    site.start_controller().await?;
    let moved = site.ctl(&["node", "move", "--all", "--to", "amqp"]).await?;
    ensure!(moved.code == Some(0), "{moved:?}");
    site.stop_controller().await?;
    site.write("controller.toml", &amqp_alone)?;
    site.start_controller().await?;
    for (node, _) in NODES {
        site.ready(node).await?;
    }
    more_is_heard(&site).await?;
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(40);
