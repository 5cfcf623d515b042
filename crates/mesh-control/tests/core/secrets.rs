//! Secrets: set, handed to the nodes that need them and to no others, and forgotten.

use mesh_control::{Command, CommandError, Fact, Start};
use mesh_model::{Declared, NodeName, Sealed, SecretName, Workload};

use crate::rig::*;

fn secret() -> SecretName {
    named("SMTP_PASSWORD")
}

fn set(value: &str) -> Command {
    Command::SetSecret {
        secret: secret(),
        sealed: Sealed(format!("sealed {value}").into_bytes()),
    }
}

fn remove() -> Command {
    Command::RemoveSecret { secret: secret() }
}

/// Module `x` needs the secret and runs on `a`; `y` does not, and runs on `b`.
fn needing() -> Declared {
    let mut declared = declared(None, &[("x", &["a"]), ("y", &["b"])]);
    let x = declared.modules.get_mut(&named("x")).unwrap();
    x.secrets = [secret()].into();
    declared
}

fn told<'a>(rig: &'a Rig, node: &str) -> &'a Workload {
    let declaration = &rig.core.declarations()[&named::<NodeName>(node)];
    &declaration.workloads[0]
}

fn mesh() -> Rig {
    let mut rig = Rig::new();
    for (node, key) in [("a", 'A'), ("b", 'B')] {
        rig.join(node, key);
    }
    rig
}

fn ok(rig: &mut Rig, command: Command) {
    rig.command(command).unwrap().unwrap();
}

#[test]
fn a_module_whose_secret_nobody_set_is_refused_with_what_to_type() {
    let mut rig = mesh();
    let before = rig.core.records().clone();
    let refused = rig.command(apply(needing())).unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "secret SMTP_PASSWORD, which x needs, is not set: `meshctl secret set SMTP_PASSWORD`"
    );
    assert_eq!(rig.core.preview(&needing()).unwrap_err(), refused);
    assert_eq!(rig.core.records(), &before);
    ok(&mut rig, set("hunter2"));
    ok(&mut rig, apply(needing()));
}

#[test]
fn a_changed_value_is_told_to_the_nodes_that_need_it_and_to_no_others() {
    let mut rig = mesh();
    ok(&mut rig, set("one"));
    ok(&mut rig, apply(needing()));
    let handed = |rig: &Rig| told(rig, "a").secrets[&secret()].clone();
    let (first, before) = (handed(&rig), rig.generation("b"));
    assert!(told(&rig, "b").secrets.is_empty());
    // Whatever else changes, what was sealed stays as it is.
    let at = rig.generation("a");
    ok(
        &mut rig,
        Command::Label {
            node: named("a"),
            labels: [].into(),
        },
    );
    ok(&mut rig, apply(needing()));
    assert_eq!((handed(&rig), rig.generation("a")), (first.clone(), at));

    ok(&mut rig, set("two"));
    let second = handed(&rig);
    assert!(second.version > first.version && second.sealed != first.sealed);
    assert!(rig.generation("a") > at);
    assert_eq!(rig.generation("b"), before);
    // Set again, the same value is another one: nobody here can tell.
    ok(&mut rig, set("two"));
    assert!(handed(&rig).version > second.version);
}

#[test]
fn a_node_with_another_key_has_the_value_sealed_to_that() {
    let mut rig = mesh();
    ok(&mut rig, set("one"));
    ok(&mut rig, apply(needing()));
    let sealed = |rig: &Rig| {
        let handed = &told(rig, "a").secrets[&secret()];
        String::from_utf8(handed.sealed.0.clone()).unwrap()
    };
    assert!(sealed(&rig).starts_with(&format!("to {} ", sealer('A'))));
    rig.create_token("again", |token| {
        token.node = Some(named("a"));
        token.rejoin = true;
    });
    rig.hear(rig.request("again", Some("a"), 'Z'));
    assert!(sealed(&rig).starts_with(&format!("to {} ", sealer('Z'))));
}

#[test]
fn what_loses_the_module_or_the_name_loses_the_value() {
    let mut rig = mesh();
    ok(&mut rig, set("one"));
    ok(&mut rig, apply(needing()));
    let mut without = needing();
    let x = without.modules.get_mut(&named("x")).unwrap();
    x.secrets = [].into();
    ok(&mut rig, apply(without));
    assert!(told(&rig, "a").secrets.is_empty());
    ok(&mut rig, apply(needing()));
    ok(&mut rig, apply(declared(None, &[])));
    let held = |fact: &Fact| matches!(fact, Fact::Instance(..));
    assert!(!rig.facts.values().any(held));
}

#[test]
fn a_secret_in_use_is_not_removed_and_one_removed_never_comes_back_as_the_same() {
    let mut rig = mesh();
    assert_eq!(
        rig.command(remove()).unwrap(),
        Err(CommandError::UnknownSecret(secret()))
    );
    ok(&mut rig, set("one"));
    let version = |rig: &Rig| rig.core.records().secrets[&secret()].version;
    let first = version(&rig);
    ok(&mut rig, apply(needing()));
    let refused = rig.command(remove()).unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "secret SMTP_PASSWORD is needed by x; apply manifests that do not name it first"
    );
    ok(&mut rig, apply(declared(None, &[])));
    ok(&mut rig, remove());
    assert!(rig.core.records().secrets.is_empty());
    ok(&mut rig, set("one"));
    assert!(version(&rig) > first);
}

#[test]
fn secrets_outlive_the_controller_and_what_does_not_open_changes_nothing() {
    let mut rig = mesh();
    ok(&mut rig, set("one"));
    ok(&mut rig, apply(needing()));
    let (records, told_before) = (rig.core.records().secrets.clone(), told(&rig, "a").clone());
    let mut rig = rig.restart(Start::Continued);
    assert_eq!(rig.core.records().secrets, records);
    assert_eq!(told(&rig, "a"), &told_before);

    let foreign = Command::SetSecret {
        secret: secret(),
        sealed: Sealed(b"to somebody else".to_vec()),
    };
    let refused = rig.command(foreign).unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "nothing can be sealed for module/x@a: it does not open"
    );
    assert_eq!(rig.core.records().secrets, records);
}

/// Module `x` with more secrets than a node may be told, all of them set.
fn too_much(rig: &mut Rig) -> Declared {
    let mut many = needing();
    let names: Vec<SecretName> = (0..64).map(|n| named(&format!("S{n}"))).collect();
    let x = many.modules.get_mut(&named("x")).unwrap();
    x.secrets = names.iter().cloned().collect();
    for name in names {
        ok(rig, large(name, 10_000));
    }
    many
}

fn large(secret: SecretName, bytes: usize) -> Command {
    let sealed = Sealed([b"sealed ".to_vec(), vec![b'x'; bytes]].concat());
    Command::SetSecret { secret, sealed }
}

#[test]
fn a_node_is_not_told_more_than_one_message_holds() {
    let mut rig = mesh();
    let many = too_much(&mut rig);
    let refused = rig.command(apply(many)).unwrap().unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("the secrets of the modules on node a have "),
        "{said}"
    );
}

#[test]
fn a_node_that_comes_to_too_much_stands_in_no_other_commands_way() {
    let mut rig = Rig::new();
    rig.join("b", 'B');
    let many = too_much(&mut rig);
    // Nobody has it yet.
    ok(&mut rig, apply(many.clone()));
    rig.join("a", 'A');
    let label = Command::Label {
        node: named("b"),
        labels: [].into(),
    };
    ok(&mut rig, label);
    ok(&mut rig, apply(many));
    // Shorter is a way out, longer is none.
    let refused = rig
        .command(large(named("S1"), 11_000))
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(refused, CommandError::SecretsTooLarge { .. }),
        "{refused}"
    );
    for n in 0..64 {
        ok(&mut rig, large(named(&format!("S{n}")), 5_000));
    }
    ok(&mut rig, large(named("S1"), 11_000));
}
