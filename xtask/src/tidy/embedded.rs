//! What a stranger takes who embeds the derivation: a few small crates, each of them decided on.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::Tree;
use crate::cargo::Package;

/// The crate that others embed.
const EMBEDDED: &str = "mesh-derive";

/// Everything it may bring along, however far down. One more is a decision: it is compiled by everybody who embeds us, for
/// every target they have, a browser included.
const ALLOWED: &[&str] = &[
    "mesh-model",
    // data-encoding: how keys and passwords are written.
    "data-encoding",
    // serde and serde_json: records in, renderings out.
    "itoa",
    "memchr",
    "serde",
    "serde_core",
    "serde_derive",
    "serde_json",
    "zmij",
    // sha2: the account's hash in acknowledgement subjects.
    "block-buffer",
    "cfg-if",
    "const-oid",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hybrid-array",
    "sha2",
    "typenum",
    // thiserror, and what derives are made with.
    "proc-macro2",
    "quote",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-ident",
];

/// Crates that the embedded one reaches and nobody decided on, and those decided on that it no longer reaches.
pub(super) fn small(tree: &Tree) -> Vec<Finding> {
    let Some(package) = tree.metadata.members().find(|it| it.name == EMBEDDED) else {
        return Vec::new();
    };
    let reached = reached(tree, package);
    let finding = |message| Finding::new(&package.manifest_path, 1, message);
    let undecided = reached.iter().filter(|name| !ALLOWED.contains(name));
    let undecided = undecided.map(|name| {
        finding(format!(
            "whoever embeds {EMBEDDED} takes {name} along; do without it, or decide on it in {}",
            file!()
        ))
    });
    let gone = ALLOWED.iter().filter(|name| !reached.contains(*name));
    let gone = gone.map(|name| {
        finding(format!(
            "{EMBEDDED} no longer reaches {name}; take it off the list in {}",
            file!()
        ))
    });
    undecided.chain(gone).collect()
}

/// The names of all packages reached by what is not for tests. What a feature brings is among them: somebody in a workspace
/// asks for it, and everybody there compiles it.
fn reached<'a>(tree: &'a Tree, package: &'a Package) -> BTreeSet<&'a str> {
    let metadata = &tree.metadata;
    let nodes: BTreeMap<&str, _> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let mut seen = BTreeSet::from([package.id.as_str()]);
    let mut open = vec![package.id.as_str()];
    while let Some(id) = open.pop() {
        for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
            let kinds = &mut dependency.dep_kinds.iter();
            let ships = kinds.any(|kind| kind.kind.as_deref() != Some("dev"));
            if ships && seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    let packages = metadata.packages.iter();
    let reached = packages.filter(|it| it.id != package.id && seen.contains(it.id.as_str()));
    reached.map(|it| it.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tree::sample;
    use super::*;

    /// Findings when the embedded crate reaches these, each by the one before it.
    fn found(chain: &[&str], kind: Option<&str>) -> Vec<String> {
        let names = [&[EMBEDDED], chain].concat();
        let packages: Vec<Value> = names.iter().map(|it| sample::member(it, &[])).collect();
        let nodes: Vec<Value> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let next = names.get(at + 1);
                let next = next.map(|next| json!({"pkg": next, "dep_kinds": [{"kind": kind}]}));
                json!({"id": name, "deps": next.into_iter().collect::<Vec<_>>()})
            })
            .collect();
        let metadata = json!({
            "packages": packages,
            "workspace_members": [EMBEDDED],
            "resolve": {"nodes": nodes},
        });
        let findings = small(&sample::with_metadata(&[], metadata));
        findings.into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn a_crate_nobody_decided_on_is_found_however_far_down() {
        assert_eq!(found(ALLOWED, None), [""; 0]);
        let chain = [ALLOWED, &["chrono"]].concat();
        for kind in [None, Some("build")] {
            let found = found(&chain, kind);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("takes chrono along"), "{found:?}");
        }
    }

    #[test]
    fn a_crate_that_went_away_is_taken_off_the_list() {
        let found = found(&ALLOWED[1..], None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("no longer reaches mesh-model"));
    }

    #[test]
    fn what_a_feature_brings_is_everybodys_burden() {
        let mut embedded = sample::member(EMBEDDED, &["regex"]);
        embedded["dependencies"][0]["optional"] = json!(true);
        let metadata = json!({
            "packages": [embedded, sample::member("regex", &[])],
            "workspace_members": [EMBEDDED],
            "resolve": {"nodes": [
                {"id": EMBEDDED, "deps": [{"pkg": "regex", "dep_kinds": [{"kind": null}]}]},
            ]},
        });
        let findings = small(&sample::with_metadata(&[], metadata));
        let mut taken = findings.iter();
        assert!(
            taken.any(|it| it.message.contains("takes regex")),
            "{findings:?}"
        );
    }

    #[test]
    fn what_only_tests_need_is_nobodys_burden() {
        assert_eq!(found(&["chrono"], Some("dev")).len(), ALLOWED.len());
    }
}
