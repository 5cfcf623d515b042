//! A backup: one file with everything that is kept, and a state directory made of one.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cli::Cli;
use crate::config::Config;
use crate::keys::private_dir;
use crate::out;
use crate::state::{Begun, Layout, OpenStore, is_empty, new_id};

/// The parts of a backup besides the dump.
const PARTS: [&str; 2] = ["keys", "tls"];
const DUMP: &str = "store.dump";

/// Writes everything that is kept into one file, which appears whole or not at all, for its owner alone.
pub(crate) fn backup(cli: &Cli, to: &Path) -> anyhow::Result<()> {
    let layout = Layout(cli.state_dir());
    let engine = Config::load(cli)?.engine;
    if is_empty(&layout.store()) {
        bail!(
            "{} holds no store; is --state-dir right?",
            layout.0.display()
        );
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let dump = Staged::beside(&layout.0.join(DUMP))?;
    let records = runtime.block_on(async {
        let store = OpenStore::open(&layout.store(), engine, Begun::Before).await?;
        let summary = store.ledger.export(&dump.path).await;
        store.ledger.close().await;
        anyhow::Ok(summary?.records)
    })?;
    archive(&layout, &dump.path, to)?;
    out::data(&format!(
        "{}: {records} records, keys and certificates\n",
        to.display()
    ));
    Ok(())
}

fn archive(layout: &Layout, dump: &Path, to: &Path) -> anyhow::Result<()> {
    let what = || format!("backup {} cannot be written", to.display());
    let staged = Staged::beside(to)?;
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&staged.path)
        .with_context(what)?;
    let mut tar = tar::Builder::new(&mut file);
    tar.append_path_with_name(dump, DUMP).with_context(what)?;
    for part in PARTS {
        let dir = layout.0.join(part);
        if dir.is_dir() {
            tar.append_dir_all(part, &dir).with_context(what)?;
        }
    }
    tar.finish().with_context(what)?;
    drop(tar);
    file.flush().with_context(what)?;
    file.sync_all().with_context(what)?;
    staged.put(to).with_context(what)
}

/// Makes a state directory from a backup. It is there whole, or not at all.
pub(crate) fn restore(cli: &Cli, from: &Path) -> anyhow::Result<()> {
    let layout = Layout(cli.state_dir());
    if !is_empty(&layout.0) {
        bail!(
            "{} is not empty; a backup is restored into a new state directory, name one with --state-dir",
            layout.0.display()
        );
    }
    let engine = Config::load(cli)?.engine;
    let staged = Staged::beside(&layout.0)?;
    let half = Layout(staged.path.clone());
    private_dir(&half.0)?;
    let file =
        File::open(from).with_context(|| format!("backup {} cannot be read", from.display()))?;
    let mut tar = tar::Archive::new(file);
    tar.set_preserve_permissions(true);
    tar.unpack(&half.0)
        .with_context(|| format!("{} is no backup of a controller", from.display()))?;
    let dump = half.0.join(DUMP);
    // A new identity: what nodes were told after the backup is newer than what it holds, and must look so.
    let summary = mesh_store::import(&dump, &half.store(), engine, new_id()?)?;
    fs::remove_file(&dump).context("the unpacked dump cannot be removed")?;
    half.begin()?;
    sync(&half.0).context("what was restored cannot be put on disk")?;
    if layout.0.exists() {
        fs::remove_dir(&layout.0).context("the empty state directory cannot be replaced")?;
    }
    staged
        .put(&layout.0)
        .with_context(|| format!("{} cannot be made", layout.0.display()))?;
    let (dir, records) = (layout.0.display(), summary.records);
    out::data(&format!(
        "{dir}: {records} records, keys and certificates\n"
    ));
    Ok(())
}

/// Puts every file of a directory on disk, and the names of all of them.
fn sync(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            sync(&path)?;
        } else {
            File::open(&path)?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}

/// A name beside another that nobody else uses; what is there when it is dropped is removed.
struct Staged {
    path: PathBuf,
}

impl Staged {
    fn beside(path: &Path) -> anyhow::Result<Self> {
        let name = path
            .file_name()
            .with_context(|| format!("{} names no file", path.display()))?;
        let chance = u64::from_ne_bytes(mesh_auth::unique()?);
        let staged = format!(".{}.{chance:016x}", name.to_string_lossy());
        Ok(Self {
            path: path.with_file_name(staged),
        })
    }

    /// Gives it its name, and puts that on disk.
    fn put(self, path: &Path) -> std::io::Result<()> {
        fs::rename(&self.path, path)?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Nothing is there once it has its name; what a failure left holds keys and must not stay.
        let _gone = if self.path.is_dir() {
            fs::remove_dir_all(&self.path)
        } else {
            fs::remove_file(&self.path)
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;
    use mesh_model::{BusKind, Timestamp};

    use super::*;
    use crate::buses;
    use crate::keys::{Certificates, Keys};

    fn both() -> std::collections::BTreeSet<BusKind> {
        BusKind::ALL.into()
    }

    fn cli(dir: &Path) -> Cli {
        let dir = dir.display().to_string();
        Cli::parse_from(["controller", "--state-dir", &dir])
    }

    /// A state directory with keys and a store.
    fn begun(dir: &Path) -> Layout {
        let layout = Layout(dir.to_owned());
        private_dir(dir).unwrap();
        Keys::open(&layout.keys(), Begun::Now, Begun::Now).unwrap();
        buses::hold(
            &layout.keys(),
            Begun::Now,
            &both(),
            None,
            Timestamp::from_millis(0),
        )
        .unwrap();
        Certificates::open(&layout.tls(), &[], Begun::Now).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let engine = mesh_store::EngineKind::default();
            let store = OpenStore::open(&layout.store(), engine, Begun::Now).await;
            store.unwrap().ledger.close().await;
        });
        layout.begin().unwrap();
        layout
    }

    #[test]
    fn a_backup_is_its_owners_alone_whatever_lay_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let layout = begun(&dir.path().join("a"));
        let to = dir.path().join("b.tar");
        fs::write(&to, "old").unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o666)).unwrap();
        backup(&cli(&layout.0), &to).unwrap();
        assert_eq!(
            fs::metadata(&to).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let names = |dir: &Path| fs::read_dir(dir).unwrap().count();
        assert_eq!(names(dir.path()), 2, "nothing half is left");

        let restored = dir.path().join("c");
        restore(&cli(&restored), &to).unwrap();
        for name in ["signing", "secrets"] {
            let key = |dir: &Path| fs::read(dir.join(format!("keys/{name}.seed"))).unwrap();
            assert_eq!(key(&restored), key(&layout.0));
        }
        let buses = |dir: &Path| fs::read_to_string(dir.join("keys/bus")).unwrap();
        assert_eq!(
            (buses(&layout.0), buses(&restored)),
            ("nats\namqp\n".into(), "nats\namqp\n".into())
        );
        assert_eq!(Layout(restored).begun().unwrap(), Begun::Before);
    }

    #[test]
    fn a_restore_that_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let layout = begun(&dir.path().join("a"));
        let to = dir.path().join("b.tar");
        backup(&cli(&layout.0), &to).unwrap();
        let whole = fs::read(&to).unwrap();
        fs::write(&to, &whole[..whole.len() / 2]).unwrap();
        let restored = dir.path().join("c");
        assert!(restore(&cli(&restored), &to).is_err());
        assert!(!restored.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_was_begun_and_is_gone_is_not_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let layout = begun(&dir.path().join("a"));
        let begun = layout.begun().unwrap();
        fs::remove_file(layout.keys().join("signing.seed")).unwrap();
        let error = Keys::open(&layout.keys(), begun, Begun::Now).unwrap_err();
        assert!(error.to_string().contains("signing.seed"), "{error}");
        // An earlier release made none; what is sealed to one that is gone opens no more.
        fs::remove_file(layout.keys().join("secrets.seed")).unwrap();
        fs::copy(
            layout.keys().join("system.seed"),
            layout.keys().join("signing.seed"),
        )
        .unwrap();
        let error = Keys::open(&layout.keys(), begun, Begun::Before).unwrap_err();
        assert!(!error.to_string().contains("secrets.seed"), "{error}");
        fs::remove_file(layout.tls().join("ca.key")).unwrap();
        let error = Certificates::open(&layout.tls(), &[], begun).unwrap_err();
        assert!(error.to_string().contains("ca.key"), "{error}");
        fs::remove_dir_all(layout.store()).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let engine = mesh_store::EngineKind::default();
        let opened = runtime.block_on(OpenStore::open(&layout.store(), engine, begun));
        assert!(opened.unwrap_err().to_string().contains("holds no store"));
    }
}
