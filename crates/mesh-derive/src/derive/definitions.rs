//! The streams and consumers a bus is to hold.

use std::collections::BTreeSet;

use mesh_model::{
    AckPolicy, ConsumerKind, ConsumerRef, ConsumerSpec, DeliverPolicy, Discard, EventName,
    EventRef, Filter, Manifest, ModuleName, NodeName, Principal, Records, Retention, SeatName,
    Selects, StreamName, StreamSpec,
};

use crate::derive::Bounds;
use crate::subject;

/// The mesh's own streams: constants, whatever was declared.
pub fn own_streams(bounds: &Bounds) -> [StreamSpec; 4] {
    [
        StreamSpec {
            name: subject::nodes_stream(),
            subjects: BTreeSet::from([
                subject::declares(),
                subject::epoch().into(),
                subject::mark().into(),
            ]),
            retention: Retention::Limits,
            discard: Discard::Old,
            max_per_subject: Some(1),
            max_bytes: None,
            max_age_secs: None,
            max_consumers: bounds.max_consumers,
        },
        StreamSpec {
            name: subject::control_stream(),
            subjects: BTreeSet::from([subject::controls()]),
            retention: Retention::WorkQueue,
            discard: Discard::NewPerSubject,
            max_per_subject: Some(bounds.control_per_subject),
            max_bytes: Some(bounds.control_bytes),
            max_age_secs: None,
            max_consumers: FEW_CONSUMERS,
        },
        StreamSpec {
            name: subject::events_stream(),
            subjects: BTreeSet::from([subject::events()]),
            retention: Retention::Limits,
            discard: Discard::Old,
            max_per_subject: None,
            max_bytes: Some(bounds.events_bytes),
            max_age_secs: Some(bounds.events_age_secs),
            max_consumers: bounds.max_consumers,
        },
        StreamSpec {
            name: subject::parked_stream(),
            subjects: BTreeSet::from([subject::all_parked()]),
            retention: Retention::Limits,
            discard: Discard::Old,
            max_per_subject: None,
            max_bytes: Some(bounds.parked_bytes),
            max_age_secs: Some(bounds.parked_age_secs),
            max_consumers: FEW_CONSUMERS,
        },
    ]
}

/// The queue of one seat.
pub(crate) fn seat_stream(seat: &SeatName, bounds: &Bounds) -> StreamSpec {
    StreamSpec {
        name: subject::seat_stream(seat),
        subjects: BTreeSet::from([subject::works(seat)]),
        retention: Retention::WorkQueue,
        discard: Discard::New,
        max_per_subject: None,
        max_bytes: Some(bounds.seat_bytes),
        max_age_secs: None,
        max_consumers: FEW_CONSUMERS,
    }
}

/// The controller's two consumers. The one on `CONTROL` reads everything: a filter over a stream of many subjects costs
/// the server dearly. The one on `EVENTS` names each subject, so that an event nobody asked for is not read; with no
/// module there is nothing to name, and no consumer, since an empty list would read everything.
pub(crate) fn own_consumers(
    records: &Records,
    bounds: &Bounds,
) -> impl Iterator<Item = ConsumerSpec> {
    let control = ConsumerSpec {
        consumer: consumer(subject::control_stream(), CONTROLLER),
        owner: Some(Principal::Controller),
        selects: Selects::Everything,
        kind: ConsumerKind::Pull,
        ack: AckPolicy::Explicit,
        ack_wait_secs: 30,
        max_ack_pending: bounds.held,
        deliver_policy: DeliverPolicy::All,
    };
    let announced: BTreeSet<Filter> = records
        .declared
        .modules
        .keys()
        .map(|module| Filter::from(subject::event(&announced(module))))
        .collect();
    let events = (!announced.is_empty()).then(|| ConsumerSpec {
        consumer: consumer(subject::events_stream(), CONTROLLER),
        selects: Selects::Only(announced),
        deliver_policy: DeliverPolicy::New,
        ..control.clone()
    });
    std::iter::once(control).chain(events)
}

/// The consumer a node hears its declarations through.
pub fn node_consumer(node: &NodeName, bounds: &Bounds) -> ConsumerSpec {
    ConsumerSpec {
        consumer: consumer(subject::nodes_stream(), node.as_str()),
        owner: Some(Principal::Node(node.clone())),
        selects: Selects::Only(BTreeSet::from([subject::declare(node).into()])),
        kind: ConsumerKind::Push {
            deliver: subject::deliver_node(node),
            group: None,
            idle_heartbeat_secs: Some(bounds.idle_heartbeat_secs),
        },
        ack: AckPolicy::Explicit,
        ack_wait_secs: bounds.node_ack_wait_secs,
        max_ack_pending: 1000,
        deliver_policy: DeliverPolicy::All,
    }
}

/// The one consumer a module follows through; none when it follows nothing.
pub(crate) fn module_consumer(manifest: &Manifest) -> Option<ConsumerSpec> {
    let module = &manifest.module;
    let follows: BTreeSet<Filter> = manifest
        .follows
        .iter()
        .map(|event| subject::event(event).into())
        .collect();
    (!follows.is_empty()).then(|| ConsumerSpec {
        consumer: consumer(subject::events_stream(), module.as_str()),
        owner: Some(Principal::Module(module.clone())),
        selects: Selects::Only(follows),
        kind: ConsumerKind::Push {
            deliver: subject::deliver_module(module),
            group: Some(module.to_string()),
            idle_heartbeat_secs: None,
        },
        ack: AckPolicy::Explicit,
        ack_wait_secs: 30,
        max_ack_pending: 1000,
        deliver_policy: DeliverPolicy::New,
    })
}

/// The consumer the holder of a seat works its queue through.
pub(crate) fn seat_consumer(seat: &SeatName, holder: Option<Principal>) -> ConsumerSpec {
    ConsumerSpec {
        consumer: consumer(subject::seat_stream(seat), seat.as_str()),
        owner: holder,
        selects: Selects::Everything,
        kind: ConsumerKind::Push {
            deliver: subject::deliver_seat(seat),
            group: Some(seat.to_string()),
            idle_heartbeat_secs: None,
        },
        ack: AckPolicy::Explicit,
        ack_wait_secs: 60,
        max_ack_pending: 64,
        deliver_policy: DeliverPolicy::All,
    }
}

/// The event every module may emit.
pub(crate) fn announced(module: &ModuleName) -> EventRef {
    EventRef {
        module: module.clone(),
        event: EventName::announced(),
    }
}

#[expect(
    clippy::expect_used,
    reason = "the name is a label or the controller's constant: 1 to 63 bytes of a-z, 0-9 and '-'"
)]
pub(crate) fn consumer(stream: StreamName, name: &str) -> ConsumerRef {
    ConsumerRef::new(stream, name).expect("consumer names are valid names")
}

/// The durable name of the controller's consumers; no node, module or seat may be called so.
pub(crate) const CONTROLLER: &str = "controller";

/// Consumers of a stream that needs one, with room for an operator's own.
const FEW_CONSUMERS: u32 = 16;
