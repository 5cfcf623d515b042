//! What of a plan each bus holds, in a mesh of two.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::topology::{
    BrokerFacts, BrokerVersion, Exchange, Key, Queue, QueueClass, QueueKind, Rights, topology,
};
use mesh_derive::{
    Bounds, Mismatch, Plan, ack_filters, carrier_grant, derive, in_parts, render, subject,
};
use mesh_model::{
    BusKind, ConsumerKind, ConsumerRef, Filter, ModuleName, Moving, NodeRecord, Principal, Records,
    Sealed, Selects, Timestamp,
};
use mesh_servers::rabbitmq::Pattern;
use proptest::prelude::*;

use crate::common::{add_module, add_node, add_seat, empty, manifest, names, records, user_key};
use crate::short::{consumer, filter, principal};

/// Where a node is, and whether it is on its way.
#[derive(Debug, Clone, Copy)]
enum At {
    On(BusKind),
    Proving(BusKind),
    Leaving(BusKind),
}

fn places() -> impl Strategy<Value = Vec<At>> {
    let bus = prop_oneof![Just(BusKind::Nats), Just(BusKind::Amqp)];
    let at = (bus, 0..4_u8).prop_map(|(bus, how)| match how {
        0 => At::Proving(bus),
        1 => At::Leaving(bus),
        _ => At::On(bus),
    });
    prop::collection::vec(at, 9)
}

fn put(records: &mut Records, node: &str, at: At) {
    let (bus, moving) = match at {
        At::On(bus) => (bus, None),
        At::Leaving(bus) => (bus, Some(Moving::Leaving { from: bus.other() })),
        At::Proving(bus) => {
            let proving = Moving::Proving {
                to: bus.other(),
                key: user_key(&format!("offered/{node}")),
                credential: Sealed(vec![2]),
                since: Timestamp::default(),
            };
            (bus, Some(proving))
        }
    };
    let name = node.parse().unwrap();
    let record: &mut NodeRecord = records.nodes.get_mut(&name).unwrap();
    record.bus = bus;
    record.moving = moving;
    for (instance, record) in &mut records.instances {
        if instance.node == name {
            record.bus = bus;
        }
    }
}

/// Records whose nodes are on two buses.
fn on_two() -> impl Strategy<Value = Records> {
    (records(), places()).prop_map(|(mut records, at)| {
        let nodes: Vec<String> = records.nodes.keys().map(ToString::to_string).collect();
        for (node, at) in nodes.iter().zip(&at) {
            put(&mut records, node, *at);
        }
        let tokens = records.tokens.values_mut();
        for (token, at) in tokens.zip(at.iter().rev()) {
            let (At::On(bus) | At::Proving(bus) | At::Leaving(bus)) = at;
            token.bus = *bus;
        }
        records
    })
}

fn plan(records: &Records) -> Plan {
    let mut plan = derive(records, &Bounds::default());
    in_parts(&mut plan, records, &BusKind::ALL.into());
    plan
}

fn broker() -> BrokerFacts {
    BrokerFacts {
        vhost: "mesh".to_owned(),
        version: BrokerVersion::PROVES_SENDER,
        queues: QueueKind::Classic,
        users: String::new(),
    }
}

/// The buses a module's instances have keys on.
fn buses_of(plan: &Plan, module: &ModuleName) -> BTreeSet<BusKind> {
    let runs = |part: &Plan| {
        let mut users = part.users.values();
        users.any(|who| matches!(who, Principal::Instance(of) if of.module == *module))
    };
    let parts = plan.parts.iter().filter(|(_, part)| runs(part));
    parts.map(|(bus, _)| *bus).collect()
}

/// A shop that emits and sends, and a mailer that follows and holds a seat: each on a node of its own.
pub(crate) fn shop_and_mailer(shop_on: BusKind, mailer_on: BusKind) -> Records {
    let mut records = empty();
    add_node(&mut records, "n");
    add_node(&mut records, "m");
    add_seat(&mut records, "mail", Some("mailer"));
    let mut shop = manifest("shop");
    shop.emits = names(&["placed"]);
    shop.sends_to = names(&["mail"]);
    let mut mailer = manifest("mailer");
    mailer.follows = names(&["shop.placed"]);
    mailer.can_hold = names(&["mail"]);
    add_module(&mut records, shop, &["n"]);
    add_module(&mut records, mailer, &["m"]);
    put(&mut records, "n", At::On(shop_on));
    put(&mut records, "m", At::On(mailer_on));
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// D70
    #[test]
    fn what_each_bus_holds_has_nothing_the_check_finds(records in on_two()) {
        let plan = plan(&records);
        let nats = &plan.parts[&BusKind::Nats];
        prop_assert_eq!(nats.check(&records.bus), vec![]);
        let amqp = topology(&plan.parts[&BusKind::Amqp], &Bounds::default(), &broker());
        prop_assert_eq!(amqp.check(), vec![]);
    }

    /// D71
    #[test]
    fn everybody_is_on_his_own_bus_and_a_node_on_its_way_on_both(records in on_two()) {
        let plan = plan(&records);
        let [nats, amqp] = BusKind::ALL.map(|bus| &plan.parts[&bus]);
        for who in nats.users.values().filter(|who| amqp.users.values().any(|it| it == *who)) {
            let Principal::Node(node) = who else {
                return Err(TestCaseError::fail(format!("{who} is on both")));
            };
            let moving = &records.nodes[node].moving;
            prop_assert!(matches!(moving, Some(Moving::Proving { .. })), "{who}");
        }
        prop_assert!(nats.users.keys().all(|key| !amqp.users.contains_key(key)));
        for (key, who) in &plan.users {
            let there = plan.parts.values().filter(|part| part.users.get(key) == Some(who));
            prop_assert_eq!(there.count(), 1, "{}", who);
        }
    }

    /// D71
    #[test]
    fn what_anybody_may_on_his_bus_is_what_he_may_where_there_is_one(records in on_two()) {
        let plan = plan(&records);
        for part in plan.parts.values() {
            for (who, grant) in &part.grants {
                if *who != Principal::Controller {
                    prop_assert_eq!(Some(grant), plan.grants.get(who), "{}", who);
                }
            }
        }
    }

    /// D72
    #[test]
    fn what_nobody_reads_where_it_is_published_is_carried_and_nothing_else(records in on_two()) {
        let plan = plan(&records);
        for (bus, part) in &plan.parts {
            for spec in part.consumers.values() {
                let elsewhere = match &spec.owner {
                    Some(Principal::Module(module)) => {
                        buses_of(&plan, module) == BTreeSet::from([bus.other()])
                    }
                    _ => false,
                };
                prop_assert_eq!(part.carried.contains(&spec.consumer), elsewhere, "{}", spec.consumer);
            }
            let other = &plan.parts[&bus.other()];
            let both: Vec<_> = part.carried.intersection(&other.carried).collect();
            prop_assert!(both.is_empty(), "carried to and fro: {both:?}");
        }
    }

    /// D73
    #[test]
    fn nobody_but_the_controller_says_that_something_was_carried(records in on_two()) {
        let all = filter("mesh.carry.>");
        for part in plan(&records).parts.values() {
            for (who, grant) in &part.grants {
                let says = grant.publish.iter().any(|by| by.overlaps(&all));
                prop_assert!(!says || *who == Principal::Controller, "{who}");
            }
        }
    }

    /// D73
    #[test]
    fn nobody_but_the_controller_reads_a_queue_that_is_not_his(records in on_two()) {
        let plan = plan(&records);
        let part = &plan.parts[&BusKind::Amqp];
        let laid = topology(part, &Bounds::default(), &broker());
        for (who, rights) in &laid.users {
            for queue in &rights.read {
                let own = match (queue, who) {
                    (Queue::Module(of), Principal::Instance(it)) => it.module == *of,
                    (Queue::Seat(seat), Principal::Instance(it)) => {
                        records.holder(seat) == Some(&it.module)
                    }
                    (Queue::Node(of) | Queue::Ask(of), Principal::Node(it)) => of == it,
                    (Queue::Answer(of), Principal::Joiner(it)) => of == it,
                    (Queue::Module(_) | Queue::Seat(_), _) => false,
                    (_, who) => *who == Principal::Controller,
                };
                prop_assert!(own, "{who} reads {queue}");
            }
            prop_assert!(rights.read_all.is_empty() || *who == Principal::Controller, "{who}");
        }
    }

    /// D74
    #[test]
    fn a_bus_of_all_carries_nothing_and_the_other_has_nobody(mut records in records()) {
        let nodes: Vec<String> = records.nodes.keys().map(ToString::to_string).collect();
        for node in &nodes {
            put(&mut records, node, At::On(BusKind::Amqp));
        }
        let plan = plan(&records);
        let amqp = &plan.parts[&BusKind::Amqp];
        prop_assert!(amqp.carried.is_empty());
        let nodes = plan.parts[&BusKind::Nats].users.values();
        let nodes: Vec<_> = nodes.filter(|who| !matches!(who, Principal::Joiner(_))).collect();
        prop_assert!(nodes.is_empty(), "{nodes:?}");
    }

    /// D75
    #[test]
    fn another_module_never_changes_what_others_may_on_either_bus(
        records in on_two(),
        holds in any::<bool>(),
    ) {
        let before = plan(&records);
        let mut more = records.clone();
        add_seat(&mut more, "new-seat", holds.then_some("new"));
        let mut new = manifest("new");
        new.can_hold = more.declared.seats.keys().cloned().collect();
        new.sends_to = more.declared.seats.keys().cloned().collect();
        let on: Vec<&str> = records.nodes.keys().map(mesh_model::NodeName::as_str).collect();
        add_module(&mut more, new, &on);
        for (instance, record) in &mut more.instances {
            let node = records.nodes.get(&instance.node);
            record.bus = node.map_or(record.bus, |node| node.bus);
        }
        let after = plan(&more);
        for (bus, part) in &before.parts {
            for (who, grant) in &part.grants {
                let now = after.parts[bus].grants.get(who);
                if *who == Principal::Controller {
                    let kept = now.is_some_and(|now| grant.publish.is_subset(&now.publish));
                    prop_assert!(kept, "{bus}: the controller lost something");
                } else {
                    prop_assert_eq!(Some(grant), now, "{}: {}", bus, who);
                }
            }
        }
    }
}

/// D76
#[test]
fn what_the_controller_may_on_rabbitmq_is_what_carrying_takes_whoever_is_where() {
    let one_bus = derive(
        &shop_and_mailer(BusKind::Amqp, BusKind::Amqp),
        &Bounds::default(),
    );
    let alone = topology(&one_bus, &Bounds::default(), &broker());
    assert!(!alone.of_two);
    let mut expected = alone.users[&Principal::Controller].clone();
    assert_eq!(expected.read_all, [].into());
    for exchange in [Exchange::Carried, Exchange::Seats] {
        expected.write.insert(exchange);
        expected.keys.insert(exchange, [Key::Any].into());
    }
    expected.read_all = [QueueClass::Module, QueueClass::Seat].into();
    for (shop, mailer) in [
        (BusKind::Amqp, BusKind::Nats),
        (BusKind::Nats, BusKind::Amqp),
        (BusKind::Amqp, BusKind::Amqp),
        (BusKind::Nats, BusKind::Nats),
    ] {
        let plan = plan(&shop_and_mailer(shop, mailer));
        let laid = topology(&plan.parts[&BusKind::Amqp], &Bounds::default(), &broker());
        assert_eq!(laid.users[&Principal::Controller], expected);
    }
}

/// D76
#[test]
fn the_patterns_of_who_carries_take_all_of_their_kind_and_nothing_beside() {
    let plan = plan(&shop_and_mailer(BusKind::Amqp, BusKind::Nats));
    let laid = topology(&plan.parts[&BusKind::Amqp], &Bounds::default(), &broker());
    let rights = &laid.users[&Principal::Controller];
    let read = Pattern::new(&rights.read_pattern()).unwrap();
    for (queue, may) in [
        ("mod.mailer", true),
        ("mod.not-there-yet", true),
        ("seat.mail", true),
        ("ctl.report", true),
        ("node.n", false),
        ("enrol.t1", false),
        ("mod.", false),
        ("mod.a.b", false),
        ("modxa", false),
        ("mod.a\n", false),
        ("a.mod.a", false),
        ("seats", false),
        ("", false),
    ] {
        assert_eq!(read.allows(queue), may, "{queue:?}");
        assert!(!may || rights.may_read(queue), "{queue:?}");
    }
    let patterns: BTreeMap<Exchange, String> = rights.topic_patterns().collect();
    for exchange in [Exchange::Carried, Exchange::Seats] {
        let keys = Pattern::new(&patterns[&exchange]).unwrap();
        for (key, may) in [
            ("mailer.shop.placed", true),
            ("a", true),
            ("", false),
            ("a\n", false),
        ] {
            assert_eq!(keys.allows(key), may, "{key:?}");
            assert_eq!(rights.may_publish(exchange.as_str(), key), may, "{key:?}");
        }
    }
    assert!(!patterns.contains_key(&Exchange::Events));
}

/// D46, D76
#[test]
fn a_mesh_of_a_thousand_modules_and_two_hundred_seats_fits_on_both_buses() {
    let mut records = empty();
    add_node(&mut records, "here");
    add_node(&mut records, "there");
    add_module(&mut records, manifest("shop"), &["here", "there"]);
    let event = names(&["placed"]);
    let shop: ModuleName = "shop".parse().unwrap();
    records.declared.modules.get_mut(&shop).unwrap().emits = event;
    for nth in 0..1000 {
        let mut follower = manifest(&format!("follower-{nth}-{}", nth * 7919 % 1000));
        follower.follows = names(&["shop.placed"]);
        let on = if nth % 2 == 0 { "here" } else { "there" };
        if nth < 200 {
            let seat = format!("seat-{}-{nth}", nth * 6007 % 1000);
            add_seat(&mut records, &seat, Some(follower.module.as_str()));
            follower.can_hold = names(&[&seat]);
        }
        add_module(&mut records, follower, &[on]);
    }
    put(&mut records, "here", At::On(BusKind::Amqp));
    put(&mut records, "there", At::On(BusKind::Nats));
    let plan = plan(&records);
    let nats = &plan.parts[&BusKind::Nats];
    assert_eq!(nats.check(&records.bus), []);
    let laid = topology(&plan.parts[&BusKind::Amqp], &Bounds::default(), &broker());
    assert_eq!(laid.check(), []);
    let rights = &laid.users[&Principal::Controller];
    let longest = rights
        .topic_patterns()
        .map(|(_, pattern)| pattern.len())
        .max();
    assert!(longest < Some(64) && rights.read_pattern().len() < 128);
    assert_eq!(plan.parts[&BusKind::Amqp].carried.len(), 600);
}

/// D73
#[test]
fn who_else_may_carry_on_rabbitmq_is_named_and_on_one_bus_the_controller_as_well() {
    let records = shop_and_mailer(BusKind::Amqp, BusKind::Nats);
    let two = plan(&records).parts[&BusKind::Amqp].clone();
    let one = derive(&records, &Bounds::default());
    let found = |plan: &Plan, who: &str, change: &dyn Fn(&mut Rights)| {
        let mut laid = topology(plan, &Bounds::default(), &broker());
        change(laid.users.get_mut(&principal(who)).unwrap());
        let found = laid.check();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let any = |exchange| {
        move |rights: &mut Rights| {
            rights.write.insert(exchange);
            rights.keys.insert(exchange, [Key::Any].into());
        }
    };
    let all = |class| {
        move |rights: &mut Rights| {
            rights.read_all.insert(class);
        }
    };
    for (plan, who) in [
        (&two, "module/shop@n"),
        (&two, "node/n"),
        (&one, "controller"),
        (&one, "module/mailer@m"),
    ] {
        for exchange in [Exchange::Carried, Exchange::Seats] {
            let expected = format!("{who}: may write # to {exchange}, and so speak as somebody");
            let found = found(plan, who, &any(exchange));
            assert!(
                found.iter().any(|it| it.starts_with(&expected)),
                "{found:?}"
            );
        }
        for (class, root) in [(QueueClass::Module, "mod"), (QueueClass::Seat, "seat")] {
            let expected = format!("{who}: may read every queue {root}.*, and so");
            let found = found(plan, who, &all(class));
            assert!(found[0].starts_with(&expected), "{found:?}");
        }
    }
    // Nor is anything else the controller's as a whole, where it carries.
    let found_any = found(&two, "controller", &any(Exchange::Events));
    assert!(
        found_any[0].contains("may write # to mesh.ev"),
        "{found_any:?}"
    );
    for class in [QueueClass::Node, QueueClass::Answer] {
        let found = found(&two, "controller", &all(class));
        assert!(found[0].contains("may read every queue"), "{found:?}");
    }
    let named = Queue::Module("mailer".parse().unwrap());
    let found = found(&two, "controller", &|rights| {
        rights.read.insert(named.clone());
    });
    assert_eq!(found.len(), 1, "{found:?}");
}

/// D76
#[test]
fn what_the_controller_may_on_nats_serves_whatever_is_carried_and_never_changes() {
    for (shop, mailer) in [
        (BusKind::Nats, BusKind::Amqp),
        (BusKind::Amqp, BusKind::Nats),
        (BusKind::Nats, BusKind::Nats),
    ] {
        let records = shop_and_mailer(shop, mailer);
        let plan = plan(&records);
        let part = &plan.parts[&BusKind::Nats];
        let grant = &part.grants[&Principal::Controller];
        assert_eq!(*grant, carrier_grant(&records.bus));
        for spec in part.consumers.values() {
            let (ConsumerKind::Push { deliver, group, .. }, Some(Principal::Module(_))) =
                (&spec.kind, &spec.owner)
            else {
                continue;
            };
            assert!(
                grant.subscribes(&deliver.into(), group.as_deref()),
                "{deliver}"
            );
            for ack in ack_filters(&spec.consumer, &records.bus) {
                assert!(grant.publish.iter().any(|by| ack.is_subset_of(by)), "{ack}");
            }
        }
        let event = subject::carry(&"mailer".parse().unwrap(), &"shop.placed".parse().unwrap());
        let work = subject::work(&"mail".parse().unwrap(), &"shop".parse().unwrap());
        assert!(grant.publishes(&event) && grant.publishes(&work));
        // It hears no node's declaration and no inbox but its own.
        for not in [
            "mesh.deliver.node.n",
            "mesh.inbox.node.n.x",
            "mesh.mod.shop.placed",
        ] {
            assert!(!grant.subscribes(&filter(not), None), "{not}");
        }
    }
}

/// D76
#[test]
fn the_files_of_a_nats_server_are_of_its_own_part() {
    let plan = plan(&shop_and_mailer(BusKind::Nats, BusKind::Amqp));
    let users = render::nats_conf::edge_users(&plan);
    assert!(
        users.contains("# node/n\n") && !users.contains("# node/m\n"),
        "{users}"
    );
    let own = render::nats_conf::accounts(&plan, &user_key("controller"), &user_key("system"));
    assert!(own.contains("\"mesh.carry.>\""), "{own}");
    let one_bus = derive(
        &shop_and_mailer(BusKind::Nats, BusKind::Nats),
        &Bounds::default(),
    );
    let own = render::nats_conf::accounts(&one_bus, &user_key("controller"), &user_key("system"));
    assert!(!own.contains("mesh.carry"), "{own}");
}

/// D72
#[test]
fn what_is_carried_to_a_module_is_stored_and_selected_beside_what_it_follows() {
    let plan = plan(&shop_and_mailer(BusKind::Nats, BusKind::Amqp));
    let carried: [ConsumerRef; 2] = [consumer("EVENTS/mailer"), consumer("SEAT-mail/mail")];
    assert_eq!(plan.parts[&BusKind::Nats].carried, carried.into());
    for part in plan.parts.values() {
        let spec = &part.consumers[&consumer("EVENTS/mailer")];
        let selected: BTreeSet<Filter> = spec.selects.filters().cloned().collect();
        let both = ["mesh.mod.shop.placed", "mesh.carry.mailer.>"].map(filter);
        assert_eq!(selected, both.into());
        let events = &part.streams[&subject::events_stream()].subjects;
        assert!(events.contains(&filter("mesh.carry.>")));
    }
    let laid = topology(&plan.parts[&BusKind::Amqp], &Bounds::default(), &broker());
    let bound = laid
        .bindings
        .iter()
        .filter(|it| it.exchange == Exchange::Carried);
    let bound: Vec<_> = bound.map(|it| (it.queue.name(), it.key.as_str())).collect();
    assert_eq!(bound, [("mod.mailer".to_owned(), "mailer.*.#")]);
}

/// D73
#[test]
fn who_else_may_say_what_was_carried_or_hears_what_is_carried_to_another_is_named() {
    let records = shop_and_mailer(BusKind::Nats, BusKind::Nats);
    let plan = plan(&records);
    let part = &plan.parts[&BusKind::Nats];
    let mut says = part.clone();
    let shop = principal("module/shop");
    let own = filter("mesh.carry.mailer.shop.placed");
    says.grants
        .get_mut(&shop)
        .unwrap()
        .publish
        .insert(own.clone());
    let named = Mismatch::SpeaksAsAnother {
        principal: shop,
        filter: own,
    };
    assert!(says.check(&records.bus).contains(&named));
    let mut hears = part.clone();
    let spec = hears.consumers.get_mut(&consumer("EVENTS/mailer")).unwrap();
    let anothers = filter("mesh.carry.shop.>");
    let Selects::Only(selected) = &mut spec.selects else {
        panic!("{spec:?}");
    };
    selected.insert(anothers.clone());
    let named = hears.check(&records.bus);
    let is =
        |it: &Mismatch| matches!(it, Mismatch::ReadsAnothers { filter, .. } if *filter == anothers);
    assert!(named.iter().any(is), "{named:?}");
}

/// D74
#[test]
fn a_mesh_of_one_bus_has_no_parts() {
    let records = shop_and_mailer(BusKind::Nats, BusKind::Nats);
    let mut plan = derive(&records, &Bounds::default());
    let before = plan.clone();
    in_parts(&mut plan, &records, &[BusKind::Nats].into());
    assert_eq!(plan, before);
    assert_eq!(plan.on(BusKind::Nats), &before);
}
