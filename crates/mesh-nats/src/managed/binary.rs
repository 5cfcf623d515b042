//! Finding a `nats-server` that is new enough.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::process::Command;

use crate::version::Version;

/// Why no server was found.
#[derive(Debug, thiserror::Error)]
pub enum FindServerError {
    /// None anywhere.
    #[error(
        "no nats-server in {searched}: `cargo xtask setup` in a checkout of the mesh gets one, or install {needed} or newer and name \
         its folder as server_dir in [bus.nats]"
    )]
    None {
        /// Where it was looked for.
        searched: String,
        /// What would do.
        needed: String,
    },
    /// One, or more, but none that is new enough.
    #[error(
        "{path} is version {found}; the mesh needs {needed} or newer (Debian's package is older)"
    )]
    TooOld {
        /// The newest that was found.
        path: PathBuf,
        /// Its version.
        found: String,
        /// What would do.
        needed: String,
    },
}

/// The first server that is new enough, and its version.
pub(super) async fn find(
    candidates: &[PathBuf],
    search_path: Option<&OsString>,
) -> Result<(PathBuf, Version), FindServerError> {
    let on_path = search_path.map(std::env::split_paths).into_iter().flatten();
    let dirs: Vec<PathBuf> = candidates.iter().cloned().chain(on_path).collect();
    let mut old: Option<(Version, PathBuf)> = None;
    for dir in &dirs {
        let path = dir.join("nats-server");
        let Some(version) = version_of(&path).await else {
            continue;
        };
        if version >= Version::NEEDED {
            return Ok((path, version));
        }
        old = old.max(Some((version, path)));
    }
    let needed = Version::NEEDED.to_string();
    Err(match old {
        Some((found, path)) => FindServerError::TooOld {
            path,
            found: found.to_string(),
            needed,
        },
        None => FindServerError::None {
            searched: dirs
                .iter()
                .map(|dir| dir.display().to_string())
                .collect::<Vec<_>>()
                .join(":"),
            needed,
        },
    })
}

async fn version_of(path: &PathBuf) -> Option<Version> {
    if !path.is_file() {
        return None;
    }
    let output = Command::new(path).arg("--version").output().await.ok()?;
    Version::parse(&String::from_utf8_lossy(&output.stdout))
}
