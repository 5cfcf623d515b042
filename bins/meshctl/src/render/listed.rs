//! What a file lists by principal, read so that no error shows anything that stands in it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use mesh_auth::keyfile::{KeyFileError, read_secrets};
use mesh_derive::render::rabbitmq::PasswordHash;
use mesh_model::{Principal, PublicKey};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::password;

/// What is listed of a principal.
pub(super) trait Listed: Sized {
    /// A line as it has to be.
    const LINE: &str;

    /// What a value says, or which part of it is not as it has to be.
    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Wrong>;
}

/// A part of a file that is not as it has to be.
pub(super) struct Wrong {
    at: Range<usize>,
    /// What is wrong with it and what to write; nothing when it is no line of this kind.
    what: Option<String>,
}

impl From<Range<usize>> for Wrong {
    fn from(at: Range<usize>) -> Self {
        Self { at, what: None }
    }
}

impl Listed for PublicKey {
    const LINE: &str = "\"node/N\" = \"U…\", a public key of 56 characters";

    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Wrong> {
        let key = value.get_ref().as_str();
        key.and_then(|key| Self::new(key).ok())
            .ok_or_else(|| value.span().into())
    }
}

impl Listed for PasswordHash {
    const LINE: &str = "\"node/N\" = { password = \"…\", salt = \"8 hex digits\" }";

    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Wrong> {
        let whole = value.span();
        let table = value.get_ref().as_table().ok_or_else(|| whole.clone())?;
        let known = |key: &str| matches!(key, "password" | "salt");
        if let Some(other) = table.keys().find(|key| !known(key.get_ref())) {
            return Err(other.span().into());
        }
        let text = |key| -> Result<(&str, Range<usize>), Range<usize>> {
            let value = table.get(key).ok_or_else(|| whole.clone())?;
            let text = value.get_ref().as_str().ok_or_else(|| value.span())?;
            Ok((text, value.span()))
        };
        let (secret, secret_at) = text("password")?;
        let (salt, salt_at) = text("salt")?;
        let wrong = |at: Range<usize>| {
            |what| Wrong {
                at,
                what: Some(what),
            }
        };
        let salt = password::salt(salt).map_err(wrong(salt_at))?;
        password::hash(secret, salt).map_err(wrong(secret_at))
    }
}

/// The public keys a file lists; nothing without one.
pub(super) fn keys(file: Option<&Path>) -> anyhow::Result<BTreeMap<Principal, PublicKey>> {
    let Some(file) = file else {
        return Ok(BTreeMap::new());
    };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let listed = listed::<PublicKey>(file, &text)?;
    let mut owners: BTreeMap<&PublicKey, &Principal> = BTreeMap::new();
    for (principal, (key, (line, column))) in &listed {
        if let Some(owner) = owners.insert(key, principal) {
            bail!(
                "{}:{line}:{column}: {principal} has the key of {owner}: each has one of its own; make another",
                file.display()
            );
        }
    }
    Ok(unplaced(listed))
}

/// What a broker keeps of the passwords in a file that is its owner's alone; nothing without one.
pub(super) fn passwords(file: Option<&Path>) -> anyhow::Result<BTreeMap<Principal, PasswordHash>> {
    let Some(file) = file else {
        return Ok(BTreeMap::new());
    };
    let text = read_secrets(file, LARGEST).map_err(of_passwords)?;
    Ok(unplaced(listed(file, text.expose())?))
}

/// Why a file of passwords is not read, which is said otherwise of one that holds a key.
fn of_passwords(error: KeyFileError) -> anyhow::Error {
    match error {
        KeyFileError::Exposed { path, mode } => {
            let path = path.display();
            anyhow!(
                "{path} can be reached by others (mode {mode:04o}); run `chmod 600 {path}`, and replace the passwords in it \
                 if others use this machine"
            )
        }
        KeyFileError::NotAFile { path } => anyhow!(
            "{} is no regular file, so no passwords are read from it",
            path.display()
        ),
        KeyFileError::TooLarge { path, limit } => anyhow!(
            "{} is larger than {limit} bytes; a file of passwords is not",
            path.display()
        ),
        KeyFileError::NotText { path } => anyhow!(
            "{} holds bytes that are no text; save it as UTF-8",
            path.display()
        ),
        error => error.into(),
    }
}

/// What is listed, each with the line and the column it stands at.
type Placed<T> = BTreeMap<Principal, (T, (usize, usize))>;

fn unplaced<T>(listed: Placed<T>) -> BTreeMap<Principal, T> {
    let listed = listed.into_iter();
    listed.map(|(whose, (what, _))| (whose, what)).collect()
}

fn listed<T: Listed>(file: &Path, text: &str) -> anyhow::Result<Placed<T>> {
    let at_place = |at: Range<usize>, what: &str| {
        let (line, column) = place(text, at.start);
        anyhow!("{}:{line}:{column}: {what}", file.display())
    };
    // What a reader of TOML says may quote what it read.
    let wrong = |at: Range<usize>, what: &str| {
        let line = T::LINE;
        at_place(
            at,
            &format!("{what}; write one line for each principal: {line}"),
        )
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().unwrap_or_default(), "this is not TOML"))?;
    let mut listed = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let principal: Principal = key
            .get_ref()
            .parse()
            .map_err(|_| wrong(key.span(), "the name is no principal's"))?;
        let said = T::of(value).map_err(|Wrong { at, what }| match what {
            Some(what) => at_place(at, &format!("{principal}: {what}")),
            None => wrong(at, "this is not what belongs here"),
        })?;
        listed.insert(principal, (said, place(text, value.span().start)));
    }
    Ok(listed)
}

/// The line and the column of a byte, as an editor counts them.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.split('\n').count(), line.chars().count() + 1)
}

/// Bytes of a file of passwords: those of tens of thousands of principals.
const LARGEST: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        file
    }

    const GOOD: &str = "\"node/a\" = { password = \"swordfish-swordfish-swordfish-swordfish\", salt = \"00000000\" }";

    #[test]
    fn a_file_that_is_not_understood_is_named_with_the_place_and_no_secret() {
        for (text, at) in [
            (
                "\"node/a\" = { password = \"swordfish\", salt = 1 }",
                "1:45",
            ),
            (
                "\"node/a\" = { password = 271828, salt = \"00000000\" }",
                "1:25",
            ),
            ("\"node/a\" = { password = \"swordfish\" }", "1:12"),
            (
                "\n\"node/A\" = { password = \"swordfish\", salt = \"00000000\" }",
                "2:1",
            ),
            (
                "\"swordfish\" = { password = \"node/a\", salt = \"00000000\" }",
                "1:1",
            ),
            (
                "\"node/a\" = { password = \"swordfish\", salt = \"00000000\", swordfish = 1 }",
                "1:57",
            ),
            ("\"node/a\" = { password = \"swordfish", "1:"),
            ("\"node/a\" = swordfish", "1:"),
            ("\"node/a\" = \"swordfish-swordfish\"", "1:12"),
            ("\"node/a\" = 271828", "1:12"),
            ("\"node/a\" = 2.71828", "1:12"),
            ("\"node/a\" = [\"swordfish\", \"00000000\"]", "1:12"),
            (
                "\"node/a\" = [{ password = \"swordfish\", salt = \"00000000\" }]",
                "1:12",
            ),
        ] {
            let file = file(text, 0o600);
            let read = passwords(Some(file.path())).map(|read| read.len());
            let said = format!("{:#}", read.unwrap_err());
            let place = format!("{}:{at}", file.path().display());
            assert!(said.starts_with(&place), "{text}: {said}");
            assert!(said.contains("{ password = \"…\", salt = "), "{said}");
            for secret in ["swordfish", "71828"] {
                assert!(!said.contains(secret), "{text}: {said}");
            }
        }
        let file = file(GOOD, 0o600);
        assert_eq!(passwords(Some(file.path())).unwrap().len(), 1);
    }

    #[test]
    fn a_file_of_secrets_in_the_place_of_one_of_keys_shows_none() {
        for text in [GOOD, "\"node/a\" = \"SUswordfish\"", "\"SUswordfish\" = 1"] {
            let file = file(text, 0o600);
            let said = format!("{:#}", keys(Some(file.path())).unwrap_err());
            assert!(said.contains("a public key"), "{said}");
            assert!(!said.contains("swordfish"), "{text}: {said}");
        }
        let key = PublicKey::from_raw([7; 32]);
        let file = file(&format!("\"node/a\" = \"{key}\""), 0o644);
        assert_eq!(
            keys(Some(file.path())).unwrap().into_values().next(),
            Some(key)
        );
    }

    #[test]
    fn a_file_of_passwords_that_others_can_reach_is_refused_with_what_to_run() {
        for mode in [0o640, 0o604, 0o620, 0o644] {
            let file = file(GOOD, mode);
            let read = passwords(Some(file.path())).map(|read| read.len());
            let said = format!("{:#}", read.unwrap_err());
            let run = format!(
                "run `chmod 600 {}`, and replace the passwords",
                file.path().display()
            );
            assert!(said.contains(&run), "{said}");
            assert!(!said.contains("key"), "{said}");
        }
    }

    #[test]
    fn a_salt_or_a_password_that_will_not_do_is_named_with_its_place_and_whose_it_is() {
        for (from, to, expected) in [
            (
                "00000000",
                "0000000",
                "1:75: node/a: salt is not four bytes",
            ),
            (
                "swordfish-swordfish-",
                "",
                "1:25: node/a: password has 19 characters",
            ),
        ] {
            let file = file(&GOOD.replace(from, to), 0o600);
            let read = passwords(Some(file.path())).map(|read| read.len());
            let said = format!("{:#}", read.unwrap_err());
            let expected = format!("{}:{expected}", file.path().display());
            assert!(said.starts_with(&expected), "{said}");
            assert!(!said.contains("swordfish"), "{said}");
        }
    }

    #[test]
    fn a_key_that_two_have_is_named_with_both() {
        let key = PublicKey::from_raw([7; 32]);
        let file = file(
            &format!("\"node/b\" = \"{key}\"\n\"node/a\" = \"{key}\""),
            0o644,
        );
        let said = format!("{:#}", keys(Some(file.path())).unwrap_err());
        let expected = format!(
            "{}:1:12: node/b has the key of node/a",
            file.path().display()
        );
        assert!(said.starts_with(&expected), "{said}");
    }
}
