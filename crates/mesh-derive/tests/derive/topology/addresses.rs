//! What each subject is over AMQP, and what each user of one mesh may say and hear there: written by hand.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::subject;
use mesh_derive::topology::{Address, Queue};
use mesh_model::{InstanceRef, Subject};

use super::{faults, laid};
use crate::common::empty;

/// Where a subject of NATS, or what a wildcard is under, is on AMQP.
pub(super) fn on_amqp(subject: &str) -> Option<(&'static str, String)> {
    for (family, exchange, word) in [
        ("mesh.control.", "mesh.ctl", ""),
        ("mesh.parked.", "mesh.ctl", "parked."),
        ("mesh.heartbeat.", "mesh.beat", ""),
        ("mesh.log.", "mesh.beat", "log."),
        ("mesh.mod.", "mesh.ev", ""),
        ("mesh.seat.", "mesh.seat", ""),
    ] {
        if let Some(rest) = subject.strip_prefix(family) {
            return Some((exchange, format!("{word}{rest}")));
        }
    }
    (subject == "mesh.ctl.mark").then(|| ("mesh.ctl", "mark".to_owned()))
}

/// D40
#[test]
fn an_address_and_a_subject_say_the_same() {
    let instance = InstanceRef {
        module: "shop".parse().unwrap(),
        node: "n1".parse().unwrap(),
    };
    for (subject, address) in [
        (subject::declare(&instance.node), "mesh.decl n1"),
        (subject::report(&instance.node), "mesh.ctl report.n1"),
        (subject::heartbeat(&instance.node), "mesh.beat n1"),
        (subject::log(&instance.node), "mesh.beat log.n1"),
        (subject::ask(&instance.node), "mesh.decl ask.n1"),
        (subject::enrol(&"t1".parse().unwrap()), "mesh.ctl enrol.t1"),
        (
            subject::enrolment_answer(&"t1".parse().unwrap()),
            "mesh.enrol t1",
        ),
        (subject::mark(), "mesh.ctl mark"),
        (
            subject::event(&"shop.order.placed".parse().unwrap()),
            "mesh.ev shop.order.placed",
        ),
        (
            subject::work(&"mail".parse().unwrap(), &instance.module),
            "mesh.seat mail.shop",
        ),
        (
            subject::parked(&subject::report(&instance.node)),
            "mesh.ctl parked.control.report.n1",
        ),
    ] {
        let found = Address::of(&subject).unwrap();
        assert_eq!(found.to_string(), address, "{subject}");
        assert_eq!(found.subject(), Some(subject), "{address}");
    }
    for subject in [
        "mesh.ctl.epoch",
        "$JS.ACK.NODES.n1.1",
        "mesh.deliver.node.n1",
        "mesh.inbox.node.n1.other",
        "other.control.x",
    ] {
        let subject: Subject = subject.parse().unwrap();
        assert_eq!(Address::of(&subject), None, "{subject}");
    }
    let nothing = laid(&empty()).1;
    let users: Vec<String> = nothing.users.keys().map(ToString::to_string).collect();
    assert_eq!(users, ["controller"]);
}

/// Everybody in the mesh of [`faults::mesh`]: where he may write, under which keys, and what he may read.
const RIGHTS: [(&str, &str, &str, &str); 7] = [
    (
        "controller",
        "mesh.ctl mesh.decl mesh.enrol",
        "mesh.ctl/mark mesh.ctl/parked.#",
        "ctl.beat ctl.enrol ctl.events ctl.log ctl.mark ctl.report parked",
    ),
    ("joiner/t1", "mesh.ctl", "mesh.ctl/enrol.t1", "enrol.t1"),
    (
        "module/mailer@n1",
        "mesh.ev",
        "mesh.ev/mailer.announced",
        "mod.mailer seat.mail",
    ),
    (
        "module/mailer@n2",
        "mesh.ev",
        "mesh.ev/mailer.announced",
        "mod.mailer seat.mail",
    ),
    (
        "module/shop@n1",
        "mesh.ev mesh.seat",
        "mesh.ev/shop.announced mesh.ev/shop.placed mesh.seat/mail.shop",
        "",
    ),
    (
        "node/n1",
        "mesh.beat mesh.ctl",
        "mesh.beat/log.n1 mesh.beat/n1 mesh.ctl/report.n1",
        "ask.n1 node.n1",
    ),
    (
        "node/n2",
        "mesh.beat mesh.ctl",
        "mesh.beat/log.n2 mesh.beat/n2 mesh.ctl/report.n2",
        "ask.n2 node.n2",
    ),
];

/// Which key of which exchange goes into which queue there.
const BOUND: [(&str, &str); 15] = [
    ("ask.n1", "mesh.decl/ask.n1"),
    ("ask.n2", "mesh.decl/ask.n2"),
    ("ctl.beat", "mesh.beat/*"),
    ("ctl.enrol", "mesh.ctl/enrol.*"),
    ("ctl.events", "mesh.ev/mailer.announced"),
    ("ctl.events", "mesh.ev/shop.announced"),
    ("ctl.log", "mesh.beat/log.*"),
    ("ctl.mark", "mesh.ctl/mark"),
    ("ctl.report", "mesh.ctl/report.*"),
    ("enrol.t1", "mesh.enrol/t1"),
    ("mod.mailer", "mesh.ev/shop.placed"),
    ("node.n1", "mesh.decl/n1"),
    ("node.n2", "mesh.decl/n2"),
    ("parked", "mesh.ctl/parked.#"),
    ("seat.mail", "mesh.seat/mail.*"),
];

fn words(words: impl IntoIterator<Item = String>) -> String {
    let words: BTreeSet<String> = words.into_iter().collect();
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// D40
#[test]
fn everybody_of_one_mesh_may_what_is_written_here_and_no_more() {
    let laid = laid(&faults::mesh()).1;
    let mut found = BTreeMap::new();
    for (who, rights) in &laid.users {
        let keys = rights.keys.iter();
        let keys = keys.flat_map(|(on, keys)| keys.iter().map(move |key| format!("{on}/{key}")));
        let may = [
            words(rights.write.iter().map(ToString::to_string)),
            words(keys),
            words(rights.read.iter().map(Queue::name)),
        ];
        found.insert(who.to_string(), may);
    }
    let expected = RIGHTS
        .map(|(who, write, keys, read)| (who.to_owned(), [write, keys, read].map(str::to_owned)));
    assert_eq!(found, BTreeMap::from(expected));
    let bound = laid.bindings.iter();
    let bound: BTreeSet<(String, String)> = bound
        .map(|it| (it.queue.name(), format!("{}/{}", it.exchange, it.key)))
        .collect();
    let expected = BOUND.map(|(queue, key)| (queue.to_owned(), key.to_owned()));
    assert_eq!(bound, BTreeSet::from(expected));
}
