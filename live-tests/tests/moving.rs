//! Nodes go from one broker to the other and back while everything runs: what was confirmed is heard, under one id, and
//! nobody ever may work a seat on both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::eventually;
use serde_json::Value;

const NODES: usize = 10;

fn node(nth: usize) -> String {
    format!("n{nth}")
}

/// The rest of the manifest of a module that keeps books.
fn keeper(site: &Site, role: &str, rest: &str) -> anyhow::Result<String> {
    let out = site.dir().join("books");
    std::fs::create_dir_all(&out)?;
    let out = out.display().to_string();
    Ok(format!(
        "[run]\ncommand = [\"ledger\", \"{role}\"]\nenv = {{ LEDGER_OUT = {out:?} }}\n{rest}"
    ))
}

struct Cast {
    source: String,
    sink: String,
    clerk: String,
}

impl Cast {
    fn of(site: &Site) -> anyhow::Result<Self> {
        let source = "[events]\nemits = [\"tick\"]\n[seats]\nsends_to = [\"desk\"]\n";
        let sink = "[events]\nfollows = [\"source.tick\"]\n";
        let clerk = "[seats]\ncan_hold = [\"desk\"]\n";
        Ok(Self {
            source: keeper(site, "source", source)?,
            sink: keeper(site, "sink", sink)?,
            clerk: keeper(site, "clerk", clerk)?,
        })
    }

    /// Declares the modules: each node has one. `turn` stands in what two of them are given, so that each is another
    /// declaration, which is reported.
    async fn apply(&self, site: &Site, sources: &[&str], turn: usize) -> anyhow::Result<()> {
        let idle = format!("[run]\ncommand = [\"sleep\", \"864{turn:02}\"]\n");
        let folder = site.mesh(&[
            ("source", &self.source, sources),
            ("sink", &self.sink, &["n4", "n5"]),
            ("clerk", &self.clerk, &["n6"]),
            ("idle", &idle, &["n7", "n8", "n9"]),
        ])?;
        let mesh = folder.join("mesh.toml");
        let text = std::fs::read_to_string(&mesh)?;
        let seat = "[[seat]]\nname = \"desk\"\nholder = \"clerk\"\n";
        std::fs::write(&mesh, text + seat)?;
        let folder = folder.display().to_string();
        let said = site.ctl(&["apply", &folder, "--timeout", "50s"]).await?;
        said.ok()?;
        Ok(())
    }
}

/// Lines `<id> <body>` of every book of a role: the ids each body was written down under.
fn books(dir: &Path, role: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut books: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(dir.join("books"))? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(role) {
            continue;
        }
        for line in std::fs::read_to_string(entry.path())?.lines() {
            let (id, body) = line.split_once(' ').context("a line is an id and a body")?;
            books
                .entry(body.to_owned())
                .or_default()
                .push(id.to_owned());
        }
    }
    Ok(books)
}

/// What sources were confirmed: events, then work.
fn confirmed(dir: &Path) -> anyhow::Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut events, mut works) = (BTreeSet::new(), BTreeSet::new());
    for (body, kinds) in books(dir, "source")? {
        ensure!(kinds.len() == 1, "{body} was confirmed {kinds:?}");
        let to = if kinds.iter().all(|kind| kind == "event") {
            &mut events
        } else {
            &mut works
        };
        to.insert(body);
    }
    Ok((events, works))
}

/// Whether everything that was confirmed is in these books.
fn complete(confirmed: &BTreeSet<String>, heard: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let missing = confirmed.iter().filter(|body| !heard.contains_key(*body));
    missing.cloned().collect()
}

/// Whoever is heard twice is heard under one id, so that a module can tell.
fn ids_agree(heard: &BTreeMap<String, Vec<String>>) -> anyhow::Result<usize> {
    let mut again = 0;
    for (body, ids) in heard {
        let distinct: BTreeSet<&String> = ids.iter().collect();
        ensure!(
            distinct.len() == 1,
            "{body} came under several ids: {ids:?}"
        );
        again += ids.len() - 1;
    }
    Ok(again)
}

async fn buses(site: &Site) -> anyhow::Result<BTreeMap<String, String>> {
    let status = site.status().await?;
    let nodes = status.get("nodes").and_then(Value::as_array).cloned();
    let of = |node: &Value| {
        let text = |key: &str| Some(node.get(key)?.as_str()?.to_owned());
        Some((text("node")?, text("bus")?))
    };
    Ok(nodes.unwrap_or_default().iter().filter_map(of).collect())
}

/// Whether the clerk may work the desk on both brokers. The one it goes to is asked first: what is seen there and after
/// that where it comes from, it has on both.
fn works_on_both(site: &Site, to: &str) -> anyhow::Result<bool> {
    let from = if to == "nats" { "amqp" } else { "nats" };
    for bus in [to, from] {
        let may = if bus == "nats" {
            site.nats_users()?.contains("mesh.deliver.seat.desk")
        } else {
            let read = site.may_read("module.clerk.n6")?;
            read.is_some_and(|read| read.contains("desk"))
        };
        if !may {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves every node, looking all the while at who may work the desk; gives how often that was looked at.
async fn move_all(site: &Site, to: &str) -> anyhow::Result<usize> {
    let mut looks = 0;
    let arguments = [
        "node",
        "move",
        "--all",
        "--to",
        to,
        "--wave",
        "5",
        "--timeout",
        "50s",
    ];
    let moving = site.ctl(&arguments);
    tokio::pin!(moving);
    let said = loop {
        tokio::select! {
            said = &mut moving => break said?,
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                let both = tokio::task::block_in_place(|| works_on_both(site, to))?;
                ensure!(!both, "the clerk may work the desk on both brokers");
                looks += 1;
            }
        }
    };
    said.ok()?;
    let buses = buses(site).await?;
    ensure!(buses.len() == NODES, "{buses:?}");
    ensure!(buses.values().all(|bus| bus == to), "{buses:?}");
    Ok(looks)
}

/// A mesh on both, and ten nodes of it on RabbitMQ.
async fn begun() -> anyhow::Result<Option<Site>> {
    let Some(mut site) = tokio::task::spawn_blocking(Site::on_both).await?? else {
        return Ok(None);
    };
    site.start_controller().await?;
    for nth in 0..NODES {
        site.join(&node(nth)).await?;
        site.start_agent(&node(nth))?;
    }
    for nth in 0..NODES {
        site.ready(&node(nth)).await?;
    }
    Ok(Some(site))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_nodes_go_to_the_other_broker_and_back_under_traffic_and_nothing_is_lost()
-> anyhow::Result<()> {
    let Some(site) = begun().await? else {
        return Ok(());
    };
    let cast = Cast::of(&site)?;
    let sources = ["n0", "n1", "n2", "n3"];
    cast.apply(&site, &sources, 0).await?;
    let dir = site.dir().to_owned();
    let began = || Ok(confirmed(&dir)?.0.len() > 20);
    eventually(Duration::from_secs(30), "traffic", async || began()).await?;

    let idle = site.pid("n9", "idle")?;
    let mut looks = 0;
    for (turn, to) in ["nats", "amqp"].into_iter().enumerate() {
        looks += move_all(&site, to).await?;
        cast.apply(&site, &sources, turn + 1).await?;
        for nth in 0..NODES {
            let declared = site.declared(&node(nth)).await?;
            let reported = site.reported(&node(nth), declared).await?;
            ensure!(
                !reported.is_empty(),
                "{} has not reported {declared}",
                node(nth)
            );
        }
    }
    ensure!(looks > 5, "nobody looked: {looks}");
    ensure!(
        site.pid("n9", "idle")? != idle,
        "its module has the credential of before"
    );
    for user in site.users()? {
        ensure!(site.may_read(&user)?.is_some(), "{user} is half there");
    }
    ensure!(
        !site.nats_users()?.contains("mesh.control.report"),
        "{}",
        site.nats_users()?
    );

    // Nobody speaks any more, and what was said is heard to the last word.
    cast.apply(&site, &[], 9).await?;
    let (events, works) = confirmed(&dir)?;
    let missing = || {
        let (sinks, clerks) = (books(&dir, "sink")?, books(&dir, "clerk")?);
        anyhow::Ok([complete(&events, &sinks), complete(&works, &clerks)].concat())
    };
    let heard = eventually(Duration::from_mins(1), "everything is heard", async || {
        Ok(missing()?.is_empty())
    });
    heard
        .await
        .with_context(|| format!("missing: {:?}", missing()))?;
    let again = [
        ids_agree(&books(&dir, "sink")?)?,
        ids_agree(&books(&dir, "clerk")?)?,
    ];
    eprintln!(
        "{} events and {} works confirmed; all heard, {again:?} again under the same id; looked {looks} times",
        events.len(),
        works.len()
    );
    Ok(())
}
