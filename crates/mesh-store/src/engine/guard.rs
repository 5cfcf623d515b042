//! Calls into an engine that may panic: both do so on some damage.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Engine, EngineError};

/// An engine that panics has met bytes it did not expect.
pub(crate) fn guard<T, E: From<EngineError>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(EngineError::Corrupt(format!("the engine panicked: {}", panic_text(&*panic))).into())
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a word")
}

/// Drops an engine that failed; sled may panic even in that, and there is nothing left to save.
pub(crate) fn put_down(engine: Box<dyn Engine>) {
    if let Err(error) = guard::<_, EngineError>(|| {
        drop(engine);
        Ok(())
    }) {
        tracing::warn!(%error, "the failed engine could not be dropped cleanly");
    }
}
