//! A module's file into its manifest, with the place of everything another file could contradict.

use std::collections::BTreeMap;

use mesh_model::{EventName, EventRef, Manifest, ModuleName, SeatName, SecretName};

use crate::form::ManifestForm;
use crate::keyed::Keyed;
use crate::names::{Names, Offset};
use crate::{run, values};

/// What is said in a module's file, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    /// `name`.
    Name,
    /// A field as a whole, by the name it has in the file.
    Field(&'static str),
    /// One of `env`.
    Env(String),
    /// One of `after`.
    After(ModuleName),
    /// One of `emits`.
    Emits(EventName),
    /// One of `follows`.
    Follows(EventRef),
    /// One of `can_hold` or `sends_to`.
    Seat(&'static str, SeatName),
}

/// A manifest and the places of what it says.
pub(crate) type Placed = (Manifest, BTreeMap<Said, Offset>);

/// The manifest a form means; nothing when anything in it was refused.
pub(crate) fn manifest(form: ManifestForm, names: &mut Names<'_, '_>) -> Option<Placed> {
    let Keyed(of) = form.module;
    let name_at = of.name.span().start;
    let module = names.one::<ModuleName>("\"name\" in [module]", &of.name);
    let run_at = form.run.span().start;
    let Keyed(run) = form.run.into_inner();
    let how = run::how(&run, run_at, names);
    let health = run.health.as_ref().map(|it| run::health(it, names));
    let (Keyed(events), Keyed(seats)) = (form.events, form.seats);
    let lists = Lists {
        after: names.set("\"after\" in [run]", &run.after),
        emits: names.set("\"emits\" in [events]", &events.emits),
        follows: names.events("\"follows\" in [events]", &events.follows),
        can_hold: names.set("\"can_hold\" in [seats]", &seats.can_hold),
        sends_to: names.set("\"sends_to\" in [seats]", &seats.sends_to),
        secrets: names.values("\"secrets\" in [run]", &run.secrets, values::meant_secret),
    };
    if !names.errors.is_empty() {
        return None;
    }

    let mut said = lists.said();
    said.insert(Said::Name, name_at);
    said.insert(Said::Field("release"), of.release.span().start);
    said.extend(run::places(&run));
    let firsts = [
        ("after", run.after.first()),
        ("emits", events.emits.first()),
        ("follows", events.follows.first()),
        ("can_hold", seats.can_hold.first()),
        ("sends_to", seats.sends_to.first()),
        ("secrets", run.secrets.first()),
        ("env", run.env.keys().min_by_key(|key| key.span().start)),
    ];
    for (field, first) in firsts {
        said.extend(first.map(|text| (Said::Field(field), text.span().start)));
    }
    let mut env = BTreeMap::new();
    for (key, value) in run.env {
        said.insert(Said::Env(key.get_ref().clone()), key.span().start);
        env.insert(key.into_inner(), value);
    }
    let manifest = Manifest {
        module: module?,
        release: of.release.into_inner(),
        run: how?,
        after: lists.after.into_keys().collect(),
        env,
        restart: run.restart,
        emits: lists.emits.into_keys().collect(),
        follows: lists.follows.into_keys().collect(),
        can_hold: lists.can_hold.into_keys().collect(),
        sends_to: lists.sends_to.into_keys().collect(),
        health: match health {
            Some(health) => Some(health?),
            None => None,
        },
        secrets: lists.secrets.into_keys().collect(),
    };
    Some((manifest, said))
}

/// The names a manifest lists, each with its place.
#[derive(Debug)]
struct Lists {
    after: BTreeMap<ModuleName, Offset>,
    emits: BTreeMap<EventName, Offset>,
    follows: BTreeMap<EventRef, Offset>,
    can_hold: BTreeMap<SeatName, Offset>,
    sends_to: BTreeMap<SeatName, Offset>,
    secrets: BTreeMap<SecretName, Offset>,
}

impl Lists {
    fn said(&self) -> BTreeMap<Said, Offset> {
        let after = self
            .after
            .iter()
            .map(|(name, at)| (Said::After(name.clone()), *at));
        let emits = self
            .emits
            .iter()
            .map(|(name, at)| (Said::Emits(name.clone()), *at));
        let follows = self
            .follows
            .iter()
            .map(|(name, at)| (Said::Follows(name.clone()), *at));
        let seats = [("can_hold", &self.can_hold), ("sends_to", &self.sends_to)];
        let seats = seats.into_iter().flat_map(|(field, seats)| {
            seats
                .iter()
                .map(move |(name, at)| (Said::Seat(field, name.clone()), *at))
        });
        after.chain(emits).chain(follows).chain(seats).collect()
    }
}
