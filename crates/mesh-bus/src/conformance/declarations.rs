//! Claims about what nodes are told.

use mesh_control::{Command, NodeSettlement};
use mesh_derive::subject;
use mesh_model::{ConsumerRef, NodeName};
use mesh_wire::{SignedKind, encode_declaration};

use super::bench::{Bench, Mesh, declared, manifest};
use super::journal::Entry;
use super::patience::{broken, ensure, eventually, not_looked_at};
use super::stand_ins::{MemoryDisk, signer};
use super::{Broken, World};
use crate::seam::ControllerBus;

/// A declaration is acknowledged once the node's report on it is with the bus, not before.
pub async fn a_declaration_reaches_its_node_and_is_acknowledged_only_after_the_report(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    let consumer = consumer(&node)?;
    eventually("the declaration is settled", async || {
        Ok(mesh.journal.count(acknowledges) == 1 && mesh.world.unsettled(&consumer).await? == 0)
    })
    .await?;
    let told = mesh.generation(&node).await?;
    ensure(
        agent.workloads.carried_out() == [told],
        "what was carried out is not what was declared",
    )?;
    ensure(
        agent.disk.remembered().declaration.map(|d| d.generation) == Some(told),
        "the declaration is not on disk",
    )?;
    let reported = mesh.journal.first(|entry| matches!(entry, Entry::Reported));
    let acknowledged = mesh.journal.first(acknowledges);
    ensure(
        reported.is_some() && reported < acknowledged,
        "it was acknowledged before the report was with the bus",
    )
}

/// While a node is away the bus keeps the newest of what it is told, and no more.
pub async fn a_node_that_was_away_hears_only_the_newest_declaration(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    for modules in [&["m"][..], &["m", "n"][..]] {
        let manifests: Result<Vec<_>, _> = modules.iter().map(|module| manifest(module)).collect();
        let declared = declared(manifests?, &node, &[])?;
        apply(&mesh, declared).await?;
    }
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    let told = mesh.generation(&node).await?;
    eventually("the node applies the newest", async || {
        Ok(agent.seen.borrow().applied == Some(told))
    })
    .await?;
    ensure(
        agent.workloads.carried_out() == [told],
        "it was told what had been superseded",
    )
}

/// Once another controller has taken over, the earlier one declares nothing more, and stops.
pub async fn a_stale_controller_is_fenced(world: &impl World) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let newer = mesh.world.controller().await?;
    newer.take_over().await?;
    let declared = declared([manifest("m")?], &node, &[])?;
    let command = Command::Apply {
        declared,
        if_revision: None,
    };
    // It is answered or not, as the loop ends before or after.
    let _answered = mesh
        .controller
        .handle
        .command(command, "a claim".to_owned())
        .await;
    ensure(
        mesh.controller.is_fenced().await,
        "a controller went on although another had taken over",
    )
}

/// Told the same generation again, a node applies nothing and reports again: so is a lost report asked for.
pub async fn an_equal_generation_declared_again_makes_the_node_report_again(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    eventually("the declaration is settled", async || {
        Ok(mesh.journal.count(acknowledges) == 1)
    })
    .await?;
    // What it was told is lost, and so it is told the same again.
    if !mesh.world.delete_stream(&subject::nodes_stream()).await? {
        return not_looked_at();
    }
    eventually("the node reports and acknowledges again", async || {
        let reports = mesh.journal.count(|entry| matches!(entry, Entry::Reported));
        Ok(reports >= 2 && mesh.journal.count(acknowledges) >= 2)
    })
    .await?;
    mesh.control_is_empty().await?;
    ensure(
        agent.workloads.carried_out().len() == 1,
        "it was carried out again",
    )?;
    ensure(
        mesh.ledger.reports().len() == 1,
        "one report was recorded twice",
    )
}

/// What the controller did not sign changes nothing, whoever could publish it.
pub async fn an_unsigned_declaration_changes_nothing(world: &impl World) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    eventually("the declaration is settled", async || {
        Ok(mesh.journal.count(acknowledges) == 1)
    })
    .await?;
    let before = agent.disk.remembered();
    let Some(mut forged) = before.declaration.clone() else {
        return broken("the declaration is not on disk");
    };
    forged.generation = forged.generation.next(0);
    let body = signer().seal(SignedKind::EnrolmentAnswer, &encode_declaration(&forged));
    let newer = mesh.world.controller().await?;
    newer.take_over().await?;
    newer.declare(&node, body).await?;
    eventually("the node hears it", async || {
        Ok(mesh.journal.count(|entry| matches!(entry, Entry::Heard)) >= 2)
    })
    .await?;
    forged.generation = forged.generation.next(0);
    let body = signer().seal(SignedKind::Declaration, &encode_declaration(&forged));
    newer.declare(&node, body).await?;
    eventually("the node applies what is signed", async || {
        Ok(agent.seen.borrow().applied == Some(forged.generation))
    })
    .await?;
    ensure(
        agent.workloads.carried_out().len() == 2,
        "what nobody signed was carried out",
    )
}

/// A consumer deleted behind the controller's back is made again, and its node hears what it missed.
pub async fn a_deleted_consumer_is_made_again_and_its_node_hears_what_it_missed(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    eventually("the declaration is settled", async || {
        Ok(mesh.journal.count(acknowledges) == 1)
    })
    .await?;
    if !mesh.world.delete_consumer(&consumer(&node)?).await? {
        return not_looked_at();
    }
    // Nobody asks for anything: that it is gone is noticed.
    eventually(
        "the node hears through the consumer made anew",
        async || Ok(mesh.journal.count(|entry| matches!(entry, Entry::Heard)) >= 2),
    )
    .await?;
    apply(&mesh, declared([manifest("m")?], &node, &[])?).await?;
    let told = mesh.generation(&node).await?;
    eventually("the node applies what it is told", async || {
        Ok(agent.seen.borrow().applied == Some(told))
    })
    .await
}

/// The stream of declarations deleted behind the controller's back is made again, every node told anew, and the
/// controller is not fenced by its own lost epoch.
pub async fn a_deleted_stream_of_declarations_is_made_again_and_filled(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    if !mesh.world.delete_stream(&subject::nodes_stream()).await? {
        return not_looked_at();
    }
    let declared_again = |entry: &Entry| matches!(entry, Entry::Declared(of) if *of == node);
    eventually("the node is told anew", async || {
        mesh.status().await?;
        Ok(mesh.journal.count(declared_again) >= 2)
    })
    .await?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    let told = mesh.generation(&node).await?;
    eventually("the node applies what it is told", async || {
        Ok(agent.seen.borrow().applied == Some(told))
    })
    .await
}

pub(super) async fn apply<W: World>(
    mesh: &Mesh<'_, W>,
    declared: mesh_model::Declared,
) -> Result<(), Broken> {
    mesh.command(Command::Apply {
        declared,
        if_revision: None,
    })
    .await
}

fn acknowledges(entry: &Entry) -> bool {
    matches!(entry, Entry::SettlingDeclaration(NodeSettlement::Done))
}

fn consumer(node: &NodeName) -> Result<ConsumerRef, Broken> {
    ConsumerRef::new(subject::nodes_stream(), node.as_str())
        .map_err(|error| Broken(error.to_string()))
}
