//! Credentials are replaced in time, and nothing is cut off or started again that need not be.

use mesh_control::{Announcement, Command, CommandError, Message, Rotation, Start};
use mesh_model::{CredentialLife, InstanceRecord, NodeName, PublicKey, Workload};

use crate::rig::*;

const DAY: u64 = 24 * 3_600_000;

/// Module `x` on node `a`, looked at once.
fn running() -> Rig {
    let mut rig = Rig::with_node_a();
    // The token's time is over: that is a change of its own.
    rig.pass(2 * 3_600_000);
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    rig.pass(2_000);
    rig.said.clear();
    rig
}

fn record(rig: &Rig) -> &InstanceRecord {
    rig.core.records().instances.values().next().unwrap()
}

fn life(rig: &Rig) -> &CredentialLife {
    &record(rig).life
}

fn told(rig: &Rig) -> &Workload {
    &rig.core.declarations()[&named::<NodeName>("a")].workloads[0]
}

/// Whom the bus knows as the module, the newest first.
fn known(rig: &Rig) -> Vec<PublicKey> {
    let plan = rig.core.plan();
    let of = |(key, who): (&PublicKey, &mesh_model::Principal)| {
        matches!(who, mesh_model::Principal::Instance(_)).then(|| key.clone())
    };
    let users = plan.users.iter().filter_map(of);
    users.chain(plan.retiring.iter().filter_map(of)).collect()
}

fn announces(rig: &mut Rig, key: Option<PublicKey>) {
    let announcement = Announcement {
        release: "1".to_owned(),
        node: named("a"),
        key,
    };
    let (_, said) = rig.hear(Message::Announced(named("x"), announcement));
    assert_eq!(settlements(&said).len(), 1);
}

#[test]
fn a_credential_is_replaced_before_it_is_old_and_the_one_before_stays_good() {
    let mut rig = running();
    let first = record(&rig).key.clone();
    assert!(life(&rig).made.is_some());
    rig.pass(26 * DAY);
    assert_eq!(record(&rig).key, first);
    let (before, revision) = (told(&rig).clone(), rig.core.records().revision);
    rig.pass(4 * DAY);
    let second = record(&rig).key.clone();
    assert_ne!(second, first);
    assert_eq!(known(&rig), [second.clone(), first.clone()]);
    assert_eq!(rig.core.records().revision, revision.next());
    let after = told(&rig).clone();
    assert_eq!(
        (&after.key, &after.accepts),
        (&second, &[first.clone()].into())
    );
    assert!(before.runs_as(&after), "nothing is started again for it");
    assert!(!after.runs_as(&before));
    // A module that says nothing of keys, or names another, has not taken it.
    for key in [None, Some(first), Some(user('q'))] {
        announces(&mut rig, key);
        rig.pass(2_000);
        assert_eq!(known(&rig).len(), 2);
    }

    announces(&mut rig, Some(second.clone()));
    assert_eq!(known(&rig), std::slice::from_ref(&second));
    assert_eq!(told(&rig), &after, "the node is told nothing for it");
    rig.pass(2 * DAY);
    assert_eq!((record(&rig).key.clone(), told(&rig)), (second, &after));
}

#[test]
fn a_module_that_does_not_take_it_is_started_again_once_and_cut_off_at_no_time() {
    let mut rig = running();
    rig.pass(30 * DAY);
    let [second, first] = known(&rig).try_into().unwrap();
    let before = told(&rig).clone();
    rig.pass(DAY - 2_000);
    assert_eq!(told(&rig), &before);
    rig.pass(4_000);
    let after = told(&rig).clone();
    assert_eq!((&after.key, after.accepts.len()), (&second, 0));
    // What was started with the first is started again, and may speak until it is; what was started since is not.
    let mut started_before = before.clone();
    started_before.key = first.clone();
    assert!(!started_before.runs_as(&after) && before.runs_as(&after));
    assert_eq!(known(&rig), [second.clone(), first]);
    rig.pass(10 * 60_000 + 2_000);
    assert_eq!(known(&rig), [second]);
    assert_eq!(told(&rig), &after);
    assert!(life(&rig).retiring.is_none());
}

#[test]
fn a_controller_that_is_started_anew_goes_on_where_it_was() {
    let mut rig = running();
    rig.pass(30 * DAY);
    let (life_before, second) = (life(&rig).clone(), record(&rig).key.clone());
    let mut rig = rig.restart(Start::Continued);
    assert_eq!(life(&rig), &life_before);
    announces(&mut rig, Some(second.clone()));
    assert_eq!(known(&rig), std::slice::from_ref(&second));
    // What was taken stays taken, also where nobody announces it again.
    let after = told(&rig).clone();
    let mut rig = rig.restart(Start::Continued);
    rig.pass(2 * DAY);
    assert_eq!(told(&rig), &after);
    assert_eq!(known(&rig), [second]);
}

#[test]
fn what_an_earlier_release_made_is_as_old_as_the_first_look_at_it() {
    let mut rig = running();
    for fact in rig.facts.values_mut() {
        if let mesh_control::Fact::Instance(_, record) = fact {
            record.life = CredentialLife::default();
        }
    }
    let (generation, revision) = (rig.generation("a"), rig.core.records().revision);
    let mut rig = rig.restart(Start::Continued);
    rig.pass(2_000);
    assert_eq!(life(&rig).made, Some(rig.time()));
    assert_eq!(rig.generation("a"), generation);
    assert_eq!(rig.core.records().revision, revision);
}

#[test]
fn a_host_that_is_replaced_takes_every_key_with_it() {
    let mut rig = running();
    rig.pass(30 * DAY);
    assert_eq!(known(&rig).len(), 2);
    rig.create_token("again", |token| {
        token.node = Some(named("a"));
        token.rejoin = true;
    });
    rig.hear(rig.request("again", Some("a"), 'Z'));
    let only = record(&rig).key.clone();
    assert_eq!(known(&rig), [only]);
    assert!(told(&rig).accepts.is_empty());
}

#[test]
fn an_operator_replaces_credentials_at_once_and_not_twice_over() {
    let mut rig = running();
    let first = record(&rig).key.clone();
    let rotate = |module: &str, node: Option<&str>| Command::Rotate {
        module: named(module),
        node: node.map(named),
        overlap: 60_000,
    };
    for (module, node) in [("y", None), ("x", Some("b"))] {
        let refused = rig.command(rotate(module, node)).unwrap();
        assert_eq!(refused, Err(CommandError::RunsNowhere(named(module))));
    }
    rig.command(rotate("x", Some("a"))).unwrap().unwrap();
    assert_eq!(known(&rig), [record(&rig).key.clone(), first]);
    let refused = rig.command(rotate("x", None)).unwrap().unwrap_err();
    assert!(matches!(refused, CommandError::Rotating(_)), "{refused}");
    rig.pass(62_000);
    assert!(told(&rig).accepts.is_empty());
}

#[test]
fn nothing_is_replaced_by_itself_where_that_is_not_wanted() {
    let mut told = settings();
    told.rotation = Rotation {
        after: None,
        ..Rotation::default()
    };
    let mut rig = Rig::told_at(told, 1_000_000);
    rig.join("a", 'A');
    rig.command(apply(declared(None, &[("x", &["a"])])))
        .unwrap()
        .unwrap();
    let first = record(&rig).key.clone();
    rig.pass(2_000);
    rig.pass(1_000 * DAY);
    assert_eq!(record(&rig).key, first);
}

#[test]
fn many_are_not_replaced_at_the_same_moment() {
    let mut rig = Rig::new();
    let nodes: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    for (node, key) in names.iter().zip(('A'..='Z').chain('a'..='z')) {
        rig.join(node, key);
    }
    rig.pass(2 * 3_600_000);
    rig.command(apply(declared(None, &[("x", &names)])))
        .unwrap()
        .unwrap();
    for _ in 0..4 {
        rig.pass(2_000);
    }
    let replaced = |rig: &Rig| {
        let records = rig.core.records().instances.values();
        records.filter(|it| it.life.retiring.is_some()).count()
    };
    rig.pass(28 * DAY + DAY / 2);
    let some = replaced(&rig);
    assert!((1..32).contains(&some), "{some}");
    // However many are due, so many at once.
    rig.pass(2 * DAY);
    for _ in 0..8 {
        rig.pass(2_000);
    }
    let records = rig.core.records().instances.values();
    let old = records.filter(|it| it.life.retiring.is_none() && it.life.accepts.is_empty());
    assert_eq!(old.count(), 0);
}
