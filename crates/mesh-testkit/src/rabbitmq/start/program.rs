//! Which broker is started: the installed one, or one unpacked into a folder, with the Erlang unpacked beside it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Management;

/// A broker's program.
#[derive(Debug)]
pub(in crate::rabbitmq) struct Program {
    pub(super) file: PathBuf,
    unpacked: Option<Unpacked>,
}

#[derive(Debug)]
struct Unpacked {
    /// The folder with its Erlang's programs.
    erlang: PathBuf,
    /// The version, as the folder says.
    version: String,
}

/// Where Debian and Ubuntu put it. What they put into the path changes user and folder first.
const PACKAGED: &str = "usr/lib/rabbitmq/bin/rabbitmq-server";

impl Program {
    /// The installed one.
    pub(in crate::rabbitmq) fn installed() -> Option<Self> {
        crate::rabbitmq::installed().map(Self::at)
    }

    /// The program that a distribution installed below a root, or else one in the path.
    pub(in crate::rabbitmq) fn found(root: &Path, path: &OsStr) -> Option<PathBuf> {
        let in_path = std::env::split_paths(path).map(|dir| dir.join("rabbitmq-server"));
        let mut files = [root.join(PACKAGED)].into_iter().chain(in_path);
        files.find(|program| {
            let real = program.canonicalize();
            real.is_ok_and(|real| real.is_file() && !real.ends_with("rabbitmq-script-wrapper"))
        })
    }

    /// The one below a folder.
    pub(in crate::rabbitmq) fn unpacked(root: &Path) -> anyhow::Result<Self> {
        let file = root.join(PACKAGED);
        let real = file.canonicalize().context(
            "it holds no RabbitMQ; `cargo xtask setup --rabbitmq 4` unpacks one into .mesh",
        )?;
        let mut folders = real.components().filter_map(|it| it.as_os_str().to_str());
        let version = folders
            .find_map(|folder| folder.strip_prefix("rabbitmq_server-"))
            .context("no folder above its program tells a version")?;
        Ok(Self {
            unpacked: Some(Unpacked {
                erlang: root.canonicalize()?.join("usr/lib/erlang/bin"),
                version: version.to_owned(),
            }),
            file,
        })
    }

    /// Some program, started with the machine's own Erlang.
    pub(super) const fn at(file: PathBuf) -> Self {
        Self {
            file,
            unpacked: None,
        }
    }

    /// Where it finds Erlang, and all else.
    pub(super) fn path(&self) -> anyhow::Result<OsString> {
        let machines = std::env::var_os("PATH").unwrap_or_default();
        let Some(unpacked) = &self.unpacked else {
            return Ok(machines);
        };
        let first = [unpacked.erlang.clone()];
        let all = first.into_iter().chain(std::env::split_paths(&machines));
        std::env::join_paths(all).context("no folder in PATH may have a colon in its name")
    }

    /// Refuses a broker that is not of the folder it was to be of.
    pub(in crate::rabbitmq) fn is_what_runs(&self, management: &Management) -> anyhow::Result<()> {
        let Some(unpacked) = &self.unpacked else {
            return Ok(());
        };
        let overview = management.get("overview")?;
        let says = overview.get("rabbitmq_version").and_then(Value::as_str);
        let says = says.unwrap_or_default();
        ensure!(
            says == unpacked.version,
            "{} holds RabbitMQ {} and what runs says it is {says:?}",
            self.file.display(),
            unpacked.version
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_changes_the_user_first_is_not_taken_for_the_broker() {
        let dir = tempfile::tempdir().unwrap();
        let (sbin, local) = (dir.path().join("usr/sbin"), dir.path().join("local"));
        for folder in [&sbin, &local] {
            fs::create_dir_all(folder).unwrap();
        }
        let wrapper = dir.path().join("usr/sbin/rabbitmq-script-wrapper");
        fs::write(&wrapper, "").unwrap();
        symlink(&wrapper, sbin.join("rabbitmq-server")).unwrap();
        let path = std::env::join_paths([&sbin, &local]).unwrap();
        assert_eq!(Program::found(dir.path(), &path), None);
        fs::write(local.join("rabbitmq-server"), "").unwrap();
        let own = local.join("rabbitmq-server");
        assert_eq!(Program::found(dir.path(), &path), Some(own));
    }

    #[test]
    fn an_unpacked_broker_is_started_with_the_erlang_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let scripts = "usr/lib/rabbitmq/lib/rabbitmq_server-4.0.5/sbin";
        for folder in [scripts, "usr/lib/rabbitmq/bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join(scripts).join("rabbitmq-server"), "").unwrap();
        let link = "../lib/rabbitmq_server-4.0.5/sbin/rabbitmq-server";
        symlink(link, root.join(PACKAGED)).unwrap();

        let program = Program::unpacked(&root).unwrap();
        assert_eq!(program.file, root.join(PACKAGED));
        assert_eq!(program.unpacked.as_ref().unwrap().version, "4.0.5");
        let path = program.path().unwrap();
        let first = std::env::split_paths(&path).next();
        assert_eq!(first, Some(root.join("usr/lib/erlang/bin")));
    }

    #[test]
    fn a_folder_without_a_broker_says_how_one_gets_there() {
        let dir = tempfile::tempdir().unwrap();
        let error = Program::unpacked(dir.path()).unwrap_err().to_string();
        assert!(error.contains("setup --rabbitmq 4"), "{error}");
    }
}
