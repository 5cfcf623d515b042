//! `mesh.toml` into the mesh's name, its seats and its placements.

use std::collections::BTreeMap;

use mesh_model::{MeshName, ModuleName, NodeName, Placement, SeatName, SeatSpec, Selector};

use crate::ErrorCode;
use crate::form::{MeshForm, PlaceForm, Text};
use crate::keyed::Keyed;
use crate::names::{Names, Offset};
use crate::source::quoted;

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
}

/// What a form means; nothing when anything in it was refused.
pub(crate) fn mesh(form: MeshForm, names: &mut Names<'_, '_>) -> Option<MeshFile> {
    let name = names.one::<MeshName>("\"name\" in [mesh]", &form.mesh.0.name);
    let name_at = form.mesh.0.name.span().start;

    let (mut seats, mut seats_at, mut holders_at) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for Keyed(seat) in &form.seat {
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
            seats.insert(name, holder.and_then(|(module, _)| module).into());
        }
    }

    let (mut placements, mut places_at) = (BTreeMap::new(), BTreeMap::new());
    for Keyed(place) in form.place {
        let module = names.one::<ModuleName>("\"module\" in [[place]]", &place.module);
        let at = place.module.clone();
        let on = selector(place, names);
        if let Some(module) = module
            && first(names, &mut places_at, &module, "placement of module", &at)
            && let Some(on) = on
        {
            placements.insert(module, Placement { on, count: None });
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
