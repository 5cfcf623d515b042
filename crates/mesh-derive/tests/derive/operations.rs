//! What each principal does on the bus, written down by hand from the protocol and not from the derivation: the measure
//! a grant is held to.

use mesh_model::{Filter, Grant, ModuleName, NodeName, Principal, Records, Subject};

/// One thing a principal does.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// It publishes a message.
    Publish(Subject),
    /// It subscribes, in a group where one is named.
    Subscribe(Filter, Option<String>),
}

impl Operation {
    /// Whether a server that holds its user to a grant lets it.
    pub(crate) fn is_allowed(&self, grant: &Grant) -> bool {
        match self {
            Self::Publish(subject) => grant.publishes(subject),
            Self::Subscribe(filter, group) => grant.subscribes(filter, group.as_deref()),
        }
    }
}

fn publish(text: impl Into<String>) -> Operation {
    Operation::Publish(Subject::new(text).unwrap())
}

fn subscribe(text: impl Into<String>) -> Operation {
    Operation::Subscribe(Filter::new(text).unwrap(), None)
}

fn join(text: String, group: &str) -> Operation {
    Operation::Subscribe(Filter::new(text).unwrap(), Some(group.to_owned()))
}

/// Settling one message, in both forms a server may have written.
fn acks(records: &Records, stream: &str, consumer: &str) -> [Operation; 2] {
    let domain = records.bus.domain.as_deref().unwrap_or("_");
    [
        publish(format!(
            "$JS.ACK.{stream}.{consumer}.1.42.7.1795962553963037356.0"
        )),
        publish(format!(
            "$JS.ACK.{domain}.znJdjy7f.{stream}.{consumer}.1.42.7.1795962553963037356.0"
        )),
    ]
}

/// Everything a principal of these records does.
pub(crate) fn operations(records: &Records, principal: &Principal) -> Vec<Operation> {
    match principal {
        Principal::Controller => controller(records),
        Principal::Node(name) => node(records, name),
        Principal::Module(name) => module(records, name),
        Principal::Instance(of) => {
            let mut operations = module(records, &of.module);
            operations.push(subscribe(format!(
                "mesh.inbox.module.{}.{}.nuid.*",
                of.module, of.node
            )));
            operations
        }
        Principal::Joiner(token) => vec![
            publish(format!("mesh.control.enrol.{token}")),
            subscribe(format!("mesh.inbox.joiner.{token}.answer")),
            subscribe(format!("mesh.inbox.joiner.{token}.nuid.*")),
        ],
    }
}

fn controller(records: &Records) -> Vec<Operation> {
    let mut operations = vec![
        publish("$JS.API.STREAM.CREATE.NODES"),
        publish("$JS.API.CONSUMER.MSG.NEXT.CONTROL.controller"),
        publish("mesh.node.web-1.declare"),
        publish("mesh.ctl.epoch"),
        publish("mesh.ctl.mark"),
        publish("mesh.inbox.joiner.t1.answer"),
        publish("mesh.inbox.node.web-1.ask"),
        publish("mesh.parked.control.report.web-1"),
        subscribe("mesh.inbox.controller.nuid.*"),
        subscribe("mesh.heartbeat.>"),
        subscribe("mesh.log.>"),
        subscribe("$JS.EVENT.ADVISORY.>"),
    ];
    operations.extend(acks(records, "CONTROL", "controller"));
    operations.extend(acks(records, "EVENTS", "controller"));
    operations
}

fn node(records: &Records, node: &NodeName) -> Vec<Operation> {
    let mut operations = vec![
        publish(format!("mesh.control.report.{node}")),
        publish(format!("mesh.heartbeat.{node}")),
        publish(format!("mesh.log.{node}")),
        subscribe(format!("mesh.deliver.node.{node}")),
        subscribe(format!("mesh.inbox.node.{node}.nuid.*")),
        subscribe(format!("mesh.inbox.node.{node}.ask")),
    ];
    operations.extend(acks(records, "NODES", node.as_str()));
    operations
}

fn module(records: &Records, module: &ModuleName) -> Vec<Operation> {
    let manifest = &records.declared.modules[module];
    let mut operations = vec![publish(format!("mesh.mod.{module}.announced"))];
    for event in &manifest.emits {
        operations.push(publish(format!("mesh.mod.{module}.{event}")));
    }
    for seat in &manifest.sends_to {
        operations.push(publish(format!("mesh.seat.{seat}.{module}")));
    }
    if !manifest.follows.is_empty() {
        operations.push(join(
            format!("mesh.deliver.module.{module}"),
            module.as_str(),
        ));
        operations.extend(acks(records, "EVENTS", module.as_str()));
    }
    for seat in records.declared.seats.keys() {
        if records.holder(seat) == Some(module) {
            operations.push(join(format!("mesh.deliver.seat.{seat}"), seat.as_str()));
            operations.extend(acks(records, &format!("SEAT-{seat}"), seat.as_str()));
        }
    }
    operations
}
