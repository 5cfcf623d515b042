//! A server's version.

use std::fmt;

/// Major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32, u32);

impl Version {
    /// The first one that fences a stale controller: `Nats-Expected-Last-Subject-Sequence-Subject` came with it
    /// (nats-server #5281), and one that does not know the header refuses each declaration.
    pub(crate) const NEEDED: Self = Self(2, 11, 0);

    /// Reads `2.15.1`, `v2.10.0-RC.1` or `nats-server: v2.9.10`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().rsplit(' ').next()?;
        let text = text.strip_prefix('v').unwrap_or(text);
        let core = text.split(['-', '+']).next()?;
        let mut parts = core.split('.').map(|part| part.parse::<u32>().ok());
        let version = Self(
            parts.next()??,
            parts.next()??,
            parts.next().flatten().unwrap_or(0),
        );
        Some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_write_them() {
        for (text, version) in [
            ("2.15.1", Some(Version(2, 15, 1))),
            ("nats-server: v2.9.10", Some(Version(2, 9, 10))),
            ("2.10.0-RC.1", Some(Version(2, 10, 0))),
            ("2.11", Some(Version(2, 11, 0))),
            ("", None),
            ("two", None),
        ] {
            assert_eq!(Version::parse(text), version, "{text}");
        }
    }

    #[test]
    fn a_server_that_cannot_fence_is_too_old() {
        assert!(Version::parse("2.9.10") < Some(Version::NEEDED));
        assert!(Version::parse("2.10.29") < Some(Version::NEEDED));
        assert!(Version::parse("2.11.0") >= Some(Version::NEEDED));
        assert!(Version::parse("nonsense") < Some(Version::NEEDED));
    }
}
