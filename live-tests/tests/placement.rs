//! Placement, as an operator sees it: spread, closed and emptied nodes, and what is shown of one.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use serde_json::Value;

const STEADY: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n";
const NODES: [&str; 3] = ["one", "three", "two"];

/// `steady` on two of three nodes, and perhaps `more` on all of them.
fn spread(site: &Site, more: bool) -> anyhow::Result<PathBuf> {
    let modules: &[(&str, &str, &[&str])] = &[("steady", STEADY, &NODES), ("more", STEADY, &NODES)];
    let folder = site.mesh(modules.get(..=usize::from(more)).context("both")?)?;
    let file = folder.join("mesh.toml");
    let text = std::fs::read_to_string(&file)?;
    let counted = text.replacen("\"two\"]\n", "\"two\"]\ncount = 2\n", 1);
    ensure!(counted != text, "{text}");
    std::fs::write(&file, counted)?;
    Ok(folder)
}

async fn started() -> anyhow::Result<Option<Site>> {
    let Some(mut site) = Site::new()? else {
        return Ok(None);
    };
    site.start_controller().await?;
    for node in NODES {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    Ok(Some(site))
}

/// What `meshctl` says, for people, if it ends with this code.
async fn ends(site: &Site, arguments: &[&str], code: i32) -> anyhow::Result<(String, String)> {
    let said = site.ctl(arguments).await?;
    ensure!(said.code == Some(code), "{arguments:?}: {said:?}");
    Ok((said.out, said.err))
}

fn text(of: &Value, field: &str) -> Option<String> {
    of.get(field)?.as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modules_are_spread_kept_off_and_moved_away_and_each_command_says_what_became_true()
-> anyhow::Result<()> {
    let Some(mut site) = started().await? else {
        return Ok(());
    };
    let folder = spread(&site, false)?.display().to_string();
    let (plan, _) = ends(&site, &["plan", &folder], 1).await?;
    ensure!(plan.contains("steady on 2 of 2: +one, +three"), "{plan}");
    ends(&site, &["apply", &folder], 0).await?;
    let stays = site.pid("three", "steady")?;
    site.pid("one", "steady")?;

    // Closed, it keeps what it has and gets nothing new, and nobody waits for that.
    ends(&site, &["node", "cordon", "one"], 0).await?;
    let folder = spread(&site, true)?.display().to_string();
    ends(&site, &["apply", &folder], 0).await?;
    site.pid("one", "steady")?;
    ensure!(site.processes("one", "more").is_empty(), "it is closed");
    let (modules, _) = ends(&site, &["module", "ls"], 0).await?;
    ensure!(modules.contains("kept off: cordoned: one"), "{modules}");
    let (nodes, _) = ends(&site, &["node", "ls"], 0).await?;
    ensure!(
        nodes.contains("SCHEDULING") && nodes.contains("cordoned"),
        "{nodes}"
    );

    // Emptied when the command ends; what counts goes on elsewhere, and nothing else is touched.
    ends(&site, &["node", "drain", "one"], 0).await?;
    ensure!(site.processes("one", "steady").is_empty(), "it runs on");
    ends(&site, &["apply", &folder], 0).await?;
    site.pid("two", "steady")?;
    ensure!(site.pid("three", "steady")? == stays, "it was restarted");
    let node = site.json(&["node", "inspect", "one"]).await?;
    ensure!(text(&node, "kind").as_deref() == Some("Node"), "{node}");
    ensure!(
        text(&node, "scheduling").as_deref() == Some("drained"),
        "{node}"
    );
    let none = node.get("modules").and_then(Value::as_object);
    ensure!(none.is_some_and(serde_json::Map::is_empty), "{node}");
    let module = site.json(&["module", "inspect", "steady"]).await?;
    ensure!(module.get("running") == Some(&2.into()), "{module}");
    let (shown, _) = ends(&site, &["node", "inspect", "three"], 0).await?;
    ensure!(shown.contains(&stays.to_string()), "{shown}");
    ends(&site, &["node", "inspect", "nobody"], 3).await?;
    ends(&site, &["module", "inspect", "nobody"], 3).await?;

    // Of a node that does not answer it is said that what runs there may go on.
    site.kill_agent("three")?;
    let (_, said) = ends(&site, &["node", "drain", "three", "--timeout", "3s"], 6).await?;
    ensure!(
        said.contains("steady is not placed: on 1 of 2; drained: one, three"),
        "{said}"
    );
    site.pid("three", "steady")?;
    site.start_agent("three")?;
    ends(&site, &["node", "drain", "three"], 0).await?;
    ensure!(site.processes("three", "steady").is_empty(), "it runs on");

    // Open again, they get what is missing, and what went elsewhere stays there.
    for node in ["one", "three"] {
        ends(&site, &["node", "uncordon", node], 0).await?;
    }
    ends(&site, &["apply", &folder], 0).await?;
    site.pid("two", "steady")?;
    site.pid("one", "steady")?;
    ensure!(site.processes("three", "steady").is_empty(), "on three");
    Ok(())
}

/// A scripted join with the name of another host hangs for ever.
/// <https://github.com/vitobotta/hetzner-k3s/issues/390>
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_c_977ddee_a_scripted_join_with_a_name_that_is_taken_ends_at_once_and_says_why()
-> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("one").await?;
    let free = site.ctl(&["token", "create"]).await?.ok()?;
    let began = tokio::time::Instant::now();
    let said = site.enrol(free.trim(), "other", &["--name", "one"]).await?;
    let took = began.elapsed();
    ensure!(said.code.is_some_and(|code| code != 0), "{said:?}");
    ensure!(took.as_secs() < 30, "it took {took:?}");
    ensure!(
        said.err.contains("one") && said.err.contains("rejoin"),
        "{said:?}"
    );
    // Nothing is left that an agent would start with, and the token is good for another name.
    ensure!(
        !site.home("other").join("agent.toml").exists(),
        "half a node"
    );
    site.enrol(free.trim(), "other", &["--name", "two"])
        .await?
        .ok()?;
    site.start_agent("one")?;
    site.ready("one").await?;
    Ok(())
}
