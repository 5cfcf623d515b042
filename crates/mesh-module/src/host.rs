//! What of its host the SDK reads: the environment, two files, the clock, and chance. From here they travel as values.

use std::fs::OpenOptions;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::process::{Uid, geteuid};

/// A variable of the environment, if it is set to a text that says something.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the SDK where the environment enters"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads a file that is this user's or root's, and that nobody else may reach. In a container, where nobody else is, the
/// agent's files are everybody's to read and nobody's to write.
pub(crate) fn read_private(path: &Path) -> io::Result<String> {
    if path.starts_with(HANDED_IN_CONTAINER) {
        return std::fs::read_to_string(path);
    }
    read_as(geteuid(), path)
}

const HANDED_IN_CONTAINER: &str = "/run/mesh";

fn read_as(reader: Uid, path: &Path) -> io::Result<String> {
    let mut file = OpenOptions::new()
        .read(true)
        // Or opening a pipe would wait for someone to write to it.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    // Of the file that is open, not of whatever the path names a moment later.
    let found = file.metadata()?;
    let denied = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !found.is_file() {
        return denied("it is no regular file".to_owned());
    }
    let owner = Uid::from_raw(found.uid());
    if owner != reader && !owner.is_root() {
        return denied(format!(
            "it belongs to user {owner}, who can read and replace it: chown {reader}"
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return denied(format!(
            "its mode is {mode:03o}, and only its owner may reach it: chmod 600"
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the SDK where the time enters"
)]
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A number no other process is likely to have; not for secrets.
pub(crate) fn chance() -> u64 {
    // The keys of std's hasher come from the operating system.
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_read_is_refused_saying_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "SU").unwrap();
        for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
            match read_private(file.path()) {
                Ok(text) => assert!(taken && text == "SU", "{mode:o}"),
                Err(error) => {
                    assert!(!taken, "{mode:o}");
                    assert!(error.to_string().contains("chmod 600"), "{error}");
                }
            }
        }
    }

    #[test]
    fn what_is_another_users_or_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("creds");
        std::fs::write(&path, "SU").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let own = geteuid();
        assert!(read_as(own, &path).is_ok());
        let another = Uid::from_raw(own.as_raw() + 1);
        if own.is_root() {
            assert!(read_as(another, &path).is_ok(), "root's is to be trusted");
            std::os::unix::fs::chown(&path, Some(own.as_raw() + 2), None).unwrap();
            assert!(read_private(&path).is_err());
        }
        let error = read_as(another, &path).unwrap_err().to_string();
        assert!(error.contains(&format!("chown {another}")), "{error}");

        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        let error = read_private(&pipe).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
}
