//! The values whose bytes are committed in the versions that know of containers, secrets, failover and spread.

use std::num::NonZeroU32;

use mesh_control::Fact;
use mesh_model::{
    Assigner, Container, CredentialLife, Declaration, HandedSecret, Health, Heartbeat, Home,
    LastExit, ModuleReport, ModuleState, Network, Outcome, Placement, Probe, Report, Resources,
    Restart, Retiring, Run, Scheduling, Sealed, SeatRecord, SeatSpec, SecretRecord, Selector,
    Timestamp, Workload,
};

use crate::samples::{self, key};

fn image() -> Run {
    let image = format!(
        "registry.example:5000/mail/mailer:1.2@sha256:{}",
        "0a".repeat(32)
    );
    let ports = ["8025:25", "127.0.0.1:8080:80", "[::1]:5353:53/udp"];
    let volumes = ["data:/var/lib/data", "/srv/files:/files:ro"];
    Run::Image(Box::new(Container {
        args: vec!["--verbose".to_owned()],
        ports: ports.map(|port| port.parse().unwrap()).into(),
        volumes: volumes.map(|volume| volume.parse().unwrap()).into(),
        network: Network::Bridge,
        resources: Resources {
            memory: Some(256 * 1024 * 1024),
            millicpus: Some(500),
        },
        pull_secret: Some("REGISTRY".parse().unwrap()),
        ..Container::new(image.parse().unwrap())
    }))
}

fn bare() -> Run {
    Run::Image(Box::new(Container {
        network: Network::Host,
        ..Container::new("mailer".parse().unwrap())
    }))
}

fn health(probe: Probe) -> Health {
    Health {
        probe,
        every: 5_000,
        within: 30_000,
    }
}

fn probes() -> [Probe; 3] {
    [
        Probe::Http("http://127.0.0.1:8080/health".to_owned()),
        Probe::Tcp("127.0.0.1:8025".to_owned()),
        Probe::Exec(vec!["/bin/check".to_owned(), "--quick".to_owned()]),
    ]
}

fn handed(version: u64) -> HandedSecret {
    HandedSecret {
        version,
        sealed: Sealed(vec![3, 2, 1, 255]),
    }
}

pub(crate) fn declarations() -> Vec<Declaration> {
    let first = || samples::workload("mailer", Restart::Always);
    let [http, tcp, exec] = probes();
    let whole = Workload {
        run: image(),
        health: Some(health(http)),
        secrets: [("SMTP_PASSWORD".parse().unwrap(), handed(300))].into(),
        pull_secret: Some(handed(2)),
        accepts: [key('B'), key('C')].into(),
        ..first()
    };
    let bare = Workload {
        run: bare(),
        ..first()
    };
    let probed = [tcp, exec].map(|probe| Workload {
        health: Some(health(probe)),
        ..first()
    });
    let replaced = Workload {
        accepts: [key('B')].into(),
        ..first()
    };
    let of = |workloads, home: &Home| Declaration {
        home: home.clone(),
        node: "web-1".parse().unwrap(),
        generation: samples::GENERATION,
        workloads,
    };
    let homes: Vec<Home> = samples::homes().into_iter().map(|it| it.home).collect();
    let mut declarations = vec![
        of(vec![whole.clone(), bare, replaced], &Home::Here),
        of(probed.into(), &Home::Here),
    ];
    declarations.extend(
        homes
            .iter()
            .map(|home| of(vec![whole.clone(), first()], home)),
    );
    declarations
}

pub(crate) fn reports() -> Vec<Report> {
    use ModuleState::{Backoff, Ended, Failed, Pulling, Running, Starting};
    let plain = |state| ModuleReport {
        release: "1.2.3".to_owned(),
        state,
        pid: None,
        restarts: 3,
        reason: None,
        image: None,
        last_exit: None,
        repairs: 0,
    };
    let whole = |state| ModuleReport {
        pid: Some(4242),
        reason: Some("release 2 is not healthy; release 1 runs again".to_owned()),
        image: Some(format!("sha256:{}", "0a".repeat(32))),
        last_exit: Some(LastExit {
            at: Timestamp::from_millis(1_796_000_000_000),
            how: "exit status 1".to_owned(),
        }),
        repairs: 2,
        ..plain(state)
    };
    let of = |outcome, modules: Vec<(&str, ModuleReport)>| {
        let modules = modules.into_iter();
        Report {
            outcome,
            modules: modules
                .map(|(name, report)| (name.parse().unwrap(), report))
                .collect(),
            ..samples::reports().remove(0)
        }
    };
    let reason = "a: no such image".to_owned();
    vec![
        of(Outcome::Converging, vec![("a", plain(Pulling))]),
        of(
            Outcome::Failed { reason },
            vec![
                ("a", whole(Pulling)),
                ("b", whole(Starting)),
                ("c", whole(Running)),
                ("d", whole(Backoff)),
                ("e", whole(Ended)),
                ("f", whole(Failed)),
                ("g", plain(Running)),
            ],
        ),
    ]
}

pub(crate) fn heartbeats() -> Vec<Heartbeat> {
    let doing = "pulling 3 of 7 layers, 42.1 of 180.0 MB".to_owned();
    let heartbeats = samples::heartbeats().into_iter();
    heartbeats
        .map(|first| Heartbeat {
            doing: [("mailer".parse().unwrap(), doing.clone())].into(),
            ..first
        })
        .collect()
}

fn modules() -> Vec<Fact> {
    let first = samples::manifest;
    let mut manifests = vec![first(), first()];
    manifests[0].run = image();
    manifests[1].secrets = ["SMTP_PASSWORD".parse().unwrap()].into();
    for probe in probes() {
        let mut manifest = first();
        manifest.health = Some(health(probe));
        manifests.push(manifest);
    }
    manifests.into_iter().map(Fact::Module).collect()
}

fn seats() -> Vec<Fact> {
    let mailer = || Some("mailer".parse().unwrap());
    let spec = |holder, failover| {
        let failover = Some(failover);
        Fact::Seat("postman".parse().unwrap(), SeatSpec { holder, failover })
    };
    let assigned = |assigned| {
        let by = Assigner::Failover;
        Fact::Assigned("postman".parse().unwrap(), SeatRecord { assigned, by })
    };
    let placed = |on| {
        let count = NonZeroU32::new(300);
        Fact::Placed("mailer".parse().unwrap(), Placement { on, count })
    };
    let labels = [("role".to_owned(), "web".to_owned())].into();
    vec![
        spec(None, 0),
        spec(mailer(), 30_000),
        assigned(None),
        assigned(mailer()),
        placed(Selector::Nodes(["web-1".parse().unwrap()].into())),
        placed(Selector::Labels(labels)),
    ]
}

fn lives() -> [CredentialLife; 2] {
    let made = Some(Timestamp::from_millis(1_796_000_000_000));
    let retiring = Some(Retiring {
        key: key('F'),
        until: Timestamp::from_millis(1_796_000_000_456),
    });
    let accepts = [key('F'), key('G')].into();
    [
        CredentialLife {
            made,
            retiring: None,
            accepts: [].into(),
        },
        CredentialLife {
            made,
            retiring,
            accepts,
        },
    ]
}

/// Nodes and instances, of either bus.
fn credentials() -> Vec<Fact> {
    let first = samples::credentials().into_iter();
    let second = samples::facts_of_both_buses().into_iter();
    let mut facts = Vec::new();
    for fact in first.chain(second) {
        match fact {
            Fact::Node(node, record) => {
                for scheduling in [Scheduling::Cordoned, Scheduling::Drained] {
                    let mut record = record.clone();
                    record.scheduling = scheduling;
                    facts.push(Fact::Node(node.clone(), record));
                }
            }
            Fact::Instance(instance, mut record) => {
                for life in lives() {
                    record.life = life;
                    facts.push(Fact::Instance(instance.clone(), record.clone()));
                }
                record.life = CredentialLife::default();
                record.secrets = [("SMTP_PASSWORD".parse().unwrap(), handed(300))].into();
                facts.push(Fact::Instance(instance, record));
            }
            _ => {}
        }
    }
    facts
}

pub(crate) fn facts() -> Vec<Fact> {
    let secret = SecretRecord {
        version: 300,
        set: Timestamp::from_millis(1_796_000_000_123),
        sealed: Sealed(vec![0, 1, 254, 255]),
    };
    let secret = Fact::Secret("SMTP_PASSWORD".parse().unwrap(), secret);
    let mut facts = modules();
    facts.extend(seats());
    facts.extend(credentials());
    facts.push(secret);
    facts.extend(declarations().into_iter().map(Fact::Declaration));
    facts.extend(reports().into_iter().map(Fact::Report));
    facts
}
