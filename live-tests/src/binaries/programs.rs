//! Where the programs are: built once by the cargo that runs the test and found through its own messages, or, to hold a
//! release to the same tests, all in the folder that `MESH_TEST_PROGRAMS` names.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::server;

/// The mesh's programs, and the folder of `nats-server` where that is needed.
#[derive(Debug)]
pub(super) struct Programs {
    built: &'static BTreeMap<String, PathBuf>,
    nats: Option<PathBuf>,
}

/// What is built.
const PACKAGES: [&str; 6] = [
    "controller",
    "node-agent",
    "enrol",
    "meshctl",
    "hello",
    "live-tests",
];

impl Programs {
    /// The programs and `nats-server`; nothing when nobody says where that is, which is said aloud and in CI an error.
    pub(super) fn get() -> anyhow::Result<Option<Self>> {
        let Some(nats) = server::programs()? else {
            return Ok(None);
        };
        let nats = Some(nats);
        Ok(Some(Self {
            nats,
            ..Self::without_nats()?
        }))
    }

    /// The programs alone, for a mesh on another bus.
    pub(super) fn without_nats() -> anyhow::Result<Self> {
        static BUILT: OnceLock<Result<BTreeMap<String, PathBuf>, String>> = OnceLock::new();
        let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
        let built = built.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        Ok(Self { built, nats: None })
    }

    /// One of them.
    pub(super) fn path(&self, name: &str) -> anyhow::Result<&Path> {
        let path = self.built.get(name);
        path.map(PathBuf::as_path)
            .with_context(|| format!("cargo built no program {name}"))
    }

    /// Where programs are looked up: the server and the modules of `examples/hello` first.
    pub(super) fn search_path(&self) -> anyhow::Result<OsString> {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let own = [self.nats.as_deref(), self.path("controller")?.parent()];
        let own = own.into_iter().flatten().map(Path::to_owned);
        let all = own.chain(std::env::split_paths(&inherited));
        Ok(std::env::join_paths(all)?)
    }
}

fn build() -> anyhow::Result<BTreeMap<String, PathBuf>> {
    if let Some(folder) = std::env::var_os("MESH_TEST_PROGRAMS").map(PathBuf::from) {
        let found = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let named = found.map(|entry| {
            let entry = entry?;
            Ok((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ))
        });
        return named.collect();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").to_owned());
    let output = Command::new(cargo)
        .args(["build", "--message-format", "json-render-diagnostics"])
        .args(PACKAGES.iter().flat_map(|package| ["--package", *package]))
        .arg("--bins")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::piped())
        .output()
        .context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("cargo build: {}", String::from_utf8_lossy(&output.stderr));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(executable).collect())
}

/// The program a line of cargo's messages tells of, by name.
fn executable(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message.get("executable")?.as_str()?;
    let name = message.pointer("/target/name")?.as_str()?;
    Some((name.to_owned(), path.into()))
}
