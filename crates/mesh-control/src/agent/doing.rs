//! How far the runtime is with what takes long: lines for people, carried by heartbeats and by nothing that lasts.

use std::collections::BTreeMap;

use mesh_model::{ModuleName, Timestamp, one_line};

/// Lines one heartbeat carries.
const LINES: usize = 16;
/// Bytes of each.
const BYTES: usize = 160;

#[derive(Debug, Default)]
pub(super) struct Doing {
    lines: BTreeMap<ModuleName, String>,
    /// When it was said last.
    said: Timestamp,
}

impl Doing {
    /// Takes what is being done now; answers whether something began, or ended.
    pub(super) fn now_is(&mut self, doing: &BTreeMap<ModuleName, String>) -> bool {
        let first = doing.iter().take(LINES);
        let lines: BTreeMap<ModuleName, String> = first
            .map(|(module, line)| (module.clone(), short(line)))
            .collect();
        let others = !lines.keys().eq(self.lines.keys());
        self.lines = lines;
        others
    }

    pub(super) fn lines(&self) -> BTreeMap<ModuleName, String> {
        self.lines.clone()
    }

    pub(super) fn said(&mut self, now: Timestamp) {
        self.said = now;
    }

    /// When the next heartbeat goes, if it may go before its time and no two within a pause.
    pub(super) fn soon(&self, at: Timestamp, pause: u64) -> Timestamp {
        at.min(self.said.plus(pause))
    }
}

/// One line, and no longer than is carried.
fn short(line: &str) -> String {
    let mut line = one_line(line);
    let fits = (0..=BYTES).rev().find(|at| line.is_char_boundary(*at));
    line.truncate(fits.unwrap_or_default());
    line
}
