//! Texts no operator means: whatever stands in a file, the answer is an error of bounded length or a declaration.

use std::fs;
use std::path::Path;

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
        format!("{MODULE}secrets = [\"{long}\"]"),
        format!("{MODULE}health = {{ tcp = \"a:1\", every = \"{long}\" }}"),
        format!("{MODULE}health = {{ http = \"{long}\" }}"),
        MODULE.replace("command = [\"a\"]", &format!("image = \"{long}\"")),
        MODULE.replace("command = [\"a\"]", &format!("image = \"\\u001b{long}\"")),
        MODULE.replace(
            "command = [\"a\"]",
            &format!("image = \"a\"\nports = [\"{long}\"]\nvolumes = [\"{long}\", \"a:/{long}\"]"),
        ),
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
    assert_eq!(
        shown,
        ["mesh.toml:2:6: the file is not UTF-8 from here on; save it as UTF-8"]
    );
}

#[test]
fn a_directory_that_is_not_there_is_said_to_be_missing_once() {
    let dir = tempfile::tempdir().unwrap();
    let errors = load(&dir.path().join("none")).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].code, ErrorCode::Unreadable);
}

/// What is told of a directory with a mesh and these besides.
#[cfg(unix)]
fn told_of(make: impl Fn(&Path)) -> std::io::Result<Vec<String>> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("mesh.toml"), MESH)?;
    fs::create_dir(dir.path().join("modules"))?;
    make(&dir.path().join("modules"));
    let errors = load(dir.path()).err().unwrap_or_default();
    Ok(errors.iter().map(ToString::to_string).collect())
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_passed_over_and_not_waited_for() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    let told = told_of(|modules| {
        symlink("nowhere", modules.join("a.toml")).unwrap();
        fs::create_dir(modules.join("b.toml")).unwrap();
        symlink("/dev/zero", modules.join("c.yaml")).unwrap();
        fs::write(modules.join("d.TOML"), "").unwrap();
        fs::write(modules.join("e\u{1b}[31m.json"), "").unwrap();
        fs::write(modules.join(OsStr::from_bytes(b"f\xff.yml")), "").unwrap();
        let large = fs::File::create(modules.join("g.toml")).unwrap();
        large.set_len(8 * 1024 * 1024 + 1).unwrap();
        // None of ours.
        fs::write(modules.join("README.md"), "").unwrap();
        fs::write(modules.join(".h.toml.swp"), "").unwrap();
        fs::write(modules.join(".i.toml"), "").unwrap();
        fs::create_dir(modules.join("j")).unwrap();
    })
    .unwrap();
    assert_eq!(
        told,
        [
            "modules/a.toml: cannot be read: No such file or directory (os error 2); it is a link that leads nowhere",
            "modules/b.toml: this is a directory, and a file is wanted",
            "modules/c.yaml: this is no ordinary file; put the text itself here",
            "modules/d.TOML:1:1: the file is empty; begin it with version = 1",
            "modules/e\\u{1b}[31m.json:1:1: the file is empty; begin it with \"version\": 1",
            "modules/f\u{fffd}.yml: the file's name is not UTF-8; give it another",
            "modules/g.toml: the file has 8388609 bytes and may have at most 8388608",
        ]
    );
}

#[cfg(unix)]
#[test]
fn a_file_or_a_directory_that_may_not_be_read_says_so() {
    use std::os::unix::fs::PermissionsExt;

    let shut = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    let probe = tempfile::NamedTempFile::new().unwrap();
    shut(probe.path());
    // Nothing is shut to root.
    if fs::read(probe.path()).is_ok() {
        return;
    }
    let told = told_of(|modules| {
        fs::write(modules.join("a.toml"), MODULE).unwrap();
        shut(&modules.join("a.toml"));
    })
    .unwrap();
    let denied = "cannot be read: Permission denied (os error 13); let whoever runs this read it";
    assert_eq!(told, [format!("modules/a.toml: {denied}")]);
}

#[test]
fn where_the_directory_of_modules_would_be_a_file_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mesh.toml"), MESH).unwrap();
    fs::write(dir.path().join("modules"), "").unwrap();
    let errors = load(dir.path()).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "modules: cannot be read: Not a directory (os error 20)"
    );
}

/// Texts near to what is meant: lines of real files, cut, doubled and mixed.
fn near() -> impl Strategy<Value = String> {
    let lines: Vec<String> = concat!(
        include_str!("cases/full/mesh.toml"),
        include_str!("cases/full/modules/mailer.toml"),
        include_str!("cases/container.in.toml"),
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
