//! Commands that the documents quote exist, down to their flags.

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Finding;
use super::tree::{Tree, lines};
use crate::Cli;
use crate::cargo::Package;

/// Quoted commands that could not be run as written.
pub(super) fn exist(tree: &Tree) -> Vec<Finding> {
    tree.ending(".md")
        .filter(|(path, _)| spoken_today(path))
        .flat_map(|(path, text)| {
            lines(text).flat_map(move |(number, line)| {
                let tasks = quoted(line, "cargo xtask ").filter_map(unknown_task);
                let packages = ["cargo run ", "cargo test ", "cargo nextest run "]
                    .into_iter()
                    .flat_map(move |command| quoted(line, command))
                    .filter_map(|words| unknown_package(tree, &words));
                tasks
                    .chain(packages)
                    .map(move |message| Finding::new(path, number, message))
                    .collect::<Vec<_>>()
            })
        })
        .collect()
}

/// Decisions and changes of the past may speak of what is gone.
fn spoken_today(path: &str) -> bool {
    !path.starts_with("docs/adr/") && path != "CHANGELOG.md"
}

/// The words that follow a command, wherever a line quotes it, up to the end of the quotation.
fn quoted(line: &str, command: &'static str) -> impl Iterator<Item = Vec<String>> {
    line.split(command).skip(1).map(|rest| {
        rest.split(['`', '#', '&', '|', ';', ')', '"', '\'', ',', '…'])
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|word| word.replace(['[', ']', '\\'], ""))
            .collect()
    })
}

/// What is wrong with a task as quoted. The value of a flag may be a placeholder.
fn unknown_task(words: Vec<String>) -> Option<String> {
    let quoted = words.join(" ");
    let all = std::iter::once("cargo xtask".to_owned()).chain(words);
    let error = Cli::command().try_get_matches_from(all).err()?;
    let wrong = match error.kind() {
        ErrorKind::InvalidSubcommand => "no such task",
        ErrorKind::UnknownArgument => "no such flag or argument",
        _ => return None,
    };
    Some(format!("`cargo xtask {quoted}`: {wrong}"))
}

/// What is wrong with the package, binary or example that a cargo command names.
fn unknown_package(tree: &Tree, words: &[String]) -> Option<String> {
    let named = |flags: &[&str]| {
        let own = words.iter().take_while(|word| *word != "--");
        own.skip_while(|word| !flags.contains(&word.as_str()))
            .nth(1)
    };
    let name = named(&["-p", "--package"])?;
    let Some(package) = tree.metadata.members().find(|member| member.name == *name) else {
        return Some(format!("there is no package `{name}`"));
    };
    let target = |flag: &str, kind: &str| {
        named(&[flag])
            .filter(|target| !has(package, kind, target))
            .map(|target| format!("`{name}` has no {kind} `{target}`"))
    };
    target("--example", "example").or_else(|| target("--bin", "bin"))
}

fn has(package: &Package, kind: &str, name: &str) -> bool {
    package
        .targets
        .iter()
        .any(|target| target.is(kind) && target.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tree::sample;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut member = sample::member("mesh-testkit", &[]);
        member["targets"] = json!([{"name": "sim", "kind": ["example"], "src_path": "sim.rs"}]);
        let tree = sample::packages(
            &[
                ("README.md", text),
                ("docs/adr/0001.md", "cargo xtask gone"),
            ],
            &[member],
        );
        exist(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn commands_that_can_be_run_are_left_alone() {
        for text in [
            "run `cargo xtask test` and `cargo xtask test --long`, then `cargo xtask` alone",
            "    cargo xtask sim --seeds 1000 --from 7   # many",
            "| `cargo xtask test-live [--only nats\\|loopback] [--faults]` |",
            "`cargo xtask sim --seeds N`",
            "cargo run -p mesh-testkit --example sim -- --bin nothing",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn commands_that_cannot_be_run_are_found_with_their_line() {
        for text in [
            "\n`cargo xtask tests`",
            "\n$ cargo xtask test --lnog",
            "\n`cargo xtask tidy` and `cargo xtask tydi`",
            "\n`cargo run -p mesh-common`",
            "\n`cargo run -q --package mesh-testkit --example simulator`",
            "\n`cargo run -p mesh-testkit --bin sim`",
        ] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("README.md:2: "), "{found:?}");
        }
    }
}
