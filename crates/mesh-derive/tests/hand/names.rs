//! Cases about what things are called.

use std::collections::BTreeSet;

use mesh_model::{
    ConsumerRef, EventName, Manifest, ModuleName, NameRule, NodeName, Principal, SeatName,
    StreamName, TokenId,
};

use crate::stage::{add_module, add_node, add_seat, manifest, named, plan_of, push, records};

/// A dot in a consumer's name: the server never sees a valid API subject, and all one hears is a timeout.
/// <https://github.com/nats-io/nats.py/issues/641>
///
/// The case allows an encoding or a refusal. A name is refused where it enters, with the character and where it stands;
/// in a file, `mesh-files` adds line and column.
#[test]
fn case_b_54fcf40_a_dotted_node_is_refused_at_its_character_and_never_passed_on() {
    let refused = NodeName::new("web.01").unwrap_err();
    let (character, at) = ('.', 3);
    assert_eq!(refused.rule, NameRule::Character { character, at });
    assert!(
        refused
            .to_string()
            .starts_with("node name \"web.01\": '.' at byte 3")
    );
    // Nor does one pass as part of something else.
    let nodes = StreamName::new("NODES").unwrap();
    assert!(ConsumerRef::new(nodes, "mod-web.01").is_err());
    for text in ["node/web.01", "module/m@web.01", "module/m.n", "joiner/t.1"] {
        assert!(text.parse::<Principal>().is_err(), "{text}");
    }
    for text in ["a b", "a*", ">", "a\tb", "a\u{0}", "ä", ""] {
        assert!(NodeName::new(text).is_err(), "{text:?}");
    }
}

/// The queue group's name becomes the durable's, so a dot in the group breaks it too.
/// <https://github.com/nats-io/nats.c/issues/473>
#[test]
fn case_b_9997c79_a_group_is_called_after_its_consumer_and_is_one_token() {
    assert!(SeatName::new("billing.eu").is_err());
    let mut records = records();
    add_seat(&mut records, "billing-eu", Some("clerk"));
    let clerk = named::<ModuleName>("clerk");
    let clerk = records.declared.modules.get_mut(&clerk).unwrap();
    clerk.can_hold.insert(named("billing-eu"));
    let plan = plan_of(&records);
    assert_eq!(plan.check(&records.bus), vec![]);
    let mut groups = 0;
    for spec in plan.consumers.values() {
        if let Some((_, Some(group))) = push(spec) {
            groups += 1;
            assert_eq!(group, spec.consumer.name());
            assert!(!group.contains(['.', '*', '>', ' ']), "{group}");
        }
    }
    assert_eq!(groups, 3);
}

/// Names that were made valid by putting a dash for each dot: two of them become one consumer.
/// <https://github.com/timeplus-io/proton/pull/1131>
#[test]
fn case_b_c67f78f_no_name_is_changed_so_no_two_nodes_have_one_consumer() {
    assert!(NodeName::new("web.01").is_err());
    let mut records = records();
    let nodes = ["web-01", "web01", "web-0-1", "web--01", "w-eb01"];
    for node in nodes {
        add_node(&mut records, node);
    }
    let plan = plan_of(&records);
    let of = |node: &str| {
        let nodes = StreamName::new("NODES").unwrap();
        &plan.consumers[&ConsumerRef::new(nodes, node).unwrap()]
    };
    let delivers: BTreeSet<_> = nodes.iter().map(|node| push(of(node)).unwrap().0).collect();
    assert_eq!(delivers.len(), nodes.len());
    for node in nodes {
        assert_eq!(of(node).owner, Some(Principal::Node(named(node))));
    }
}

/// Encoded and hashed consumer names grew too long for the server and for people.
/// <https://github.com/kyma-project/kyma/issues/13546>
///
/// The case shortens with a hash; here a name that is too long is refused, so that one reads on the bus what one wrote.
#[test]
fn case_b_9851cbc_a_name_is_bounded_in_bytes_and_so_is_everything_made_of_it() {
    let long = "a".repeat(200);
    let refused = ModuleName::new(long.as_str()).unwrap_err();
    let (limit, length) = (63, 200);
    assert_eq!(refused.rule, NameRule::TooLong { limit, length });
    assert!(NodeName::new("a".repeat(300)).is_err() && NodeName::new("a".repeat(64)).is_err());
    assert!(EventName::new(vec!["a".repeat(63); 3].join(".")).is_err());

    let longest = "z".repeat(63);
    let mut records = records();
    add_node(&mut records, &longest);
    add_seat(&mut records, &longest, Some(&longest));
    let module = Manifest {
        emits: [named(&format!("{longest}.{longest}"))].into(),
        follows: [named(&format!("{longest}.{longest}.{longest}"))].into(),
        can_hold: [named(&longest)].into(),
        sends_to: [named(&longest)].into(),
        ..manifest(&longest)
    };
    add_module(&mut records, module, &[&longest]);
    let plan = plan_of(&records);
    assert_eq!(plan.check(&records.bus), vec![]);
    for spec in plan.consumers.values() {
        let (stream, name) = (spec.consumer.stream().as_str(), spec.consumer.name());
        assert!(stream.len() <= 255 && name.len() <= 63, "{}", spec.consumer);
    }
    // Stable, and to be read: the names are those that were declared.
    assert_eq!(plan_of(&records).consumers, plan.consumers);
    let seat = StreamName::new(format!("SEAT-{longest}")).unwrap();
    assert!(plan.streams.contains_key(&seat));
}

/// Names that differ by case alone are one file on some disks, and some names are no file at all.
/// <https://github.com/nats-io/nats.docs/pull/261>
#[test]
fn case_b_224e2fc_no_two_names_are_one_when_case_is_ignored() {
    for text in ["Foo", "NUL", "CON", "fOo"] {
        assert!(ModuleName::new(text).is_err(), "{text}");
        assert!(
            NodeName::new(text).is_err() && SeatName::new(text).is_err(),
            "{text}"
        );
        assert!(
            TokenId::new(text).is_err() && EventName::new(text).is_err(),
            "{text}"
        );
    }
    // The mesh's own streams are in upper case, and no seat's stream can become one of them.
    let mut records = records();
    for seat in ["nodes", "control-1", "events", "parked", "null"] {
        add_seat(&mut records, seat, None);
    }
    let plan = plan_of(&records);
    let folded: BTreeSet<String> = plan
        .streams
        .keys()
        .map(|stream| stream.as_str().to_lowercase())
        .collect();
    assert_eq!(folded.len(), plan.streams.len());
    for device in ["con", "nul", "aux", "prn", "com1", "lpt9"] {
        assert!(!folded.contains(device), "{device}");
        // A consumer has a folder too, called as its node, module or seat is.
        assert!(NodeName::new(device).is_err() && ModuleName::new(device).is_err());
        assert!(SeatName::new(device).is_err(), "{device}");
    }
}
