//! A seat that is taken away while its module works.

use super::*;

/// The seat, held by the clerk, with this much work sent.
async fn at_work(letters: &[&str]) -> (Mesh, Worker<LoopbackModule>) {
    let mut mesh = Mesh::new().await;
    let worker = mesh.clerk.work("mail").await.unwrap();
    mesh.assign("clerk").await;
    for letter in letters {
        mesh.shop.send("mail", *letter).await.unwrap();
    }
    (mesh, worker)
}

#[tokio::test(start_paused = true)]
async fn work_in_hand_is_told_that_its_seat_was_taken_away_and_cannot_be_done() {
    let (mut mesh, mut worker) = at_work(&["one"]).await;
    let work = worker.next().await;
    assert!(!work.is_lost());
    assert!(is_silent(work.lost()).await);
    mesh.release().await;
    timeout(Duration::from_secs(1), work.lost()).await.unwrap();
    assert!(work.is_lost());
    let error = work.done().await.unwrap_err();
    let said = error.source.to_string();
    assert!(said.contains("it goes to whoever may now"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_the_author_when_the_seat_was_taken_away_is_not_given_to_him() {
    let (mut mesh, mut worker) = at_work(&["one", "two", "three"]).await;
    let first = worker.next().await;
    assert_eq!(first.body, b"one");
    // All three are out with this module by now.
    sleep(Duration::from_millis(10)).await;
    mesh.release().await;
    // The module hears of it in a moment.
    sleep(Duration::from_millis(10)).await;
    assert!(is_silent(worker.next()).await);
    // Given back, it goes on with what nobody has done: with the same worker, without a restart.
    mesh.assign("clerk").await;
    let mut heard = Vec::new();
    for _ in 0..3 {
        let work = timeout(Duration::from_secs(1), worker.next()).await;
        let work = work.expect("within a moment, not after the ack wait");
        heard.push(work.body.clone());
        work.done().await.unwrap();
    }
    heard.sort();
    assert_eq!(heard, [&b"one"[..], b"three", b"two"]);
    drop(first);
}
