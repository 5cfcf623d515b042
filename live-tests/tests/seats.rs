//! Seats change hands under load, over NATS.

#[path = "seats/ledger.rs"]
mod ledger;

use live_tests::binaries::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pieces_of_work_outlive_five_handovers_and_two_lost_nodes()
-> anyhow::Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    ledger::run(
        site,
        |site| {
            let users = site.nats_users()?;
            let may = |clerk: &&str| {
                users
                    .split("nkey:")
                    .filter(|user| user.contains(&format!("mesh.inbox.module.{clerk}.")))
                    .any(|user| user.contains("mesh.deliver.seat.desk"))
            };
            Ok(ledger::CLERKS.into_iter().filter(may).collect())
        },
        true,
    )
    .await
}
