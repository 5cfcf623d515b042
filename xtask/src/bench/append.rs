//! The disk alone: records appended to a file, and a flush for each or for many.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::Row;
use crate::clock::Stopwatch;

/// About what one report of a node is on disk.
const RECORD: [u8; 300] = [7; 300];

/// The most records that a controller takes into one commit.
const BATCH: usize = 256;

/// How often each is measured; the middle one counts.
const RUNS: usize = 5;

/// One flush a record, under the ceiling of one flush for a whole batch.
pub(super) fn rows(folder: &Path) -> Result<Vec<Row>> {
    let mut each = Vec::new();
    let mut batches = Vec::new();
    // Taken in turns, so that a neighbour's load falls on both alike.
    for _ in 0..RUNS {
        each.push(append(folder, 1, 500)?);
        batches.push(append(folder, BATCH, 40)?);
    }
    let ceiling = middle(batches);
    let row = |name, value| Row {
        name,
        value,
        ceiling,
        unit: "records/s",
        goal: None,
    };
    Ok(vec![
        row("append, flush every 256", ceiling),
        row("append, flush every record", middle(each)),
    ])
}

/// Records a second, flushed to the disk in batches.
fn append(folder: &Path, batch: usize, batches: u32) -> Result<f64> {
    let path = folder.join("appended");
    let mut file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let bytes = RECORD.repeat(batch);
    let watch = Stopwatch::start();
    for _ in 0..batches {
        file.write_all(&bytes)
            .and_then(|()| file.sync_data())
            .with_context(|| format!("appending to {}", path.display()))?;
    }
    let seconds = watch.elapsed().as_secs_f64();
    let batch = u32::try_from(batch).context("a batch is small")?;
    Ok(f64::from(batch) * f64::from(batches) / seconds)
}

/// The middle of what was measured; nothing measured is nothing.
fn middle(mut measured: Vec<f64>) -> f64 {
    measured.sort_by(f64::total_cmp);
    measured
        .get(measured.len() / 2)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_no_outlier() {
        assert!((middle(vec![9.0, 1.0, 2.0, 1000.0, 3.0]) - 3.0).abs() < f64::EPSILON);
        assert!(middle(vec![]).abs() < f64::EPSILON);
    }
}
