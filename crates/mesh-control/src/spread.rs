//! Which nodes a module runs on: every one its placement means, or as many of them as it counts, spread; and why it is not on
//! one that is meant.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    InstanceRef, Labels, ModuleName, NodeName, NodeRecord, Placement, Records, Scheduling, Selector,
};

/// Where modules are until now.
pub(crate) type Standing = BTreeSet<InstanceRef>;

/// Where modules are by these records.
pub(crate) fn standing(records: &Records) -> Standing {
    records.instances.keys().cloned().collect()
}

/// Every module on every node it is to run on. Whoever stands where it may stays there, and a node that is lost keeps what it
/// has: it may run on, and twice is worse than not at all.
pub(crate) fn placed(records: &Records, standing: &Standing) -> BTreeSet<InstanceRef> {
    let mut placed = BTreeSet::new();
    let mut missing = Vec::new();
    let before = load(standing);
    for (module, placement) in &records.declared.placements {
        let may = may_run(records, module, placement, standing);
        let Some(count) = placement.count else {
            placed.extend(may.into_iter().map(|(node, _)| instance(module, node)));
            continue;
        };
        let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
        let (mut here, others): (Vec<_>, Vec<_>) = may
            .into_iter()
            .partition(|(node, _)| standing.contains(&instance(module, node)));
        // Where it counts fewer than before, it goes from where nothing new goes, then from where most is.
        here.sort_by_key(|(node, record)| {
            let busy = before.get(*node).copied().unwrap_or_default();
            (record.scheduling, busy, *node)
        });
        here.truncate(count);
        let short = count - here.len();
        placed.extend(here.into_iter().map(|(node, _)| instance(module, node)));
        if short > 0 {
            let others = others.into_iter().map(|(node, _)| node);
            missing.push((module, short, others.collect::<Vec<_>>()));
        }
    }
    let mut load = load(&placed);
    for (module, short, mut nodes) in missing {
        nodes.sort_by_key(|node| (load.get(*node).copied().unwrap_or_default(), *node));
        for node in nodes.into_iter().take(short) {
            *load.entry(node.clone()).or_default() += 1;
            placed.insert(instance(module, node));
        }
    }
    placed
}

/// Nodes that a placement means and that take the module: those it is on already too, unless they are emptied.
fn may_run<'a>(
    records: &'a Records,
    module: &ModuleName,
    placement: &'a Placement,
    standing: &Standing,
) -> Vec<(&'a NodeName, &'a NodeRecord)> {
    let takes = |(node, record): &(&NodeName, &NodeRecord)| match record.scheduling {
        Scheduling::Open => true,
        Scheduling::Cordoned => standing.contains(&instance(module, node)),
        Scheduling::Drained => false,
    };
    match &placement.on {
        Selector::Nodes(nodes) => {
            let enrolled = nodes
                .iter()
                .filter_map(|node| records.nodes.get_key_value(node));
            enrolled.filter(takes).collect()
        }
        Selector::Labels(_) => {
            let nodes = records.nodes.iter();
            let meant = nodes.filter(|(node, record)| placement.on.selects(node, &record.labels));
            meant.filter(takes).collect()
        }
    }
}

fn instance(module: &ModuleName, node: &NodeName) -> InstanceRef {
    InstanceRef {
        module: module.clone(),
        node: node.clone(),
    }
}

/// How many modules each node has.
fn load(placed: &BTreeSet<InstanceRef>) -> BTreeMap<NodeName, usize> {
    let mut load = BTreeMap::new();
    for instance in placed {
        *load.entry(instance.node.clone()).or_default() += 1;
    }
    load
}

/// Why a module is not on every node it is placed on, or on fewer than it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortfall {
    /// In words.
    pub(crate) why: String,
    /// What was declared is not true without it. A module that is kept from some of its nodes by an operator alone, and runs
    /// on others, is as it is meant to be.
    pub(crate) awaited: bool,
}

/// Modules that are not where they are placed, each with the reason.
pub(crate) fn shortfalls(records: &Records) -> BTreeMap<ModuleName, Shortfall> {
    let mut on: BTreeMap<&ModuleName, BTreeSet<&NodeName>> = BTreeMap::new();
    for instance in records.instances.keys() {
        on.entry(&instance.module)
            .or_default()
            .insert(&instance.node);
    }
    let nodes = records.nodes.iter();
    let closed: Vec<_> = nodes
        .filter(|(_, record)| record.scheduling != Scheduling::Open)
        .collect();
    let nowhere = BTreeSet::new();
    let modules = records.declared.modules.keys();
    let short = modules.filter_map(|module| {
        let here = on.get(module).unwrap_or(&nowhere);
        let short = match records.declared.placements.get(module) {
            None => Shortfall {
                why: "no [[place]] names it".to_owned(),
                awaited: true,
            },
            Some(placement) => shortfall(records, placement, here, &closed)?,
        };
        Some((module.clone(), short))
    });
    short.collect()
}

fn shortfall(
    records: &Records,
    placement: &Placement,
    here: &BTreeSet<&NodeName>,
    closed: &[(&NodeName, &NodeRecord)],
) -> Option<Shortfall> {
    let count = placement
        .count
        .map(|count| usize::try_from(count.get()).unwrap_or(usize::MAX));
    if count.is_some_and(|count| here.len() >= count) {
        return None;
    }
    let missing = match &placement.on {
        Selector::Nodes(nodes) => {
            let unknown = nodes.iter().filter(|it| !records.nodes.contains_key(*it));
            names("not enrolled", unknown)
        }
        Selector::Labels(labels) => {
            let mut nodes = records.nodes.iter();
            let meant = !here.is_empty()
                || nodes.any(|(node, record)| placement.on.selects(node, &record.labels));
            (!meant).then(|| format!("no enrolled node has {}", pairs(labels)))
        }
    };
    let kept_off = |scheduling: Scheduling| {
        let those = closed.iter().filter(move |(node, record)| {
            record.scheduling == scheduling
                && !here.contains(node)
                && placement.on.selects(node, &record.labels)
        });
        those.map(|(node, _)| *node)
    };
    let unknown = missing.is_some();
    let reasons = [
        missing,
        names("cordoned", kept_off(Scheduling::Cordoned)),
        names("drained", kept_off(Scheduling::Drained)),
    ];
    let mut reasons: Vec<String> = reasons.into_iter().flatten().collect();
    if let Some(count) = count {
        if let (true, Selector::Labels(labels)) = (reasons.is_empty(), &placement.on) {
            reasons.push(format!("no other enrolled node has {}", pairs(labels)));
        }
        reasons.insert(0, format!("on {} of {count}", here.len()));
    }
    let awaited = unknown || here.is_empty() || count.is_some();
    let why = reasons.join("; ");
    (!why.is_empty()).then_some(Shortfall { why, awaited })
}

fn pairs(labels: &Labels) -> String {
    let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.join(", ")
}

/// Names under a heading; nothing without any.
fn names<'a>(heading: &str, nodes: impl Iterator<Item = &'a NodeName>) -> Option<String> {
    let nodes: Vec<&str> = nodes.map(NodeName::as_str).collect();
    (!nodes.is_empty()).then(|| format!("{heading}: {}", nodes.join(", ")))
}

#[cfg(test)]
mod tests;
