//! Texts no operator means: whatever stands in a file, the answer is an error of bounded length or a declaration.

use std::fs;

use mesh_files::{ErrorCode, FileError, SourceFile, assemble, load};
use proptest::prelude::*;

const MESH: &str = "version = 1\n[mesh]\nname = \"home\"\n";
const MODULE: &str =
    "version = 1\n[module]\nname = \"a\"\nrelease = \"1\"\n[run]\ncommand = [\"a\"]\n";

/// A module's text beside a bare mesh.
fn errors(text: impl Into<String>) -> Vec<FileError> {
    let file = |path: &str, text: String| SourceFile {
        path: path.to_owned(),
        text,
    };
    let files = [
        file("mesh.toml", MESH.to_owned()),
        file("modules/a.toml", text.into()),
    ];
    assemble(&files).err().unwrap_or_default()
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    assert_eq!(errors(format!("\u{feff}{MODULE}")), []);
}

#[test]
fn a_nul_is_refused_where_it_stands_or_where_it_is_meant() {
    let raw = errors(format!("{MODULE}\0"));
    assert_eq!(raw[0].code, ErrorCode::Syntax);
    assert_eq!(raw[0].position.map(|at| at.line), Some(7));
    let escaped = errors(MODULE.replace("[\"a\"]", r#"["a", "\u0000"]"#));
    assert_eq!(escaped[0].code, ErrorCode::Contradiction);
    assert!(escaped[0].message.contains("NUL"), "{}", escaped[0]);
}

#[test]
fn a_line_of_a_megabyte_is_answered_in_one_short_line() {
    let long = "a".repeat(1_000_000);
    for text in [
        long.clone(),
        format!("version = {long}"),
        format!("version = {}", "1".repeat(1_000_000)),
        format!("{MODULE}{long} = 1"),
        format!("{MODULE}\"{long}\" = 1"),
        format!("{MODULE}restart = \"{long}\""),
        format!("{MODULE}after = \"{long}\""),
        format!("{MODULE}after = [\"{long}\"]"),
        format!("{MODULE}after = [{}]", "\"A\",".repeat(200_000)),
        format!("{MODULE}env = {{ \"MESH_{long}\" = \"\" }}"),
        format!("{MODULE}{}b = 1", "a.".repeat(500_000)),
        format!("{MODULE}after = {}", "[".repeat(1_000_000)),
        format!("{MODULE}after = {}", "{a=".repeat(300_000)),
        format!("{MODULE}[{}]", "a.".repeat(500_000)),
        MODULE.replace("\"a\"\nrelease", &format!("\"{long}\"\nrelease")),
        MODULE.replace("\"1\"", &format!("{long:?}\n[{long}]")),
        format!("{MODULE}[events]\nfollows = [\"{long}\", \"{long}.a\", \"b.{long}\"]"),
        format!(
            "{MODULE}[events]\nfollows = [{}]",
            (0..50_000).fold(String::new(), |all, i| format!("{all}\"b.c{i}\","))
        ),
    ] {
        let errors = errors(text.as_str());
        assert!(
            !errors.is_empty() && errors.len() <= 100,
            "{} errors",
            errors.len()
        );
        for error in errors {
            let shown = error.to_string();
            assert!(shown.chars().count() < 600, "{} characters", shown.len());
            assert!(!shown.chars().any(char::is_control), "{shown}");
        }
    }
}

#[test]
fn a_file_that_is_no_text_is_refused_with_the_place_where_it_stops_being_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mesh.toml"), b"version = 1\nn = \"\xff\"\n").unwrap();
    let errors = load(dir.path()).unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["mesh.toml:2:6: the file is not UTF-8 from here on"]);
}

#[test]
fn a_directory_that_is_not_there_is_said_to_be_missing_once() {
    let dir = tempfile::tempdir().unwrap();
    let errors = load(&dir.path().join("none")).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].code, ErrorCode::Unreadable);
}

#[cfg(unix)]
#[test]
fn a_manifest_that_leads_nowhere_is_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mesh.toml"), MESH).unwrap();
    fs::create_dir(dir.path().join("modules")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("modules/a.toml")).unwrap();
    let errors = load(dir.path()).unwrap_err();
    assert_eq!(
        (errors.len(), errors[0].file.as_str()),
        (1, "modules/a.toml")
    );
    assert_eq!(errors[0].code, ErrorCode::Unreadable);
}

/// Texts near to what is meant: lines of real files, cut, doubled and mixed.
fn near() -> impl Strategy<Value = String> {
    let lines: Vec<String> = concat!(
        include_str!("cases/full/mesh.toml"),
        include_str!("cases/full/modules/mailer.toml"),
        include_str!("cases/not-carried-out.in.toml"),
        include_str!("cases/every-bad-name.in.toml"),
    )
    .lines()
    .map(str::to_owned)
    .collect();
    let line = prop_oneof![
        8 => prop::sample::select(lines),
        1 => "[a-z\\[\\]\"'={}.,# é\\\\0-9]{0,20}",
    ];
    prop::collection::vec(line, 0..25)
        .prop_map(|lines| format!("version = 1\n{}", lines.join("\n")))
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), near in near()) {
        for text in [text, near] {
            for path in ["mesh.toml", "modules/a.toml"] {
                let file = SourceFile { path: path.to_owned(), text: text.clone() };
                for error in assemble(std::slice::from_ref(&file)).err().unwrap_or_default() {
                    prop_assert!(!error.message.is_empty());
                }
            }
        }
    }

    #[test]
    fn the_order_of_files_does_not_change_what_they_declare(texts in prop::collection::vec(near(), 0..4)) {
        let mut files = vec![SourceFile { path: "mesh.toml".to_owned(), text: MESH.to_owned() }];
        files.push(SourceFile { path: "modules/a.toml".to_owned(), text: MODULE.to_owned() });
        files.extend(texts.into_iter().enumerate().map(|(at, text)| SourceFile {
            path: format!("modules/x{at}.toml"),
            text,
        }));
        let forth = assemble(&files);
        files.reverse();
        let back = assemble(&files);
        prop_assert_eq!(forth.is_ok(), back.is_ok());
        if forth.is_ok() {
            prop_assert_eq!(forth, back);
        }
    }
}
