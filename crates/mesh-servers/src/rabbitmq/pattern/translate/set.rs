//! Character classes: what stands in brackets.

use super::super::PatternError;
use super::super::class::ByteSet;
use super::super::escape::{Escape, escape};
use super::Cursor;

/// One item of a class.
enum Item {
    Byte(u8),
    Set(ByteSet),
    Nothing,
}

/// Reads a class, whose bracket was just taken.
pub(super) fn class(
    cursor: &mut Cursor<'_>,
    caseless: bool,
    groups: usize,
) -> Result<ByteSet, PatternError> {
    if posix_outside(cursor) {
        return Err(cursor.invalid("POSIX named classes are supported only within a class"));
    }
    let mut negated = false;
    while cursor.take_text(br"\E")
        || cursor.take_text(br"\Q\E")
        || (!negated && cursor.take_text(b"^"))
    {
        negated |= cursor.before() == Some(b'^');
    }
    let mut set = ByteSet::default();
    let mut quoted = false;
    let mut first = true;
    loop {
        let Some(byte) = cursor.take() else {
            return Err(cursor.invalid("missing terminating ] for character class"));
        };
        if byte == b']' && !quoted && !first {
            break;
        }
        match item(cursor, byte, caseless, groups, &mut quoted)? {
            Item::Nothing => continue,
            Item::Set(other) => set.add(&other),
            Item::Byte(from) => set.add(&range(cursor, from, caseless, groups, &mut quoted)?),
        }
        first = false;
    }
    let set = if caseless { set.caseless() } else { set };
    Ok(if negated { set.complement() } else { set })
}

/// The range that begins with a byte; without a hyphen, or with one before the closing bracket, the byte alone.
fn range(
    cursor: &mut Cursor<'_>,
    from: u8,
    caseless: bool,
    groups: usize,
    quoted: &mut bool,
) -> Result<ByteSet, PatternError> {
    if *quoted && cursor.take_text(br"\E") {
        *quoted = false;
    }
    while !*quoted && cursor.take_text(br"\E") {}
    let mark = cursor.at();
    if *quoted || !cursor.take_text(b"-") {
        return Ok(ByteSet::one(from));
    }
    loop {
        if cursor.take_text(br"\Q") {
            *quoted = true;
        } else if cursor.take_text(br"\E") {
            *quoted = false;
        } else {
            break;
        }
    }
    let Some(byte) = cursor.take().filter(|byte| *byte != b']' || *quoted) else {
        *quoted = false;
        cursor.back_to(mark);
        return Ok(ByteSet::one(from));
    };
    match item(cursor, byte, caseless, groups, quoted)? {
        Item::Byte(to) if to < from => Err(cursor.invalid("range out of order in character class")),
        Item::Byte(to) => Ok(ByteSet::of(&[(from, to)])),
        Item::Set(_) | Item::Nothing => Err(cursor.invalid("invalid range in character class")),
    }
}

fn item(
    cursor: &mut Cursor<'_>,
    byte: u8,
    caseless: bool,
    groups: usize,
    quoted: &mut bool,
) -> Result<Item, PatternError> {
    if *quoted {
        if byte == b'\\' && cursor.take_text(b"E") {
            *quoted = false;
            return Ok(Item::Nothing);
        }
        return Ok(Item::Byte(byte));
    }
    match byte {
        b'[' => posix(cursor, caseless),
        b'\\' => Ok(match escape(cursor, true, groups)? {
            Escape::Byte(byte) => Item::Byte(byte),
            Escape::Set(set) => Item::Set(set),
            Escape::Quote => {
                *quoted = true;
                Item::Nothing
            }
            _ => Item::Nothing,
        }),
        byte => Ok(Item::Byte(byte)),
    }
}

/// `[:name:]`, or the bracket itself.
fn posix(cursor: &mut Cursor<'_>, caseless: bool) -> Result<Item, PatternError> {
    let Some((kind, inside)) = posix_inside(cursor.rest()) else {
        return Ok(Item::Byte(b'['));
    };
    if kind != b':' {
        return Err(cursor.invalid("POSIX collating elements are not supported"));
    }
    let length = inside.len() + 3;
    let (negated, name) = match inside.strip_prefix(b"^") {
        Some(name) => (true, name),
        None => (false, inside),
    };
    let set = ByteSet::posix(name, caseless);
    let set = set.ok_or_else(|| cursor.invalid("unknown POSIX class name"))?;
    cursor.back_to(cursor.at() + length);
    Ok(Item::Set(if negated { set.complement() } else { set }))
}

/// After a bracket: its kind and what stands between `:`, `.` or `=` and the same before `]`.
fn posix_inside(rest: &[u8]) -> Option<(u8, &[u8])> {
    let (kind, inside) = rest.split_first()?;
    if !b":.=".contains(kind) {
        return None;
    }
    let end = inside.windows(2).position(|pair| pair == [*kind, b']'])?;
    let inside = inside.get(..end)?;
    (!inside.contains(&b']') && !inside.contains(&b'[')).then_some((*kind, inside))
}

fn posix_outside(cursor: &Cursor<'_>) -> bool {
    posix_inside(cursor.rest()).is_some()
}
