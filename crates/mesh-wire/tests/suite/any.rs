//! Generators: any value of every type that has bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::str::FromStr;

use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, BusPlace, Container, Declaration, Enrolment, EnrolmentAnswer,
    EnrolmentRefusal, Generation, HandedSecret, Health, Heartbeat, Home, Image, Labels, LastExit,
    ModuleReport, ModuleState, Network, Offer, Outcome, Port, Probe, Protocol, PublicKey, Report,
    ReportId, Resources, Restart, Run, Sealed, SecretName, Seq, Subject, Timestamp, Volume,
    Workload,
};
use mesh_wire::{Announcement, Ask, Asked, LogEnd, LogPart, LogSaid, Mark};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

/// Names out of few characters, so that one often begins another and two are often equal.
pub(crate) fn name<T: FromStr<Err: Debug> + Debug>() -> impl Strategy<Value = T> {
    "[a0]([a0-]{0,3}[a0])?".prop_map(|text| text.parse().unwrap())
}

pub(crate) fn event<T: FromStr<Err: Debug> + Debug>() -> impl Strategy<Value = T> {
    "[ab]{1,3}(\\.[ab]{1,3}){1,2}".prop_map(|text| text.parse().unwrap())
}

pub(crate) fn key() -> impl Strategy<Value = PublicKey> {
    any::<[u8; 32]>().prop_map(PublicKey::from_raw)
}

pub(crate) fn box_key() -> impl Strategy<Value = BoxPublicKey> {
    any::<[u8; 32]>().prop_map(BoxPublicKey::from_raw)
}

fn subject() -> impl Strategy<Value = Subject> {
    "[a-zA-Z_]{1,5}(\\.[a-z0-9ä-]{1,5}){0,3}".prop_map(|text| text.parse().unwrap())
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "\\PC{0,6}", Just("\0\n".to_owned())]
}

/// What a node or a module says of itself.
fn line() -> impl Strategy<Value = String> {
    text().prop_map(|text| mesh_model::one_line(&text))
}

pub(crate) fn labels() -> impl Strategy<Value = Labels> {
    btree_map(text(), text(), 0..3)
}

pub(crate) fn sealed() -> impl Strategy<Value = Sealed> {
    vec(any::<u8>(), 0..40).prop_map(Sealed)
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_millis)
}

pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..3, 250_u64..260, any::<u64>()]
}

fn generation() -> impl Strategy<Value = Generation> {
    (number(), number()).prop_map(|(incarnation, counter)| Generation {
        incarnation,
        counter,
    })
}

pub(crate) fn secret_name() -> impl Strategy<Value = SecretName> {
    "[AB][AB0_]{0,2}".prop_map(|text| text.parse().unwrap())
}

fn port() -> impl Strategy<Value = Port> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    (of(any::<std::net::IpAddr>()), 1_u16.., 1_u16.., protocol).prop_map(
        |(address, host, container, protocol)| Port {
            address,
            host,
            container,
            protocol,
        },
    )
}

fn volume() -> impl Strategy<Value = Volume> {
    let source = prop_oneof!["[a0]{1,3}", "/[a0]{1,3}", "/a/[a0]"];
    (source, "/[a0]{1,3}", any::<bool>()).prop_map(|(source, target, read_only)| Volume {
        source,
        target,
        read_only,
    })
}

fn container() -> impl Strategy<Value = Container> {
    let image = "([a0]\\.b(:5000)?/)?[a0]{1,3}(/[a0])?(:[a0]{1,2})?(@sha256:[a0]{64})?";
    let image = image.prop_map(|text| Image::new(text).unwrap());
    let network = prop_oneof![Just(Network::Bridge), Just(Network::Host)];
    let resources = (of(any::<u64>()), of(any::<u32>()))
        .prop_map(|(memory, millicpus)| Resources { memory, millicpus });
    let sees = (btree_set(port(), 0..3), btree_set(volume(), 0..3), network);
    (image, vec(text(), 0..3), sees, resources, of(secret_name())).prop_map(
        |(image, args, (ports, volumes, network), resources, pull_secret)| Container {
            image,
            args,
            ports,
            volumes,
            network,
            resources,
            pull_secret,
        },
    )
}

pub(crate) fn run() -> impl Strategy<Value = Run> {
    prop_oneof![
        2 => (text(), vec(text(), 0..3)).prop_map(|(program, args)| Run::Command { program, args }),
        1 => container().prop_map(|container| Run::Image(Box::new(container))),
    ]
}

pub(crate) fn health() -> impl Strategy<Value = Health> {
    let probe = prop_oneof![
        text().prop_map(Probe::Http),
        text().prop_map(Probe::Tcp),
        vec(text(), 0..3).prop_map(Probe::Exec),
    ];
    (probe, number(), number()).prop_map(|(probe, every, within)| Health {
        probe,
        every,
        within,
    })
}

fn handed() -> impl Strategy<Value = HandedSecret> {
    (number(), sealed()).prop_map(|(version, sealed)| HandedSecret { version, sealed })
}

pub(crate) fn secrets() -> impl Strategy<Value = BTreeMap<SecretName, HandedSecret>> {
    btree_map(secret_name(), handed(), 0..3)
}

pub(crate) fn restart() -> impl Strategy<Value = Restart> {
    use Restart::{Always, Never, OnFailure};
    prop::sample::select(vec![Always, OnFailure, Never])
}

fn workload() -> impl Strategy<Value = Workload> {
    let process = (text(), run(), labels(), restart());
    let credential = (key(), sealed());
    // As often as not what the first version says is all there is.
    let more = prop_oneof![
        Just((None, BTreeMap::new(), None, BTreeSet::new())),
        (
            of(health()),
            secrets(),
            of(handed()),
            btree_set(key(), 0..3)
        ),
    ];
    (name(), btree_set(name(), 0..3), process, credential, more).prop_map(
        |(
            module,
            after,
            (release, run, env, restart),
            (key, credential),
            (health, secrets, pull_secret, accepts),
        )| Workload {
            module,
            release,
            run,
            after,
            env,
            restart,
            health,
            secrets,
            pull_secret,
            key,
            credential,
            accepts,
        },
    )
}

pub(crate) fn bus() -> impl Strategy<Value = BusKind> {
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

pub(crate) fn report_id() -> impl Strategy<Value = ReportId> {
    (name(), generation(), number()).prop_map(|(node, generation, seq)| ReportId {
        node,
        generation,
        seq: Seq(seq),
    })
}

fn module_report() -> impl Strategy<Value = ModuleReport> {
    use ModuleState::{Backoff, Ended, Failed, Pulling, Running, Starting};
    let state = prop::sample::select(vec![Pulling, Starting, Running, Backoff, Ended, Failed]);
    let first = (line(), state, of(any::<u32>()), any::<u32>(), of(line()));
    let exit = (time(), line()).prop_map(|(at, how)| LastExit { at, how });
    let more = prop_oneof![Just((None, None, 0)), (of(line()), of(exit), any::<u32>()),];
    (first, more).prop_map(
        |((release, state, pid, restarts, reason), (image, last_exit, repairs))| ModuleReport {
            release,
            state,
            pid,
            restarts,
            reason,
            image,
            last_exit,
            repairs,
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
    let said = (any::<bool>(), line(), btree_map(name(), line(), 0..3));
    (name(), number(), applied, seq, said).prop_map(
        |(node, session, applied, seq, (deaf, version, doing))| Heartbeat {
            node,
            session,
            applied,
            seq: Seq(seq),
            deaf,
            version,
            doing,
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

pub(crate) fn ask() -> impl Strategy<Value = Ask> {
    let log = (name(), any::<u32>(), any::<bool>(), number());
    let what = prop_oneof![
        log.prop_map(|(module, tail, follow, room)| Asked::Log {
            module,
            tail,
            follow,
            room,
        }),
        number().prop_map(|room| Asked::More { room }),
        Just(Asked::Enough),
    ];
    (name(), time(), number(), what).prop_map(|(node, at, reading, what)| Ask {
        node,
        at,
        reading,
        what,
    })
}

pub(crate) fn log_part() -> impl Strategy<Value = LogPart> {
    let line = (vec(any::<u8>(), 0..20), any::<bool>());
    let said = prop_oneof![
        line.prop_map(|(bytes, cut)| LogSaid::Line { bytes, cut }),
        number().prop_map(LogSaid::Dropped),
    ];
    let end = prop_oneof![
        Just(LogEnd::Whole),
        Just(LogEnd::NotHere),
        Just(LogEnd::TooMany),
        Just(LogEnd::Unknown),
        self::line().prop_map(LogEnd::Failed),
    ];
    let numbers = (number(), number(), number());
    (numbers, vec(said, 0..4), of(end)).prop_map(|((reading, number, cost), said, end)| LogPart {
        reading,
        number,
        cost,
        said,
        end,
    })
}

pub(crate) fn announcement() -> impl Strategy<Value = Announcement> {
    (line(), name(), of(line()), of(key())).prop_map(|(release, node, instance, key)| {
        Announcement {
            release,
            node,
            instance,
            key,
        }
    })
}
