//! Groups: what follows an opening parenthesis, and what a closing one ends.

use super::super::PatternError;
use super::{Atom, Open, Translator};

impl Translator<'_> {
    /// What follows `(`.
    pub(super) fn opened(&mut self) -> Result<(), PatternError> {
        if self.cursor.take_text(b"*") {
            return Err(match self.cursor.peek() {
                Some(byte) if byte.is_ascii_alphabetic() => self.cursor.unsupported("a verb (*…)"),
                _ => self.cursor.invalid("nothing to repeat"),
            });
        }
        if !self.cursor.take_text(b"?") {
            self.groups.push(Vec::new());
            self.enter("(", false);
            return Ok(());
        }
        for (given, looks) in [
            ("=", true),
            ("!", true),
            ("<=", true),
            ("<!", true),
            (":", false),
            (">", false),
        ] {
            if self.cursor.take_text(given.as_bytes()) {
                self.enter(&format!("(?{given}"), looks);
                return Ok(());
            }
        }
        match self.cursor.take() {
            Some(b'#') => self.comment(),
            Some(b'<') => self.named_group(b'>'),
            Some(b'\'') => self.named_group(b'\''),
            Some(b'P') => self.python(),
            Some(b'|') => Err(self.cursor.unsupported("(?|…), which counts groups anew")),
            Some(b'(') => Err(self.cursor.unsupported("a conditional group")),
            Some(b'C') => self.callout(),
            Some(b'R' | b'&' | b'+' | b'0'..=b'9') => Err(self.cursor.unsupported("recursion")),
            Some(byte) => self.options(byte),
            None => Err(self
                .cursor
                .invalid("unrecognized character after (? or (?-")),
        }
    }

    fn enter(&mut self, written: &str, looks: bool) {
        self.open.push(Open {
            outside: self.flags,
            start: self.written.len(),
            looks,
        });
        self.place(written);
    }

    /// What `)` ends.
    pub(super) fn closed(&mut self) -> Result<(), PatternError> {
        let Some(open) = self.open.pop() else {
            return Err(self.cursor.invalid("unmatched parentheses"));
        };
        self.written.push(')');
        self.flags = open.outside;
        self.last = Some(Atom {
            start: open.start,
            looks: open.looks,
        });
        Ok(())
    }

    fn comment(&mut self) -> Result<(), PatternError> {
        drop(self.cursor.take_while(|byte| byte != b')'));
        match self.cursor.take() {
            Some(_) => Ok(()),
            None => Err(self.cursor.invalid("missing ) after comment")),
        }
    }

    /// `(?C1)`, which calls nothing, since nothing is given to be called.
    fn callout(&mut self) -> Result<(), PatternError> {
        drop(self.cursor.take_while(|byte| byte.is_ascii_digit()));
        self.last = None;
        match self.cursor.take() {
            Some(b')') => Ok(()),
            _ => Err(self.cursor.invalid("closing ) for (?C expected")),
        }
    }

    fn named_group(&mut self, close: u8) -> Result<(), PatternError> {
        let name = self.cursor.name(close)?;
        if self.named(&name).is_some() && !self.flags.duplicates {
            return Err(self
                .cursor
                .invalid("two named subpatterns have the same name"));
        }
        self.groups.push(name);
        self.enter("(", false);
        Ok(())
    }

    /// `(?P<name>…)`, `(?P=name)`, `(?P>name)`.
    fn python(&mut self) -> Result<(), PatternError> {
        match self.cursor.take() {
            Some(b'<') => self.named_group(b'>'),
            Some(b'=') => {
                let name = self.cursor.name(b')')?;
                self.refer_to(name)
            }
            Some(b'>') => Err(self.cursor.unsupported("recursion")),
            _ => Err(self.cursor.invalid("unrecognized character after (?P")),
        }
    }

    /// `(?i-s)` for the rest of the group, or `(?i-s:…)`.
    fn options(&mut self, first: u8) -> Result<(), PatternError> {
        let mut flags = self.flags;
        let mut on = true;
        let mut next = Some(first);
        loop {
            match next {
                Some(b'-') => on = false,
                Some(b'i') => flags.caseless = on,
                Some(b'm') => flags.multiline = on,
                Some(b's') => flags.dot_all = on,
                Some(b'x') => flags.extended = on,
                Some(b'U') => flags.ungreedy = on,
                Some(b'J') => flags.duplicates = on,
                Some(b'1'..=b'9') if !on => return Err(self.cursor.unsupported("recursion")),
                Some(b')') => {
                    self.flags = flags;
                    self.last = None;
                    return Ok(());
                }
                Some(b':') => {
                    self.enter("(?:", false);
                    self.flags = flags;
                    return Ok(());
                }
                _ => {
                    let why = "unrecognized character after (? or (?-";
                    return Err(self.cursor.invalid(why));
                }
            }
            next = self.cursor.take();
        }
    }
}
