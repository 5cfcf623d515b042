//! A module's file into its manifest, with the place of everything another file could contradict.

use std::collections::BTreeMap;

use mesh_model::{EventName, EventRef, Manifest, ModuleName, Run, SeatName};
use toml::Spanned;

use crate::form::{ManifestForm, RunForm};
use crate::keyed::Keyed;
use crate::names::{Names, Offset};
use crate::{ErrorCode, FileError};

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
    let command = command(&form.run, names);
    let Keyed(run) = form.run.into_inner();
    let (Keyed(events), Keyed(seats)) = (form.events, form.seats);
    let lists = Lists {
        after: names.set("\"after\" in [run]", &run.after),
        emits: names.set("\"emits\" in [events]", &events.emits),
        follows: names.events("\"follows\" in [events]", &events.follows),
        can_hold: names.set("\"can_hold\" in [seats]", &seats.can_hold),
        sends_to: names.set("\"sends_to\" in [seats]", &seats.sends_to),
    };
    if !names.errors.is_empty() {
        return None;
    }

    let mut said = lists.said();
    said.insert(Said::Name, name_at);
    said.insert(Said::Field("release"), of.release.span().start);
    let command_at = run.command.as_ref().map(|argv| argv.span().start);
    said.extend(command_at.map(|at| (Said::Field("command"), at)));
    let firsts = [
        ("after", run.after.first()),
        ("emits", events.emits.first()),
        ("follows", events.follows.first()),
        ("can_hold", seats.can_hold.first()),
        ("sends_to", seats.sends_to.first()),
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
        run: command?,
        after: lists.after.into_keys().collect(),
        env,
        restart: run.restart,
        emits: lists.emits.into_keys().collect(),
        follows: lists.follows.into_keys().collect(),
        can_hold: lists.can_hold.into_keys().collect(),
        sends_to: lists.sends_to.into_keys().collect(),
        health: None,
        secrets: [].into(),
    };
    Some((manifest, said))
}

fn command(run: &Spanned<Keyed<RunForm>>, names: &mut Names<'_, '_>) -> Option<Run> {
    let Some(argv) = &run.get_ref().0.command else {
        // Who wrote `image` has been told to write a command.
        let told = |error: &FileError| error.code == ErrorCode::NotCarriedOut;
        if !names.errors.iter().any(told) {
            let message = "[run] needs a key \"command\"".to_owned();
            names.refuse(run.span().start, ErrorCode::MissingKey, message);
        }
        return None;
    };
    let command = Run::command(argv.get_ref().iter().cloned());
    if command.is_none() {
        let message = "\"command\" in [run] names no program; write [\"bin\", \"arg\"]";
        names.refuse(argv.span().start, ErrorCode::WrongValue, message.to_owned());
    }
    command
}

/// The names a manifest lists, each with its place.
#[derive(Debug)]
struct Lists {
    after: BTreeMap<ModuleName, Offset>,
    emits: BTreeMap<EventName, Offset>,
    follows: BTreeMap<EventRef, Offset>,
    can_hold: BTreeMap<SeatName, Offset>,
    sends_to: BTreeMap<SeatName, Offset>,
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
