//! What went wrong in other people's production with acknowledgements, redelivery and joining, and cannot here.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use mesh_control::{Command, Effect, FactKey, Message, Settings, Settlement, Start};
use mesh_derive::topology::{BrokerFacts, QueueKind, topology};
use mesh_model::{EnrolmentAnswer, EnrolmentRefusal, Manifest, NodeName, Timestamp};

use crate::rig::*;

/// What is never acknowledged is counted again each time it comes; acknowledged on receipt, it is lost when it fails.
/// <https://github.com/cgrates/cgrates/pull/5337>
#[test]
fn case_b_96d73a9_a_message_is_acknowledged_once_its_effect_is_durable_and_counted_once() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    rig.disk = Disk::Refuses { written: false };
    let (key, said) = rig.hear(says(&report));
    // Read and understood, and still not acknowledged: it is held, with a delay.
    let [Settlement::Hold(delay)] = settlements(&said)[..] else {
        panic!("{said:?}")
    };
    assert!(!delay.is_zero() && !rig.stored(&report));
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    let said = rig.hear_again(key, says(&report));
    let stored = position(&said, |e| matches!(e, Effect::Store { .. }));
    let settled = position(&said, |e| *e == Effect::Settle(key, Settlement::Done));
    assert!(stored < settled && rig.stored(&report));
    // The acknowledgement was lost: the same report again, as another message, counts nothing.
    for _ in 0..3 {
        let (_, said) = rig.hear(says(&report));
        assert!(done(&said) && commits(&said).is_empty());
    }
    assert_eq!(
        (rig.core.tally().recorded, rig.core.tally().repeated),
        (1, 3)
    );
}

/// The server knows a message id for two minutes from the first copy: later copies come through.
/// <https://github.com/nats-io/nats-server/issues/7302>
#[test]
fn case_b_269f7a9_a_copy_that_comes_after_any_window_has_no_second_effect() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    let _first = rig.hear(says(&report));
    rig.pass(5 * 60_000);
    let (_, said) = rig.hear(says(&report));
    assert!(done(&said) && commits(&said).is_empty(), "{said:?}");
    let mut rig = rig.restart(Start::Continued);
    rig.pass(3_600_000);
    let (_, said) = rig.hear(says(&report));
    assert!(done(&said) && commits(&said).is_empty(), "after a restart");
}

/// The first worker's late acknowledgement is accepted although the message went to a second one.
/// <https://github.com/nats-io/nats-server/issues/4786>
#[test]
fn case_b_6e08ccd_two_deliveries_of_one_report_make_one_record() {
    let mut rig = Rig::with_node_a();
    let report = rig.report("a", 1);
    let key = |sequence| mesh_control::MessageKey {
        bus: mesh_model::BusKind::Nats,
        queue: mesh_control::Queue::Control,
        sequence,
    };
    // Both are in hand at once: the second was delivered before the first was stored.
    let first = rig.core.handle_message(key(70), says(&report), rig.time());
    let second = rig.core.handle_message(key(71), says(&report), rig.time());
    rig.carry_out(first);
    rig.carry_out(second);
    let settled = |key| rig.said.contains(&Effect::Settle(key, Settlement::Done));
    assert!(settled(key(70)) && settled(key(71)));
    let tally = rig.core.tally();
    assert_eq!((tally.recorded, tally.repeated), (1, 1));
}

/// A queue's message that reached its last delivery stays there for ever, and nobody is told.
/// <https://github.com/nats-io/nats-server/issues/4956>
#[test]
fn case_b_567df34_what_is_given_up_is_kept_elsewhere_first_then_leaves_the_queue_and_is_counted() {
    let mut rig = Rig::with_node_a();
    rig.disk = Disk::Refuses { written: false };
    let report = rig.report("a", 1);
    let (key, _) = rig.hear(says(&report));
    rig.now += BOUND;
    let said = rig.hear_again(key, says(&report));
    let parked = position(&said, |e| matches!(e, Effect::Park { .. }));
    let settled = position(&said, |e| *e == Effect::Settle(key, Settlement::Done));
    assert!(parked < settled, "{said:?}");
    assert_eq!((rig.core.tally().let_go, rig.core.held()), (1, 0));
    // Without a copy it does not leave the queue.
    let report = rig.report("a", 2);
    let (key, _) = rig.hear(says(&report));
    rig.now += BOUND;
    rig.bus = false;
    let said = rig.hear_again(key, says(&report));
    assert_eq!((parks(&said), settlements(&said).len()), (1, 0));
}

/// With one message in hand at a time, the first that always fails blocks the queue.
/// <https://github.com/amqp-node/amqplib/issues/293>
#[test]
fn case_b_8fa30b2_one_that_never_can_be_stored_blocks_none_behind_it() {
    let mut rig = Rig::with_node_a();
    let (poison, next) = (rig.report("a", 1), rig.report("a", 2));
    rig.disk = Disk::Never;
    let (_, said) = rig.hear(says(&poison));
    assert!(parks(&said) == 1 && done(&said));
    rig.disk = Disk::Takes;
    let (_, said) = rig.hear(says(&next));
    assert!(done(&said) && rig.stored(&next));
}

/// An agent that crashed with a declaration in hand hears it again only after a long ack wait.
/// <https://github.com/nats-io/nats-server/issues/4627>
#[test]
fn case_b_35543ad_a_node_that_lost_what_it_held_is_told_again_within_twenty_seconds() {
    let mut rig = Rig::with_node_a();
    let mut crashed = rig.heartbeat("a", 0);
    crashed.session = 2;
    crashed.applied = None;
    let mut told_after = None;
    for after in 0..=20_u64 {
        if !told(&rig.beat(crashed.clone())).is_empty() {
            told_after = Some(after);
            break;
        }
        rig.now += 1_000;
    }
    assert_eq!(told_after, Some(20));
}

/// A plan that overlaps is checked when it is first declared, and not when it is changed.
/// <https://github.com/nats-io/nats-server/issues/4653>
#[test]
fn case_b_f9de940_a_change_that_follows_what_nobody_emits_is_refused_and_changes_nothing() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let before = rig.facts.clone();
    let mut wider = declared(None, &[("x", &["a"])]);
    let follows = Manifest {
        follows: [named("y.nothing-it-emits")].into(),
        ..manifest("x")
    };
    wider.modules.insert(named("x"), follows);
    let refused = rig.command(apply(wider)).unwrap().unwrap_err();
    assert!(
        refused.to_string().contains("y.nothing-it-emits"),
        "{refused}"
    );
    assert_eq!(rig.facts, before);
}

/// A name that is taken: a replacement host tries again for ever, and says so only in a log.
/// <https://github.com/k3s-io/k3s/issues/6054>
#[test]
fn case_c_95a28b0_another_host_of_a_name_that_is_taken_is_refused_with_the_remedy() {
    let mut rig = Rig::with_node_a();
    rig.create_token("again", |_| {});
    let (_, said) = rig.hear(rig.request("again", Some("a"), 'B'));
    let [(_, EnrolmentAnswer::Refused(refusal))] = &answers(&said)[..] else {
        panic!("{said:?}")
    };
    assert_eq!(*refusal, EnrolmentRefusal::NameTaken { node: named("a") });
    let words = refusal.to_string();
    assert!(
        words.contains("rejoin") || words.contains("token"),
        "{words}"
    );
    // Once: its request is done with, and nothing of it is kept.
    assert!(done(&said) && commits(&said).is_empty());
}

/// Nodes that joined by a token have to survive its end, and a removed one must not come back with it.
/// <https://github.com/k3s-io/k3s/pull/6663>
#[test]
fn case_c_fd04d74_a_node_outlives_its_token_and_does_not_outlive_its_removal() {
    let mut rig = Rig::with_node_a();
    rig.pass(2 * 3_600_000);
    let _gone = rig.command(Command::RevokeToken { id: named("of-a") });
    let mut rig = rig.restart(Start::Continued);
    let own = mesh_model::Principal::Node(named("a"));
    let known = |rig: &Rig| {
        let plan = mesh_derive::derive(rig.core.records(), &mesh_derive::Bounds::default());
        plan.users.get(&user('A')).cloned()
    };
    assert_eq!(known(&rig), Some(own));
    let node: NodeName = named("a");
    rig.command(Command::RemoveNode { node }).unwrap().unwrap();
    assert_eq!(known(&rig), None);
    let (_, said) = rig.hear(rig.request("of-a", Some("a"), 'A'));
    assert!(matches!(
        &answers(&said)[..],
        [(_, EnrolmentAnswer::Refused(_))]
    ));
    assert_eq!(known(&rig), None);
}

/// Enrolment stops for ever on "invalid token", although what failed was the store.
/// <https://github.com/elastic/elastic-agent/pull/13861>
#[test]
fn case_c_212ddb8_an_outage_is_no_refusal_and_an_unknown_token_is_one() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    rig.disk = Disk::Refuses { written: false };
    let (key, said) = rig.hear(rig.request("t", Some("a"), 'A'));
    assert!(held(&said) && answers(&said).is_empty(), "{said:?}");
    rig.disk = Disk::Takes;
    rig.pass(1_000);
    let said = rig.hear_again(key, rig.request("t", Some("a"), 'A'));
    assert!(matches!(
        &answers(&said)[..],
        [(_, EnrolmentAnswer::Accepted { .. })]
    ));
    let (_, said) = rig.hear(rig.request("nobodys", Some("b"), 'B'));
    let unknown = EnrolmentRefusal::Unknown {
        token: named("nobodys"),
    };
    assert_eq!(
        answers(&said).pop().unwrap().1,
        EnrolmentAnswer::Refused(unknown)
    );
}

/// The token expired during a slow boot: the host cannot join, and something of it stays behind.
/// <https://github.com/gardener/machine-controller-manager/issues/772>
#[test]
fn case_c_8042666_an_expired_token_is_said_to_be_and_leaves_no_half_of_a_node() {
    let mut rig = Rig::new();
    rig.create_token("late", |token| token.expires = Timestamp::from_millis(1));
    let before = rig.facts.clone();
    let (_, said) = rig.hear(rig.request("late", Some("b"), 'B'));
    let answer = answers(&said).pop().unwrap().1;
    assert!(matches!(
        answer,
        EnrolmentAnswer::Refused(EnrolmentRefusal::Expired { .. })
    ));
    assert_eq!(rig.facts, before);
}

/// Tokens could be used again within their time, and every failure was the same 401.
/// <https://github.com/wazuh/wazuh/issues/38963>
#[test]
fn case_c_b2b6fe3_of_two_hosts_at_once_one_joins_and_every_failure_says_which_it_is() {
    let mut rig = Rig::new();
    rig.create_token("t", |_| {});
    let time = rig.time();
    let key = |sequence| mesh_control::MessageKey {
        bus: mesh_model::BusKind::Nats,
        queue: mesh_control::Queue::Control,
        sequence,
    };
    // Both are in hand before either is stored.
    let first = rig.request("t", Some("a"), 'A');
    let second = rig.request("t", Some("b"), 'B');
    let first = rig.core.handle_message(key(80), first, time);
    let other = rig.core.handle_message(key(81), second.clone(), time);
    rig.carry_out(first);
    rig.carry_out(other);
    let said = rig.said.clone();
    let accepted = answers(&said)
        .into_iter()
        .filter(|(_, answer)| matches!(answer, EnrolmentAnswer::Accepted { .. }));
    assert_eq!(accepted.count(), 1);
    let (_, said) = rig.hear(second);
    let spent = EnrolmentRefusal::Spent {
        token: named("t"),
        node: named("a"),
    };
    assert_eq!(
        answers(&said).pop().unwrap().1,
        EnrolmentAnswer::Refused(spent)
    );
    assert_eq!(rig.core.records().nodes.len(), 1);
}

/// A small difference of clocks, and the control channel is refused: "token used before issued".
/// <https://github.com/upbound/universal-crossplane/pull/93>
#[test]
fn case_c_9647a20_a_clock_minutes_behind_joins_all_the_same() {
    for skew in [-120_000, -90_000, 90_000, 120_000_i64] {
        let mut rig = Rig::new();
        rig.create_token("t", |_| {});
        let Message::Enrolment(token, mut request) = rig.request("t", Some("a"), 'A') else {
            panic!("it is one");
        };
        rig.now = 1_000_000 + 200_000;
        let clock = rig.now.checked_add_signed(skew).unwrap();
        request.clock = Timestamp::from_millis(clock);
        let (_, said) = rig.hear(Message::Enrolment(token, request));
        let answer = answers(&said).pop().unwrap().1;
        assert!(
            matches!(answer, EnrolmentAnswer::Accepted { .. }),
            "{skew}: {answer:?}"
        );
    }
}

/// A device whose clock begins in 1970 fails to enrol, and the reason given is another.
/// <https://github.com/wazuh/wazuh/pull/39314>
#[test]
fn case_c_78836fc_a_wrong_clock_is_what_is_said_and_its_token_stays_good() {
    let mut rig = Rig::on([].into(), Start::Continued, Disk::Takes, 1_800_000_000_000);
    rig.create_token("t", |_| {});
    let Message::Enrolment(token, mut request) = rig.request("t", Some("a"), 'A') else {
        panic!("it is one");
    };
    request.clock = Timestamp::from_millis(0);
    let (_, said) = rig.hear(Message::Enrolment(token, request));
    let EnrolmentAnswer::Refused(refusal) = answers(&said).pop().unwrap().1 else {
        panic!("{said:?}")
    };
    assert!(refusal.to_string().contains("clock"), "{refusal}");
    // After the time was set right, the same token joins.
    let (_, said) = rig.hear(rig.request("t", Some("a"), 'A'));
    let answer = answers(&said).pop().unwrap().1;
    assert!(
        matches!(answer, EnrolmentAnswer::Accepted { .. }),
        "{answer:?}"
    );
}

/// Asking for the status set off a whole reconciliation.
/// <https://github.com/wasmCloud/wadm/pull/212>
#[test]
fn case_c_9887d25_a_status_changes_nothing_and_says_nothing() {
    let mut rig = Rig::with_node_a();
    let _recorded = rig.hear(says(&rig.report("a", 1)));
    let before = (rig.facts.clone(), rig.core.tally());
    for _ in 0..100 {
        assert_eq!(rig.core.status(rig.time()).nodes.len(), 1);
    }
    assert!(rig.core.tick(rig.time()).is_empty());
    assert_eq!((rig.facts.clone(), rig.core.tally()), before);
}

/// Each sign of life is written to the store, and its file grows without end.
/// <https://github.com/spacejam/sled/issues/786>
#[test]
fn case_d_94973b8_signs_of_life_are_never_written() {
    let mut rig = Rig::with_node_a();
    let _arrived = rig.beat(rig.heartbeat("a", 0));
    let before = rig.facts.clone();
    for _ in 0..1_000 {
        let said = rig.beat(rig.heartbeat("a", 0));
        assert!(commits(&said).is_empty(), "{said:?}");
        rig.now += 5_000;
    }
    assert_eq!(rig.facts, before);
}

/// Old state is kept for ever: the store outgrows what is in it, and opening it takes ever longer.
/// <https://github.com/spacejam/sled/issues/976>
#[test]
fn case_d_b16bc09_of_a_nodes_reports_the_newest_are_kept_and_no_more() {
    let mut rig = Rig::with_node_a();
    let mut most = 0;
    for seq in 1..=50 {
        let _recorded = rig.hear(says(&rig.report("a", seq)));
        let reports = rig
            .facts
            .keys()
            .filter(|key| matches!(key, FactKey::Report(_)));
        most = most.max(reports.count());
    }
    assert_eq!(most, settings().reports_kept);
}

/// The order of a map changes with each start of the operator, and everything is restarted for it.
/// <https://github.com/strimzi/strimzi-kafka-operator/pull/6705>
#[test]
fn case_d_d4867ca_a_restart_without_a_change_tells_nobody_anything_new() {
    let mut rig = Rig::with_node_a();
    rig.join("b", 'B');
    rig.command(apply(declared(
        Some("x"),
        &[("x", &["a", "b"]), ("y", &["a"])],
    )))
    .unwrap()
    .unwrap();
    let before = (rig.generation("a"), rig.generation("b"));
    let bytes = |rig: &Rig| format!("{:?}", rig.core.declarations());
    let declarations = bytes(&rig);
    for _ in 0..3 {
        rig = rig.restart(Start::Continued);
        // What the bus lost is told once more, as it was; a node that has it does nothing about it.
        assert!(
            told(&rig.said)
                .iter()
                .all(|(_, unless_there)| *unless_there)
        );
        assert_eq!((rig.generation("a"), rig.generation("b")), before);
        assert_eq!(bytes(&rig), declarations);
    }
}

/// The store of a backup, or of another volume: whoever believes it ends everything that runs.
/// <https://github.com/hashicorp/nomad/issues/3770>
#[test]
fn case_c_41a3bba_a_restored_store_speaks_only_in_a_new_incarnation() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let old = rig.facts.clone();
    rig.command(apply(declared(None, &[("x", &["a"]), ("y", &["a"])])))
        .unwrap()
        .unwrap();
    let newest = rig.generation("a");
    let restored = Rig::on(old, Start::Restored, Disk::Takes, rig.now + 10_000);
    // Never an equal or older generation with another content: a node drops what is older.
    assert!(restored.generation("a") > newest);
    assert!(restored.generation("a").incarnation > newest.incarnation);
}

/// Too small an interval, and the link flaps when the machine is busy.
/// <https://github.com/eclipse-bluechi/bluechi/issues/1041>
#[test]
fn case_c_27ba0db_a_node_is_not_lost_while_one_heartbeat_in_three_comes() {
    let mut rig = Rig::with_node_a();
    let _recorded = rig.hear(says(&rig.report("a", 1)));
    let longest = mesh_control::LOST_AFTER / 3;
    for _ in 0..100 {
        let _beat = rig.beat(rig.heartbeat("a", 1));
        // Two are lost, and the third is a little late.
        for _ in 0..3 {
            rig.pass(longest - 1);
            let status = rig.core.status(rig.time());
            assert_eq!(status.nodes[0].state, mesh_control::NodeState::Ready);
        }
    }
}

/// A consumer that holds a delivery for half an hour has its channel closed.
/// <https://github.com/amqp-rs/lapin/issues/357>
///
/// What the mesh holds it holds for as long as its window is, and a reader of its queues until the ack wait; what the
/// broker allows is stated, and longer. That a closed channel is built again is for the adapter, which is not built yet.
#[test]
fn case_b_5b7061c_a_broker_lets_a_message_be_held_longer_than_the_mesh_holds_one() {
    let mut rig = Rig::with_node_a();
    rig.command(apply(declared(Some("x"), &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let bounds = mesh_derive::Bounds::default();
    let plan = mesh_derive::derive(rig.core.records(), &bounds);
    let broker = BrokerFacts {
        vhost: "mesh".to_owned(),
        version: named("4.0.5"),
        queues: QueueKind::Quorum,
        users: String::new(),
    };
    let waits = plan.consumers.values().map(|it| it.ack_wait_secs);
    let longest = u64::from(waits.max().unwrap()) * 1_000;
    let window = Settings::new(named("test"), bus_facts()).window.bound;
    let window = u64::try_from(window.as_millis()).unwrap();
    for (class, policy) in &topology(&plan, &bounds, &broker).policies {
        let allowed = policy.settings()["consumer-timeout"].as_u64().unwrap();
        assert!(allowed > longest && allowed > 2 * window, "{class:?}");
    }
}

/// A peer that was restarted cleanly is tried again only when the backoff ends, up to a minute later.
/// <https://github.com/redpanda-data/redpanda/issues/4083>
#[test]
fn case_d_badbf3f_a_bus_that_is_back_is_spoken_to_at_once_however_long_it_was_away() {
    let mut rig = Rig::with_node_a();
    rig.bus = false;
    let _stored = rig.command(apply(declared(None, &[("x", &["a"])])));
    // It refuses until attempts are as rare as they become.
    for _ in 0..20 {
        let asserted = rig.said.iter().rev().find_map(|effect| match effect {
            Effect::Assert { version, .. } => Some(*version),
            _ => None,
        });
        let refused = Err("down".to_owned());
        let effects = rig
            .core
            .handle_asserted(asserted.unwrap(), refused, rig.time());
        rig.said.clear();
        rig.carry_out(effects);
        for _ in 0..30 {
            if rig.said.iter().any(|e| matches!(e, Effect::Assert { .. })) {
                break;
            }
            rig.pass(1_000);
        }
    }
    let version = rig.said.iter().find_map(|effect| match effect {
        Effect::Assert { version, .. } => Some(*version),
        _ => None,
    });
    let refused = Err("down".to_owned());
    let _put_off = rig
        .core
        .handle_asserted(version.unwrap(), refused, rig.time());
    rig.said.clear();
    rig.pass(1_000);
    assert!(rig.said.is_empty(), "the next attempt is not due");
    let _down = rig.core.handle_link(false, rig.time());
    rig.pass(1_000);
    rig.bus = true;
    let effects = rig.core.handle_link(true, rig.time());
    rig.carry_out(effects);
    assert!(rig.core.is_settled());
}
