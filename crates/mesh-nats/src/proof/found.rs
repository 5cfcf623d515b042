//! What came of an act, in words and beside what was expected.

use std::fmt;

use mesh_derive::proof::{Evidence, Expected};
use mesh_model::one_line;

/// What somebody else said, as it is shown: one line of bounded length, in which nothing steers a terminal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(String);

impl Text {
    /// A text as it is shown.
    pub fn of(text: &str) -> Self {
        Self(one_line(text))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    Effect(Text),
    /// Something else, in the server's words.
    Otherwise(Text),
    /// The connection ended there, or it was not tried.
    Closed(Text),
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
    Untried(Untried),
}

/// Why an act was not tried, or says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untried {
    /// The connection ended before.
    Ended,
    /// It might take what waits to be delivered.
    Delivered,
    /// What the server would do of it is not known.
    Unforeseen,
    /// Nothing shows whether the reply has been dealt with.
    Unanswered,
}

impl fmt::Display for Untried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the connection ended before it was tried",
            Self::Delivered => {
                "it is not tried, since a subscription without an inbox beside it would take what waits to be delivered; \
                 try it as one of the module's instances"
            }
            Self::Unforeseen => {
                "it is not tried, since what the server would do of it cannot be ruled out; ask what was derived"
            }
            Self::Unanswered => {
                "nothing is heard in an inbox after it, so silence would say nothing; try it as one of the module's instances"
            }
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_shown_as_one_line_of_bounded_length() {
        let said = format!("no\r\n\u{1b}[2J\u{202e}{}", "x".repeat(4096));
        for found in [Found::Otherwise, Found::Effect, Found::Closed].map(|of| of(Text::of(&said)))
        {
            let shown = found.to_string();
            assert!(shown.len() < 600, "{shown}");
            assert!(
                !shown.contains(['\r', '\n', '\u{1b}', '\u{202e}']),
                "{shown}"
            );
        }
    }
}
