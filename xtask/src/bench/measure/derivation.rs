//! The derivation and its check, beside writing the same plan as JSON: whoever shows a plan pays at least that.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use mesh_derive::{Bounds, Plan, derive, render};
use mesh_model::{
    BoxPublicKey, BusFacts, InstanceRecord, InstanceRef, Labels, Manifest, ModuleName, NodeName,
    NodeRecord, Placement, PublicKey, Records, Restart, Run, Sealed, SeatName, Selector, Timestamp,
};

use super::{Effort, Row, middle};
use crate::clock::Stopwatch;

/// How many nodes, and what the rows of such a mesh are called.
struct Size {
    nodes: usize,
    derive: &'static str,
    check: &'static str,
    both: &'static str,
    change: &'static str,
    memory: &'static str,
}

const SIZES: [Size; 2] = [
    Size {
        nodes: 1000,
        derive: "derive, 1,000 nodes",
        check: "check, 1,000 nodes",
        both: "both, 1,000 nodes",
        change: "one change, 1,000 nodes",
        memory: "memory, 1,000 nodes",
    },
    Size {
        nodes: 10_000,
        derive: "derive, 10,000 nodes",
        check: "check, 10,000 nodes",
        both: "both, 10,000 nodes",
        change: "one change, 10,000 nodes",
        memory: "memory, 10,000 nodes",
    },
];

/// A third of the speed of writing what was derived: both together take at most three times as long.
const GOAL: f64 = 1.0 / 3.0;

/// Entries a second of plans of two sizes, under the ceiling of writing them; how long one change takes, beside deriving all
/// anew; and entries a mebibyte, under the ceiling of their text, where the system says what was held at most.
pub(super) fn rows(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in SIZES {
        rows.extend(of(&size, effort)?);
    }
    Ok(rows)
}

fn of(size: &Size, effort: Effort) -> Result<Vec<Row>> {
    let (records, bounds) = (records(size.nodes)?, Bounds::default());
    let before = memory::peak_from_here()?;
    let plan = derive(&records, &bounds);
    ensure!(plan.check(&records.bus).is_empty(), "the plan holds");
    let grown = before.map(|before| anyhow::Ok(memory::peak()?.saturating_sub(before).max(1)));
    let grown = grown.transpose()?;
    let bytes = text(&plan)?.len();
    let entries = entries(&plan);
    let mut changed = records.clone();
    let node = changed.nodes.values_mut().next().context("a node")?;
    node.key = PublicKey::from_raw([9; 32]);

    let (mut derived, mut checked, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let (mut written, mut rederived) = (Vec::new(), Vec::new());
    // Taken in turns, so that a neighbour's load falls on all alike.
    for _ in 0..effort.runs {
        let watch = Stopwatch::start();
        let mut plan = derive(black_box(&records), &bounds);
        let first = watch.elapsed().as_secs_f64();
        let watch = Stopwatch::start();
        black_box(plan.check(&records.bus));
        let second = watch.elapsed().as_secs_f64();
        let watch = Stopwatch::start();
        black_box(text(&plan)?);
        written.push(entries / watch.elapsed().as_secs_f64());
        let watch = Stopwatch::start();
        plan.rederive(&records, black_box(&changed), &bounds);
        rederived.push(watch.elapsed().as_secs_f64());
        derived.push(first);
        checked.push(entries / second);
        both.push(entries / (first + second));
    }
    let written = middle(written);
    let (anew, changed) = (middle(derived), middle(rederived));
    let row = |name, value, ceiling, goal| Row {
        name,
        value,
        ceiling,
        unit: "entries/s",
        goal,
    };
    let mut rows = vec![
        row(size.derive, entries / anew, written, None),
        row(size.check, middle(checked), written, None),
        row(size.both, middle(both), written, Some(GOAL)),
        Row {
            name: size.change,
            value: changed * MICROS,
            ceiling: anew * MICROS,
            unit: "µs",
            goal: None,
        },
    ];
    rows.extend(grown.map(|grown| Row {
        name: size.memory,
        value: entries / mebibytes(grown),
        ceiling: entries / mebibytes(bytes),
        unit: "entries/MiB",
        goal: None,
    }));
    Ok(rows)
}

/// Microseconds of a second.
const MICROS: f64 = 1e6;

fn text(plan: &Plan) -> Result<Vec<u8>> {
    serde_json::to_vec(&render::json(plan)).context("writing a plan")
}

/// Definitions, and entries of grants.
#[expect(
    clippy::cast_precision_loss,
    reason = "a plan has fewer entries than a double has integers"
)]
fn entries(plan: &Plan) -> f64 {
    let granted: usize = plan.grants.values().map(mesh_model::Grant::entries).sum();
    (granted + plan.streams.len() + plan.consumers.len()) as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no machine has as many bytes as a double has integers"
)]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A mesh: a module for each ten nodes, on ten nodes each, and a seat for each fifty. A module emits three events,
/// follows three of others, sends to one seat and may hold another.
fn records(nodes: usize) -> Result<Records> {
    let bus = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let mut records = Records::new("bench".parse()?, bus);
    let (modules, seats) = (nodes / 10, nodes / 50);
    for n in 0..nodes {
        let record = NodeRecord {
            bus: mesh_model::BusKind::Nats,
            moving: None,
            key: PublicKey::from_raw(raw(1, n)),
            box_key: BoxPublicKey::from_raw(raw(2, n)),
            labels: Labels::new(),
            token: "spent".parse()?,
            enrolled: Timestamp::from_millis(1),
            scheduling: mesh_model::Scheduling::Open,
        };
        records.nodes.insert(node(n)?, record);
    }
    for n in 0..modules {
        let manifest = manifest(n, modules, seats)?;
        let module = manifest.module.clone();
        let on: Vec<usize> = (0..10).map(|k| (n * 10 + k) % nodes).collect();
        for at in &on {
            let instance = InstanceRef {
                module: module.clone(),
                node: node(*at)?,
            };
            let record = InstanceRecord {
                bus: mesh_model::BusKind::Nats,
                key: PublicKey::from_raw(raw(3, n * nodes + at)),
                credential: Sealed(vec![1]),
                sealed_to: BoxPublicKey::from_raw(raw(2, *at)),
                secrets: [].into(),
                life: mesh_model::CredentialLife::default(),
            };
            records.instances.insert(instance, record);
        }
        let on = Selector::Nodes(on.into_iter().map(node).collect::<Result<_>>()?);
        let placements = &mut records.declared.placements;
        placements.insert(module.clone(), Placement { on, count: None });
        if n < seats {
            let holder = Some(module.clone());
            records.declared.seats.insert(seat(n)?, holder.into());
        }
        records.declared.modules.insert(module, manifest);
    }
    Ok(records)
}

fn manifest(n: usize, modules: usize, seats: usize) -> Result<Manifest> {
    let emits = (0..3).map(|e| Ok(format!("thing-{e}.done").parse()?));
    let follows = (1..4).map(|e| {
        let (of, event) = ((n + e) % modules, e % 3);
        Ok(format!("module-{of}.thing-{event}.done").parse()?)
    });
    Ok(Manifest {
        module: module(n)?,
        release: "1".to_owned(),
        run: Run::command(["true".to_owned()]).context("a program")?,
        after: [].into(),
        env: [].into(),
        restart: Restart::Always,
        emits: emits.collect::<Result<_>>()?,
        follows: follows.collect::<Result<_>>()?,
        can_hold: [seat(n % seats)?].into(),
        sends_to: [seat((n + 1) % seats)?].into(),
        health: None,
        secrets: [].into(),
    })
}

fn node(n: usize) -> Result<NodeName> {
    Ok(format!("node-{n}").parse()?)
}

fn module(n: usize) -> Result<ModuleName> {
    Ok(format!("module-{n}").parse()?)
}

fn seat(n: usize) -> Result<SeatName> {
    Ok(format!("seat-{n}").parse()?)
}

fn raw(kind: u8, n: usize) -> [u8; 32] {
    let mut raw = [kind; 32];
    for (byte, of) in raw.iter_mut().skip(1).zip(n.to_le_bytes()) {
        *byte = of;
    }
    raw
}

/// What of the machine's memory this process has had at most.
mod memory {
    use anyhow::{Context, Result};

    /// Begins anew to look for the most; bytes held now. Nothing where the system does not let one: the most since the start
    /// would be somebody else's.
    pub(super) fn peak_from_here() -> Result<Option<usize>> {
        // 5 resets the most that was held.
        if std::fs::write("/proc/self/clear_refs", "5").is_err() {
            return Ok(None);
        }
        field("VmRSS:").map(Some)
    }

    /// The most bytes held since.
    pub(super) fn peak() -> Result<usize> {
        field("VmHWM:")
    }

    fn field(name: &str) -> Result<usize> {
        let status = std::fs::read_to_string("/proc/self/status").context("reading the status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("the status has no {name}"))?;
        let kibibytes = line.split_whitespace().next().context("a number")?;
        Ok(kibibytes.parse::<usize>()? * 1024)
    }
}
