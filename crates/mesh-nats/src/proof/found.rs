//! What came of an act, in words and beside what was expected.

use std::fmt;

use mesh_derive::proof::{Evidence, Expected};

/// What came of one act.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// The server took it, and what shows that it arrived was seen, where anything shows it.
    Allowed,
    /// The server took it, and what would have shown that it arrived was not seen.
    Unheard,
    /// The server refused it.
    Refused,
    /// The server took it, and nothing came of the reply.
    NoEffect,
    /// Something came of it that must not.
    Effect(String),
    /// Something else, in the server's words.
    Otherwise(String),
    /// The connection ended there, or it was not tried.
    Closed(String),
}

impl Found {
    /// Whether it is what was expected.
    pub fn is(&self, expected: &Expected) -> bool {
        matches!(
            (self, expected),
            (Self::Allowed, Expected::Allowed(_))
                | (Self::Refused, Expected::Refused)
                | (Self::NoEffect, Expected::NoEffect)
        )
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed => f.write_str("was allowed"),
            Self::Unheard => f.write_str("was taken, but nothing is heard of it"),
            Self::Refused => f.write_str("was refused"),
            Self::NoEffect => f.write_str("had no effect"),
            Self::Effect(what) => write!(f, "had one: {what}"),
            Self::Otherwise(what) => write!(f, "the server says: {what}"),
            Self::Closed(why) => write!(f, "nothing can be said: {why}"),
        }
    }
}

/// What can be told of an act once its connection is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What came of it.
    Found(Found),
    /// The server took it, and the controller's side tells the rest.
    Watched(Watched),
    /// It was not tried.
    Untried,
}

/// What the controller's side is to hear, or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    /// A heartbeat with this mark.
    Heartbeat(String),
    /// A call of the API that names this mark.
    Api(String),
}

/// What is expected to be seen in the inbox of whoever made the attempt.
pub(super) fn is_answered(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Stream(_) | Evidence::Consumer(_) | Evidence::Api | Evidence::HeardBySelf => true,
        Evidence::Taken | Evidence::HeardInMesh => false,
    }
}
