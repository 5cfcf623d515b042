//! How a server says no to a definition: by an error with a code, or by saying nothing.

use std::borrow::Cow;

/// A definition that a server does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An answer of the `JetStream` API with its `err_code` and `description`.
    #[error("{description} ({code})")]
    Answered {
        /// `err_code` of the answer; the lists are in `server/errors.json`.
        code: u16,
        /// `description` of the answer.
        description: Cow<'static, str>,
    },
    /// A blank in the subject of the request: the protocol is broken, and the server closes the connection.
    #[error("the connection is closed: the request's subject has a blank in it")]
    Closed,
    /// A dot in a name: the request is on a subject nobody listens to.
    #[error(
        "no answer: the name has a dot or a wildcard, and nobody listens to the request's subject"
    )]
    Unanswered,
}

/// An answer with this code.
pub(super) fn refuse<T>(
    code: u16,
    description: impl Into<Cow<'static, str>>,
) -> Result<T, Refusal> {
    Err(Refusal::Answered {
        code,
        description: description.into(),
    })
}
