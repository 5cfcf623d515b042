//! A NATS client for Python, which the module written in it is run with: into `.mesh/python`, every file by its checksum.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{pip, python, step, succeed};
use crate::cargo::root;

/// What is installed, file by file.
const REQUIREMENTS: &str = include_str!("../../python/requirements.txt");

/// The folder that Python is to look into, filled first when it does not hold exactly this.
pub(super) fn installed() -> Result<PathBuf> {
    let folder = root().join(".mesh/python");
    let said = folder.join("requirements.txt");
    if fs::read_to_string(&said).is_ok_and(|there| there == REQUIREMENTS) {
        step("nats-py already there");
        return Ok(folder);
    }
    pip()?;
    step("nats-py: downloading");
    let beside = root().join(".mesh");
    fs::create_dir_all(&beside).with_context(|| format!("creating {}", beside.display()))?;
    let scratch = tempfile::tempdir_in(&beside)
        .with_context(|| format!("creating a folder in {}", beside.display()))?;
    let whole = scratch.path().join("python");
    let mut install = python(["-m", "pip", "install", "--quiet", "--no-deps"]);
    install
        .args(["--require-hashes", "--disable-pip-version-check"])
        .args(["--root-user-action", "ignore", "--requirement"])
        .arg(root().join("xtask/python/requirements.txt"))
        .arg("--target")
        .arg(&whole);
    succeed(&mut install).context(
        "nats-py was not installed; check that pip reaches its package index, or name a folder that holds it in \
         MESH_TEST_PYTHON",
    )?;
    fs::write(whole.join("requirements.txt"), REQUIREMENTS)
        .with_context(|| format!("writing into {}", whole.display()))?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::rename(&whole, &folder).with_context(|| format!("installing {}", folder.display()))?;
    step("nats-py: installed");
    Ok(folder)
}
