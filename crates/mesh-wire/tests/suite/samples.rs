//! The values whose bytes are committed: every type, every variant. They never change; a new version adds its own.

use mesh_control::{AuditFact, Fact, MeshFact};
use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, BusPlace, Declaration, Enrolment, EnrolmentAnswer,
    EnrolmentRefusal, Generation, Heartbeat, Home, InstanceRecord, InstanceRef, Manifest,
    ModuleReport, ModuleState, Moving, NodeRecord, Offer, Outcome, Placement, PublicKey, Report,
    ReportId, Restart, Revision, Run, Sealed, SeatRecord, Selector, Seq, Spent, Timestamp,
    TokenRecord, Workload,
};
use mesh_wire::{Announcement, Ask, Asked, LogEnd, LogPart, LogSaid, Mark, Signed};

pub(crate) fn key(letter: char) -> PublicKey {
    PublicKey::from_raw([u8::try_from(letter).unwrap(); 32])
}

pub(crate) fn box_key() -> BoxPublicKey {
    BoxPublicKey::from_raw([7; 32])
}

pub(crate) const GENERATION: Generation = Generation {
    incarnation: 2,
    counter: 300,
};

pub(crate) fn workload(module: &str, restart: Restart) -> Workload {
    Workload {
        module: module.parse().unwrap(),
        release: "1.2.3".to_owned(),
        run: command(),
        after: ["clock".parse().unwrap()].into(),
        env: [("LANG".to_owned(), "C".to_owned())].into(),
        restart,
        key: key('A'),
        credential: Sealed(vec![0, 1, 254, 255]),
        health: None,
        secrets: [].into(),
        pull_secret: None,
        accepts: [].into(),
    }
}

fn command() -> Run {
    Run::Command {
        program: "/bin/mailer".to_owned(),
        args: vec!["--port".to_owned(), "25".to_owned()],
    }
}

pub(crate) fn declarations() -> Vec<Declaration> {
    let node = || "web-1".parse().unwrap();
    vec![
        Declaration {
            home: Home::Here,
            node: node(),
            generation: Generation::default(),
            workloads: Vec::new(),
        },
        Declaration {
            home: Home::Here,
            node: node(),
            generation: GENERATION,
            workloads: vec![
                workload("archiver", Restart::Never),
                workload("mailer", Restart::Always),
                workload("shop", Restart::OnFailure),
            ],
        },
    ]
}

pub(crate) fn reports() -> Vec<Report> {
    let module = |name: &str, state, pid| {
        let report = ModuleReport {
            release: "1.2.3".to_owned(),
            state,
            pid,
            restarts: 3,
            reason: pid.is_none().then(|| "exit status 1".to_owned()),
            image: None,
            last_exit: None,
            repairs: 0,
        };
        (name.parse().unwrap(), report)
    };
    let report = |outcome, modules| Report {
        id: ReportId {
            node: "web-1".parse().unwrap(),
            generation: GENERATION,
            seq: Seq(41),
        },
        at: Timestamp::from_millis(1_796_000_000_123),
        outcome,
        modules,
    };
    vec![
        report(Outcome::Converged, [].into()),
        report(
            Outcome::Converging,
            [
                module("a", ModuleState::Starting, Some(4242)),
                module("b", ModuleState::Running, Some(1)),
                module("c", ModuleState::Backoff, None),
                module("d", ModuleState::Ended, None),
                module("e", ModuleState::Failed, None),
            ]
            .into(),
        ),
        report(
            Outcome::Failed {
                reason: "no such program".to_owned(),
            },
            [].into(),
        ),
    ]
}

pub(crate) fn heartbeats() -> Vec<Heartbeat> {
    [(None, false), (Some(GENERATION), true)]
        .map(|(applied, deaf)| Heartbeat {
            node: "web-1".parse().unwrap(),
            session: 1_796_000_000_000,
            applied,
            seq: Seq(41),
            deaf,
            version: "0.1.0".to_owned(),
            doing: [].into(),
        })
        .into()
}

pub(crate) fn enrolments() -> Vec<Enrolment> {
    [None, Some("web-1")]
        .map(|node| Enrolment {
            node: node.map(|node| node.parse().unwrap()),
            key: key('B'),
            box_key: box_key(),
            reply: "_INBOX_mesh.joiner.a1b2.x".parse().unwrap(),
            clock: Timestamp::from_millis(1_796_000_000_123),
        })
        .into()
}

pub(crate) fn answers() -> Vec<EnrolmentAnswer> {
    let token = || "a1b2".parse().unwrap();
    let node = || "web-1".parse().unwrap();
    let accepted = |domain: Option<&str>, jwt: Option<&str>| EnrolmentAnswer::Accepted {
        mesh: "home".parse().unwrap(),
        node: node(),
        bus: BusFacts {
            domain: domain.map(str::to_owned),
            account: "MESH".to_owned(),
        },
        jwt: jwt.map(str::to_owned),
    };
    let refusals = [
        EnrolmentRefusal::Unknown { token: token() },
        EnrolmentRefusal::Expired {
            token: token(),
            seconds_ago: 90,
        },
        EnrolmentRefusal::Spent {
            token: token(),
            node: node(),
        },
        EnrolmentRefusal::NameTaken { node: node() },
        EnrolmentRefusal::NameMismatch {
            allowed: node(),
            asked: "web-2".parse().unwrap(),
        },
        EnrolmentRefusal::NoName,
        EnrolmentRefusal::ClockSkew { seconds: 4000 },
        EnrolmentRefusal::ForeignAddress {
            address: "somebody.else".parse().unwrap(),
        },
        EnrolmentRefusal::InvalidKey {
            what: "not a key".to_owned(),
        },
    ];
    [accepted(None, None), accepted(Some("edge"), Some("ey.J.x"))]
        .into_iter()
        .chain(refusals.map(EnrolmentAnswer::Refused))
        .collect()
}

pub(crate) fn marks() -> Vec<Mark> {
    vec![Mark {
        store: *b"0123456789abcdef",
        commit: 70_000,
    }]
}

pub(crate) fn asks() -> Vec<Ask> {
    let asked = [
        Asked::Log {
            module: "mailer".parse().unwrap(),
            tail: 100,
            follow: true,
            room: 262_144,
        },
        Asked::More { room: 300_000 },
        Asked::Enough,
    ];
    asked
        .map(|what| Ask {
            node: "web-1".parse().unwrap(),
            at: Timestamp::from_millis(1_700_000_000_000),
            reading: u64::MAX,
            what,
        })
        .into()
}

pub(crate) fn log_parts() -> Vec<LogPart> {
    let ends = [
        None,
        Some(LogEnd::Whole),
        Some(LogEnd::NotHere),
        Some(LogEnd::TooMany),
        Some(LogEnd::Unknown),
        Some(LogEnd::Failed("no such file".to_owned())),
    ];
    let said = |bytes: &[u8], cut| LogSaid::Line {
        bytes: bytes.to_vec(),
        cut,
    };
    ends.map(|end| LogPart {
        reading: 7,
        number: 300,
        cost: 70_000,
        said: vec![
            said(b"listening", false),
            said(b"", false),
            said(b"\x1b[31mred\xff", true),
            LogSaid::Dropped(1000),
        ],
        end,
    })
    .into()
}

pub(crate) fn signed() -> Vec<Signed> {
    vec![Signed {
        body: b"a body".to_vec(),
        signature: [0xab; 64],
    }]
}

pub(crate) fn announcements() -> Vec<Announcement> {
    [None, Some("a")]
        .map(|instance| Announcement {
            release: "1.2.3".to_owned(),
            node: "web-1".parse().unwrap(),
            instance: instance.map(str::to_owned),
            key: None,
        })
        .into()
}

pub(crate) fn manifest() -> Manifest {
    Manifest {
        module: "mailer".parse().unwrap(),
        release: "1.2.3".to_owned(),
        run: command(),
        after: ["clock".parse().unwrap()].into(),
        env: [("LANG".to_owned(), "C".to_owned())].into(),
        restart: Restart::OnFailure,
        emits: ["mail.sent".parse().unwrap()].into(),
        follows: ["shop.order.placed".parse().unwrap()].into(),
        can_hold: ["postman".parse().unwrap()].into(),
        sends_to: ["clerk".parse().unwrap()].into(),
        health: None,
        secrets: [].into(),
    }
}

pub(crate) fn credentials() -> Vec<Fact> {
    let token = |spent| {
        let record = TokenRecord {
            bus: BusKind::Nats,
            key: key('C'),
            expires: Timestamp::from_millis(1_796_000_000_000),
            node: Some("web-1".parse().unwrap()),
            labels: [("role".to_owned(), "web".to_owned())].into(),
            rejoin: true,
            spent,
        };
        Fact::Token("a1b2".parse().unwrap(), record)
    };
    let spent = Spent {
        node: "web-1".parse().unwrap(),
        key: key('D'),
        arrived: true,
    };
    let node = NodeRecord {
        bus: BusKind::Nats,
        moving: None,
        key: key('D'),
        box_key: box_key(),
        labels: [("role".to_owned(), "web".to_owned())].into(),
        token: "a1b2".parse().unwrap(),
        enrolled: Timestamp::from_millis(1_796_000_000_123),
        scheduling: mesh_model::Scheduling::Open,
    };
    let instance = InstanceRef {
        module: "mailer".parse().unwrap(),
        node: "web-1".parse().unwrap(),
    };
    let record = InstanceRecord {
        bus: BusKind::Nats,
        key: key('E'),
        credential: Sealed(vec![0, 1, 254, 255]),
        sealed_to: box_key(),
        secrets: [].into(),
        life: mesh_model::CredentialLife::default(),
    };
    vec![
        Fact::Node("web-1".parse().unwrap(), node),
        token(None),
        token(Some(spent)),
        Fact::Instance(instance, record),
    ]
}

/// Declarations that say where their node is at home: what the second version is for.
pub(crate) fn homes() -> Vec<Declaration> {
    let offer = |ca: Option<&str>, bus| Offer {
        bus,
        place: BusPlace {
            urls: vec!["amqps://bus.example/mesh".to_owned()],
            ca: ca.map(str::to_owned),
            facts: BusFacts {
                domain: Some("hub".to_owned()),
                account: "MESH".to_owned(),
            },
        },
        credential: Sealed(vec![9, 8, 7]),
    };
    let first = declarations().remove(1);
    [
        Home::On(BusKind::Nats),
        Home::On(BusKind::Amqp),
        Home::Offered(Box::new(offer(Some("PEM"), BusKind::Amqp))),
        Home::Offered(Box::new(offer(None, BusKind::Nats))),
    ]
    .map(|home| Declaration {
        home,
        ..first.clone()
    })
    .into()
}

/// Facts that say on which bus somebody is, and whether on the way to another.
pub(crate) fn facts_of_both_buses() -> Vec<Fact> {
    let proving = Moving::Proving {
        to: BusKind::Amqp,
        key: key('F'),
        credential: Sealed(vec![1, 2]),
        since: Timestamp::from_millis(1_796_000_000_456),
    };
    let leaving = Moving::Leaving {
        from: BusKind::Nats,
    };
    let ways = [
        (BusKind::Nats, Some(proving)),
        (BusKind::Amqp, Some(leaving)),
        (BusKind::Amqp, None),
    ];
    let mut facts = Vec::new();
    for fact in credentials() {
        match fact {
            Fact::Node(node, record) => facts.extend(ways.clone().map(|(bus, moving)| {
                let record = NodeRecord {
                    bus,
                    moving,
                    ..record.clone()
                };
                Fact::Node(node.clone(), record)
            })),
            Fact::Token(token, mut record) => {
                record.bus = BusKind::Amqp;
                facts.push(Fact::Token(token, record));
            }
            Fact::Instance(instance, mut record) => {
                record.bus = BusKind::Amqp;
                facts.push(Fact::Instance(instance, record));
            }
            _ => {}
        }
    }
    facts.extend(homes().into_iter().map(Fact::Declaration));
    facts
}

pub(crate) fn facts() -> Vec<Fact> {
    let mailer = || "mailer".parse().unwrap();
    let postman = || "postman".parse().unwrap();
    let placed = |on| Fact::Placed(mailer(), Placement { on, count: None });
    let assigned = |assigned| {
        Fact::Assigned(
            postman(),
            SeatRecord {
                assigned,
                by: mesh_model::Assigner::Operator,
            },
        )
    };
    let declared = vec![
        Fact::Mesh(MeshFact {
            name: "home".parse().unwrap(),
            revision: Revision(300),
            incarnation: 2,
        }),
        Fact::Module(manifest()),
        Fact::Seat(postman(), None.into()),
        Fact::Seat(postman(), Some(mailer()).into()),
        placed(Selector::Nodes(["web-1".parse().unwrap()].into())),
        placed(Selector::Labels(
            [("role".to_owned(), "web".to_owned())].into(),
        )),
        assigned(None),
        assigned(Some(mailer())),
        Fact::Audit(AuditFact {
            revision: Revision(300),
            at: Timestamp::from_millis(1_796_000_000_123),
            who: "uid 0".to_owned(),
            what: "assigned seat postman to mailer".to_owned(),
        }),
    ];
    declared
        .into_iter()
        .chain(credentials())
        .chain(declarations().into_iter().map(Fact::Declaration))
        .chain(reports().into_iter().map(Fact::Report))
        .collect()
}
