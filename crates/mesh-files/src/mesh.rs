//! `mesh.toml` into the mesh's name, its seats and its placements.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use mesh_model::{MeshName, ModuleName, NodeName, Placement, SeatName, SeatSpec, Selector};
use toml::Spanned;

use crate::ErrorCode;
use crate::form::{MeshForm, PlaceForm, SeatForm, Text};
use crate::keyed::Keyed;
use crate::names::{Names, Offset};
use crate::source::quoted;
use crate::values::{self, Millis};

/// What `mesh.toml` says, and where.
#[derive(Debug)]
pub(crate) struct MeshFile {
    pub(crate) name: MeshName,
    pub(crate) seats: BTreeMap<SeatName, SeatSpec>,
    pub(crate) placements: BTreeMap<ModuleName, Placement>,
    /// Where the mesh is named.
    pub(crate) name_at: Offset,
    /// Where each holder is named.
    pub(crate) holders_at: BTreeMap<SeatName, Offset>,
    /// Where each placed module is named.
    pub(crate) places_at: BTreeMap<ModuleName, Offset>,
    /// Where it is said on how many nodes one is.
    pub(crate) counts_at: BTreeMap<ModuleName, Offset>,
}

/// What a form means; nothing when anything in it was refused.
pub(crate) fn mesh(form: MeshForm, names: &mut Names<'_, '_>) -> Option<MeshFile> {
    let name = names.one::<MeshName>("\"name\" in [mesh]", &form.mesh.0.name);
    let name_at = form.mesh.0.name.span().start;

    let (seats, holders_at) = seats(&form.seat, names);
    let (mut placements, mut places_at, mut counts_at) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for Keyed(place) in form.place {
        let module = names.one::<ModuleName>("\"module\" in [[place]]", &place.module);
        let at = place.module.clone();
        let counted_at = place.count.as_ref().map(|count| count.span().start);
        let count = place.count.as_ref().and_then(|count| nodes(count, names));
        let on = selector(place, names);
        if let Some(module) = module
            && first(names, &mut places_at, &module, "placement of module", &at)
            && let Some(on) = on
        {
            counts_at.extend(counted_at.map(|at| (module.clone(), at)));
            placements.insert(module, Placement { on, count });
        }
    }
    if !names.errors.is_empty() {
        return None;
    }
    Some(MeshFile {
        name: name?,
        seats,
        placements,
        name_at,
        holders_at,
        places_at,
        counts_at,
    })
}

fn selector(place: PlaceForm, names: &mut Names<'_, '_>) -> Option<Selector> {
    match (place.nodes, place.labels) {
        (Some(nodes), None) => {
            let nodes = names.set::<NodeName>("\"nodes\" in [[place]]", &nodes);
            Some(Selector::Nodes(nodes.into_keys().collect()))
        }
        (None, Some(labels)) => Some(Selector::Labels(labels.into_inner())),
        (Some(_), Some(labels)) => {
            let message = "[[place]] has both \"nodes\" and \"labels\"; choose one".to_owned();
            names.refuse(labels.span().start, ErrorCode::Contradiction, message);
            None
        }
        (None, None) => {
            let message = "[[place]] needs either \"nodes\" or \"labels\"".to_owned();
            names.refuse(place.module.span().start, ErrorCode::MissingKey, message);
            None
        }
    }
}

/// Its seats, and where each holder is named.
fn seats(
    forms: &[Keyed<SeatForm>],
    names: &mut Names<'_, '_>,
) -> (BTreeMap<SeatName, SeatSpec>, BTreeMap<SeatName, Offset>) {
    let (mut seats, mut seats_at, mut holders_at) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for Keyed(seat) in forms {
        let name = names.one::<SeatName>("\"name\" in [[seat]]", &seat.name);
        let holder = seat
            .holder
            .as_ref()
            .map(|holder| (names.one("\"holder\" in [[seat]]", holder), holder));
        let Some(name) = name else { continue };
        if first(names, &mut seats_at, &name, "seat", &seat.name) {
            if let Some((_, text)) = &holder {
                holders_at.insert(name.clone(), text.span().start);
            }
            let holder = holder.and_then(|(module, _)| module);
            let failover = failover(seat, names);
            seats.insert(name, SeatSpec { holder, failover });
        }
    }
    (seats, holders_at)
}

/// For how long the holder's nodes may be lost, where that matters.
fn failover(seat: &SeatForm, names: &mut Names<'_, '_>) -> Option<u64> {
    let grace = seat.grace.as_ref().map(|grace| {
        let field = "\"grace\" in [[seat]]";
        if seat.failover.is_none() {
            let message = format!(
                "{field} says how long before another module holds the seat, and none does: add failover = true"
            );
            names.refuse(grace.span().start, ErrorCode::Contradiction, message);
        }
        names.value(field, grace, values::meant_time)
    });
    if seat.failover != Some(true) {
        return None;
    }
    grace.map_or(Some(GRACE), |grace| grace.map(|Millis(grace)| grace))
}

/// On how many nodes a module is.
fn nodes(count: &Spanned<i64>, names: &mut Names<'_, '_>) -> Option<NonZeroU32> {
    let number = u32::try_from(*count.get_ref()).ok();
    let number = number.filter(|number| *number <= COUNT_LIMIT);
    let number = number.and_then(NonZeroU32::new);
    if number.is_none() {
        let message = format!(
            "\"count\" in [[place]] is from 1 to {COUNT_LIMIT}; to run it on every one of these nodes, leave it out"
        );
        names.refuse(count.span().start, ErrorCode::WrongValue, message);
    }
    number
}

/// Whether a name is the first of its kind; a second one is refused, saying where the first is.
fn first<T: Ord + Clone>(
    names: &mut Names<'_, '_>,
    seen: &mut BTreeMap<T, Offset>,
    name: &T,
    kind: &str,
    text: &Text,
) -> bool {
    let at = text.span().start;
    let Some(earlier) = seen.get(name) else {
        seen.insert(name.clone(), at);
        return true;
    };
    let message = format!(
        "{kind} {} is already at {}; keep one of them",
        quoted(text.get_ref()),
        names.source.place(*earlier)
    );
    names.refuse(at, ErrorCode::Duplicate, message);
    false
}

/// Milliseconds the holder's nodes may be lost, unless the file says.
const GRACE: u64 = 30_000;
/// Nodes a placement may count.
const COUNT_LIMIT: u32 = 10_000;
