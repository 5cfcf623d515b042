//! Generated records, always consistent.

use std::collections::BTreeSet;

use mesh_model::{Manifest, ModuleName, Records, SeatName, SeatRecord, Spent, TokenId};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

pub(crate) use crate::short::{
    add_module, add_node, add_seat, add_token, box_key, bus, empty, manifest, names, user_key,
};

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
        records
            .declared
            .seats
            .insert(seat.clone(), holder.clone().into());
    }
    let assigned = if how == 3 { None } else { holder };
    if how >= 2 {
        records.seats.insert(
            seat.clone(),
            SeatRecord {
                assigned,
                by: mesh_model::Assigner::Operator,
            },
        );
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
