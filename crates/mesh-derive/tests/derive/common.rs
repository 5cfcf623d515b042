//! Records to derive from: a short form to write them in, and generated ones that are always consistent.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    BoxPublicKey, BusFacts, InstanceRecord, InstanceRef, Labels, Manifest, ModuleName, NodeName,
    NodeRecord, Placement, PublicKey, Records, Restart, Run, Sealed, SeatName, SeatRecord,
    Selector, Spent, Timestamp, TokenId, TokenRecord,
};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

/// The bus of a configured server.
pub(crate) fn bus() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

/// A mesh nobody declared anything for.
pub(crate) fn empty() -> Records {
    Records::new("home".parse().unwrap(), bus())
}

/// A manifest that does nothing yet.
pub(crate) fn manifest(module: &str) -> Manifest {
    Manifest {
        module: module.parse().unwrap(),
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).unwrap(),
        after: BTreeSet::new(),
        env: BTreeMap::new(),
        restart: Restart::Always,
        emits: BTreeSet::new(),
        follows: BTreeSet::new(),
        can_hold: BTreeSet::new(),
        sends_to: BTreeSet::new(),
    }
}

/// Names from texts.
pub(crate) fn names<T: std::str::FromStr<Err: std::fmt::Debug> + Ord>(
    texts: &[&str],
) -> BTreeSet<T> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A node that enrolled with a key of its name's.
pub(crate) fn add_node(records: &mut Records, node: &str) {
    let name: NodeName = node.parse().unwrap();
    let record = NodeRecord {
        key: user_key(&format!("node/{node}")),
        box_key: box_key(node),
        labels: Labels::new(),
        token: "spent".parse().unwrap(),
        enrolled: timestamp(),
    };
    records.nodes.insert(name, record);
}

/// A module, placed on these nodes with a credential on each.
pub(crate) fn add_module(records: &mut Records, manifest: Manifest, on: &[&str]) {
    let module = manifest.module.clone();
    let placement = Placement {
        on: Selector::Nodes(names(on)),
    };
    records
        .declared
        .placements
        .insert(module.clone(), placement);
    records.declared.modules.insert(module.clone(), manifest);
    for node in on {
        let instance = InstanceRef {
            module: module.clone(),
            node: node.parse().unwrap(),
        };
        let record = InstanceRecord {
            key: user_key(&format!("module/{instance}")),
            credential: Sealed(vec![1]),
            sealed_to: box_key(node),
        };
        records.instances.insert(instance, record);
    }
}

/// A seat, with the holder the files name.
pub(crate) fn add_seat(records: &mut Records, seat: &str, holder: Option<&str>) {
    let holder = holder.map(|module| module.parse().unwrap());
    records.declared.seats.insert(seat.parse().unwrap(), holder);
}

/// A token nobody has used.
pub(crate) fn add_token(records: &mut Records, token: &str) {
    let record = TokenRecord {
        key: user_key(&format!("joiner/{token}")),
        expires: timestamp(),
        node: None,
        labels: Labels::new(),
        rejoin: false,
        spent: None,
    };
    records.tokens.insert(token.parse().unwrap(), record);
}

fn timestamp() -> Timestamp {
    Timestamp::from_millis(1)
}

/// The user key of a label.
pub(crate) fn user_key(label: &str) -> PublicKey {
    PublicKey::from_raw(digest(label))
}

/// The box key of a label.
pub(crate) fn box_key(label: &str) -> BoxPublicKey {
    BoxPublicKey::from_raw(digest(label))
}

fn digest(label: &str) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(label.as_bytes()).into()
}

/// Names that look like other things: a token of an ack subject, a prefix of another, a module, node and seat alike.
const NODES: [&str; 5] = ["5", "a", "node1", "node10", "w"];
const MODULES: [&str; 6] = ["5", "a", "a-b", "node1", "shop", "w"];
const SEATS: [&str; 4] = ["5", "a", "events", "w"];
const EVENTS: [&str; 4] = ["a", "announced.a", "order.placed", "5"];
const TOKENS: [&str; 3] = ["5", "a", "t1"];

/// What is drawn for one module.
type Drawn = (
    Vec<&'static str>,
    Vec<Index>,
    Vec<&'static str>,
    Vec<&'static str>,
    Vec<&'static str>,
);

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        subsequence(EVENTS.to_vec(), 0..=EVENTS.len()),
        prop::collection::vec(any::<Index>(), 0..4),
        subsequence(SEATS.to_vec(), 0..=SEATS.len()),
        subsequence(SEATS.to_vec(), 0..=SEATS.len()),
        subsequence(NODES.to_vec(), 0..=NODES.len()),
    )
}

/// Records that could be some mesh's: what is declared does not contradict itself.
pub(crate) fn records() -> impl Strategy<Value = Records> {
    (
        prop::option::of(Just("hub".to_owned())),
        subsequence(NODES.to_vec(), 0..=NODES.len()),
        subsequence(SEATS.to_vec(), 0..=SEATS.len()),
        subsequence(MODULES.to_vec(), 0..=MODULES.len()),
        prop::collection::vec(drawn(), MODULES.len()),
        prop::collection::vec((any::<Index>(), 0..4_u8), SEATS.len()),
        prop::collection::vec((subsequence(TOKENS.to_vec(), 0..=1), 0..3_u8), 0..4),
    )
        .prop_map(|(domain, nodes, seats, modules, drawn, holders, tokens)| {
            let mut records = empty();
            records.bus.domain = domain;
            for node in nodes {
                add_node(&mut records, node);
            }
            for seat in &seats {
                add_seat(&mut records, seat, None);
            }
            add_modules(&mut records, &modules, &drawn, &seats);
            for (seat, (holder, how)) in seats.iter().zip(holders) {
                give_seat(&mut records, &seat.parse().unwrap(), holder, how);
            }
            for (token, state) in tokens {
                for token in token {
                    draw_token(&mut records, token, state);
                }
            }
            let wrong = records.declared.check();
            assert!(wrong.is_empty(), "{wrong:?}");
            records
        })
}

fn add_modules(records: &mut Records, modules: &[&str], drawn: &[Drawn], seats: &[&str]) {
    let emitted: Vec<String> = modules
        .iter()
        .zip(drawn)
        .flat_map(|(module, (emits, ..))| {
            let all = emits.iter().copied().chain(["announced"]);
            all.map(move |event| format!("{module}.{event}"))
        })
        .collect();
    let registered = |drawn: &[&'static str]| -> BTreeSet<SeatName> {
        let registered = drawn.iter().filter(|seat| seats.contains(seat));
        registered.map(|seat| seat.parse().unwrap()).collect()
    };
    for (module, (emits, follows, can_hold, sends_to, on)) in modules.iter().zip(drawn) {
        let manifest = Manifest {
            emits: names(emits),
            follows: follows
                .iter()
                .map(|at| at.get(&emitted).parse().unwrap())
                .collect(),
            can_hold: registered(can_hold),
            sends_to: registered(sends_to),
            ..manifest(module)
        };
        // Some of these nodes never enrolled: a placement may be ahead of its nodes.
        add_module(records, manifest, on);
    }
}

/// Nobody, whom the files name, whom an operator assigned, or nobody although the files name somebody.
fn give_seat(records: &mut Records, seat: &SeatName, pick: Index, how: u8) {
    let able: Vec<ModuleName> = records
        .declared
        .modules
        .values()
        .filter(|manifest| manifest.can_hold.contains(seat))
        .map(|manifest| manifest.module.clone())
        .collect();
    if able.is_empty() || how == 0 {
        return;
    }
    let holder = Some(pick.get(&able).clone());
    if how != 2 {
        records.declared.seats.insert(seat.clone(), holder.clone());
    }
    let assigned = if how == 3 { None } else { holder };
    if how >= 2 {
        records.seats.insert(seat.clone(), SeatRecord { assigned });
    }
}

fn draw_token(records: &mut Records, token: &str, state: u8) {
    add_token(records, token);
    let name: TokenId = token.parse().unwrap();
    let spent = (state > 0).then(|| Spent {
        node: "gone".parse().unwrap(),
        key: user_key("node/gone"),
        arrived: state > 1,
    });
    records
        .tokens
        .entry(name)
        .and_modify(|record| record.spent = spent);
}
