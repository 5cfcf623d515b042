//! Generators: any value of every type that has bytes.

use std::fmt::Debug;
use std::str::FromStr;

use mesh_control::{AuditFact, Fact, FactKey, MeshFact};
use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, BusPlace, Declaration, Enrolment, EnrolmentAnswer,
    EnrolmentRefusal, Generation, Heartbeat, Home, InstanceRecord, InstanceRef, Labels, Manifest,
    ModuleReport, ModuleState, Moving, NodeRecord, Offer, Outcome, Placement, PublicKey, Report,
    ReportId, Restart, Revision, Run, Sealed, SeatRecord, Selector, Seq, Spent, Subject, Timestamp,
    TokenRecord, Workload,
};
use mesh_wire::{Announcement, Mark};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

/// Names out of few characters, so that one often begins another and two are often equal.
pub(crate) fn name<T: FromStr<Err: Debug> + Debug>() -> impl Strategy<Value = T> {
    "[a0]([a0-]{0,3}[a0])?".prop_map(|text| text.parse().unwrap())
}

fn event<T: FromStr<Err: Debug> + Debug>() -> impl Strategy<Value = T> {
    "[ab]{1,3}(\\.[ab]{1,3}){1,2}".prop_map(|text| text.parse().unwrap())
}

fn key() -> impl Strategy<Value = PublicKey> {
    any::<[u8; 32]>().prop_map(PublicKey::from_raw)
}

fn box_key() -> impl Strategy<Value = BoxPublicKey> {
    any::<[u8; 32]>().prop_map(BoxPublicKey::from_raw)
}

fn subject() -> impl Strategy<Value = Subject> {
    "[a-zA-Z_]{1,5}(\\.[a-z0-9ä-]{1,5}){0,3}".prop_map(|text| text.parse().unwrap())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "\\PC{0,6}", Just("\0\n".to_owned())]
}

/// What a node or a module says of itself.
fn line() -> impl Strategy<Value = String> {
    text().prop_map(|text| mesh_model::one_line(&text))
}

fn labels() -> impl Strategy<Value = Labels> {
    btree_map(text(), text(), 0..3)
}

fn sealed() -> impl Strategy<Value = Sealed> {
    vec(any::<u8>(), 0..40).prop_map(Sealed)
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_millis)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..3, 250_u64..260, any::<u64>()]
}

fn generation() -> impl Strategy<Value = Generation> {
    (number(), number()).prop_map(|(incarnation, counter)| Generation {
        incarnation,
        counter,
    })
}

fn run() -> impl Strategy<Value = Run> {
    (text(), vec(text(), 0..3)).prop_map(|(program, args)| Run::Command { program, args })
}

fn restart() -> impl Strategy<Value = Restart> {
    use Restart::{Always, Never, OnFailure};
    prop::sample::select(vec![Always, OnFailure, Never])
}

fn workload() -> impl Strategy<Value = Workload> {
    let process = (text(), run(), labels(), restart());
    (name(), btree_set(name(), 0..3), process, key(), sealed()).prop_map(
        |(module, after, (release, run, env, restart), key, credential)| Workload {
            module,
            release,
            run,
            after,
            env,
            restart,
            key,
            credential,
            health: None,
            secrets: [].into(),
            pull_secret: None,
            accepts: [].into(),
        },
    )
}

fn bus() -> impl Strategy<Value = BusKind> {
    prop_oneof![Just(BusKind::Nats), Just(BusKind::Amqp)]
}

fn home() -> impl Strategy<Value = Home> {
    let place = (vec(text(), 0..3), of(text()), of(text()), text()).prop_map(
        |(urls, ca, domain, account)| BusPlace {
            urls,
            ca,
            facts: BusFacts { domain, account },
        },
    );
    let offer = (bus(), place, sealed()).prop_map(|(bus, place, credential)| Offer {
        bus,
        place,
        credential,
    });
    prop_oneof![
        Just(Home::Here),
        bus().prop_map(Home::On),
        offer.prop_map(|offer| Home::Offered(Box::new(offer))),
    ]
}

fn moving() -> impl Strategy<Value = Moving> {
    prop_oneof![
        (bus(), key(), sealed(), time()).prop_map(|(to, key, credential, since)| {
            Moving::Proving {
                to,
                key,
                credential,
                since,
            }
        }),
        bus().prop_map(|from| Moving::Leaving { from }),
    ]
}

pub(crate) fn declaration() -> impl Strategy<Value = Declaration> {
    (name(), generation(), vec(workload(), 0..3), home()).prop_map(
        |(node, generation, workloads, home)| Declaration {
            node,
            generation,
            workloads,
            home,
        },
    )
}

fn report_id() -> impl Strategy<Value = ReportId> {
    (name(), generation(), number()).prop_map(|(node, generation, seq)| ReportId {
        node,
        generation,
        seq: Seq(seq),
    })
}

fn module_report() -> impl Strategy<Value = ModuleReport> {
    use ModuleState::{Backoff, Ended, Failed, Running, Starting};
    let state = prop::sample::select(vec![Starting, Running, Backoff, Ended, Failed]);
    let pid = of(any::<u32>());
    (line(), state, pid, any::<u32>(), of(line())).prop_map(
        |(release, state, pid, restarts, reason)| ModuleReport {
            release,
            state,
            pid,
            restarts,
            reason,
            image: None,
            last_exit: None,
            repairs: 0,
        },
    )
}

pub(crate) fn report() -> impl Strategy<Value = Report> {
    let outcome = prop_oneof![
        Just(Outcome::Converged),
        Just(Outcome::Converging),
        line().prop_map(|reason| Outcome::Failed { reason }),
    ];
    let modules = btree_map(name(), module_report(), 0..3);
    (report_id(), time(), outcome, modules).prop_map(|(id, at, outcome, modules)| Report {
        id,
        at,
        outcome,
        modules,
    })
}

pub(crate) fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let (applied, seq) = (of(generation()), number());
    (name(), number(), applied, seq, any::<bool>(), line()).prop_map(
        |(node, session, applied, seq, deaf, version)| Heartbeat {
            node,
            session,
            applied,
            seq: Seq(seq),
            deaf,
            version,
            doing: [].into(),
        },
    )
}

pub(crate) fn enrolment() -> impl Strategy<Value = Enrolment> {
    (of(name()), key(), box_key(), subject(), time()).prop_map(
        |(node, key, box_key, reply, clock)| Enrolment {
            node,
            key,
            box_key,
            reply,
            clock,
        },
    )
}

fn refusal() -> impl Strategy<Value = EnrolmentRefusal> {
    prop_oneof![
        name().prop_map(|token| EnrolmentRefusal::Unknown { token }),
        (name(), number())
            .prop_map(|(token, seconds_ago)| EnrolmentRefusal::Expired { token, seconds_ago }),
        (name(), name()).prop_map(|(token, node)| EnrolmentRefusal::Spent { token, node }),
        name().prop_map(|node| EnrolmentRefusal::NameTaken { node }),
        (name(), name())
            .prop_map(|(allowed, asked)| EnrolmentRefusal::NameMismatch { allowed, asked }),
        Just(EnrolmentRefusal::NoName),
        number().prop_map(|seconds| EnrolmentRefusal::ClockSkew { seconds }),
        subject().prop_map(|address| EnrolmentRefusal::ForeignAddress { address }),
        text().prop_map(|what| EnrolmentRefusal::InvalidKey { what }),
    ]
}

pub(crate) fn answer() -> impl Strategy<Value = EnrolmentAnswer> {
    let bus = (of(text()), text()).prop_map(|(domain, account)| BusFacts { domain, account });
    let accepted = (name(), name(), bus, of(text())).prop_map(|(mesh, node, bus, jwt)| {
        EnrolmentAnswer::Accepted {
            mesh,
            node,
            bus,
            jwt,
        }
    });
    prop_oneof![accepted, refusal().prop_map(EnrolmentAnswer::Refused)]
}

pub(crate) fn mark() -> impl Strategy<Value = Mark> {
    (any::<[u8; 16]>(), number()).prop_map(|(store, commit)| Mark { store, commit })
}

pub(crate) fn announcement() -> impl Strategy<Value = Announcement> {
    (line(), name(), of(line())).prop_map(|(release, node, instance)| Announcement {
        release,
        node,
        instance,
    })
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let process = (text(), run(), labels(), restart());
    let events = (btree_set(event(), 0..3), btree_set(event(), 0..3));
    let seats = (btree_set(name(), 0..3), btree_set(name(), 0..3));
    (name(), process, btree_set(name(), 0..3), events, seats).prop_map(
        |(module, (release, run, env, restart), after, (emits, follows), (can_hold, sends_to))| {
            Manifest {
                module,
                release,
                run,
                after,
                env,
                restart,
                emits,
                follows,
                can_hold,
                sends_to,
                health: None,
                secrets: [].into(),
            }
        },
    )
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        btree_set(name(), 0..3).prop_map(Selector::Nodes),
        labels().prop_map(Selector::Labels),
    ]
    .prop_map(|on| Placement { on, count: None })
}

fn node_record() -> impl Strategy<Value = NodeRecord> {
    let on = (bus(), of(moving()));
    (key(), box_key(), labels(), name(), time(), on).prop_map(
        |(key, box_key, labels, token, enrolled, (bus, moving))| NodeRecord {
            bus,
            moving,
            key,
            box_key,
            labels,
            token,
            enrolled,
            scheduling: mesh_model::Scheduling::Open,
        },
    )
}

fn token_record() -> impl Strategy<Value = TokenRecord> {
    let spent = (name(), key(), any::<bool>()).prop_map(|(node, key, arrived)| Spent {
        node,
        key,
        arrived,
    });
    let spent = of(spent);
    let kept = (key(), time(), of(name()), labels(), any::<bool>(), spent);
    (kept, bus()).prop_map(
        |((key, expires, node, labels, rejoin, spent), bus)| TokenRecord {
            bus,
            key,
            expires,
            node,
            labels,
            rejoin,
            spent,
        },
    )
}

fn instance() -> impl Strategy<Value = InstanceRef> {
    (name(), name()).prop_map(|(module, node)| InstanceRef { module, node })
}

fn instance_record() -> impl Strategy<Value = InstanceRecord> {
    (key(), sealed(), box_key(), bus()).prop_map(|(key, credential, sealed_to, bus)| {
        InstanceRecord {
            bus,
            key,
            credential,
            sealed_to,
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        }
    })
}

pub(crate) fn fact() -> impl Strategy<Value = Fact> {
    let mesh = (name(), number(), number()).prop_map(|(name, revision, incarnation)| MeshFact {
        name,
        revision: Revision(revision),
        incarnation,
    });
    let audit = (number(), time(), text(), text()).prop_map(|(revision, at, who, what)| {
        let revision = Revision(revision);
        AuditFact {
            revision,
            at,
            who,
            what,
        }
    });
    let assigned = of(name()).prop_map(|assigned| SeatRecord {
        assigned,
        by: mesh_model::Assigner::Operator,
    });
    prop_oneof![
        mesh.prop_map(Fact::Mesh),
        manifest().prop_map(Fact::Module),
        (name(), of(name())).prop_map(|(seat, holder)| Fact::Seat(seat, holder.into())),
        (name(), placement()).prop_map(|(module, on)| Fact::Placed(module, on)),
        (name(), assigned).prop_map(|(seat, record)| Fact::Assigned(seat, record)),
        (name(), node_record()).prop_map(|(node, record)| Fact::Node(node, record)),
        (name(), token_record()).prop_map(|(token, record)| Fact::Token(token, record)),
        (instance(), instance_record()).prop_map(|(of, record)| Fact::Instance(of, record)),
        declaration().prop_map(Fact::Declaration),
        report().prop_map(Fact::Report),
        audit.prop_map(Fact::Audit),
    ]
}

pub(crate) fn fact_key() -> impl Strategy<Value = FactKey> {
    prop_oneof![
        Just(FactKey::Mesh),
        name().prop_map(FactKey::Module),
        name().prop_map(FactKey::Seat),
        name().prop_map(FactKey::Placed),
        name().prop_map(FactKey::Assigned),
        name().prop_map(FactKey::Node),
        name().prop_map(FactKey::Token),
        instance().prop_map(FactKey::Instance),
        name().prop_map(FactKey::Declaration),
        report_id().prop_map(FactKey::Report),
        number().prop_map(|revision| FactKey::Audit(Revision(revision))),
    ]
}

/// Two keys of one kind.
pub(crate) fn fact_keys_of_a_kind() -> impl Strategy<Value = [FactKey; 2]> {
    let ids = (report_id(), report_id(), 0..4).prop_map(|(a, mut b, shared)| {
        // Left to chance, two reports hardly ever differ in their last numbers alone.
        if shared > 0 {
            b.node = a.node.clone();
        }
        if shared > 1 {
            b.generation.incarnation = a.generation.incarnation;
        }
        if shared > 2 {
            b.generation.counter = a.generation.counter;
        }
        [a, b].map(FactKey::Report)
    });
    let refs = (instance(), instance()).prop_map(|(a, b)| [a, b].map(FactKey::Instance));
    let nodes = (name(), name()).prop_map(|(a, b)| [a, b].map(FactKey::Node));
    let audits =
        (number(), number()).prop_map(|(a, b)| [a, b].map(|n| FactKey::Audit(Revision(n))));
    prop_oneof![ids, refs, nodes, audits,]
}
