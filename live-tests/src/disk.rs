//! A disk that a test can fill.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

/// A small disk. Dropped, it is taken away, whoever still has it open.
#[derive(Debug)]
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts one of so many MiB; nothing where this host does not let us, which is said aloud and in CI an error.
    #[expect(
        clippy::print_stderr,
        reason = "a live test that does not run says so aloud"
    )]
    pub fn mount(at: &Path, mib: u32) -> anyhow::Result<Option<Self>> {
        std::fs::create_dir_all(at)?;
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={mib}m,mode=0700"))
            .arg("tmpfs")
            .arg(at)
            .output()?;
        if mount.status.success() {
            return Ok(Some(Self(at.to_owned())));
        }
        let why = String::from_utf8_lossy(&mount.stderr).trim().to_owned();
        if mesh_testkit::in_ci() {
            bail!("a small disk cannot be mounted, and in CI every live test runs: {why}");
        }
        eprintln!("did not run: a small disk cannot be mounted without being root: {why}");
        Ok(None)
    }

    /// Leaves no room on it.
    pub fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = File::create(self.0.join("ballast"))?;
        let mut size = 1 << 20;
        while size > 0 {
            let full = ballast.write_all(&vec![7; size]).is_err();
            if full {
                size /= 2;
            }
        }
        Ok(())
    }

    /// Gives the room back.
    pub fn free(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.0.join("ballast"))?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Nothing more can be done about one that does not go.
        let _taken = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
