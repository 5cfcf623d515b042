//! The disk under the store is full: the reports wait on the bus, and are recorded when there is room.

use std::time::Duration;

use anyhow::ensure;
use live_tests::binaries::{Publisher, Site};
use live_tests::{Disk, eventually};
use mesh_model::{Generation, Seq};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_the_store_holds_reports_and_loses_nothing() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    let Some(disk) = Disk::mount(&site.state_dir().join("store"), 24)? else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("bare").await?;
    let controller = site.controller_pid()?;
    let about = site.declared("bare").await?;
    let mut publisher = site.publisher("bare").await?;
    publisher.report(20).await?;

    disk.fill()?;
    until_held(&site, &mut publisher, about).await?;
    publisher.report(150_000).await?;
    it_is_said(&site).await?;

    disk.free()?;
    let confirmed: Vec<Seq> = publisher.confirmed().to_vec();
    eventually(DEADLINE, "every confirmed report is recorded", async || {
        let Ok(recorded) = site.reported("bare", about).await else {
            return Ok(false);
        };
        Ok(confirmed.iter().all(|seq| recorded.contains(seq)))
    })
    .await?;
    eventually(DEADLINE, "nothing is held", async || {
        Ok(held(&site).await? == 0)
    })
    .await?;
    site.controller_runs()?;
    ensure!(site.controller_pid()? == controller, "another controller");
    ensure!(
        !site.controller_log().contains("panicked"),
        "the controller panicked"
    );
    // It takes changes again, and what it took is there for the next one.
    site.token("two").await?;
    site.stop_controller().await?;
    site.start_controller().await?;
    let recorded = site.reported("bare", about).await?;
    ensure!(
        confirmed.iter().all(|seq| recorded.contains(seq)),
        "lost by a restart"
    );
    Ok(())
}

/// Publishes until the store has no more room. It has some of its own for a while; the reports are not far below the
/// largest it takes.
async fn until_held(
    site: &Site,
    publisher: &mut Publisher,
    about: Generation,
) -> anyhow::Result<()> {
    while held(site).await? == 0 {
        ensure!(
            publisher.confirmed().len() < ENOUGH,
            "the full disk takes everything"
        );
        publisher.report(150_000).await?;
        let confirmed = publisher.confirmed().len();
        eventually(DEADLINE, "the report is recorded or held", async || {
            // A store without room cannot be asked what it holds either.
            let recorded = site.reported("bare", about).await;
            let recorded = recorded.map_or(0, |recorded| recorded.len());
            Ok(recorded == confirmed || held(site).await? > 0)
        })
        .await?;
    }
    Ok(())
}

/// An operator is told, in the status, by the doctor, and when something is to be changed.
async fn it_is_said(site: &Site) -> anyhow::Result<()> {
    let status = site.status().await?;
    ensure!(
        status.get("store_up") == Some(&Value::Bool(false)),
        "{status}"
    );
    let doctor = site.ctl(&["doctor"]).await?;
    ensure!(
        doctor.code == Some(1) && doctor.out.contains("store"),
        "{doctor:?}"
    );
    let refused = site.ctl(&["token", "create", "--node", "two"]).await?;
    ensure!(
        refused.code == Some(1) && !refused.err.is_empty(),
        "{refused:?}"
    );
    Ok(())
}

async fn held(site: &Site) -> anyhow::Result<u64> {
    let status = site.status().await?;
    let held = status.pointer("/window/held").and_then(Value::as_u64);
    Ok(held.unwrap_or_default())
}

/// Reports that are more than a disk of that size holds, and fewer than the store keeps of a node.
const ENOUGH: usize = 50;
const DEADLINE: Duration = Duration::from_mins(1);
