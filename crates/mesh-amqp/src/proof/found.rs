//! What came of an attempt.

use std::fmt;

use mesh_derive::topology::proof::Expected;

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The broker let it happen.
    Allowed,
    /// It would have, but there is no such thing.
    Missing,
    /// It let it happen, and no reader believes it.
    Held,
    /// It refused it.
    Refused,
    /// Something else, in the broker's words.
    Otherwise(String),
    /// It was not tried, or nothing was heard of it.
    Untried(String),
}

impl Found {
    /// Whether it is no difference to what was expected. Of what was not tried something else tells.
    pub(crate) fn is(&self, expected: Expected) -> bool {
        matches!(
            (self, expected),
            (Self::Allowed, Expected::Allowed)
                | (Self::Refused, Expected::Refused | Expected::Held)
                | (Self::Held, Expected::Held)
                | (Self::Untried(_), _)
        )
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed => f.write_str("was allowed"),
            Self::Missing => f.write_str("was allowed, but there is none"),
            Self::Held => f.write_str("was allowed, and no reader believes it"),
            Self::Refused => f.write_str("was refused"),
            Self::Otherwise(what) => write!(f, "the broker says: {what}"),
            Self::Untried(why) => write!(f, "nothing can be said: {why}"),
        }
    }
}
