//! What stands in for a value that was refused, so that reading goes on and every error of a file is told at once.
//!
//! A stand-in is placed behind the end of the text: whatever is wrong at such a place is our doing and is not told. A
//! file with a stand-in has an error already, so nothing is ever declared by one.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::locate::value_at;
use crate::tree::number;

/// The stand-ins of one file so far.
#[derive(Debug)]
pub(crate) struct StandIns {
    /// The first byte that none of the text has.
    next: usize,
}

impl StandIns {
    pub(crate) fn new(text: &str) -> Self {
        let next = text.len() + 1;
        Self { next }
    }

    /// Puts a value of the wanted kind in the place of the one at byte `at`. Whether there is such a kind and place.
    pub(crate) fn replace(
        &mut self,
        root: &mut Spanned<DeValue<'_>>,
        at: usize,
        wanted: &Wanted,
    ) -> bool {
        let Some(place) = value_at(root, at, &|value| !wanted.is(value)) else {
            return false;
        };
        *place = self.of(wanted);
        true
    }

    /// Puts something in the place of what is said to be nothing.
    pub(crate) fn fill(&mut self, root: &mut Spanned<DeValue<'_>>, at: usize) {
        if let Some(place) = value_at(root, at, &|value| Wanted::Flag.is(value)) {
            *place = self.of(&Wanted::Flag);
        }
    }

    /// Gives the table at byte `at` a key that it needs. Whether there is such a table. The value is a text, and is
    /// replaced in turn when that is not what is wanted there.
    pub(crate) fn insert(&mut self, root: &mut Spanned<DeValue<'_>>, at: usize, key: &str) -> bool {
        let table = value_at(root, at, &|value| Wanted::Table.is(value));
        let Some(DeValue::Table(table)) = table.map(Spanned::get_mut) else {
            return false;
        };
        let value = self.of(&Wanted::Text(None));
        let at = value.span();
        table.insert(Spanned::new(at, Cow::Owned(key.to_owned())), value);
        true
    }

    fn of<'i>(&mut self, wanted: &Wanted) -> Spanned<DeValue<'i>> {
        let at = self.next;
        self.next += 1;
        let value = match wanted {
            // A name that nobody takes by chance, and another one each time.
            Wanted::Text(None) => DeValue::String(Cow::Owned(format!("what-stands-in-{at}"))),
            Wanted::Text(Some(word)) => DeValue::String(Cow::Owned(word.clone())),
            Wanted::Flag => DeValue::Boolean(false),
            Wanted::Number => number("1").unwrap_or(DeValue::Boolean(false)),
            Wanted::List => DeValue::Array(DeArray::new()),
            Wanted::Table => DeValue::Table(DeTable::new()),
        };
        Spanned::new(at..at, value)
    }
}

/// Has the value at byte `at` be a text, as it is written. Whether it was none.
pub(crate) fn quote(root: &mut Spanned<DeValue<'_>>, at: usize, text: &str) -> bool {
    let Some(place) = value_at(root, at, &|value| !value.is_str()) else {
        return false;
    };
    let span = place.span();
    let written = text.get(span.clone()).unwrap_or_default().to_owned();
    *place = Spanned::new(span, DeValue::String(Cow::Owned(written)));
    true
}

/// A kind of value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Text(Option<String>),
    Flag,
    Number,
    List,
    Table,
}

impl Wanted {
    /// Whether a value is of this kind; a text that is none of some words is not.
    fn is(&self, value: &DeValue<'_>) -> bool {
        match self {
            Self::Text(word) => word.is_none() && value.is_str(),
            Self::Flag => value.is_bool(),
            Self::Number => value.is_integer() || value.is_float(),
            Self::List => value.is_array(),
            Self::Table => value.is_table(),
        }
    }

    /// The kind that serde says is expected; nothing for one that no form of a file with several errors has.
    pub(crate) fn of(expected: &str) -> Option<Self> {
        match expected {
            "a boolean" => Some(Self::Flag),
            "i64" | "f64" => Some(Self::Number),
            "a sequence" => Some(Self::List),
            "a map" => Some(Self::Table),
            _ if expected.starts_with("struct ") => Some(Self::Table),
            _ if expected.contains("string") => Some(Self::Text(None)),
            _ => None,
        }
    }
}
