//! The files a module is handed: how they come onto the disk, and when they go.
//!
//! A module that runs may be reading any of them, so that each is replaced by rename and none is written that is as it
//! should be; a disk that takes nothing more leaves what was there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use mesh_auth::keyfile::{KeyFileError, write_handed};
use mesh_auth::secret::SecretBytes;
use mesh_model::{Declaration, ModuleName, SecretName};

use crate::state_dir::make_private;

/// Where the files modules are handed are: a directory a module, below one that is its owner's alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedFiles {
    dir: PathBuf,
    /// Where an earlier release kept credentials: what it started was told a path in here.
    earlier: PathBuf,
}

/// Who reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A process of the agent's own user.
    Process,
    /// Whichever user a container's program is; nobody else gets past the directory above.
    Container,
}

/// What one module is handed.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) creds: SecretBytes,
    pub(super) ca: Option<SecretBytes>,
    pub(super) secrets: BTreeMap<SecretName, SecretBytes>,
}

/// Which modules have files, and which secrets are among them.
pub(super) type Declared = BTreeMap<String, BTreeSet<String>>;

/// Why a module's files are not all in place.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceFilesError {
    /// A file.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// A directory, or a link.
    #[error("{} could not be {step}", path.display())]
    Io {
        path: PathBuf,
        step: &'static str,
        source: io::Error,
    },
}

impl HandedFiles {
    /// Those of the agent with this state directory.
    pub fn of_state(dir: &Path) -> Self {
        Self {
            dir: dir.join("handed"),
            earlier: dir.join("credentials"),
        }
    }

    /// The directory of one module's.
    pub fn of(&self, module: &ModuleName) -> PathBuf {
        self.dir.join(module.as_str())
    }

    /// The secrets a module has files of.
    pub(super) fn secrets_of(&self, module: &ModuleName) -> BTreeSet<SecretName> {
        let names = names(&self.of(module).join(SECRETS)).unwrap_or_default();
        names.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Puts a module's files in place; the credential last, since its change is what a running module looks for.
    pub(super) fn place(
        &self,
        module: &ModuleName,
        files: &Files,
        reader: Reader,
    ) -> Result<(), PlaceFilesError> {
        make_private(&self.dir).map_err(refused(&self.dir, "created"))?;
        let dir = self.of(module);
        let (dir_mode, mode) = reader.modes();
        make_dir(&dir, dir_mode)?;
        if !files.secrets.is_empty() {
            let secrets = dir.join(SECRETS);
            make_dir(&secrets, dir_mode)?;
            for (name, value) in &files.secrets {
                place_one(&secrets.join(name.as_str()), value, mode)?;
            }
        }
        if let Some(ca) = &files.ca {
            place_one(&dir.join(CA), ca, mode)?;
        }
        place_one(&dir.join(CREDS), &files.creds, mode)?;
        self.lead_here(module)
    }

    /// A module that was started by an earlier release finds its credential where it was told it is.
    fn lead_here(&self, module: &ModuleName) -> Result<(), PlaceFilesError> {
        let path = self.earlier.join(format!("{module}.creds"));
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        let beside = self.earlier.join(format!(".{module}.creds.link"));
        let to = Path::new("../handed").join(module.as_str()).join(CREDS);
        let linked = remove(&beside)
            .and_then(|()| symlink(to, &beside))
            .and_then(|()| fs::rename(&beside, &path));
        linked.map_err(refused(&path, "replaced by a link"))
    }

    /// Removes what modules that are not declared were handed, and of the others the secrets they are no longer.
    pub(super) fn keep_only(&self, declared: &Declared) -> io::Result<()> {
        for name in names(&self.dir)? {
            let path = self.dir.join(&name);
            match declared.get(&name) {
                None => remove(&path)?,
                Some(secrets) => keep_only_in(&path, secrets)?,
            }
        }
        let earlier = names(&self.earlier)?;
        let mut kept = 0;
        for name in &earlier {
            let module = name.strip_suffix(".creds").unwrap_or(name);
            if declared.contains_key(module) {
                kept += 1;
            } else {
                remove(&self.earlier.join(name))?;
            }
        }
        if kept == 0 && self.earlier.exists() {
            fs::remove_dir(&self.earlier)?;
        }
        Ok(())
    }
}

impl Reader {
    /// Of a directory, and of a file in it.
    const fn modes(self) -> (u32, u32) {
        match self {
            Self::Process => (0o700, 0o600),
            Self::Container => (0o755, 0o444),
        }
    }
}

/// What a declaration's modules are handed.
pub(super) fn declared(declaration: &Declaration) -> Declared {
    let modules = declaration.workloads.iter();
    modules
        .map(|workload| {
            let secrets = workload.secrets.keys().map(SecretName::to_string);
            (workload.module.to_string(), secrets.collect())
        })
        .collect()
}

fn keep_only_in(dir: &Path, secrets: &BTreeSet<String>) -> io::Result<()> {
    for name in names(dir)? {
        // What a write that was cut short left is hidden.
        if name.starts_with('.') || (name == SECRETS && secrets.is_empty()) {
            remove(&dir.join(&name))?;
        }
    }
    for name in names(&dir.join(SECRETS))? {
        if !secrets.contains(&name) {
            remove(&dir.join(SECRETS).join(&name))?;
        }
    }
    Ok(())
}

/// What is in a directory; nothing where it is not there. A name that is no text is none of ours.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// Removes whatever is there, if anything is.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn place_one(path: &Path, bytes: &SecretBytes, mode: u32) -> Result<(), PlaceFilesError> {
    let same = fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o7777 == mode)
        && fs::read(path).is_ok_and(|kept| SecretBytes::new(kept).expose() == bytes.expose());
    if !same {
        write_handed(path, bytes, mode)?;
    }
    Ok(())
}

fn make_dir(path: &Path, mode: u32) -> Result<(), PlaceFilesError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(refused(path, "created")(error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(path).map_err(refused(path, "examined"))?;
    if found.permissions().mode() & 0o7777 != mode {
        fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(refused(path, "given its mode"))?;
    }
    Ok(())
}

fn refused(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> PlaceFilesError {
    move |source| PlaceFilesError::Io {
        path: path.to_owned(),
        step,
        source,
    }
}

pub(super) const CREDS: &str = "creds";
pub(super) const CA: &str = "ca.pem";
pub(super) const SECRETS: &str = "secrets";

#[cfg(test)]
mod tests;
