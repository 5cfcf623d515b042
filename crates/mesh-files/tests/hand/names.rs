//! Names and kinds that are refused where they stand, with line and column, before anything is asked of anybody.

use std::fs;

use mesh_files::{ErrorCode, FileError, Position, load};

const MESH: &str = "version = 1\n[mesh]\nname = \"home\"\n";
const MODULE: &str =
    "version = 1\n[module]\nname = \"m\"\nrelease = \"1\"\n[run]\ncommand = [\"m\"]\n";

/// What a directory of these files is refused for.
fn errors(files: &[(&str, &str)]) -> Vec<FileError> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("modules")).unwrap();
    for (path, text) in files {
        fs::write(dir.path().join(path), text).unwrap();
    }
    load(dir.path()).err().unwrap_or_default()
}

/// The names it is refused for: file, line, column, and the sentence.
fn refused(files: &[(&str, &str)]) -> Vec<(String, Position, String)> {
    let named = errors(files).into_iter().map(|error| {
        assert_eq!(error.code, ErrorCode::InvalidName, "{error}");
        let file = error
            .file
            .rsplit_once('/')
            .map_or(&*error.file, |(_, file)| file);
        (file.to_owned(), error.position.unwrap(), error.message)
    });
    named.collect()
}

fn at(line: usize, column: usize) -> Position {
    Position { line, column }
}

/// The one thing that is wrong.
fn only(files: &[(&str, &str)], file: &str, position: Position, says: &[&str]) {
    let found = refused(files);
    let [(in_file, stands, message)] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!((in_file.as_str(), *stands), (file, position), "{message}");
    for part in says {
        assert!(message.contains(part), "{message}");
    }
}

/// A node whose name has a dot: its consumer's name has one too, and all one hears is a timeout.
/// <https://github.com/nats-io/nats.py/issues/641>
#[test]
fn case_b_54fcf40_a_node_with_a_dot_is_refused_where_it_is_placed() {
    let mesh = format!("{MESH}[[place]]\nmodule = \"m\"\nnodes = [\"ok\", \"web.01\"]\n");
    let files = [("mesh.toml", mesh.as_str()), ("modules/m.toml", MODULE)];
    let says = ["node name \"web.01\"", "'.' at byte 3"];
    only(&files, "mesh.toml", at(6, 16), &says);
}

/// A queue group's name becomes the durable's, so a dot in it breaks both.
/// <https://github.com/nats-io/nats.c/issues/473>
#[test]
fn case_b_9997c79_a_seat_with_a_dot_is_refused_wherever_a_group_could_be_named_by_it() {
    let mesh = format!("{MESH}[[seat]]\nname = \"billing.eu\"\n");
    let files = [("mesh.toml", mesh.as_str())];
    only(
        &files,
        "mesh.toml",
        at(5, 8),
        &["seat name \"billing.eu\"", "'.' at byte 7"],
    );
    let module = format!("{MODULE}[seats]\ncan_hold = [\"billing.eu\"]\n");
    let files = [("mesh.toml", MESH), ("modules/m.toml", module.as_str())];
    only(
        &files,
        "m.toml",
        at(8, 13),
        &["\"can_hold\" in [seats]", "'.' at byte 7"],
    );
}

/// A stream whose name has a dot gives a timeout instead of an error.
/// <https://github.com/mmmries/jetstream/issues/38>
#[test]
fn case_b_eb24f57_a_module_with_a_dot_is_refused_by_field_before_any_network() {
    let module = MODULE.replace("name = \"m\"", "name = \"stream.test\"");
    let files = [("mesh.toml", MESH), ("modules/m.toml", module.as_str())];
    let says = [
        "\"name\" in [module]",
        "module name \"stream.test\"",
        "'.' at byte 6",
    ];
    only(&files, "m.toml", at(3, 8), &says);
}

/// Two nodes become one consumer because a dot was made a dash.
/// <https://github.com/timeplus-io/proton/pull/1131>
#[test]
fn case_b_c67f78f_of_two_spellings_one_is_refused_and_neither_becomes_the_other() {
    let mesh = format!("{MESH}[[place]]\nmodule = \"m\"\nnodes = [\"web-01\", \"web.01\"]\n");
    let files = [("mesh.toml", mesh.as_str()), ("modules/m.toml", MODULE)];
    only(&files, "mesh.toml", at(6, 20), &["node name \"web.01\""]);
}

/// Hashed and encoded names grew beyond what a server takes, in bytes that were counted as characters.
/// <https://github.com/kyma-project/kyma/issues/13546>
#[test]
fn case_b_9851cbc_a_name_that_is_too_long_is_refused_with_its_length() {
    let module = MODULE.replace("name = \"m\"", &format!("name = \"{}\"", "a".repeat(200)));
    let files = [("mesh.toml", MESH), ("modules/m.toml", module.as_str())];
    only(
        &files,
        "m.toml",
        at(3, 8),
        &["at most 63 bytes, this one has 200"],
    );
}

/// Streams that differ by case alone are one folder on some disks, and some names can be no folder.
/// <https://github.com/nats-io/nats.docs/pull/261>
#[test]
fn case_b_224e2fc_a_module_in_upper_case_or_called_like_a_device_is_refused() {
    for (name, says) in [
        ("Foo", "'F' at byte 0"),
        ("NUL", "'N' at byte 0"),
        ("nul", "keep the name for a device"),
        ("com1", "keep the name for a device"),
    ] {
        let module = MODULE.replace("name = \"m\"", &format!("name = \"{name}\""));
        let files = [("mesh.toml", MESH), ("modules/m.toml", module.as_str())];
        only(&files, "m.toml", at(3, 8), &[says]);
    }
}

/// An event is written with a slash, or with a dot that matches anything in a pattern.
/// <https://github.com/rabbitmq/rabbitmq-server/issues/2370>
#[test]
fn case_b_ecdb1db_an_event_with_a_slash_is_refused() {
    let module = format!("{MODULE}[events]\nemits = [\"orders.eu\", \"orders/eu\"]\n");
    let files = [("mesh.toml", MESH), ("modules/m.toml", module.as_str())];
    only(
        &files,
        "m.toml",
        at(8, 23),
        &["\"emits\" in [events]", "'/' at byte 6"],
    );
}

/// A runtime that is not there: the workload stays "pending" for ever, without an error.
/// <https://github.com/eclipse-ankaios/ankaios/issues/401>
#[test]
fn case_c_05e272a_a_kind_of_run_that_there_is_not_is_refused_when_it_is_applied() {
    for run in ["wasm = \"m.wasm\"", "podman = [\"m\"]"] {
        let module = MODULE.replace("command = [\"m\"]", run);
        let found = errors(&[("mesh.toml", MESH), ("modules/m.toml", module.as_str())]);
        let unknown = found
            .iter()
            .find(|error| error.code == ErrorCode::UnknownKey);
        let unknown = unknown.unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(unknown.position, Some(at(6, 1)), "{unknown}");
    }
}

/// Two rules place one workload, and it is moved to and fro for ever.
/// <https://github.com/wasmCloud/wadm/issues/432>
#[test]
fn case_c_8e65308_a_module_placed_twice_is_refused() {
    let place = "[[place]]\nmodule = \"m\"\nnodes = [\"a\"]\n";
    let mesh = format!("{MESH}{place}{place}");
    let found = errors(&[("mesh.toml", mesh.as_str()), ("modules/m.toml", MODULE)]);
    let [error] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(error.code, ErrorCode::Duplicate, "{error}");
    assert_eq!(error.position.map(|at| at.line), Some(8), "{error}");
}
