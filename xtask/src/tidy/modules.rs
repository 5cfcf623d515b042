//! Every source is part of something that is compiled.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

/// Where sources lie that no member of the workspace compiles: packages of their own.
const OUTSIDE: &[&str] = &["fuzz/"];

/// Sources no target of the workspace leads to, and modules in a `mod.rs`.
pub(super) fn reachable(tree: &Tree) -> Vec<Finding> {
    let reached = reached(tree);
    tree.ending(".rs")
        .filter_map(|(path, _)| {
            let message = if path.ends_with("/mod.rs") {
                "name it after its module: `foo.rs` beside `foo/`"
            } else if reached.contains(path) || OUTSIDE.iter().any(|out| path.starts_with(out)) {
                return None;
            } else {
                "nothing compiles it: declare it as a module or delete it"
            };
            Some(Finding::new(path, 1, message))
        })
        .collect()
}

/// The sources that the targets of our packages lead to by `mod` declarations.
fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<(String, String)> = tree
        .metadata
        .members()
        .flat_map(|package| &package.targets)
        .map(|target| (target.src_path.clone(), folder(&target.src_path).to_owned()))
        .collect();
    while let Some((path, modules)) = open.pop() {
        let Some(text) = tree.text(&path) else {
            continue;
        };
        if !reached.insert(path.clone()) {
            continue;
        }
        for declared in declarations(text) {
            open.push(match declared {
                Declared::Named(name) => {
                    let stem = join(&modules, name);
                    (format!("{stem}.rs"), stem)
                }
                Declared::At(elsewhere) => {
                    let path = join(folder(&path), elsewhere);
                    let beside = folder(&path).to_owned();
                    (path, beside)
                }
            });
        }
    }
    reached
}

#[derive(Debug, Eq, PartialEq)]
enum Declared<'a> {
    /// `mod name;`
    Named(&'a str),
    /// `#[path = ".."] mod name;`
    At(&'a str),
}

/// The modules a source declares to be in files of their own.
fn declarations(text: &str) -> Vec<Declared<'_>> {
    let mut declared = Vec::new();
    let mut path = None;
    for line in text.lines().map(str::trim) {
        if let Some(quoted) = line.strip_prefix("#[path = \"") {
            path = quoted.split('"').next();
        } else if let Some(name) = declaration(line) {
            declared.push(path.take().map_or(Declared::Named(name), Declared::At));
        } else if !line.starts_with("#[") {
            path = None;
        }
    }
    declared
}

/// The name in `mod name;`, whatever its visibility.
fn declaration(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.trim_start();
        match rest.strip_prefix('(') {
            Some(within) => within.split_once(')').map_or(rest, |(_, after)| after),
            None => rest,
        }
    });
    let (name, _) = line.trim_start().strip_prefix("mod ")?.split_once(';')?;
    let word = |letter: char| letter.is_alphanumeric() || letter == '_';
    name.chars().all(word).then_some(name)
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    fn unreached(files: &[(&str, &str)]) -> Vec<String> {
        let tree = sample::packages(files, &[sample::member("a", &[])]);
        reachable(&tree)
            .into_iter()
            .map(|found| found.path)
            .collect()
    }

    #[test]
    fn a_source_that_nothing_declares_is_found() {
        let found = unreached(&[
            (
                "crates/a/src/lib.rs",
                "mod one;\n    pub(crate) mod two;\n// mod lost;\n",
            ),
            ("crates/a/src/one.rs", "pub mod deep;\n"),
            ("crates/a/src/one/deep.rs", ""),
            ("crates/a/src/two.rs", "mod tests { }\n"),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/src/deep.rs", ""),
            ("fuzz/fuzz_targets/wire.rs", ""),
        ]);
        assert_eq!(found, ["crates/a/src/deep.rs", "crates/a/src/lost.rs"]);
    }

    #[test]
    fn a_path_leads_elsewhere() {
        let found = unreached(&[
            (
                "crates/a/src/lib.rs",
                "#[path = \"there/else.rs\"]\nmod one;\n",
            ),
            ("crates/a/src/there/else.rs", ""),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_module_in_mod_rs_is_found() {
        let found = unreached(&[
            ("crates/a/src/lib.rs", "mod one;\n"),
            ("crates/a/src/one/mod.rs", ""),
        ]);
        assert_eq!(found, ["crates/a/src/one/mod.rs"]);
    }
}
