//! The grants: allow lists only, each entry something its owner does.

use std::collections::BTreeSet;

use mesh_model::{
    BusFacts, ConsumerRef, EventRef, Filter, Grant, InstanceRef, Manifest, NodeName, Principal,
    QueueSubscription, Records, SeatName, TokenId,
};

use crate::ack::{Acks, acks, is_ack};
use crate::derive::{CONTROLLER, announced, consumer};
use crate::subject::{self, filter};

/// What the controller uses in the account that holds JetStream, and not more.
pub fn controller_grant(bus: &BusFacts) -> Grant {
    let acks = Acks::of(bus);
    let allow = |text: &str| filter(text.to_owned());
    let mut publish = BTreeSet::from([
        allow("$JS.API.>"),
        subject::declares(),
        subject::epoch().into(),
        subject::mark().into(),
        subject::inboxes(),
        subject::all_parked(),
    ]);
    for stream in [subject::control_stream(), subject::events_stream()] {
        publish.extend(acks.filters(&consumer(stream, CONTROLLER)));
    }
    Grant {
        publish,
        subscribe: BTreeSet::from([
            subject::inbox(&Principal::Controller),
            subject::heartbeats(),
            subject::logs(),
            allow("$JS.EVENT.ADVISORY.>"),
        ]),
        queues: BTreeSet::new(),
    }
}

/// What the controller uses on either bus in a mesh of two: to carry, it reads as any module or holder may and settles
/// that, and publishes to any of them. Whose messages it carries changes while a NATS server runs, which reads this once,
/// and is more than fits into a permission of RabbitMQ's: so it is a constant as well. It is no more than the API of either
/// gives anyway.
pub fn carrier_grant(bus: &BusFacts) -> Grant {
    let mut grant = controller_grant(bus);
    grant.publish.retain(|filter| !is_ack(filter.as_str()));
    grant
        .publish
        .extend([acks(), subject::all_carries(), subject::all_works()]);
    grant.subscribe.extend(subject::delivered_to_modules());
    grant
}

/// What the controller uses in the system account of a server whose files it writes: to have them read again, to
/// see how it was started, and to hear the answers.
pub fn system_grant() -> Grant {
    Grant {
        publish: BTreeSet::from([
            filter("$SYS.REQ.SERVER.*.RELOAD".to_owned()),
            filter("$SYS.REQ.SERVER.*.VARZ".to_owned()),
        ]),
        subscribe: BTreeSet::from([subject::inbox(&Principal::Controller)]),
        queues: BTreeSet::new(),
    }
}

/// A node hears its declarations, settles them, reports, lives, and says what of its modules' logs it is asked for.
pub(crate) fn node_grant(node: &NodeName, acks: &Acks) -> Grant {
    let mut publish = BTreeSet::from([
        subject::report(node).into(),
        subject::heartbeat(node).into(),
        subject::log(node).into(),
    ]);
    let consumer = consumer(subject::nodes_stream(), node.as_str());
    publish.extend(acks.filters(&consumer));
    Grant {
        publish,
        subscribe: BTreeSet::from([
            subject::deliver_node(node).into(),
            subject::inbox(&Principal::Node(node.clone())),
        ]),
        queues: BTreeSet::new(),
    }
}

/// What all instances of a module have in common: its events, the seats it sends to, what it follows, what it holds.
pub(crate) fn module_grant(
    manifest: &Manifest,
    held: &BTreeSet<&SeatName>,
    records: &Records,
    acks: &Acks,
) -> Grant {
    let module = &manifest.module;
    let mut grant = Grant::default();
    grant
        .publish
        .insert(subject::event(&announced(module)).into());
    for event in &manifest.emits {
        let event = EventRef {
            module: module.clone(),
            event: event.clone(),
        };
        grant.publish.insert(subject::event(&event).into());
    }
    let registered = |seat: &&SeatName| records.declared.seats.contains_key(*seat);
    for seat in manifest.sends_to.iter().filter(registered) {
        grant.publish.insert(subject::work(seat, module).into());
    }
    if !manifest.follows.is_empty() {
        read_in_group(
            &mut grant,
            &consumer(subject::events_stream(), module.as_str()),
            subject::deliver_module(module).into(),
            acks,
        );
    }
    for seat in held {
        read_in_group(
            &mut grant,
            &consumer(subject::seat_stream(seat), seat.as_str()),
            subject::deliver_seat(seat).into(),
            acks,
        );
    }
    grant
}

/// Adds what reading one push consumer in its group takes: its deliver subject in that group only, and its acks. The
/// group is named after the consumer.
fn read_in_group(grant: &mut Grant, consumer: &ConsumerRef, deliver: Filter, acks: &Acks) {
    grant.publish.extend(acks.filters(consumer));
    grant.queues.insert(QueueSubscription {
        filter: deliver,
        queue: consumer.into(),
    });
}

/// A module on a node: the module's authority and an inbox of its own.
pub(crate) fn instance_grant(instance: &InstanceRef, module: &Grant) -> Grant {
    let mut grant = module.clone();
    grant
        .subscribe
        .insert(subject::inbox(&Principal::Instance(instance.clone())));
    grant
}

/// The holder of a token asks once, and hears the answer.
pub(crate) fn joiner_grant(token: &TokenId) -> Grant {
    Grant {
        publish: BTreeSet::from([subject::enrol(token).into()]),
        subscribe: BTreeSet::from([subject::inbox(&Principal::Joiner(token.clone()))]),
        queues: BTreeSet::new(),
    }
}
