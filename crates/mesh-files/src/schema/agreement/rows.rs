//! Values at one place of a document, and what is answered.

use serde_json::{Value, json};

use super::Answer::{self, OnlyParsed, Refused, Taken};

/// Where, which value, and the answer. `a/b` is the key `b` in the table `a`.
pub(super) type Rows = Vec<(&'static str, Value, Answer)>;

/// Of a manifest.
pub(super) fn manifest() -> Rows {
    [module(), command(), run(), events(), seats()].concat()
}

/// Of the mesh's file.
pub(super) fn mesh() -> Rows {
    [named(), placed()].concat()
}

/// The whole, and who it is.
#[rustfmt::skip] // one row, one line
fn module() -> Rows {
    vec![
        ("version", json!(1), Taken),
        ("$schema", json!("https://mesh.example/manifest.json"), Taken),
        ("version", json!(2), Refused),
        ("version", json!("1"), Refused),
        ("version", json!(true), Refused),
        ("version", json!(GONE), Refused),
        ("modul", json!({}), Refused),
        ("module", json!(GONE), Refused),
        ("module", json!("a"), Refused),
        ("module", json!(["a", "1"]), Refused),
        ("module/name", json!(GONE), Refused),
        ("module/name", text(63), Taken),
        ("module/name", text(64), Refused),
        ("module/name", json!(""), Refused),
        ("module/name", json!("A"), Refused),
        ("module/name", json!("a.b"), Refused),
        ("module/name", json!("-a"), Refused),
        ("module/name", json!("a-"), Refused),
        ("module/name", json!("a\n"), Refused),
        ("module/name", json!("a-1"), Taken),
        ("module/name", json!("controller"), Refused),
        ("module/name", json!("con"), Refused),
        ("module/name", json!("com9"), Refused),
        ("module/name", json!("com0"), Taken),
        ("module/name", json!("con-1"), Taken),
        ("module/name", json!(3), Refused),
        ("module/release", json!(GONE), Refused),
        ("module/release", json!(""), Taken),
        ("module/release", json!(1.4), Refused),
        ("module/release", text(128), Taken),
        ("module/release", text(129), Refused),
        ("module/release", json!("ä".repeat(65)), OnlyParsed), // bytes, not characters
        ("module/relase", json!("1"), Refused),
    ]
}

/// What is run.
#[rustfmt::skip] // one row, one line
fn command() -> Rows {
    vec![
        ("run", json!([["a"]]), Refused),
        ("run", json!(GONE), Refused),
        ("run/command", json!(GONE), Refused),
        ("run/command", json!("a"), Refused),
        ("run/command", json!([]), Refused),
        ("run/command", json!([""]), Refused),
        ("run/command", json!([3]), Refused),
        ("run/command", json!(["a", ""]), Taken),
        ("run/command", json!(["a", 3]), Refused),
        ("run/command", json!(["a\u{0}"]), Refused),
        ("run/command", json!(["a", "\u{0}"]), Refused),
        ("run/command", json!(["a", "a\nb\u{1b}"]), Taken),
        ("run/command", json!(vec!["a"; 256]), Taken),
        ("run/command", json!(vec!["a"; 257]), Refused),
        ("run/command", json!(["a", "a".repeat(16 * 1024)]), OnlyParsed), // bytes in all
        ("run/command", json!(["a".repeat(16 * 1024)]), Taken),
        ("run/command", json!(["a".repeat(16 * 1024 + 1)]), Refused),
        ("run/image", json!("x"), Refused),
        ("run/image", json!(false), Refused),
        ("run/secrets", json!(false), Refused),
        ("run/health", json!({}), Refused),
    ]
}

/// How it is run.
#[rustfmt::skip] // one row, one line
fn run() -> Rows {
    vec![
        ("run/after", json!(["b"]), Taken),
        ("run/after", json!(["b", "b"]), Refused),
        ("run/after", json!(["a"]), OnlyParsed), // itself
        ("run/after", json!("b"), Refused),
        ("run/after", many(256), Taken),
        ("run/after", many(257), Refused),
        ("run/env", json!({"A": "b\n"}), Taken),
        ("run/env", json!({"": "b"}), Refused),
        ("run/env", json!({"A=B": "b"}), Refused),
        ("run/env", json!({"A\u{0}": "b"}), Refused),
        ("run/env", json!({"A": "\u{0}"}), Refused),
        ("run/env", json!({"A": 3}), Refused),
        ("run/env", json!({"MESH_NODE": "b"}), Refused),
        ("run/env", json!({"A_MESH_": "b"}), Taken),
        ("run/env", pairs(256, "x"), Taken),
        ("run/env", pairs(257, "x"), Refused),
        ("run/env", pairs(256, &"x".repeat(64)), OnlyParsed), // bytes in all
        ("run/restart", json!("always"), Taken),
        ("run/restart", json!("on-failure"), Taken),
        ("run/restart", json!("never"), Taken),
        ("run/restart", json!("allways"), Refused),
        ("run/restart", json!(false), Refused),
        ("run/restart", Value::Null, Refused),
    ]
}

/// What is said and heard.
#[rustfmt::skip] // one row, one line
fn events() -> Rows {
    vec![
        ("events", json!({}), Taken),
        ("events", json!([]), Refused),
        ("events", json!({"emit": []}), Refused),
        ("events", json!({"emits": ["a.b-c.d"]}), Taken),
        ("events", json!({"emits": ["a..b"]}), Refused),
        ("events", json!({"emits": ["a", "a"]}), Refused),
        ("events", json!({"emits": ["announced"]}), Refused),
        ("events", json!({"emits": ["controller", "con"]}), Taken),
        ("events", json!({"emits": [format!("{}.{}", "a".repeat(63), "b".repeat(63))]}), Taken),
        ("events", json!({"emits": [format!("{}.{}.c", "a".repeat(63), "b".repeat(63))]}), Refused),
        ("events", json!({"emits": many(1000)}), Taken),
        ("events", json!({"emits": many(1001)}), Refused),
        ("events", json!({"follows": ["b.announced", "b.x.y"]}), Taken),
        ("events", json!({"follows": ["b"]}), Refused),
        ("events", json!({"follows": ["b."]}), Refused),
        ("events", json!({"follows": ["b.*"]}), Refused),
        ("events", json!({"follows": ["controller.x"]}), Refused),
        ("events", json!({"follows": ["nul.x"]}), Refused),
        ("events", json!({"follows": ["b.nul"]}), Taken),
        ("events", json!({"follows": [format!("b.{}.{}.c", "a".repeat(63), "b".repeat(63))]}), OnlyParsed), // the event alone
        ("events", json!({"follows": many_events(1000)}), Taken),
        ("events", json!({"follows": many_events(1001)}), Refused),
    ]
}

/// Which work is done.
#[rustfmt::skip] // one row, one line
fn seats() -> Rows {
    vec![
        ("seats", json!({"can_hold": ["s"], "sends_to": ["s"]}), Taken),
        ("seats", json!({"can_hold": ["controller"]}), Refused),
        ("seats", json!({"sends_to": ["lpt1"]}), Refused),
        ("seats", json!({"can_hold": many(256), "sends_to": many(256)}), Taken),
        ("seats", json!({"can_hold": many(257)}), Refused),
        ("seats", json!({"sends_to": many(257)}), Refused),
        ("seats", Value::Null, Refused),
    ]
}

/// The whole, and its seats.
#[rustfmt::skip] // one row, one line
fn named() -> Rows {
    vec![
        ("version", json!(1), Taken),
        ("version", json!(GONE), Refused),
        ("mesh", json!(GONE), Refused),
        ("mesh/name", json!(GONE), Refused),
        ("mesh/name", json!("controller"), Taken),
        ("mesh/name", json!("Home"), Refused),
        ("mesh/nmae", json!("home"), Refused),
        ("seats", json!([]), Refused),
        ("seat", json!({"name": "s"}), Refused),
        ("seat", json!([]), Taken),
        ("seat", json!([["s"]]), Refused),
        ("mesh", json!(["home"]), Refused),
        ("seat/0/name", json!(GONE), Refused),
        ("seat/0/name", json!("controller"), Refused),
        ("seat/0/name", json!("aux"), Refused),
        ("seat/0/holder", json!("a"), Taken),
        ("seat/0/holder", json!("A"), Refused),
        ("seat/0/holder", Value::Null, Refused),
        ("seat/0/failover", json!(false), Taken),
        ("seat/0/failover", json!(true), Refused),
        ("seat/0/grace", json!("30s"), Refused),
        ("seat/0/grace", json!(false), Refused),
        ("seat", json!([{"name": "s"}, {"name": "s", "holder": "a"}]), OnlyParsed), // one seat twice
    ]
}

/// Where what runs.
#[rustfmt::skip] // one row, one line
fn placed() -> Rows {
    vec![
        ("place/0/module", json!(GONE), Refused),
        ("place/0/nodes", json!(GONE), Refused),
        ("place/0/nodes", json!([]), Taken),
        ("place/0/nodes", json!(["n", "n"]), Refused),
        ("place/0/nodes", json!(["n.1"]), Refused),
        ("place/0/nodes", many(10_000), Taken),
        ("place/0/nodes", many(10_001), Refused),
        ("place/0/labels", json!({"role": "web"}), Refused), // beside nodes
        ("place", json!([{"module": "a", "labels": {"role": "web"}}]), Taken),
        ("place", json!([{"module": "a", "labels": {"role": 3}}]), Refused),
        ("place", json!([{"module": "a", "labels": pairs(64, "x")}]), Taken),
        ("place", json!([{"module": "a", "labels": pairs(65, "x")}]), Refused),
        ("place", json!([{"module": "a", "labels": {"": "x".repeat(256)}}]), Taken),
        ("place", json!([{"module": "a", "labels": {"": "x".repeat(257)}}]), Refused),
        ("place", json!([{"module": "a", "labels": {"k": "x".repeat(256)}}]), OnlyParsed), // bytes in all
        ("place", json!([{"module": "a", "nodes": []}, {"module": "a", "labels": {}}]), OnlyParsed), // one module twice
    ]
}

pub(super) fn bare() -> Value {
    json!({"version": 1, "module": {"name": "a", "release": "1"}, "run": {"command": ["a"]}})
}

pub(super) fn home() -> Value {
    json!({"version": 1, "mesh": {"name": "home"}, "seat": [{"name": "s"}],
           "place": [{"module": "a", "nodes": ["n"]}]})
}

fn many(count: usize) -> Value {
    json!((0..count).map(|n| format!("n{n}")).collect::<Vec<_>>())
}

fn many_events(count: usize) -> Value {
    json!((0..count).map(|n| format!("m.e{n}")).collect::<Vec<_>>())
}

fn pairs(count: usize, value: &str) -> Value {
    let pairs = (0..count).map(|n| (format!("K{n}"), json!(value)));
    Value::Object(pairs.collect())
}

fn text(count: usize) -> Value {
    json!("a".repeat(count))
}

/// Stands for no key at all.
pub(super) const GONE: &str = "<gone>";
