//! What becomes of a task that a loop began.

use std::panic::resume_unwind;

use tokio::task::JoinError;

/// What it came to; nothing when it was called off. A panic goes on in the loop that began the task: a module nobody looks
/// after any more, without a word, would be the worse end.
pub(crate) fn came_to_its_end<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(result) => Some(result),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_called_off)) => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_task_goes_on_in_the_loop_that_began_it() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { 7 });
        assert_eq!(came_to_its_end(tasks.join_next().await.unwrap()), Some(7));
        tasks.spawn(std::future::pending());
        tasks.abort_all();
        assert_eq!(came_to_its_end(tasks.join_next().await.unwrap()), None);
        let mut looped = JoinSet::new();
        looped.spawn(async {
            let mut tasks: JoinSet<()> = JoinSet::new();
            tasks.spawn(async { panic!("of the task") });
            came_to_its_end(tasks.join_next().await.unwrap())
        });
        let ended = looped.join_next().await.unwrap();
        assert!(ended.unwrap_err().is_panic());
    }
}
