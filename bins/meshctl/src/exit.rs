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
        let code = api_error(error).map_or(Code::Failed, |error| error.code);
        let message = format!("{error:#}");
        // Whoever reads JSON gets the error as JSON, too; if that cannot be written, the sentence above was.
        let _written = out::json("Error", ApiError { code, message });
    }
    if matches!(cli.verb, Verb::Plan { .. }) {
        return ExitCode::from(255);
    }
    ExitCode::from(code(error))
}

fn api_error(error: &anyhow::Error) -> Option<&ApiError> {
    match error.downcast_ref::<CallError>() {
        Some(CallError::Refused(error)) => Some(error),
        _ => None,
    }
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<TimedOut>() {
        return 6;
    }
    match error.downcast_ref::<CallError>() {
        Some(CallError::Unreachable { .. } | CallError::Broken(_)) => 7,
        Some(CallError::Refused(error)) => match error.code {
            Code::NotFound => 3,
            Code::Conflict => 4,
            Code::Denied => 5,
            Code::Invalid | Code::Unavailable | Code::Failed => 1,
        },
        Some(CallError::NotUnderstood(_)) | None => 1,
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
