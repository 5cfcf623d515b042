//! Over files of users as they are written, and a controller that is killed at any step.

use std::collections::BTreeMap;

use mesh_derive::render::nats_conf::edge_users;
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{
    BoxPublicKey, InstanceRecord, InstanceRef, Manifest, ModuleName, NodeName, NodeRecord,
    Placement, Principal, Records, Restart, Run, Sealed, SeatName, SeatSpec, Selector, Timestamp,
};
use proptest::prelude::*;

use super::*;

const NODES: [&str; 2] = ["a", "b"];
const MODULES: [&str; 3] = ["m0", "m1", "m2"];
const SEATS: [&str; 2] = ["s0", "s1"];

/// Where each of three modules runs, who holds each of two seats, and under which keys.
#[derive(Debug, Clone, Copy)]
struct Mesh {
    runs: [[bool; 2]; 3],
    holds: [Option<usize>; 2],
    minted: u8,
}

fn any_mesh() -> impl Strategy<Value = Mesh> {
    let runs = proptest::array::uniform3(proptest::array::uniform2(any::<bool>()));
    let holds = proptest::array::uniform2(proptest::option::of(0..3_usize));
    (runs, holds, 0..2_u8).prop_map(|(runs, holds, minted)| Mesh {
        runs,
        holds,
        minted,
    })
}

fn facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

fn key(of: &str, minted: u8) -> PublicKey {
    let mut raw = [minted; 32];
    for (at, byte) in raw.iter_mut().zip(of.bytes()) {
        *at ^= byte;
    }
    PublicKey::from_raw(raw)
}

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
        can_hold: SEATS.map(|seat| seat.parse().unwrap()).into(),
        sends_to: SEATS.map(|seat| seat.parse().unwrap()).into(),
        health: None,
        secrets: [].into(),
    }
}

fn plan(mesh: Mesh) -> Plan {
    let mut records = Records::new("home".parse().unwrap(), facts());
    for (seat, holder) in SEATS.iter().zip(mesh.holds) {
        let holder: Option<ModuleName> = holder.map(|at| MODULES[at].parse().unwrap());
        let spec = SeatSpec::from(holder);
        records.declared.seats.insert(seat.parse().unwrap(), spec);
    }
    for node in NODES {
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: key(node, 0),
            box_key: BoxPublicKey::from_raw([1; 32]),
            labels: [].into(),
            token: "t".parse().unwrap(),
            enrolled: Timestamp::default(),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node.parse().unwrap(), record);
    }
    for (module, runs) in MODULES.iter().zip(mesh.runs) {
        let name: ModuleName = module.parse().unwrap();
        records
            .declared
            .modules
            .insert(name.clone(), manifest(module));
        let on = NODES.iter().zip(runs).filter(|(_, runs)| *runs);
        let on: Vec<NodeName> = on.map(|(node, _)| node.parse().unwrap()).collect();
        for node in &on {
            let instance = InstanceRef {
                module: name.clone(),
                node: node.clone(),
            };
            let record = InstanceRecord {
                bus: mesh_model::BusKind::Nats,
                key: key(&instance.to_string(), mesh.minted),
                credential: Sealed(vec![]),
                sealed_to: BoxPublicKey::from_raw([1; 32]),
                secrets: [].into(),
                life: mesh_model::CredentialLife::default(),
            };
            records.instances.insert(instance, record);
        }
        let on = Selector::Nodes(on.into_iter().collect());
        records
            .declared
            .placements
            .insert(name, Placement { on, count: None });
    }
    derive(&records, &Bounds::default())
}

/// Every key there ever is, and the module that has it.
fn owners() -> BTreeMap<PublicKey, ModuleName> {
    let all = (0..2).flat_map(|minted| {
        let everywhere = Mesh {
            runs: [[true; 2]; 3],
            holds: [None; 2],
            minted,
        };
        plan(everywhere).users
    });
    let instances = all.filter_map(|(key, who)| match who {
        Principal::Instance(instance) => Some((key, instance.module)),
        _ => None,
    });
    instances.collect()
}

/// Who may work a seat by a file of users.
fn workers(file: &str, seat: &str, owners: &BTreeMap<PublicKey, ModuleName>) -> Vec<ModuleName> {
    let seat: SeatName = seat.parse().unwrap();
    let consumer = ConsumerRef::new(subject::seat_stream(&seat), seat.as_str()).unwrap();
    let authority = SeatAuthority::of(&consumer, &facts()).unwrap();
    let told = Told::of(Some(file), None);
    let able = told.users.unwrap().into_iter().filter_map(|(key, grant)| {
        let able = authority.is_in(&grant.unwrap());
        able.then(|| owners[&key.unwrap()].clone())
    });
    able.collect()
}

/// A server, the file beside it, and what the controller of now knows it has read.
#[derive(Default)]
struct Server {
    on_disk: Option<String>,
    live: String,
    loaded: Option<String>,
}

/// What goes wrong in one assertion.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// It is killed once so many files are written, of which the server was not told the last.
    KilledBefore(usize),
    /// It is killed when the server has read so many.
    KilledAfter(usize),
    /// The server reads the file, and its answer is lost: the assertion ends with that, and is tried again.
    Unanswered(usize),
    /// The server is started anew before it is told of so many, and so has read what there is.
    Restarted(usize),
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        2 => Just(Fault::None),
        1 => (0..2_usize).prop_map(Fault::KilledBefore),
        1 => (0..2_usize).prop_map(Fault::KilledAfter),
        1 => (0..2_usize).prop_map(Fault::Unanswered),
        1 => (0..2_usize).prop_map(Fault::Restarted),
    ]
}

impl Server {
    /// A server goes through its connections one after the other: while it does, some may what they might before, and
    /// others what they may from now on.
    fn read(&mut self, owners: &BTreeMap<PublicKey, ModuleName>) -> Result<(), TestCaseError> {
        let now = self.on_disk.clone().unwrap_or_default();
        for seat in SEATS {
            let mut able: BTreeSet<ModuleName> = workers(&self.live, seat, owners)
                .into_iter()
                .chain(workers(&now, seat, owners))
                .collect();
            let one = able.pop_first();
            prop_assert!(able.is_empty(), "{seat}: {one:?} and {able:?}");
        }
        self.live = now;
        Ok(())
    }

    /// One assertion, as `bring_users` does it. Whether it was brought to its end.
    fn assert(
        &mut self,
        plan: &Plan,
        fault: Fault,
        owners: &BTreeMap<PublicKey, ModuleName>,
    ) -> Result<bool, TestCaseError> {
        let told = Told::of(self.on_disk.as_deref(), self.loaded.as_deref());
        let steps = told.hand_over(plan, &facts());
        let files = steps.first.iter().chain([plan]).map(edge_users);
        for (nth, text) in files.enumerate() {
            let written = self.on_disk.as_deref() != Some(text.as_str());
            if !written && self.loaded.as_ref() == Some(&text) {
                continue;
            }
            self.loaded = None;
            self.on_disk = Some(text.clone());
            match fault {
                Fault::KilledBefore(at) if at == nth => return Ok(false),
                Fault::Restarted(at) if at == nth => self.live = text.clone(),
                _ => {}
            }
            self.read(owners)?;
            match fault {
                Fault::KilledAfter(at) | Fault::Unanswered(at) if at == nth => return Ok(false),
                _ => {}
            }
            self.loaded = Some(text);
        }
        Ok(true)
    }
}

proptest! {
    #[test]
    fn at_no_step_of_any_assertions_may_two_modules_work_a_seat(
        asserted in proptest::collection::vec((any_mesh(), any_fault(), any::<bool>()), 1..8),
    ) {
        let owners = owners();
        let mut server = Server::default();
        for (mesh, fault, killed) in asserted {
            let plan = plan(mesh);
            let done = server.assert(&plan, fault, &owners)?;
            if matches!(fault, Fault::KilledBefore(_) | Fault::KilledAfter(_)) || killed {
                server.loaded = None;
            }
            if !done {
                // It is tried again, by this controller or the next.
                prop_assert!(server.assert(&plan, Fault::None, &owners)?);
            }
            prop_assert_eq!(&server.live, &edge_users(&plan));
        }
    }
}

fn held_by(holder: Option<usize>) -> Mesh {
    Mesh {
        runs: [[true, false], [false, true], [true, true]],
        holds: [holder, None],
        minted: 0,
    }
}

#[test]
fn a_seat_that_changes_hands_is_nobodys_in_between_and_others_lose_nothing() {
    let (before, after) = (plan(held_by(Some(0))), plan(held_by(Some(1))));
    let file = edge_users(&before);
    let told = Told::of(Some(&file), Some(&file));
    let steps = told.hand_over(&after, &facts());
    let first = edge_users(steps.first.as_ref().unwrap());
    let owners = owners();
    assert_eq!(workers(&first, "s0", &owners), []);
    assert_eq!(steps.given.len(), 1);
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let lost: Vec<_> = lines(&edge_users(&after))
        .difference(&lines(&first))
        .cloned()
        .collect();
    // What it may publish and what it may hear, of the one module that is to have it.
    assert_eq!(lost.len(), 2, "{lost:?}");
}

#[test]
fn a_holder_that_goes_on_holding_is_left_alone_by_a_controller_that_starts() {
    let same = plan(held_by(Some(0)));
    let file = edge_users(&same);
    for read in [None, Some(file.as_str())] {
        let steps = Told::of(Some(&file), read).hand_over(&same, &facts());
        assert_eq!(steps, HandOver::default(), "{read:?}");
    }
}

#[test]
fn a_holder_whose_key_is_replaced_is_left_alone() {
    let before = plan(held_by(Some(0)));
    let mut after = plan(Mesh {
        minted: 1,
        ..held_by(Some(0))
    });
    after.retiring = before.users.clone();
    let file = edge_users(&before);
    let steps = Told::of(Some(&file), Some(&file)).hand_over(&after, &facts());
    assert_eq!(steps, HandOver::default());
    // Without that time for both, whoever has the key before is another.
    after.retiring.clear();
    let steps = Told::of(Some(&file), Some(&file)).hand_over(&after, &facts());
    assert!(steps.first.is_some());
}

#[test]
fn a_first_holder_waits_for_nobody() {
    let (before, after) = (plan(held_by(None)), plan(held_by(Some(1))));
    let file = edge_users(&before);
    let steps = Told::of(Some(&file), Some(&file)).hand_over(&after, &facts());
    assert_eq!((steps.first, steps.given.len()), (None, 1));
}

#[test]
fn where_it_is_not_known_what_a_server_read_nobody_begins_before_it_has_read_anew() {
    let after = plan(held_by(Some(1)));
    let withdrawn = edge_users(&plan(held_by(None)));
    let foreign = format!("{withdrawn}\n# edited");
    for (on_disk, read) in [
        // Killed after it was written, and before the server was told.
        (Some(withdrawn.as_str()), None),
        (Some(foreign.as_str()), Some(withdrawn.as_str())),
        (Some("no [ file of users"), None),
        (None, None),
    ] {
        let steps = Told::of(on_disk, read).hand_over(&after, &facts());
        let first = steps.first.unwrap();
        assert_eq!(
            workers(&edge_users(&first), "s0", &owners()),
            [],
            "{on_disk:?}"
        );
    }
}

#[test]
fn whoever_may_everything_may_work_a_seat_too() {
    let after = plan(held_by(Some(1)));
    let stranger = key("stranger", 7);
    for permissions in ["", ", permissions: { publish: \"$JS.ACK.>\" }"] {
        let file = format!("users: [ {{ nkey: {stranger}{permissions} }} ]");
        let steps = Told::of(Some(&file), Some(&file)).hand_over(&after, &facts());
        assert!(steps.first.is_some(), "{file}");
    }
}
