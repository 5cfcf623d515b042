//! Mistakes in streams and consumers that a server takes for something else.

use mesh_derive::{DefinitionFault, Mismatch};
use mesh_model::{ConsumerKind, ConsumerSpec, DeliverPolicy, Principal, Selects, StreamName};

use super::{Plan, consumer, filter, found, principal, select, spec};

/// What is found in the definitions alone.
fn faults(mistake: impl FnOnce(&mut Plan)) -> Vec<DefinitionFault> {
    let found = found(mistake).into_iter();
    found
        .filter_map(|mismatch| match mismatch {
            Mismatch::Definition(fault) => Some(fault),
            _ => None,
        })
        .collect()
}

fn stream(text: &str) -> StreamName {
    StreamName::new(text).unwrap()
}

fn store(plan: &mut Plan, of: &str, subject: &str) {
    let stream = plan.streams.get_mut(&stream(of)).unwrap();
    stream.subjects.insert(filter(subject));
}

fn deliver_to(spec: &mut ConsumerSpec, subject: &str) {
    let ConsumerKind::Push { deliver, .. } = &mut spec.kind else {
        panic!("it is pushed to");
    };
    *deliver = subject.parse().unwrap();
}

fn beat(spec: &mut ConsumerSpec, secs: Option<u32>) {
    let ConsumerKind::Push {
        idle_heartbeat_secs,
        ..
    } = &mut spec.kind
    else {
        panic!("it is pushed to");
    };
    *idle_heartbeat_secs = secs;
}

/// D31
#[test]
fn a_stream_that_begins_with_a_wildcard_is_refused() {
    for subject in ["*", "*.mod.>", ">"] {
        let faults = faults(|plan| store(plan, "PARKED", subject));
        let expected = DefinitionFault::LeadingWildcard {
            stream: stream("PARKED"),
            subject: filter(subject),
        };
        assert!(faults.contains(&expected), "{subject}: {faults:?}");
    }
}

/// D17
#[test]
fn subjects_of_one_stream_that_meet_are_refused() {
    for subject in ["mesh.parked.x", "mesh.*.control", "mesh.parked.*"] {
        let found = found(|plan| store(plan, "PARKED", subject));
        let met = |mismatch: &Mismatch| matches!(mismatch, Mismatch::StreamsOverlap { stream, with, .. } if stream == with);
        assert!(found.iter().any(met), "{subject}: {found:?}");
    }
}

/// D15
#[test]
fn a_filter_partly_outside_its_stream_is_told_from_one_that_is_outside() {
    for (selects, partly) in [
        ("mesh.*.web-1.>", true),
        ("mesh.>", true),
        ("mesh.modules.>", false),
        ("mesh.mod", false),
    ] {
        let found = found(|plan| spec(plan, "EVENTS/controller").selects = select(&[selects]));
        let reaches = Mismatch::FilterReachesOutside {
            consumer: consumer("EVENTS/controller"),
            filter: filter(selects),
        };
        let outside = Mismatch::FilterOutsideStream {
            consumer: consumer("EVENTS/controller"),
            filter: filter(selects),
        };
        assert_eq!(found.contains(&reaches), partly, "{selects}: {found:?}");
        assert_eq!(found.contains(&outside), !partly, "{selects}: {found:?}");
    }
}

/// D32
#[test]
fn two_consumers_that_deliver_to_one_subject_are_refused() {
    let faults = faults(|plan| {
        deliver_to(spec(plan, "NODES/web-2"), "mesh.deliver.node.web-1");
    });
    assert_eq!(
        faults,
        [DefinitionFault::DeliverTwice {
            consumer: consumer("NODES/web-1"),
            with: consumer("NODES/web-2"),
            deliver: "mesh.deliver.node.web-1".parse().unwrap(),
        }]
    );
}

/// D32
#[test]
fn a_consumer_that_delivers_into_an_inbox_or_a_stream_is_refused() {
    for subject in ["mesh.inbox.node.web-1.x", "mesh.ctl.apply", "$JS.API.INFO"] {
        let faults = faults(|plan| {
            let seat = spec(plan, "SEAT-mail/mail");
            // Nobody's grant is looked at for a seat that nobody holds.
            seat.owner = None;
            deliver_to(seat, subject);
        });
        let expected = DefinitionFault::DeliversElsewhere {
            consumer: consumer("SEAT-mail/mail"),
            deliver: subject.parse().unwrap(),
        };
        assert!(faults.contains(&expected), "{subject}: {faults:?}");
    }
    let found = found(|plan| deliver_to(spec(plan, "NODES/web-1"), "mesh.node.web-1.declare"));
    assert!(found.contains(&Mismatch::DeliverStored {
        consumer: consumer("NODES/web-1"),
        deliver: "mesh.node.web-1.declare".parse().unwrap(),
        stream: stream("NODES"),
    }));
}

fn is_out_of(number: u32, what: &str, faults: &[DefinitionFault]) -> bool {
    faults.iter().any(|fault| {
        matches!(fault, DefinitionFault::OutOfBounds { what: of, found, .. }
            if of.starts_with(what) && *found == number)
    })
}

/// D33
#[test]
fn a_number_that_means_something_else_to_a_server_is_refused() {
    for secs in [0, 601] {
        let found = faults(|plan| spec(plan, "EVENTS/mailer").ack_wait_secs = secs);
        assert!(is_out_of(secs, "ack wait", &found));
    }
    for pending in [0, 65_537] {
        let found = faults(|plan| spec(plan, "EVENTS/mailer").max_ack_pending = pending);
        assert!(is_out_of(pending, "messages out", &found));
    }
    for secs in [0, 121] {
        let found = faults(|plan| beat(spec(plan, "NODES/web-1"), Some(secs)));
        assert!(is_out_of(secs, "idle heartbeat", &found));
    }
}

/// D33
#[test]
fn a_node_without_a_heartbeat_and_a_group_with_one_are_refused() {
    assert_eq!(
        faults(|plan| beat(spec(plan, "NODES/web-1"), None)),
        [DefinitionFault::NoHeartbeat {
            consumer: consumer("NODES/web-1")
        }]
    );
    assert_eq!(
        faults(|plan| beat(spec(plan, "SEAT-mail/mail"), Some(30))),
        [DefinitionFault::HeartbeatInGroup {
            consumer: consumer("SEAT-mail/mail")
        }]
    );
}

/// D16
#[test]
fn a_work_queue_read_from_what_is_new_is_refused() {
    assert_eq!(
        faults(|plan| spec(plan, "SEAT-mail/mail").deliver_policy = DeliverPolicy::New),
        [DefinitionFault::NotFromTheFirst {
            consumer: consumer("SEAT-mail/mail")
        }]
    );
}

/// D16
#[test]
fn a_reader_of_a_work_queue_that_selects_more_than_before_is_refused_where_it_meets_another() {
    let two = |first: &str| {
        let selects = select(&[first]);
        move |plan: &mut Plan| {
            let mut second = spec(plan, "CONTROL/controller").clone();
            second.consumer = consumer("CONTROL/second");
            second.owner = None;
            second.selects = select(&["mesh.control.enrol.>"]);
            plan.consumers.insert(second.consumer.clone(), second);
            spec(plan, "CONTROL/controller").selects = selects;
        }
    };
    let meets = |found: Vec<Mismatch>| {
        let is = |m: &Mismatch| matches!(m, Mismatch::OverlappingFilters { .. });
        found.iter().any(is)
    };
    assert!(!meets(found(two("mesh.control.report.>"))));
    assert!(meets(found(two("mesh.control.*.t1"))));
}

/// D34
#[test]
fn names_that_differ_in_case_alone_are_refused() {
    let streams = faults(|plan| {
        let mut twin = plan.streams[&stream("PARKED")].clone();
        twin.name = stream("Parked");
        twin.subjects = [filter("mesh.twin.>")].into();
        plan.streams.insert(twin.name.clone(), twin);
    });
    assert_eq!(
        streams,
        [DefinitionFault::EqualButForCase {
            name: "Parked".to_owned(),
            other: "PARKED".to_owned(),
        }]
    );
    let consumers = faults(|plan| {
        let mut twin = spec(plan, "NODES/web-1").clone();
        twin.consumer = consumer("NODES/Web-1");
        twin.owner = None;
        deliver_to(&mut twin, "mesh.deliver.node.twin");
        plan.consumers.insert(twin.consumer.clone(), twin);
    });
    assert_eq!(
        consumers,
        [DefinitionFault::EqualButForCase {
            name: "NODES/Web-1".to_owned(),
            other: "NODES/web-1".to_owned(),
        }]
    );
}

/// D34
#[test]
fn a_name_longer_than_a_server_takes_cannot_be_written() {
    assert!(StreamName::new("a".repeat(255)).is_ok());
    assert!(StreamName::new("a".repeat(256)).is_err());
    let of = |len| mesh_model::ConsumerRef::new(stream("NODES"), "a".repeat(len));
    assert!(of(255).is_ok() && of(256).is_err());
}

/// D35
#[test]
fn more_filters_than_a_server_takes_are_refused_with_the_limit() {
    let found = found(|plan| {
        let many: Vec<String> = (0..5001).map(|n| format!("mesh.mod.shop.e{n}")).collect();
        let filters = many.iter().map(|text| filter(text));
        spec(plan, "EVENTS/mailer").selects = Selects::Only(filters.collect());
    });
    let said = found.iter().map(ToString::to_string);
    assert!(
        said.into_iter()
            .any(|text| text.contains("has 5001 filters, and a server takes 5000")),
    );
    let owner: Principal = principal("module/mailer");
    assert!(found.iter().any(|mismatch| matches!(
        mismatch,
        Mismatch::ReadsAnothers { owner: of, .. } if *of == owner
    )));
}
