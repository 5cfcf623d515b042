//! Relative links in Markdown lead somewhere.

use super::Finding;
use super::tree::{Tree, has_extension, lines};

/// Links to files and headings that are not there.
pub(super) fn resolve(tree: &Tree) -> Vec<Finding> {
    tree.ending(".md")
        .flat_map(|(path, text)| {
            links(text).into_iter().filter_map(move |(line, link)| {
                let message = broken(tree, path, &link)?;
                Some(Finding::new(path, line, message))
            })
        })
        .collect()
}

/// What is wrong with a link, if it is one that can be followed here.
fn broken(tree: &Tree, from: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        Some(from.to_owned())
    } else {
        target(from, file)
    };
    let Some(target) = target.filter(|target| tree.has(target)) else {
        return Some(format!("`{link}` leads nowhere"));
    };
    let text = tree
        .text(&target)
        .filter(|_| has_extension(&target, "md"))?;
    let there = heading.is_empty() || headings(text).any(|each| each == heading);
    (!there).then(|| format!("`{link}`: {target} has no such heading"))
}

/// The path a relative link means, as seen from a file; none if it leaves the tree.
fn target(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a Markdown text outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    lines(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// The targets of `[..](target)` and `[..]: target`, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // Every other part between backticks is code.
        let line: String = line.split('`').step_by(2).collect();
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let reference = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target);
        for target in inline.chain(reference) {
            if let Some(target) = target.split_whitespace().next() {
                links.push((number, target.trim_matches(['<', '>']).to_owned()));
            }
        }
    }
    links
}

/// The anchors of a text's headings, by the rule that hosting sites share.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    fn found(readme: &str) -> Vec<String> {
        let tree = sample::files(&[
            ("README.md", "# Mesh\n"),
            ("docs/operating.md", "# Operating\n\n## Day `one`, again\n"),
            ("docs/here.md", readme),
        ]);
        resolve(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_left_alone() {
        for text in [
            "[a](../README.md) and [b](operating.md#day-one-again)",
            "[c](https://example.org/nowhere.md) and [d](../docs)",
            "[e]: operating.md \"title\"",
            "in `[f](code.md)` and\n```\n[g](fence.md)\n```\n",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        for text in [
            "\n[a](README.md)",
            "\n[b](operating.md#day-two)",
            "\n[c](../../outside.md)",
            "\n[d]: nowhere.md",
            "\n[ok](operating.md) [e](nowhere.md)",
            "\n[f](#nowhere)",
        ] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("docs/here.md:2: "), "{found:?}");
        }
    }
}
