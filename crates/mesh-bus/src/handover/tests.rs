//! The two steps, on plans of one seat.

use mesh_derive::{Bounds, derive};
use mesh_model::{Allow, InstanceRef, PublicKey, Records, SeatName};

use super::*;

fn facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

fn who(module: &str) -> Principal {
    Principal::Instance(InstanceRef {
        module: module.parse().unwrap(),
        node: "n".parse().unwrap(),
    })
}

fn authority() -> SeatAuthority {
    let seat: SeatName = "desk".parse().unwrap();
    let consumer = ConsumerRef::new(subject::seat_stream(&seat), "desk").unwrap();
    SeatAuthority::of(&consumer, &facts()).unwrap()
}

/// A plan in which these hold the seat, and `other` is there beside them.
fn held_by(holders: &[&str]) -> Plan {
    let mut records = Records::new("home".parse().unwrap(), facts());
    let seat: SeatName = "desk".parse().unwrap();
    records.declared.seats.insert(seat, None.into());
    let mut plan = derive(&records, &Bounds::default());
    let authority = authority();
    for (nth, module) in holders.iter().chain(&["other"]).enumerate() {
        let mut grant = Grant::default();
        grant.publish.insert("mesh.mod.x.said".parse().unwrap());
        if *module != "other" {
            grant.queues.insert(QueueSubscription {
                filter: authority.deliver.clone(),
                queue: (&authority.consumer).into(),
            });
            grant.publish.extend(authority.acks.clone());
        }
        let key = PublicKey::from_raw([u8::try_from(nth).unwrap() + 1; 32]);
        plan.users.insert(key, who(module));
        plan.grants.insert(who(module), grant);
    }
    plan
}

fn readers(known: &[&str], others: bool) -> Readers {
    Readers {
        known: known.iter().map(|module| who(module)).collect(),
        others,
    }
}

#[test]
fn nobody_begins_before_those_who_leave_have_left() {
    for (now, others, next, waits, given) in [
        // One goes, another comes.
        (&["a"][..], false, &["b"][..], true, true),
        // Nobody held it, and that is known.
        (&[], false, &["b"], false, true),
        (&[], true, &["b"], true, true),
        // The same goes on.
        (&["a"], false, &["a"], false, false),
        (&["a"], true, &["a"], false, false),
        // Another instance comes beside one that stays.
        (&["a"], false, &["a", "b"], false, false),
        (&["a"], true, &["a", "b"], true, false),
        (&["a", "c"], false, &["a", "b"], true, false),
        // It is released.
        (&["a"], false, &[], false, false),
    ] {
        let plan = held_by(next);
        let steps = hand_over(&plan, &facts(), |_| readers(now, others));
        let said = format!("{now:?} {others} {next:?}");
        assert_eq!(steps.first.is_some(), waits, "{said}");
        assert_eq!(steps.given.len(), usize::from(given), "{said}");
        let Some(first) = steps.first else { continue };
        for module in next {
            let grant = &first.grants[&who(module)];
            let goes_on = now.contains(module);
            assert_eq!(authority().is_in(grant), goes_on, "{said}");
            assert!(grant.publishes(&"mesh.mod.x.said".parse().unwrap()));
        }
        let mut same = first.clone();
        same.grants.clone_from(&plan.grants);
        assert_eq!(same, plan, "{said}");
    }
}

#[test]
fn any_of_what_working_takes_is_authority() {
    let all = |text: &str| -> Allow { [text.parse().unwrap()].into() };
    let grants = [
        (all("mesh.deliver.seat.desk"), Allow::new(), true),
        (all("mesh.deliver.>"), Allow::new(), true),
        (all("mesh.deliver.seat.other"), Allow::new(), false),
        (Allow::new(), all("$JS.ACK.SEAT-desk.desk.>"), true),
        (Allow::new(), all("$JS.ACK.>"), true),
        (Allow::new(), all("$JS.ACK.SEAT-other.other.>"), false),
        (Allow::new(), all("mesh.seat.desk.x"), false),
    ];
    for (subscribe, publish, expected) in grants {
        let grant = Grant {
            publish,
            subscribe,
            ..Grant::default()
        };
        assert_eq!(authority().is_in(&grant), expected, "{grant:?}");
    }
}

#[test]
fn a_consumer_of_no_seat_is_nobodys_to_hand_over() {
    let of = |stream: mesh_model::StreamName, name: &str| {
        SeatAuthority::of(&ConsumerRef::new(stream, name).unwrap(), &facts())
    };
    assert!(of(subject::events_stream(), "m").is_none());
    assert!(of(subject::nodes_stream(), "a").is_none());
}
