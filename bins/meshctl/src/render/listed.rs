//! What a file lists by principal, read so that no error shows anything that stands in it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use mesh_auth::keyfile::read_secrets;
use mesh_model::{Principal, PublicKey};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::password::Password;

/// What is listed of a principal.
pub(super) trait Listed: Sized {
    /// A line as it has to be.
    const LINE: &str;

    /// What a value says, or which part of it is not as it has to be.
    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Range<usize>>;
}

impl Listed for PublicKey {
    const LINE: &str = "\"node/N\" = \"U…\", a public key of 56 characters";

    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Range<usize>> {
        let key = value.get_ref().as_str();
        key.and_then(|key| Self::new(key).ok())
            .ok_or_else(|| value.span())
    }
}

impl Listed for Password {
    const LINE: &str = "\"node/N\" = { password = \"…\", salt = \"8 hex digits\" }";

    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Range<usize>> {
        let whole = value.span();
        let table = value.get_ref().as_table().ok_or_else(|| whole.clone())?;
        let known = |key: &str| matches!(key, "password" | "salt");
        if let Some(other) = table.keys().find(|key| !known(key.get_ref())) {
            return Err(other.span());
        }
        let text = |key| -> Result<String, Range<usize>> {
            let value = table.get(key).ok_or_else(|| whole.clone())?;
            let text = value.get_ref().as_str().ok_or_else(|| value.span())?;
            Ok(text.to_owned())
        };
        Ok(Self {
            password: text("password")?,
            salt: text("salt")?,
        })
    }
}

/// The public keys a file lists; nothing without one.
pub(super) fn keys(file: Option<&Path>) -> anyhow::Result<BTreeMap<Principal, PublicKey>> {
    let Some(file) = file else {
        return Ok(BTreeMap::new());
    };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    listed(file, &text)
}

/// The passwords in a file that is its owner's alone; nothing without one.
pub(super) fn passwords(file: Option<&Path>) -> anyhow::Result<BTreeMap<Principal, Password>> {
    let Some(file) = file else {
        return Ok(BTreeMap::new());
    };
    let text = read_secrets(file, LARGEST)?;
    listed(file, text.expose())
}

fn listed<T: Listed>(file: &Path, text: &str) -> anyhow::Result<BTreeMap<Principal, T>> {
    // What a reader of TOML says may quote what it read.
    let wrong = |at: Range<usize>, what: &str| {
        let (line, column) = place(text, at.start);
        let file = file.display();
        anyhow::anyhow!(
            "{file}:{line}:{column}: {what}; write one line for each principal: {}",
            T::LINE
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
        let value = T::of(value).map_err(|at| wrong(at, "this is not what belongs here"))?;
        listed.insert(principal, value);
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

    const GOOD: &str = "\"node/a\" = { password = \"swordfish\", salt = \"00000000\" }";

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
            let run = format!("run `chmod 600 {}`", file.path().display());
            assert!(said.contains(&run), "{said}");
        }
    }
}
