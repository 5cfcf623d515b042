//! Programs: those that are installed, and the one that is in the images of tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, anyhow, ensure};

/// Where an installed program is. Where administrators' programs are is looked at too: not everybody has that in the path.
pub fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/lib/podman"].map(PathBuf::from);
    let mut files = std::env::split_paths(&path)
        .chain(more)
        .map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// The program for images, one file that needs no other: `examples/in_an_image.rs`, built once for all tests of a process by
/// the compiler that built them.
pub fn in_an_image() -> anyhow::Result<&'static [u8]> {
    static BUILT: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built
        .as_ref()
        .map(Vec::as_slice)
        .map_err(|error| anyhow!("{error}"))
}

fn build() -> anyhow::Result<Vec<u8>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/in_an_image.rs");
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("program");
    // The cargo that runs a test has its compiler beside it.
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
    let rustc = beside.filter(|rustc| rustc.is_file());
    let output = Command::new(rustc.unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "bin", "-O"])
        .args(["-C", "target-feature=+crt-static"])
        .args(["-C", "strip=symbols", "-C", "panic=abort"])
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .context("rustc cannot be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", source.display());
    Ok(std::fs::read(&program)?)
}
