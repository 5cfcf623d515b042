//! Permission patterns: exactly the names given, in few bytes.
//!
//! A broker reads a pattern as a regular expression that may match anywhere. Here each is made of whole names and anchored
//! at both ends; the end is `\z`, since `$` also lets a line feed follow. Newer brokers take no pattern above
//! [`LIMIT`] bytes and give up, refusing, on one that takes many steps, so names share what they begin with: then
//! each character is looked at once.

use std::collections::BTreeMap;

/// The pattern that allows nothing.
pub const NOTHING: &str = "^$";
/// Bytes a broker reads of a pattern (`rabbit_re`, from 4.3 on).
pub(super) const LIMIT: usize = 1024;

/// Exactly these names, and whatever is under these words.
pub(super) fn exactly<'a>(
    names: impl IntoIterator<Item = &'a str>,
    under: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let mut branches: Vec<String> = under
        .into_iter()
        .map(|word| format!("{}\\..+", escaped(word)))
        .collect();
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

/// By first word: words that the same follows are written once with it. No word is empty, so an empty rest is an end.
fn by_word(names: Vec<&str>) -> String {
    let mut by_first: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        by_first.entry(first).or_default().push(rest);
    }
    let mut by_rest: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (first, rests) in by_first {
        let more = rests.iter().filter(|rest| !rest.is_empty());
        let more = by_word(more.copied().collect());
        let rest = match (more.is_empty(), rests.contains(&"")) {
            (true, _) => String::new(),
            (false, false) => format!("\\.{more}"),
            (false, true) => format!("(\\.{more})?"),
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
    let mut class = "[".to_owned();
    for run in characters.chunk_by(|a, b| u32::from(*a) + 1 == u32::from(*b)) {
        match run {
            [first, .., last] if run.len() > 2 => class.extend([*first, '-', *last]),
            few => {
                for character in few {
                    if *character == '-' {
                        class.push('\\');
                    }
                    class.push(*character);
                }
            }
        }
    }
    class.push(']');
    class
}

/// As it stands. Names are letters, digits and hyphens, so a dot is all there is to escape.
fn escaped(text: &str) -> String {
    text.replace('.', "\\.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_shares_what_names_begin_and_end_with() {
        for (names, expected) in [
            (vec![], "^$"),
            (vec!["node.n1"], "^node\\.n1\\z"),
            (vec!["mesh.ctl", "mesh.beat"], "^mesh\\.(beat|ctl)\\z"),
            (vec!["m.announced", "m.sent"], "^m\\.(announced|sent)\\z"),
            (vec!["mail.shop", "print.shop"], "^(mail|print)\\.shop\\z"),
            (vec!["a", "a.b"], "^a(\\.b)?\\z"),
            (vec!["a.x", "a.y", "b.x", "b.y", "c"], "^([ab]\\.[xy]|c)\\z"),
            (vec!["n1", "n2", "n3", "n-"], "^n[\\-1-3]\\z"),
        ] {
            assert_eq!(exactly(names, []), expected);
        }
        assert_eq!(exactly(["mark"], ["parked"]), "^(mark|parked\\..+)\\z");
        assert_eq!(exactly([], ["parked"]), "^parked\\..+\\z");
    }
}
