//! Sets of bytes: what PCRE's classes hold in Latin-1, and how they are written for the engine.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A set of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ByteSet(BTreeSet<u8>);

type Ranges = &'static [(u8, u8)];

pub(super) const DIGIT: Ranges = &[(b'0', b'9')];
pub(super) const SPACE: Ranges = &[(0x09, 0x0d), (b' ', b' ')];
pub(super) const HORIZONTAL: Ranges = &[(b'\t', b'\t'), (b' ', b' '), (0xa0, 0xa0)];
pub(super) const VERTICAL: Ranges = &[(0x0a, 0x0d), (0x85, 0x85)];
pub(super) const NEWLINE: Ranges = &[(b'\n', b'\n')];
/// Letters, digits and `_`, as `pcre_latin_1_table.c` has them.
pub(super) const WORD: Ranges = &[
    (b'0', b'9'),
    (b'A', b'Z'),
    (b'_', b'_'),
    (b'a', b'z'),
    (0xaa, 0xaa),
    (0xb5, 0xb5),
    (0xba, 0xba),
    (0xc0, 0xd6),
    (0xd8, 0xf6),
    (0xf8, 0xff),
];
const UPPER: Ranges = &[(b'A', b'Z'), (0xc0, 0xd6), (0xd8, 0xde)];
const LOWER: Ranges = &[(b'a', b'z'), (0xb5, 0xb5), (0xdf, 0xf6), (0xf8, 0xff)];
const GRAPH: Ranges = &[(0x21, 0x7e), (0xa0, 0xff)];
const PRINT: Ranges = &[(0x20, 0x7e), (0xa0, 0xff)];
const PUNCT: Ranges = &[
    (0x21, 0x2f),
    (0x3a, 0x40),
    (0x5b, 0x60),
    (0x7b, 0x7e),
    (0xa0, 0xa9),
    (0xab, 0xb4),
    (0xb6, 0xb9),
    (0xbb, 0xbf),
    (0xd7, 0xd7),
    (0xf7, 0xf7),
];
const CNTRL: Ranges = &[(0x00, 0x1f), (0x7f, 0x9f)];
const NUMBER: Ranges = &[(b'0', b'9'), (0xb2, 0xb3), (0xb9, 0xb9), (0xbc, 0xbe)];
const BLANK: Ranges = &[(b'\t', b'\t'), (b' ', b' ')];
const XDIGIT: Ranges = &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')];
const ASCII: Ranges = &[(0x00, 0x7f)];

impl ByteSet {
    pub(super) fn of(ranges: &[(u8, u8)]) -> Self {
        Self(ranges.iter().flat_map(|(from, to)| *from..=*to).collect())
    }

    pub(super) fn one(byte: u8) -> Self {
        Self::of(&[(byte, byte)])
    }

    /// The class a POSIX name stands for; in caseless matching upper and lower are letters of either kind.
    pub(super) fn posix(name: &[u8], caseless: bool) -> Option<Self> {
        let letters = || {
            Self::of(WORD)
                .without(&Self::of(DIGIT))
                .without(&Self::one(b'_'))
        };
        Some(match name {
            b"upper" | b"lower" if caseless => letters(),
            b"alpha" => letters(),
            b"upper" => Self::of(UPPER),
            b"lower" => Self::of(LOWER),
            b"alnum" => Self::of(WORD).without(&Self::one(b'_')),
            b"word" => Self::of(WORD),
            b"digit" => Self::of(DIGIT),
            b"xdigit" => Self::of(XDIGIT),
            b"space" => Self::of(SPACE),
            b"blank" => Self::of(BLANK),
            b"cntrl" => Self::of(CNTRL),
            b"graph" => Self::of(GRAPH),
            b"print" => Self::of(PRINT),
            b"punct" => Self::of(PUNCT),
            b"ascii" => Self::of(ASCII),
            _ => return None,
        })
    }

    /// The bytes of a general category of Unicode, of those that are asked for.
    pub(super) fn category(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"L" => Self::posix(b"alpha", false)?,
            b"Lu" => Self::of(UPPER),
            b"Ll" => Self::of(LOWER),
            b"Nd" => Self::of(DIGIT),
            b"N" => Self::of(NUMBER),
            _ => return None,
        })
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(super) fn complement(&self) -> Self {
        Self(
            (0..=u8::MAX)
                .filter(|byte| !self.0.contains(byte))
                .collect(),
        )
    }

    fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// With the other case of each of its letters, in Latin-1.
    pub(super) fn caseless(&self) -> Self {
        let mut all = self.clone();
        all.0.extend(self.0.iter().map(|byte| other_case(*byte)));
        all
    }

    /// As one atom of the engine's syntax.
    pub(super) fn written(&self) -> String {
        if self.0.is_empty() {
            return "(?:(?!)a)".to_owned();
        }
        let mut written = "[".to_owned();
        let mut bytes = self.0.iter().copied().peekable();
        while let Some(from) = bytes.next() {
            let mut to = from;
            while let Some(next) = bytes.next_if(|next| to.checked_add(1) == Some(*next)) {
                to = next;
            }
            // Writing to a string cannot fail.
            let _: std::fmt::Result = write!(written, "\\x{from:02X}-\\x{to:02X}");
        }
        written.push(']');
        written
    }
}

fn other_case(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => byte + 0x20,
        b'a'..=b'z' | 0xe0..=0xf6 | 0xf8..=0xfe => byte - 0x20,
        _ => byte,
    }
}
