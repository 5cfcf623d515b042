//! A node goes from one bus to another and reaches its controller throughout: whole agents over two loopbacks.

mod again;
mod restarts;
mod rig;

use mesh_model::{BusKind, Home, Outcome};

use rig::{Rig, unblock};

const HERE: BusKind = BusKind::Nats;
const THERE: BusKind = BusKind::Amqp;

#[tokio::test]
async fn a_node_hears_and_reports_over_both_buses_and_then_lives_on_the_other() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    let told = rig.declare(&[HERE], Home::Here).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);

    let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    rig.heartbeat(HERE).await;
    rig.heartbeat(THERE).await;
    rig.settled(HERE).await;
    rig.settled(THERE).await;
    assert_eq!(rig.files(), ["bus.offered.json"]);

    // Proven: its user where it was goes, and what it still has to say goes over the other.
    rig.withdraw(HERE).await;
    rig.heartbeat(THERE).await;

    // The module's credential is one of the new bus, and would not be taken for one of the old.
    let told = rig.declare(&[THERE], Home::On(THERE)).await;
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), ["bus.json"]);

    // It listens where it was no more, not even where it may again.
    rig.grant(HERE).await;
    let stale = rig.declare(&[HERE], Home::On(HERE)).await;
    let told = rig.declare(&[THERE], Home::On(THERE)).await;
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    assert!(stale < told && rig.unsettled(HERE) == 1);
    agent.stop().await;

    // And back, over the same two steps.
    let agent = rig.start();
    let told = rig.declare(&[THERE, HERE], rig.offer_of(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    let told = rig.declare(&[HERE], Home::On(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), ["bus.json"]);
    agent.stop().await;
}

#[tokio::test]
async fn an_offer_that_is_withdrawn_is_forgotten_and_everything_is_as_before() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
    rig.reported(THERE, told).await;
    let told = rig.declare(&[HERE], Home::On(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), [""; 0]);
    rig.declare(&[THERE], Home::On(THERE)).await;
    let told = rig.declare(&[HERE], Home::On(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.unsettled(THERE), 1, "nobody listens there");
    agent.stop().await;
}

#[tokio::test]
async fn a_bus_that_is_never_reached_and_an_offer_that_is_none_change_nothing() {
    let mut rig = Rig::new().await;
    rig.bus(THERE).set_up(false);
    let agent = rig.start();
    let told = rig.declare(&[HERE], rig.offer_of(THERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    let mut nonsense = rig.offer_of(THERE);
    if let Home::Offered(offer) = &mut nonsense {
        offer.place.urls = vec!["amqp://elsewhere.example/mesh".to_owned()];
    }
    let told = rig.declare(&[HERE], nonsense).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    let told = rig.declare(&[HERE], rig.offer_of(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    let told = rig.declare(&[HERE], Home::On(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), [""; 0]);
    agent.stop().await;
}

#[tokio::test]
async fn both_buses_may_be_away_and_come_back_in_either_order() {
    for first in BusKind::ALL {
        let mut rig = Rig::new().await;
        let agent = rig.start();
        let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
        rig.reported(THERE, told).await;
        for bus in BusKind::ALL {
            rig.bus(bus).set_up(false);
        }
        rig.bus(first).set_up(true);
        rig.heartbeat(first).await;
        let told = rig.declare(&[first], rig.offer_of(THERE)).await;
        assert_eq!(rig.reported(first, told).await, Outcome::Converged);
        rig.bus(first.other()).set_up(true);
        rig.heartbeat(first.other()).await;
        agent.stop().await;
    }
}

/// The bus loses what it is first told: the controller has the report, and not the proof.
#[tokio::test]
async fn a_proof_that_was_lost_is_given_again_and_what_asked_for_it_waits() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    rig.refuse_reports(THERE, true);
    let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    rig.settled(HERE).await;
    rig.heartbeat(THERE).await;
    assert_eq!(rig.unsettled(THERE), 1, "it would be heard after a restart");
    rig.refuse_reports(THERE, false);
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    rig.settled(THERE).await;
    agent.stop().await;
}

/// Whoever can write there needs no signature to be heard, and proves nothing.
#[tokio::test]
async fn what_is_not_signed_is_no_reason_to_report_there() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    rig.forge(THERE);
    let told = rig.declare(&[HERE], rig.offer_of(THERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    rig.heartbeat(THERE).await;
    assert_eq!(rig.stored_reports(THERE), 0);
    agent.stop().await;
}

#[tokio::test]
async fn nobody_is_heard_on_a_bus_that_is_not_on_disk() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    rig.heartbeat(HERE).await;
    let block = rig.block("bus.offered.json");
    let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.dialled(), [HERE]);
    unblock(&block);
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    assert_eq!(rig.dialled(), [HERE, THERE]);
    agent.stop().await;
}

#[tokio::test]
async fn a_home_that_cannot_be_kept_is_said_and_tried_until_it_can() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    rig.heartbeat(HERE).await;
    let block = rig.block("bus.json");
    let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
    rig.reported(THERE, told).await;
    let told = rig.declare(&[THERE], Home::On(THERE)).await;
    let Outcome::Failed { reason } = rig.reported(THERE, told).await else {
        panic!("it went on though its home is not on disk");
    };
    assert!(reason.contains("stays on both"), "{reason}");
    rig.heartbeat(HERE).await;
    unblock(&block);
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), ["bus.json"]);
    agent.stop().await;
}
