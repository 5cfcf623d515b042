//! A place in a pattern.

use super::super::PatternError;

/// A pattern and how far it was read.
#[derive(Debug, Clone)]
pub(in super::super) struct Cursor<'p> {
    bytes: &'p [u8],
    at: usize,
}

/// How often an atom may be asked for.
const MOST: u32 = 65_535;

impl<'p> Cursor<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(in super::super) fn at(&self) -> usize {
        self.at
    }

    pub(in super::super) fn back_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(in super::super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The byte that was taken last.
    pub(super) fn before(&self) -> Option<u8> {
        self.bytes.get(self.at.checked_sub(1)?).copied()
    }

    pub(in super::super) fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    pub(in super::super) fn take_if(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|byte| wanted(*byte))?;
        self.at += 1;
        Some(byte)
    }

    pub(in super::super) fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
        std::iter::from_fn(|| self.take_if(&wanted)).collect()
    }

    /// Takes a text if it comes next.
    pub(super) fn take_text(&mut self, text: &[u8]) -> bool {
        let next = self.rest().starts_with(text);
        self.at += if next { text.len() } else { 0 };
        next
    }

    pub(super) fn rest(&self) -> &'p [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// What stands in braces that come next, if every byte of it is wanted and there is one.
    pub(in super::super) fn braced(&mut self, wanted: impl Fn(u8) -> bool) -> Option<Vec<u8>> {
        let inside = self.rest().strip_prefix(b"{")?;
        let end = inside.iter().position(|byte| *byte == b'}')?;
        let inside = inside.get(..end)?;
        if inside.is_empty() || !inside.iter().all(|byte| wanted(*byte)) {
            return None;
        }
        self.at += end + 2;
        Some(inside.to_vec())
    }

    /// A group's name, up to what closes it.
    pub(in super::super) fn name(&mut self, close: u8) -> Result<Vec<u8>, PatternError> {
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.is_empty() || name.first().is_some_and(u8::is_ascii_digit) {
            return Err(self.invalid("subpattern name expected"));
        }
        if name.len() > 32 {
            return Err(self.invalid("subpattern name is too long (maximum 32 characters)"));
        }
        match self.take() {
            Some(byte) if byte == close => Ok(name),
            _ => Err(self.invalid("syntax error in subpattern name (missing terminator)")),
        }
    }

    /// `n}`, `n,}` or `n,m}` after a brace, as a quantifier; anything else after one leaves it a literal.
    pub(super) fn counts(&mut self) -> Result<Option<String>, PatternError> {
        let Some(end) = self.rest().iter().position(|byte| *byte == b'}') else {
            return Ok(None);
        };
        let inside = String::from_utf8_lossy(self.rest().get(..end).unwrap_or_default());
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (least, most) = match inside.split_once(',') {
            Some((least, "")) => (least, None),
            Some((least, most)) => (least, Some(most)),
            None => (inside.as_ref(), Some(inside.as_ref())),
        };
        if !digits(least) || !most.is_none_or(digits) {
            return Ok(None);
        }
        let number = |text: &str| text.parse().ok().filter(|number: &u32| *number <= MOST);
        let too_big = || self.invalid("number too big in {} quantifier");
        let least = number(least).ok_or_else(too_big)?;
        let most = most
            .map(|most| number(most).ok_or_else(too_big))
            .transpose()?;
        if most.is_some_and(|most| most < least) {
            return Err(self.invalid("numbers out of order in {} quantifier"));
        }
        self.at += end + 1;
        Ok(Some(match most {
            None => format!("{{{least},}}"),
            Some(most) => format!("{{{least},{most}}}"),
        }))
    }

    pub(in super::super) fn invalid(&self, why: &'static str) -> PatternError {
        PatternError::Invalid { at: self.at, why }
    }

    pub(in super::super) fn unsupported(&self, what: &str) -> PatternError {
        PatternError::Unsupported {
            at: self.at,
            what: what.to_owned(),
        }
    }
}
