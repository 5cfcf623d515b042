//! Moving nodes from one bus to the other.
//!
//! What is under way is the controller's: it offers a node the other bus, believes what it hears from there, and withdraws
//! the offer of a node it does not hear in time. Here it is only asked for, and watched.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use mesh_api::{Client, Move};
use mesh_control::{MovingStatus, NodeStatus, Status};
use mesh_model::{BusKind, NodeName};
use serde_json::json;
use tokio::time::Instant;

use crate::cli::{Cli, NodeMove, Output};
use crate::exit::TimedOut;
use crate::out;

/// Moves one node, or in waves all that are not there.
pub(crate) async fn moving(cli: &Cli, asked: &NodeMove) -> anyhow::Result<ExitCode> {
    match &asked.node {
        Some(node) => one(cli, node, asked.to).await,
        None => all(cli, asked).await,
    }
}

/// What is to be asked of the controller for one node.
#[derive(Debug, PartialEq, Eq)]
enum Begin {
    /// Nothing: it is there.
    There,
    /// Nothing: it is on its way.
    OnItsWay,
    /// That it goes.
    Offer,
    /// That it stays, although it was offered the other.
    Stay,
    /// There is none.
    Unknown,
}

fn begin(status: &Status, node: &NodeName, to: BusKind) -> Begin {
    let Some(found) = of(status, node) else {
        return Begin::Unknown;
    };
    match &found.moving {
        Some(MovingStatus::Proving { to: offered, .. }) if *offered == to => Begin::OnItsWay,
        Some(MovingStatus::Proving { .. }) => Begin::Stay,
        Some(MovingStatus::Leaving { .. }) if found.bus == to => Begin::OnItsWay,
        None if found.bus == to => Begin::There,
        // Of one on its way elsewhere the controller says how far it is.
        Some(MovingStatus::Leaving { .. }) | None => Begin::Offer,
    }
}

/// How far a node is that was asked to go.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// Its bus is that one, and it reported there on the newest it was told.
    Arrived,
    /// It may yet.
    Going(String),
    /// It stays where it was.
    Stays(String),
}

fn way(status: &Status, node: &NodeName, to: BusKind) -> Way {
    let Some(found) = of(status, node) else {
        return Way::Stays(format!("{node} is a node no more"));
    };
    match &found.moving {
        Some(MovingStatus::Leaving { from }) if found.bus == to => {
            Way::Going(format!("node {node} works on {to} and is leaving {from}"))
        }
        Some(MovingStatus::Leaving { .. }) => {
            Way::Stays(format!("node {node} was sent to {}", found.bus))
        }
        Some(MovingStatus::Proving { to: offered, .. }) if *offered == to => Way::Going(format!(
            "node {node} was offered {to}, and is not heard there yet"
        )),
        _ if found.bus != to => Way::Stays(format!(
            "the offer to node {node} was withdrawn: it was not heard on {to} in time, and stays on {} as it was; see its log, and whether it reaches {to} from there",
            found.bus
        )),
        _ if found
            .reported
            .is_some_and(|(about, _)| about == found.declared) =>
        {
            Way::Arrived
        }
        _ => Way::Going(format!(
            "node {node} is on {to}, and has not reported on {} yet",
            found.declared
        )),
    }
}

fn of<'a>(status: &'a Status, node: &NodeName) -> Option<&'a NodeStatus> {
    status.nodes.iter().find(|found| found.node == *node)
}

async fn one(cli: &Cli, node: &NodeName, to: BusKind) -> anyhow::Result<ExitCode> {
    let client = cli.client();
    match begin(&client.status().await?, node, to) {
        Begin::There => {
            out::note(&format!("node {node} is on {to} already"));
            return said(cli, to, &BTreeMap::from([(node.clone(), Way::Arrived)]));
        }
        Begin::Stay => {
            client.move_node(node, Move { to }).await?;
            out::note(&format!(
                "the offer is withdrawn; node {node} stays on {to}"
            ));
            return said(cli, to, &BTreeMap::from([(node.clone(), Way::Arrived)]));
        }
        Begin::OnItsWay => out::note(&format!("node {node} is on its way to {to}")),
        // One there is not is refused by the controller, which says how to see those there are.
        Begin::Offer | Begin::Unknown => {
            client.move_node(node, Move { to }).await?;
            out::note(&format!("node {node} is offered {to}"));
        }
    }
    if cli.no_wait {
        let going = Way::Going(format!("node {node} was offered {to}"));
        return said(cli, to, &BTreeMap::from([(node.clone(), going)]));
    }
    let arrived = watch(&client, std::slice::from_ref(node), to, cli.timeout).await?;
    close(cli, to, &arrived)
}

async fn all(cli: &Cli, asked: &NodeMove) -> anyhow::Result<ExitCode> {
    if cli.no_wait {
        bail!(
            "--all moves wave after wave, each when the one before has arrived; leave --no-wait out"
        );
    }
    let (client, to) = (cli.client(), asked.to);
    let status = client.status().await?;
    let nodes = to_go(&status, to);
    if nodes.is_empty() {
        out::note(&format!("every node is on {to} already"));
    }
    let interrupted = mesh_host::stop_signal()?;
    tokio::pin!(interrupted);
    let mut ways: BTreeMap<NodeName, Way> = BTreeMap::new();
    let at_once = asked.wave.map_or(AT_ONCE, |wave| wave.get().into());
    for wave in nodes.chunks(at_once) {
        let going = go(&client, wave, to, cli.timeout);
        let wave_ways = tokio::select! {
            ways = going => ways?,
            () = &mut interrupted => {
                let names = listed(wave.iter());
                bail!("stopped; {names} arrive or stay by themselves, as `meshctl node ls` shows, and no other was asked to go; the same command goes on from there");
            }
        };
        let whole = wave_ways.values().all(|way| *way == Way::Arrived);
        ways.extend(wave_ways);
        if !whole {
            break;
        }
    }
    for node in nodes {
        let unasked = || Way::Stays(format!("node {node} was not asked to go"));
        ways.entry(node.clone()).or_insert_with(unasked);
    }
    close(cli, to, &ways)
}

/// Who is not there, with those on their way first.
fn to_go(status: &Status, to: BusKind) -> Vec<NodeName> {
    let begins = status.nodes.iter().map(|found| {
        let node = found.node.clone();
        (begin(status, &node, to), node)
    });
    let (on_their_way, others): (Vec<_>, Vec<_>) =
        begins.partition(|(begin, _)| *begin == Begin::OnItsWay);
    let others = others
        .into_iter()
        .filter(|(begin, _)| *begin == Begin::Offer);
    let all = on_their_way.into_iter().chain(others);
    all.map(|(_, node)| node).collect()
}

/// One wave.
async fn go(
    client: &Client,
    wave: &[NodeName],
    to: BusKind,
    patience: Duration,
) -> anyhow::Result<BTreeMap<NodeName, Way>> {
    let status = client.status().await?;
    for node in wave {
        if begin(&status, node, to) == Begin::Offer {
            client.move_node(node, Move { to }).await?;
        }
    }
    out::note(&format!("on their way to {to}: {}", listed(wave.iter())));
    watch(client, wave, to, patience).await
}

/// Watches these until each has arrived or stays, or the patience ends; says whatever changes.
async fn watch(
    client: &Client,
    nodes: &[NodeName],
    to: BusKind,
    patience: Duration,
) -> anyhow::Result<BTreeMap<NodeName, Way>> {
    let began = Instant::now();
    let mut ways: BTreeMap<NodeName, Way> = BTreeMap::new();
    loop {
        let status = client.status().await?;
        for node in nodes {
            let way = way(&status, node, to);
            if ways.get(node) != Some(&way) {
                out::note(&match &way {
                    Way::Arrived => format!("node {node} is on {to}"),
                    Way::Going(how) => format!("waiting: {how}"),
                    Way::Stays(why) => why.clone(),
                });
                ways.insert(node.clone(), way);
            }
        }
        let under_way = ways.values().any(|way| matches!(way, Way::Going(_)));
        if !under_way || began.elapsed() >= patience {
            return Ok(ways);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How many nodes go at once, unless it is said.
const AT_ONCE: usize = 5;

/// How often it is looked.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Says which moved and which stayed, and ends accordingly.
fn close(cli: &Cli, to: BusKind, ways: &BTreeMap<NodeName, Way>) -> anyhow::Result<ExitCode> {
    let stays = ways.values().find_map(|way| match way {
        Way::Stays(why) => Some(why.clone()),
        Way::Arrived | Way::Going(_) => None,
    });
    let going = ways.values().filter_map(|way| match way {
        Way::Going(how) => Some(how.clone()),
        Way::Arrived | Way::Stays(_) => None,
    });
    let going: Vec<String> = going.collect();
    if stays.is_none() && going.is_empty() {
        return said(cli, to, ways);
    }
    if ways.len() > 1 {
        out::note(account(to, ways).trim_end());
    }
    if !going.is_empty() {
        // Whoever is on the way may arrive yet, so this is not known to have failed.
        return Err(TimedOut {
            after: humantime::format_duration(cli.timeout).to_string(),
            waiting_for: going,
        }
        .into());
    }
    // The sentence of whoever was asked says why; those not asked only follow from it.
    let why = ways.values().find_map(|way| match way {
        Way::Stays(why) if !why.ends_with("was not asked to go") => Some(why.clone()),
        _ => None,
    });
    bail!(why.or(stays).unwrap_or_default())
}

/// Who moved and who did not, for people.
fn account(to: BusKind, ways: &BTreeMap<NodeName, Way>) -> String {
    let of = |wanted: fn(&Way) -> bool| {
        let those = ways.iter().filter(|(_, way)| wanted(way));
        listed(those.map(|(node, _)| node))
    };
    let mut text = String::new();
    let lines = [
        (format!("on {to}"), of(|way| *way == Way::Arrived)),
        (
            "on their way".to_owned(),
            of(|way| matches!(way, Way::Going(_))),
        ),
        ("stay".to_owned(), of(|way| matches!(way, Way::Stays(_)))),
    ];
    for (what, names) in lines.iter().filter(|(_, names)| !names.is_empty()) {
        // Writing to a string does not fail.
        let _written = writeln!(text, "{what}: {names}");
    }
    text
}

fn listed<'a>(nodes: impl Iterator<Item = &'a NodeName>) -> String {
    nodes.map(NodeName::as_str).collect::<Vec<_>>().join(", ")
}

fn said(cli: &Cli, to: BusKind, ways: &BTreeMap<NodeName, Way>) -> anyhow::Result<ExitCode> {
    let of = |arrived: bool| -> Vec<&NodeName> {
        let those = ways
            .iter()
            .filter(|(_, way)| (**way == Way::Arrived) == arrived);
        those.map(|(node, _)| node).collect()
    };
    match cli.output {
        Output::Json => out::json(
            "Moved",
            json!({ "to": to, "there": of(true), "not": of(false) }),
        )?,
        Output::Name => {
            for node in of(true) {
                out::data(&format!("{node}\n"));
            }
        }
        Output::Table => out::data(&account(to, ways)),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
