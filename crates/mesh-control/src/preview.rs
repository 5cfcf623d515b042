//! What an apply would change, before it does.

mod changed;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use mesh_derive::{PlanDiff, derive};
use mesh_model::{
    BoxPublicKey, BusKind, Declared, ModuleName, NodeName, Principal, PublicKey, Records, Revision,
    Scheduling, Sealed, Selector, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::amend::{Command, CommandError, amend};
use crate::controller::Controller;
use crate::placement::{Mint, MintError, Minted, declarations};
use crate::spread::shortfalls;
use changed::differences;

/// What an apply would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The revision it would change.
    pub revision: Revision,
    /// What is declared anew, differently or no longer, in sentences.
    pub declared: Vec<String>,
    /// What that does to streams, consumers and everybody's authority.
    pub authority: PlanDiff,
    /// Nodes that would be told something new.
    pub nodes: Vec<NodeName>,
    /// Where modules with a count would run, of those that would run elsewhere than they do.
    #[serde(default)]
    pub chosen: Vec<Chosen>,
    /// What would be lost for good, or would not come true by itself, in sentences. It is no change: what is placed on a
    /// node that is not enrolled stays said after the apply.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Which nodes a count chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The module.
    pub module: ModuleName,
    /// On how many it is to run.
    pub count: NonZeroU32,
    /// On which it would.
    pub nodes: BTreeSet<NodeName>,
    /// Those of them it is not on yet.
    pub joins: BTreeSet<NodeName>,
    /// Those it would leave.
    pub leaves: BTreeSet<NodeName>,
}

impl Preview {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.authority.is_empty() && self.nodes.is_empty()
    }
}

impl<M: Mint> Controller<M> {
    /// What applying this would change; nothing is changed.
    pub fn preview(&self, declared: &Declared) -> Result<Preview, CommandError> {
        let records = self.records();
        let command = Command::Apply {
            declared: declared.clone(),
            if_revision: None,
        };
        let (next, _) = amend(
            records,
            &command,
            self.places(),
            Timestamp::default(),
            &mut Placeholder(0),
        )?;
        self.sound(&next)?;
        let bounds = self.bounds();
        let told = declarations(&next, self.places(), self.declarations(), None);
        Ok(Preview {
            revision: records.revision,
            declared: differences(&records.declared, declared),
            authority: derive(records, bounds).diff(&derive(&next, bounds)),
            nodes: told
                .into_iter()
                .map(|declaration| declaration.node)
                .collect(),
            chosen: chosen(records, &next),
            warnings: emptied(&records.declared, declared)
                .chain(nowhere(&next))
                .chain(short(&next))
                .chain(closed(&next))
                .collect(),
        })
    }
}

/// Seats whose queues go, and with a queue whatever nobody has worked yet.
fn emptied<'a>(before: &'a Declared, after: &'a Declared) -> impl Iterator<Item = String> + 'a {
    let seats = before.seats.keys();
    let gone = seats.filter(|seat| !after.seats.contains_key(*seat));
    gone.map(|seat| format!("seat {seat} is removed, and with it what waits in its queue"))
}

/// Placements that name nodes which are not enrolled.
fn nowhere(next: &Records) -> impl Iterator<Item = String> + '_ {
    let placements = next.declared.placements.iter();
    placements.filter_map(|(module, placement)| {
        let Selector::Nodes(nodes) = &placement.on else {
            return None;
        };
        let nodes = nodes.iter().filter(|node| !next.nodes.contains_key(*node));
        let missing: Vec<&str> = nodes.map(NodeName::as_str).collect();
        let which = match missing.len() {
            0 => return None,
            1 => "which is",
            _ => "which are",
        };
        let on = missing.join(", ");
        Some(format!(
            "module {module} is placed on {on}, {which} not enrolled"
        ))
    })
}

/// Modules that would be on fewer nodes than they count, or on none of those that an operator lets nothing go to.
fn short(next: &Records) -> impl Iterator<Item = String> + '_ {
    let short = shortfalls(next).into_iter();
    short.filter_map(|(module, short)| {
        let placement = next.declared.placements.get(&module)?;
        // Of nodes that are not enrolled it is said which.
        let said = match &placement.on {
            Selector::Nodes(nodes) => nodes.iter().any(|node| !next.nodes.contains_key(node)),
            Selector::Labels(_) => false,
        };
        let told = short.awaited && (placement.count.is_some() || !said);
        told.then(|| format!("module {module} is not placed as declared: {}", short.why))
    })
}

/// Nodes an operator has closed: an override of what the files say, which an apply keeps.
fn closed(next: &Records) -> impl Iterator<Item = String> + '_ {
    let nodes = next.nodes.iter();
    nodes.filter_map(|(node, record)| {
        let takes = match record.scheduling {
            Scheduling::Open => return None,
            Scheduling::Cordoned => "nothing new is placed on it",
            Scheduling::Drained => "nothing is placed on it",
        };
        let word = record.scheduling.word();
        Some(format!(
            "node {node} is {word}: {takes}; `meshctl node uncordon {node}` ends that"
        ))
    })
}

/// Where modules with a count would run, of those that would run elsewhere than they do.
fn chosen(before: &Records, next: &Records) -> Vec<Chosen> {
    let (was, is) = (nodes_of(before), nodes_of(next));
    let none = BTreeSet::new();
    let placements = next.declared.placements.iter();
    let chosen = placements.filter_map(|(module, placement)| {
        let count = placement.count?;
        let (was, is) = (
            was.get(module).unwrap_or(&none),
            is.get(module).unwrap_or(&none),
        );
        (was != is).then(|| Chosen {
            module: module.clone(),
            count,
            nodes: is.clone(),
            joins: is.difference(was).cloned().collect(),
            leaves: was.difference(is).cloned().collect(),
        })
    });
    chosen.collect()
}

fn nodes_of(records: &Records) -> BTreeMap<&ModuleName, BTreeSet<NodeName>> {
    let mut nodes: BTreeMap<&ModuleName, BTreeSet<NodeName>> = BTreeMap::new();
    for instance in records.instances.keys() {
        let of = nodes.entry(&instance.module).or_default();
        of.insert(instance.node.clone());
    }
    nodes
}

/// Stands in for credentials that would be made: each has a key of its own, and nobody holds it.
struct Placeholder(u64);

impl Mint for Placeholder {
    fn mint(&mut self, _: &Principal, _: BusKind, _: &BoxPublicKey) -> Result<Minted, MintError> {
        self.0 += 1;
        let mut raw = [0; 32];
        for (place, byte) in raw.iter_mut().zip(self.0.to_be_bytes()) {
            *place = byte;
        }
        Ok(Minted {
            key: PublicKey::from_raw(raw),
            credential: Sealed(Vec::new()),
        })
    }

    fn reseal(&mut self, _: &Principal, _: &Sealed, _: &BoxPublicKey) -> Result<Sealed, MintError> {
        Ok(Sealed(Vec::new()))
    }
}
