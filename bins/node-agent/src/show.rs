//! What the agent's files say, as text.

use std::fmt::Write as _;
use std::path::Path;

use mesh_agent::{AgentConfig, ModuleStatus, Phase, Status};

use crate::cli::{Cli, ConfigVerb};
use crate::out;

/// Prints what this node was last told to run, and what runs.
pub(crate) fn status(cli: &Cli) -> anyhow::Result<()> {
    let config = AgentConfig::read(&cli.config())?;
    let status = Status::read(&config.state_dir)?;
    out::data(&render(&config, &status));
    Ok(())
}

/// Prints the configuration as it is meant, or what is wrong with it.
pub(crate) fn config(cli: &Cli, verb: ConfigVerb) -> anyhow::Result<()> {
    let file = cli.config();
    let config = AgentConfig::read(&file)?;
    match verb {
        // Relative to nothing, so that every path is whole.
        ConfigVerb::Show => out::data(&config.render(Path::new(""))?),
        ConfigVerb::Validate => out::data(&format!("ok: {}\n", file.display())),
    }
    Ok(())
}

fn render(config: &AgentConfig, status: &Status) -> String {
    let agent = if status.running {
        "running"
    } else {
        "not running"
    };
    let declaration = status.remembered.declaration.as_ref();
    let declared = declaration.map_or_else(
        || "nothing yet".to_owned(),
        |declaration| declaration.generation.to_string(),
    );
    let mut text = format!(
        "node      {}\nmesh      {}\nbus       {}\nengine    {}\nagent     {agent}\ndeclared  {declared}\nunsent    {}\n",
        config.node,
        config.mesh,
        bus(config, status),
        config.containers.engine,
        status.remembered.unsent.len(),
    );
    let rows = rows(status);
    if !rows.is_empty() {
        text.push_str("\nMODULE            RELEASE       STATE\n");
    }
    for [module, release, state] in rows {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{module:<17} {release:<13} {state}");
    }
    text
}

/// Which bus the node is on, and which it was offered.
fn bus(config: &AgentConfig, status: &Status) -> String {
    let moved = status.moved.as_ref();
    let mut text = match moved {
        Some(place) => format!(
            "{} at {}, where it moved to",
            place.bus,
            place.urls.join(", ")
        ),
        None => format!("{} at {}", config.kind(), config.urls.join(", ")),
    };
    if let Some(place) = &status.offered {
        let _written = write!(text, "; offered {} at {}", place.bus, place.urls.join(", "));
    }
    text
}

/// Every module that is declared or has a record, by name.
fn rows(status: &Status) -> Vec<[String; 3]> {
    let declaration = status.remembered.declaration.as_ref();
    let declared = declaration.map_or(&[][..], |declaration| &declaration.workloads);
    let mut rows: Vec<_> = status
        .modules
        .iter()
        .map(|module| {
            let is_declared = declared.iter().any(|w| w.module == module.module);
            let note = if is_declared {
                ""
            } else {
                ", no longer declared"
            };
            let state = format!("{}{note}", state(module));
            [module.module.to_string(), module.release.clone(), state]
        })
        .collect();
    for workload in declared {
        if !status.modules.iter().any(|m| m.module == workload.module) {
            let (module, release) = (workload.module.to_string(), workload.release.clone());
            // Of containers the engine knows, and no file.
            let state = match workload.run.container() {
                Some(_) => {
                    format!("a container: docker ps --all --filter label=mesh.module={module}")
                }
                None => "never started".to_owned(),
            };
            rows.push([module, release, state]);
        }
    }
    rows.sort();
    rows
}

fn state(module: &ModuleStatus) -> String {
    let state = match &module.phase {
        Phase::Starting => "starting".to_owned(),
        Phase::Running { pid } => format!("running (process {pid})"),
        Phase::Gone => "no process".to_owned(),
        Phase::Ended { reason } => format!("ended: {reason}"),
    };
    match module.restarts {
        0 => state,
        1 => format!("{state}, restarted once"),
        times => format!("{state}, restarted {times} times"),
    }
}

#[cfg(test)]
mod tests {
    use mesh_agent::BusSeen;
    use mesh_control::Remembered;
    use mesh_model::{
        BusKind, Container, Declaration, Generation, PublicKey, Restart, Run, Sealed, Workload,
    };

    use super::*;

    const CONFIG: &str = r#"version = 1
node = "web-1"
mesh = "home"
urls = ["tls://bus.example:4222"]
ca = "ca.pem"
credential = "node.creds"
box_key = "node.xkey"
controller = "VBZ43AHYS7TG7TDQEVLANPEK4R6X6R32GBZY6L7VRIXFSR65X6EAWPA2"
bus = { account = "MESH" }
"#;

    fn there() -> BusSeen {
        let urls = ["amqps://a.example/mesh", "amqps://b.example/mesh"];
        BusSeen {
            bus: BusKind::Amqp,
            urls: urls.map(str::to_owned).into(),
        }
    }

    fn workload(module: &str) -> Workload {
        Workload {
            module: module.parse().unwrap(),
            release: "2".to_owned(),
            run: Run::command(["sleep".to_owned()]).unwrap(),
            after: [].into(),
            env: [].into(),
            restart: Restart::Always,
            key: PublicKey::from_raw([0; 32]),
            credential: Sealed(vec![]),
            health: None,
            secrets: [].into(),
            pull_secret: None,
            accepts: [].into(),
        }
    }

    fn container(module: &str) -> Workload {
        let container = Container::new("shop:1".parse().unwrap());
        Workload {
            run: Run::Image(Box::new(container)),
            ..workload(module)
        }
    }

    fn module(name: &str, phase: Phase, restarts: u32) -> ModuleStatus {
        ModuleStatus {
            module: name.parse().unwrap(),
            release: "2".to_owned(),
            phase,
            restarts,
        }
    }

    #[test]
    fn a_status_shows_what_is_declared_and_what_is_there() {
        let config = AgentConfig::parse(Path::new("agent.toml"), CONFIG).unwrap();
        let mut status = Status {
            running: false,
            remembered: Remembered::default(),
            moved: None,
            offered: None,
            modules: vec![],
        };
        let nothing = "node      web-1\nmesh      home\nbus       nats at tls://bus.example:4222\nengine    auto\nagent     not \
                       running\ndeclared  nothing yet\nunsent    0\n";
        assert_eq!(render(&config, &status), nothing);
        status.offered = Some(there());
        let text = render(&config, &status);
        let both = "nats at tls://bus.example:4222; offered amqp at amqps://a.example/mesh, amqps://b.example/mesh\n";
        assert!(text.contains(both), "{text}");
        status.moved = status.offered.take();

        status.running = true;
        status.remembered.declaration = Some(Declaration {
            home: mesh_model::Home::Here,
            node: "web-1".parse().unwrap(),
            generation: Generation {
                incarnation: 1,
                counter: 7,
            },
            workloads: vec![workload("mailer"), workload("absent"), container("shop")],
        });
        status.modules = vec![
            module("mailer", Phase::Running { pid: 4711 }, 2),
            module("left", Phase::Gone, 1),
        ];
        assert_eq!(
            render(&config, &status),
            "node      web-1\nmesh      home\nbus       amqp at amqps://a.example/mesh, amqps://b.example/mesh, where it \
             moved to\nengine    auto\nagent     running\ndeclared  1.7\nunsent    0\n\n\
             MODULE            RELEASE       STATE\n\
             absent            2             never started\n\
             left              2             no process, restarted once, no longer declared\n\
             mailer            2             running (process 4711), restarted 2 times\n\
             shop              2             a container: docker ps --all --filter label=mesh.module=shop\n"
        );
    }
}
