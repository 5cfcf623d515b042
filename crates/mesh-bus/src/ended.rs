//! What becomes of a task that a loop began.

use std::panic::resume_unwind;

use tokio::task::JoinError;

/// What it came to; nothing when it was called off. A panic goes on in the loop that began the task: a loop that waited
/// for ever for what never comes would be the worse end.
pub(crate) fn came_to_its_end<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(result) => Some(result),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_called_off)) => None,
    }
}
