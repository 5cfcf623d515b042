//! How many tests passed and failed, counted from what the test runner prints.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::out;

/// Counted tests. Shown as the closing line `N passed, N failed`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    skipped: u64,
}

impl Tally {
    /// Counts a line, when it closes the run of one test binary.
    fn count(&mut self, line: &str) {
        let Some(summary) = line.trim().strip_prefix("test result: ") else {
            return;
        };
        for part in summary.split([';', '.']) {
            if let Some((number, word)) = part.trim().split_once(' ')
                && let Ok(number) = number.parse::<u64>()
            {
                match word {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.skipped += number,
                    _ => {}
                }
            }
        }
    }

    /// Runs the command, hands its output on, and counts as it goes. A run that fails is an error;
    /// what it had counted stays counted.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line.with_context(|| format!("reading from {name}"))?;
                let line = String::from_utf8_lossy(&line);
                self.count(&line);
                out::data(line);
            }
        }
        let status = child
            .wait()
            .with_context(|| format!("waiting for {name}"))?;
        if !status.success() {
            bail!("the test run ended with {status}");
        }
        Ok(())
    }

    /// How many tests ran.
    pub(crate) fn ran(self) -> u64 {
        self.passed + self.failed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up_and_other_lines_do_not_count() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "7 passed, 7 failed",
        ] {
            tally.count(line);
        }
        assert_eq!(tally.to_string(), "4 passed, 2 failed, 1 skipped");
        assert_eq!(tally.ran(), 6);
    }

    #[test]
    fn a_run_that_fails_is_an_error_and_keeps_its_count() {
        let mut tally = Tally::default();
        let script =
            "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured'; exit 3";
        let error = tally
            .run(Command::new("sh").args(["-c", script]))
            .unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
    }
}
