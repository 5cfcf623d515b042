//! Seats change hands under load, over RabbitMQ.

#[path = "seats/ledger.rs"]
mod ledger;

use live_tests::binaries::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pieces_of_work_outlive_five_handovers() -> anyhow::Result<()> {
    let Some(site) = tokio::task::spawn_blocking(Site::over_amqp).await?? else {
        return Ok(());
    };
    ledger::run(
        site,
        |site| {
            let mut may = std::collections::BTreeSet::new();
            for clerk in ledger::CLERKS {
                let read = site.may_read(&format!("module.{clerk}.{clerk}"))?;
                if read.is_some_and(|read| read.contains("desk")) {
                    may.insert(clerk);
                }
            }
            Ok(may)
        },
        false,
    )
    .await
}
