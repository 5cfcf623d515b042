//! Claims about who is the controller: one at a time, and the one that took over last.

use futures_util::future::join_all;
use mesh_derive::{Bounds, Plan, derive, own_streams, subject};
use mesh_model::{Labels, NodeName, NodeRecord, Principal, Records, Timestamp};

use super::bench::Bench;
use super::patience::{ensure, eventually, name, not_looked_at};
use super::{Broken, World};
use crate::seam::{BusError, ControllerBus, NodeBus};

/// What a mesh of one node is to find on the bus.
fn one_node<W: World>(world: &W, bus: &W::Controller) -> Result<(NodeName, Plan), Broken> {
    let node: NodeName = name("a")?;
    let mut records = Records::new(name("proof")?, bus.facts());
    let record = NodeRecord {
        bus: mesh_model::BusKind::Nats,
        moving: None,
        key: world.user(&Principal::Node(node.clone())),
        box_key: world.box_key(&node),
        labels: Labels::new(),
        token: name("spent")?,
        enrolled: Timestamp::default(),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(node.clone(), record);
    Ok((node, derive(&records, &Bounds::default())))
}

/// A stream of declarations that somebody else made anew holds no epoch: the controller's begins once more, and it goes
/// on declaring.
pub async fn a_stream_of_declarations_made_anew_by_somebody_else_is_declared_into(
    world: &impl World,
) -> Result<(), Broken> {
    let controller = world.controller().await?;
    let (node, plan) = one_node(world, &controller)?;
    controller.assert(&plan).await?;
    controller.take_over().await?;
    controller.declare(&node, b"one".to_vec()).await?;
    if !world.delete_stream(&subject::nodes_stream()).await? {
        return not_looked_at();
    }
    // One that never takes over, and so begins no epoch.
    world.controller().await?.assert(&plan).await?;
    controller.assert(&plan).await?;
    controller.declare(&node, b"two".to_vec()).await?;
    ensure(
        controller.declared(&node).await?.as_deref() == Some(b"two"),
        "what was declared is not there",
    )
}

/// What is declared while the stream of declarations is made anew is put off, and is no sign of another controller.
pub async fn what_is_declared_while_its_stream_is_made_anew_is_put_off(
    world: &impl World,
) -> Result<(), Broken> {
    let controller = world.controller().await?;
    let (node, plan) = one_node(world, &controller)?;
    controller.assert(&plan).await?;
    controller.take_over().await?;
    for _ in 0..3 {
        if !world.delete_stream(&subject::nodes_stream()).await? {
            return not_looked_at();
        }
        let declaring = join_all((0..64).map(async |_| {
            let mut declared = controller.declare(&node, b"one".to_vec()).await;
            while matches!(declared, Err(BusError::Away(_))) {
                tokio::task::yield_now().await;
                declared = controller.declare(&node, b"one".to_vec()).await;
            }
            declared
        }));
        let asserting = async {
            tokio::task::yield_now().await;
            controller.assert(&plan).await
        };
        let (declared, asserted) = futures_util::future::join(declaring, asserting).await;
        asserted?;
        for declared in declared {
            declared?;
        }
    }
    Ok(())
}

/// A controller another has taken over from undoes nothing that one has brought the bus to.
pub async fn a_stale_controller_brings_the_bus_to_no_plan(
    world: &impl World,
) -> Result<(), Broken> {
    let (stale, newer) = (world.controller().await?, world.controller().await?);
    let (node, plan) = one_node(world, &stale)?;
    stale.assert(&plan).await?;
    stale.take_over().await?;
    newer.take_over().await?;
    let mut without = plan.clone();
    without.users.clear();
    let asserted = stale.assert(&without).await;
    ensure(
        matches!(asserted, Err(BusError::Fenced(_))),
        format!("it was let assert: {asserted:?}"),
    )?;
    world.node(&node).await?.report(b"r".to_vec()).await?;
    Ok(())
}

/// A controller another has taken over from leaves that one's mark as it is.
pub async fn a_stale_controller_leaves_no_mark(world: &impl World) -> Result<(), Broken> {
    let (stale, newer) = (world.controller().await?, world.controller().await?);
    let (_, plan) = one_node(world, &stale)?;
    stale.assert(&plan).await?;
    stale.take_over().await?;
    stale.leave_mark(b"stale".to_vec()).await?;
    newer.take_over().await?;
    newer.leave_mark(b"newer".to_vec()).await?;
    let left = stale.leave_mark(b"stale".to_vec()).await;
    ensure(
        matches!(left, Err(BusError::Fenced(_))),
        format!("it was let leave one: {left:?}"),
    )?;
    ensure(
        newer.mark().await?.as_deref() == Some(b"newer"),
        "the mark is another one",
    )
}

/// A controller another has taken over from stops, though it has nothing to say, before it takes what is the other's.
pub async fn an_idle_controller_another_took_over_from_stops(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    bench.node("a")?;
    let mesh = bench.run().await?;
    mesh.world.controller().await?.take_over().await?;
    ensure(
        mesh.controller.is_fenced().await,
        "a controller went on although another had taken over",
    )
}

/// Taking over needs a stream, and where that is not there it is made with nobody shut out for it.
pub async fn what_taking_over_needs_is_made_and_nothing_else_touched(
    world: &impl World,
) -> Result<(), Broken> {
    let (earlier, newer) = (world.controller().await?, world.controller().await?);
    let (node, plan) = one_node(world, &earlier)?;
    earlier.assert(&plan).await?;
    if !world.delete_stream(&subject::nodes_stream()).await? {
        return not_looked_at();
    }
    ensure(
        newer.take_over().await.is_err(),
        "there was nothing to take over",
    )?;
    newer.make_streams(&own_streams(&Bounds::default())).await?;
    newer.take_over().await?;
    world.node(&node).await?.report(b"r".to_vec()).await?;
    let asserted = newer.assert(&plan).await?;
    ensure(
        asserted.written.len() == 1,
        format!(
            "more than the node's consumer was gone: {:?}",
            asserted.written
        ),
    )
}

/// A mark that is lost with its stream is left again, though nothing was committed since.
pub async fn a_mark_lost_with_its_stream_is_left_again(world: &impl World) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    bench.node("a")?;
    let mesh = bench.run().await?;
    let bus = mesh.world.controller().await?;
    let left = async || Ok(bus.mark().await?.is_some());
    eventually("a mark is left", left).await?;
    if !mesh.world.delete_stream(&subject::nodes_stream()).await? {
        return not_looked_at();
    }
    eventually("the mark is left again", left).await
}
