//! How a host becomes a node, and why not.

use std::collections::BTreeMap;

use mesh_control::{Command, Effect, Fact, FactKey, Message, Start};
use mesh_model::{EnrolmentAnswer, EnrolmentRefusal, Timestamp};

use crate::rig::*;

fn accepted(said: &[Effect]) -> bool {
    matches!(&answers(said)[..], [(_, EnrolmentAnswer::Accepted { .. })])
}

fn refusal(said: &[Effect]) -> EnrolmentRefusal {
    match answers(said).pop() {
        Some((_, EnrolmentAnswer::Refused(refusal))) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_node_and_its_spent_token_are_one_commit_and_the_answer_waits_for_the_bus() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    rig.bus = false;
    let (key, said) = rig.hear(rig.request("t", Some("a"), 'A'));
    let [changes] = &commits(&said)[..] else {
        panic!("{said:?}")
    };
    let puts = |is: fn(&Fact) -> bool| {
        let put = |c: &mesh_control::Change| matches!(c, mesh_control::Change::Put(f) if is(f));
        changes.iter().any(put)
    };
    assert!(puts(|f| matches!(f, Fact::Node(..))));
    assert!(puts(
        |f| matches!(f, Fact::Token(_, t) if t.spent.is_some())
    ));
    assert!(puts(|f| matches!(f, Fact::Declaration(_))));
    assert!(puts(|f| matches!(f, Fact::Audit(_))));
    let Some(Effect::Assert { version, plan }) = said.last().cloned() else {
        panic!("{said:?}")
    };
    assert!(plan.users.contains_key(&user('A')));
    assert!(answers(&said).is_empty() && settlements(&said).is_empty());
    let failed = rig
        .core
        .handle_asserted(version, Err("down".to_owned()), rig.time());
    assert!(answers(&failed).is_empty() && settlements(&failed).is_empty());
    rig.now += 1_000;
    let again = rig.core.tick(rig.time());
    let Some(Effect::Assert { version, .. }) = again.first() else {
        panic!("{again:?}")
    };
    let said = rig.core.handle_asserted(*version, Ok(()), rig.time());
    assert!(accepted(&said) && done(&said));
    assert!(said.contains(&Effect::Settle(key, mesh_control::Settlement::Done)));
    assert_eq!(told(&said).len(), 1);
}

#[test]
fn the_same_token_and_key_get_the_same_answer_and_another_key_finds_it_spent() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    let (_, first) = rig.hear(rig.request("t", Some("a"), 'A'));
    let (_, again) = rig.hear(rig.request("t", Some("a"), 'A'));
    assert!(accepted(&again) && commits(&again).is_empty());
    assert_eq!(answers(&first), answers(&again));
    let (_, other) = rig.hear(rig.request("t", Some("a"), 'B'));
    let spent = EnrolmentRefusal::Spent {
        token: named("t"),
        node: named("a"),
    };
    assert_eq!(refusal(&other), spent);
    let mut rig = rig.restart(Start::Continued);
    let (_, again) = rig.hear(rig.request("t", Some("a"), 'A'));
    assert!(accepted(&again), "after a restart");
}

#[test]
fn every_refusal_says_why_and_leaves_nothing() {
    let mut rig = Rig::with_node_a();
    rig.create_token("named", |token| token.node = Some(named("n")));
    rig.create_token("any", |_| {});
    rig.create_token("late", |token| token.expires = Timestamp::from_millis(1));
    rig.create_token("loose", |token| token.rejoin = true);
    let (token, node) = (named("late"), named("a"));
    let seconds_ago = (rig.now - 1) / 1000;
    let late = EnrolmentRefusal::Expired { token, seconds_ago };
    let taken = EnrolmentRefusal::NameTaken { node };
    let mismatch = EnrolmentRefusal::NameMismatch {
        allowed: named("n"),
        asked: named("m"),
    };
    let unknown = EnrolmentRefusal::Unknown {
        token: named("nobodys"),
    };
    let cases = [
        (rig.request("nobodys", Some("b"), 'B'), unknown),
        (rig.request("late", Some("b"), 'B'), late),
        (rig.request("any", Some("a"), 'B'), taken.clone()),
        (rig.request("loose", Some("a"), 'B'), taken),
        (rig.request("named", Some("m"), 'B'), mismatch),
        (rig.request("any", None, 'B'), EnrolmentRefusal::NoName),
    ];
    for (message, expected) in cases {
        let (_, said) = rig.hear(message);
        assert_eq!(refusal(&said), expected);
        assert!(done(&said) && commits(&said).is_empty());
    }
    assert_eq!(rig.core.tally().refused, 6);
}

#[test]
fn a_key_that_is_somebodys_already_is_refused() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    rig.create_token("t", |_| {});
    let records = rig.core.records();
    let instance = records.instances.values().next().unwrap().key.clone();
    let token = records.tokens[&named("t")].key.clone();
    for key in [user('A'), instance, token] {
        let Message::Enrolment(token, mut request) = rig.request("t", Some("b"), 'B') else {
            unreachable!()
        };
        request.key = key;
        let (_, said) = rig.hear(Message::Enrolment(token, request));
        assert!(matches!(refusal(&said), EnrolmentRefusal::NameTaken { .. }));
    }
}

#[test]
fn a_key_no_host_can_have_is_refused_and_its_token_stays_good() {
    let mut rig = Rig::new();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    rig.create_token("t", |_| {});
    for key in [CONTROLLER, UNSEALABLE] {
        let (_, said) = rig.hear(rig.request("t", Some("a"), key));
        let refusal = refusal(&said);
        assert!(
            matches!(refusal, EnrolmentRefusal::InvalidKey { .. }),
            "{refusal}"
        );
        assert!(done(&said) && parks(&said) == 0 && commits(&said).is_empty());
    }
    assert!(accepted(&rig.hear(rig.request("t", Some("a"), 'A')).1));
}

#[test]
fn a_clock_further_away_than_a_request_may_be_held_is_refused() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    for (away, refused) in [(15 * 60, false), (15 * 60 + 1, true)] {
        let Message::Enrolment(token, mut request) = rig.request("t", Some("a"), 'A') else {
            unreachable!()
        };
        request.clock = rig.time().plus(away * 1_000);
        if refused {
            rig.create_token("u", |_| {});
            request.key = user('B');
            let reply = mesh_derive::subject::enrolment_answer(&named("u"));
            request = mesh_model::Enrolment { reply, ..request };
            let (_, said) = rig.hear(Message::Enrolment(named("u"), request));
            assert_eq!(
                refusal(&said),
                EnrolmentRefusal::ClockSkew { seconds: away }
            );
        } else {
            assert!(accepted(&rig.hear(Message::Enrolment(token, request)).1));
        }
    }
}

#[test]
fn an_address_outside_the_joiners_inbox_is_refused_and_hears_nothing() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    for address in [
        "mesh.node.a.declare",
        "mesh.inbox.joiner.u.answer",
        "mesh.inbox.joiner.t",
    ] {
        let Message::Enrolment(token, mut request) = rig.request("t", Some("a"), 'A') else {
            unreachable!()
        };
        request.reply = named(address);
        let (_, said) = rig.hear(Message::Enrolment(token, request));
        let expected = EnrolmentAnswer::Refused(EnrolmentRefusal::ForeignAddress {
            address: named(address),
        });
        let own = mesh_derive::subject::enrolment_answer(&named("t"));
        assert_eq!(answers(&said), [(own, expected)]);
        let audited = matches!(
            said[..],
            [Effect::Note(mesh_control::Note::EnrolmentRefused(_)), ..]
        );
        assert!(audited && commits(&said).is_empty());
    }
    let Message::Enrolment(token, mut request) = rig.request("t", Some("a"), 'A') else {
        unreachable!()
    };
    request.reply = named("mesh.inbox.joiner.t.elsewhere");
    let (_, said) = rig.hear(Message::Enrolment(token, request));
    assert_eq!(answers(&said)[0].0, named("mesh.inbox.joiner.t.elsewhere"));
}

#[test]
fn of_two_hosts_with_one_token_each_hears_its_own_answer() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    for (name, letter, expected) in [("a", 'A', true), ("b", 'B', false)] {
        let Message::Enrolment(token, mut request) = rig.request("t", Some(name), letter) else {
            unreachable!()
        };
        request.reply = named(&format!("mesh.inbox.joiner.t.answer.{name}"));
        let (_, said) = rig.hear(Message::Enrolment(token, request.clone()));
        assert_eq!(accepted(&said), expected, "{name}");
        assert_eq!(answers(&said)[0].0, request.reply);
    }
}

#[test]
fn a_rejoin_replaces_the_key_and_tells_the_new_host_anew() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let (before, credential) = (
        rig.generation("a"),
        rig.core.declarations()[&named("a")].workloads[0]
            .key
            .clone(),
    );
    rig.create_token("re", replaces_a);
    let (_, said) = rig.hear(rig.request("re", None, 'B'));
    assert!(accepted(&said));
    let records = rig.core.records();
    assert_eq!(records.nodes[&named("a")].key, user('B'));
    assert!(rig.generation("a") > before);
    assert_ne!(
        rig.core.declarations()[&named("a")].workloads[0].key,
        credential
    );
    // The host that was replaced asks again with its own token.
    let (_, said) = rig.hear(rig.request("of-a", Some("a"), 'A'));
    assert!(matches!(refusal(&said), EnrolmentRefusal::Spent { .. }));
}

#[test]
fn a_token_to_rejoin_is_for_a_node_there_is() {
    let mut rig = Rig::new();
    let token = mesh_model::TokenRecord {
        bus: mesh_model::BusKind::Nats,
        key: user('T'),
        expires: rig.time().plus(1_000),
        node: Some(named("a")),
        labels: BTreeMap::new(),
        rejoin: true,
        spent: None,
    };
    let id = named("t");
    let result = rig.command(Command::CreateToken { id, token }).unwrap();
    assert_eq!(
        result,
        Err(mesh_control::CommandError::UnknownNode(named("a")))
    );
}

/// A token for whoever replaces the host of node `a`.
fn replaces_a(token: &mut mesh_model::TokenRecord) {
    token.rejoin = true;
    token.node = Some(named("a"));
}

#[test]
fn what_is_kept_of_a_token_for_people_names_its_node_and_whether_it_rejoins() {
    let mut rig = Rig::with_node_a();
    rig.create_token("re", replaces_a);
    rig.create_token("b", |token| token.node = Some(named("b")));
    let said = |what: &str| {
        let mut facts = rig.facts.values();
        facts.any(|fact| matches!(fact, Fact::Audit(audit) if audit.what == what))
    };
    assert!(said("create token re for node a to rejoin"));
    assert!(said("create token b for node b"));
}

#[test]
fn a_node_that_rejoins_keeps_its_labels_and_what_is_placed_by_them() {
    let mut rig = Rig::with_node_a();
    let label = |labels: &[(&str, &str)]| -> mesh_model::Labels {
        let pairs = labels.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        pairs.collect()
    };
    let (node, labels) = (named("a"), label(&[("role", "web"), ("rack", "1")]));
    rig.command(Command::Label { node, labels })
        .unwrap()
        .unwrap();
    let mut declared = declared(None, &[]);
    let on = mesh_model::Selector::Labels(label(&[("role", "web")]));
    let placed = mesh_model::Placement { on, count: None };
    declared.placements.insert(named("x"), placed);
    rig.command(apply(declared)).unwrap().unwrap();
    rig.create_token("re", |token| {
        replaces_a(token);
        token.labels = label(&[("rack", "2")]);
    });
    assert!(accepted(&rig.hear(rig.request("re", None, 'B')).1));
    let labels = &rig.core.records().nodes[&named("a")].labels;
    assert_eq!(*labels, label(&[("role", "web"), ("rack", "2")]));
    let told = &rig.core.declarations()[&named("a")].workloads;
    assert_eq!(told.len(), 1);
}

#[test]
fn modules_get_new_credentials_when_their_node_rejoins_even_with_the_same_key_to_seal_to() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let key = |rig: &Rig| {
        let mut instances = rig.core.records().instances.values();
        instances.next().unwrap().key.clone()
    };
    let before = key(&rig);
    rig.create_token("re", replaces_a);
    let Message::Enrolment(token, mut request) = rig.request("re", None, 'B') else {
        unreachable!()
    };
    request.box_key = sealer('A');
    assert!(accepted(&rig.hear(Message::Enrolment(token, request)).1));
    assert_ne!(key(&rig), before);
    assert_eq!(
        rig.core.declarations()[&named("a")].workloads[0].key,
        key(&rig)
    );
}

#[test]
fn the_host_that_is_replaced_does_not_arrive_for_the_one_that_replaces_it() {
    let mut rig = Rig::with_node_a();
    let _arrived = rig.beat(rig.heartbeat("a", 0));
    rig.create_token("re", replaces_a);
    rig.bus = false;
    let (_, said) = rig.hear(rig.request("re", None, 'B'));
    let Some(Effect::Assert { version, .. }) = said.last() else {
        panic!("{said:?}")
    };
    let spent = |rig: &Rig| {
        rig.core.records().tokens[&named("re")]
            .spent
            .clone()
            .unwrap()
    };
    assert!(rig.beat(rig.heartbeat("a", 0)).is_empty());
    assert!(!spent(&rig).arrived);
    rig.bus = true;
    let effects = rig.core.handle_asserted(*version, Ok(()), rig.time());
    rig.carry_out(effects);
    let _arrived = rig.beat(rig.heartbeat("a", 0));
    assert!(spent(&rig).arrived);
}

#[test]
fn a_node_removed_before_its_answer_is_not_accepted() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    rig.bus = false;
    let (key, _) = rig.hear(rig.request("t", Some("a"), 'A'));
    assert_eq!(rig.command(Command::RemoveNode { node: named("a") }), None);
    rig.bus = true;
    let effects = rig.core.handle_asserted(3, Ok(()), rig.time());
    rig.said.clear();
    rig.carry_out(effects);
    let answers = answers(&rig.said);
    assert!(
        !answers
            .iter()
            .any(|(_, a)| matches!(a, EnrolmentAnswer::Accepted { .. })),
        "{answers:?}"
    );
    assert!(
        rig.said
            .contains(&Effect::Settle(key, mesh_control::Settlement::Done))
    );
}

#[test]
fn a_request_is_held_while_the_store_is_down_and_admitted_when_it_is_back() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    rig.disk = Disk::Refuses { written: true };
    let message = rig.request("t", Some("a"), 'A');
    let (key, said) = rig.hear(message.clone());
    assert!(held(&said) && answers(&said).is_empty());
    assert!(held(&rig.hear_again(key, message.clone())));
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    // It was written after all: the same request finds its node.
    assert!(rig.core.records().nodes.contains_key(&named("a")));
    let said = rig.hear_again(key, message);
    assert!(accepted(&said) && commits(&said).is_empty());
    assert_eq!(rig.core.held(), 0);
}

#[test]
fn a_request_that_never_can_be_stored_is_parked_and_others_go_on() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    rig.disk = Disk::Never;
    let (_, said) = rig.hear(rig.request("t", Some("a"), 'A'));
    assert!(parks(&said) == 1 && done(&said) && answers(&said).is_empty());
    rig.disk = Disk::Takes;
    assert!(accepted(&rig.hear(rig.request("t", Some("a"), 'A')).1));
}

#[test]
fn a_refused_request_that_was_held_closes_its_window() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    rig.disk = Disk::Refuses { written: false };
    let message = rig.request("t", Some("a"), 'A');
    let (key, _) = rig.hear(message.clone());
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    let _other = rig.hear(rig.request("t", Some("b"), 'B'));
    assert!(matches!(
        refusal(&rig.hear_again(key, message)),
        EnrolmentRefusal::Spent { .. }
    ));
    assert_eq!(rig.core.held(), 0);
}

#[test]
fn a_token_and_its_joiner_go_when_it_expires() {
    let mut rig = Rig::new();
    rig.create_token("t", |token| {
        token.expires = Timestamp::from_millis(2_000_000);
    });
    rig.pass(2_000_000 - rig.now - 1);
    assert!(rig.facts.contains_key(&FactKey::Token(named("t"))));
    rig.pass(1);
    assert!(!rig.facts.contains_key(&FactKey::Token(named("t"))));
}

#[test]
fn a_token_that_is_revoked_is_unknown_to_whoever_comes_with_it() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    let said = rig.command(Command::RevokeToken { id: named("t") });
    assert!(
        !rig.facts.contains_key(&FactKey::Token(named("t"))),
        "{said:?}"
    );
    let (_, said) = rig.hear(rig.request("t", Some("a"), 'A'));
    assert!(matches!(refusal(&said), EnrolmentRefusal::Unknown { .. }));
}

#[test]
fn the_joiner_is_done_with_once_its_node_is_heard() {
    let mut rig = Rig::with_node_a();
    let joiner = mesh_model::Principal::Joiner(named("of-a"));
    let said = rig.beat(rig.heartbeat("a", 0));
    let plans: Vec<_> = said
        .iter()
        .filter_map(|effect| match effect {
            Effect::Assert { plan, .. } => Some(plan.grants.contains_key(&joiner)),
            _ => None,
        })
        .collect();
    assert_eq!((plans, commits(&said).len()), (vec![false], 1));
}
