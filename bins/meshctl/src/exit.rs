//! How this program ends: the code tells a script what a sentence tells a person.

use std::process::ExitCode;

use mesh_api::{ApiError, CallError, Code};

use crate::cli::{Cli, Output, Verb};
use crate::out;

/// What was waited for did not become true in time.
#[derive(Debug, thiserror::Error)]
#[error("not true yet after {after}: {}", waiting_for.join("; "))]
pub(crate) struct TimedOut {
    /// How long it was waited.
    pub(crate) after: String,
    /// What is still missing.
    pub(crate) waiting_for: Vec<String>,
}

/// Says what went wrong, and with which code to end. `plan` ends as Nomad's does: 255 for an error.
pub(crate) fn failed(cli: &Cli, error: &anyhow::Error) -> ExitCode {
    out::note(&format!("meshctl: {error:#}"));
    if cli.output == Output::Json {
        let code = kind(error);
        let message = format!("{error:#}");
        // Whoever reads JSON gets the error as JSON, too; if that cannot be written, the sentence above was.
        let _written = out::json("Error", ApiError { code, message });
    }
    if matches!(cli.verb, Verb::Plan { .. }) {
        return ExitCode::from(255);
    }
    ExitCode::from(code(error))
}

/// What kind of error it is, in the surface's words.
fn kind(error: &anyhow::Error) -> Code {
    if error.is::<TimedOut>() {
        return Code::TimedOut;
    }
    match error.downcast_ref::<CallError>() {
        Some(CallError::Unreachable { .. } | CallError::Broken(_)) => Code::Unreachable,
        Some(CallError::TimedOut(_)) => Code::TimedOut,
        Some(CallError::Refused(error)) => error.code,
        Some(CallError::NotUnderstood(_)) | None => Code::Failed,
    }
}

/// With which code an error ends the program.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    match kind(error) {
        Code::Invalid | Code::Unavailable | Code::Failed => 1,
        Code::NotFound => 3,
        Code::Conflict => 4,
        Code::Denied => 5,
        Code::TimedOut => 6,
        Code::Unreachable => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_refusal_has_its_code() {
        for (kind, expected) in [
            (Code::NotFound, 3),
            (Code::Conflict, 4),
            (Code::Denied, 5),
            (Code::Invalid, 1),
        ] {
            let error = CallError::Refused(ApiError::new(kind, "no"));
            assert_eq!(code(&error.into()), expected);
        }
        let late = TimedOut {
            after: "1s".into(),
            waiting_for: vec!["node a".into()],
        };
        assert_eq!(code(&late.into()), 6);
    }
}
