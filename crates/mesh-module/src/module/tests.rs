//! A module over the loopback, under exactly the grant its manifest gives it. Time is paused.

mod hand;
mod seats;

use mesh_auth::keys::{BoxKey, UserKey};
use mesh_bus::ControllerBus;
use mesh_bus::loopback::{Loopback, LoopbackModule};
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{
    BusFacts, ConsumerRef, EventRef, InstanceRecord, Manifest, NodeName, NodeRecord, Placement,
    Records, Restart, Run, Sealed, SeatRecord, Selector, Timestamp,
};
use mesh_wire::decode_announcement;
use tokio::time::timeout;

use super::*;

/// A mesh of one node with the modules `shop`, which emits `sold` and sends to the seat `mail`, and `clerk`, which
/// follows that and can hold the seat.
struct Mesh {
    bus: Loopback,
    records: Records,
    shop: Module<LoopbackModule>,
    clerk: Module<LoopbackModule>,
}

impl Mesh {
    async fn new() -> Self {
        let facts = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        let mut records = Records::new("home".parse().unwrap(), facts.clone());
        let node: NodeName = "web-1".parse().unwrap();
        let box_key = BoxKey::generate().unwrap().public().to_string();
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: user_key(),
            box_key: box_key.parse().unwrap(),
            labels: [].into(),
            token: "t".parse().unwrap(),
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node.clone(), record);
        let mut shop = manifest("shop");
        shop.emits = ["sold".parse().unwrap()].into();
        shop.sends_to = ["mail".parse().unwrap()].into();
        let mut clerk = manifest("clerk");
        clerk.follows = [
            "shop.sold".parse().unwrap(),
            "shop.announced".parse().unwrap(),
        ]
        .into();
        clerk.can_hold = ["mail".parse().unwrap()].into();
        let seat = "mail".parse().unwrap();
        records.declared.seats.insert(seat, None.into());
        let instances = [shop, clerk].map(|manifest| place(&mut records, &node, manifest));

        let bus = Loopback::new(facts);
        assert_plan(&bus, &records).await;
        let [shop, clerk] =
            instances.map(|instance| Module::over(bus.module(instance.clone()).unwrap(), instance));
        Self {
            bus,
            records,
            shop,
            clerk,
        }
    }

    async fn assign(&mut self, holder: &str) {
        let assigned = Some(holder.parse().unwrap());
        let record = SeatRecord {
            assigned,
            by: mesh_model::Assigner::Operator,
        };
        self.records.seats.insert("mail".parse().unwrap(), record);
        assert_plan(&self.bus, &self.records).await;
    }

    async fn release(&mut self) {
        let seat = "mail".parse().unwrap();
        self.records.seats.remove(&seat);
        assert_plan(&self.bus, &self.records).await;
    }

    fn unsettled(&self) -> usize {
        let followed = ConsumerRef::new(subject::events_stream(), "clerk").unwrap();
        self.bus.unsettled(&followed)
    }
}

fn user_key() -> PublicKey {
    let key = UserKey::generate().unwrap();
    key.public().to_string().parse().unwrap()
}

fn manifest(module: &str) -> Manifest {
    Manifest {
        module: module.parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command([module.to_owned()]).unwrap(),
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

fn place(records: &mut Records, node: &NodeName, manifest: Manifest) -> InstanceRef {
    let (module, node) = (manifest.module.clone(), node.clone());
    let record = InstanceRecord {
        bus: mesh_model::BusKind::Nats,
        key: user_key(),
        credential: Sealed(Vec::new()),
        sealed_to: records.nodes[&node].box_key.clone(),
        secrets: [].into(),
        life: mesh_model::CredentialLife::default(),
    };
    let placement = Placement {
        on: Selector::Nodes([node.clone()].into()),
        count: None,
    };
    let instance = InstanceRef {
        module: module.clone(),
        node,
    };
    records.instances.insert(instance.clone(), record);
    records
        .declared
        .placements
        .insert(module.clone(), placement);
    records.declared.modules.insert(module, manifest);
    instance
}

async fn assert_plan(bus: &Loopback, records: &Records) {
    let plan = derive(records, &Bounds::default());
    bus.controller().assert(&plan).await.unwrap();
}

/// Whether nothing comes for as long as it takes an unsettled event to come again, several times over.
async fn is_silent<T>(next: impl Future<Output = T>) -> bool {
    timeout(Duration::from_mins(5), next).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn what_is_emitted_is_followed_and_done_with_once() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.shop.emit("sold", "a lamp").await.unwrap();
    mesh.shop.emit("sold", "a chair").await.unwrap();
    for body in ["a lamp", "a chair"] {
        let sale = sales.next().await;
        let what = EventRef {
            module: sale.module.clone(),
            event: sale.event.clone(),
        };
        assert_eq!(what.to_string(), "shop.sold");
        assert_eq!(sale.body, body.as_bytes());
        assert!(sale.id.starts_with("shop/web-1/"), "{}", sale.id);
        sale.done().await.unwrap();
    }
    assert_eq!(mesh.unsettled(), 0);
    assert!(is_silent(sales.next()).await);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_worked_on_for_long_does_not_come_again_nor_do_those_behind_it() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.shop.emit("sold", "first").await.unwrap();
    mesh.shop.emit("sold", "second").await.unwrap();
    let first = sales.next().await;
    sleep(Duration::from_mins(10)).await;
    first.done().await.unwrap();
    let second = sales.next().await;
    assert_eq!(second.body, b"second");
    second.done().await.unwrap();
    assert!(is_silent(sales.next()).await);
}

#[tokio::test(start_paused = true)]
async fn an_event_dropped_unsettled_comes_again_under_its_id() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.shop.emit("sold", "a lamp").await.unwrap();
    let sale = sales.next().await;
    let id = sale.id.clone();
    drop(sale);
    let dropped = Instant::now();
    let sale = sales.next().await;
    assert_eq!(sale.id, id);
    assert!(dropped.elapsed() <= Duration::from_secs(30));
    sale.done().await.unwrap();
    assert!(is_silent(sales.next()).await);
}

#[tokio::test(start_paused = true)]
async fn an_event_comes_again_after_the_delay_it_was_given() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.shop.emit("sold", "a lamp").await.unwrap();
    let given_back = Instant::now();
    let delay = Duration::from_secs(90);
    sales.next().await.again(delay).await.unwrap();
    let again = timeout(Duration::from_mins(5), sales.next()).await.unwrap();
    again.done().await.unwrap();
    assert_eq!(given_back.elapsed().as_secs(), delay.as_secs());
}

#[tokio::test(start_paused = true)]
async fn work_waits_for_a_holder_and_arrives_without_a_restart() {
    let mut mesh = Mesh::new().await;
    let mut mail = mesh.clerk.work("mail").await.unwrap();
    for letter in ["one", "two"] {
        mesh.shop.send("mail", letter).await.unwrap();
    }
    assert!(is_silent(mail.next()).await);
    mesh.assign("clerk").await;
    for letter in ["one", "two"] {
        let work = mail.next().await;
        assert_eq!(
            (work.sender.as_str(), work.body.as_slice()),
            ("shop", letter.as_bytes())
        );
        work.done().await.unwrap();
    }
    let queue = subject::seat_stream(&"mail".parse().unwrap());
    assert_eq!(mesh.bus.stored(&queue), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_manifest_does_not_list_is_refused_naming_the_list() {
    let mesh = Mesh::new().await;
    let error = mesh.shop.emit("bought", "").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "event \"bought\" is not in the grant of module shop: list \"bought\" under events.emits of its manifest and \
         apply that; where it is listed, the module is being moved or stopped just now"
    );
    let error = mesh.clerk.send("mail", "").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "seat \"mail\" is not in the grant of module clerk: list \"mail\" under seats.sends_to of its manifest and \
         apply that; where it is listed, the module is being moved or stopped just now"
    );
    assert!(matches!(
        mesh.shop.emit("So.ld", "").await,
        Err(EmitError::Name(_))
    ));
    assert!(matches!(
        mesh.shop.send("a.b", "").await,
        Err(SendError::Name(_))
    ));
    assert!(matches!(
        mesh.shop.work("a.b").await,
        Err(ListenError::Name(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn an_announcement_needs_no_listing() {
    let mesh = Mesh::new().await;
    let mut heard = mesh.clerk.follow().await.unwrap();
    mesh.shop.announce("1.4.0").await.unwrap();
    let event = heard.next().await;
    assert_eq!(event.event.as_str(), "announced");
    let announced = decode_announcement(&event.body).unwrap();
    assert_eq!(
        (announced.release.as_str(), announced.node.as_str()),
        ("1.4.0", "web-1")
    );
    event.done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_emitted_while_the_bus_is_away_for_a_while_is_kept_once() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.bus.set_up(false);
    let back = async {
        sleep(Duration::from_secs(20)).await;
        mesh.bus.set_up(true);
    };
    let (emitted, ()) = tokio::join!(mesh.shop.emit("sold", "a lamp"), back);
    emitted.unwrap();
    sales.next().await.done().await.unwrap();
    assert!(is_silent(sales.next()).await);
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_stays_away_is_told_of_with_the_id() {
    let mesh = Mesh::new().await;
    mesh.bus.set_up(false);
    let began = Instant::now();
    let error = mesh.shop.emit("sold", "a lamp").await.unwrap_err();
    assert!(
        matches!(&error, EmitError::Unconfirmed { id, source: BusError::Away(_), .. } if id.starts_with("shop/web-1/")),
        "{error:?}"
    );
    assert!(began.elapsed() <= PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_settled_says_so_and_comes_again() {
    let mesh = Mesh::new().await;
    let mut sales = mesh.clerk.follow().await.unwrap();
    mesh.shop.emit("sold", "a lamp").await.unwrap();
    let sale = sales.next().await;
    let id = sale.id.clone();
    mesh.bus.set_up(false);
    let error = sale.done().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{id} was not settled and comes again")
    );
    mesh.bus.set_up(true);
    let sale = sales.next().await;
    assert_eq!(sale.id, id);
    sale.done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_published_is_not_tried_again_in_step_with_others() {
    let mesh = Mesh::new().await;
    mesh.bus.set_up(false);
    let mut tried_for = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let began = Instant::now();
        mesh.shop.emit("sold", "a lamp").await.unwrap_err();
        tried_for.insert(began.elapsed());
    }
    assert!(tried_for.len() > 1, "{tried_for:?}");
}

#[test]
fn pauses_grow_to_a_ceiling_and_differ_between_hosts() {
    let of = |seed| {
        let mut pauses = Pauses::new(seed);
        std::array::from_fn::<_, 40, _>(|_| pauses.next())
    };
    for pause in of(u64::MAX).into_iter().chain(of(0)) {
        assert!(
            pause >= Duration::from_millis(125) && pause <= Duration::from_secs(8),
            "{pause:?}"
        );
    }
    assert_ne!(of(1), of(2));
}
