//! What the check finds: each fault, made by hand in a topology that holds.

use mesh_derive::topology::{Binding, Exchange, Key, Queue, Rights, Topology};
use mesh_model::{Principal, Records};

use super::laid;
use crate::common::{add_module, add_node, add_seat, add_token, empty, manifest, names};

pub(super) fn mesh() -> Records {
    let mut records = empty();
    for node in ["n1", "n2"] {
        add_node(&mut records, node);
    }
    add_seat(&mut records, "mail", Some("mailer"));
    let mailer = mesh_model::Manifest {
        can_hold: names(&["mail"]),
        follows: ["shop.placed".parse().unwrap()].into(),
        ..manifest("mailer")
    };
    let shop = mesh_model::Manifest {
        emits: names(&["placed"]),
        sends_to: names(&["mail"]),
        ..manifest("shop")
    };
    add_module(&mut records, mailer, &["n1", "n2"]);
    add_module(&mut records, shop, &["n1"]);
    add_token(&mut records, "t1");
    records
}

fn user<'a>(laid: &'a mut Topology, principal: &str) -> &'a mut Rights {
    let principal: Principal = principal.parse().unwrap();
    laid.users.get_mut(&principal).unwrap()
}

fn node(name: &str) -> Queue {
    Queue::Node(name.parse().unwrap())
}

/// What one change to a topology that holds is found to be.
pub(super) fn found(change: impl FnOnce(&mut Topology)) -> Vec<String> {
    let mut laid = laid(&mesh()).1;
    assert_eq!(laid.check(), []);
    change(&mut laid);
    laid.check().iter().map(ToString::to_string).collect()
}

/// D41, D44
#[test]
fn a_queue_is_read_by_whom_it_is_for() {
    let read = |who: &'static str, queue: Queue| {
        found(|laid| {
            user(laid, who).read.insert(queue);
        })
    };
    for (who, queue, expected) in [
        (
            "node/n1",
            node("n2"),
            "node/n1: may read node.n2, which is not its own",
        ),
        (
            "node/n1",
            Queue::Reports,
            "node/n1: may read ctl.report, which is not its own",
        ),
        (
            "joiner/t1",
            node("n1"),
            "joiner/t1: may read node.n1, which is not its own",
        ),
        (
            "controller",
            node("n1"),
            "controller: may read node.n1, which is not its own",
        ),
        (
            "module/shop@n1",
            Queue::Module("mailer".parse().unwrap()),
            "module/shop@n1: may read mod.mailer",
        ),
        (
            "module/shop@n1",
            Queue::Seat("mail".parse().unwrap()),
            "queue seat.mail: both mailer and shop read it",
        ),
        (
            "node/n1",
            node("n3"),
            "node/n1: may read node.n3, which is not there",
        ),
    ] {
        let found = read(who, queue);
        assert!(found.iter().any(|it| it.starts_with(expected)), "{found:?}");
    }
}

/// D41
#[test]
fn every_queue_is_bound_to_its_own_and_to_nothing_else() {
    let unbound = |queue: Queue| found(|laid| laid.bindings.retain(|it| it.queue != queue));
    for queue in [
        node("n1"),
        Queue::Reports,
        Queue::Mark,
        Queue::Answer("t1".parse().unwrap()),
    ] {
        let found = unbound(queue.clone());
        let expected = format!("queue {queue}: no binding brings anything into it");
        assert!(
            found.iter().any(|it| it.starts_with(&expected)),
            "{found:?}"
        );
    }
    let bound = |exchange, key: &str, queue| {
        let key = key.to_owned();
        found(|laid| {
            laid.bindings.insert(Binding {
                exchange,
                key,
                queue,
            });
        })
    };
    for (exchange, key, queue, expected) in [
        (
            Exchange::Declarations,
            "n2",
            node("n1"),
            "queue node.n1: mesh.decl n2 is not for it",
        ),
        (
            Exchange::Control,
            "#",
            Queue::Reports,
            "queue ctl.report: mesh.ctl # is not for it",
        ),
        (
            Exchange::Events,
            "#",
            node("n1"),
            "queue node.n1: mesh.ev # is not for it",
        ),
        (
            Exchange::Declarations,
            "n3",
            node("n3"),
            "binding mesh.decl n3: there is no queue node.n3",
        ),
    ] {
        let found = bound(exchange, key, queue);
        assert!(found.iter().any(|it| it.starts_with(expected)), "{found:?}");
    }
}

/// D41
#[test]
fn a_module_hears_what_it_was_declared_to_follow_and_nothing_else() {
    let mailer = || Queue::Module("mailer".parse().unwrap());
    let bound = |queue: Queue, key: &str| Binding {
        exchange: Exchange::Events,
        key: key.to_owned(),
        queue,
    };
    for key in [
        "#",
        "*.placed",
        "shop.#",
        "shop.*",
        "shop.paid",
        "mailer.announced",
    ] {
        for queue in [mailer(), Queue::Announcements] {
            if queue == Queue::Announcements && key == "mailer.announced" {
                continue;
            }
            let expected = format!("queue {queue}: mesh.ev {key} is not for it; bind its own only");
            let found = found(|laid| {
                laid.bindings.insert(bound(queue.clone(), key));
            });
            assert_eq!(found, [expected]);
        }
    }
    // Nor where it was declared: whoever hears `#` hears everybody.
    let all = found(|laid| {
        laid.bindings.insert(bound(mailer(), "#"));
        laid.follows
            .get_mut(&mailer())
            .unwrap()
            .insert("#".to_owned());
    });
    assert_eq!(
        all,
        ["queue mod.mailer: mesh.ev # is not for it; bind its own only"]
    );
    let other = found(|laid| {
        laid.bindings.remove(&bound(mailer(), "shop.placed"));
        laid.bindings.insert(bound(mailer(), "shop.announced"));
    });
    let expected = [
        "queue mod.mailer: its reader is to hear mesh.ev shop.placed, which is not bound to it; bind it",
        "queue mod.mailer: mesh.ev shop.announced is not for it; bind its own only",
    ];
    assert_eq!(other, expected);
}

/// D41
#[test]
fn the_controller_hears_each_module_that_is_announced() {
    let unheard = |who: &str, key: &str| {
        format!("{who}: {key} on mesh.ev goes into no queue; bind it, or take the right away")
    };
    // Some are still bound, none is, and none is and the controller was not to hear any.
    let shop = found(|laid| {
        laid.bindings
            .retain(|it| it.queue != Queue::Announcements || it.key != "shop.announced");
    });
    let missed = |key: &str| {
        format!(
            "queue ctl.events: its reader is to hear mesh.ev {key}, which is not bound to it; bind it"
        )
    };
    assert_eq!(
        shop,
        [
            missed("shop.announced"),
            unheard("module/shop@n1", "shop.announced")
        ]
    );
    let none = found(|laid| {
        laid.bindings.retain(|it| it.queue != Queue::Announcements);
        laid.follows.remove(&Queue::Announcements);
    });
    let all = [
        ("module/mailer@n1", "mailer.announced"),
        ("module/mailer@n2", "mailer.announced"),
        ("module/shop@n1", "shop.announced"),
    ];
    assert_eq!(none, all.map(|(who, key)| unheard(who, key)));
}

/// D45
#[test]
fn nobody_speaks_as_another() {
    let says = |who: &'static str, exchange, key| {
        found(|laid| {
            let rights = user(laid, who);
            rights.write.insert(exchange);
            rights.keys.entry(exchange).or_default().insert(key);
        })
    };
    let is = |key: &str| Key::Is(key.to_owned());
    for (who, exchange, key) in [
        ("node/n1", Exchange::Control, is("report.n2")),
        ("node/n1", Exchange::Control, is("enrol.t1")),
        ("node/n1", Exchange::Control, is("mark")),
        (
            "node/n1",
            Exchange::Control,
            Key::Under("report".to_owned()),
        ),
        ("node/n1", Exchange::Heartbeats, is("n2")),
        ("module/shop@n1", Exchange::Events, is("mailer.sent")),
        ("module/shop@n1", Exchange::Seats, is("mail.mailer")),
        ("joiner/t1", Exchange::Control, is("enrol.t2")),
    ] {
        let found = says(who, exchange, key.clone());
        let expected =
            format!("{who}: may write {key} to {exchange}, and so speak as somebody else");
        assert!(
            found.iter().any(|it| it.starts_with(&expected)),
            "{found:?}"
        );
    }
    let found = found(|laid| {
        user(laid, "node/n1").write.insert(Exchange::Declarations);
    });
    assert!(
        found[0].starts_with("node/n1: may write to mesh.decl, where a broker"),
        "{found:?}"
    );
}

/// D45
#[test]
fn whoever_writes_to_a_topic_exchange_has_its_keys_listed() {
    let unlisted = found(|laid| {
        user(laid, "node/n1").keys.remove(&Exchange::Control);
    });
    let expected = "node/n1: may write to mesh.ctl and no keys are listed, so it may write every key; list its own";
    assert_eq!(unlisted, [expected]);
    let unwritten = found(|laid| {
        user(laid, "node/n1").write.remove(&Exchange::Control);
    });
    assert!(unwritten[0].starts_with("node/n1: has keys on mesh.ctl, where it may not write"));
}

/// D41
#[test]
fn what_is_written_goes_into_a_queue() {
    let found = found(|laid| {
        let seat = Queue::Seat("mail".parse().unwrap());
        laid.bindings.retain(|it| it.queue != seat);
    });
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("module/shop@n1: mail.shop on mesh.seat goes into no queue")),
        "{found:?}"
    );
}

/// D41
#[test]
fn what_only_the_controller_fills_it_may_write() {
    for (exchange, key, queue) in [
        (Exchange::Declarations, "n1", "node.n1"),
        (Exchange::Answers, "t1", "enrol.t1"),
        (Exchange::Control, "mark", "ctl.mark"),
        (Exchange::Control, "parked.#", "parked"),
    ] {
        let found = found(|laid| {
            user(laid, "controller").write.remove(&exchange);
        });
        let expected = format!("queue {queue}: the controller may not write {key} to {exchange}");
        assert!(
            found.iter().any(|it| it.starts_with(&expected)),
            "{found:?}"
        );
    }
}

/// D41
#[test]
fn the_controller_may_write_the_keys_of_its_own_queues_and_not_only_to_their_exchange() {
    let mark = Key::Is("mark".to_owned());
    let parked = Key::Under("parked".to_owned());
    for (key, queue) in [(mark, "ctl.mark"), (parked, "parked")] {
        let found = found(|laid| {
            let keys = &mut user(laid, "controller").keys;
            assert!(keys.get_mut(&Exchange::Control).unwrap().remove(&key));
        });
        let expected = format!(
            "queue {queue}: the controller may not write {key} to mesh.ctl, so it stays empty; let it write that there"
        );
        assert_eq!(found, [expected]);
    }
}
