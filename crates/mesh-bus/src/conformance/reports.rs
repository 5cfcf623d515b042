//! Claims about what nodes say: reports, which must not be lost, and heartbeats, which may.

use std::time::Duration;

use mesh_control::Settlement;
use mesh_derive::subject;
use mesh_model::{Generation, Heartbeat, NodeName, Seq};
use mesh_wire::encode_heartbeat;

use super::bench::{AgentRun, Bench, Mesh};
use super::journal::Entry;
use super::patience::{broken, ensure, eventually, name, not_looked_at};
use super::stand_ins::{MemoryDisk, StoreMood, runs};
use super::{Broken, World};
use crate::seam::{BusError, NodeBus};

/// A node's answer to its declaration is recorded, and only then acknowledged, once.
pub async fn a_report_is_heard_recorded_and_leaves_the_queue(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let _agent = mesh.agent(&node, MemoryDisk::default()).await?;
    recorded(&mesh, 1).await?;
    mesh.control_is_empty().await?;
    let reports = mesh.ledger.reports();
    let told = mesh.generation(&node).await?;
    ensure(
        reports.iter().all(|report| report.id.generation == told),
        "the report recorded is about another declaration",
    )?;
    settled_once_after_the_commit(&mesh, &node)
}

/// While the store refuses, a report is tried again after a pause each time, and the bus keeps it.
pub async fn a_report_the_store_cannot_take_is_held_with_a_delay_and_stays_with_the_broker(
    world: &impl World,
) -> Result<(), Broken> {
    let (mesh, _agent, node) = with_a_report_held(world, Duration::from_mins(2)).await?;
    let subject = subject::report(&node);
    let held = || mesh.journal.keys(&subject).last().copied();
    eventually("the report is tried three times", async || {
        Ok(held().is_some_and(|key| mesh.journal.taken_at(key).len() >= 3))
    })
    .await?;
    let Some(key) = held() else {
        return broken("the report was never taken");
    };
    let taken = mesh.journal.taken_at(key);
    for (nth, (at, how)) in mesh.journal.settlings(key).into_iter().enumerate() {
        let Settlement::Hold(pause) = how else {
            return broken("a report that is not recorded was acknowledged");
        };
        ensure(!pause.is_zero(), "a report was held for no time at all")?;
        let Some(next) = taken.get(nth + 1) else {
            break;
        };
        let came_back = next.duration_since(at);
        ensure(
            came_back + ROUNDING >= pause,
            format!("held for {pause:?}, and came again after {came_back:?}"),
        )?;
    }
    ensure(
        mesh.waiting().await? == 1,
        "the bus does not keep the report",
    )?;
    ensure(mesh.parked().await? == 0, "it was let go before the bound")?;
    ensure(mesh.ledger.reports().len() == 1, "the store took it")
}

/// Once the store takes commits again, what is held is recorded by itself, once.
pub async fn a_held_report_is_recorded_when_the_store_returns(
    world: &impl World,
) -> Result<(), Broken> {
    let (mesh, _agent, node) = with_a_report_held(world, Duration::from_mins(2)).await?;
    mesh.ledger.set(StoreMood::Takes);
    recorded(&mesh, 2).await?;
    mesh.control_is_empty().await?;
    let held = mesh.status().await?.window.held;
    ensure(held == 0, "its window is still open")?;
    ensure(mesh.parked().await? == 0, "a copy was parked all the same")?;
    settled_once_after_the_commit(&mesh, &node)
}

/// A report that is held when its controller ends is recorded by the next one.
pub async fn a_held_report_outlives_the_controller(world: &impl World) -> Result<(), Broken> {
    let (mut mesh, _agent, node) = with_a_report_held(world, Duration::from_mins(2)).await?;
    let next = mesh.another().await?;
    std::mem::replace(&mut mesh.controller, next).stop().await;
    mesh.ledger.set(StoreMood::Takes);
    recorded(&mesh, 2).await?;
    mesh.control_is_empty().await?;
    settled_once_after_the_commit(&mesh, &node)
}

/// What a node says of an older declaration changes nothing, and is done with.
pub async fn a_report_about_a_superseded_declaration_is_settled_without_being_acted_on(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let bus = mesh.world.node(&node).await?;
    let commits = mesh.ledger.commits();
    let older = Generation {
        incarnation: 1,
        counter: 1,
    };
    mesh.report(&bus, &node, older, 1).await?;
    eventually("it is found superseded", async || {
        Ok(mesh.status().await?.tally.superseded == 1)
    })
    .await?;
    mesh.control_is_empty().await?;
    ensure(mesh.ledger.commits() == commits, "something was stored")?;
    ensure(mesh.parked().await? == 0, "it was parked")?;
    ensure(mesh.status().await?.tally.let_go == 0, "it was let go")
}

/// Past the bound a report is let go: first a copy is kept for an operator, then it is acknowledged.
pub async fn a_report_the_store_never_takes_is_let_go_once_the_bound_passes(
    world: &impl World,
) -> Result<(), Broken> {
    let bound = Duration::from_millis(900);
    let (mesh, _agent, node) = with_a_report_held(world, bound).await?;
    mesh.control_is_empty().await?;
    eventually("a copy is parked", async || Ok(mesh.parked().await? == 1)).await?;
    ensure(mesh.ledger.reports().len() == 1, "the store took it")?;
    let status = mesh.status().await?;
    ensure(status.tally.let_go == 1, "it was not counted")?;
    ensure(status.window.held == 0, "its window is still open")?;
    let subject = subject::report(&node);
    let Some(key) = mesh.journal.keys(&subject).last().copied() else {
        return broken("the report was never taken");
    };
    let parked = mesh
        .journal
        .first(|entry| matches!(entry, Entry::Parked(of) if *of == subject));
    let settled = mesh
        .journal
        .first(|entry| matches!(entry, Entry::Settling(it, Settlement::Done) if *it == key));
    ensure(
        parked.is_some() && parked < settled,
        "it was acknowledged before its copy was kept",
    )?;
    let taken = mesh.journal.taken_at(key);
    let (Some(first), Some((last, _))) = (taken.first(), mesh.journal.settlings(key).pop()) else {
        return broken("the report was never settled");
    };
    let held_for = last.duration_since(*first);
    ensure(
        held_for + ROUNDING >= bound,
        format!("the bound is {bound:?}, and it was let go after {held_for:?}"),
    )
}

/// A report that was let go is asked for again once the store is back: beyond the bound the mesh still converges.
pub async fn a_report_that_was_let_go_is_asked_for_again(world: &impl World) -> Result<(), Broken> {
    let (mesh, _agent, _node) = with_a_report_held(world, Duration::from_millis(300)).await?;
    eventually("it is let go", async || {
        Ok(mesh.status().await?.tally.let_go == 1)
    })
    .await?;
    mesh.ledger.set(StoreMood::Takes);
    recorded(&mesh, 2).await
}

/// A message nobody can read is let go at once: it would never be recorded, and it must not block the rest.
pub async fn a_message_that_cannot_be_read_is_parked_at_once(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let bus = mesh.world.node(&node).await?;
    bus.report(b"not a report".to_vec()).await?;
    eventually("a copy is parked", async || Ok(mesh.parked().await? == 1)).await?;
    mesh.control_is_empty().await?;
    ensure(mesh.ledger.reports().is_empty(), "something was recorded")
}

/// Who reports is told by the subject alone: a report that says it is another node's is nobody's.
pub async fn a_report_that_says_it_is_another_nodes_is_not_recorded(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let (node, other) = (bench.node("a")?, bench.node("b")?);
    let mesh = bench.run().await?;
    let bus = mesh.world.node(&node).await?;
    let told = mesh.generation(&other).await?;
    mesh.report(&bus, &other, told, 1).await?;
    eventually("a copy is parked", async || Ok(mesh.parked().await? == 1)).await?;
    mesh.control_is_empty().await?;
    ensure(mesh.ledger.reports().is_empty(), "it was recorded")
}

/// One that the store will never take is let go at once, and those behind it are recorded.
pub async fn a_report_the_store_refuses_for_ever_does_not_block_the_rest(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let bus = mesh.world.node(&node).await?;
    let told = mesh.generation(&node).await?;
    mesh.ledger.set(StoreMood::Never);
    mesh.report(&bus, &node, told, 1).await?;
    eventually("a copy is parked", async || Ok(mesh.parked().await? == 1)).await?;
    mesh.ledger.set(StoreMood::Takes);
    mesh.report(&bus, &node, told, 2).await?;
    recorded(&mesh, 1).await?;
    mesh.control_is_empty().await
}

/// A node that says more than is taken hears that its queue is full, and another node's queue is not.
pub async fn a_full_queue_is_heard_by_its_publisher_and_by_nobody_else(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let (node, other) = (bench.node("a")?, bench.node("b")?);
    bench.settings.bounds.control_per_subject = 4;
    let mesh = bench.run().await?;
    let (bus, beside) = (
        mesh.world.node(&node).await?,
        mesh.world.node(&other).await?,
    );
    let told = mesh.generation(&node).await?;
    mesh.ledger.set(StoreMood::Later);
    for seq in 1..=4 {
        mesh.report(&bus, &node, told, seq).await?;
    }
    let fifth = mesh.report(&bus, &node, told, 5).await;
    ensure(
        matches!(fifth, Err(BusError::Full(_))),
        format!("four may wait, and a fifth: {fifth:?}"),
    )?;
    let told = mesh.generation(&other).await?;
    mesh.report(&beside, &other, told, 1).await?;
    mesh.ledger.set(StoreMood::Takes);
    mesh.control_is_empty().await
}

/// A sign of life is heard, and nothing is stored by anybody.
pub async fn a_heartbeat_is_heard_and_nothing_is_persisted(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let bus = mesh.world.node(&node).await?;
    let (commits, facts) = (mesh.ledger.commits(), mesh.ledger.facts());
    let heartbeat = Heartbeat {
        node: node.clone(),
        session: 1,
        applied: Some(mesh.generation(&node).await?),
        seq: Seq(0),
        deaf: false,
        version: "1".to_owned(),
        doing: [].into(),
    };
    // It may be lost, and so is said until it is heard.
    eventually("a heartbeat is heard", async || {
        bus.heartbeat(encode_heartbeat(&heartbeat)).await?;
        Ok(mesh.status().await?.tally.heartbeats > 0)
    })
    .await?;
    let status = mesh.status().await?;
    let heard = status.nodes.iter().find(|seen| seen.node == node);
    ensure(
        heard.is_some_and(|seen| seen.heard_ago.is_some()),
        "the node does not count as heard",
    )?;
    ensure(mesh.waiting().await? == 0, "it waits in a queue")?;
    ensure(mesh.parked().await? == 0, "it was parked")?;
    let same = mesh.ledger.commits() == commits && mesh.ledger.facts() == facts;
    ensure(same, "it was stored")
}

/// A mesh whose node's second report the store refuses.
async fn with_a_report_held<W: World>(
    world: &W,
    bound: Duration,
) -> Result<(Mesh<'_, W>, AgentRun, NodeName), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    bench.settings.window.bound = bound;
    bench.settings.ask_again = 500;
    let mesh = bench.run().await?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    recorded(&mesh, 1).await?;
    mesh.control_is_empty().await?;
    mesh.ledger.set(StoreMood::Later);
    agent.workloads.change(name("m")?, runs("1".to_owned()));
    eventually("a report is held", async || {
        let settled = |entry: &Entry| matches!(entry, Entry::Settling(_, Settlement::Hold(_)));
        Ok(mesh.journal.count(settled) > 0)
    })
    .await?;
    Ok((mesh, agent, node))
}

async fn recorded<W: World>(mesh: &Mesh<'_, W>, reports: usize) -> Result<(), Broken> {
    eventually("the report is recorded", async || {
        mesh.status().await?;
        Ok(mesh.ledger.reports().len() == reports)
    })
    .await
}

/// Each of a node's reports was acknowledged once, and after the commit that records it.
fn settled_once_after_the_commit<W: World>(
    mesh: &Mesh<'_, W>,
    node: &NodeName,
) -> Result<(), Broken> {
    let keys = mesh.journal.keys(&subject::report(node));
    let commits: Vec<usize> = mesh
        .journal
        .all()
        .iter()
        .enumerate()
        .filter(|(_, (_, entry))| records_a_report(entry))
        .map(|(nth, _)| nth)
        .collect();
    ensure(
        commits.len() == keys.len(),
        format!(
            "{} reports and {} commits of one",
            keys.len(),
            commits.len()
        ),
    )?;
    for (key, commit) in keys.into_iter().zip(commits) {
        let done =
            |entry: &Entry| matches!(entry, Entry::Settling(it, Settlement::Done) if *it == key);
        ensure(
            mesh.journal.count(done) == 1,
            format!(
                "{key:?} was acknowledged {} times",
                mesh.journal.count(done)
            ),
        )?;
        ensure(
            mesh.journal.first(done) > Some(commit),
            format!("{key:?} was acknowledged before it was stored"),
        )?;
    }
    Ok(())
}

fn records_a_report(entry: &Entry) -> bool {
    use mesh_control::{Change, Fact};
    let Entry::Committed(changes) = entry else {
        return false;
    };
    changes
        .iter()
        .any(|change| matches!(change, Change::Put(Fact::Report(_))))
}

/// How much earlier than told a bus may come back: it counts in milliseconds, and the two clocks are not one.
const ROUNDING: Duration = Duration::from_millis(20);

/// What arrives in a queue that was deleted and made anew is never taken for a message known from before.
pub async fn a_report_in_a_queue_made_anew_is_a_new_one(world: &impl World) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let bus = mesh.world.node(&node).await?;
    let told = mesh.generation(&node).await?;
    mesh.report(&bus, &node, told, 1).await?;
    mesh.control_is_empty().await?;
    if !mesh.world.delete_stream(&subject::control_stream()).await? {
        return not_looked_at();
    }
    eventually("the queue is there again", async || {
        Ok(mesh.report(&bus, &node, told, 2).await.is_ok())
    })
    .await?;
    let of = subject::report(&node);
    eventually(
        "both reports were taken, each under a key of its own",
        async || Ok(mesh.journal.keys(&of).len() == 2),
    )
    .await
}
