//! Every case from somebody's production is held by a test that is named after it, or listed with why it cannot be.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Finding;
use super::tree::{Tree, lines};

/// The cases, as they were collected.
const CASES: &str = "crates/mesh-derive/tests/cases/hand.json";
/// Those that no test is named after, each with the reason.
const NOT_APPLICABLE: &str = "crates/mesh-derive/tests/cases/not_applicable.toml";

/// What of a case is looked at here.
#[derive(Debug, Deserialize)]
struct Case {
    id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotApplicable {
    case: Vec<Excuse>,
}

/// Why there is no test for a case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    id: String,
    reason: String,
}

/// Cases that are neither tested nor excused, those that are both, and tests and excuses of cases there are not.
///
/// A test holds the case `B-493aff5` when it is called `case_b_493aff5_` and what is right, in words.
pub(super) fn agree(tree: &Tree) -> Vec<Finding> {
    let cases = match tree.text(CASES).map(serde_json::from_str::<Vec<Case>>) {
        Some(Ok(cases)) => cases,
        Some(Err(error)) => {
            return vec![Finding::new(CASES, error.line().max(1), error.to_string())];
        }
        None => return vec![Finding::new(CASES, 1, "the cases are not there")],
    };
    let text = tree.text(NOT_APPLICABLE).unwrap_or_default();
    let excuses = match toml::from_str::<NotApplicable>(text) {
        Ok(list) => list.case,
        Err(error) => return vec![Finding::new(NOT_APPLICABLE, 1, error.message())],
    };
    let mut findings = Vec::new();
    let mut known = BTreeMap::new();
    for case in &cases {
        let at = place(CASES, &case.id, tree);
        if known.insert(case.id.as_str(), at.clone()).is_some() {
            findings.push(at.finding(format!("{} is there twice", case.id)));
        }
    }
    let mut excused = BTreeMap::new();
    for excuse in &excuses {
        let at = place(NOT_APPLICABLE, &excuse.id, tree);
        if excuse.reason.trim().is_empty() {
            findings.push(at.finding(format!("{} is left out without a reason", excuse.id)));
        }
        if excused.insert(excuse.id.as_str(), at.clone()).is_some() {
            findings.push(at.finding(format!("{} is left out twice", excuse.id)));
        }
    }
    let tested = tested(tree);
    for (id, at) in &known {
        if !tested.contains_key(*id) && !excused.contains_key(id) {
            let name = id.to_lowercase().replace('-', "_");
            findings.push(at.finding(format!(
                "no test `case_{name}_..` holds {id}, and {NOT_APPLICABLE} does not say why"
            )));
        }
    }
    for (id, at) in &excused {
        if let Some(test) = tested.get(*id) {
            findings.push(at.finding(format!("{id} is left out and tested, in {}", test.path)));
        }
    }
    let tested = tested.iter().map(|(id, at)| (id.as_str(), at));
    for (id, at) in tested.chain(excused.iter().map(|(id, at)| (*id, at))) {
        if !known.contains_key(id) {
            findings.push(at.finding(format!("{id} is no case of {CASES}")));
        }
    }
    findings
}

/// Where something stands.
#[derive(Debug, Clone)]
struct Place {
    path: String,
    line: usize,
}

impl Place {
    fn finding(&self, message: String) -> Finding {
        Finding::new(&self.path, self.line, message)
    }
}

/// The line of a list that names a case.
fn place(path: &str, id: &str, tree: &Tree) -> Place {
    let quoted = format!("\"{id}\"");
    let named = lines(tree.text(path).unwrap_or_default())
        .find(|(_, line)| line.contains("id") && line.contains(&quoted));
    Place {
        path: path.to_owned(),
        line: named.map_or(1, |(number, _)| number),
    }
}

/// The cases that tests are named after, and where the first of them is.
fn tested(tree: &Tree) -> BTreeMap<String, Place> {
    let mut tested = BTreeMap::new();
    for (path, text) in tree.ending(".rs") {
        let mut is_test = false;
        for (line, text) in lines(text) {
            let text = text.trim();
            if is_attribute_of_a_test(text) {
                is_test = true;
            } else if let Some(id) = named(text) {
                if std::mem::take(&mut is_test) {
                    let path = path.to_owned();
                    tested.entry(id).or_insert(Place { path, line });
                }
            } else if !text.starts_with("#[") && !text.starts_with("//") {
                is_test = false;
            }
        }
    }
    tested
}

fn is_attribute_of_a_test(line: &str) -> bool {
    line == "#[test]" || line.starts_with("#[tokio::test")
}

/// The case in `fn case_b_493aff5_..`, as it is written in the lists.
fn named(line: &str) -> Option<String> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let mut words = line.strip_prefix("fn case_")?.split('_');
    let (section, hash) = (words.next()?, words.next()?);
    // What is right has to be said.
    words
        .next()
        .filter(|word| word.starts_with(char::is_alphabetic))?;
    Some(format!("{}-{hash}", section.to_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    const TWO: &str = "[\n {\"id\": \"B-493aff5\"},\n {\"id\": \"C-8aefa3f\", \"url\": \"x\"}\n]";
    const EXCUSED: &str = "[[case]]\nid = \"C-8aefa3f\"\nreason = \"not built yet\"\n";
    const TEST: &str =
        "/// What went wrong.\n#[test]\nfn case_b_493aff5_what_is_missing_is_named() {}\n";

    fn found(cases: &str, excused: &str, tests: &str) -> Vec<String> {
        let tree = sample::files(&[(CASES, cases), (NOT_APPLICABLE, excused), ("a.rs", tests)]);
        agree(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_that_agree_have_nothing_to_put_right() {
        assert_eq!(found(TWO, EXCUSED, TEST), [""; 0]);
        let both = format!("{TEST}{}", TEST.replace("b_493aff5", "c_8aefa3f"));
        assert_eq!(found(TWO, "case = []", &both), [""; 0]);
        let live = TEST.replace("#[test]\n", "#[tokio::test(start_paused = true)]\nasync ");
        assert_eq!(found(TWO, EXCUSED, &live), [""; 0]);
    }

    #[test]
    fn a_case_that_is_nowhere_is_found() {
        let of_the_second = format!(
            "{CASES}:3: no test `case_c_8aefa3f_..` holds C-8aefa3f, and {NOT_APPLICABLE} does not say why"
        );
        assert_eq!(found(TWO, "case = []", TEST), [of_the_second]);
        // A function that is no test holds nothing, nor does a test that does not say what is right.
        for no_test in [
            TEST.replace("#[test]\n", ""),
            TEST.replace("#[test]", "#[test]\nfn other() {}\n"),
            TEST.replace("_what_is_missing_is_named", ""),
            TEST.replace("fn case", "// fn case"),
        ] {
            let found = found(TWO, EXCUSED, &no_test);
            assert!(
                matches!(&found[..], [one] if one.contains("holds B-493aff5")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_case_that_is_tested_and_left_out_is_found() {
        let twice = EXCUSED.replace("C-8aefa3f", "B-493aff5");
        assert_eq!(
            found(TWO, &format!("{EXCUSED}{twice}"), TEST),
            [format!(
                "{NOT_APPLICABLE}:5: B-493aff5 is left out and tested, in a.rs"
            )]
        );
    }

    #[test]
    fn a_case_there_is_not_is_found_in_either_list() {
        let more = format!("{TEST}{}", TEST.replace("493aff5", "0000000"));
        assert_eq!(
            found(TWO, EXCUSED, &more),
            [format!("a.rs:6: B-0000000 is no case of {CASES}")]
        );
        let more = format!("{EXCUSED}{}", EXCUSED.replace("8aefa3f", "0000000"));
        assert_eq!(
            found(TWO, &more, TEST),
            [format!(
                "{NOT_APPLICABLE}:5: C-0000000 is no case of {CASES}"
            )]
        );
    }

    #[test]
    fn a_reason_is_not_empty_and_nothing_is_listed_twice() {
        assert_eq!(
            found(TWO, &EXCUSED.replace("not built yet", " "), TEST),
            [format!(
                "{NOT_APPLICABLE}:2: C-8aefa3f is left out without a reason"
            )]
        );
        assert_eq!(
            found(TWO, &EXCUSED.repeat(2), TEST),
            [format!("{NOT_APPLICABLE}:2: C-8aefa3f is left out twice")]
        );
        let cases = TWO.replace("C-8aefa3f", "B-493aff5");
        assert_eq!(
            found(&cases, "case = []", TEST),
            [format!("{CASES}:2: B-493aff5 is there twice")]
        );
    }

    #[test]
    fn lists_that_cannot_be_read_are_found() {
        assert!(found("[", EXCUSED, TEST)[0].starts_with(CASES));
        assert!(found(TWO, "[[case]]\nid = \"C-8aefa3f\"\n", TEST)[0].contains("reason"));
        assert!(found(TWO, &EXCUSED.replace("reason", "why"), TEST)[0].starts_with(NOT_APPLICABLE));
        let none = sample::files(&[("a.rs", TEST)]);
        assert_eq!(agree(&none).len(), 1);
    }
}
