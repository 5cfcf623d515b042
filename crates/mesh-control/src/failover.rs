//! Who takes a seat when its holder is lost: functions of the records and of who is heard.

use mesh_model::{InstanceRef, ModuleName, Moving, NodeName, Records, SeatName};

/// The nodes a module is placed on, in their order.
pub(crate) fn nodes_of<'a>(
    records: &'a Records,
    module: &ModuleName,
) -> impl Iterator<Item = &'a NodeName> {
    // No name comes before this one.
    let first = NodeName::new("0").ok().map(|node| InstanceRef {
        module: module.clone(),
        node,
    });
    let from = first.into_iter();
    let from = from.flat_map(|first| records.instances.range(first..));
    let module = module.clone();
    from.take_while(move |(instance, _)| instance.module == module)
        .map(|(instance, _)| &instance.node)
}

/// Who holds a seat, if he still can.
pub(crate) fn holder<'a>(records: &'a Records, seat: &SeatName) -> Option<&'a ModuleName> {
    let holder = records.holder(seat)?;
    let able = records.declared.can_hold(holder, seat).is_ok();
    able.then_some(holder)
}

/// The modules that can hold a seat, by name.
pub(crate) fn candidates<'a>(
    records: &'a Records,
    seat: &'a SeatName,
) -> impl Iterator<Item = &'a ModuleName> {
    let manifests = records.declared.modules.values();
    let able = manifests.filter(move |manifest| manifest.can_hold.contains(seat));
    able.map(|manifest| &manifest.module)
}

/// Whether a module could work a seat now: it is on a node that is heard, and that is not just changing its bus.
pub(crate) fn could_work(
    records: &Records,
    module: &ModuleName,
    is_heard: impl Fn(&NodeName) -> bool,
) -> bool {
    nodes_of(records, module).any(|node| {
        let record = records.nodes.get(node);
        let settled =
            record.is_some_and(|record| !matches!(record.moving, Some(Moving::Leaving { .. })));
        settled && is_heard(node)
    })
}

/// Who takes a seat from its holder: the next by name that could work it, and after the last the first.
pub(crate) fn successor<'a>(
    records: &'a Records,
    seat: &'a SeatName,
    holder: &ModuleName,
    is_heard: impl Fn(&NodeName) -> bool,
) -> Option<&'a ModuleName> {
    let able = |module: &&ModuleName| *module != holder && could_work(records, module, &is_heard);
    let mut all: Vec<&ModuleName> = candidates(records, seat).filter(able).collect();
    let after = all.partition_point(|module| *module < holder);
    all.rotate_left(after);
    all.first().copied()
}
