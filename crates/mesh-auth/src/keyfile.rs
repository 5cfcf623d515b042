//! Files that hold a secret: written whole or not at all, and read by nobody but their owner.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use rustix::{
    fs::OFlags,
    process::{Uid, geteuid},
};

use crate::{
    entropy::{EntropyError, random},
    secret::{SecretBytes, SecretText},
};

/// Why a key file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others may read it: what it holds is no secret any more.
    #[error(
        "{path} can be reached by others (mode {mode:04o}); run `chmod 600 {path}`, and replace the key if others \
         use this machine",
        path = path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Its owner can read and replace it, whatever its mode says.
    #[error(
        "{path} belongs to user {owner}, who can read and replace it; if it is to be trusted, run `chown {reader} {path}`",
        path = path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who was to read it.
        reader: u32,
    },
    /// A directory, a device, a socket, a pipe.
    #[error("{} is no regular file, so it is not read as a key", path.display())]
    NotAFile {
        /// What was found there.
        path: PathBuf,
    },
    /// Far larger than any key or credential.
    #[error("{} is larger than {limit} bytes, so it holds no key", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes it may have.
        limit: u64,
    },
    /// A key is text.
    #[error("{} holds bytes that are no text, so it is no key", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A file name is needed to write beside it.
    #[error("{} names no file", path.display())]
    NoName {
        /// What was given.
        path: PathBuf,
    },
    /// No randomness for the name of the temporary file.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The operating system refused a step.
    #[error("{} could not be {step}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done to it.
        step: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// Reads a secret, unless the file is anybody's but this user's or root's, or its mode lets the group or the world have
/// any part of it.
pub fn read_secret(path: &Path) -> Result<SecretText, KeyFileError> {
    read_secrets(path, MAX_LENGTH)
}

/// Reads a file of many secrets, of up to so many bytes, with the same care.
pub fn read_secrets(path: &Path, limit: u64) -> Result<SecretText, KeyFileError> {
    read_as(geteuid(), path, limit)
}

fn read_as(reader: Uid, path: &Path, limit: u64) -> Result<SecretText, KeyFileError> {
    let file = OpenOptions::new()
        .read(true)
        // Or opening a pipe would wait for someone to write to it.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(io_error(path, "opened"))?;
    // Of the file that is open, not of whatever the path names a moment later.
    let metadata = file.metadata().map_err(io_error(path, "examined"))?;
    if !metadata.is_file() {
        return Err(KeyFileError::NotAFile {
            path: path.to_owned(),
        });
    }
    let owner = Uid::from_raw(metadata.uid());
    if owner != reader && !owner.is_root() {
        return Err(KeyFileError::Foreign {
            path: path.to_owned(),
            owner: owner.as_raw(),
            reader: reader.as_raw(),
        });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    let read = file.take(limit.saturating_add(1)).read_to_string(&mut text);
    let text = SecretText::new(text);
    match read {
        Ok(length) if length as u64 > limit => Err(KeyFileError::TooLarge {
            path: path.to_owned(),
            limit,
        }),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(KeyFileError::NotText {
            path: path.to_owned(),
        }),
        Err(error) => Err(io_error(path, "read")(error)),
    }
}

/// Writes a secret for its owner alone (0600). When this returns it is on disk, whole, under its name.
pub fn write_secret(path: &Path, secret: &SecretText) -> Result<(), KeyFileError> {
    write(path, secret.expose().as_bytes(), 0o600)
}

/// Writes what everyone may read, such as a CA certificate (0644), with the same care.
pub fn write_public(path: &Path, text: &str) -> Result<(), KeyFileError> {
    write(path, text.as_bytes(), 0o644)
}

/// Writes what a program is handed, with the mode that lets it read it, with the same care.
pub fn write_handed(path: &Path, bytes: &SecretBytes, mode: u32) -> Result<(), KeyFileError> {
    write(path, bytes.expose(), mode)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), KeyFileError> {
    let no_name = || KeyFileError::NoName {
        path: path.to_owned(),
    };
    let name = path.file_name().ok_or_else(no_name)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}", HEXLOWER.encode(&*random::<8>()?)));
    let temporary = folder.join(temporary);

    let written = fill(&temporary, bytes, mode)
        .and_then(|()| std::fs::rename(&temporary, path).map_err(io_error(path, "put in place")));
    if let Err(error) = written {
        // It may hold a part of the secret; that it cannot be removed either is not the news.
        drop(std::fs::remove_file(&temporary));
        return Err(error);
    }
    // Until the folder is synced, a power cut may take the name back.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error(folder, "synced"))
}

fn fill(path: &Path, bytes: &[u8], mode: u32) -> Result<(), KeyFileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error(path, "created"))?;
    // Whatever the umask took or left.
    file.set_permissions(PermissionsExt::from_mode(mode))
        .map_err(io_error(path, "given its mode"))?;
    file.write_all(bytes).map_err(io_error(path, "written"))?;
    file.sync_all().map_err(io_error(path, "synced"))
}

fn io_error(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> KeyFileError {
    move |source| KeyFileError::Io {
        path: path.to_owned(),
        step,
        source,
    }
}

/// No key or credential comes near it.
const MAX_LENGTH: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.creds");
        write_secret(&path, &SecretText::new("first, and longer".to_owned())).unwrap();
        write_secret(&path, &SecretText::new("second".to_owned())).unwrap();
        assert_eq!(read_secret(&path).unwrap().expose(), "second");
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o7777,
            0o600
        );
        assert_eq!(names(folder.path()), ["node.creds"]);
    }

    #[test]
    fn a_secret_others_can_reach_is_refused_by_path_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.xkey");
        write_secret(&path, &SecretText::new("hunter2".to_owned())).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o777] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let error = read_secret(&path).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(&format!("(mode {mode:04o})"))
                    && text.contains(path.to_str().unwrap()),
                "{text}"
            );
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
        for mode in [0o600, 0o400] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            read_secret(&path).unwrap();
        }
    }

    #[test]
    fn a_secret_of_another_user_is_refused_whatever_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.creds");
        write_secret(&path, &SecretText::new("hunter2".to_owned())).unwrap();
        let own = geteuid();
        assert!(read_as(own, &path, MAX_LENGTH).is_ok());
        let another = Uid::from_raw(own.as_raw() + 1);
        if own.is_root() {
            // Root's own is everybody's to trust.
            assert!(read_as(another, &path, MAX_LENGTH).is_ok());
            std::os::unix::fs::chown(&path, Some(own.as_raw() + 2), None).unwrap();
            assert!(read_secret(&path).is_err());
        }
        let text = read_as(another, &path, MAX_LENGTH).unwrap_err().to_string();
        assert!(
            text.contains("belongs to user") && text.contains(&format!("`chown {another} ")),
            "{text}"
        );
    }

    #[test]
    fn a_pipe_is_no_key_file_and_nobody_waits_for_what_it_may_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.creds");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &path,
            rustix::fs::Mode::from_raw_mode(0o600),
        )
        .unwrap();
        assert!(matches!(
            read_secret(&path),
            Err(KeyFileError::NotAFile { .. })
        ));
    }

    #[test]
    fn what_is_no_key_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let missing = read_secret(&path).unwrap_err();
        assert!(
            matches!(missing, KeyFileError::Io { step: "opened", .. }),
            "{missing}"
        );
        assert!(matches!(
            read_secret(folder.path()),
            Err(KeyFileError::NotAFile { .. })
        ));
        write_secret(&path, &SecretText::new("x".repeat(300_000))).unwrap();
        assert!(matches!(
            read_secret(&path),
            Err(KeyFileError::TooLarge { .. })
        ));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(
            read_secret(&path),
            Err(KeyFileError::NotText { .. })
        ));
        assert!(matches!(
            write_public(Path::new("/"), ""),
            Err(KeyFileError::NoName { .. })
        ));
    }

    #[test]
    fn a_name_that_cannot_be_taken_leaves_no_secret_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        std::fs::create_dir_all(path.join("by a folder")).unwrap();
        let error = write_secret(&path, &SecretText::new("hunter2".to_owned())).unwrap_err();
        assert!(
            matches!(
                error,
                KeyFileError::Io {
                    step: "put in place",
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(names(folder.path()), ["taken"]);
    }

    #[test]
    fn what_everyone_may_read_is_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        write_public(&path, "certificate").unwrap();
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o7777,
            0o644
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "certificate");
    }
}
