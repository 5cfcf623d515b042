//! Escapes of PCRE, in a class and outside one.

use super::PatternError;
use super::class::{ByteSet, DIGIT, HORIZONTAL, NEWLINE, SPACE, VERTICAL, WORD};
use super::translate::Cursor;

/// What follows a backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Escape {
    /// One byte.
    Byte(u8),
    /// One byte of a set.
    Set(ByteSet),
    /// Matches a place, not a byte: written as it is for the engine.
    Place(&'static str),
    /// A line break of any kind.
    LineBreak,
    /// What the group of this number matched.
    Group(usize),
    /// What the group of this name matched.
    Named(Vec<u8>),
    /// What the group so many before this one matched.
    Before(usize),
    /// `\Q`: literal up to `\E`.
    Quote,
    /// `\E` without a `\Q`, and `\K`, which moves where a match is said to begin.
    Nothing,
}

/// Before a last newline or at the end: `\Z`, and `$` without `(?m)`.
pub(super) const BEFORE_LAST_NEWLINE: &str = r"(?=\x0A?\z)";

/// Reads what follows a backslash that was just taken. `groups` are opened so far.
pub(super) fn escape(
    cursor: &mut Cursor<'_>,
    in_class: bool,
    groups: usize,
) -> Result<Escape, PatternError> {
    let Some(byte) = cursor.take() else {
        return Err(cursor.invalid(r"\ at end of pattern"));
    };
    if let Some(set) = set(byte) {
        return Ok(Escape::Set(set));
    }
    Ok(match byte {
        b'a' => Escape::Byte(0x07),
        b'e' => Escape::Byte(0x1b),
        b'f' => Escape::Byte(0x0c),
        b'n' => Escape::Byte(b'\n'),
        b'r' => Escape::Byte(b'\r'),
        b't' => Escape::Byte(b'\t'),
        b'c' => control(cursor)?,
        b'x' => hexadecimal(cursor)?,
        b'o' => braced_octal(cursor)?,
        b'0' => Escape::Byte(octal(cursor, 0, 2)?),
        b'1'..=b'9' => number(cursor, byte, in_class, groups)?,
        b'Q' => Escape::Quote,
        b'E' => Escape::Nothing,
        b'L' | b'l' | b'U' | b'u' => {
            return Err(cursor.invalid(r"PCRE does not support \L, \l, \N{name}, \U, or \u"));
        }
        b'p' | b'P' => category(cursor, byte == b'P')?,
        b'X' if !in_class => return Err(cursor.unsupported(r"\X")),
        b'b' if in_class => Escape::Byte(0x08),
        b'N' if in_class => {
            return Err(cursor.invalid(r"\N is not supported in a class"));
        }
        _ if in_class => Escape::Byte(byte),
        b'N' if cursor.peek() == Some(b'{') => {
            return Err(cursor.invalid(r"PCRE does not support \L, \l, \N{name}, \U, or \u"));
        }
        b'N' => Escape::Set(ByteSet::of(NEWLINE).complement()),
        b'C' => Escape::Set(ByteSet::default().complement()),
        b'R' => Escape::LineBreak,
        b'K' => Escape::Nothing,
        b'A' | b'G' => Escape::Place(r"\A"),
        b'z' => Escape::Place(r"\z"),
        b'Z' => Escape::Place(BEFORE_LAST_NEWLINE),
        b'b' => Escape::Place(r"(?:(?<=W)(?!W)|(?<!W)(?=W))"),
        b'B' => Escape::Place(r"(?:(?<=W)(?=W)|(?<!W)(?!W))"),
        b'g' => group(cursor)?,
        b'k' => named(cursor)?,
        _ => Escape::Byte(byte),
    })
}

fn set(byte: u8) -> Option<ByteSet> {
    let ranges = match byte.to_ascii_lowercase() {
        b'd' => DIGIT,
        b'w' => WORD,
        b's' => SPACE,
        b'h' => HORIZONTAL,
        b'v' => VERTICAL,
        _ => return None,
    };
    let set = ByteSet::of(ranges);
    Some(if byte.is_ascii_uppercase() {
        set.complement()
    } else {
        set
    })
}

/// `\pL`, `\p{Lu}`, `\p{^Nd}`: a general category, of the few that are known here.
fn category(cursor: &mut Cursor<'_>, negated: bool) -> Result<Escape, PatternError> {
    let name = match cursor.braced(|byte| byte.is_ascii_alphanumeric() || b"^_&".contains(&byte)) {
        Some(name) => name,
        None => cursor.take().into_iter().collect(),
    };
    let (inverse, name) = match name.strip_prefix(b"^") {
        Some(name) => (true, name),
        None => (false, name.as_slice()),
    };
    let set =
        ByteSet::category(name).ok_or_else(|| cursor.unsupported(r"a property of \p or \P"))?;
    Ok(Escape::Set(if negated == inverse {
        set
    } else {
        set.complement()
    }))
}

fn control(cursor: &mut Cursor<'_>) -> Result<Escape, PatternError> {
    match cursor.take() {
        None => Err(cursor.invalid(r"\c at end of pattern")),
        Some(byte) if byte.is_ascii() => Ok(Escape::Byte(byte.to_ascii_uppercase() ^ 0x40)),
        Some(_) => Err(cursor.invalid(r"\c must be followed by an ASCII character")),
    }
}

fn hexadecimal(cursor: &mut Cursor<'_>) -> Result<Escape, PatternError> {
    if let Some(digits) = cursor.braced(|byte| byte.is_ascii_hexdigit()) {
        return value(&digits, 16)
            .map(Escape::Byte)
            .ok_or_else(|| cursor.invalid(r"character value in \x{} or \o{} is too large"));
    }
    if cursor.peek() == Some(b'{') {
        return Err(cursor.invalid(r"non-hex character in \x{} (closing brace missing?)"));
    }
    let mut digits = Vec::new();
    while digits.len() < 2
        && let Some(digit) = cursor.take_if(|byte| byte.is_ascii_hexdigit())
    {
        digits.push(digit);
    }
    Ok(Escape::Byte(value(&digits, 16).unwrap_or_default()))
}

fn braced_octal(cursor: &mut Cursor<'_>) -> Result<Escape, PatternError> {
    let digits = cursor
        .braced(|byte| (b'0'..=b'7').contains(&byte))
        .ok_or_else(|| cursor.invalid(r"missing opening brace after \o"))?;
    value(&digits, 8)
        .map(Escape::Byte)
        .ok_or_else(|| cursor.invalid(r"character value in \x{} or \o{} is too large"))
}

fn value(digits: &[u8], radix: u32) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| {
        let digit = char::from(*digit).to_digit(radix)?;
        u8::try_from(u32::from(value) * radix + digit).ok()
    })
}

/// Up to so many more octal digits.
fn octal(cursor: &mut Cursor<'_>, first: u32, more: usize) -> Result<u8, PatternError> {
    let mut value = first;
    for _ in 0..more {
        let Some(digit) = cursor.take_if(|byte| (b'0'..=b'7').contains(&byte)) else {
            break;
        };
        value = value * 8 + u32::from(digit - b'0');
    }
    u8::try_from(value)
        .map_err(|_| cursor.invalid(r"octal value is greater than \377 in 8-bit non-UTF-8 mode"))
}

/// A back reference, or an octal number where there are not so many groups.
fn number(
    cursor: &mut Cursor<'_>,
    first: u8,
    in_class: bool,
    groups: usize,
) -> Result<Escape, PatternError> {
    if !in_class {
        let mark = cursor.at();
        let mut number = usize::from(first - b'0');
        while let Some(digit) = cursor.take_if(|byte| byte.is_ascii_digit()) {
            number = number
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0'));
        }
        if number < 8 || number <= groups {
            return Ok(Escape::Group(number));
        }
        cursor.back_to(mark);
    }
    if first >= b'8' {
        return Ok(Escape::Byte(first));
    }
    octal(cursor, u32::from(first - b'0'), 2).map(Escape::Byte)
}

/// `\g1`, `\g{1}`, `\g{-1}`, `\g{name}`; `\g<…>` and `\g'…'` call the group instead.
fn group(cursor: &mut Cursor<'_>) -> Result<Escape, PatternError> {
    if matches!(cursor.peek(), Some(b'<' | b'\'')) {
        return Err(cursor.unsupported("a call of a group"));
    }
    let inside = match cursor.braced(|_| true) {
        Some(inside) => inside,
        None => cursor.take_while(|byte| byte.is_ascii_digit() || byte == b'-'),
    };
    let text = String::from_utf8_lossy(&inside);
    let (before, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.as_ref()),
    };
    match digits.parse::<usize>() {
        Ok(0) => Err(cursor.invalid("a numbered reference must not be zero")),
        Ok(number) if before => Ok(Escape::Before(number)),
        Ok(number) => Ok(Escape::Group(number)),
        Err(_) if !before && !inside.is_empty() => Ok(Escape::Named(inside)),
        Err(_) => Err(cursor.invalid(r"a numbered reference must follow \g")),
    }
}

/// `\k<name>`, `\k'name'`, `\k{name}`.
fn named(cursor: &mut Cursor<'_>) -> Result<Escape, PatternError> {
    let close = match cursor.take() {
        Some(b'<') => b'>',
        Some(b'\'') => b'\'',
        Some(b'{') => b'}',
        _ => {
            return Err(
                cursor.invalid(r"\k is not followed by a braced, angle-bracketed, or quoted name")
            );
        }
    };
    cursor.name(close).map(Escape::Named)
}
