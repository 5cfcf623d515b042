//! One stream's laws.

use mesh_derive::{Bounds, node_consumer, own_streams};
use mesh_model::{AckPolicy, ConsumerKind, ConsumerRef};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn stream(name: &str) -> Stream {
    let bounds = Bounds {
        control_per_subject: 2,
        control_bytes: 100,
        ..Bounds::default()
    };
    let mut specs = own_streams(&bounds).into_iter();
    let spec = specs.find(|spec| spec.name.as_str() == name);
    Stream::new(spec.unwrap())
}

fn consumer(stream: &Stream, selects: Selects, deliver_policy: DeliverPolicy) -> ConsumerSpec {
    ConsumerSpec {
        consumer: ConsumerRef::new(stream.spec.name.clone(), "c").unwrap(),
        owner: None,
        selects,
        kind: ConsumerKind::Pull,
        ack: AckPolicy::Explicit,
        ack_wait_secs: 60,
        max_ack_pending: 2,
        deliver_policy,
    }
}

fn message(subject: &str, body: &str) -> Stored {
    Stored {
        subject: subject.parse().unwrap(),
        body: body.into(),
        id: None,
        why: None,
    }
}

fn body(delivered: Option<(u64, Stored)>) -> Option<String> {
    delivered.map(|(_, stored)| String::from_utf8(stored.body).unwrap())
}

#[test]
fn what_is_not_settled_comes_again_after_the_ack_wait_and_not_before() {
    let (mut stream, now) = (stream("CONTROL"), Instant::now());
    stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
    stream
        .publish(message("mesh.control.report.a", "1"), now)
        .unwrap();
    let (sequence, _) = stream.deliver("c", now).unwrap();
    let almost = now + MINUTE - Duration::from_millis(1);
    assert!(stream.deliver("c", almost).is_none());
    stream.settle("c", sequence, Settled::Working, almost);
    assert!(stream.deliver("c", now + MINUTE).is_none());
    assert_eq!(stream.wakes("c"), Some(almost + MINUTE));
    assert_eq!(
        body(stream.deliver("c", almost + MINUTE)).as_deref(),
        Some("1")
    );
}

#[test]
fn what_is_put_off_comes_again_after_its_pause_and_stays_stored() {
    let (mut stream, now) = (stream("CONTROL"), Instant::now());
    stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
    stream
        .publish(message("mesh.control.report.a", "1"), now)
        .unwrap();
    let (sequence, _) = stream.deliver("c", now).unwrap();
    stream.settle("c", sequence, Settled::Again(MINUTE * 5), now);
    assert!(stream.deliver("c", now + MINUTE * 4).is_none());
    assert_eq!((stream.stored().count(), stream.unsettled("c")), (1, 1));
    let (again, _) = stream.deliver("c", now + MINUTE * 5).unwrap();
    assert_eq!(again, sequence);
    stream.settle("c", again, Settled::Done, now);
    assert_eq!((stream.stored().count(), stream.unsettled("c")), (0, 0));
}

#[test]
fn no_more_is_out_than_may_be() {
    let (mut stream, now) = (stream("CONTROL"), Instant::now());
    stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
    for node in ["a", "b", "c"] {
        let subject = format!("mesh.control.report.{node}");
        stream.publish(message(&subject, node), now).unwrap();
    }
    let (first, _) = stream.deliver("c", now).unwrap();
    assert!(stream.deliver("c", now).is_some());
    assert!(stream.deliver("c", now).is_none());
    stream.settle("c", first, Settled::Done, now);
    assert_eq!(body(stream.deliver("c", now)).as_deref(), Some("c"));
}

#[test]
fn one_sender_cannot_fill_a_queue_for_all_and_nothing_stored_is_dropped_for_it() {
    let (mut stream, now) = (stream("CONTROL"), Instant::now());
    for _ in 0..2 {
        stream
            .publish(message("mesh.control.report.a", "1"), now)
            .unwrap();
    }
    assert!(
        stream
            .publish(message("mesh.control.report.a", "1"), now)
            .is_err()
    );
    stream
        .publish(message("mesh.control.report.b", "1"), now)
        .unwrap();
    let large = "x".repeat(60);
    assert!(
        stream
            .publish(message("mesh.control.report.c", &large), now)
            .is_err()
    );
    assert_eq!(stream.stored().count(), 3);
}

#[test]
fn the_newest_takes_the_place_of_the_one_before_even_while_that_is_out() {
    let (mut stream, now) = (stream("NODES"), Instant::now());
    let node = "a".parse().unwrap();
    stream.define_consumer(&node_consumer(&node, &Bounds::default()));
    stream
        .publish(message("mesh.node.a.declare", "1"), now)
        .unwrap();
    stream
        .publish(message("mesh.node.b.declare", "x"), now)
        .unwrap();
    assert_eq!(body(stream.deliver("a", now)).as_deref(), Some("1"));
    stream
        .publish(message("mesh.node.a.declare", "2"), now)
        .unwrap();
    assert_eq!(stream.stored().count(), 2);
    assert_eq!(body(stream.deliver("a", now)).as_deref(), Some("2"));
    assert_eq!(stream.unsettled("a"), 1);
}

#[test]
fn a_new_consumer_of_new_messages_hears_nothing_said_before_it_nor_by_others() {
    let (mut stream, now) = (stream("EVENTS"), Instant::now());
    stream
        .publish(message("mesh.mod.m.said", "before"), now)
        .unwrap();
    let said = Selects::Only(["mesh.mod.m.said".parse().unwrap()].into());
    let spec = consumer(&stream, said, DeliverPolicy::New);
    assert_eq!(stream.define_consumer(&spec), Some("made"));
    assert_eq!(stream.define_consumer(&spec), None);
    stream
        .publish(message("mesh.mod.other.said", "other"), now)
        .unwrap();
    stream
        .publish(message("mesh.mod.m.said", "after"), now)
        .unwrap();
    assert_eq!(body(stream.deliver("c", now)).as_deref(), Some("after"));
    assert!(stream.deliver("c", now).is_none());
    let wider = Selects::Only(["mesh.mod.*.said".parse().unwrap()].into());
    let spec = consumer(&stream, wider, DeliverPolicy::New);
    assert_eq!(stream.define_consumer(&spec), Some("changed"));
    stream
        .publish(message("mesh.mod.other.said", "later"), now)
        .unwrap();
    assert_eq!(body(stream.deliver("c", now)).as_deref(), Some("later"));
}

#[test]
fn a_message_published_again_under_its_id_is_stored_once_even_when_it_is_done_with() {
    let (mut stream, now) = (stream("CONTROL"), Instant::now());
    stream.define_consumer(&consumer(&stream, Selects::Everything, DeliverPolicy::All));
    let named = |subject: &str| Stored {
        id: Some("1".to_owned()),
        ..message(subject, "x")
    };
    let first = stream.publish(named("mesh.control.report.a"), now).unwrap();
    let (sequence, _) = stream.deliver("c", now).unwrap();
    stream.settle("c", sequence, Settled::Done, now);
    let again = stream.publish(named("mesh.control.report.a"), now).unwrap();
    assert_eq!((again, stream.stored().count()), (first, 0));
    stream.publish(named("mesh.control.report.b"), now).unwrap();
    stream
        .publish(named("mesh.control.report.a"), now + SAME_WITHIN)
        .unwrap();
    assert_eq!(stream.stored().count(), 2);
}

#[test]
fn what_is_too_old_is_gone() {
    let (mut stream, now) = (stream("PARKED"), Instant::now());
    let age = Duration::from_secs(Bounds::default().parked_age_secs);
    stream
        .publish(message("mesh.parked.a", "old"), now)
        .unwrap();
    stream
        .publish(message("mesh.parked.a", "new"), now + age)
        .unwrap();
    let stored: Vec<_> = stream.stored().map(|stored| stored.body.clone()).collect();
    assert_eq!(stored, [b"new".to_vec()]);
}
