//! The files of a directory, read, or why one cannot be.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::SourceFile;
use crate::notation::Notation;
use crate::source::position;
use crate::{ErrorCode, FileError};

/// The mesh's file, then the manifests in the order of their names.
pub(super) fn files(dir: &Path, errors: &mut Vec<FileError>) -> Vec<SourceFile> {
    let mut paths: Vec<String> = ENDINGS
        .iter()
        .map(|ending| format!("mesh.{ending}"))
        // A link that leads nowhere is there, and is told.
        .filter(|path| dir.join(path).symlink_metadata().is_ok())
        .collect();
    paths.extend(module_paths(dir, errors));
    let read = paths.iter().filter_map(|path| slurp(dir, path, errors));
    read.collect()
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
/// Bytes a file may have: ten times what the largest that means anything has.
const BYTES_LIMIT: u64 = 8 * 1024 * 1024;
