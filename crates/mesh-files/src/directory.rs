//! A directory of files into what they declare, or into everything that is wrong with them.

mod circle;
mod disk;
mod passed;
mod remedy;

use std::collections::BTreeMap;
use std::path::Path;

use mesh_model::{Declared, ManifestError, MeshError, ModuleName};

use crate::form::{ManifestForm, MeshForm};
use crate::manifest::{Said, manifest};
use crate::mesh::{MeshFile, mesh};
use crate::names::{Names, Offset};
use crate::notation::Notation;
use crate::read::read_on;
use crate::source::{Source, printable, quoted};
use crate::{ErrorCode, FileError};
use passed::PassedOver;

/// One file of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path from the directory, with `/` between: `mesh.toml`, `modules/mailer.toml`. What it ends in says how it is
    /// written: `.toml`, `.json`, `.yaml` or `.yml`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// Reads `mesh.toml` and every `modules/*.toml` below a directory, in the order of their names; as `.json`, `.yaml` and
/// `.yml` alike. Hidden files and those of other kinds are left alone.
pub fn load(dir: &Path) -> Result<Declared, Vec<FileError>> {
    let mut errors = Vec::new();
    let Some(found) = disk::files(dir, &mut errors) else {
        return Err(errors);
    };
    assembled(&found.read, &found.passed_over, errors)
}

/// What a set of files declares: one is `mesh.toml` (or `mesh.json`, `mesh.yaml`), every other a manifest. Every error of
/// every file is told, at most a hundred a file; whether the files agree is asked once each by itself is well formed.
pub fn assemble(files: &[SourceFile]) -> Result<Declared, Vec<FileError>> {
    assembled(files, &PassedOver::default(), Vec::new())
}

/// The same, beside files that were not read and errors met on the way to those that were.
fn assembled(
    files: &[SourceFile],
    passed_over: &PassedOver,
    mut errors: Vec<FileError>,
) -> Result<Declared, Vec<FileError>> {
    let unread = errors.iter().find(|error| names_mesh(&error.file));
    let mut mesh_met = unread.map(|error| error.file.clone());
    let mut mesh_file = None;
    let mut modules = BTreeMap::new();
    for file in files {
        let source = Source::new(&file.path, &file.text);
        let mut wrong = Vec::new();
        if names_mesh(&file.path) {
            if let Some(other) = mesh_met.replace(file.path.clone()) {
                let message = format!("{other} is there too; keep one of them");
                wrong.push(source.error(0, ErrorCode::Duplicate, message));
            }
            mesh_file = read_mesh(source, &mut wrong);
        } else {
            read_module(source, &mut modules, &mut wrong);
        }
        errors.append(&mut wrong);
    }
    if mesh_met.is_none() {
        let message =
            "there is no such file; it names the mesh: version = 1, [mesh], name = \"home\"";
        errors.push(disk::unreadable(MESH, message.to_owned()));
    }
    let declared = match mesh_file {
        Some((source, mesh)) if errors.is_empty() => Assembly {
            source,
            mesh,
            modules,
            passed_over,
        }
        .declared(&mut errors),
        _ => None,
    };
    errors.sort();
    match declared {
        Some(declared) if errors.is_empty() => Ok(declared),
        _ => Err(errors),
    }
}

fn read_mesh<'a>(
    source: Source<'a>,
    errors: &mut Vec<FileError>,
) -> Option<(Source<'a>, MeshFile)> {
    let form = read_on::<MeshForm>(source, errors)?;
    Some((source, mesh(form, &mut Names { source, errors })?))
}

fn read_module<'a>(
    source: Source<'a>,
    modules: &mut BTreeMap<ModuleName, ModuleFile<'a>>,
    errors: &mut Vec<FileError>,
) {
    let Some(form) = read_on::<ManifestForm>(source, errors) else {
        return;
    };
    let name_at = form.module.0.name.span().start;
    let Some((manifest, said)) = manifest(form, &mut Names { source, errors }) else {
        return;
    };
    if let Some(other) = modules.get(&manifest.module) {
        let message = format!(
            "module {} is already declared at {}; a module has one file",
            quoted(manifest.module.as_str()),
            other.source.place(other.at(&Said::Name))
        );
        errors.push(source.error(name_at, ErrorCode::Duplicate, message));
        return;
    }
    let file = ModuleFile {
        source,
        said,
        manifest,
    };
    modules.insert(file.manifest.module.clone(), file);
}

/// One module's file, read.
#[derive(Debug)]
struct ModuleFile<'a> {
    source: Source<'a>,
    said: BTreeMap<Said, Offset>,
    manifest: mesh_model::Manifest,
}

impl ModuleFile<'_> {
    /// Where something is said; where the module is named, when it is not said by itself.
    fn at(&self, said: &Said) -> Offset {
        let at = self.said.get(said).or_else(|| self.said.get(&Said::Name));
        at.copied().unwrap_or(0)
    }
}

/// Every file, read; not yet known to agree.
#[derive(Debug)]
struct Assembly<'a> {
    source: Source<'a>,
    mesh: MeshFile,
    modules: BTreeMap<ModuleName, ModuleFile<'a>>,
    passed_over: &'a PassedOver,
}

impl Assembly<'_> {
    fn declared(self, errors: &mut Vec<FileError>) -> Option<Declared> {
        let manifests = self.modules.iter();
        let declared = Declared {
            mesh: self.mesh.name.clone(),
            modules: manifests
                .map(|(name, file)| (name.clone(), file.manifest.clone()))
                .collect(),
            seats: self.mesh.seats.clone(),
            placements: self.mesh.placements.clone(),
        };
        let found = declared.check();
        errors.extend(
            found
                .iter()
                .take(SHOWN_LIMIT)
                .map(|error| self.placed(error)),
        );
        errors.is_empty().then_some(declared)
    }

    /// A contradiction, at the place that would be changed to end it.
    fn placed(&self, error: &MeshError) -> FileError {
        let circle = match error {
            MeshError::AfterCycle { modules } => self.circle(modules),
            _ => Vec::new(),
        };
        let what = match circle.as_slice() {
            [] => error.to_string(),
            circle => circle::sentence(circle),
        };
        let message = format!("{}{}", printable(&what), self.remedy(error));
        let in_mesh = |at: Option<&Offset>| {
            let at = at.copied().unwrap_or(self.mesh.name_at);
            self.source
                .error(at, ErrorCode::Contradiction, message.clone())
        };
        let in_module = |module: &ModuleName, said: &Said| match self.modules.get(module) {
            Some(file) => {
                let at = file.at(said);
                file.source
                    .error(at, ErrorCode::Contradiction, message.clone())
            }
            None => in_mesh(None),
        };
        match error {
            MeshError::Manifest { module, error } => in_module(module, &said_wrong(error)),
            MeshError::NobodyEmits { module, event, .. } => {
                in_module(module, &Said::Follows(event.clone()))
            }
            MeshError::UnknownSeat {
                module,
                field,
                seat,
            } => in_module(module, &Said::Seat(field, seat.clone())),
            MeshError::CannotHold { seat, .. } => in_mesh(self.mesh.holders_at.get(seat)),
            MeshError::Placement { module, field, .. } if *field == "count" => {
                in_mesh(self.mesh.counts_at.get(module))
            }
            MeshError::UnknownPlaced { module } | MeshError::Placement { module, .. } => {
                in_mesh(self.mesh.places_at.get(module))
            }
            MeshError::UnknownAfter { module, other } => {
                in_module(module, &Said::After(other.clone()))
            }
            MeshError::Misnamed { module, .. } => in_module(module, &Said::Name),
            MeshError::AfterCycle { .. } => match circle.as_slice() {
                [module, other, ..] => in_module(module, &Said::After((*other).clone())),
                _ => in_mesh(None),
            },
        }
    }
}

/// Which part of a manifest contradicts itself.
fn said_wrong(error: &ManifestError) -> Said {
    match error {
        ManifestError::ReservedEnv { name } | ManifestError::InvalidEnv { name } => {
            Said::Env(name.clone())
        }
        ManifestError::SecretEnv { name } => Said::Env(name.clone()),
        ManifestError::ReleaseSteers => Said::Field("release"),
        ManifestError::PortsOfHost | ManifestError::PortTwice { .. } => Said::Field("ports"),
        ManifestError::VolumeTwice { .. } => Said::Field("volumes"),
        ManifestError::Health { .. } => Said::Field("health"),
        ManifestError::Resources { .. } => Said::Field("resources"),
        ManifestError::AfterItself { module } => Said::After(module.clone()),
        ManifestError::AnnouncedListed => Said::Emits(mesh_model::EventName::announced()),
        ManifestError::Nul { field }
        | ManifestError::TooMany { field, .. }
        | ManifestError::TooLarge { field, .. } => Said::Field(field),
    }
}

/// Whether a file is the one that names the mesh.
fn names_mesh(path: &str) -> bool {
    path.strip_prefix("mesh.")
        .is_some_and(|ending| !ending.contains('/'))
        && Notation::of(path).is_some()
}

/// The file that names the mesh, as it is mostly written.
const MESH: &str = "mesh.toml";
/// Contradictions shown at once: with more of them nobody reads on.
const SHOWN_LIMIT: usize = 100;
