//! The derivation itself: one function for each kind of principal. `docs/derivation.md` gives each rule its id.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    AckPolicy, BusFacts, ConsumerKind, ConsumerRef, ConsumerSpec, DeliverPolicy, Discard,
    EventName, EventRef, Filter, Grant, InstanceRef, Manifest, ModuleName, NodeName, Principal,
    QueueSubscription, Records, Retention, SeatName, Selects, StreamName, StreamSpec, TokenId,
};

use crate::ack::ack_filters;
use crate::plan::{Accounts, Plan, Share};
use crate::subject::{self, filter};

/// The bounds of the mesh's own streams and consumers: what is a choice, not a consequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Consumers a stream may have that has one for each node or module.
    pub max_consumers: u32,
    /// Messages of one sender that `CONTROL` holds before the sender is told that it is full.
    pub control_per_subject: u64,
    /// Bytes of `CONTROL`.
    pub control_bytes: u64,
    /// Bytes of `EVENTS`.
    pub events_bytes: u64,
    /// Seconds an event is kept.
    pub events_age_secs: u64,
    /// Bytes of each seat's queue.
    pub seat_bytes: u64,
    /// Bytes of `PARKED`.
    pub parked_bytes: u64,
    /// Seconds something parked is kept.
    pub parked_age_secs: u64,
    /// Messages the controller may hold at once.
    pub held: u32,
    /// Seconds a node may take between two signs of work on a declaration.
    pub node_ack_wait_secs: u32,
    /// Seconds of silence after which a node's consumer says that it is there.
    pub idle_heartbeat_secs: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            max_consumers: 100_000,
            control_per_subject: 64,
            control_bytes: 256 * MIB,
            events_bytes: 1024 * MIB,
            events_age_secs: 7 * 24 * 3600,
            seat_bytes: 64 * MIB,
            parked_bytes: 64 * MIB,
            parked_age_secs: 30 * 24 * 3600,
            held: 1000,
            node_ack_wait_secs: 300,
            idle_heartbeat_secs: 30,
        }
    }
}

/// Works out everything the bus is to hold for these records.
pub fn derive(records: &Records, bounds: &Bounds) -> Plan {
    let mut plan = Plan {
        accounts: accounts(),
        streams: BTreeMap::new(),
        consumers: BTreeMap::new(),
        grants: BTreeMap::new(),
        users: BTreeMap::new(),
    };
    for stream in own_streams(bounds) {
        plan.streams.insert(stream.name.clone(), stream);
    }
    for consumer in own_consumers(records, bounds) {
        plan.consumers.insert(consumer.consumer.clone(), consumer);
    }
    plan.grants
        .insert(Principal::Controller, controller_grant(&records.bus));
    for (node, record) in &records.nodes {
        let consumer = node_consumer(node, bounds);
        plan.consumers.insert(consumer.consumer.clone(), consumer);
        let principal = Principal::Node(node.clone());
        plan.grants
            .insert(principal.clone(), node_grant(node, &records.bus));
        plan.users.insert(record.key.clone(), principal);
    }
    derive_seats(records, bounds, &mut plan);
    derive_modules(records, &mut plan);
    for (token, record) in &records.tokens {
        if record.spent.as_ref().is_some_and(|spent| spent.arrived) {
            continue;
        }
        let principal = Principal::Joiner(token.clone());
        plan.grants.insert(principal.clone(), joiner_grant(token));
        plan.users.insert(record.key.clone(), principal);
    }
    plan
}

fn derive_seats(records: &Records, bounds: &Bounds, plan: &mut Plan) {
    for seat in records.declared.seats.keys() {
        let stream = seat_stream(seat, bounds);
        plan.streams.insert(stream.name.clone(), stream);
        let holder = records.holder(seat).cloned().map(Principal::Module);
        let consumer = seat_consumer(seat, holder);
        plan.consumers.insert(consumer.consumer.clone(), consumer);
    }
}

fn derive_modules(records: &Records, plan: &mut Plan) {
    for (module, manifest) in &records.declared.modules {
        if let Some(consumer) = module_consumer(manifest) {
            plan.consumers.insert(consumer.consumer.clone(), consumer);
        }
        let grant = module_grant(manifest, records);
        plan.grants.insert(Principal::Module(module.clone()), grant);
    }
    for (instance, record) in &records.instances {
        let module = Principal::Module(instance.module.clone());
        let Some(grant) = plan.grants.get(&module) else {
            continue;
        };
        let principal = Principal::Instance(instance.clone());
        let grant = instance_grant(instance, grant);
        plan.grants.insert(principal.clone(), grant);
        plan.users.insert(record.key.clone(), principal);
    }
}

fn accounts() -> Accounts {
    let share = |text: &str| filter(text.to_owned());
    Accounts {
        mesh_exports: BTreeSet::from([
            Share::Stream(share("mesh.deliver.>")),
            Share::Stream(share("mesh.inbox.>")),
            Share::Service(share("$JS.ACK.>")),
            Share::Service(share("mesh.control.>")),
            Share::Service(share("mesh.mod.>")),
            Share::Service(share("mesh.seat.>")),
        ]),
        edge_exports: BTreeSet::from([Share::Stream(subject::heartbeats())]),
    }
}

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
            subjects: BTreeSet::from([filter("mesh.control.>".to_owned())]),
            retention: Retention::WorkQueue,
            discard: Discard::NewPerSubject,
            max_per_subject: Some(bounds.control_per_subject),
            max_bytes: Some(bounds.control_bytes),
            max_age_secs: None,
            max_consumers: FEW_CONSUMERS,
        },
        StreamSpec {
            name: subject::events_stream(),
            subjects: BTreeSet::from([filter("mesh.mod.>".to_owned())]),
            retention: Retention::Limits,
            discard: Discard::Old,
            max_per_subject: None,
            max_bytes: Some(bounds.events_bytes),
            max_age_secs: Some(bounds.events_age_secs),
            max_consumers: bounds.max_consumers,
        },
        StreamSpec {
            name: subject::parked_stream(),
            subjects: BTreeSet::from([filter("mesh.parked.>".to_owned())]),
            retention: Retention::Limits,
            discard: Discard::Old,
            max_per_subject: None,
            max_bytes: Some(bounds.parked_bytes),
            max_age_secs: Some(bounds.parked_age_secs),
            max_consumers: FEW_CONSUMERS,
        },
    ]
}

fn seat_stream(seat: &SeatName, bounds: &Bounds) -> StreamSpec {
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
fn own_consumers(records: &Records, bounds: &Bounds) -> impl Iterator<Item = ConsumerSpec> {
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
fn module_consumer(manifest: &Manifest) -> Option<ConsumerSpec> {
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

fn seat_consumer(seat: &SeatName, holder: Option<Principal>) -> ConsumerSpec {
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

/// What the controller uses in the account that holds JetStream, and not more.
pub fn controller_grant(bus: &BusFacts) -> Grant {
    let allow = |text: &str| filter(text.to_owned());
    let mut publish = BTreeSet::from([
        allow("$JS.API.>"),
        subject::declares(),
        subject::epoch().into(),
        subject::mark().into(),
        allow("mesh.inbox.>"),
        allow("mesh.parked.>"),
    ]);
    for stream in [subject::control_stream(), subject::events_stream()] {
        publish.extend(ack_filters(&consumer(stream, CONTROLLER), bus));
    }
    Grant {
        publish,
        subscribe: BTreeSet::from([
            subject::inbox(&Principal::Controller),
            subject::heartbeats(),
            allow("$JS.EVENT.ADVISORY.>"),
        ]),
        queues: BTreeSet::new(),
    }
}

fn node_grant(node: &NodeName, bus: &BusFacts) -> Grant {
    let mut publish = BTreeSet::from([
        subject::report(node).into(),
        subject::heartbeat(node).into(),
    ]);
    publish.extend(ack_filters(
        &consumer(subject::nodes_stream(), node.as_str()),
        bus,
    ));
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
fn module_grant(manifest: &Manifest, records: &Records) -> Grant {
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
    for seat in &manifest.sends_to {
        grant.publish.insert(subject::work(seat, module).into());
    }
    if !manifest.follows.is_empty() {
        read_in_group(
            &mut grant,
            &consumer(subject::events_stream(), module.as_str()),
            subject::deliver_module(module).into(),
            &records.bus,
        );
    }
    for seat in records.declared.seats.keys() {
        if records.holder(seat) == Some(module) {
            read_in_group(
                &mut grant,
                &consumer(subject::seat_stream(seat), seat.as_str()),
                subject::deliver_seat(seat).into(),
                &records.bus,
            );
        }
    }
    grant
}

/// Adds what reading one push consumer in its group takes: its deliver subject in that group only, and its acks. The
/// group is named after the consumer.
fn read_in_group(grant: &mut Grant, consumer: &ConsumerRef, deliver: Filter, bus: &BusFacts) {
    grant.publish.extend(ack_filters(consumer, bus));
    grant.queues.insert(QueueSubscription {
        filter: deliver,
        queue: consumer.name().to_owned(),
    });
}

fn instance_grant(instance: &InstanceRef, module: &Grant) -> Grant {
    let mut grant = module.clone();
    grant
        .subscribe
        .insert(subject::inbox(&Principal::Instance(instance.clone())));
    grant
}

fn joiner_grant(token: &TokenId) -> Grant {
    Grant {
        publish: BTreeSet::from([subject::enrol(token).into()]),
        subscribe: BTreeSet::from([subject::inbox(&Principal::Joiner(token.clone()))]),
        queues: BTreeSet::new(),
    }
}

fn announced(module: &ModuleName) -> EventRef {
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
const CONTROLLER: &str = "controller";

/// Consumers of a stream that needs one, with room for an operator's own.
const FEW_CONSUMERS: u32 = 16;
