//! What went wrong in other people's production between a controller, its bus and its nodes, and cannot here.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use std::time::Duration;

use mesh_bus::conformance::{self, Broken, World};
use mesh_bus::{BusError, ControllerBus, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_derive::{Bounds, Plan, derive, subject};
use mesh_model::{
    BusFacts, InstanceRecord, InstanceRef, Manifest, NodeName, NodeRecord, Placement, Principal,
    Records, Restart, Run, Sealed, Selector, Timestamp,
};
use tokio::time::timeout;

use crate::world::InProcess;

fn manifest(module: &str) -> Manifest {
    Manifest {
        module: module.parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).unwrap(),
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        emits: [].into(),
        follows: [].into(),
        can_hold: [].into(),
        sends_to: [].into(),
        health: None,
        secrets: [].into(),
    }
}

/// A node `a` with `shop`, which emits `sold`, and `clerk`, which follows it.
fn records(world: &InProcess) -> Records {
    let bus = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new("home".parse().unwrap(), bus);
    let node: NodeName = "a".parse().unwrap();
    let record = NodeRecord {
        bus: mesh_model::BusKind::Nats,
        moving: None,
        key: world.user(&Principal::Node(node.clone())),
        box_key: world.box_key(&node),
        labels: [].into(),
        token: "t".parse().unwrap(),
        enrolled: Timestamp::default(),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(node.clone(), record);
    let (mut shop, mut clerk) = (manifest("shop"), manifest("clerk"));
    shop.emits = ["sold".parse().unwrap()].into();
    clerk.follows = ["shop.sold".parse().unwrap()].into();
    for manifest in [shop, clerk] {
        let module = manifest.module.clone();
        let instance = instance(module.as_str());
        let record = InstanceRecord {
            bus: mesh_model::BusKind::Nats,
            key: world.user(&Principal::Instance(instance.clone())),
            credential: Sealed(vec![]),
            sealed_to: world.box_key(&node),
            secrets: [].into(),
            life: mesh_model::CredentialLife::default(),
        };
        let on = Selector::Nodes([node.clone()].into());
        records.instances.insert(instance, record);
        records
            .declared
            .placements
            .insert(module.clone(), Placement { on, count: None });
        records.declared.modules.insert(module, manifest);
    }
    records
}

fn instance(module: &str) -> InstanceRef {
    InstanceRef {
        module: module.parse().unwrap(),
        node: "a".parse().unwrap(),
    }
}

fn plan(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

/// A new controller starts while the old one is still bound: "already bound", for ever.
/// <https://github.com/kyma-project/kyma/issues/15215>
#[tokio::test(start_paused = true)]
async fn case_b_2cf2856_a_new_controller_takes_over_at_once_and_the_old_one_stops()
-> Result<(), Broken> {
    let world = InProcess::new();
    let (old, new) = (world.bus.controller(), world.bus.controller());
    let plan = plan(&records(&world));
    old.assert(&plan).await?;
    old.take_over().await?;
    new.take_over().await?;
    assert_eq!(new.assert(&plan).await?.written, Vec::<String>::new());
    let fenced = old.declare(&"a".parse().unwrap(), vec![]).await;
    assert!(matches!(fenced, Err(BusError::Fenced(_))), "{fenced:?}");
    new.declare(&"a".parse().unwrap(), vec![]).await?;
    // And the loop that is fenced ends, instead of trying again.
    conformance::an_idle_controller_another_took_over_from_stops(&InProcess::new()).await
}

/// A module that no longer follows goes on hearing until the server is restarted.
/// <https://github.com/nats-io/nats-server/issues/2969>
#[tokio::test(start_paused = true)]
async fn case_b_3ac667c_who_no_longer_follows_hears_no_more() {
    let world = InProcess::new();
    let mut records = records(&world);
    let controller = world.bus.controller();
    controller.assert(&plan(&records)).await.unwrap();
    let shop = world.bus.module(instance("shop")).unwrap();
    let clerk = world.bus.module(instance("clerk")).unwrap();
    let mut ear = clerk.listen(Source::Followed).await.unwrap();
    let sold = "sold".parse().unwrap();
    shop.emit(&sold, "1", vec![]).await.unwrap();
    let heard = ear.next().await;
    clerk
        .settle(&heard.receipt, ModuleSettlement::Done)
        .await
        .unwrap();
    records
        .declared
        .modules
        .insert("clerk".parse().unwrap(), manifest("clerk"));
    controller.assert(&plan(&records)).await.unwrap();
    shop.emit(&sold, "2", vec![]).await.unwrap();
    assert!(timeout(Duration::from_mins(5), ear.next()).await.is_err());
    // Nor may it settle what it had.
    let late = clerk.settle(&heard.receipt, ModuleSettlement::Done).await;
    assert!(late.is_err());
}

/// A definition that is brought again and again although nothing is another: never ready.
/// <https://github.com/nats-io/nack/issues/245>
#[tokio::test(start_paused = true)]
async fn case_b_595873b_what_is_as_it_should_be_is_not_made_again() {
    let world = InProcess::new();
    let mut plan = plan(&records(&world));
    for spec in plan.consumers.values_mut() {
        if spec.consumer.name() == "clerk" {
            let wide = "mesh.mod.*.sold".parse().unwrap();
            spec.selects = mesh_model::Selects::Only([wide].into());
        }
    }
    let controller = world.bus.controller();
    assert!(!controller.assert(&plan).await.unwrap().written.is_empty());
    for _ in 0..3 {
        let again = controller.assert(&plan).await.unwrap();
        assert_eq!(again.written, Vec::<String>::new());
    }
}

/// The broker ends a channel by mistake under load, and work is lost or done twice.
/// <https://github.com/rabbitmq/rabbitmq-server/issues/9046>
#[tokio::test(start_paused = true)]
async fn case_b_c1abd42_a_connection_that_is_lost_loses_no_work_and_names_what_comes_twice() {
    let world = InProcess::new();
    let controller = world.bus.controller();
    controller.assert(&plan(&records(&world))).await.unwrap();
    let shop = world.bus.module(instance("shop")).unwrap();
    let clerk = world.bus.module(instance("clerk")).unwrap();
    let mut ear = clerk.listen(Source::Followed).await.unwrap();
    let sold = "sold".parse().unwrap();
    for id in ["1", "2"] {
        shop.emit(&sold, id, vec![]).await.unwrap();
    }
    let first = ear.next().await;
    world.bus.set_up(false);
    let lost = clerk.settle(&first.receipt, ModuleSettlement::Done).await;
    assert!(lost.is_err(), "its sender hears that it was not settled");
    world.bus.set_up(true);
    let mut came = Vec::new();
    while let Ok(heard) = timeout(Duration::from_mins(2), ear.next()).await {
        clerk
            .settle(&heard.receipt, ModuleSettlement::Done)
            .await
            .unwrap();
        came.push(heard.id);
    }
    came.sort_unstable();
    assert_eq!(
        (first.id.as_str(), came.as_slice()),
        ("1", &["1".to_owned(), "2".to_owned()][..])
    );
    assert_eq!(
        world
            .bus
            .unsettled(&mesh_model::ConsumerRef::new(subject::events_stream(), "clerk").unwrap()),
        0
    );
}

/// A consumer that was lost is made again, and skips what waited meanwhile.
/// <https://github.com/kyma-project/kyma/issues/14371>
#[tokio::test(start_paused = true)]
async fn case_b_216f21d_a_consumer_made_again_brings_what_its_node_missed() -> Result<(), Broken> {
    let world = InProcess::new();
    conformance::a_deleted_consumer_is_made_again_and_its_node_hears_what_it_missed(&world).await
}

/// After the database is back, part of the messages is never delivered.
/// <https://github.com/wso2/product-ei/issues/5248>
#[tokio::test(start_paused = true)]
async fn case_d_8bbb43a_what_was_held_in_an_outage_is_recorded_after_it() -> Result<(), Broken> {
    conformance::a_held_report_is_recorded_when_the_store_returns(&InProcess::new()).await?;
    conformance::a_held_report_outlives_the_controller(&InProcess::new()).await
}

/// What was moved during an outage leaves a consumer behind that goes on taking messages.
/// <https://github.com/wso2/product-integrator-mi/issues/5024>
#[tokio::test(start_paused = true)]
async fn case_d_912597c_who_held_a_seat_takes_none_of_its_work_any_more() -> Result<(), Broken> {
    let world = InProcess::new();
    conformance::a_module_that_gave_up_a_seat_gets_no_more_of_its_work(&world).await
}

/// A workload that is moved runs twice for a while, because where it was could not be reached.
/// <https://github.com/eclipse-ankaios/ankaios/issues/446>
///
/// What must have one owner is a seat here: its work goes to who holds it, whoever else still runs. A module placed on
/// another node begins there at once.
#[tokio::test(start_paused = true)]
async fn case_c_0d1f0fc_work_has_one_owner_whoever_else_still_runs() -> Result<(), Broken> {
    let world = InProcess::new();
    conformance::a_module_that_gave_up_a_seat_gets_no_more_of_its_work(&world).await?;
    conformance::seat_work_sent_before_there_is_a_holder_is_worked_after_assignment(
        &InProcess::new(),
    )
    .await
}
