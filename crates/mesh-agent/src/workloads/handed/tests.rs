//! Files come whole, with the mode their reader needs, and go with what they were for.

use std::os::unix::fs::MetadataExt;

use super::*;

fn bytes(text: &str) -> SecretBytes {
    SecretBytes::new(text.as_bytes().to_vec())
}

fn files(creds: &str, secrets: &[(&str, &str)]) -> Files {
    let secret = |(name, value): &(&str, &str)| (name.parse().unwrap(), bytes(value));
    Files {
        creds: bytes(creds),
        ca: Some(bytes("certificate")),
        secrets: secrets.iter().map(secret).collect(),
    }
}

fn mailer() -> ModuleName {
    "mailer".parse().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn declared_as(modules: &[(&str, &[&str])]) -> Declared {
    let named = |(module, secrets): &(&str, &[&str])| {
        let secrets = secrets.iter().map(|name| (*name).to_owned());
        ((*module).to_owned(), secrets.collect())
    };
    modules.iter().map(named).collect()
}

#[test]
fn who_reads_a_file_decides_its_mode_and_the_directory_above_keeps_others_out() {
    let state = tempfile::tempdir().unwrap();
    let handed = HandedFiles::of_state(state.path());
    let files = files("seed", &[("TOKEN", "hunter2")]);
    for (reader, dir, file) in [
        (Reader::Process, 0o700, 0o600),
        (Reader::Container, 0o755, 0o444),
        (Reader::Process, 0o700, 0o600),
    ] {
        handed.place(&mailer(), &files, reader).unwrap();
        let of = handed.of(&mailer());
        assert_eq!(mode(of.parent().unwrap()), 0o700);
        assert_eq!((mode(&of), mode(&of.join("secrets"))), (dir, dir));
        for (name, text) in [
            ("creds", "seed"),
            ("ca.pem", "certificate"),
            ("secrets/TOKEN", "hunter2"),
        ] {
            let path = of.join(name);
            assert_eq!(mode(&path), file, "{name} for {reader:?}");
            assert_eq!(fs::read_to_string(path).unwrap(), text);
        }
    }
}

#[test]
fn what_is_as_it_should_be_is_not_written_and_what_is_not_is_replaced_whole() {
    let state = tempfile::tempdir().unwrap();
    let handed = HandedFiles::of_state(state.path());
    let place = |creds: &str, value: &str| {
        let files = files(creds, &[("TOKEN", value)]);
        handed.place(&mailer(), &files, Reader::Process).unwrap();
    };
    let inode = |name: &str| fs::metadata(handed.of(&mailer()).join(name)).unwrap().ino();
    place("one", "a");
    let all = ["creds", "ca.pem", "secrets/TOKEN", "secrets", ""];
    let before = all.map(inode);
    place("one", "a");
    assert_eq!(all.map(inode), before);
    let open = fs::File::open(handed.of(&mailer()).join("creds")).unwrap();
    place("two", "b");
    let after = all.map(inode);
    // Who has the old one open reads the old one; a directory that is mounted stays the same one.
    assert_eq!(io::read_to_string(open).unwrap(), "one");
    assert_ne!((before[0], before[2]), (after[0], after[2]));
    assert_eq!(before[3..], after[3..]);
}

#[test]
fn files_go_with_the_module_and_the_secret_they_were_for() {
    let state = tempfile::tempdir().unwrap();
    let handed = HandedFiles::of_state(state.path());
    let files = files("seed", &[("A", "a"), ("B", "b")]);
    let other: ModuleName = "other".parse().unwrap();
    for module in [&mailer(), &other] {
        handed.place(module, &files, Reader::Process).unwrap();
    }
    let of = handed.of(&mailer());
    // As an agent that was killed while it wrote leaves it.
    fs::write(of.join(".creds.0011"), "half of a secr").unwrap();
    fs::write(of.join("secrets/.A.0011"), "half").unwrap();
    handed
        .keep_only(&declared_as(&[("mailer", &["B"])]))
        .unwrap();
    assert!(!handed.of(&other).exists());
    assert_eq!(names(&of.join("secrets")).unwrap(), ["B"]);
    let mut left = names(&of).unwrap();
    left.sort();
    assert_eq!(left, ["ca.pem", "creds", "secrets"]);
    handed.keep_only(&declared_as(&[("mailer", &[])])).unwrap();
    assert!(!of.join("secrets").exists() && of.join("creds").exists());
    handed.keep_only(&declared_as(&[])).unwrap();
    assert!(!of.exists());
}

#[test]
fn what_an_earlier_release_told_a_module_leads_to_what_it_is_handed_now() {
    let state = tempfile::tempdir().unwrap();
    let handed = HandedFiles::of_state(state.path());
    let earlier = state.path().join("credentials");
    fs::create_dir(&earlier).unwrap();
    let told = earlier.join("mailer.creds");
    let gone = earlier.join("gone.creds");
    for path in [&told, &gone] {
        fs::write(path, "old seed").unwrap();
    }
    let place = |creds: &str| {
        let files = files(creds, &[]);
        handed.place(&mailer(), &files, Reader::Process).unwrap();
        handed.keep_only(&declared_as(&[("mailer", &[])])).unwrap();
        fs::read_to_string(&told).unwrap()
    };
    assert_eq!(place("old seed"), "old seed");
    assert_eq!(place("new seed"), "new seed");
    assert!(!gone.exists());
    // The SDK of an earlier release reads it so.
    assert_eq!(
        mesh_auth::keyfile::read_secret(&told).unwrap().expose(),
        "new seed"
    );
    handed.keep_only(&declared_as(&[])).unwrap();
    assert!(!earlier.exists());
    // A module that was never started by that release has no such file.
    place_new(&handed);
    assert!(!earlier.exists());
}

fn place_new(handed: &HandedFiles) {
    let files = files("seed", &[]);
    handed.place(&mailer(), &files, Reader::Process).unwrap();
    handed.keep_only(&declared_as(&[("mailer", &[])])).unwrap();
}
