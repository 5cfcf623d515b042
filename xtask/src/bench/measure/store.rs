//! The controller's store: what is left of the bare disk once records can be found again.

use std::path::Path;

use anyhow::{Context, Result};
use mesh_store::{EngineKind, Form, Op, Store, StoreId};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::append::{BATCH, RECORD, append};
use super::{Effort, Row, middle, scratch};
use crate::clock::Stopwatch;

/// Each engine with a single commit in flight and with a batch of them, under the ceiling of a bare
/// append that flushes as often.
pub(super) fn rows(effort: Effort) -> Result<Vec<Row>> {
    let folder = scratch()?;
    let folder = folder.path();
    let runtime = Builder::new_multi_thread()
        .build()
        .context("starting the runtime")?;
    let mut rows = Vec::new();
    for kind in EngineKind::ALL {
        let (single, grouped) = match kind {
            EngineKind::Redb => ("redb, one commit in flight", "redb, 256 in flight"),
            EngineKind::Sled => ("sled, one commit in flight", "sled, 256 in flight"),
        };
        let Effort { runs, rounds } = effort;
        for (name, in_flight, each) in [(single, 1, rounds * 10), (grouped, BATCH, rounds)] {
            let mut measured = Vec::new();
            let mut ceilings = Vec::new();
            for run in 0..runs {
                let folder = folder.join(format!("{name} {run}"));
                measured.push(runtime.block_on(commit(&folder, kind, in_flight, each))?);
                ceilings.push(append(&folder, in_flight, each)?);
            }
            rows.push(Row {
                name,
                value: middle(measured),
                ceiling: middle(ceilings),
                unit: "records/s",
                goal: None,
            });
        }
    }
    Ok(rows)
}

/// Records a second, each in a commit of its own, with so many waiting for the disk at a time.
async fn commit(folder: &Path, kind: EngineKind, in_flight: usize, each: u32) -> Result<f64> {
    let (store, _) = Store::open(folder, kind, StoreId::new([7; 16])).await?;
    let watch = Stopwatch::start();
    let mut writers = JoinSet::new();
    for writer in 0..u32::try_from(in_flight)? {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..each {
                store.commit(vec![put(writer * each + number)]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written.context("a writer did not end by itself")??;
    }
    let seconds = watch.elapsed().as_secs_f64();
    store.close().await;
    Ok(f64::from(each) * f64::from(u32::try_from(in_flight)?) / seconds)
}

/// A record whose key is nowhere near its predecessor's, as reports of many nodes come in.
fn put(number: u32) -> Op {
    Op::Put {
        key: number.reverse_bits().to_be_bytes().to_vec(),
        form: Form {
            kind: 1,
            version: 1,
        },
        body: RECORD.to_vec(),
    }
}
