//! What is wrong with files, and the exact words, line and column in which it is told.
//!
//! `errors/NAME.txt` has a block a case: the file's name, its text behind `| `, then every error. `{MAILER}` stands for the
//! text below, `«x*9»` for nine of that, `\\` at the end of a text for no end of line. With `MESH_BLESS` in the environment
//! what is told becomes what is expected.

use std::fs;
use std::io;
use std::path::Path;

use mesh_files::{SourceFile, assemble};

const MESH: &str = "version = 1\n[mesh]\nname = \"home\"\n[[seat]]\nname = \"mail\"\n";
const SHOP: &str = r#"version = 1
[module]
name = "shop"
release = "1"
[run]
command = ["shop"]
[events]
emits = ["order.placed", "order.paid"]
"#;
/// Seven lines, the last of them in `[run]`.
const MAILER: &str = r#"version = 1
[module]
name = "mailer"
release = "1"
[run]
command = ["mailer"]
restart = "never"
"#;

fn told(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        })
        .collect();
    let errors = assemble(&files).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

/// The mesh and two modules, of which one is changed.
fn beside(path: &str, text: &str) -> Vec<String> {
    let mut files = vec![(path, text)];
    if !path.starts_with("mesh.") {
        files.push(("mesh.toml", MESH));
    }
    files.push(("modules/shop.toml", SHOP));
    told(&files)
}

/// One case: the file, its text as written in the table and as meant, and what is told.
#[derive(Debug)]
struct Case {
    head: String,
    written: Vec<String>,
    told: Vec<String>,
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("== ") {
            cases.push(Case {
                head: head.to_owned(),
                written: Vec::new(),
                told: Vec::new(),
            });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            continue;
        };
        match line.strip_prefix('|') {
            Some(written) => case
                .written
                .push(written.strip_prefix(' ').unwrap_or("").to_owned()),
            None => case.told.push(line.to_owned()),
        }
    }
    cases
}

/// A text as it is meant.
fn meant(written: &[String]) -> String {
    let mut text = String::new();
    for line in written {
        let base = [("{MAILER}", MAILER), ("{MESH}", MESH)];
        if let Some((_, base)) = base.into_iter().find(|(name, _)| name == line) {
            text.push_str(base);
            continue;
        }
        let (line, end) = match line.strip_suffix('\\') {
            Some(open) => (open, ""),
            None => (line.as_str(), "\n"),
        };
        text += &repeated(line)
            .replace("\\r", "\r")
            .replace("\\u{feff}", "\u{feff}")
            .replace("\\u{7}", "\u{7}")
            .replace("\\\\", "\\");
        text += end;
    }
    text
}

/// A line with everything that is written `«x*9»` in full.
fn repeated(line: &str) -> String {
    let mut parts = line.split(['«', '»']);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    while let (Some(many), Some(rest)) = (parts.next(), parts.next()) {
        let (what, count) = many.split_once('*').unwrap_or((many, "1"));
        let count: usize = count.parse().unwrap_or(1);
        whole += &match what {
            "names" => {
                let names = (0..count).map(|n| format!("\"n{n}\""));
                names.collect::<Vec<_>>().join(",")
            }
            what => what.repeat(count),
        };
        whole += rest;
    }
    whole
}

#[track_caller]
fn each(table: &str) -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = here.join(format!("tests/errors/{table}.txt"));
    let mut cases = cases(&fs::read_to_string(&path)?);
    assert!(!cases.is_empty());
    let (mut wrong, mut blessed) = (Vec::new(), Vec::new());
    for case in &mut cases {
        let told = beside(&case.head, &meant(&case.written));
        let written: Vec<String> = case
            .written
            .iter()
            .map(|line| format!("| {line}"))
            .collect();
        let head = [format!("== {}", case.head)];
        let block = [head.as_slice(), &written, &told].concat().join(
            "
",
        );
        if told != case.told {
            wrong.push(block.clone());
        }
        blessed.push(
            block
                + "
",
        );
    }
    if std::env::var_os("MESH_BLESS").is_some() {
        return fs::write(&path, blessed.join("\n"));
    }
    assert!(wrong.is_empty(), "told otherwise:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_file_that_cannot_be_read_as_what_its_name_says() {
    each("unreadable").unwrap();
}

#[test]
fn keys_and_values_that_nobody_reads() {
    each("shape").unwrap();
}

#[test]
fn names_that_are_none() {
    each("names").unwrap();
}

#[test]
fn values_that_are_too_long_or_that_no_process_can_be_handed() {
    each("sizes").unwrap();
}

#[test]
fn what_a_container_is_given_and_how_health_is_asked_for() {
    each("containers").unwrap();
}

#[test]
fn files_that_contradict_one_another() {
    each("contradictions").unwrap();
}

#[test]
fn several_errors_are_all_told_at_once_in_every_notation() {
    each("several").unwrap();
}

#[test]
fn a_mark_of_byte_order_and_other_ends_of_lines_move_no_column() {
    each("bytes").unwrap();
}

#[test]
fn more_than_one_file_is_told_of_where_one_would_be_changed() {
    let circle = SHOP.replace("[events]", "after = [\"mailer\"]\n[events]");
    let mailer = format!("{MAILER}after = [\"shop\"]\n");
    let files = [
        ("mesh.toml", MESH),
        ("modules/m.toml", mailer.as_str()),
        ("modules/shop.toml", circle.as_str()),
    ];
    assert_eq!(
        told(&files),
        [
            "modules/m.toml:8:10: after goes round, so none of these ever starts: mailer → shop → mailer; take one of these out of the after of the one before it"
        ]
    );
    let files = [
        ("mesh.toml", MESH),
        (
            "mesh.json",
            "{\"version\": 1, \"mesh\": {\"name\": \"home\"}}",
        ),
    ];
    assert_eq!(
        told(&files),
        ["mesh.json:1:1: mesh.toml is there too; keep one of them"]
    );
    assert_eq!(
        told(&[("modules/shop.toml", SHOP)]),
        [
            r#"mesh.toml: there is no such file; it names the mesh: version = 1, [mesh], name = "home""#
        ]
    );
}

#[test]
fn the_file_is_named_as_it_is_called_and_an_event_called_like_one_keeps_its_name() {
    let mesh = "version: 1\nmesh:\n  name: home\n";
    let module = format!(
        "{MAILER}[events]\nfollows = [\"shop.mesh.toml\"]\n[seats]\ncan_hold = [\"audit\"]\n"
    );
    let files = [
        ("mesh.yaml", mesh),
        ("modules/shop.toml", SHOP),
        ("modules/mailer.toml", &module),
    ];
    let [follows, holds] = &told(&files)[..] else {
        panic!("{:?}", told(&files));
    };
    assert!(
        follows.contains("follows shop.mesh.toml, which"),
        "{follows}"
    );
    assert!(holds.ends_with("name \"audit\" to mesh.yaml"), "{holds}");
}
