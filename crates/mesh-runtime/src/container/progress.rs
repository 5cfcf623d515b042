//! How far a pull is: the engine's lines, as a state machine.

use std::collections::BTreeMap;
use std::time::Duration;

/// One line of an engine's answer while it fetches an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The layer it is about, or the tag.
    pub(crate) id: Option<String>,
    /// What is said of it.
    pub(crate) status: String,
    /// Bytes that are done.
    pub(crate) current: Option<u64>,
    /// Bytes there are.
    pub(crate) total: Option<u64>,
}

/// How far a pull is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    layers: BTreeMap<String, Layer>,
    /// What was last said that is about no layer.
    said: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Layer {
    stage: Stage,
    fetched: u64,
    total: Option<u64>,
    extracted: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It waits for its turn.
    #[default]
    Waiting,
    /// Its bytes come.
    Fetching,
    /// Its bytes are there.
    Fetched,
    /// They are being unpacked.
    Extracting,
    /// It is there.
    Done,
}

impl Progress {
    /// Takes a line in; the answer is whether anything moved: a byte, an extraction, a layer that got further. That an
    /// engine says it tries again is no movement.
    pub(crate) fn take(&mut self, line: &Line) -> bool {
        let Some((stage, id)) = stage(&line.status).zip(line.id.as_ref()) else {
            let status = line.status.trim();
            // A retry is counted down, second by second, and may go on for ever.
            let new = !status.starts_with("Retrying")
                && !status.is_empty()
                && self.said.as_deref() != Some(status);
            if new {
                self.said = Some(status.to_owned());
            }
            return new;
        };
        let before = self.layers.get(id).copied();
        let mut layer = before.unwrap_or_default();
        // Podman names layers by what they hold, and says of one that was there already the same twice.
        layer.stage = layer.stage.max(stage);
        match stage {
            Stage::Fetching => {
                layer.fetched = line.current.unwrap_or(layer.fetched);
                layer.total = line.total.filter(|total| *total > 0).or(layer.total);
                // After a broken connection a layer begins anew.
                layer.stage = Stage::Fetching;
            }
            Stage::Fetched => layer.fetched = layer.total.unwrap_or(layer.fetched),
            Stage::Extracting => {
                layer.extracted = line.current.unwrap_or(layer.extracted);
                layer.fetched = layer.total.unwrap_or(layer.fetched);
            }
            Stage::Waiting | Stage::Done => {}
        }
        if stage == Stage::Done {
            layer.fetched = layer.total.unwrap_or(layer.fetched);
        }
        self.layers.insert(id.clone(), layer);
        before != Some(layer)
    }

    /// As one line for a person.
    pub(crate) fn text(&self) -> String {
        if self.layers.is_empty() {
            return "pulling: asking the registry".to_owned();
        }
        let done = self.count(|layer| layer.stage == Stage::Done);
        let layers = self.layers.len();
        let (fetched, total) = self.bytes();
        let verb = if self.is_extracting() {
            "extracting"
        } else {
            "pulling"
        };
        if total == 0 {
            return format!("{verb} {done} of {layers} layers");
        }
        format!(
            "{verb} {done} of {layers} layers, {} of {} MB",
            megabytes(fetched),
            megabytes(total)
        )
    }

    /// Bytes that are known to be still to come.
    pub(crate) fn missing(&self) -> u64 {
        let (fetched, total) = self.bytes();
        total.saturating_sub(fetched)
    }

    /// How long nothing may move. Unpacking a large layer says nothing for minutes, and no registry is waited for then.
    pub(crate) fn patience(&self, stall: Duration) -> Duration {
        if self.is_extracting() {
            stall.saturating_mul(EXTRACTING)
        } else {
            stall
        }
    }

    /// Whether nothing is fetched any more and something is unpacked.
    fn is_extracting(&self) -> bool {
        let fetching = self.count(|layer| layer.stage <= Stage::Fetching);
        let unpacking =
            self.count(|layer| matches!(layer.stage, Stage::Fetched | Stage::Extracting));
        fetching == 0 && unpacking > 0
    }

    fn bytes(&self) -> (u64, u64) {
        self.layers.values().fold((0, 0), |(fetched, all), layer| {
            // One that was there already has neither.
            let total = layer.total.unwrap_or(layer.fetched);
            (
                fetched.saturating_add(layer.fetched.min(total)),
                all.saturating_add(total),
            )
        })
    }

    fn count(&self, holds: impl Fn(&Layer) -> bool) -> usize {
        self.layers.values().filter(|layer| holds(layer)).count()
    }
}

/// How much longer an extraction may say nothing than a registry.
const EXTRACTING: u32 = 10;

/// How far a layer is of which this is said; nothing when it is said of no layer.
fn stage(status: &str) -> Option<Stage> {
    let status = status.trim();
    let known = [
        ("Pulling fs layer", Stage::Waiting),
        ("Waiting", Stage::Waiting),
        ("Downloading", Stage::Fetching),
        ("Verifying Checksum", Stage::Fetched),
        ("Download complete", Stage::Fetched),
        ("Extracting", Stage::Extracting),
        ("Pull complete", Stage::Done),
        ("Already exists", Stage::Done),
    ];
    known
        .iter()
        .find(|(text, _)| status == *text)
        .map(|(_, stage)| *stage)
}

/// In megabytes with one digit behind the point.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(id: &str, status: &str, bytes: Option<(u64, u64)>) -> Line {
        Line {
            id: Some(id.to_owned()),
            status: status.to_owned(),
            current: bytes.map(|(current, _)| current),
            total: bytes.map(|(_, total)| total),
        }
    }

    #[test]
    fn a_pull_is_told_as_it_goes() {
        let mut progress = Progress::default();
        assert_eq!(progress.text(), "pulling: asking the registry");
        for (given, moved, text) in told().into_iter().chain(told_then()) {
            assert_eq!(progress.take(&given), moved, "{given:?}");
            assert_eq!(progress.text(), text, "{given:?}");
        }
    }

    /// Lines, whether each moved something, and what is said after it.
    fn told() -> Vec<(Line, bool, &'static str)> {
        let mb = 1_000_000;
        vec![
            (
                line("1", "Pulling from shop", None),
                true,
                "pulling: asking the registry",
            ),
            (
                line("a", "Pulling fs layer", None),
                true,
                "pulling 0 of 1 layers",
            ),
            (
                line("b", "Already exists", None),
                true,
                "pulling 1 of 2 layers",
            ),
            (
                line("c", "Pulling fs layer", None),
                true,
                "pulling 1 of 3 layers",
            ),
            (line("c", "Waiting", None), false, "pulling 1 of 3 layers"),
            (
                line("a", "Downloading", Some((42 * mb + 150_000, 180 * mb))),
                true,
                "pulling 1 of 3 layers, 42.1 of 180.0 MB",
            ),
            (
                line("a", "Downloading", Some((42 * mb + 150_000, 180 * mb))),
                false,
                "pulling 1 of 3 layers, 42.1 of 180.0 MB",
            ),
            (
                line("a", "Retrying in 5 seconds", None),
                false,
                "pulling 1 of 3 layers, 42.1 of 180.0 MB",
            ),
            (
                line("c", "Downloading", Some((mb, 2 * mb))),
                true,
                "pulling 1 of 3 layers, 43.1 of 182.0 MB",
            ),
        ]
    }

    /// What comes after it.
    fn told_then() -> Vec<(Line, bool, &'static str)> {
        let mb = 1_000_000;
        vec![
            (
                line("a", "Download complete", None),
                true,
                "pulling 1 of 3 layers, 181.0 of 182.0 MB",
            ),
            (
                line("a", "Extracting", Some((mb, 180 * mb))),
                true,
                "pulling 1 of 3 layers, 181.0 of 182.0 MB",
            ),
            (
                line("c", "Verifying Checksum", None),
                true,
                "extracting 1 of 3 layers, 182.0 of 182.0 MB",
            ),
            (
                line("a", "Extracting", Some((90 * mb, 180 * mb))),
                true,
                "extracting 1 of 3 layers, 182.0 of 182.0 MB",
            ),
            (
                line("a", "Pull complete", None),
                true,
                "extracting 2 of 3 layers, 182.0 of 182.0 MB",
            ),
            (
                line("c", "Pull complete", None),
                true,
                "pulling 3 of 3 layers, 182.0 of 182.0 MB",
            ),
        ]
    }

    #[test]
    fn a_layer_that_begins_anew_is_counted_anew() {
        let mut progress = Progress::default();
        progress.take(&line("a", "Downloading", Some((90, 100))));
        assert_eq!(progress.missing(), 10);
        assert!(progress.take(&line("a", "Downloading", Some((0, 100)))));
        assert_eq!(progress.missing(), 100);
    }

    #[test]
    fn only_an_extraction_may_be_silent_for_longer() {
        let stall = Duration::from_mins(1);
        let mut progress = Progress::default();
        for (given, patience) in [
            (line("a", "Pulling fs layer", None), 60),
            (line("a", "Downloading", Some((1, 2))), 60),
            (line("b", "Downloading", Some((1, 2))), 60),
            (line("a", "Extracting", Some((1, 2))), 60),
            (line("b", "Download complete", None), 600),
            (line("b", "Pull complete", None), 600),
            (line("a", "Pull complete", None), 60),
        ] {
            progress.take(&given);
            assert_eq!(progress.patience(stall).as_secs(), patience, "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_an_engine_says_no_more_is_fetched_than_there_is(
            lines in proptest::collection::vec((0_u8..4, 0_usize..10, any::<u64>(), any::<u64>()), 0..60),
        ) {
            let words = ["Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete",
                "Extracting", "Pull complete", "Already exists", "Retrying in 3 seconds", "Status: new"];
            let mut progress = Progress::default();
            for (id, word, current, total) in lines {
                progress.take(&line(&id.to_string(), words[word], Some((current, total))));
                let (fetched, all) = progress.bytes();
                prop_assert!(fetched <= all);
                prop_assert!(!progress.text().contains('\n'));
            }
        }
    }
}
