//! An apt with folders of its own that knows one suite: nothing the machine has installed is asked about or changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{succeed, told};

/// Where the machine gets its packages, and which release of its distribution it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    pub(super) distribution: String,
    uri: String,
}

/// A package of the suite.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
}

/// The apt.
#[derive(Debug)]
pub(super) struct Apt {
    dir: PathBuf,
}

impl Mirror {
    /// The one in the machine's own sources.
    pub(super) fn find() -> Result<Self> {
        let release = fs::read_to_string("/etc/os-release").context("reading /etc/os-release")?;
        let mut targets = Command::new("apt-get");
        targets.args([
            "indextargets",
            "--format",
            "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        ]);
        let targets = told(&mut targets).context("there is no apt-get to ask for its sources")?;
        Self::in_sources(&release, &targets)
    }

    fn in_sources(release: &str, targets: &str) -> Result<Self> {
        let said = |key: &str| {
            let lines = release.lines().filter_map(|line| line.split_once('='));
            let mut named = lines.filter(|(name, _)| *name == key);
            named.next().map(|(_, value)| value.trim_matches('"'))
        };
        let distribution = said("ID").context("/etc/os-release has no ID")?;
        let own = said("VERSION_CODENAME").unwrap_or("stable");
        let uri = targets
            .lines()
            .find_map(|line| {
                let mut words = line.split(' ');
                let (uri, suite, component) = (words.next()?, words.next()?, words.next()?);
                let wanted = [own, "stable"].contains(&suite) && component == "main";
                wanted.then(|| uri.to_owned())
            })
            .with_context(|| {
                format!("apt's sources have no component main of {distribution} {own}")
            })?;
        Ok(Self {
            distribution: distribution.to_owned(),
            uri,
        })
    }

    /// A source of a suite, trusted by the distribution's keys.
    fn source(&self, suite: &str) -> String {
        let Self { distribution, uri } = self;
        let keys = format!("/usr/share/keyrings/{distribution}-archive-keyring.gpg");
        let trust = if Path::new(&keys).exists() {
            format!("[signed-by={keys}] ")
        } else {
            String::new()
        };
        let components = if distribution == "ubuntu" {
            "main universe"
        } else {
            "main"
        };
        format!("deb {trust}{uri} {suite} {components}\n")
    }
}

impl Apt {
    /// In an empty folder, for one suite. Asks the mirror what there is.
    pub(super) fn of(dir: &Path, mirror: &Mirror, suite: &str) -> Result<Self> {
        for folder in ["etc/none", "state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        let apt = Self {
            dir: dir.to_owned(),
        };
        fs::write(dir.join("state/status"), "")?;
        fs::write(dir.join("etc/sources.list"), mirror.source(suite))?;
        fs::write(dir.join("first.conf"), apt.first())?;
        fs::write(dir.join("last.conf"), last(Path::new("/etc/apt/apt.conf")))?;
        succeed(apt.command().args(["update", "-qq"])).with_context(|| {
            format!(
                "apt did not get the list of {suite}; check that it reaches the machine's mirror"
            )
        })?;
        Ok(apt)
    }

    /// What is read before the machine's own configuration, which is kept for how it reaches the mirror.
    fn first(&self) -> String {
        let dir = self.dir.display();
        format!(
            "Dir::Etc \"{dir}/etc\";\nDir::Etc::sourcelist \"sources.list\";\nDir::Etc::sourceparts \"none\";\n\
             Dir::Etc::preferencesparts \"none\";\nDir::Etc::parts \"/etc/apt/apt.conf.d\";\n\
             Dir::Etc::main \"{dir}/last.conf\";\nDir::Etc::trusted \"/etc/apt/trusted.gpg\";\n\
             Dir::Etc::trustedparts \"/etc/apt/trusted.gpg.d\";\nDir::State \"{dir}/state\";\n\
             Dir::State::status \"{dir}/state/status\";\nDir::Cache \"{dir}/cache\";\n",
        )
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", self.dir.join("first.conf"));
        command.env("LC_ALL", "C");
        command
    }

    /// A package and all it needs, were there nothing yet.
    pub(super) fn closure(&self, package: &str) -> Result<Vec<Package>> {
        let mut simulate = self.command();
        simulate.args(["install", "--simulate", "--no-install-recommends", package]);
        let packages = in_simulation(&told(&mut simulate)?);
        ensure!(
            !packages.is_empty(),
            "apt would install nothing for {package}"
        );
        Ok(packages)
    }

    /// Downloads packages, checked against what the suite has signed, and tells where they are.
    pub(super) fn download(&self, packages: &[Package]) -> Result<Vec<PathBuf>> {
        let into = self.dir.join("packages");
        fs::create_dir(&into)?;
        let mut download = self.command();
        download.current_dir(&into).args(["download", "-qq"]);
        download.args(
            packages
                .iter()
                .map(|it| format!("{}={}", it.name, it.version)),
        );
        succeed(&mut download)?;
        let files: Vec<PathBuf> = fs::read_dir(&into)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        ensure!(
            files.len() == packages.len(),
            "apt downloaded {} of {} packages",
            files.len(),
            packages.len()
        );
        Ok(files)
    }
}

/// What is read after the machine's own configuration: no command that it hangs on an update runs for us.
fn last(machines: &Path) -> String {
    let include = if machines.exists() {
        format!("#include \"{}\"\n", machines.display())
    } else {
        String::new()
    };
    // Its user cannot enter every folder; apt would say so at each download, and then do without it.
    format!(
        "{include}#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n#clear Acquire::IndexTargets::deb::DEP-11;\n\
         APT::Update::Error-Mode \"any\";\n\
         Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n"
    )
}

fn in_simulation(printed: &str) -> Vec<Package> {
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("Inst "));
    lines
        .filter_map(|line| {
            let (name, rest) = line.split_once(" (")?;
            let (version, _) = rest.split_once(' ')?;
            Some(Package {
                name: name.to_owned(),
                version: version.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "NAME=\"A name\"\nVERSION_CODENAME=older\nID=\"debian\"\n";

    #[test]
    fn the_mirror_is_the_one_the_machine_uses_for_its_own_release() {
        let targets = "http://other.example/ nodistro main\nhttp://mirror.example/security/ older-security main\n\
                       http://mirror.example/free/ older contrib\nhttp://mirror.example/ older main\n";
        let mirror = Mirror::in_sources(RELEASE, targets).unwrap();
        assert_eq!(mirror.distribution, "debian");
        assert_eq!(mirror.uri, "http://mirror.example/");
        let source = mirror.source("newer");
        assert!(
            source.ends_with("http://mirror.example/ newer main\n"),
            "{source}"
        );
        let error = Mirror::in_sources(RELEASE, "http://other.example/ nodistro main").unwrap_err();
        assert!(error.to_string().contains("debian older"), "{error}");
    }

    #[test]
    fn what_would_be_installed_is_read_with_its_version() {
        let printed = "NOTE: only a simulation\nInst libc6 (2.41-12 Debian:13.8/stable [amd64]) []\n\
                       Inst zlib1g (1:1.3+really1 Debian:13.8/stable [amd64])\nConf libc6 (2.41-12 Debian [amd64])\n";
        let packages = in_simulation(printed);
        let said: Vec<_> = packages
            .iter()
            .map(|it| (it.name.as_str(), it.version.as_str()))
            .collect();
        assert_eq!(said, [("libc6", "2.41-12"), ("zlib1g", "1:1.3+really1")]);
    }

    #[test]
    fn the_machines_own_configuration_is_read_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("apt.conf");
        assert!(!last(&own).contains("#include"));
        fs::write(&own, "").unwrap();
        assert!(last(&own).starts_with(&format!("#include \"{}\"\n", own.display())));
    }
}
