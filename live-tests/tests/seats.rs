//! Seats change hands under load, over NATS.

#[path = "seats/ledger.rs"]
mod ledger;

use std::collections::BTreeSet;

use ledger::{Bus, CLERKS};
use live_tests::binaries::Site;

struct Nats;

impl Bus for Nats {
    fn holders(&self, site: &Site) -> anyhow::Result<BTreeSet<&'static str>> {
        let users = site.nats_users()?;
        let may = |clerk: &&str| {
            users
                .split("nkey:")
                .filter(|user| user.contains(&format!("mesh.inbox.module.{clerk}.")))
                .any(|user| user.contains("mesh.deliver.seat.desk"))
        };
        Ok(CLERKS.into_iter().filter(may).collect())
    }

    async fn refuses(&self, site: &Site, clerk: &str) -> anyhow::Result<()> {
        let as_clerk = site.as_module(clerk, clerk).await?;
        as_clerk
            .is_refused_in_group("mesh.deliver.seat.desk", "desk")
            .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pieces_of_work_outlive_five_handovers_and_two_lost_nodes()
-> anyhow::Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    ledger::run(site, Nats, true).await
}
