//! What is near a principal's grant: everybody else's subjects, the API, wildcards, names like its own. What of it the
//! grant refuses is asked of the server.

use mesh_model::{
    BusFacts, ConsumerKind, ConsumerRef, ConsumerSpec, EventName, EventRef, Filter, Principal,
    QueueGroup, StreamName, StreamSpec, Subject,
};

use crate::plan::Plan;
use crate::proof::allowed::{WORD, concrete, published};
use crate::proof::harmless::{CONSUMER_VERBS, STREAM_VERBS};
use crate::proof::manner::{NEVER_DELIVERED, acks};
use crate::proof::others::{self, Namesakes};
use crate::proof::{Act, Extent, near};
use crate::subject::{self, filter, subject};

/// Acts that are to be held against a principal's grant, some of them within it, some of them twice.
pub(super) fn acts(plan: &Plan, principal: &Principal, bus: &BusFacts, extent: Extent) -> Vec<Act> {
    let around = Namesakes::of(principal);
    let mut found = Found(Vec::new());
    for other in others::principals(plan, around.as_ref(), extent) {
        of_principal(plan, other, &mut found);
    }
    for stream in others::streams(plan, around.as_ref(), extent) {
        of_stream(stream, &mut found);
    }
    for spec in others::consumers(plan, around.as_ref(), extent) {
        of_consumer(spec, bus, &mut found);
    }
    of_own(plan, principal, &mut found);
    if let Some(around) = &around {
        of_namesakes(around, &mut found);
    }
    of_server(bus, &mut found);
    found.0
}

struct Found(Vec<Act>);

impl Found {
    fn publish(&mut self, subjects: impl IntoIterator<Item = Subject>) {
        self.0.extend(subjects.into_iter().map(Act::Publish));
    }

    fn subscribe(&mut self, filters: impl IntoIterator<Item = Filter>) {
        let alone = |filter| Act::Subscribe {
            filter,
            queue: None,
        };
        self.0.extend(filters.into_iter().map(alone));
    }
}

/// What another may, and its inbox.
fn of_principal(plan: &Plan, other: &Principal, found: &mut Found) {
    let Some(grant) = plan.grants.get(other) else {
        return;
    };
    found.publish(published(grant));
    found.subscribe(grant.subscribe.iter().cloned());
    for entry in &grant.queues {
        found
            .0
            .extend(near::in_groups(&entry.filter, Some(&entry.queue)));
    }
    let inbox = subject::inbox(other);
    found.publish([concrete(&inbox)]);
    found.subscribe([concrete(&inbox).into(), inbox]);
    // What a node is asked lies within its inbox, and one may be given it alone.
    if let Principal::Node(node) = other {
        found.subscribe([subject::ask(node).into()]);
    }
}

/// What a stream stores, and the API over it.
fn of_stream(stream: &StreamSpec, found: &mut Found) {
    let name = &stream.name;
    found.publish(stream.subjects.iter().map(concrete));
    found.subscribe(stream.subjects.iter().cloned());
    let verbs = STREAM_VERBS.map(|verb| subject(format!("$JS.API.{verb}.{name}")));
    found.publish(verbs);
    for stored in &stream.subjects {
        let direct = format!("$JS.API.DIRECT.GET.{name}.{}", concrete(stored));
        found.publish([subject(direct)]);
    }
}

/// Where a consumer delivers, how it is settled, and the API over it.
fn of_consumer(spec: &ConsumerSpec, bus: &BusFacts, found: &mut Found) {
    let (stream, name) = (spec.consumer.stream(), spec.consumer.name());
    found.publish(acks(&spec.consumer, bus));
    if let ConsumerKind::Push { deliver, group, .. } = &spec.kind {
        found.publish([deliver.clone()]);
        // What names no group is one no plan may have, and the check says so.
        let group = group.as_deref().and_then(|it| QueueGroup::new(it).ok());
        found
            .0
            .extend(near::in_groups(&deliver.into(), group.as_ref()));
    }
    let verbs = CONSUMER_VERBS.map(|verb| subject(format!("$JS.API.{verb}.{stream}.{name}")));
    found.publish(verbs);
    let filtered = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}.{WORD}");
    found.publish([
        subject(filtered),
        subject(format!("$JS.FC.{stream}.{name}.{WORD}")),
    ]);
}

/// What is next to its own entries, and its own inbox to publish in.
fn of_own(plan: &Plan, principal: &Principal, found: &mut Found) {
    let Some(grant) = plan.grants.get(principal) else {
        return;
    };
    for own in published(grant) {
        found.publish(near::subjects(&own));
        found.subscribe([own.into()]);
    }
    for entry in &grant.publish {
        // What is below an ack subject's consumer and above it.
        let tokens: Vec<&str> = entry.tokens().take_while(|token| *token != ">").collect();
        let above = tokens.join(".");
        found.publish(Subject::new(above));
    }
    for entry in &grant.subscribe {
        found.publish([concrete(entry)]);
        found.0.extend(near::subscriptions(entry, None));
    }
    for entry in &grant.queues {
        found.publish([concrete(&entry.filter)]);
        let wider = near::subscriptions(&entry.filter, Some(&entry.queue));
        found.0.extend(wider);
    }
    for entry in &grant.publish {
        if let Some(consumer) = settles(entry) {
            disguised_acks(plan, &consumer, found);
        }
    }
}

/// The consumer whose acks, in their first form, an entry allows.
fn settles(entry: &Filter) -> Option<ConsumerRef> {
    match *entry.tokens().collect::<Vec<_>>() {
        ["$JS", "ACK", stream, name, ">"] => {
            ConsumerRef::new(StreamName::new(stream).ok()?, name).ok()
        }
        _ => None,
    }
}

/// Acks of other consumers that have a wildcard's worth of this one's: its stream and name where the sequences stand,
/// another domain, another account.
fn disguised_acks(plan: &Plan, own: &ConsumerRef, found: &mut Found) {
    let (stream, name) = (own.stream(), own.name());
    // In the first form, what stands in the place of domain and account are a stream and its consumer.
    let others = plan.streams.keys().filter(|it| *it != stream).take(4);
    let other = |of| subject(format!("$JS.ACK.{of}.{WORD}.{stream}.{name}.5.5.0"));
    found.publish(others.map(other));
    found.publish([
        subject(format!("$JS.ACK.{stream}.{name}0.{NEVER_DELIVERED}")),
        subject(format!("$JS.ACK.{stream}0.{name}.{NEVER_DELIVERED}")),
    ]);
}

/// What is everybody's who could have the same name.
fn of_namesakes(around: &Namesakes, found: &mut Found) {
    let Namesakes {
        node,
        module,
        seat,
        token,
    } = around;
    let event = EventName::new(WORD).ok().map(|event| EventRef {
        module: module.clone(),
        event,
    });
    found.publish([
        subject::report(node),
        subject::enrol(token),
        subject::heartbeat(node),
        subject::log(node),
        subject::declare(node),
        subject::work(seat, module),
        subject::parked(&subject::report(node)),
    ]);
    found.publish(event.as_ref().map(subject::event));
    found.subscribe([subject::ask(node).into()]);
    for deliver in [
        subject::deliver_node(node),
        subject::deliver_module(module),
        subject::deliver_seat(seat),
    ] {
        found
            .0
            .extend(near::in_groups(&(&deliver).into(), Some(&seat.into())));
        found.publish([deliver]);
    }
    for namesake in around.principals() {
        let inbox = subject::inbox(&namesake);
        found.publish([concrete(&inbox), subject::inbox_prefix(&namesake)]);
        found.subscribe([subject::inbox_prefix(&namesake).into(), inbox]);
    }
}

/// What is nobody's, or the server's own.
fn of_server(bus: &BusFacts, found: &mut Found) {
    let account = &bus.account;
    let account_wide = Subject::new(format!("$SYS.REQ.ACCOUNT.{account}.CONNZ"));
    found.publish(account_wide);
    found.publish(SERVER_SUBJECTS.map(|text| subject(text.to_owned())));
    found.subscribe(WIDE.map(|text| filter(text.to_owned())));
}

const SERVER_SUBJECTS: [&str; 10] = [
    "$JS.API.INFO",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.CREATE.MESH-PROBE",
    "$JS.ACK.mesh-probe",
    "$JS.EVENT.ADVISORY.API",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.SERVER.PING.CONNZ",
    "$SYS.REQ.USER.INFO",
    "_INBOX.mesh-probe",
];

const WIDE: [&str; 26] = [
    ">",
    "*",
    "*.>",
    "*.*.>",
    "mesh.>",
    "mesh.*.>",
    "mesh.*.*",
    "mesh.control.>",
    "mesh.control.*.*",
    "mesh.heartbeat.>",
    "mesh.heartbeat.*",
    "mesh.mod.>",
    "mesh.seat.>",
    "mesh.node.>",
    "mesh.ctl.>",
    "mesh.parked.>",
    "mesh.deliver.>",
    "mesh.deliver.*.*",
    "mesh.inbox.>",
    "mesh.inbox.*.*.>",
    "_INBOX.>",
    "$JS.>",
    "$JS.ACK.>",
    "$JS.API.>",
    "$JS.EVENT.>",
    "$SYS.>",
];
