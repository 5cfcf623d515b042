//! Every package takes its lints and its particulars from the workspace.

use toml::{Table, Value};

use super::Finding;
use super::tree::{Tree, lines};

const FIELDS: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// Manifests that decide for themselves what the workspace decides.
pub(super) fn inheritance(tree: &Tree) -> Vec<Finding> {
    tree.metadata
        .members()
        .filter_map(|package| {
            let path = package.manifest_path.as_str();
            Some((path, tree.text(path)?))
        })
        .flat_map(|(path, text)| {
            missing(text)
                .into_iter()
                .map(move |(line, message)| Finding::new(path, line, message))
        })
        .collect()
}

fn missing(text: &str) -> Vec<(usize, String)> {
    let manifest = match text.parse::<Table>() {
        Ok(manifest) => manifest,
        Err(error) => return vec![(1, error.message().to_owned())],
    };
    let package = manifest.get("package");
    let mut missing = Vec::new();
    if !inherited(manifest.get("lints")) {
        missing.push((1, "`[lints] workspace = true` is missing".to_owned()));
    }
    for field in FIELDS {
        if !inherited(package.and_then(|package| package.get(field))) {
            let line = lines(text)
                .find(|(_, line)| line.starts_with(field))
                .map_or(1, |(number, _)| number);
            missing.push((line, format!("`{field}.workspace = true` is missing")));
        }
    }
    if package
        .and_then(|package| package.get("description"))
        .is_none()
    {
        missing.push((1, "`description` is missing".to_owned()));
    }
    missing
}

fn inherited(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")) == Some(&Value::Boolean(true))
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    const WHOLE: &str = "[package]
name = \"a\"
description = \"what it is\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[lints]
workspace = true
";

    fn found(manifest: &str) -> Vec<String> {
        let tree = sample::packages(
            &[("crates/a/Cargo.toml", manifest)],
            &[sample::member("a", &[])],
        );
        inheritance(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_manifest_that_takes_everything_from_the_workspace_is_left_alone() {
        assert_eq!(found(WHOLE), [""; 0]);
    }

    #[test]
    fn a_field_of_its_own_is_found_with_its_line() {
        let own = WHOLE.replace("edition.workspace = true", "edition = \"2021\"");
        assert_eq!(
            found(&own),
            ["crates/a/Cargo.toml:5: `edition.workspace = true` is missing"]
        );
    }

    #[test]
    fn lints_and_a_description_are_not_forgotten() {
        assert_eq!(
            found(&WHOLE.replace("[lints]\nworkspace = true", "")).len(),
            1
        );
        assert_eq!(found(&WHOLE.replace("description", "homepage")).len(), 1);
    }
}
