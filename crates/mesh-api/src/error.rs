//! Errors as an operator sees them: a stable code, one sentence, the next step.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mesh_control::CommandError;
use serde::{Deserialize, Serialize};

use crate::form::Envelope;

/// What kind of error. The word never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// It was asked wrongly.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// Somebody else changed something.
    Conflict,
    /// The caller may not.
    Denied,
    /// It cannot now.
    Unavailable,
    /// It did not become true in time; it may yet.
    TimedOut,
    /// Nobody answers.
    Unreachable,
    /// Something broke.
    Failed,
}

/// An error, with the next step to take in its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind.
    pub code: Code,
    /// What happened, to what, and what to do next.
    pub message: String,
}

impl ApiError {
    /// An error of a kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let code = match &error {
            CommandError::Conflict { .. }
            | CommandError::OnThatBus(..)
            | CommandError::Moving(..)
            | CommandError::Rotating(_)
            | CommandError::SecretInUse { .. } => Code::Conflict,
            CommandError::UnknownSeat(_)
            | CommandError::UnknownNode(_)
            | CommandError::UnknownToken(_)
            | CommandError::RunsNowhere(_)
            | CommandError::UnknownSecret(_) => Code::NotFound,
            CommandError::Store(_) => Code::Unavailable,
            CommandError::TokenExists(_) | CommandError::KeyInUse(_) | CommandError::Mint(_) => {
                Code::Failed
            }
            CommandError::Declared(_)
            | CommandError::Labels(_)
            | CommandError::CannotHold { .. }
            | CommandError::NoBus(_)
            | CommandError::SecretsUnset(_)
            | CommandError::SecretsTooLarge { .. }
            | CommandError::Plan(_) => Code::Invalid,
        };
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match self.code {
            Code::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::Conflict => StatusCode::CONFLICT,
            Code::Denied => StatusCode::FORBIDDEN,
            Code::Unavailable | Code::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
            Code::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Code::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(Envelope::new("Error", self))).into_response()
    }
}
