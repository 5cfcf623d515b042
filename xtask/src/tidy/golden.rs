//! A golden case is whole: what goes in and what is expected to come out.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

/// Cases in `crates/*/tests/cases` of which only one half is there: `NAME.in.*` or a folder `NAME`,
/// and `NAME.out.*`.
pub(super) fn paired(tree: &Tree) -> Vec<Finding> {
    let mut inputs = BTreeMap::new();
    let mut outputs = BTreeMap::new();
    for (path, _) in tree.files().filter(|(path, _)| is_case(path)) {
        if let Some((name, _)) = path.split_once(".in.") {
            inputs.insert(name, path);
        } else if let Some((name, _)) = path.split_once(".out.") {
            outputs.insert(name, path);
        } else if let Some(folder) = folder_case(path) {
            inputs.insert(folder, path);
        }
    }
    let alone = |those: &BTreeMap<&str, &str>, others: &BTreeMap<&str, &str>, missing: &str| {
        those
            .iter()
            .filter(|(name, _)| !others.contains_key(*name))
            .map(|(_, path)| Finding::new(path, 1, format!("its {missing} is missing")))
            .collect::<Vec<_>>()
    };
    let mut findings = alone(&inputs, &outputs, "expected output");
    findings.extend(alone(&outputs, &inputs, "input"));
    findings
}

/// The folder right in `tests/cases` that a file lies in, however deep.
fn folder_case(path: &str) -> Option<&str> {
    let (_, within) = path.split_once("/tests/cases/")?;
    let (_, inside) = within.split_once('/')?;
    path.strip_suffix(inside)?.strip_suffix('/')
}

fn is_case(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/tests/cases/")
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    #[test]
    fn half_a_case_is_found() {
        let tree = sample::files(&[
            ("crates/a/tests/cases/whole.in.toml", ""),
            ("crates/a/tests/cases/whole.out.json", ""),
            ("crates/a/tests/cases/asked.in.toml", ""),
            ("crates/a/tests/cases/deep/answered.out.json", ""),
            ("crates/b/tests/cases/asked.out.json", ""),
            ("crates/b/tests/cases/folder/modules/a.toml", ""),
            ("crates/b/tests/cases/folder.out.txt", ""),
            ("crates/b/tests/cases/unanswered/mesh.toml", ""),
            ("crates/a/tests/cases/README.md", ""),
            ("docs/tests/cases/no-case.in.md", ""),
        ]);
        let found: Vec<_> = paired(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/a/tests/cases/asked.in.toml:1: its expected output is missing",
                "crates/b/tests/cases/unanswered/mesh.toml:1: its expected output is missing",
                "crates/a/tests/cases/deep/answered.out.json:1: its input is missing",
                "crates/b/tests/cases/asked.out.json:1: its input is missing",
            ]
        );
    }
}
