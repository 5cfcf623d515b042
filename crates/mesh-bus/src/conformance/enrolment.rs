//! Claims about how a host becomes a node.

use mesh_derive::subject;
use mesh_model::{Enrolment, EnrolmentAnswer, EnrolmentRefusal, NodeName, Principal, Subject};
use mesh_wire::{SignedKind, decode_enrolment_answer, encode_enrolment};

use super::bench::{Bench, Mesh};
use super::patience::{broken, come, ensure, eventually, name};
use super::stand_ins::{MemoryDisk, verifier};
use super::{Broken, World};
use crate::seam::JoinerBus;

/// A host with a token is answered where its payload says, and by then can be a node: its consumer waits, its key is
/// known. Asked again, the answer is the same.
pub async fn the_enrolment_answer_reaches_the_address_the_request_carried_in_its_payload(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let token = bench.token("t1")?;
    let mesh = bench.run().await?;
    let joiner = mesh.world.joiner(&token).await?;
    let node: NodeName = name("new")?;
    let address = joiner.answer_address();
    let first = ask(&mesh, &joiner, &node, address.clone()).await?;
    let EnrolmentAnswer::Accepted { node: named, .. } = &first else {
        return broken(format!("the host was refused: {first:?}"));
    };
    ensure(*named == node, "the answer names another node")?;
    let again = ask(&mesh, &joiner, &node, address).await?;
    ensure(again == first, "asked again, the answer was another one")?;
    let agent = mesh.agent(&node, MemoryDisk::default()).await?;
    eventually("the new node hears its declaration", async || {
        Ok(agent.seen.borrow().applied.is_some())
    })
    .await?;
    mesh.control_is_empty().await
}

/// A request that names somebody else's inbox is refused, and the refusal goes to the joiner's own.
pub async fn an_enrolment_is_never_answered_into_a_foreign_inbox(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let victim = bench.node("a")?;
    let token = bench.token("t1")?;
    let mesh = bench.run().await?;
    let joiner = mesh.world.joiner(&token).await?;
    let foreign = subject::inbox_prefix(&Principal::Node(victim));
    let answer = ask(&mesh, &joiner, &name("new")?, foreign).await?;
    ensure(
        matches!(
            answer,
            EnrolmentAnswer::Refused(EnrolmentRefusal::ForeignAddress { .. })
        ),
        format!("it was answered: {answer:?}"),
    )?;
    let nodes = mesh.status().await?.nodes.len();
    ensure(nodes == 1, "the host became a node")?;
    mesh.control_is_empty().await
}

async fn ask<W: World>(
    mesh: &Mesh<'_, W>,
    joiner: &W::Joiner,
    node: &NodeName,
    reply: Subject,
) -> Result<EnrolmentAnswer, Broken> {
    let request = Enrolment {
        node: Some(node.clone()),
        key: mesh.world.user(&Principal::Node(node.clone())),
        box_key: mesh.world.box_key(node),
        reply,
        clock: (mesh.world.clock())(),
    };
    joiner.ask(encode_enrolment(&request)).await?;
    let body = come("the answer to an enrolment", joiner.answer()).await??;
    let body = verifier()
        .open(SignedKind::EnrolmentAnswer, &body)
        .map_err(|error| Broken(format!("the answer is not the controller's: {error}")))?;
    decode_enrolment_answer(&body).map_err(|error| Broken(error.to_string()))
}
