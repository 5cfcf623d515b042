//! Seats change hands under load, over RabbitMQ.

#[path = "seats/ledger.rs"]
mod ledger;

use std::collections::BTreeSet;

use anyhow::ensure;
use ledger::{Bus, CLERKS};
use live_tests::binaries::Site;

/// The broker tells by itself who may read what.
struct RabbitMq;

impl Bus for RabbitMq {
    fn holders(&self, site: &Site) -> anyhow::Result<BTreeSet<&'static str>> {
        let mut may = BTreeSet::new();
        for clerk in CLERKS {
            let read = site.may_read(&format!("module.{clerk}.{clerk}"))?;
            if read.is_some_and(|read| read.contains("desk")) {
                may.insert(clerk);
            }
        }
        Ok(may)
    }

    async fn refuses(&self, site: &Site, clerk: &str) -> anyhow::Result<()> {
        let may = tokio::task::block_in_place(|| self.holders(site))?;
        ensure!(!may.contains(clerk), "{clerk} may read it");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pieces_of_work_outlive_five_handovers() -> anyhow::Result<()> {
    let Some(site) = tokio::task::spawn_blocking(Site::over_amqp).await?? else {
        return Ok(());
    };
    ledger::run(site, RabbitMq, false).await
}
