//! The tree as the checks see it: every file that is tracked or could be, and the packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{Metadata, root};

/// Everything a check may look at.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Text by path from the root. A file that is not text is there as an empty one.
    files: BTreeMap<String, String>,
    pub(crate) metadata: Metadata,
}

impl Tree {
    /// Reads the files git tracks and those it would track if they were added.
    pub(crate) fn read() -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others"])
            .arg("--exclude-standard")
            .current_dir(root())
            .output()
            .context("running git ls-files; tidy needs git and a checkout")?;
        ensure!(
            output.status.success(),
            "git ls-files ended with {}; tidy needs a git checkout",
            output.status
        );
        let listed = String::from_utf8(output.stdout).context("reading git ls-files")?;
        let mut files = BTreeMap::new();
        for path in listed.split_terminator('\0') {
            // A file deleted but not yet committed is listed and not there.
            if let Ok(bytes) = std::fs::read(root().join(path)) {
                let text = String::from_utf8(bytes).unwrap_or_default();
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self {
            files,
            metadata: Metadata::read()?,
        })
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Every file's path and text.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends so.
    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }

    /// Whether there is a file or a folder of this path; the root's is empty.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }
}

/// Whether a file's name has this extension.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|its| its == extension)
}

/// The lines of a text, counted from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
pub(crate) mod sample {
    //! Trees for tests.

    use serde_json::{Value, json};

    use super::{BTreeMap, Tree};

    /// A tree of these files and no package.
    pub(crate) fn files(files: &[(&str, &str)]) -> Tree {
        packages(files, &[])
    }

    /// A tree of these files and these members of the workspace.
    pub(crate) fn packages(files: &[(&str, &str)], members: &[Value]) -> Tree {
        let ids: Vec<_> = members.iter().map(|member| member["id"].clone()).collect();
        with_metadata(
            files,
            json!({
                "packages": members,
                "workspace_members": ids,
                "resolve": {"nodes": []},
            }),
        )
    }

    /// A tree of these files and just this metadata.
    pub(crate) fn with_metadata(files: &[(&str, &str)], metadata: Value) -> Tree {
        let files: BTreeMap<_, _> = files
            .iter()
            .map(|&(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        Tree {
            files,
            metadata: serde_json::from_value(metadata).unwrap(),
        }
    }

    /// A member in `crates/`, with ordinary dependencies and one library target.
    pub(crate) fn member(name: &str, dependencies: &[&str]) -> Value {
        let dependencies: Vec<_> = dependencies
            .iter()
            .map(|name| json!({"name": name, "kind": null}))
            .collect();
        json!({
            "id": name,
            "name": name,
            "manifest_path": format!("crates/{name}/Cargo.toml"),
            "dependencies": dependencies,
            "targets": [{
                "name": name,
                "kind": ["lib"],
                "src_path": format!("crates/{name}/src/lib.rs"),
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_in_it_is() {
        let tree = sample::files(&[("docs/adr/0001.md", "")]);
        assert!(tree.has("docs/adr") && tree.has("docs/adr/0001.md") && tree.has(""));
        assert!(!tree.has("docs/ad") && !tree.has("docs/adr/0002.md"));
    }
}
