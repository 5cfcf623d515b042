//! Closing a node to modules, emptying it, and opening it again.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use mesh_api::Schedule;
use mesh_control::{NodeState, Status};
use mesh_model::{ModuleName, NodeName, Scheduling};
use tokio::time::Instant;

use crate::cli::Cli;
use crate::declare::done;
use crate::exit::TimedOut;
use crate::out;

/// Says whether modules are placed on a node.
pub(crate) async fn schedule(
    cli: &Cli,
    node: &NodeName,
    scheduling: Scheduling,
) -> anyhow::Result<ExitCode> {
    let request = Schedule { scheduling };
    let applied = cli.client().schedule(node, request).await?;
    done(cli, applied.revision)
}

/// Has everything leave a node, and waits until the node says that it runs nothing.
pub(crate) async fn drain(cli: &Cli, node: &NodeName) -> anyhow::Result<ExitCode> {
    let client = cli.client();
    let scheduling = Scheduling::Drained;
    let applied = client.schedule(node, Schedule { scheduling }).await?;
    let before = client.status().await?;
    for (module, why) in short(&before, node) {
        out::note(&format!("module {module} is not placed: {why}"));
    }
    if cli.no_wait {
        return done(cli, applied.revision);
    }
    let began = Instant::now();
    let mut said = String::new();
    loop {
        let status = client.status().await?;
        let waiting = match emptied(&status, node) {
            Emptied::Empty => {
                out::note(&format!("node {node} runs nothing"));
                return done(cli, applied.revision);
            }
            Emptied::Not(why) => bail!(why),
            Emptied::Waiting(what) => what,
        };
        if waiting != said {
            out::note(&format!("waiting: {waiting}"));
            said = waiting;
        }
        if began.elapsed() >= cli.timeout {
            let after = humantime::format_duration(cli.timeout).to_string();
            let waiting_for = vec![said];
            return Err(TimedOut { after, waiting_for }.into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How often it is looked whether the node has become empty.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How far a node is that is to run nothing.
#[derive(Debug, PartialEq, Eq)]
enum Emptied {
    /// It said that it runs nothing.
    Empty,
    /// It may yet.
    Waiting(String),
    /// It will not: somebody decided otherwise.
    Not(String),
}

fn emptied(status: &Status, node: &NodeName) -> Emptied {
    let Some(found) = status.nodes.iter().find(|found| found.node == *node) else {
        return Emptied::Not(format!("{node} is a node no more"));
    };
    if found.scheduling != Scheduling::Drained {
        let word = found.scheduling.word();
        return Emptied::Not(format!(
            "node {node} is {word} again: somebody else changed that"
        ));
    }
    let answered = found
        .reported
        .is_some_and(|(generation, _)| generation == found.declared);
    if answered && found.modules.is_empty() {
        return Emptied::Empty;
    }
    if matches!(found.state, NodeState::Lost | NodeState::Unheard) {
        let reason = found.reason.as_deref().unwrap_or("not heard");
        return Emptied::Waiting(format!(
            "node {node}: {reason}; what runs there may go on until it is back, without any right on the bus"
        ));
    }
    let left: Vec<&str> = found.modules.keys().map(ModuleName::as_str).collect();
    if answered && !left.is_empty() {
        let left = left.join(", ");
        return Emptied::Waiting(format!("node {node} still runs {left}"));
    }
    let told = found.declared;
    Emptied::Waiting(format!("node {node} has not reported on {told} yet"))
}

/// Modules that are short of a node because this one is closed.
fn short<'a>(
    status: &'a Status,
    node: &NodeName,
) -> impl Iterator<Item = (&'a ModuleName, &'a str)> {
    let closed = node.to_string();
    let modules = status.modules.iter();
    let short = modules.filter_map(|module| Some((&module.module, module.unplaced.as_deref()?)));
    short.filter(move |(_, why)| {
        let mut words = why.split([' ', ',', ';']);
        words.any(|word| word == closed)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mesh(scheduling: &str, state: &str, reported: u64, modules: &Value) -> Status {
        let generation = |counter: u64| json!({ "incarnation": 1, "counter": counter });
        let node = json!({
            "node": "a", "state": state, "labels": {}, "bus": "nats", "moving": null,
            "scheduling": scheduling, "declared": generation(5), "applied": null,
            "reported": [generation(reported), 7], "heard_ago": 2_000, "deaf": false,
            "version": "1.2", "reason": "not heard for 31 s", "modules": modules,
        });
        let module = |name: &str, why: &str| json!({ "module": name, "release": "1", "nodes": [], "running": 0, "unplaced": why });
        let status = json!({
            "mesh": "home", "revision": 1, "at": 1_000_000, "buses": [], "nodes": [node],
            "modules": [module("x", "drained: a, b"), module("y", "not enrolled: a-1")],
            "seats": [], "window": { "held": 0, "peak": 0, "lets_go_in": null }, "store_up": true,
            "settled": true, "waiting_for": [], "tally": mesh_control::Tally::default(),
        });
        serde_json::from_value(status).unwrap()
    }

    fn of(scheduling: &str, state: &str, reported: u64, modules: &Value) -> Emptied {
        let status = mesh(scheduling, state, reported, modules);
        emptied(&status, &"a".parse().unwrap())
    }

    #[test]
    fn a_node_is_empty_once_it_says_so_of_the_newest_it_was_told() {
        let none = json!({});
        let some = json!({ "x": {
            "release": "1", "state": "running", "pid": null, "restarts": 0, "reason": null,
            "image": null, "last_exit": null, "repairs": 0,
        }});
        assert_eq!(of("drained", "ready", 5, &none), Emptied::Empty);
        let waiting = |emptied| match emptied {
            Emptied::Waiting(what) => what,
            other => panic!("{other:?}"),
        };
        assert!(waiting(of("drained", "ready", 4, &none)).contains("not reported on 1.5"));
        assert!(waiting(of("drained", "converging", 5, &some)).contains("still runs x"));
        assert!(waiting(of("drained", "lost", 4, &some)).contains("not heard for 31 s; what runs"));
        for (emptied, why) in [
            (of("open", "ready", 5, &none), "open again"),
            (
                emptied(&mesh("drained", "ready", 5, &none), &"b".parse().unwrap()),
                "no more",
            ),
        ] {
            assert!(
                matches!(&emptied, Emptied::Not(said) if said.contains(why)),
                "{emptied:?}"
            );
        }
    }

    #[test]
    fn modules_that_have_nowhere_to_go_are_said() {
        let status = mesh("drained", "ready", 5, &json!({}));
        let short: Vec<_> = short(&status, &"a".parse().unwrap()).collect();
        let x: ModuleName = "x".parse().unwrap();
        assert_eq!(short, [(&x, "drained: a, b")]);
    }
}
