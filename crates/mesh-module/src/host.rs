//! What of its host the SDK reads: the environment, two files, the clock, and chance. From here they travel as values.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A variable of the environment, if it is set to a text that says something.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the SDK where the environment enters"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads a file that only its owner may reach.
pub(crate) fn read_private(path: &Path) -> io::Result<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let open =
                format!("its mode is {mode:03o}, and only its owner may reach it: chmod 600");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, open));
        }
    }
    std::fs::read_to_string(path)
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

#[cfg(all(test, unix))]
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
}
