//! Subjects and filters, and the three questions asked of them: does it match, is it a subset, do they overlap.

use std::borrow::Borrow;

use crate::text::texts;

/// A text that is no subject, or no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSubject {
    /// Nothing, or nothing between two dots.
    #[error("subject {0:?} has an empty token")]
    EmptyToken(String),
    /// White space or a control character, which would end the subject on the wire.
    #[error("subject {subject:?} holds {character:?}, which the protocol cannot carry")]
    Character {
        /// The text.
        subject: String,
        /// The first such character.
        character: char,
    },
    /// A wildcard where a literal subject must stand.
    #[error("subject {0:?} has a wildcard token where every token must be literal")]
    Wildcard(String),
    /// `>` before the end.
    #[error("filter {0:?} has '>' before its last token")]
    TailInside(String),
}

fn check(text: &str) -> Result<(), InvalidSubject> {
    if plain(text) {
        return Ok(());
    }
    if let Some(character) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Err(InvalidSubject::Character {
            subject: text.to_owned(),
            character,
        });
    }
    if text.split('.').any(str::is_empty) {
        return Err(InvalidSubject::EmptyToken(text.to_owned()));
    }
    Ok(())
}

/// Whether a text is tokens of printable ASCII: what nearly every text is, told without decoding it.
fn plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.iter().all(u8::is_ascii_graphic)
        && ends.iter().all(|end| end.is_some_and(|end| *end != b'.'))
        && bytes.windows(2).all(|pair| pair != b"..")
}

/// What stands between the dots. They are a few bytes apart, and nearer than a search made for long texts pays.
struct Tokens<'a>(Option<&'a str>);

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        Self(Some(text))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0?;
        let Some(dot) = text.bytes().position(|byte| byte == b'.') else {
            return self.0.take();
        };
        self.0 = text.get(dot + 1..);
        text.get(..dot)
    }
}

texts! {
    /// A subject with no wildcard: what one message is published on.
    Subject or InvalidSubject;
    /// A subject that may have wildcards: `*` for one token, a last `>` for one or more.
    Filter or InvalidSubject;
}

impl Subject {
    /// Takes a text as a literal subject.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidSubject> {
        let text = text.into();
        check(&text)?;
        if text.contains(['*', '>']) && text.split('.').any(|token| token == "*" || token == ">") {
            return Err(InvalidSubject::Wildcard(text));
        }
        Ok(Self(text.into()))
    }

    /// Its tokens, in order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        Tokens::of(&self.0)
    }
}

impl Filter {
    /// Takes a text as a filter. Only a token that is exactly `*` or `>` is a wildcard: `a*` is literal, as it is to the
    /// servers.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidSubject> {
        let text = text.into();
        check(&text)?;
        if let Some((before, _)) = text.rsplit_once('.')
            && before.contains('>')
            && before.split('.').any(|token| token == ">")
        {
            return Err(InvalidSubject::TailInside(text));
        }
        Ok(Self(text.into()))
    }

    /// Its tokens, in order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        Tokens::of(&self.0)
    }

    /// Whether it has no wildcard.
    pub fn is_literal(&self) -> bool {
        self.tokens().all(|token| token != "*" && token != ">")
    }

    /// Whether a message on `subject` passes.
    pub fn matches(&self, subject: &Subject) -> bool {
        covers(&self.0, &subject.0)
    }

    /// Whether everything that passes `self` passes `wider`.
    pub fn is_subset_of(&self, wider: &Self) -> bool {
        covers(&wider.0, &self.0)
    }

    /// Whether some subject passes both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.tokens(), other.tokens());
        loop {
            match (a.next(), b.next()) {
                (None, None) | (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
                (Some(x), Some(y)) if x == y || x == "*" || y == "*" => {}
                _ => return false,
            }
        }
    }
}

/// Whether every subject `narrow` stands for is one `wide` stands for, token by token.
fn covers(wide: &str, narrow: &str) -> bool {
    let (mut wide, mut narrow) = (Tokens::of(wide), Tokens::of(narrow));
    loop {
        match (wide.next(), narrow.next()) {
            (None, None) | (Some(">"), Some(_)) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(x), Some(y)) if x == y && y != ">" => {}
            _ => return false,
        }
    }
}

impl Borrow<str> for Filter {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Subject> for Filter {
    fn from(subject: Subject) -> Self {
        Self(subject.0)
    }
}

impl From<&Subject> for Filter {
    fn from(subject: &Subject) -> Self {
        Self(subject.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        text.parse().unwrap()
    }

    #[test]
    fn tokens_are_what_stands_between_dots() {
        for text in [
            "",
            ".",
            "a",
            "a.b",
            ".a",
            "a.",
            "a..b",
            "é.ä.>",
            "mesh.mod.shop.order",
        ] {
            let tokens: Vec<&str> = Tokens::of(text).collect();
            assert_eq!(tokens, text.split('.').collect::<Vec<_>>(), "{text:?}");
        }
    }

    #[test]
    fn matching_is_by_whole_tokens() {
        for (filter_text, subject, expected) in [
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.>", "a", false),
            ("a.>", "a.b.c", true),
            (">", "a", true),
            ("a*", "ab", false),
            ("a*", "a*", true),
        ] {
            let subject: Subject = subject.parse().unwrap();
            assert_eq!(
                filter(filter_text).matches(&subject),
                expected,
                "{filter_text} {subject}"
            );
        }
    }

    #[test]
    fn subset_and_overlap_are_different_questions() {
        for (a, b, subset, overlap) in [
            ("a.b", "a.*", true, true),
            ("a.*", "a.b", false, true),
            ("a.>", "a.*", false, true),
            ("a.*", "a.>", true, true),
            ("*.x", "a.*", false, true),
            ("a.b", "a.c", false, false),
            ("a", "a.>", false, false),
            (">", ">", true, true),
            ("*", ">", true, true),
        ] {
            assert_eq!(filter(a).is_subset_of(&filter(b)), subset, "{a} in {b}");
            assert_eq!(filter(a).overlaps(&filter(b)), overlap, "{a} with {b}");
            assert_eq!(filter(b).overlaps(&filter(a)), overlap, "{b} with {a}");
        }
    }

    #[test]
    fn what_the_protocol_cannot_carry_is_refused() {
        for text in ["", "a..b", ".a", "a.", "a b", "a\tb", "a.>.b", "a\r\nPUB b"] {
            assert!(Filter::new(text).is_err(), "{text:?}");
        }
        assert!(Subject::new("mesh.*.x").is_err());
    }
}
