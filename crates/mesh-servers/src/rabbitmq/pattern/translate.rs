//! A pattern read by PCRE's rules and written for the engine: classes as bytes, groups by number, places as look-around.

mod cursor;
mod group;
mod set;

use super::PatternError;
use super::class::{ByteSet, NEWLINE, WORD};
use super::escape::{BEFORE_LAST_NEWLINE, Escape, escape};
pub(super) use cursor::Cursor;

/// The options a pattern may turn on and off within itself.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one letter of PCRE's `(?imsxUJ)`"
)]
struct Flags {
    caseless: bool,
    multiline: bool,
    dot_all: bool,
    extended: bool,
    ungreedy: bool,
    /// Whether two groups may have one name.
    duplicates: bool,
}

/// An open group.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// The options outside it.
    outside: Flags,
    /// Where it begins in what is written.
    start: usize,
    /// Whether it looks around, and is to be wrapped before it is repeated.
    looks: bool,
}

/// What a quantifier would repeat.
#[derive(Debug, Clone, Copy)]
struct Atom {
    start: usize,
    looks: bool,
}

struct Translator<'p> {
    cursor: Cursor<'p>,
    written: String,
    flags: Flags,
    open: Vec<Open>,
    last: Option<Atom>,
    /// The name of each capturing group, empty where it has none.
    groups: Vec<Vec<u8>>,
    /// Names that were referred to before there was a group of that name, and where.
    awaited: Vec<(Vec<u8>, usize)>,
    /// The highest group referred to, and where.
    referred: Option<(usize, usize)>,
}

/// The pattern in the engine's syntax.
pub(super) fn translate(pattern: &[u8]) -> Result<String, PatternError> {
    let mut translator = Translator {
        cursor: Cursor::new(pattern),
        written: String::new(),
        flags: Flags::default(),
        open: Vec::new(),
        last: None,
        groups: Vec::new(),
        awaited: Vec::new(),
        referred: None,
    };
    while let Some(byte) = translator.cursor.take() {
        translator.next(byte)?;
    }
    translator.resolved()
}

impl Translator<'_> {
    fn next(&mut self, byte: u8) -> Result<(), PatternError> {
        match byte {
            b' ' | b'\t'..=b'\r' if self.flags.extended => {}
            b'#' if self.flags.extended => {
                drop(self.cursor.take_while(|byte| byte != b'\n'));
            }
            b'\\' => self.escaped()?,
            b'[' => {
                let set = set::class(&mut self.cursor, self.flags.caseless, self.groups.len())?;
                self.atom(&set.written());
            }
            b'(' => self.opened()?,
            b')' => self.closed()?,
            b'|' => self.place("|"),
            b'*' => self.repeat("*")?,
            b'+' => self.repeat("+")?,
            b'?' => self.repeat("?")?,
            b'{' => match self.cursor.counts()? {
                Some(counts) => self.repeat(&counts)?,
                None => self.literal(byte),
            },
            b'^' if self.flags.multiline => self.place(r"(?:\A|(?<=\x0A)(?!\z))"),
            b'^' => self.place(r"\A"),
            b'$' if self.flags.multiline => self.place(r"(?=\x0A|\z)"),
            b'$' => self.place(BEFORE_LAST_NEWLINE),
            b'.' => {
                let outside: &[(u8, u8)] = if self.flags.dot_all { &[] } else { NEWLINE };
                self.atom(&ByteSet::of(outside).complement().written());
            }
            byte => self.literal(byte),
        }
        Ok(())
    }

    fn literal(&mut self, byte: u8) {
        let one = ByteSet::one(byte);
        self.set(&one);
    }

    /// One byte of a set, in either case where case does not count.
    fn set(&mut self, set: &ByteSet) {
        let written = if self.flags.caseless {
            set.caseless().written()
        } else {
            set.written()
        };
        self.atom(&written);
    }

    fn atom(&mut self, written: &str) {
        self.last = Some(Atom {
            start: self.written.len(),
            looks: false,
        });
        self.written.push_str(written);
    }

    /// What nothing can repeat.
    fn place(&mut self, written: &str) {
        self.last = None;
        self.written.push_str(written);
    }

    fn repeat(&mut self, counts: &str) -> Result<(), PatternError> {
        let Some(atom) = self.last.take() else {
            return Err(self.cursor.invalid("nothing to repeat"));
        };
        let possessive = self.cursor.take_if(|byte| byte == b'+').is_some();
        let lazy = !possessive && self.cursor.take_if(|byte| byte == b'?').is_some();
        if atom.looks {
            // Looking around twice sees the same; not at all is always right.
            if counts == "*" || counts == "?" || counts.starts_with("{0,") {
                self.written.insert_str(atom.start, "(?:");
                self.written.push_str("|)");
            }
            return Ok(());
        }
        self.written.push_str(counts);
        if possessive {
            self.written.insert_str(atom.start, "(?>");
            self.written.push(')');
        } else if lazy != self.flags.ungreedy {
            self.written.push('?');
        }
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), PatternError> {
        match escape(&mut self.cursor, false, self.groups.len())? {
            Escape::Byte(byte) => self.literal(byte),
            Escape::Set(set) => self.atom(&set.written()),
            Escape::Place(place) => self.place(&place.replace('W', &ByteSet::of(WORD).written())),
            Escape::LineBreak => self.atom(r"(?>\x0D\x0A|[\x0A-\x0D\x85])"),
            Escape::Nothing => {}
            Escape::Quote => self.quoted(),
            Escape::Group(number) => self.refer(number),
            Escape::Named(name) => self.refer_to(name)?,
            Escape::Before(back) => {
                let number = (self.groups.len() + 1).checked_sub(back).filter(|n| *n > 0);
                let number = number
                    .ok_or_else(|| self.cursor.invalid("reference to non-existent subpattern"))?;
                self.refer(number);
            }
        }
        Ok(())
    }

    /// Everything up to `\E`, or to the end.
    fn quoted(&mut self) {
        while let Some(byte) = self.cursor.take() {
            if byte == b'\\' && self.cursor.take_if(|next| next == b'E').is_some() {
                return;
            }
            self.literal(byte);
        }
    }

    fn refer(&mut self, number: usize) {
        if self.referred.is_none_or(|(highest, _)| number > highest) {
            self.referred = Some((number, self.cursor.at()));
        }
        let case = if self.flags.caseless { "i" } else { "" };
        self.atom(&format!(r"(?{case}:\{number})"));
    }

    /// A reference to a group by its name. Of two with one name it would be whichever matched.
    fn refer_to(&mut self, name: Vec<u8>) -> Result<(), PatternError> {
        if self.groups.iter().filter(|known| **known == name).count() > 1 {
            return Err(self.cursor.unsupported("a reference to groups of one name"));
        }
        match self.named(&name) {
            Some(number) => self.refer(number),
            None => self.awaited.push((name, self.cursor.at())),
        }
        Ok(())
    }

    fn named(&self, name: &[u8]) -> Option<usize> {
        let at = self.groups.iter().position(|known| known == name)?;
        Some(at + 1)
    }

    /// What is written, if every group it refers to is there.
    fn resolved(self) -> Result<String, PatternError> {
        if !self.open.is_empty() {
            return Err(self.cursor.invalid("missing )"));
        }
        let why = "reference to non-existent subpattern";
        if let Some((name, at)) = self.awaited.first() {
            return Err(match self.named(name) {
                Some(_) => PatternError::Unsupported {
                    at: *at,
                    what: "a reference to a group that comes later".to_owned(),
                },
                None => PatternError::Invalid { at: *at, why },
            });
        }
        match self.referred {
            Some((group, at)) if group > self.groups.len() => {
                Err(PatternError::Invalid { at, why })
            }
            _ => Ok(self.written),
        }
    }
}
