//! Values at one place of a document, and what is answered.

use serde_json::{Value, json};

use super::Answer::{self, OnlyParsed, Refused, Taken};

/// Where, which value, and the answer. `a/b` is the key `b` in the table `a`.
pub(super) type Rows = Vec<(&'static str, Value, Answer)>;

/// Of a manifest.
pub(super) fn manifest() -> Rows {
    [
        module(),
        command(),
        run(),
        health(),
        secrets(),
        events(),
        seats(),
    ]
    .concat()
}

/// Of a manifest of a container.
pub(super) fn container() -> Rows {
    [image(), given(), limits()].concat()
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
        ("module/release", json!("1\u{1b}[31m"), Refused),
        ("module/release", json!("1\n2"), Refused),
        ("module/release", json!("1\u{202e}2"), Refused),
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
        ("run/image", json!("x"), Refused), // beside a command
        ("run/args", json!([]), Refused), // and so on: only a container has them
        ("run/ports", json!([]), Refused),
        ("run/volumes", json!([]), Refused),
        ("run/network", json!("host"), Refused),
        ("run/resources", json!({}), Refused),
        ("run/pull_secret", json!("A"), Refused),
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

/// How health is asked for.
#[rustfmt::skip] // one row, one line
fn health() -> Rows {
    vec![
        ("run/health", json!({}), Refused),
        ("run/health", json!({"every": "5s"}), Refused),
        ("run/health", json!("http://a"), Refused),
        ("run/health", json!(["http://a"]), Refused),
        ("run/health", json!({"http": "http://a"}), Taken),
        ("run/health", json!({"http": "http://a:80/x?y=z", "every": "100ms", "within": "1h"}), Taken),
        ("run/health", json!({"http": "https://a"}), Refused),
        ("run/health", json!({"http": "http://a b"}), Refused),
        ("run/health", json!({"http": "http:///x"}), OnlyParsed), // no host
        ("run/health", json!({"http": false}), Refused),
        ("run/health", json!({"tcp": "a:1"}), Taken),
        ("run/health", json!({"tcp": "[::1]:1"}), Taken),
        ("run/health", json!({"tcp": "a"}), Refused),
        ("run/health", json!({"tcp": "a:99999"}), OnlyParsed), // its value
        ("run/health", json!({"exec": ["a", ""]}), Taken),
        ("run/health", json!({"exec": []}), Refused),
        ("run/health", json!({"exec": vec!["a"; 256]}), Taken),
        ("run/health", json!({"exec": vec!["a"; 257]}), Refused),
        ("run/health", json!({"exec": "a"}), Refused),
        ("run/health", json!({"exec": [""]}), Refused),
        ("run/health", json!({"exec": ["\u{0}"]}), Refused),
        ("run/health", json!({"http": "http://a", "tcp": "a:1"}), Refused),
        ("run/health", json!({"tcp": "a:1", "exec": ["a"]}), Refused),
        ("run/health", json!({"tcp": "a:1", "eveyr": "5s"}), Refused),
        ("run/health", json!({"tcp": "a:1", "every": "5"}), Refused),
        ("run/health", json!({"tcp": "a:1", "every": 5}), Refused),
        ("run/health", json!({"tcp": "a:1", "every": "99ms"}), OnlyParsed), // too often
        ("run/health", json!({"tcp": "a:1", "every": "31s"}), OnlyParsed), // longer than within
        ("run/health", json!({"tcp": "a:1", "every": "999999999h", "within": "999999999h"}), Taken),
        ("run/health", json!({"tcp": "a:1", "within": "1000000000h"}), Refused),
        ("run/health", Value::Null, Refused),
    ]
}

/// Which secrets it is handed.
#[rustfmt::skip] // one row, one line
fn secrets() -> Rows {
    vec![
        ("run/secrets", json!([]), Taken),
        ("run/secrets", json!(["A", "B_2"]), Taken),
        ("run/secrets", json!(["A", "A"]), Refused),
        ("run/secrets", json!(["a"]), Refused),
        ("run/secrets", json!(["1A"]), Refused),
        ("run/secrets", json!(["A\n"]), Refused),
        ("run/secrets", json!(["MESH_A"]), Refused),
        ("run/secrets", json!(["A".repeat(63)]), Taken),
        ("run/secrets", json!(["A".repeat(64)]), Refused),
        ("run/secrets", many_secrets(64), Taken),
        ("run/secrets", many_secrets(65), Refused),
        ("run/secrets", json!("A"), Refused),
        ("run/secrets", json!(false), Refused),
        ("run", json!({"command": ["a"], "secrets": ["A"], "env": {"A_FILE": "x"}}), OnlyParsed), // one name for both
    ]
}

/// Which image.
#[rustfmt::skip] // one row, one line
fn image() -> Rows {
    let digest = format!("@sha256:{}", "0a".repeat(32));
    vec![
        ("run/image", json!("mailer"), Taken),
        ("run/image", json!("registry.example:5000/mail/mailer:1.4.0_RC-1"), Taken),
        ("run/image", json!("Registry.Example/mailer"), Taken),
        ("run/image", json!("localhost/a__b.c-d"), Taken),
        ("run/image", json!(format!("mailer{digest}")), Taken),
        ("run/image", json!(format!("mailer:1{digest}")), Taken),
        ("run/image", json!(format!("mailer:1{digest}0")), Refused),
        ("run/image", json!("mailer@sha512:00"), Refused),
        ("run/image", json!(""), Refused),
        ("run/image", json!("Mailer"), Refused),
        ("run/image", json!("a b"), Refused),
        ("run/image", json!("a\n"), Refused),
        ("run/image", json!("a:"), Refused),
        ("run/image", json!("a:-1"), Refused),
        ("run/image", json!(format!("a:{}", "1".repeat(128))), Taken),
        ("run/image", json!(format!("a:{}", "1".repeat(129))), Refused),
        ("run/image", json!("a//b"), OnlyParsed), // each part by itself
        ("run/image", text(512), Taken),
        ("run/image", text(513), Refused),
        ("run/image", json!(false), Refused),
        ("run/image", json!(GONE), Refused),
        ("run/command", json!(["a"]), Refused), // beside an image
    ]
}

/// What it is given.
#[rustfmt::skip] // one row, one line
fn given() -> Rows {
    vec![
        ("run/args", json!([]), Taken),
        ("run/args", json!(["", "a\nb"]), Taken),
        ("run/args", json!(["\u{0}"]), Refused),
        ("run/args", json!("a"), Refused),
        ("run/args", json!(vec!["a"; 256]), Taken),
        ("run/args", json!(vec!["a"; 257]), Refused),
        ("run/args", json!(["a".repeat(16 * 1024 + 1)]), Refused),
        ("run/args", json!(["a", "a".repeat(16 * 1024)]), OnlyParsed), // bytes in all
        ("run/ports", json!(["8025:25", "127.0.0.1:8025:25", "[::1]:8025:25", "53:53/udp", "54:54/tcp"]), Taken),
        ("run/ports", json!(["25"]), Refused),
        ("run/ports", json!([25]), Refused),
        ("run/ports", json!(["+1:1"]), Refused),
        ("run/ports", json!(["1:1/sctp"]), Refused),
        ("run/ports", json!(["localhost:1:1"]), Refused),
        ("run/ports", json!(["::1:1:1"]), Refused),
        ("run/ports", json!(["1:1", "1:1"]), Refused),
        ("run/ports", json!(["1:1", "01:1"]), OnlyParsed), // the same in other words
        ("run/ports", json!(["1:1", "1:2"]), OnlyParsed), // one port of the host
        ("run/ports", json!(["0:1"]), OnlyParsed), // its value
        ("run/ports", json!(["1:65536"]), OnlyParsed),
        ("run/ports", json!(["300.1.1.1:1:1"]), OnlyParsed),
        ("run/ports", many_ports(256), Taken),
        ("run/ports", many_ports(257), Refused),
        ("run/volumes", json!(["data:/var/lib/data", "/srv/a b:/files:ro", "x:/y:rw"]), Taken),
        ("run/volumes", json!(["data"]), Refused),
        ("run/volumes", json!(["data:files"]), Refused),
        ("run/volumes", json!(["./data:/files"]), Refused),
        ("run/volumes", json!(["data:/files:rx"]), Refused),
        ("run/volumes", json!(["/a\u{0}:/b"]), Refused),
        ("run/volumes", json!(["a:/b", "a:/b"]), Refused),
        ("run/volumes", json!(["a:/b", "c:/b"]), OnlyParsed), // one place twice
        ("run/volumes", json!(["/a/../b:/c"]), OnlyParsed), // a part of it
        ("run/volumes", json!(["a:/run/mesh"]), OnlyParsed), // the mesh's own
        ("run/network", json!("host"), Taken),
        ("run/network", json!("bridge"), Taken),
        ("run/network", json!("none"), Refused),
        ("run/network", json!(false), Refused),
        ("run", json!({"image": "a", "network": "host", "ports": ["1:1"]}), OnlyParsed), // of each other
        ("run/pull_secret", json!("REGISTRY"), Taken),
        ("run/pull_secret", json!("registry"), Refused),
        ("run/pull_secret", json!(["REGISTRY"]), Refused),
    ]
}

/// What it may use at most.
#[rustfmt::skip] // one row, one line
fn limits() -> Rows {
    vec![
        ("run/resources", json!({}), Taken),
        ("run/resources", json!([]), Refused),
        ("run/resources", json!({"memory": "256MiB", "cpus": 0.5}), Taken),
        ("run/resources", json!({"memory": "6000kB"}), OnlyParsed), // too little
        ("run/resources", json!({"memory": "256m"}), Refused),
        ("run/resources", json!({"memory": 268_435_456}), Refused),
        ("run/resources", json!({"memory": "999999999GiB"}), Taken),
        ("run/resources", json!({"memory": "1000000000GiB"}), Refused),
        ("run/resources", json!({"cpus": 2}), Taken),
        ("run/resources", json!({"cpus": 0.001}), Taken),
        ("run/resources", json!({"cpus": 0.0009}), Refused),
        ("run/resources", json!({"cpus": 0}), Refused),
        ("run/resources", json!({"cpus": -1}), Refused),
        ("run/resources", json!({"cpus": 1024}), Taken),
        ("run/resources", json!({"cpus": 1025}), Refused),
        ("run/resources", json!({"cpus": "1"}), Refused),
        ("run/resources", json!({"cpu": 1}), Refused),
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
        ("seat/0/failover", json!(true), Taken),
        ("seat/0/failover", json!("true"), Refused),
        ("seat/0/failover", Value::Null, Refused),
        ("seat/0/grace", json!("30s"), Refused), // of what
        ("seat/0/grace", json!(false), Refused),
        ("seat", json!([{"name": "s", "failover": true, "grace": "0s"}]), Taken),
        ("seat", json!([{"name": "s", "failover": false, "grace": "90s"}]), Taken),
        ("seat", json!([{"name": "s", "failover": true, "grace": "90"}]), Refused),
        ("seat", json!([{"name": "s", "failover": true, "grace": 90}]), Refused),
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
        ("place/0/count", json!(1), Taken),
        ("place/0/count", json!(2), OnlyParsed), // more than it names
        ("place", json!([{"module": "a", "labels": {}, "count": 10_000}]), Taken),
        ("place/0/count", json!(10_001), Refused),
        ("place/0/count", json!(0), Refused),
        ("place/0/count", json!(-1), Refused),
        ("place/0/count", json!(1.5), Refused),
        ("place/0/count", json!("1"), Refused),
        ("place", json!([{"module": "a", "labels": {"role": "web"}, "count": 2}]), Taken),
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

pub(super) fn contained() -> Value {
    json!({"version": 1, "module": {"name": "a", "release": "1"}, "run": {"image": "a"}})
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

fn many_secrets(count: usize) -> Value {
    json!((0..count).map(|n| format!("N{n}")).collect::<Vec<_>>())
}

fn many_ports(count: usize) -> Value {
    json!((1..=count).map(|n| format!("{n}:80")).collect::<Vec<_>>())
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
