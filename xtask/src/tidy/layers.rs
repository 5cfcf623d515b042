//! Layers: a crate depends on lower layers only, and the lowest two on nothing that acts.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::{Tree, lines};
use crate::cargo::{Metadata, Package};

/// Every package of the workspace and its layer; the drawing is in `docs/architecture.md`.
const LAYERS: &[(&str, u8)] = &[
    ("mesh-model", 0),
    ("mesh-servers", 0),
    ("mesh-derive", 1),
    ("mesh-window", 1),
    ("mesh-control", 1),
    ("mesh-wire", 2),
    ("mesh-bus", 2),
    ("mesh-amqp", 3),
    ("mesh-auth", 3),
    ("mesh-files", 3),
    ("mesh-host", 3),
    ("mesh-module", 3),
    ("mesh-nats", 3),
    ("mesh-runtime", 3),
    ("mesh-store", 3),
    ("mesh-agent", 4),
    ("mesh-api", 4),
    ("controller", 4),
    ("enrol", 4),
    ("hello", 4),
    ("meshctl", 4),
    ("node-agent", 4),
    ("mesh-testkit", 4),
    ("live-tests", 5),
    ("xtask", 5),
];

/// The arrows that stay inside a layer, each known and wanted.
const INSIDE: &[(&str, &str)] = &[
    ("mesh-control", "mesh-derive"),
    ("mesh-control", "mesh-window"),
    ("mesh-bus", "mesh-wire"),
    ("mesh-module", "mesh-amqp"),
    ("mesh-module", "mesh-nats"),
    ("controller", "mesh-agent"),
    ("controller", "mesh-api"),
    ("enrol", "mesh-agent"),
    ("meshctl", "mesh-api"),
    ("node-agent", "mesh-agent"),
];

/// The crate for tests alone, and who may depend on it as on any other.
const TESTKIT: &str = "mesh-testkit";
const OVER_TESTKIT: &[&str] = &["live-tests", "xtask"];

/// What a crate of layers 0 and 1 must not reach, however far down.
const ACTING: &[&str] = &["async-nats", "getrandom", "lapin", "rand", "tokio"];

/// Dependencies between our packages that point up or sideways. Those of tests are not looked at.
pub(super) fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.metadata.members() {
        let Some(from) = layer(&package.name) else {
            let message = format!("{} has no layer; give it one in {}", package.name, here());
            findings.push(Finding::new(&package.manifest_path, 1, message));
            continue;
        };
        for dependency in &package.dependencies {
            if dependency.kind.as_deref() == Some("dev") {
                continue;
            }
            if let Some(to) = layer(&dependency.name)
                && let Some(message) = refused((&package.name, from), (&dependency.name, to))
            {
                let line = asked_at(tree, package, &dependency.name);
                findings.push(Finding::new(&package.manifest_path, line, message));
            }
        }
    }
    findings
}

fn here() -> &'static str {
    file!()
}

fn layer(name: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(package, _)| *package == name)
        .map(|(_, layer)| *layer)
}

/// Why an arrow may not be there.
fn refused((from, upper): (&str, u8), (to, lower): (&str, u8)) -> Option<String> {
    if to == TESTKIT && !OVER_TESTKIT.contains(&from) {
        return Some(format!("{TESTKIT} is for tests: a dev-dependency only"));
    }
    let allowed = lower < upper || INSIDE.contains(&(from, to));
    (!allowed).then(|| format!("{from} (layer {upper}) must not depend on {to} (layer {lower})"))
}

/// The line of a manifest that asks for a dependency.
fn asked_at(tree: &Tree, package: &Package, dependency: &str) -> usize {
    let text = tree.text(&package.manifest_path).unwrap_or_default();
    lines(text)
        .find(|(_, line)| {
            line.trim()
                .strip_prefix(dependency)
                .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        })
        .map_or(1, |(number, _)| number)
}

/// Crates of layers 0 and 1 that reach something that acts, and by which way.
pub(super) fn pure(tree: &Tree) -> Vec<Finding> {
    tree.metadata
        .members()
        .filter(|package| layer(&package.name).is_some_and(|layer| layer <= 1))
        .flat_map(|package| {
            ways(&tree.metadata, package).map(|way| {
                let message = format!("a pure crate reaches {way}");
                Finding::new(&package.manifest_path, 1, message)
            })
        })
        .collect()
}

/// The way from a package to each acting crate it reaches by ordinary dependencies.
fn ways(metadata: &Metadata, package: &Package) -> impl Iterator<Item = String> {
    let names: BTreeMap<&str, &str> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package.name.as_str()))
        .collect();
    let nodes: BTreeMap<&str, _> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![(package.id.as_str(), package.name.clone())];
    while let Some((id, way)) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if names.get(id).is_some_and(|name| ACTING.contains(name)) {
            found.push(way);
            continue;
        }
        for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
            let ordinary = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            if let Some(name) = names.get(dependency.pkg.as_str()).filter(|_| ordinary) {
                open.push((&dependency.pkg, format!("{way} -> {name}")));
            }
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tree::sample;
    use super::*;

    fn arrow(from: &str, to: &str) -> Vec<String> {
        let manifest = format!("crates/{from}/Cargo.toml");
        let text = format!("[package]\n\n[dependencies]\nserde = \"1\"\n{to}.workspace = true\n");
        let tree = sample::packages(
            &[(&manifest, &text)],
            &[sample::member(from, &["serde", to])],
        );
        arrows(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_point_down() {
        for (from, to) in [
            ("mesh-control", "mesh-model"),
            ("mesh-control", "mesh-window"),
            ("mesh-module", "mesh-nats"),
            ("controller", "mesh-agent"),
            ("controller", "mesh-api"),
            ("enrol", "mesh-agent"),
            ("xtask", "mesh-testkit"),
        ] {
            assert_eq!(arrow(from, to), [""; 0]);
        }
    }

    #[test]
    fn an_arrow_up_or_sideways_is_found_with_its_line() {
        for (from, to) in [
            ("mesh-model", "mesh-derive"),
            ("mesh-window", "mesh-derive"),
            ("mesh-derive", "mesh-control"),
            ("mesh-wire", "mesh-bus"),
            ("mesh-nats", "mesh-module"),
            ("mesh-store", "mesh-auth"),
            ("mesh-api", "controller"),
            ("controller", "mesh-testkit"),
        ] {
            let findings = arrow(from, to);
            assert_eq!(findings.len(), 1, "{from} -> {to}: {findings:?}");
            assert!(findings[0].starts_with(&format!("crates/{from}/Cargo.toml:5: ")));
        }
    }

    #[test]
    fn a_dependency_of_tests_is_not_an_arrow() {
        let mut member = sample::member("mesh-nats", &["mesh-testkit"]);
        member["dependencies"][0]["kind"] = json!("dev");
        assert_eq!(arrows(&sample::packages(&[], &[member])), []);
    }

    #[test]
    fn a_package_without_a_layer_is_found() {
        let tree = sample::packages(&[], &[sample::member("mesh-common", &[])]);
        assert!(arrows(&tree)[0].message.contains("no layer"));
    }

    fn reaching(kind: Option<&str>) -> Vec<String> {
        let mut packages = vec![sample::member("mesh-derive", &["middle"])];
        packages.extend(["middle", "tokio"].map(|name| sample::member(name, &[])));
        let edge =
            |to: &str, kind: Option<&str>| json!([{"pkg": to, "dep_kinds": [{"kind": kind}]}]);
        let tree = sample::with_metadata(
            &[],
            json!({
                "packages": packages,
                "workspace_members": ["mesh-derive"],
                "resolve": {"nodes": [
                    {"id": "mesh-derive", "deps": edge("middle", None)},
                    {"id": "middle", "deps": edge("tokio", kind)},
                    {"id": "tokio", "deps": []},
                ]},
            }),
        );
        pure(&tree).into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn a_pure_crate_that_reaches_a_runtime_through_another_is_found() {
        assert_eq!(
            reaching(None),
            ["a pure crate reaches mesh-derive -> middle -> tokio"]
        );
        assert_eq!(reaching(Some("dev")), [""; 0]);
    }
}
