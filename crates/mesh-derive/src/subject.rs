//! The mesh's subjects: the one place where what begins with `mesh.` is put together, or taken apart.
//!
//! Acks and the API are the server's and have theirs, in `ack` and `api`; what a subject is over AMQP says
//! [`topology`](crate::topology).

use mesh_model::{
    EventRef, Filter, InstanceRef, ModuleName, NodeName, Principal, SeatName, StreamName, Subject,
    TokenId,
};

use crate::ack::is_ack;

/// What a message is, told from its subject alone: the one part of it that its sender could not choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A node's report.
    Report(NodeName),
    /// A host's request to become a node.
    Enrolment(TokenId),
    /// A module's event.
    Event(EventRef),
    /// A node's sign of life.
    Heartbeat(NodeName),
    /// Some of a module's log, from the node it runs on.
    Log(NodeName),
    /// Work for a seat, and the module that sends it.
    Work(SeatName, ModuleName),
}

/// What a message on this subject is; nothing when it is none of the mesh's.
pub fn heard(subject: &Subject) -> Option<Heard> {
    let text = subject.as_str().strip_prefix("mesh.")?;
    let (family, rest) = text.split_once('.')?;
    match family {
        "control" => match rest.split_once('.')? {
            ("report", node) => node.parse().ok().map(Heard::Report),
            ("enrol", token) => token.parse().ok().map(Heard::Enrolment),
            _ => None,
        },
        "mod" => rest.parse().ok().map(Heard::Event),
        "heartbeat" => rest.parse().ok().map(Heard::Heartbeat),
        "log" => rest.parse().ok().map(Heard::Log),
        "seat" => {
            let (seat, sender) = rest.split_once('.')?;
            Some(Heard::Work(seat.parse().ok()?, sender.parse().ok()?))
        }
        _ => None,
    }
}

/// Where a node's declaration is published.
pub fn declare(node: &NodeName) -> Subject {
    subject(format!("mesh.node.{node}.declare"))
}

/// Everything the mesh says.
pub fn root() -> Filter {
    filter("mesh.>".to_owned())
}

/// Every node's declaration.
pub fn declares() -> Filter {
    filter("mesh.node.*.declare".to_owned())
}

/// The subject whose last sequence fences a stale controller.
pub fn epoch() -> Subject {
    subject("mesh.ctl.epoch".to_owned())
}

/// Where the controller keeps which commit of its store was the last.
pub fn mark() -> Subject {
    subject("mesh.ctl.mark".to_owned())
}

/// Where a node reports.
pub fn report(node: &NodeName) -> Subject {
    subject(format!("mesh.control.report.{node}"))
}

/// Where the holder of a token asks to be enrolled.
pub fn enrol(token: &TokenId) -> Subject {
    subject(format!("mesh.control.enrol.{token}"))
}

/// Everything the controller must not miss: reports and requests to be enrolled.
pub fn controls() -> Filter {
    filter("mesh.control.>".to_owned())
}

/// Where what a module follows is carried to it from the other bus: the controller alone publishes there.
pub fn carry(to: &ModuleName, event: &EventRef) -> Subject {
    subject(format!("mesh.carry.{to}.{event}"))
}

/// Everything that is carried to a module.
pub fn carries(to: &ModuleName) -> Filter {
    filter(format!("mesh.carry.{to}.>"))
}

/// Everything that is carried.
pub(crate) fn all_carries() -> Filter {
    filter("mesh.carry.>".to_owned())
}

/// To whom, and which event, if this is one that was carried from the other bus.
pub fn carried(subject: &Subject) -> Option<(ModuleName, EventRef)> {
    let rest = subject.as_str().strip_prefix("mesh.carry.")?;
    let (to, event) = rest.split_once('.')?;
    Some((to.parse().ok()?, event.parse().ok()?))
}

/// Where a node says that it lives.
pub fn heartbeat(node: &NodeName) -> Subject {
    subject(format!("mesh.heartbeat.{node}"))
}

/// Every node's sign of life.
pub fn heartbeats() -> Filter {
    filter("mesh.heartbeat.>".to_owned())
}

/// Where the controller asks a node for something that is said at once, and kept nowhere: in the node's own inbox.
pub fn ask(node: &NodeName) -> Subject {
    let of = Principal::Node(node.clone());
    subject(format!("{}.{ASK}", inbox_prefix(&of)))
}

/// Where a node says what of its modules' logs it was asked for.
pub fn log(node: &NodeName) -> Subject {
    subject(format!("mesh.log.{node}"))
}

/// What of logs all nodes were asked for.
pub fn logs() -> Filter {
    filter("mesh.log.>".to_owned())
}

/// Whether publishing there is to say something that is not a principal's own to say: where whoever is heard is whom the
/// subject names, or the controller.
pub(crate) fn speaks_as_another(principal: &Principal, filter: &Filter) -> bool {
    speaks(filter)
        && !own_tokens(principal).any(|own| is_spelled(filter.as_str(), own))
        && !own(principal).iter().any(|own| filter.is_subset_of(own))
}

/// Whether a text is these tokens, with a dot between any two. A text that is not is told from its first tokens.
pub(crate) fn is_spelled<'a>(text: &str, tokens: impl IntoIterator<Item = &'a str>) -> bool {
    let mut left = Some(text);
    for token in tokens {
        let Some(rest) = left.and_then(|left| left.strip_prefix(token)) else {
            return false;
        };
        left = rest.strip_prefix('.');
        if left.is_none() && !rest.is_empty() {
            return false;
        }
    }
    left.is_none()
}

/// Whether publishing there says something to somebody, and the subject who speaks.
pub(crate) fn speaks(filter: &Filter) -> bool {
    let text = filter.as_str();
    let wild = text.contains(['*', '>']) && !is_ack(text);
    let mut roots = SPOKEN.iter();
    roots.any(|root| begins_below(text, root) || (wild && meets(filter, root)))
}

/// What is a principal's own to say.
pub(crate) fn own(principal: &Principal) -> Vec<Filter> {
    if *principal == Principal::Controller {
        return SPOKEN.map(|root| filter(format!("{root}.>"))).to_vec();
    }
    let own = own_tokens(principal);
    own.map(|own| filter(tokens(own))).collect()
}

/// The tokens of each of these; of the controller's, which is nearly everything, none.
pub(crate) fn own_tokens(
    principal: &Principal,
) -> impl Iterator<Item = impl Iterator<Item = &str> + Clone> {
    let own = match principal {
        Principal::Controller => [None, None, None],
        Principal::Node(node) => {
            let node = node.as_str();
            [
                Some(["control", "report", node]),
                Some(["heartbeat", node, ""]),
                Some(["log", node, ""]),
            ]
        }
        Principal::Joiner(token) => [Some(["control", "enrol", token.as_str()]), None, None],
        Principal::Module(module) | Principal::Instance(InstanceRef { module, .. }) => {
            let module = module.as_str();
            [
                Some(["mod", module, ">"]),
                Some(["seat", "*", module]),
                None,
            ]
        }
    };
    own.into_iter().flatten().map(|own| {
        let own = own.into_iter().filter(|token| !token.is_empty());
        std::iter::once("mesh").chain(own)
    })
}

/// Below these the subject says who speaks.
const SPOKEN: [&str; 9] = [
    "mesh.control",
    "mesh.heartbeat",
    "mesh.log",
    "mesh.mod",
    "mesh.seat",
    "mesh.carry",
    "mesh.node",
    "mesh.ctl",
    "mesh.parked",
];

fn begins_below(text: &str, root: &str) -> bool {
    text.strip_prefix(root)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn meets(to: &Filter, root: &str) -> bool {
    filter(format!("{root}.>")).overlaps(to)
}

/// Where a module emits one of its events.
pub fn event(event: &EventRef) -> Subject {
    subject(format!("mesh.mod.{event}"))
}

/// Every event of every module.
pub fn events() -> Filter {
    filter("mesh.mod.>".to_owned())
}

/// Where one module sends work to a seat: the sender is in the subject, and so proven by its grant.
pub fn work(seat: &SeatName, sender: &ModuleName) -> Subject {
    subject(format!("mesh.seat.{seat}.{sender}"))
}

/// All work of a seat.
pub fn works(seat: &SeatName) -> Filter {
    filter(format!("mesh.seat.{seat}.>"))
}

/// All work of every seat.
pub fn all_works() -> Filter {
    filter("mesh.seat.>".to_owned())
}

/// Where a copy of what was let go is kept, by what it was.
pub fn parked(of: &Subject) -> Subject {
    let rest = of.as_str().strip_prefix("mesh.").unwrap_or(of.as_str());
    subject(format!("mesh.parked.{rest}"))
}

/// Every copy of what was let go.
pub fn all_parked() -> Filter {
    filter("mesh.parked.>".to_owned())
}

/// Everywhere a consumer delivers.
pub fn delivered() -> Filter {
    filter("mesh.deliver.>".to_owned())
}

/// Where a node's consumer delivers.
pub fn deliver_node(node: &NodeName) -> Subject {
    subject(format!("{DELIVERS_TO_NODE}{node}"))
}

/// What follows where a node's consumer delivers: the name of the node, where it is one.
pub(crate) fn delivered_to(text: &str) -> Option<&str> {
    text.strip_prefix(DELIVERS_TO_NODE)
}

const DELIVERS_TO_NODE: &str = "mesh.deliver.node.";

/// Where a module's consumer delivers.
pub fn deliver_module(module: &ModuleName) -> Subject {
    subject(format!("mesh.deliver.module.{module}"))
}

/// Everywhere modules' consumers and seats' deliver.
pub(crate) fn delivered_to_modules() -> [Filter; 2] {
    ["module", "seat"].map(|of| filter(format!("mesh.deliver.{of}.>")))
}

/// Where a seat's consumer delivers.
pub fn deliver_seat(seat: &SeatName) -> Subject {
    subject(format!("mesh.deliver.seat.{seat}"))
}

/// What every reply subject of a principal begins with, without the last dot: what a client is configured with.
pub fn inbox_prefix(principal: &Principal) -> Subject {
    subject(tokens(inbox_root(principal)))
}

/// A principal's own inbox: all its replies and nobody else's.
pub fn inbox(principal: &Principal) -> Filter {
    filter(tokens(inbox_tokens(principal)))
}

/// The tokens of [`inbox`].
pub(crate) fn inbox_tokens(principal: &Principal) -> impl Iterator<Item = &str> {
    inbox_root(principal).chain([">"])
}

/// Everybody's inbox.
pub fn inboxes() -> Filter {
    filter("mesh.inbox.>".to_owned())
}

fn inbox_root(principal: &Principal) -> impl Iterator<Item = &str> {
    let of = match principal {
        Principal::Controller => [Some("controller"), None, None],
        Principal::Node(node) => [Some("node"), Some(node.as_str()), None],
        Principal::Module(module) => [Some("module"), Some(module.as_str()), None],
        Principal::Instance(of) => [
            Some("module"),
            Some(of.module.as_str()),
            Some(of.node.as_str()),
        ],
        Principal::Joiner(token) => [Some("joiner"), Some(token.as_str()), None],
    };
    let root = ["mesh", "inbox"].into_iter();
    root.chain(of.into_iter().flatten())
}

fn tokens<'a>(tokens: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::with_capacity(64);
    for token in tokens {
        text.push_str(if text.is_empty() { "" } else { "." });
        text.push_str(token);
    }
    text
}

/// The last token of where a node is asked.
const ASK: &str = "ask";

/// Where the answer to an enrolment is awaited.
pub fn enrolment_answer(token: &TokenId) -> Subject {
    let joiner = Principal::Joiner(token.clone());
    subject(format!("{}.answer", inbox_prefix(&joiner)))
}

/// The same, for one of several hosts that may hold the token: `host` is any number of its own.
pub fn enrolment_answer_to(token: &TokenId, host: u64) -> Subject {
    subject(format!("{}.{host:016x}", enrolment_answer(token)))
}

/// The stream of newest declarations.
pub fn nodes_stream() -> StreamName {
    stream("NODES".to_owned())
}

/// The stream of what the controller must not miss.
pub fn control_stream() -> StreamName {
    stream("CONTROL".to_owned())
}

/// The stream of what modules say.
pub fn events_stream() -> StreamName {
    stream("EVENTS".to_owned())
}

/// The stream of what was let go.
pub fn parked_stream() -> StreamName {
    stream("PARKED".to_owned())
}

/// The stream of one seat's work.
pub fn seat_stream(seat: &SeatName) -> StreamName {
    stream(format!("SEAT-{seat}"))
}

/// The seat whose work a stream holds.
pub fn seat_of(stream: &StreamName) -> Option<SeatName> {
    stream.as_str().strip_prefix("SEAT-")?.parse().ok()
}

#[expect(
    clippy::expect_used,
    reason = "made of literal tokens and validated names, each of which is one or more literal tokens"
)]
pub(crate) fn subject(text: String) -> Subject {
    Subject::new(text).expect("subjects are made of valid names")
}

#[expect(
    clippy::expect_used,
    reason = "made of literal tokens, wildcards in their places, and validated names"
)]
pub(crate) fn filter(text: String) -> Filter {
    Filter::new(text).expect("filters are made of valid names")
}

#[expect(
    clippy::expect_used,
    reason = "made of a literal and a label of at most 63 bytes"
)]
fn stream(text: String) -> StreamName {
    StreamName::new(text).expect("stream names are made of valid names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_spelled_by_its_own_tokens_alone() {
        let texts = [
            "a.b.>", "a.b", "a", "ab.>", "a.b.>.c", "a.b.c", "", "a.", ".a", "a..b",
        ];
        for text in texts {
            for other in texts {
                let tokens: Vec<&str> = other.split('.').collect();
                assert_eq!(is_spelled(text, tokens), text == other, "{text} {other}");
            }
        }
    }

    #[test]
    fn what_is_built_is_heard_as_what_it_is() {
        let node: NodeName = "web-1".parse().unwrap();
        let token: TokenId = "t1".parse().unwrap();
        let e: EventRef = "shop.order.placed".parse().unwrap();
        let (seat, module): (SeatName, ModuleName) =
            ("mail".parse().unwrap(), "shop".parse().unwrap());
        for (subject, expected) in [
            (report(&node), Some(Heard::Report(node.clone()))),
            (enrol(&token), Some(Heard::Enrolment(token))),
            (event(&e), Some(Heard::Event(e))),
            (heartbeat(&node), Some(Heard::Heartbeat(node.clone()))),
            (log(&node), Some(Heard::Log(node.clone()))),
            (ask(&node), None),
            (work(&seat, &module), Some(Heard::Work(seat, module))),
            (declare(&node), None),
            (epoch(), None),
        ] {
            assert_eq!(heard(&subject), expected, "{subject}");
        }
        assert_eq!(heard(&"mesh.control.report.a.b".parse().unwrap()), None);
        assert_eq!(heard(&"other.control.report.a".parse().unwrap()), None);
    }
}
