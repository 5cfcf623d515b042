//! Permission patterns: exactly the names given, in few bytes.
//!
//! A broker reads a pattern as a regular expression that may match anywhere. Here each is made of whole names and anchored
//! at both ends; the end is `\z`, since `$` also lets a line feed follow. Newer brokers take no pattern above
//! [`LIMIT`] bytes and give up, refusing, on one that takes many steps, so names share what they begin with: then
//! each character is looked at once. What a character means in a pattern is escaped, whatever the name.

use std::collections::BTreeMap;

/// The pattern that allows nothing: no name is empty, and `$` would allow a line feed.
pub const NOTHING: &str = "^\\z";
/// Bytes a broker reads of a pattern (`rabbit_re`, from 4.3 on).
pub(super) const LIMIT: usize = 1024;

/// Whatever is under this word.
pub(super) fn under(word: &str) -> String {
    format!("{}\\..+", escaped(word))
}

/// Whatever begins so and goes on with a name of the mesh's.
pub(super) fn named(root: &str) -> String {
    format!("{}[a-z0-9-]+", escaped(root))
}

/// Anything, but for nothing at all.
pub(super) const ANYTHING: &str = ".+";

/// Exactly these names, and what fits one of these patterns.
pub(super) fn exactly<'a>(
    names: impl IntoIterator<Item = &'a str>,
    patterns: impl IntoIterator<Item = String>,
) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let mut branches: Vec<String> = patterns.into_iter().collect();
    if branches.is_empty() && names.is_empty() {
        return NOTHING.to_owned();
    }
    if !names.is_empty() {
        branches.insert(0, any_of(&names));
    }
    match branches.as_slice() {
        [only] => format!("^{only}\\z"),
        several => format!("^({})\\z", several.join("|")),
    }
}

/// Any of these names, by whole words or by characters: whichever is shorter.
fn any_of(names: &[&str]) -> String {
    let words = by_word(names.to_vec());
    let characters = by_character(names.to_vec());
    if words.len() < characters.len() {
        words
    } else {
        characters
    }
}

/// By first word: words that the same follows are written once with it.
fn by_word(names: Vec<&str>) -> String {
    let mut by_first: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
    for name in names {
        let (first, rest) = match name.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (name, None),
        };
        by_first.entry(first).or_default().push(rest);
    }
    let mut by_rest: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (first, rests) in by_first {
        let ends = rests.contains(&None);
        let more: Vec<&str> = rests.into_iter().flatten().collect();
        let rest = match (more.is_empty(), ends) {
            (true, _) => String::new(),
            (false, false) => format!("\\.{}", by_word(more)),
            (false, true) => format!("(\\.{})?", by_word(more)),
        };
        by_rest.entry(rest).or_default().push(first);
    }
    let branches = by_rest.into_iter();
    one_branch_of(
        branches
            .map(|(rest, firsts)| format!("{}{rest}", by_character(firsts)))
            .collect(),
        false,
    )
}

/// By first character, and what follows it.
fn by_character(texts: Vec<&str>) -> String {
    let optional = texts.iter().any(|text| text.is_empty());
    let mut by_first: BTreeMap<char, Vec<&str>> = BTreeMap::new();
    for text in texts {
        let mut rest = text.chars();
        if let Some(first) = rest.next() {
            by_first.entry(first).or_default().push(rest.as_str());
        }
    }
    let mut by_rest: BTreeMap<String, Vec<char>> = BTreeMap::new();
    for (first, rests) in by_first {
        by_rest.entry(by_character(rests)).or_default().push(first);
    }
    let branches = by_rest.into_iter();
    one_branch_of(
        branches
            .map(|(rest, firsts)| format!("{}{rest}", one_of(&firsts)))
            .collect(),
        optional,
    )
}

fn one_branch_of(mut branches: Vec<String>, optional: bool) -> String {
    branches.sort_unstable();
    match (branches.as_slice(), optional) {
        ([], _) => String::new(),
        ([only], false) => only.clone(),
        (several, false) => format!("({})", several.join("|")),
        (several, true) => format!("({})?", several.join("|")),
    }
}

/// One of these characters, in order.
fn one_of(characters: &[char]) -> String {
    if let [only] = characters {
        return escaped(only.encode_utf8(&mut [0; 4]));
    }
    // A broker reads bytes: in a class each byte of such a character would stand for itself.
    if !characters.iter().all(char::is_ascii) {
        let each = characters.iter();
        let each: Vec<String> = each
            .map(|it| escaped(it.encode_utf8(&mut [0; 4])))
            .collect();
        return format!("({})", each.join("|"));
    }
    let mut class = "[".to_owned();
    for run in characters.chunk_by(|a, b| u32::from(*a) + 1 == u32::from(*b)) {
        match run {
            [first, .., last] if run.len() > 2 => {
                put_escaped(&mut class, *first, SPECIAL_IN_CLASS);
                class.push('-');
                put_escaped(&mut class, *last, SPECIAL_IN_CLASS);
            }
            few => {
                for character in few {
                    put_escaped(&mut class, *character, SPECIAL_IN_CLASS);
                }
            }
        }
    }
    class.push(']');
    class
}

/// What means something else than itself outside a class.
const SPECIAL: &str = r"\^$.|?*+()[]{}";
/// What does in a class.
const SPECIAL_IN_CLASS: &str = r"\^-[]";

/// As it stands.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        put_escaped(&mut escaped, character, SPECIAL);
    }
    escaped
}

fn put_escaped(pattern: &mut String, character: char, special: &str) {
    match character {
        // What comes after one a broker would not read.
        '\0' => pattern.push_str("\\x00"),
        it if special.contains(it) => pattern.extend(['\\', it]),
        it => pattern.push(it),
    }
}

#[cfg(test)]
mod tests {
    use mesh_servers::rabbitmq::{MAX_KEY, MAX_PATTERN};

    use super::*;
    use crate::topology::NAME_LIMIT;

    #[test]
    fn limits_are_those_a_broker_has() {
        assert_eq!((LIMIT, NAME_LIMIT), (MAX_PATTERN, MAX_KEY));
    }

    #[test]
    fn a_pattern_shares_what_names_begin_and_end_with() {
        for (names, expected) in [
            (vec![], "^\\z"),
            (vec!["node.n1"], "^node\\.n1\\z"),
            (vec!["mesh.ctl", "mesh.beat"], "^mesh\\.(beat|ctl)\\z"),
            (vec!["m.announced", "m.sent"], "^m\\.(announced|sent)\\z"),
            (vec!["mail.shop", "print.shop"], "^(mail|print)\\.shop\\z"),
            (vec!["a", "a.b"], "^a(\\.b)?\\z"),
            (vec!["a.x", "a.y", "b.x", "b.y", "c"], "^([ab]\\.[xy]|c)\\z"),
            (vec!["n1", "n2", "n3", "n-"], "^n[\\-1-3]\\z"),
            (vec!["a|(", "a|["], "^a\\|[(\\[]\\z"),
            (vec!["a", "a."], "^a(\\.)?\\z"),
            (vec!["[", "\\", "]", "^"], "^[\\[-\\^]\\z"),
            (vec!["é", "ê"], "^(é|ê)\\z"),
            (vec!["\0"], "^\\x00\\z"),
        ] {
            assert_eq!(exactly(names, []), expected);
        }
        let parked = [under("parked")];
        assert_eq!(exactly(["mark"], parked.clone()), "^(mark|parked\\..+)\\z");
        assert_eq!(exactly([], parked), "^parked\\..+\\z");
        assert_eq!(exactly([], [ANYTHING.to_owned()]), "^.+\\z");
        let classes = [named("mod."), named("seat.")];
        assert_eq!(
            exactly(["parked"], classes),
            "^(parked|mod\\.[a-z0-9-]+|seat\\.[a-z0-9-]+)\\z"
        );
    }
}
