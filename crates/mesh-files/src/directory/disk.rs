//! The files of a directory, read, or why one cannot be.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::SourceFile;
use super::passed::PassedOver;
use crate::notation::Notation;
use crate::source::position;
use crate::{ErrorCode, FileError};

/// What is in a directory.
#[derive(Debug)]
pub(super) struct Found {
    /// The mesh's file, then the manifests in the order of their names.
    pub(super) read: Vec<SourceFile>,
    pub(super) passed_over: PassedOver,
}

/// The files of a directory; nothing, and an error, when it is none.
pub(super) fn files(dir: &Path, errors: &mut Vec<FileError>) -> Option<Found> {
    if let Some(message) = no_directory(dir) {
        errors.push(unreadable(&dir.display().to_string(), message));
        return None;
    }
    let mut paths: Vec<String> = ENDINGS
        .iter()
        .map(|ending| format!("mesh.{ending}"))
        // A link that leads nowhere is there, and is told.
        .filter(|path| dir.join(path).symlink_metadata().is_ok())
        .collect();
    paths.extend(module_paths(dir, errors));
    let read = paths.iter().filter_map(|path| slurp(dir, path, errors));
    Some(Found {
        read: read.collect(),
        passed_over: passed_over(dir),
    })
}

/// Why there is nothing to look for anything in; nothing when there may be.
fn no_directory(dir: &Path) -> Option<String> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some("this is a file; give the directory that mesh.toml is in".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("there is no such directory; give the one that mesh.toml is in".to_owned())
        }
        Err(error) => Some(cannot(&error)),
    }
}

/// Files that may have been meant as manifests: beside the directory of these, below it, or of another ending in it.
fn passed_over(dir: &Path) -> PassedOver {
    let mut paths = Vec::new();
    for path in names(dir, "") {
        if Notation::of(&path).is_some() && !path.starts_with("mesh.") {
            paths.push(path);
        }
    }
    for path in names(dir, MODULES) {
        let below = names(dir, &path);
        let manifests = below.filter(|path| Notation::of(path).is_some());
        paths.extend(manifests);
        if Notation::of(&path).is_none() && dir.join(&path).is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    PassedOver(paths)
}

/// What is in a folder, from the directory; nothing when that cannot be told, which is nobody's error here.
fn names(dir: &Path, folder: &str) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir.join(folder)).into_iter().flatten();
    let folder = folder.to_owned();
    entries
        .flatten()
        .take(ENTRIES_LIMIT)
        .filter_map(move |entry| {
            let name = entry.file_name().into_string().ok()?;
            if name.starts_with('.') {
                return None;
            }
            Some(match folder.as_str() {
                "" => name,
                folder => format!("{folder}/{name}"),
            })
        })
}

fn module_paths(dir: &Path, errors: &mut Vec<FileError>) -> Vec<String> {
    let entries = match std::fs::read_dir(dir.join(MODULES)) {
        Ok(entries) => entries,
        // A mesh without modules has no use for the directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            errors.push(unreadable(MODULES, cannot(&error)));
            return Vec::new();
        }
    };
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.extend(module_path(&entry.file_name(), errors)),
            Err(error) => errors.push(unreadable(MODULES, cannot(&error))),
        }
    }
    paths.sort();
    paths
}

/// The path of a manifest; nothing for a file of another kind.
fn module_path(name: &OsStr, errors: &mut Vec<FileError>) -> Option<String> {
    let path = format!("{MODULES}/{}", name.to_string_lossy());
    Notation::of(&path)?;
    if name.as_encoded_bytes().starts_with(b".") {
        return None;
    }
    if name.to_str().is_none() {
        let message = "the file's name is not UTF-8; give it another".to_owned();
        errors.push(unreadable(&path, message));
        return None;
    }
    Some(path)
}

/// A file's text; nothing, and an error, when it has none.
fn slurp(dir: &Path, path: &str, errors: &mut Vec<FileError>) -> Option<SourceFile> {
    let bytes = match bytes(&dir.join(path)) {
        Ok(bytes) => bytes,
        Err(message) => {
            errors.push(unreadable(path, message));
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
            let message = "the file is not UTF-8 from here on; save it as UTF-8".to_owned();
            errors.push(FileError {
                position: Some(position(&before, whole)),
                ..unreadable(path, message)
            });
            None
        }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let found = std::fs::metadata(path).map_err(|error| cannot(&error))?;
    if found.is_dir() {
        return Err("this is a directory, and a file is wanted".to_owned());
    }
    // A pipe would have us wait for somebody to write, and a device might never end.
    if !found.is_file() {
        return Err("this is no ordinary file; put the text itself here".to_owned());
    }
    let bytes = found.len();
    if bytes > BYTES_LIMIT {
        return Err(format!(
            "the file has {bytes} bytes and may have at most {BYTES_LIMIT}"
        ));
    }
    std::fs::read(path).map_err(|error| cannot(&error))
}

fn cannot(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; let whoever runs this read it",
        io::ErrorKind::NotFound => "; it is a link that leads nowhere",
        _ => "",
    };
    format!("cannot be read: {error}{remedy}")
}

/// An error about a file as a whole.
pub(super) fn unreadable(file: &str, message: String) -> FileError {
    FileError {
        file: file.to_owned(),
        position: None,
        code: ErrorCode::Unreadable,
        message,
    }
}

/// What a file of ours may end in.
const ENDINGS: &[&str] = &["toml", "json", "yaml", "yml"];
/// The directory of manifests.
const MODULES: &str = "modules";
/// Entries of a folder that are looked at for what may have been meant.
const ENTRIES_LIMIT: usize = 1000;
/// Bytes a file may have: ten times what the largest that means anything has.
const BYTES_LIMIT: u64 = 8 * 1024 * 1024;
