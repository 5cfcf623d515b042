//! A directory of files into what they declare, or into everything that is wrong with them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use mesh_model::{Declared, ManifestError, MeshError, ModuleName};

use crate::form::{ManifestForm, MeshForm};
use crate::later;
use crate::manifest::{Said, manifest};
use crate::mesh::{MeshFile, mesh};
use crate::names::{Names, Offset};
use crate::read::read_on;
use crate::source::{Source, did_you_mean, position, printable, quoted};
use crate::{ErrorCode, FileError};

/// One file of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path from the directory, with `/` between: `mesh.toml`, `modules/mailer.toml`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// Reads `mesh.toml` and every `modules/*.toml` below a directory, in the order of their names. Other files are left
/// alone, except a manifest in another notation, which would be missed in silence.
pub fn load(dir: &Path) -> Result<Declared, Vec<FileError>> {
    let mut errors = Vec::new();
    let mut files = Vec::new();
    files.extend(slurp(dir, MESH, &mut errors));
    for path in module_paths(dir, &mut errors) {
        files.extend(slurp(dir, &path, &mut errors));
    }
    assembled(&files, errors)
}

/// What a set of files declares: one is `mesh.toml`, every other a manifest. Every error of every file is told, at most a hundred
/// a file; whether the files agree is asked once each by itself is well formed.
pub fn assemble(files: &[SourceFile]) -> Result<Declared, Vec<FileError>> {
    assembled(files, Vec::new())
}

/// The same, beside errors met on the way to the files.
fn assembled(files: &[SourceFile], mut errors: Vec<FileError>) -> Result<Declared, Vec<FileError>> {
    let mut mesh_met = errors.iter().any(|error| error.file == MESH);
    let mut mesh_file = None;
    let mut modules = BTreeMap::new();
    for file in files {
        let source = Source {
            file: &file.path,
            text: &file.text,
        };
        let mut wrong = Vec::new();
        if file.path == MESH {
            mesh_met = true;
            mesh_file = read_mesh(source, &mut wrong);
        } else {
            read_module(source, &mut modules, &mut wrong);
        }
        errors.append(&mut wrong);
    }
    if !mesh_met {
        errors.push(unreadable(
            MESH,
            "there is no such file; it names the mesh".to_owned(),
        ));
    }
    let declared = match mesh_file {
        Some((source, mesh)) if errors.is_empty() => Assembly {
            source,
            mesh,
            modules,
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
    let form = read_on::<MeshForm>(source, later::MESH, errors)?;
    Some((source, mesh(form, &mut Names { source, errors })?))
}

fn read_module<'a>(
    source: Source<'a>,
    modules: &mut BTreeMap<ModuleName, ModuleFile<'a>>,
    errors: &mut Vec<FileError>,
) {
    let Some(form) = read_on::<ManifestForm>(source, later::MANIFEST, errors) else {
        return;
    };
    let name_at = form.module.name.span().start;
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
        let message = format!("{}{}", printable(&error.to_string()), self.nearest(error));
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
            MeshError::UnknownPlaced { module } | MeshError::Placement { module, .. } => {
                in_mesh(self.mesh.places_at.get(module))
            }
            MeshError::UnknownAfter { module, other } => {
                in_module(module, &Said::After(other.clone()))
            }
            MeshError::Misnamed { module, .. } => in_module(module, &Said::Name),
            MeshError::AfterCycle { modules } => match modules.as_slice() {
                [] => in_mesh(None),
                [module, ..] => in_module(module, &self.waits_in(module, modules)),
            },
        }
    }

    /// The `after` by which a module waits for another of a circle.
    fn waits_in(&self, module: &ModuleName, circle: &[ModuleName]) -> Said {
        let after = self.modules.get(module).map(|file| &file.manifest.after);
        circle
            .iter()
            .find(|other| after.is_some_and(|after| after.contains(*other)))
            .map_or(Said::Name, |other| Said::After(other.clone()))
    }

    /// What may have been meant instead of a name nobody declares.
    fn nearest(&self, error: &MeshError) -> String {
        let modules = || self.modules.keys().map(ModuleName::as_str);
        let declared = |module| self.modules.contains_key(module);
        match error {
            MeshError::NobodyEmits { event, .. } => match self.modules.get(&event.module) {
                Some(file) => {
                    let emitted = file.manifest.emits.iter();
                    did_you_mean(event.event.as_str(), emitted.map(AsRef::as_ref))
                }
                None => did_you_mean(event.module.as_str(), modules()),
            },
            MeshError::UnknownSeat { seat, .. } => {
                did_you_mean(seat.as_str(), self.mesh.seats.keys().map(AsRef::as_ref))
            }
            MeshError::CannotHold { module, .. } if !declared(module) => {
                did_you_mean(module.as_str(), modules())
            }
            MeshError::UnknownPlaced { module: other } | MeshError::UnknownAfter { other, .. } => {
                did_you_mean(other.as_str(), modules())
            }
            MeshError::Manifest { .. }
            | MeshError::Misnamed { .. }
            | MeshError::Placement { .. }
            | MeshError::CannotHold { .. }
            | MeshError::AfterCycle { .. } => String::new(),
        }
    }
}

/// Which part of a manifest contradicts itself.
fn said_wrong(error: &ManifestError) -> Said {
    match error {
        ManifestError::ReservedEnv { name } | ManifestError::InvalidEnv { name } => {
            Said::Env(name.clone())
        }
        ManifestError::AfterItself { module } => Said::After(module.clone()),
        ManifestError::AnnouncedListed => Said::Emits(mesh_model::EventName::announced()),
        ManifestError::Nul { .. }
        | ManifestError::TooMany { .. }
        | ManifestError::TooLarge { .. } => Said::Name,
    }
}

fn module_paths(dir: &Path, errors: &mut Vec<FileError>) -> Vec<String> {
    let entries = match std::fs::read_dir(dir.join(MODULES)) {
        Ok(entries) => entries,
        // A mesh without modules has no use for the directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            errors.push(unreadable(MODULES, error.to_string()));
            return Vec::new();
        }
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = match entry {
            Ok(entry) => entry.file_name(),
            Err(error) => {
                errors.push(unreadable(MODULES, error.to_string()));
                continue;
            }
        };
        let path = format!("{MODULES}/{}", name.to_string_lossy());
        let hidden = name.to_string_lossy().starts_with('.');
        match Path::new(&name).extension().and_then(|e| e.to_str()) {
            Some("toml") if !hidden => paths.push(path),
            Some("yaml" | "yml" | "json") if !hidden => {
                let message = "this release reads manifests as TOML; write it as .toml";
                errors.push(unreadable(&path, message.to_owned()));
            }
            _ => {}
        }
    }
    paths.sort();
    paths
}

/// A file's text; nothing, and an error, when it has none.
fn slurp(dir: &Path, path: &str, errors: &mut Vec<FileError>) -> Option<SourceFile> {
    let bytes = match std::fs::read(dir.join(path)) {
        Ok(bytes) => bytes,
        // That there is none is told where one is missed.
        Err(error) if path == MESH && error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            errors.push(unreadable(path, error.to_string()));
            return None;
        }
    };
    match String::from_utf8(bytes) {
        Ok(text) => Some(SourceFile {
            path: path.to_owned(),
            text,
        }),
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(error.as_bytes());
            errors.push(FileError {
                position: Some(position(&before, whole)),
                ..unreadable(path, "the file is not UTF-8 from here on".to_owned())
            });
            None
        }
    }
}

fn unreadable(file: &str, message: String) -> FileError {
    FileError {
        file: file.to_owned(),
        position: None,
        code: ErrorCode::Unreadable,
        message,
    }
}

/// The file that names the mesh.
const MESH: &str = "mesh.toml";
/// The directory of manifests.
const MODULES: &str = "modules";
/// Contradictions shown at once: with more of them nobody reads on.
const SHOWN_LIMIT: usize = 100;
