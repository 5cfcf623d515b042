//! Seats through the programs an operator starts: handed over, and lost.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::eventually;
use serde_json::Value;

/// What may hear the work of the seat, as it stands in the file of users.
const AUTHORITY: &str = "mesh.deliver.seat.post";
const GREETER: &str = "[run]\ncommand = [\"hello-greeter\"]\n[events]\nemits = [\"greeted\"]\n[seats]\nsends_to = [\"post\"]\n";
const PATIENCE: Duration = Duration::from_mins(1);

fn postman(site: &Site, module: &str) -> String {
    let out = site.dir().join(module).display().to_string();
    format!(
        "[run]\ncommand = [\"hello-postman\"]\nenv = {{ HELLO_OUT = {out:?} }}\n[seats]\ncan_hold = [\"post\"]\n"
    )
}

/// The letters a postman has delivered.
fn letters(site: &Site, module: &str) -> usize {
    let text = std::fs::read_to_string(site.dir().join(module).join("postman.log"));
    text.unwrap_or_default().lines().count()
}

/// A postman on each of two nodes, and a greeter where it is asked for; the seat as it is said.
fn declared(site: &Site, seat: &str, greeter: bool) -> anyhow::Result<String> {
    let (north, south) = (postman(site, "north"), postman(site, "south"));
    let mut modules: Vec<(&str, &str, &[&str])> =
        vec![("north", &north, &["one"]), ("south", &south, &["two"])];
    if greeter {
        modules.push(("greeter", GREETER, &["two"]));
    }
    let folder = site.mesh(&modules)?;
    let mesh: PathBuf = folder.join("mesh.toml");
    let text = std::fs::read_to_string(&mesh)?;
    std::fs::write(&mesh, format!("{text}[[seat]]\nname = \"post\"\n{seat}"))?;
    Ok(folder.display().to_string())
}

async fn apply(site: &Site, seat: &str, greeter: bool) -> anyhow::Result<()> {
    let folder = declared(site, seat, greeter)?;
    let said = site.ctl(&["apply", &folder, "--timeout", "45s"]).await?;
    said.ok().map(drop)
}

async fn begun(seat: &str) -> anyhow::Result<Option<Site>> {
    let Some(mut site) = Site::new()? else {
        return Ok(None);
    };
    site.start_controller().await?;
    for node in ["one", "two"] {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    apply(&site, seat, false).await?;
    Ok(Some(site))
}

async fn seat(site: &Site) -> anyhow::Result<Value> {
    let listed = site.json(&["seat", "ls"]).await?;
    let seat = listed.pointer("/items/0").cloned();
    seat.with_context(|| format!("no seat: {listed}"))
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

async fn holds(site: &Site, module: &str) -> anyhow::Result<()> {
    let what = format!("{module} holds the seat on the live bus");
    eventually(PATIENCE, &what, async || {
        let status = site.status().await?;
        let settled = status.get("settled") == Some(&Value::Bool(true));
        Ok(settled && text(&seat(site).await?, "holder") == module)
    })
    .await
    .map(drop)
}

/// Hands the seat over, and kills the controller once its server was told that nobody may work it. Whether that was so.
async fn killed_between(site: &mut Site, to: &str) -> anyhow::Result<bool> {
    let users = site.state_dir().join("bus/edge-users.conf");
    let between = move || {
        let text = std::fs::read_to_string(&users).unwrap_or_default();
        !text.is_empty() && !text.contains(AUTHORITY)
    };
    let seen = async {
        while !between() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let arguments = ["seat", "handover", "post", "--to", to];
    let seen = tokio::select! {
        biased;
        () = seen => true,
        said = site.ctl(&arguments) => {
            said?;
            false
        }
    };
    site.kill_controller()?;
    Ok(seen && between())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_controller_killed_between_the_two_steps_of_a_hand_over_grants_after_it_has_withdrawn()
-> anyhow::Result<()> {
    let Some(mut site) = begun("holder = \"north\"\n").await? else {
        return Ok(());
    };
    holds(&site, "north").await?;
    let (mut between, mut holder) = (0, "north");
    for _ in 0..20 {
        let next = if holder == "north" { "south" } else { "north" };
        between += usize::from(killed_between(&mut site, next).await?);
        site.start_controller().await?;
        // It was stored before the bus was changed.
        holds(&site, next).await?;
        holder = next;
        let users = site.nats_users()?;
        let able = users.matches(AUTHORITY).count();
        ensure!(able == 1, "{able} may work the seat: {users}");
        if between == 2 {
            break;
        }
    }
    ensure!(
        between > 0,
        "no controller was killed between the two steps"
    );
    let verified = site.ctl(&["verify"]).await?.ok()?;
    ensure!(verified.contains("as derived"), "{verified}");
    // Who holds it works, with the process it had all the time; the other never did.
    let other = if holder == "north" { "south" } else { "north" };
    apply(&site, "holder = \"north\"\n", true).await?;
    eventually(PATIENCE, "five letters are delivered", async || {
        Ok(letters(&site, holder) >= 5)
    })
    .await?;
    ensure!(letters(&site, other) == 0, "{other} worked, too");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_waits_without_a_holder_is_told_of_and_goes_to_whoever_is_assigned()
-> anyhow::Result<()> {
    let Some(site) = begun("").await? else {
        return Ok(());
    };
    apply(&site, "", true).await?;
    eventually(PATIENCE, "five letters wait", async || {
        Ok(seat(&site).await?.get("backlog") == Some(&Value::from(5)))
    })
    .await?;
    eventually(PATIENCE, "they become older", async || {
        let oldest = seat(&site).await?.get("oldest").and_then(Value::as_u64);
        Ok(oldest.is_some_and(|millis| millis >= 2000))
    })
    .await?;
    let said = site.ctl(&["seat", "ls"]).await?.ok()?;
    for word in ["BACKLOG", "OLDEST", "HOLDER", "BY"] {
        ensure!(said.contains(word), "{said}");
    }
    let hand_over = ["seat", "handover", "post", "--to", "south"];
    site.ctl(&hand_over).await?.ok()?;
    eventually(PATIENCE, "five letters are delivered", async || {
        Ok(letters(&site, "south") == 5)
    })
    .await?;
    eventually(PATIENCE, "nothing waits", async || {
        Ok(seat(&site).await?.get("backlog") == Some(&Value::from(0)))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_seat_of_a_lost_node_fails_over_and_its_module_that_lives_on_is_fenced()
-> anyhow::Result<()> {
    let wanted = "holder = \"north\"\nfailover = true\ngrace = \"2s\"\n";
    let Some(mut site) = begun(wanted).await? else {
        return Ok(());
    };
    holds(&site, "north").await?;
    let north = site.pid("one", "north")?;
    // Its agent is gone, and what it started is not: to everybody else the node is lost.
    site.kill_agent("one")?;
    holds(&site, "south").await?;
    let found = seat(&site).await?;
    ensure!(text(&found, "by") == "failover", "{found}");
    ensure!(site.pid("one", "north")? == north, "its module lives on");
    let folder = declared(&site, wanted, true)?;
    site.ctl(&["apply", "--no-wait", &folder]).await?.ok()?;
    eventually(PATIENCE, "five letters are delivered", async || {
        Ok(letters(&site, "south") == 5)
    })
    .await?;
    ensure!(letters(&site, "north") == 0, "who was lost worked");
    let log = site.controller_log();
    ensure!(log.contains("fails over from north to south"), "{log}");
    // It is not given back by itself, and is by an operator.
    site.start_agent("one")?;
    site.ready("one").await?;
    ensure!(text(&seat(&site).await?, "holder") == "south");
    site.ctl(&["seat", "assign", "post", "north"]).await?.ok()?;
    ensure!(text(&seat(&site).await?, "by") == "declared");
    Ok(())
}
