//! Declarations that take long to carry out: what is said meanwhile, and what becomes of those that are overtaken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_bus::conformance::{MemoryDisk, World, verifier};
use mesh_bus::{AgentLoop, AgentParts, Doing, Seen, States, Workloads};
use mesh_control::{AgentSettings, Command, Remembered};
use mesh_model::{
    Declaration, Declared, Generation, Manifest, ModuleState, Outcome, Placement, Restart, Run,
    Selector,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::loops::{Mesh, doing, in_memory, start};
use crate::world::now;

/// A runtime that takes minutes over each declaration, unless a newer one comes.
#[derive(Clone)]
struct Slow(Arc<Work>);

struct Work {
    takes: Duration,
    states: watch::Sender<States>,
    doing: watch::Sender<Doing>,
    newest: watch::Sender<Option<Generation>>,
    done: Mutex<Vec<Generation>>,
}

impl Slow {
    fn new(takes: Duration, found: States) -> Self {
        Self(Arc::new(Work {
            takes,
            states: watch::Sender::new(found),
            doing: watch::Sender::default(),
            newest: watch::Sender::default(),
            done: Mutex::default(),
        }))
    }

    fn done(&self) -> Vec<Generation> {
        self.0.done.lock().unwrap().clone()
    }
}

impl Workloads for Slow {
    async fn carry_out(&self, declaration: Declaration) -> Result<States, String> {
        let (work, generation) = (&self.0, declaration.generation);
        work.newest.send_if_modified(|newest| {
            let newer = *newest < Some(generation);
            *newest = (*newest).max(Some(generation));
            newer
        });
        let mut newest = work.newest.subscribe();
        let states = |state| {
            let modules = declaration.workloads.iter();
            let modules = modules.map(|workload| (workload.module.clone(), doing(state)));
            modules.collect::<States>()
        };
        if !declaration.workloads.is_empty() {
            work.states.send_replace(states(ModuleState::Pulling));
            let line = format!("pulling for {generation}");
            work.doing
                .send_replace(BTreeMap::from([("m".parse().unwrap(), line)]));
        }
        let overtaken = newest.wait_for(|newest| *newest > Some(generation));
        tokio::select! {
            _ = overtaken => return Ok(work.states.borrow().clone()),
            () = sleep(work.takes) => {}
        }
        work.doing.send_replace(Doing::new());
        let ran = states(ModuleState::Running);
        work.states.send_replace(ran.clone());
        work.done.lock().unwrap().push(generation);
        Ok(ran)
    }

    fn states(&self) -> watch::Receiver<States> {
        self.0.states.subscribe()
    }

    fn doing(&self) -> watch::Receiver<Doing> {
        self.0.doing.subscribe()
    }
}

/// A runtime that never comes to an end, and touches nothing.
struct Silent(watch::Sender<States>);

impl Workloads for Silent {
    async fn carry_out(&self, _: Declaration) -> Result<States, String> {
        std::future::pending().await
    }

    fn states(&self) -> watch::Receiver<States> {
        self.0.subscribe()
    }
}

/// Module `m` in this release on node `a`, or nothing.
fn release(release: Option<u64>) -> Command {
    let manifest = |release: u64| Manifest {
        module: "m".parse().unwrap(),
        release: release.to_string(),
        run: Run::command(["serve".to_owned()]).unwrap(),
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
        health: None,
        secrets: [].into(),
    };
    let on = Selector::Nodes(["a".parse().unwrap()].into());
    let placement = Placement { on, count: None };
    let modules = release.map(|release| ("m".parse().unwrap(), manifest(release)));
    let placements = release.map(|_| ("m".parse().unwrap(), placement));
    Command::Apply {
        declared: Declared {
            mesh: "proof".parse().unwrap(),
            modules: modules.into_iter().collect(),
            seats: [].into(),
            placements: placements.into_iter().collect(),
        },
        if_revision: None,
    }
}

type Ledger = mesh_bus::conformance::MemoryLedger;

async fn apply(mesh: &Mesh<Ledger>, number: Option<u64>) {
    let answer = mesh.handle.command(release(number), "me".to_owned());
    answer.await.unwrap().unwrap();
}

/// An agent of node `a` that goes on from this disk.
async fn agent<W: Workloads>(
    mesh: &Mesh<Ledger>,
    workloads: W,
    disk: &MemoryDisk,
    session: u64,
) -> (JoinSet<()>, watch::Receiver<Seen>) {
    let mut settings = AgentSettings::new(mesh.node.clone(), session);
    settings.progress = 10_000;
    let remembered: Remembered = disk.remembered();
    let agent_loop = AgentLoop::new(AgentParts {
        bus: mesh.world.node(&mesh.node).await.unwrap(),
        workloads,
        memory: disk.clone(),
        remembered,
        settings,
        verifier: verifier(),
        clock: now,
    });
    let seen = agent_loop.seen();
    let mut agent = JoinSet::new();
    agent.spawn(agent_loop.run(std::future::pending()));
    (agent, seen)
}

async fn mesh() -> Mesh<Ledger> {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    mesh
}

#[tokio::test(start_paused = true)]
async fn of_twenty_rapid_declarations_the_last_is_what_runs() {
    let mesh = mesh().await;
    let slow = Slow::new(Duration::from_mins(5), States::new());
    let disk = MemoryDisk::default();
    let (_agent, seen) = agent(&mesh, slow.clone(), &disk, 1).await;
    for number in 1..=20 {
        apply(&mesh, Some(number)).await;
        sleep(Duration::from_millis(300)).await;
    }
    let last = mesh.told().await;
    assert_eq!(slow.done(), [], "each was overtaken");
    sleep(Duration::from_mins(6)).await;
    assert_eq!(slow.done(), [last]);
    assert_eq!(seen.borrow().applied, Some(last));
    mesh.outcome(Outcome::Converged).await;
    let reports = mesh.ledger.reports();
    assert!(reports.iter().all(|it| it.id.generation <= last));
    let nodes = mesh_derive::subject::nodes_stream();
    let own = mesh_model::ConsumerRef::new(nodes, "a").unwrap();
    assert_eq!(mesh.world.bus.unsettled(&own), 0, "all are acknowledged");
}

#[tokio::test(start_paused = true)]
async fn a_pull_longer_than_the_ack_wait_is_seen_from_afar_and_comes_once() {
    let mesh = mesh().await;
    let slow = Slow::new(Duration::from_mins(20), States::new());
    let disk = MemoryDisk::default();
    let (_agent, seen) = agent(&mesh, slow.clone(), &disk, 1).await;
    apply(&mesh, Some(1)).await;
    let told = mesh.told().await;
    let nodes = mesh_derive::subject::nodes_stream();
    let own = mesh_model::ConsumerRef::new(nodes, "a").unwrap();
    for minute in 1..20 {
        sleep(Duration::from_mins(1)).await;
        let status = mesh.handle.look(mesh_control::Controller::status).await;
        let node = status.unwrap().nodes.remove(0);
        assert_eq!(node.state, mesh_control::NodeState::Converging, "{minute}");
        let lines: Vec<&String> = node.doing.values().collect();
        assert_eq!(lines, [&format!("pulling for {told}")]);
        assert_eq!(
            node.modules[&"m".parse().unwrap()].state,
            ModuleState::Pulling
        );
        assert_eq!(mesh.world.bus.unsettled(&own), 1);
    }
    assert_eq!(mesh.told().await, told);
    assert_eq!(slow.done(), []);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(
        (slow.done(), seen.borrow().applied),
        (vec![told], Some(told))
    );
    mesh.outcome(Outcome::Converged).await;
    // One said that it pulls, and one that it runs: whatever came in between changed no state.
    let of_it = |it: &&mesh_model::Report| it.id.generation == told;
    assert_eq!(mesh.ledger.reports().iter().filter(of_it).count(), 2);
    assert_eq!(mesh.world.bus.unsettled(&own), 0);
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_finds_running_is_said_although_its_first_work_takes_long() {
    let mesh = mesh().await;
    let disk = MemoryDisk::default();
    let quick = Slow::new(Duration::ZERO, States::new());
    let (mut first, _) = agent(&mesh, quick, &disk, 1).await;
    apply(&mesh, Some(1)).await;
    mesh.outcome(Outcome::Converged).await;
    first.shutdown().await;
    let found = States::from([("m".parse().unwrap(), doing(ModuleState::Running))]);
    let newest = mesh.ledger.reports().pop().unwrap().id.seq;
    let silent = Silent(watch::Sender::new(found.clone()));
    let (_second, _) = agent(&mesh, silent, &disk, 2).await;
    mesh.outcome(Outcome::Converging).await;
    let report = mesh.ledger.reports().pop().unwrap();
    assert!(report.id.seq > newest);
    assert_eq!(report.modules, found);
}

#[tokio::test(start_paused = true)]
async fn a_module_removed_while_its_node_was_away_for_a_week_is_gone_when_it_returns() {
    let mesh = mesh().await;
    let disk = MemoryDisk::default();
    let quick = || Slow::new(Duration::ZERO, States::new());
    let (mut before, _) = agent(&mesh, quick(), &disk, 1).await;
    apply(&mesh, Some(1)).await;
    mesh.outcome(Outcome::Converged).await;
    before.shutdown().await;
    sleep(Duration::from_hours(1)).await;
    apply(&mesh, None).await;
    // At one go: nobody needs to live through each of its moments.
    tokio::time::advance(Duration::from_hours(7 * 24)).await;
    let found = States::from([("m".parse().unwrap(), doing(ModuleState::Running))]);
    let returned = Slow::new(Duration::from_secs(2), found);
    let (_agent, seen) = agent(&mesh, returned.clone(), &disk, 2).await;
    let told = mesh.told().await;
    mesh.until(async || seen.borrow().applied == Some(told))
        .await;
    assert_eq!(returned.done().last(), Some(&told));
    assert!(
        returned.0.states.borrow().is_empty(),
        "it does not run any more"
    );
    mesh.outcome(Outcome::Converged).await;
    assert!(mesh.ledger.reports().pop().unwrap().modules.is_empty());
}
