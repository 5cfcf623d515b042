//! An operator has the running mesh proven, and asks what somebody may do; nothing of either stays.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::eventually;
use serde_json::Value;

const SHOP: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n\n[events]\nemits = [\"sold\"]\n\
                    follows = [\"shop.announced\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_proves_the_mesh_and_asks_what_somebody_may_do() -> anyhow::Result<()> {
    let Some(site) = running().await? else {
        return Ok(());
    };
    site.token("later").await?;
    let before = users(&site)?;

    let verified = site.json(&["verify"]).await?;
    let rows = verified.get("items").and_then(Value::as_array);
    let rows = rows.context("rows")?;
    let names: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.get("principal").and_then(Value::as_str))
        .collect();
    for principal in ["controller", "node/one", "module/shop", "module/shop@one"] {
        ensure!(names.contains(principal), "{names:?}");
    }
    ensure!(
        names.iter().any(|name| name.starts_with("joiner/")),
        "{names:?}"
    );
    for row in rows {
        let tried = |what| row.get(what).and_then(Value::as_u64);
        ensure!(
            tried("allowed") > Some(1) && tried("refused") > Some(100),
            "{row}"
        );
    }
    no_guests(&site, &before).await?;

    for (question, code) in [
        (["node/one", "publish", "mesh.heartbeat.one"], 0),
        (["node/one", "publish", "mesh.heartbeat.two"], 5),
        (["module/shop@one", "publish", "mesh.mod.shop.sold"], 0),
        (
            ["module/shop@one", "subscribe", "mesh.deliver.module.shop"],
            5,
        ),
        (["controller", "publish", "$JS.API.INFO"], 0),
        (["controller", "publish", "$JS.API.STREAM.INFO.EVENTS"], 0),
        (["node/one", "publish", "$JS.API.INFO"], 5),
    ] {
        let said = site.ctl(&[&["can"], &question[..]].concat()).await?;
        ensure!(said.code == Some(code), "{question:?}: {said:?}");
        let word = if code == 0 { "yes" } else { "no" };
        for answer in ["derived  ", "broker   "] {
            ensure!(
                said.out.contains(&format!("{answer}{word}")),
                "{question:?}: {said:?}"
            );
        }
    }
    let nobody = site.ctl(&["verify", "node/nobody"]).await?;
    ensure!(nobody.code == Some(3), "{nobody:?}");
    no_guests(&site, &before).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_while_it_proves_leaves_no_guest() -> anyhow::Result<()> {
    let Some(mut site) = running().await? else {
        return Ok(());
    };
    let before = users(&site)?;
    // The guests stay for a fraction of a second: it is tried until one is left behind.
    loop {
        let mut asking = ask(&site)?;
        eventually(Duration::from_secs(30), "a guest is let in", async || {
            if asking.try_wait()?.is_some() {
                asking = ask(&site)?;
            }
            Ok(users(&site)? != before)
        })
        .await?;
        site.kill_controller()?;
        asking.wait()?;
        let left = users(&site)? != before;
        site.start_controller().await?;
        if left {
            break;
        }
    }
    no_guests(&site, &before).await?;
    site.ctl(&["verify"]).await?.ok().map(drop)
}

fn ask(site: &Site) -> anyhow::Result<Child> {
    let mut asking = site.command("meshctl")?;
    asking
        .arg("--state-dir")
        .arg(site.state_dir())
        .arg("verify")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(asking.spawn()?)
}

/// A mesh of one node that runs one module.
async fn running() -> anyhow::Result<Option<Site>> {
    let Some(mut site) = Site::new()? else {
        return Ok(None);
    };
    site.start_controller().await?;
    site.join("one").await?;
    site.start_agent("one")?;
    site.apply(&[("shop", SHOP, &["one"])]).await?;
    Ok(Some(site))
}

/// The keys the server is told of.
fn users(site: &Site) -> anyhow::Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(site.state_dir().join("bus/edge-users.conf"))?;
    let keys = text.split("nkey: ").skip(1);
    Ok(keys
        .filter_map(|rest| rest.split(',').next())
        .map(str::to_owned)
        .collect())
}

async fn no_guests(site: &Site, before: &BTreeSet<String>) -> anyhow::Result<()> {
    eventually(Duration::from_secs(20), "the guests are gone", async || {
        Ok(users(site)? == *before)
    })
    .await
    .map(drop)
}
