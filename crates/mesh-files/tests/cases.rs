//! Files as operators write them, each beside what is answered.
//!
//! `cases/NAME.in.toml` is a module's file beside a bare `mesh.toml`; named `mesh-…` it is the `mesh.toml`, alone;
//! a folder `cases/NAME` is a directory as an operator has it. Either may be in another notation: `NAME.in.yaml`.
//! `cases/NAME.out.txt` is the answer. With `MESH_BLESS` in the environment what is answered becomes what is expected.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mesh_files::{FileError, SourceFile, assemble, load};
use mesh_model::Declared;

#[test]
fn every_case_is_answered_as_written_beside_it() {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(cases()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.split_once(".in.").or_else(|| name.split_once(".out."));
        names.insert(stem.map_or(name.as_str(), |(stem, _)| stem).to_owned());
    }
    assert!(names.len() > 45, "only {} cases", names.len());

    let mut wrong = Vec::new();
    for name in names {
        let answer = answer(&name).unwrap();
        if std::env::var_os("MESH_BLESS").is_some() {
            fs::write(cases().join(format!("{name}.out.txt")), &answer).unwrap();
        }
        let expected = fs::read_to_string(cases().join(format!("{name}.out.txt")));
        if expected.as_ref().ok() != Some(&answer) {
            wrong.push(format!(
                "--- {name}: {expected:?}, but the answer is\n{answer}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_no_directory_is_named_as_it_was_given() {
    for (given, why) in [
        (
            "nope",
            "there is no such directory; give the one that mesh.toml is in",
        ),
        (
            "full/mesh.toml",
            "this is a file; give the directory that mesh.toml is in",
        ),
    ] {
        let dir = cases().join(given);
        let errors = load(&dir).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(told, [format!("{}: {why}", dir.display())]);
    }
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn answer(name: &str) -> io::Result<String> {
    let folder = cases().join(name);
    if folder.is_dir() {
        return Ok(shown(load(&folder)));
    }
    let ending = ["toml", "json", "yaml", "yml"]
        .into_iter()
        .find(|ending| cases().join(format!("{name}.in.{ending}")).exists());
    let ending = ending.unwrap_or("toml");
    let text = fs::read_to_string(cases().join(format!("{name}.in.{ending}")))?;
    let file = |path: &str, text: &str| SourceFile {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let files = if name.starts_with("mesh-") {
        vec![file(&format!("mesh.{ending}"), &text)]
    } else {
        let mesh = "version = 1\n[mesh]\nname = \"home\"\n";
        vec![
            file("mesh.toml", mesh),
            file(&format!("modules/mailer.{ending}"), &text),
        ]
    };
    Ok(shown(assemble(&files)))
}

/// The declaration, or a line for each error: its code, then what is shown.
fn shown(answer: Result<Declared, Vec<FileError>>) -> String {
    let mut text = String::new();
    let written = match answer {
        Ok(declared) => writeln!(text, "{declared:#?}"),
        Err(errors) => errors
            .iter()
            .try_for_each(|error| writeln!(text, "{} {error}", error.code)),
    };
    assert!(written.is_ok(), "a string can be written to");
    text
}
