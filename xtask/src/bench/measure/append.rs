//! The disk alone: records appended to a file, and a flush for each or for many.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::{Effort, Row, middle, scratch};
use crate::clock::Stopwatch;

/// About what one report of a node is on disk.
pub(super) const RECORD: [u8; 300] = [7; 300];

/// The most records that a controller takes into one commit.
pub(super) const BATCH: usize = 256;

/// One flush a record, under the ceiling of one flush for a whole batch.
pub(super) fn rows(effort: Effort) -> Result<Vec<Row>> {
    let folder = scratch()?;
    let folder = folder.path();
    let mut each = Vec::new();
    let mut batches = Vec::new();
    // Taken in turns, so that a neighbour's load falls on both alike.
    for _ in 0..effort.runs {
        each.push(append(folder, 1, effort.rounds * 10)?);
        batches.push(append(folder, BATCH, effort.rounds)?);
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

/// Records a second, written one after the other and flushed to the disk in batches.
///
/// The file has its full length beforehand: one that grows also waits for the file system's own
/// journal at each flush, and would be no ceiling to a store that grows its files in large steps.
pub(super) fn append(folder: &Path, batch: usize, batches: u32) -> Result<f64> {
    let path = folder.join("appended");
    let mut file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let bytes = RECORD.repeat(batch);
    let blank = vec![0; bytes.len()];
    (0..batches)
        .try_for_each(|_| file.write_all(&blank))
        .and_then(|()| file.sync_all())
        .and_then(|()| file.rewind())
        .with_context(|| format!("preparing {}", path.display()))?;
    let watch = Stopwatch::start();
    for _ in 0..batches {
        file.write_all(&bytes)
            .and_then(|()| file.sync_data())
            .with_context(|| format!("writing to {}", path.display()))?;
    }
    let seconds = watch.elapsed().as_secs_f64();
    let batch = u32::try_from(batch).context("a batch is small")?;
    Ok(f64::from(batch) * f64::from(batches) / seconds)
}
