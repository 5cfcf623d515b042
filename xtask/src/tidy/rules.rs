//! The rules of derivation and the tests that hold them name each other.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{Tree, has_extension, lines};

const DOCUMENT: &str = "docs/derivation.md";
const TESTS: &str = "crates/mesh-derive/";

/// Rules that no test names, rules written twice, and names of rules that are not written down.
///
/// A rule is a heading `### D12 ..` of the document. A test names it in a comment or in its own
/// name (`d12_..`), and a golden case in its file's name.
pub(super) fn agree(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.text(DOCUMENT) else {
        return vec![Finding::new(
            DOCUMENT,
            1,
            "the rules of derivation are not written down",
        )];
    };
    let mut findings = Vec::new();
    let mut rules = BTreeMap::new();
    for (number, line) in lines(document) {
        if let Some(id) = line
            .strip_prefix("### ")
            .and_then(|title| ids(title).next())
            && rules.insert(id.clone(), number).is_some()
        {
            findings.push(Finding::new(
                DOCUMENT,
                number,
                format!("{id} is written twice"),
            ));
        }
    }
    if rules.is_empty() {
        findings.push(Finding::new(
            DOCUMENT,
            1,
            "no rule has a heading `### D<number>`",
        ));
    }
    let named = named(tree);
    for (id, number) in &rules {
        if !named.contains_key(id) {
            let message = format!("no test under {TESTS} names {id}");
            findings.push(Finding::new(DOCUMENT, *number, message));
        }
    }
    for (id, (path, number)) in &named {
        if !rules.contains_key(id) {
            let message = format!("{id} is no rule of {DOCUMENT}");
            findings.push(Finding::new(path, *number, message));
        }
    }
    findings
}

/// The ids that the tests name, and where first.
fn named(tree: &Tree) -> BTreeMap<String, (&str, usize)> {
    let mut named = BTreeMap::new();
    for (path, text) in tree.files().filter(|(path, _)| path.starts_with(TESTS)) {
        if path.contains("/tests/cases/") {
            for id in path.rsplit('/').take(1).flat_map(ids) {
                named.entry(id).or_insert((path, 1));
            }
        }
        if has_extension(path, "rs") {
            for (number, line) in lines(text).filter(|(_, line)| names_rules(line)) {
                for id in ids(line) {
                    named.entry(id).or_insert((path, number));
                }
            }
        }
    }
    named
}

/// Whether a line is one where a `D12` means a rule: a comment or the name of a function.
fn names_rules(line: &str) -> bool {
    line.contains("//") || line.trim_start().starts_with("fn ")
}

/// The ids in a text: a `D` and digits that stand as a word of their own.
fn ids(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter_map(|word| {
            let digits = word.strip_prefix(['D', 'd'])?;
            let number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
            number.then(|| format!("D{digits}"))
        })
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    fn found(document: &str, test: &str) -> Vec<String> {
        let tree = sample::files(&[
            ("docs/derivation.md", document),
            ("crates/mesh-derive/src/grants.rs", test),
            ("crates/mesh-derive/tests/cases/D03-a-seat.in.json", ""),
        ]);
        agree(&tree).iter().map(ToString::to_string).collect()
    }

    const RULES: &str = "# Rules\n### D01 One\n### D02 Two\n### D03 Three\nsee D04\n";

    #[test]
    fn a_rule_is_named_by_a_comment_a_function_or_a_case() {
        let tests = "// D01: says so\nfn d02_holds_too() {}\nlet d09 = 1;\n";
        assert_eq!(found(RULES, tests), [""; 0]);
    }

    #[test]
    fn a_rule_no_test_names_is_found() {
        assert_eq!(
            found(RULES, "/// D01\n"),
            ["docs/derivation.md:3: no test under crates/mesh-derive/ names D02"]
        );
    }

    #[test]
    fn a_name_of_no_rule_is_found() {
        assert_eq!(
            found(RULES, "// D01, D02\n// D05\n"),
            ["crates/mesh-derive/src/grants.rs:2: D05 is no rule of docs/derivation.md"]
        );
    }

    #[test]
    fn a_rule_written_twice_is_found() {
        let twice = format!("{RULES}### D02 Again\n");
        assert_eq!(
            found(&twice, "// D01 D02\n"),
            ["docs/derivation.md:6: D02 is written twice"]
        );
    }

    #[test]
    fn a_document_that_is_not_there_or_has_no_rules_is_found() {
        assert_eq!(agree(&sample::files(&[])).len(), 1);
        let empty = sample::files(&[("docs/derivation.md", "# Rules\n")]);
        assert_eq!(agree(&empty).len(), 1);
    }
}
