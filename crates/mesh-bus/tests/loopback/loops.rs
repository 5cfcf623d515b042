//! The loops at their edges: what a bus that does as promised never shows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_bus::conformance::{MemoryDisk, MemoryLedger, MemoryWorkloads, StoreMood, World};
use mesh_bus::conformance::{signer, verifier};
use mesh_bus::loopback::LoopbackController;
use mesh_bus::{
    AgentLoop, AgentParts, BusError, ControllerBus, ControllerHandle, ControllerLoop,
    ControllerParts, Ledger, Link, LoopError, NodeBus, NodeEvent, States, Workloads,
};
use mesh_control::{
    AgentSettings, Change, Command, Fact, Kept, MeshFact, Settings, Start, StoreRefusal,
};
use mesh_derive::subject;
use mesh_model::{
    Declaration, Declared, Generation, ModuleReport, ModuleState, NodeName, NodeRecord, Outcome,
    Principal, Report, ReportId, Revision, Seq, Timestamp,
};
use mesh_wire::{Mark, decode_mark, encode_report};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{InProcess, Keys, now};

type Ended = Result<(), LoopError>;

/// A mesh of one node, its controller over this store.
pub(crate) struct Mesh<L> {
    pub(crate) world: InProcess,
    pub(crate) ledger: Arc<L>,
    pub(crate) handle: ControllerHandle<Keys>,
    controller: JoinSet<Ended>,
    pub(crate) node: NodeName,
}

fn facts(world: &InProcess, node: &NodeName) -> Vec<Fact> {
    let record = NodeRecord {
        bus: mesh_model::BusKind::Nats,
        moving: None,
        key: world.user(&Principal::Node(node.clone())),
        box_key: world.box_key(node),
        labels: [].into(),
        token: "t".parse().unwrap(),
        enrolled: Timestamp::default(),
        scheduling: mesh_model::Scheduling::Open,
    };
    vec![
        Fact::Mesh(MeshFact {
            name: "proof".parse().unwrap(),
            revision: Revision(1),
            incarnation: 1,
        }),
        Fact::Node(node.clone(), record),
    ]
}

pub(crate) fn start<L: Ledger>(world: InProcess, ledger: L) -> Mesh<L> {
    let facts = facts(&world, &"a".parse().unwrap());
    start_with(world, facts, ledger)
}

fn start_with<L: Ledger>(world: InProcess, facts: Vec<Fact>, ledger: L) -> Mesh<L> {
    let node: NodeName = "a".parse().unwrap();
    let (ledger, bus) = (Arc::new(ledger), Arc::new(world.bus.controller()));
    let parts: ControllerParts<LoopbackController, L, Keys> = ControllerParts {
        kept: Kept::assemble(facts, bus.facts()),
        start: Start::Restored,
        settings: Settings::new("proof".parse().unwrap(), bus.facts()),
        bus,
        ledger: Arc::clone(&ledger),
        mint: world.mint(),
        signer: signer(),
        clock: now,
    };
    let (controller_loop, handle) = ControllerLoop::new(parts);
    let mut controller = JoinSet::new();
    controller.spawn(controller_loop.run(std::future::pending()));
    Mesh {
        world,
        ledger,
        handle,
        controller,
        node,
    }
}

impl<L: Ledger> Mesh<L> {
    pub(crate) async fn settled(&self) {
        self.until(async || self.handle.look(|core, _| core.is_settled()).await == Ok(true))
            .await;
    }

    pub(crate) async fn until(&self, so: impl AsyncFn() -> bool) {
        let waiting = async {
            while !so().await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(1), waiting).await.unwrap();
    }

    pub(crate) async fn told(&self) -> Generation {
        let node = self.node.clone();
        let told = self
            .handle
            .look(move |core, _| core.declarations()[&node].generation);
        told.await.unwrap()
    }

    async fn report(&self, seq: u64) -> Result<(), BusError> {
        let report = Report {
            id: ReportId {
                node: self.node.clone(),
                generation: self.told().await,
                seq: Seq(seq),
            },
            at: now(),
            outcome: Outcome::Converged,
            modules: [].into(),
        };
        let bus = self.world.node(&self.node).await.unwrap();
        bus.report(encode_report(&report)).await
    }

    async fn agent<W: Workloads>(&self, workloads: W) -> JoinSet<()> {
        let mut agent = JoinSet::new();
        let mut settings = AgentSettings::new(self.node.clone(), 1);
        settings.pause = 10;
        agent.spawn(
            AgentLoop::new(AgentParts {
                bus: self.world.node(&self.node).await.unwrap(),
                workloads,
                memory: MemoryDisk::default(),
                remembered: mesh_control::Remembered::default(),
                settings,
                verifier: verifier(),
                clock: now,
            })
            .run(std::future::pending()),
        );
        agent
    }
}

impl Mesh<MemoryLedger> {
    pub(crate) async fn outcome(&self, expected: Outcome) {
        let newest = || self.ledger.reports().pop().map(|report| report.outcome);
        self.until(async || newest().as_ref() == Some(&expected))
            .await;
    }
}

fn nothing_declared() -> Command {
    Command::Apply {
        declared: Declared {
            mesh: "proof".parse().unwrap(),
            modules: [].into(),
            seats: [].into(),
            placements: [].into(),
        },
        if_revision: None,
    }
}

pub(crate) fn in_memory() -> (InProcess, MemoryLedger) {
    let world = InProcess::new();
    let ledger = MemoryLedger::new(facts(&world, &"a".parse().unwrap()));
    (world, ledger)
}

#[tokio::test(start_paused = true)]
async fn a_command_is_answered_once_it_is_stored_and_true_on_the_bus() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    mesh.world.bus.set_up(false);
    let commits = mesh.ledger.commits();
    let answer = mesh.handle.command(nothing_declared(), "me".to_owned());
    tokio::pin!(answer);
    assert!(
        timeout(Duration::from_secs(30), &mut answer).await.is_err(),
        "answered while the bus was away"
    );
    assert_eq!(mesh.ledger.commits(), commits + 1);
    mesh.world.bus.set_up(true);
    timeout(Duration::from_secs(30), answer)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_the_store_refuses_is_answered_so_and_changes_nothing() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let before = mesh.ledger.facts();
    mesh.ledger.set(StoreMood::Later);
    let answer = mesh.handle.command(nothing_declared(), "me".to_owned());
    assert!(answer.await.unwrap().is_err());
    assert_eq!(mesh.ledger.facts(), before);
    mesh.ledger.set(StoreMood::Takes);
    mesh.until(async || {
        let answer = mesh.handle.command(nothing_declared(), "me".to_owned());
        answer.await.unwrap().is_ok()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_store_beyond_mending_ends_the_controller() {
    let (world, ledger) = in_memory();
    let mut mesh = start(world, ledger);
    mesh.settled().await;
    mesh.ledger.set(StoreMood::Stop);
    mesh.report(1).await.unwrap();
    let ended = mesh.controller.join_next().await.unwrap().unwrap();
    assert!(matches!(ended, Err(LoopError::Store(_))), "{ended:?}");
    assert_eq!(mesh.world.bus.stored(&subject::control_stream()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_controller_started_while_the_bus_is_away_answers_and_takes_over_when_it_returns() {
    let (world, ledger) = in_memory();
    world.bus.set_up(false);
    let mesh = start(world, ledger);
    let seen = timeout(
        Duration::from_secs(5),
        mesh.handle.look(|core, _| core.is_settled()),
    );
    assert_eq!(seen.await.unwrap(), Ok(false));
    sleep(Duration::from_secs(30)).await;
    mesh.world.bus.set_up(true);
    mesh.settled().await;
    mesh.report(1).await.unwrap();
    mesh.until(async || mesh.ledger.reports().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn the_mark_left_on_the_bus_is_the_newest_commit() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    mesh.report(1).await.unwrap();
    mesh.until(async || mesh.ledger.reports().len() == 1).await;
    let bus = mesh.world.bus.controller();
    mesh.until(async || {
        let mark = bus
            .mark()
            .await
            .unwrap()
            .map(|mark| decode_mark(&mark).unwrap());
        mark.map(|mark| mark.commit) == Some(mesh.ledger.commits())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_could_have_been_granted_to_say_is_parked_with_the_reason() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let subject = "mesh.control.other.a".parse().unwrap();
    mesh.world.bus.inject(subject, b"?".to_vec()).unwrap();
    mesh.until(async || !mesh.world.bus.parked().is_empty())
        .await;
    let parked = mesh.world.bus.parked().remove(0);
    assert_eq!(parked.subject.as_str(), "mesh.parked.control.other.a");
    assert_eq!(parked.body, b"?");
    assert!(parked.why.contains("mesh.control.other.a"), "{parked:?}");
    mesh.until(async || mesh.world.bus.stored(&subject::control_stream()) == 0)
        .await;
}

/// A store that takes long over some commits and less over others.
#[derive(Default)]
struct Uneven {
    begun: Mutex<Vec<Vec<Change>>>,
    ended: Mutex<Vec<usize>>,
}

impl Ledger for Uneven {
    async fn commit(&self, changes: Vec<Change>) -> Result<Mark, StoreRefusal> {
        let nth = {
            let mut begun = self.begun.lock().unwrap();
            begun.push(changes);
            begun.len()
        };
        sleep(Duration::from_millis(if nth % 2 == 0 { 5 } else { 50 })).await;
        self.ended.lock().unwrap().push(nth);
        Ok(Mark {
            store: [0; 16],
            commit: nth as u64,
        })
    }

    async fn reopen(&self) -> Result<Vec<Fact>, StoreRefusal> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn commits_keep_their_order_and_several_are_under_way_at_once() {
    let mesh = start(InProcess::new(), Uneven::default());
    mesh.settled().await;
    for seq in 1..=8 {
        mesh.report(seq).await.unwrap();
    }
    mesh.until(async || mesh.handle.look(|core, _| core.tally().recorded).await == Ok(8))
        .await;
    let begun = mesh.ledger.begun.lock().unwrap().clone();
    let recorded = begun.iter().flatten().filter_map(|change| match change {
        Change::Put(Fact::Report(report)) => Some(report.id.seq.0),
        _ => None,
    });
    assert!(recorded.eq(1..=8));
    let ended = mesh.ledger.ended.lock().unwrap().clone();
    assert!(!ended.is_sorted(), "one waited for another: {ended:?}");
    // Heard of in their order all the same: a mark never goes back.
    let bus = mesh.world.bus.controller();
    mesh.until(async || {
        let mark = bus.mark().await.unwrap().unwrap();
        decode_mark(&mark).unwrap().commit == begun.len() as u64
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_node_has_to_say_while_the_bus_is_away_is_recorded_when_it_returns() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let workloads = MemoryWorkloads::default();
    let _agent = mesh.agent(workloads.clone()).await;
    mesh.outcome(Outcome::Converged).await;
    mesh.world.bus.set_up(false);
    workloads.change("m".parse().unwrap(), doing(ModuleState::Starting));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(mesh.ledger.reports().len(), 1);
    mesh.world.bus.set_up(true);
    mesh.outcome(Outcome::Converging).await;
    assert_eq!(workloads.carried_out().len(), 1, "it was carried out again");
}

/// A runtime in which a module goes on while what the runtime saw of it is still on its way.
struct Hasty(watch::Sender<States>);

impl Workloads for Hasty {
    async fn carry_out(&self, _: Declaration) -> Result<States, String> {
        let seen = States::from([("m".parse().unwrap(), doing(ModuleState::Starting))]);
        self.0.send_replace(seen.clone());
        let since = States::from([("m".parse().unwrap(), doing(ModuleState::Running))]);
        self.0.send_replace(since);
        // The loop hears of the change while the declaration still counts as being carried out.
        sleep(Duration::from_secs(1)).await;
        Ok(seen)
    }

    fn states(&self) -> watch::Receiver<States> {
        self.0.subscribe()
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_a_declaration_is_carried_out_is_reported() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let _agent = mesh.agent(Hasty(watch::Sender::default())).await;
    mesh.outcome(Outcome::Converged).await;
}

/// A runtime with a mistake in it.
struct Faulty;

impl Workloads for Faulty {
    async fn carry_out(&self, _: Declaration) -> Result<States, String> {
        panic!("a mistake")
    }

    fn states(&self) -> watch::Receiver<States> {
        watch::Sender::default().subscribe()
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_what_a_loop_began_goes_on_in_the_loop() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let mut agent = mesh.agent(Faulty).await;
    let ended = timeout(Duration::from_mins(1), agent.join_next()).await;
    assert!(ended.unwrap().unwrap().unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_shut_out_before_the_store_has_what_the_plan_follows_from() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let Mesh {
        world,
        mut controller,
        ..
    } = mesh;
    controller.shutdown().await;
    world.bus.delete_stream(&subject::nodes_stream());
    // Restored from before the node was enrolled, on a disk that takes nothing yet.
    let before = MemoryLedger::new(vec![facts(&world, &"a".parse().unwrap()).remove(0)]);
    before.set(StoreMood::Later);
    let mesh = start_with(world, before.facts(), before);
    let nodes = || mesh.world.bus.stored(&subject::nodes_stream());
    mesh.until(async || nodes() > 0).await;
    sleep(Duration::from_secs(30)).await;
    let bus = mesh.world.node(&mesh.node).await.unwrap();
    bus.report(b"r".to_vec()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_was_lost_with_its_stream_is_left_again() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let bus = mesh.world.bus.controller();
    mesh.until(async || bus.mark().await.unwrap().is_some())
        .await;
    let commits = mesh.ledger.commits();
    mesh.world.bus.delete_stream(&subject::nodes_stream());
    mesh.until(async || bus.mark().await.unwrap().is_some())
        .await;
    let mark = decode_mark(&bus.mark().await.unwrap().unwrap()).unwrap();
    assert_eq!(mark.commit, commits);
    assert_eq!(mesh.ledger.commits(), commits);
}

/// A store with a mistake in it.
struct Mistaken;

impl Ledger for Mistaken {
    async fn commit(&self, _: Vec<Change>) -> Result<Mark, StoreRefusal> {
        panic!("a mistake")
    }

    async fn reopen(&self) -> Result<Vec<Fact>, StoreRefusal> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_beside_the_loop_goes_on_in_the_loop() {
    let mut mesh = start(InProcess::new(), Mistaken);
    let ended = timeout(Duration::from_mins(1), mesh.controller.join_next()).await;
    assert!(ended.unwrap().unwrap().unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_known_before_a_plan_and_nobody_who_was_removed_is_known_after_it() {
    let (world, ledger) = in_memory();
    let bus = world.node(&"a".parse().unwrap()).await.unwrap();
    let refused = bus.report(Vec::new()).await;
    assert!(
        matches!(refused, Err(BusError::Refused { .. })),
        "{refused:?}"
    );
    assert!(matches!(bus.next().await, NodeEvent::Link(Link::Down)));
    assert!(world.joiner(&"t1".parse().unwrap()).await.is_err());
    let mesh = start(world, ledger);
    mesh.settled().await;
    assert!(matches!(bus.next().await, NodeEvent::Link(Link::Up)));
    mesh.report(1).await.unwrap();
    let node = mesh.node.clone();
    let remove = Command::RemoveNode { node };
    let answer = mesh.handle.command(remove, "me".to_owned()).await;
    answer.unwrap().unwrap();
    let refused = bus.report(Vec::new()).await;
    assert!(
        matches!(refused, Err(BusError::Refused { .. })),
        "{refused:?}"
    );
    loop {
        match bus.next().await {
            NodeEvent::Link(link) => return assert_eq!(link, Link::Down),
            NodeEvent::Declared { .. } | NodeEvent::Idle => {}
            NodeEvent::Denied(why) => panic!("{why}"),
        }
    }
}

pub(crate) fn doing(state: ModuleState) -> ModuleReport {
    ModuleReport {
        release: "1".to_owned(),
        state,
        pid: None,
        restarts: 0,
        reason: None,
        image: None,
        last_exit: None,
        repairs: 0,
    }
}
