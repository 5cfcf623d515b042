//! What cargo knows: the workspace's packages, and where a built binary lies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The workspace, as `cargo metadata` tells it.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A dependency as a manifest asks for it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: String,
}

/// The graph as it was resolved.
#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<NodeDependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeDependency {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DependencyKind {
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo about this workspace. Paths are told relative to its root.
    ///
    /// One platform is asked about, for otherwise cargo downloads what only others need.
    pub(crate) fn read() -> Result<Self> {
        let output = cargo(["metadata", "--format-version", "1"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .stderr(Stdio::inherit())
            .output()
            .context("running cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata ended with {}", output.status);
        }
        let mut metadata: Self =
            serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
        let root = format!("{}/", root().display());
        let relative = |path: &mut String| {
            if let Some(rest) = path.strip_prefix(&root) {
                *path = rest.to_owned();
            }
        };
        for package in &mut metadata.packages {
            relative(&mut package.manifest_path);
            for target in &mut package.targets {
                relative(&mut target.src_path);
            }
        }
        Ok(metadata)
    }

    /// The packages that are ours.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }
}

impl Target {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|each| each == kind)
    }
}

/// The workspace's folder.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A cargo command in the workspace's folder: the cargo that runs us, when one does.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    // What cargo told this program about itself would look to build scripts like a change, and have them run anew.
    for (name, _) in std::env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if told {
            command.env_remove(name);
        }
    }
    command
}

/// Builds the binaries of packages, and tells where cargo put each.
pub(crate) fn executables(packages: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    built(packages, &["--bins"])
}

/// The same, optimized.
#[cfg(feature = "bench")]
pub(crate) fn optimized(packages: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    built(packages, &["--bins", "--release"])
}

fn built(packages: &[&str], flags: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    let of = packages.iter().flat_map(|package| ["--package", *package]);
    let built = build(&of.chain(flags.iter().copied()).collect::<Vec<_>>())?;
    Ok(built.lines().filter_map(executable_in).collect())
}

/// Builds a package's binary, with these flags besides, and tells where cargo put it.
pub(crate) fn executable(package: &str, binary: &str, flags: &[&str]) -> Result<PathBuf> {
    let built = build(&[&["--package", package, "--bin", binary], flags].concat())?;
    built
        .lines()
        .filter_map(executable_in)
        .find_map(|(name, path)| (name == binary).then_some(path))
        .with_context(|| format!("cargo built {package} but told of no executable {binary}"))
}

/// Builds, and gives cargo's messages.
fn build(flags: &[&str]) -> Result<String> {
    let mut command = cargo(["build", "--message-format", "json-render-diagnostics"]);
    let output = command
        .args(flags)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo build")?;
    if !output.status.success() {
        bail!(
            "cargo build {} ended with {}",
            flags.join(" "),
            output.status
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The binary a line of cargo's messages tells of, by name.
fn executable_in(message: &str) -> Option<(String, PathBuf)> {
    #[derive(Deserialize)]
    struct Artifact {
        target: Target,
        executable: Option<PathBuf>,
    }
    let artifact: Artifact = serde_json::from_str(message).ok()?;
    let target = artifact.target;
    let executable = artifact.executable.filter(|_| target.is("bin"))?;
    Some((target.name, executable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_is_found_by_its_own_name_only() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"enrol","kind":["bin"],"src_path":"/s"},"executable":"/t/enrol"}"#;
        let found = executable_in(message);
        assert_eq!(found, Some(("enrol".into(), PathBuf::from("/t/enrol"))));
        assert_eq!(executable_in(r#"{"reason":"build-finished"}"#), None);
    }

    #[test]
    fn the_root_is_where_the_workspace_is_declared() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
