//! The host stops at any step of a move, and its agent comes up with a way to the controller.

use mesh_bus::Memory;
use mesh_control::Remembered;
use mesh_model::{BusKind, Home, Outcome};
use tokio::task::JoinSet;

use super::rig::Rig;
use super::{HERE, THERE};
use crate::{DiskMemory, Place, PlaceFiles};

/// What is on disk, in the order of a move: after each step the host may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remembers {
    Nothing,
    Here,
    Offer,
    On(BusKind),
}

#[tokio::test]
async fn whenever_the_host_stops_its_agent_reaches_the_controller() {
    use Remembers::{Here, Nothing, Offer, On};
    let mut cases = JoinSet::new();
    for case in [
        (Here, &[][..], HERE, &[][..]),
        // Kept, and not yet on its way.
        (Offer, &[], HERE, &[]),
        (Offer, &[OFFER], HERE, &[]),
        // Heard there; the record has turned, and this node does not know.
        (Offer, &[OFFER], THERE, &[HOME]),
        // Told so, and not yet at home.
        (On(THERE), &[OFFER], THERE, &[HOME]),
        // At home, and the offer's name is still there.
        (On(THERE), &[HOME, OFFER], THERE, &[HOME]),
        (On(THERE), &[HOME], THERE, &[HOME]),
        // Withdrawn, and not yet forgotten.
        (On(HERE), &[OFFER], HERE, &[]),
        (On(HERE), &[], HERE, &[]),
        // What was remembered is lost or damaged: either may be the one.
        (Nothing, &[OFFER], HERE, &[]),
        (Nothing, &[OFFER], THERE, &[HOME]),
        (Nothing, &[HOME], THERE, &[HOME]),
        // The mesh has one bus left, and this node does not know which.
        (Here, &[OFFER], HERE, &[]),
        (Here, &[OFFER], THERE, &[HOME]),
    ] {
        cases.spawn(comes_up(case));
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

const HOME: &str = "bus.json";
const OFFER: &str = "bus.offered.json";

/// What is remembered and on disk, where the node has a user, and what is on disk once it was heard there.
type Case = (
    Remembers,
    &'static [&'static str],
    BusKind,
    &'static [&'static str],
);

async fn comes_up((remembers, on_disk, user_on, then): Case) {
    let mut rig = Rig::new().await;
    let case = format!("{remembers:?} {on_disk:?} with a user on {user_on}");
    let declared = match remembers {
        Remembers::Nothing => None,
        Remembers::Here => Some(Home::Here),
        Remembers::Offer => Some(rig.offer_of(THERE)),
        Remembers::On(bus) => Some(Home::On(bus)),
    };
    let remembered = Remembered {
        declaration: declared.map(|home| rig.next_declaration(home)),
        ..Remembered::default()
    };
    let memory = DiskMemory::new(rig.dir().join("remembered.json"));
    memory.keep(&remembered).await.unwrap();
    keep(&rig, on_disk);

    rig.withdraw(user_on.other()).await;
    let agent = rig.start();
    rig.heartbeat(user_on).await;
    let home = match remembers {
        Remembers::Here => Home::Here,
        _ => Home::On(user_on),
    };
    let told = rig.declare(&[user_on], home).await;
    let outcome = rig.reported(user_on, told).await;
    assert_eq!(outcome, Outcome::Converged, "{case}");
    assert_eq!(rig.files(), then, "{case}");
    agent.stop().await;

    // And once more, from what that left.
    let agent = rig.start();
    rig.heartbeat(user_on).await;
    agent.stop().await;
}

fn keep(rig: &Rig, on_disk: &[&str]) {
    let Home::Offered(offer) = rig.offer_of(THERE) else {
        panic!("an offer");
    };
    let place = Place::of_offer(&offer, rig.box_key()).unwrap();
    let files = PlaceFiles::new(rig.dir(), rig.box_key());
    let keep_offer = || files.offer(&place, files.next_turn()).unwrap();
    if on_disk.contains(&HOME) {
        keep_offer();
        files.make_home(&place).unwrap();
    }
    if on_disk.contains(&OFFER) {
        keep_offer();
    }
    assert_eq!(rig.files(), on_disk);
}

/// It was heard there and away when it was told so; then it is asked to go back.
#[tokio::test]
async fn a_node_that_missed_where_its_home_is_hears_so_from_an_offer_of_the_bus_it_left() {
    let mut rig = Rig::new().await;
    keep(&rig, &[OFFER]);
    rig.withdraw(HERE).await;
    let agent = rig.start();
    rig.heartbeat(THERE).await;
    let _missed = rig.next_declaration(Home::On(THERE));
    let told = rig.declare(&[THERE], rig.offer_of(HERE)).await;
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    rig.grant(HERE).await;
    let told = rig.declare(&[HERE, THERE], rig.offer_of(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), [HOME, OFFER]);
    let told = rig.declare(&[HERE, THERE], Home::On(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), [HOME]);
    agent.stop().await;
}

/// Where a file is damaged, the agent runs all the same; and one of an earlier enrolment is not believed.
#[tokio::test]
async fn a_file_that_is_not_understood_keeps_no_agent_from_running() {
    let mut rig = Rig::new().await;
    for (name, text) in [("bus.json", "{"), ("bus.offered.json", "{\"version\": 9}")] {
        rig.write(name, text);
    }
    let agent = rig.start();
    let told = rig.declare(&[HERE], Home::Here).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    assert_eq!(rig.files(), ["bus.offered.unread", "bus.unread"]);
    let told = rig.declare(&[HERE, THERE], rig.offer_of(THERE)).await;
    assert_eq!(rig.reported(THERE, told).await, Outcome::Converged);
    agent.stop().await;
}

#[tokio::test]
async fn a_home_no_file_leads_to_is_said_and_what_runs_is_left_alone() {
    let mut rig = Rig::new().await;
    let agent = rig.start();
    let told = rig.declare(&[HERE], Home::On(THERE)).await;
    let Outcome::Failed { reason } = rig.reported(HERE, told).await else {
        panic!("there is no way there");
    };
    assert!(reason.contains("meshctl node rejoin"), "{reason}");
    let told = rig.declare(&[HERE], Home::On(HERE)).await;
    assert_eq!(rig.reported(HERE, told).await, Outcome::Converged);
    agent.stop().await;
}
