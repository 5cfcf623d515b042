//! From a plan to the topology.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{ConsumerKind, ConsumerSpec, Filter, Grant, Principal, Subject};

use super::exchange::{Address, Exchange, ExchangeKind, binding};
use super::queue::{Queue, QueueClass};
use super::rights::{Key, Rights};
use super::{Binding, BrokerFacts, Topology};
use crate::derive::{Bounds, CONTROLLER};
use crate::plan::Plan;
use crate::subject;

/// Works out what a broker is to hold for this plan.
pub fn topology(plan: &Plan, bounds: &Bounds, broker: &BrokerFacts) -> Topology {
    let mut laid = Topology {
        broker: broker.clone(),
        queues: BTreeMap::new(),
        bindings: BTreeSet::new(),
        follows: plan.reads.iter().filter_map(followed).collect(),
        policies: QueueClass::ALL
            .into_iter()
            .map(|class| (class, class.policy(bounds, broker)))
            .collect(),
        of_two: plan.is_part(),
        users: BTreeMap::new(),
    };
    for queue in Queue::OF_CONTROLLER {
        laid.add_queue(queue);
    }
    for seat in plan.streams.keys().filter_map(subject::seat_of) {
        laid.add_queue(Queue::Seat(seat));
    }
    for consumer in plan.consumers.values() {
        laid.add_followed(consumer);
    }
    let deliveries = Deliveries::of(plan);
    let with_keys: BTreeSet<&Principal> = plan.users.values().collect();
    for principal in with_keys.into_iter().chain([&Principal::Controller]) {
        if let Some(grant) = plan.grants.get(principal) {
            laid.add_user(principal, grant, &deliveries);
        }
    }
    laid
}

impl Topology {
    fn add_queue(&mut self, queue: Queue) {
        self.bindings.extend(queue.own_binding());
        let kind = queue.class().kind(&self.broker);
        self.queues.insert(queue, kind);
    }

    /// A consumer's queue, and a binding for each subject it selects.
    fn add_followed(&mut self, consumer: &ConsumerSpec) {
        let Some(queue) = queue_of(consumer) else {
            return;
        };
        let kind = queue.class().kind(&self.broker);
        self.queues.insert(queue.clone(), kind);
        // A seat's work and what is for the controller are bound whole, whoever reads them.
        if queue
            .own_binding()
            .is_some_and(|own| self.bindings.contains(&own))
        {
            return;
        }
        let bound = consumer.selects.filters().filter_map(binding);
        self.bindings.extend(bound.map(|(exchange, key)| Binding {
            exchange,
            key,
            queue: queue.clone(),
        }));
    }

    fn add_user(&mut self, principal: &Principal, grant: &Grant, deliveries: &Deliveries<'_>) {
        let mut rights = Rights::default();
        for filter in &grant.publish {
            write(&mut rights, filter);
        }
        rights.read = deliveries.read_by(grant);
        rights.read_all = read_whole(grant);
        match principal {
            Principal::Controller => rights.read.extend(Queue::OF_CONTROLLER),
            Principal::Node(node) if grant.subscribes(&subject::inbox(principal), None) => {
                self.add_queue(Queue::Ask(node.clone()));
                rights.read.insert(Queue::Ask(node.clone()));
            }
            Principal::Joiner(token) if grant.subscribes(&subject::inbox(principal), None) => {
                self.add_queue(Queue::Answer(token.clone()));
                rights.read.insert(Queue::Answer(token.clone()));
            }
            _ => {}
        }
        self.users.insert(principal.clone(), rights);
    }
}

/// What a principal was declared to hear of events, and in which queue; nothing for those who follow nothing.
fn followed(
    (principal, reads): (&Principal, &BTreeSet<Filter>),
) -> Option<(Queue, BTreeSet<String>)> {
    let queue = match principal {
        Principal::Controller => Queue::Announcements,
        Principal::Module(module) => Queue::Module(module.clone()),
        _ => return None,
    };
    let keys = reads.iter().filter_map(|filter| {
        let (exchange, key) = binding(filter)?;
        (exchange == Exchange::Events).then_some(key)
    });
    let keys: BTreeSet<String> = keys.collect();
    (!keys.is_empty()).then_some((queue, keys))
}

/// The queue a consumer is: nothing for those of the controller on what is for it alone, which are always there.
pub(super) fn queue_of(consumer: &ConsumerSpec) -> Option<Queue> {
    let (stream, name) = (consumer.consumer.stream(), consumer.consumer.name());
    if *stream == subject::nodes_stream() {
        return name.parse().ok().map(Queue::Node);
    }
    if *stream == subject::events_stream() {
        return if name == CONTROLLER {
            Some(Queue::Announcements)
        } else {
            name.parse().ok().map(Queue::Module)
        };
    }
    subject::seat_of(stream).map(Queue::Seat)
}

/// Which queue is read where a consumer delivers.
struct Deliveries<'a>(BTreeMap<&'a str, (Option<&'a str>, Queue)>);

impl<'a> Deliveries<'a> {
    fn of(plan: &'a Plan) -> Self {
        let pushed = plan.consumers.values().filter_map(|consumer| {
            let ConsumerKind::Push { deliver, group, .. } = &consumer.kind else {
                return None;
            };
            Some((deliver.as_str(), (group.as_deref(), queue_of(consumer)?)))
        });
        Self(pushed.collect())
    }

    /// What a grant lets its owner hear.
    fn read_by(&self, grant: &Grant) -> BTreeSet<Queue> {
        let alone = grant.subscribe.iter().map(Filter::as_str);
        let alone = alone.filter_map(|deliver| Some(&self.0.get(deliver)?.1));
        let grouped = grant.queues.iter().filter_map(|allowed| {
            let (group, queue) = self.0.get(allowed.filter.as_str())?;
            (*group == Some(allowed.queue.as_str())).then_some(queue)
        });
        alone.chain(grouped).cloned().collect()
    }
}

/// The classes whose every queue a grant lets its owner read: that is, wherever modules and holders are delivered to.
fn read_whole(grant: &Grant) -> BTreeSet<QueueClass> {
    let classes = [QueueClass::Module, QueueClass::Seat];
    let all = subject::delivered_to_modules().into_iter().zip(classes);
    all.filter(|(delivered, _)| grant.subscribes(delivered, None))
        .map(|(_, class)| class)
        .collect()
}

/// Adds what publishing on these subjects takes. An acknowledgement takes nothing here.
fn write(rights: &mut Rights, filter: &Filter) {
    let key = match Subject::new(filter.as_str()) {
        Ok(subject) => Address::of(&subject).map(|at| (at.exchange, Key::Is(at.key))),
        Err(_) => binding(filter).map(|(exchange, key)| {
            let key = match key.strip_suffix(".*.#") {
                None if key == "*.#" => Key::Any,
                words => Key::Under(words.unwrap_or_default().to_owned()),
            };
            (exchange, key)
        }),
    };
    let Some((exchange, key)) = key else { return };
    rights.write.insert(exchange);
    // A direct exchange holds keys against nothing: who may write to it may write every key.
    if exchange.kind() == ExchangeKind::Topic {
        rights.keys.entry(exchange).or_default().insert(key);
    }
}
