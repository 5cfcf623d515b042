//! A credential that was replaced stays good for a while, beside the one that replaced it.

use mesh_derive::render::nats_conf::edge_users;
use mesh_derive::{Bounds, derive, in_parts};
use mesh_model::{BusKind, Principal, PublicKey, Records, Retiring, Timestamp};

use crate::common::user_key;
use crate::parts::shop_and_mailer;

fn old() -> PublicKey {
    user_key("old")
}

/// A mesh in which one instance's key was replaced, and who that is.
fn rotated() -> (Records, Principal, PublicKey) {
    let mut records = shop_and_mailer(BusKind::Nats, BusKind::Amqp);
    let (instance, record) = records.instances.iter_mut().next().unwrap();
    record.life.retiring = Some(Retiring {
        key: old(),
        until: Timestamp::from_millis(1),
    });
    let (who, key) = (Principal::Instance(instance.clone()), record.key.clone());
    (records, who, key)
}

/// D77
#[test]
fn a_key_that_was_replaced_may_what_its_owner_may_until_it_is_forgotten() {
    let (mut records, who, key) = rotated();
    let plan = derive(&records, &Bounds::default());
    assert_eq!(plan.users.get(&key), Some(&who));
    assert_eq!(plan.retiring, [(old(), who)].into());
    let text = edge_users(&plan);
    let user = |key: &PublicKey| {
        let (_, rest) = text.split_once(key.as_str()).unwrap();
        rest.split_once("\n  #")
            .map_or(rest, |(user, _)| user)
            .to_owned()
    };
    assert_eq!(user(&old()), user(&key));

    for record in records.instances.values_mut() {
        record.life.retiring = None;
    }
    let plan = derive(&records, &Bounds::default());
    assert!(plan.retiring.is_empty());
    assert!(!edge_users(&plan).contains(old().as_str()));
}

/// D77
#[test]
fn a_key_that_was_replaced_is_nobody_elses_and_ends_with_its_owner() {
    let (records, who, key) = rotated();
    // Another has that very key: it is his.
    let mut taken = records.clone();
    let other = taken.nodes.values_mut().next().unwrap();
    other.key = old();
    assert!(derive(&taken, &Bounds::default()).retiring.is_empty());
    // Its owner is cut off: the new key and the old one with it.
    let mut gone = records.clone();
    for node in gone.nodes.values_mut() {
        node.box_key = crate::common::box_key("another");
    }
    let plan = derive(&gone, &Bounds::default());
    assert!(!plan.users.contains_key(&key) && plan.retiring.is_empty());
    // It is known on the bus its owner is on, and on no other.
    let mut plan = derive(&records, &Bounds::default());
    in_parts(&mut plan, &records, &BusKind::ALL.into());
    let at = records
        .instances
        .values()
        .find(|it| it.key == key)
        .unwrap()
        .bus;
    assert_eq!(plan.on(at).retiring, [(old(), who)].into());
    assert!(plan.on(at.other()).retiring.is_empty());
}
