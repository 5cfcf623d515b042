//! One mesh on two buses: a real controller over both, modules and nodes on either.

mod large;
mod starting;

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::conformance::{MemoryLedger, World, signer};
use mesh_bus::loopback::{Loopback, LoopbackListener, LoopbackModule, LoopbackNode};
use mesh_bus::{
    Both, BusError, ControllerBus, ControllerHandle, ControllerLoop, ControllerParts, Incoming,
    Link, Listener, LoopError, ModuleBus, ModuleSettlement, NodeBus, NodeEvent, Source,
};
use mesh_control::{Command, Fact, Kept, MeshFact, Settings, Start};
use mesh_derive::subject;
use mesh_model::{
    BusFacts, BusKind, BusPlace, ConsumerRef, Declared, Heartbeat, InstanceRef, Manifest, NodeName,
    NodeRecord, Outcome, Placement, Principal, PublicKey, Records, Report, ReportId, Restart,
    Revision, Run, SeatName, Selector, Seq, Timestamp,
};
use mesh_wire::{encode_heartbeat, encode_report};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{InProcess, Keys, now};

/// Nodes `a` and `c` on NATS, `b` on AMQP, and a controller over both.
struct Mesh {
    nats: Loopback,
    amqp: Loopback,
    world: InProcess,
    ledger: Arc<MemoryLedger>,
    handle: ControllerHandle<Keys>,
    _controller: JoinSet<Result<(), LoopError>>,
}

fn facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

fn settings() -> Settings {
    let mut settings = Settings::new("proof".parse().unwrap(), facts());
    settings.retry = 100;
    for bus in BusKind::ALL {
        let place = BusPlace {
            urls: vec![format!("{bus}://here")],
            ca: None,
            facts: facts(),
        };
        settings.places.insert(bus, place);
    }
    settings
}

fn start(settings: Settings) -> Mesh {
    let world = InProcess::new();
    let nats = Loopback::standing_for(BusKind::Nats, facts());
    let amqp = Loopback::standing_for(BusKind::Amqp, facts());
    let mut kept = vec![Fact::Mesh(MeshFact {
        name: "proof".parse().unwrap(),
        revision: Revision(1),
        incarnation: 1,
    })];
    for (node, bus) in [
        ("a", BusKind::Nats),
        ("b", BusKind::Amqp),
        ("c", BusKind::Nats),
    ] {
        let node: NodeName = node.parse().unwrap();
        let record = NodeRecord {
            bus,
            moving: None,
            key: world.user(&Principal::Node(node.clone())),
            box_key: world.box_key(&node),
            labels: [].into(),
            token: "t".parse().unwrap(),
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        kept.push(Fact::Node(node, record));
    }
    let ledger = Arc::new(MemoryLedger::new(kept.clone()));
    let (controller, handle) = ControllerLoop::new(ControllerParts {
        bus: Arc::new(Both::new(nats.controller(), amqp.controller())),
        ledger: Arc::clone(&ledger),
        kept: Kept::assemble(kept, facts()),
        start: Start::Restored,
        settings,
        mint: world.mint(),
        signer: signer(),
        clock: now,
    });
    let mut running = JoinSet::new();
    running.spawn(controller.run(std::future::pending()));
    Mesh {
        nats,
        amqp,
        world,
        ledger,
        handle,
        _controller: running,
    }
}

/// `shop`, `clerk` and `hand`, each on a node: `shop` sells and sends work to the desk, the two others follow and can
/// hold it; `hand` does.
fn declared(shop: &str, clerk: &str, hand: &str) -> Declared {
    let mut declared = Declared {
        mesh: "proof".parse().unwrap(),
        modules: [].into(),
        seats: [(
            "desk".parse().unwrap(),
            Some("hand".parse().unwrap()).into(),
        )]
        .into(),
        placements: [].into(),
    };
    for (module, node) in [("shop", shop), ("clerk", clerk), ("hand", hand)] {
        let sells = module == "shop";
        let only = |is: bool, what: &str| if is { vec![what.to_owned()] } else { vec![] };
        let manifest = Manifest {
            module: module.parse().unwrap(),
            release: "1".to_owned(),
            run: Run::command(["true".to_owned()]).unwrap(),
            after: [].into(),
            env: [].into(),
            restart: Restart::Always,
            emits: parsed(only(sells, "sold")),
            follows: parsed(only(!sells, "shop.sold")),
            can_hold: parsed(only(!sells, "desk")),
            sends_to: parsed(only(sells, "desk")),
            health: None,
            secrets: [].into(),
        };
        let on = Selector::Nodes([node.parse().unwrap()].into());
        declared
            .placements
            .insert(manifest.module.clone(), Placement { on, count: None });
        declared.modules.insert(manifest.module.clone(), manifest);
    }
    declared
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug> + Ord>(
    all: Vec<String>,
) -> std::collections::BTreeSet<T> {
    all.iter().map(|text| text.parse().unwrap()).collect()
}

fn instance(text: &str) -> InstanceRef {
    let (module, node) = text.split_once('@').unwrap();
    InstanceRef {
        module: module.parse().unwrap(),
        node: node.parse().unwrap(),
    }
}

fn desk() -> SeatName {
    "desk".parse().unwrap()
}

impl Mesh {
    async fn command(&self, command: Command) {
        let answer = self.handle.command(command, "me".to_owned());
        let answered = timeout(Duration::from_mins(1), answer).await;
        answered.expect("no answer").unwrap().unwrap();
        self.settled().await;
    }

    async fn apply(&self, declared: Declared) {
        self.command(Command::Apply {
            declared,
            if_revision: None,
        })
        .await;
    }

    async fn assign(&self, holder: &str) {
        self.command(Command::Assign {
            seat: desk(),
            holder: Some(holder.parse().unwrap()),
        })
        .await;
    }

    async fn settled(&self) {
        self.until(async || self.handle.look(|core, _| core.is_settled()).await == Ok(true))
            .await;
    }

    async fn until(&self, so: impl AsyncFn() -> bool) {
        let waiting = async {
            while !so().await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(5), waiting).await.unwrap();
    }

    async fn records(&self) -> Records {
        let records = self.handle.look(|core, _| core.records().clone());
        records.await.unwrap()
    }

    async fn record(&self, node: &str) -> NodeRecord {
        self.records().await.nodes[&node.parse::<NodeName>().unwrap()].clone()
    }

    async fn report(&self, node: &str, bus: &LoopbackNode, seq: u64) -> Result<(), BusError> {
        let node: NodeName = node.parse().unwrap();
        let asked = node.clone();
        let told = self
            .handle
            .look(move |core, _| core.declarations()[&asked].generation);
        let report = Report {
            id: ReportId {
                node,
                generation: told.await.unwrap(),
                seq: Seq(seq),
            },
            at: now(),
            outcome: Outcome::Converged,
            modules: [].into(),
        };
        bus.report(encode_report(&report)).await
    }

    fn node(&self, on: &Loopback, node: &str) -> LoopbackNode {
        let node: NodeName = node.parse().unwrap();
        let key = self.world.user(&Principal::Node(node.clone()));
        on.node(node, key)
    }
}

async fn emit(shop: &LoopbackModule, id: &str) {
    let sold = "sold".parse().unwrap();
    let body = id.as_bytes().to_vec();
    shop.emit(&sold, id, body).await.unwrap();
}

async fn send(shop: &LoopbackModule, id: &str) {
    let body = id.as_bytes().to_vec();
    shop.send(&desk(), id, body).await.unwrap();
}

type Heard = Incoming<mesh_bus::loopback::Receipt>;

async fn heard(ear: &mut LoopbackListener) -> Option<Heard> {
    timeout(Duration::from_mins(5), ear.next()).await.ok()
}

/// Hears and settles, until nothing comes for long; the ids.
async fn all(module: &LoopbackModule, ear: &mut LoopbackListener) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some(heard) = heard(ear).await {
        assert_eq!(heard.body, heard.id.as_bytes());
        module
            .settle(&heard.receipt, ModuleSettlement::Done)
            .await
            .unwrap();
        ids.push(heard.id);
    }
    ids
}

fn followed(module: &str) -> ConsumerRef {
    ConsumerRef::new(subject::events_stream(), module).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_heard_on_the_other_bus_once_as_what_it_was_where_it_was_emitted() {
    for (shop_on, clerk_on) in [("a", "b"), ("b", "a")] {
        let mesh = start(settings());
        mesh.apply(declared(shop_on, clerk_on, "c")).await;
        let bus = |node: &str| if node == "b" { &mesh.amqp } else { &mesh.nats };
        let shop = bus(shop_on).module(instance(&format!("shop@{shop_on}")));
        let clerk = bus(clerk_on).module(instance(&format!("clerk@{clerk_on}")));
        let (shop, clerk) = (shop.unwrap(), clerk.unwrap());
        let mut ear = clerk.listen(Source::Followed).await.unwrap();
        emit(&shop, "1").await;
        let first = heard(&mut ear).await.unwrap();
        assert_eq!(
            (first.id.as_str(), first.subject.as_str()),
            ("1", "mesh.mod.shop.sold")
        );
        clerk
            .settle(&first.receipt, ModuleSettlement::Done)
            .await
            .unwrap();
        assert!(heard(&mut ear).await.is_none(), "it came twice");
        for bus in [&mesh.nats, &mesh.amqp] {
            assert_eq!(bus.unsettled(&followed("clerk")), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_reaches_the_holder_on_the_other_bus_in_its_senders_name() {
    let mesh = start(settings());
    mesh.apply(declared("a", "c", "b")).await;
    let shop = mesh.nats.module(instance("shop@a")).unwrap();
    let hand = mesh.amqp.module(instance("hand@b")).unwrap();
    let mut ear = hand.listen(Source::Seat(desk())).await.unwrap();
    send(&shop, "w").await;
    let work = heard(&mut ear).await.unwrap();
    assert_eq!(
        (work.id.as_str(), work.subject.as_str()),
        ("w", "mesh.seat.desk.shop")
    );
    let done = hand.settle(&work.receipt, ModuleSettlement::Done).await;
    done.unwrap();
    mesh.until(async || {
        let stored = [&mesh.nats, &mesh.amqp].map(|bus| bus.stored(&subject::seat_stream(&desk())));
        stored == [0, 0]
    })
    .await;
    assert!(heard(&mut ear).await.is_none(), "it came twice");
}

#[tokio::test(start_paused = true)]
async fn a_seat_handed_to_the_other_bus_and_back_loses_no_work_and_has_one_holder() {
    let mesh = start(settings());
    // The sender is on the bus of the first holder, so what is left goes there and back.
    mesh.apply(declared("c", "b", "a")).await;
    let shop = mesh.nats.module(instance("shop@c")).unwrap();
    let hand = mesh.nats.module(instance("hand@a")).unwrap();
    let clerk = mesh.amqp.module(instance("clerk@b")).unwrap();
    let mut hand_ear = hand.listen(Source::Seat(desk())).await.unwrap();
    let mut clerk_ear = clerk.listen(Source::Seat(desk())).await.unwrap();
    let ids: Vec<String> = (0..30).map(|at| format!("w{at}")).collect();
    for id in &ids[..20] {
        send(&shop, id).await;
    }
    let mut done = Vec::new();
    for _ in 0..5 {
        let work = heard(&mut hand_ear).await.unwrap();
        hand.settle(&work.receipt, ModuleSettlement::Done)
            .await
            .unwrap();
        done.push(work.id);
    }
    // One more is in its hands, and never settled.
    let unsettled = heard(&mut hand_ear).await.unwrap();
    mesh.assign("clerk").await;
    let late = hand
        .settle(&unsettled.receipt, ModuleSettlement::Done)
        .await;
    assert!(late.is_err(), "it holds the seat no more");
    let mut first = Vec::new();
    for _ in 0..5 {
        let work = heard(&mut clerk_ear).await.unwrap();
        clerk
            .settle(&work.receipt, ModuleSettlement::Done)
            .await
            .unwrap();
        first.push(work.id);
    }
    done.extend(first);
    assert!(
        timeout(Duration::from_secs(30), hand_ear.next())
            .await
            .is_err()
    );
    // And back, well within the two minutes a bus knows an id for: what is left was there before.
    mesh.assign("hand").await;
    for id in &ids[20..] {
        send(&shop, id).await;
    }
    done.extend(all(&hand, &mut hand_ear).await);
    assert!(heard(&mut clerk_ear).await.is_none());
    done.sort();
    done.dedup();
    let mut expected = ids;
    expected.sort();
    assert_eq!(done, expected);
}

#[tokio::test(start_paused = true)]
async fn work_for_a_queue_that_is_full_waits_where_it_was_sent() {
    let mut settings = settings();
    settings.bounds.seat_bytes = 60;
    let mesh = start(settings);
    mesh.apply(declared("a", "c", "b")).await;
    let shop = mesh.nats.module(instance("shop@a")).unwrap();
    let hand = mesh.amqp.module(instance("hand@b")).unwrap();
    let work = subject::work(&desk(), &"shop".parse().unwrap());
    mesh.amqp.inject(work.clone(), vec![0; 30]).unwrap();
    send(&shop, "w").await;
    sleep(Duration::from_secs(90)).await;
    let seat = subject::seat_stream(&desk());
    assert_eq!((mesh.nats.stored(&seat), mesh.amqp.stored(&seat)), (1, 1));
    let mut ear = hand.listen(Source::Seat(desk())).await.unwrap();
    let filler = heard(&mut ear).await.unwrap();
    let settled = hand.settle(&filler.receipt, ModuleSettlement::Done).await;
    settled.unwrap();
    assert_eq!(all(&hand, &mut ear).await, ["w"]);
    assert_eq!((mesh.nats.stored(&seat), mesh.amqp.stored(&seat)), (0, 0));
}

/// The key a node is to prove itself with.
fn offered(record: &NodeRecord) -> PublicKey {
    match &record.moving {
        Some(mesh_model::Moving::Proving { key, .. }) => key.clone(),
        other => panic!("{other:?}"),
    }
}

/// Waits until a node is told something over this bus.
async fn told(node: &LoopbackNode) -> Vec<u8> {
    let told = async {
        loop {
            if let NodeEvent::Declared { body, receipt } = node.next().await {
                node.settle(&receipt, mesh_bus::NodeSettlement::Done)
                    .await
                    .unwrap();
                return body;
            }
        }
    };
    timeout(Duration::from_mins(1), told).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_reports_over_the_bus_it_is_offered_moves_there_and_what_waited_comes_after_it()
{
    let mesh = start(settings());
    mesh.apply(declared("c", "a", "a")).await;
    let shop = mesh.nats.module(instance("shop@c")).unwrap();
    for id in ["1", "2", "3"] {
        emit(&shop, id).await;
        send(&shop, id).await;
    }
    let before = mesh.records().await;
    let there = mesh.node(&mesh.nats, "a");
    let _earlier = told(&there).await;
    let node: NodeName = "a".parse().unwrap();
    let to = BusKind::Amqp;
    mesh.command(Command::Move {
        node: node.clone(),
        to,
    })
    .await;
    let here = mesh
        .amqp
        .node(node.clone(), offered(&mesh.record("a").await));
    assert_eq!(told(&there).await, told(&here).await);
    mesh.report("a", &there, 1).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(mesh.record("a").await.bus, BusKind::Nats);

    mesh.report("a", &here, 1).await.unwrap();
    mesh.until(async || {
        let record = mesh.record("a").await;
        record.bus == BusKind::Amqp && record.moving.is_none()
    })
    .await;
    mesh.settled().await;
    assert!(matches!(
        there.report(vec![]).await,
        Err(BusError::Refused { .. })
    ));
    assert!(matches!(there.next().await, NodeEvent::Link(Link::Down)));
    let body = told(&here).await;
    assert_eq!(mesh.amqp.controller().declared(&node).await, Ok(Some(body)));
    let after = mesh.records().await;
    for of in ["clerk@a", "hand@a"].map(instance) {
        assert_ne!(after.instances[&of].key, before.instances[&of].key);
        assert!(mesh.nats.module(of.clone()).is_err());
    }
    let clerk = mesh.amqp.module(instance("clerk@a")).unwrap();
    let mut ear = clerk.listen(Source::Followed).await.unwrap();
    assert_eq!(all(&clerk, &mut ear).await, ["1", "2", "3"]);
    let hand = mesh.amqp.module(instance("hand@a")).unwrap();
    let mut ear = hand.listen(Source::Seat(desk())).await.unwrap();
    assert_eq!(all(&hand, &mut ear).await, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_heard_on_the_other_bus_stays_where_it_is() {
    let mesh = start(settings());
    mesh.apply(declared("c", "a", "a")).await;
    let before = mesh.records().await;
    let node: NodeName = "a".parse().unwrap();
    let to = BusKind::Amqp;
    mesh.command(Command::Move {
        node: node.clone(),
        to,
    })
    .await;
    let here = mesh
        .amqp
        .node(node.clone(), offered(&mesh.record("a").await));
    let _offer = told(&here).await;
    sleep(Duration::from_secs(125)).await;
    mesh.settled().await;
    let after = mesh.records().await;
    assert_eq!(after.nodes[&node], before.nodes[&node]);
    assert_eq!(after.instances, before.instances);
    let late = mesh.report("a", &here, 1).await;
    assert!(matches!(late, Err(BusError::Refused { .. })), "{late:?}");
    let there = mesh.node(&mesh.nats, "a");
    let _withdrawn = told(&there).await;
    mesh.report("a", &there, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn while_one_bus_is_away_nodes_on_the_other_are_heard() {
    for away in BusKind::ALL {
        let mesh = start(settings());
        mesh.settled().await;
        let (gone, there, name) = match away {
            BusKind::Nats => (&mesh.nats, &mesh.amqp, "b"),
            BusKind::Amqp => (&mesh.amqp, &mesh.nats, "a"),
        };
        let node = mesh.node(there, name);
        gone.set_up(false);
        sleep(Duration::from_mins(1)).await;
        for seq in 1..=3 {
            let said = mesh.ledger.reports().len();
            mesh.report(name, &node, seq).await.unwrap();
            mesh.until(async || mesh.ledger.reports().len() > said)
                .await;
        }
        let heartbeat = Heartbeat {
            node: name.parse().unwrap(),
            session: 1,
            applied: None,
            seq: Seq(3),
            deaf: false,
            version: "1".to_owned(),
            doing: [].into(),
        };
        node.heartbeat(encode_heartbeat(&heartbeat)).await.unwrap();
        let heard = async || mesh.handle.look(|core, _| core.tally().heartbeats).await;
        mesh.until(async || heard().await == Ok(1)).await;
        // What is decided meanwhile is true once it is back, and soon.
        let answer = mesh.handle.command(
            Command::Apply {
                declared: declared("c", "b", "a"),
                if_revision: None,
            },
            "me".to_owned(),
        );
        tokio::pin!(answer);
        assert!(timeout(Duration::from_mins(10), &mut answer).await.is_err());
        gone.set_up(true);
        let answered = timeout(Duration::from_secs(2), answer).await;
        answered.expect("it is tried at once").unwrap().unwrap();
        mesh.settled().await;
    }
}
