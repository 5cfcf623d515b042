//! A file's text, and how places and words of it are shown.

use crate::notation::Notation;
use crate::{ErrorCode, FileError, Position};

/// One file as it is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) notation: Notation,
}

impl<'a> Source<'a> {
    /// A file whose name says how it is written; TOML, when it does not.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let notation = Notation::of(file).unwrap_or(Notation::Toml);
        Self {
            file,
            text,
            notation,
        }
    }

    /// Whether a byte is a place of this text, and not that of what stands in for something.
    pub(crate) fn holds(self, offset: usize) -> bool {
        offset <= self.text.len()
    }

    /// An error at a byte of this file.
    pub(crate) fn error(self, offset: usize, code: ErrorCode, message: String) -> FileError {
        FileError {
            file: self.file.to_owned(),
            position: Some(position(self.text, offset)),
            code,
            message,
        }
    }

    /// Whether a table's header stands at a byte, and not the table itself.
    pub(crate) fn has_header(self, offset: usize) -> bool {
        let rest = self.text.get(offset..);
        self.notation == Notation::Toml && rest.is_some_and(|rest| rest.starts_with('['))
    }

    /// Where a byte of this file is, for a sentence about another file.
    pub(crate) fn place(self, offset: usize) -> String {
        let Position { line, column } = position(self.text, offset);
        format!("{}:{line}:{column}", self.file)
    }
}

/// The line and column of a byte; the end, when there is no such byte. Walks the text, so it is asked for what is shown
/// and not for what might be.
pub(crate) fn position(text: &str, offset: usize) -> Position {
    let before = text
        .char_indices()
        .take_while(|(at, _)| *at < offset)
        .map(|(_, character)| character)
        // A mark at the very beginning is no character that an editor shows.
        .skip_while(|character| *character == '\u{feff}');
    let start = Position { line: 1, column: 1 };
    before.fold(start, |at, character| match character {
        '\n' => Position {
            line: at.line + 1,
            column: 1,
        },
        _ => Position {
            column: at.column + 1,
            ..at
        },
    })
}

/// A word of a file in quotes, escaped and of bounded length: a terminal gets neither its control characters nor a
/// megabyte of it.
pub(crate) fn quoted(word: &str) -> String {
    format!("{:?}", shortened(word, WORD_LIMIT))
}

/// Another's sentence as it may be shown: escaped where it controls a terminal, and of bounded length.
pub(crate) fn printable(sentence: &str) -> String {
    let mut shown = String::new();
    for character in shortened(sentence, SENTENCE_LIMIT).chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The beginning of a text, marked where it was cut.
fn shortened(text: &str, limit: usize) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(limit).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// The candidate nearest to a word, when one is near.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    if word.len() > WORD_LIMIT {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| distance * 3 <= word.len().max(candidate.len()))
        .min()
        .map(|(_, nearest)| nearest)
}

/// The nearest label to a word that is none: `Web.01` was meant as `web-01`.
pub(crate) fn as_label(word: &str) -> String {
    let spaced = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let label: String = word.to_ascii_lowercase().chars().map(spaced).collect();
    label.trim_matches('-').to_owned()
}

/// `; did you mean "x"?` for the candidate nearest to a word, or nothing when none is near.
pub(crate) fn did_you_mean<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> String {
    nearest(word, candidates).map_or_else(String::new, |nearest| {
        format!("; did you mean {}?", quoted(nearest))
    })
}

/// Characters shown of another's sentence.
const SENTENCE_LIMIT: usize = 400;
/// Characters of one word that are shown. A name has at most 63.
const WORD_LIMIT: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        for (text, offset, line, column) in [
            ("", 0, 1, 1),
            ("", 9, 1, 1),
            ("ab", 1, 1, 2),
            ("a\nb", 2, 2, 1),
            ("äö\nüx", 7, 2, 2),
            ("a\n", 2, 2, 1),
        ] {
            let expected = Position { line, column };
            assert_eq!(position(text, offset), expected, "{text:?} at {offset}");
        }
    }

    #[test]
    fn the_nearest_word_is_offered_and_a_far_one_is_not() {
        let known = ["name", "release", "run"];
        for (word, offered) in [
            ("relase", "; did you mean \"release\"?"),
            ("nmae", "; did you mean \"name\"?"),
            ("rum", "; did you mean \"run\"?"),
            ("replicas", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(word, known), offered, "{word:?}");
        }
        assert_eq!(did_you_mean(&"release".repeat(100_000), known), "");
    }

    #[test]
    fn a_shown_word_holds_no_control_character_and_ends() {
        assert_eq!(quoted("a\u{1b}[31m\n"), r#""a\u{1b}[31m\n""#);
        assert_eq!(quoted(&"x".repeat(1_000_000)).chars().count(), 83);
    }
}
