//! Under which word each message is put down.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_model::Subject;
use tokio::time::Instant;

/// The words of what was put down and is not known to have arrived, by where it goes and its id.
#[derive(Debug, Default)]
pub(super) struct Words(BTreeMap<(Subject, String), (Instant, String)>);

impl Words {
    /// The word for it: the one it had, if that may have arrived and would still be known, or a new one.
    pub(super) fn of(&mut self, to: &Subject, id: &str, new: impl FnOnce() -> String) -> String {
        let now = Instant::now();
        self.0.retain(|_, (since, _)| now < *since + KNOWN_FOR);
        let entry = self.0.entry((to.clone(), id.to_owned()));
        entry.or_insert_with(|| (now, new())).1.clone()
    }

    /// What became of it is known: the next under this id is another.
    pub(super) fn is_used(&mut self, to: &Subject, id: &str) {
        self.0.remove(&(to.clone(), id.to_owned()));
    }
}

/// For so long a stream knows a word (`duplicate_window`).
const KNOWN_FOR: Duration = Duration::from_mins(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_may_have_arrived_has_its_word_again_and_what_is_carried_anew_another() {
        let mut words = Words::default();
        let to = Subject::new("mesh.seat.desk.shop").unwrap();
        let other = Subject::new("mesh.seat.post.shop").unwrap();
        let mut made = 0;
        let mut word = |words: &mut Words, to: &Subject, id: &str| {
            words.of(to, id, || {
                made += 1;
                made.to_string()
            })
        };
        assert_eq!(word(&mut words, &to, "1"), "1");
        assert_eq!(word(&mut words, &to, "1"), "1");
        assert_eq!(word(&mut words, &to, "2"), "2");
        assert_eq!(word(&mut words, &other, "1"), "3");
        words.is_used(&to, "1");
        assert_eq!(word(&mut words, &to, "1"), "4");
        tokio::time::advance(KNOWN_FOR).await;
        assert_eq!(word(&mut words, &to, "1"), "5");
        assert_eq!(words.0.len(), 1);
    }
}
