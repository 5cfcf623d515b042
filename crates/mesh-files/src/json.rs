//! JSON into the tables that forms are read from, every key and value with its place.
//!
//! The parser is `serde_json`. It tells no places, and hands on pieces of the text as they stand: where a piece lies in
//! the text is where it is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::tree::{Fault, Tree, nested_too_deep, number};

/// The whole text as a table.
pub(crate) fn parse(text: &str) -> Result<Tree<'_>, Fault> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let reading = Reading { text };
    let root: &RawValue = serde_json::from_str(bare).map_err(|error| {
        let mut fault = reading.fault(bare, &error);
        if error.is_eof() {
            fault.at = text.len();
        }
        fault
    })?;
    let mut nulls = Vec::new();
    let root = reading.value(root, 0, &mut nulls)?;
    Ok(Tree { root, nulls })
}

/// The text that every piece is a part of.
#[derive(Debug, Clone, Copy)]
struct Reading<'a> {
    text: &'a str,
}

impl<'a> Reading<'a> {
    /// Where a piece of the text begins.
    fn at(self, piece: &str) -> usize {
        let from = self.text.as_ptr().addr();
        piece.as_ptr().addr().saturating_sub(from)
    }

    fn spanned<T>(self, piece: &str, value: T) -> Spanned<T> {
        let at = self.at(piece);
        Spanned::new(at..at + piece.len(), value)
    }

    /// What the parser says of a piece, at the place in the whole.
    fn fault(self, piece: &str, error: &serde_json::Error) -> Fault {
        let line = error.line().saturating_sub(1);
        let before: usize = piece.split_inclusive('\n').take(line).map(str::len).sum();
        let said = error.to_string();
        let bare = said.split(" at line ").next().unwrap_or_default();
        Fault {
            at: self.at(piece) + before + error.column().saturating_sub(1),
            message: bare.to_owned(),
            ours: false,
        }
    }

    fn piece<T: Deserialize<'a>>(self, raw: &'a str) -> Result<T, Fault> {
        serde_json::from_str(raw).map_err(|error| self.fault(raw, &error))
    }

    fn value(
        self,
        raw: &'a RawValue,
        depth: usize,
        nulls: &mut Vec<usize>,
    ) -> Result<Spanned<DeValue<'a>>, Fault> {
        let raw = raw.get();
        let at = self.at(raw);
        if depth > DEPTH_LIMIT {
            return Err(nested_too_deep(at));
        }
        let value = match raw.as_bytes().first() {
            Some(b'{') => DeValue::Table(self.table(self.piece(raw)?, depth, nulls)?),
            Some(b'[') => {
                let items: Vec<&RawValue> = self.piece(raw)?;
                let mut array = DeArray::new();
                for item in items {
                    array.push(self.value(item, depth + 1, nulls)?);
                }
                DeValue::Array(array)
            }
            Some(b'"') => DeValue::String(Cow::Owned(self.piece(raw)?)),
            Some(b't') => DeValue::Boolean(true),
            Some(b'f') => DeValue::Boolean(false),
            Some(b'n') => {
                nulls.push(at);
                DeValue::Boolean(false)
            }
            _ => number(raw).unwrap_or(DeValue::String(Cow::Borrowed(raw))),
        };
        Ok(self.spanned(raw, value))
    }

    fn table(
        self,
        entries: Entries<'a>,
        depth: usize,
        nulls: &mut Vec<usize>,
    ) -> Result<DeTable<'a>, Fault> {
        let mut table = DeTable::new();
        for (key, value) in entries.0 {
            let name: String = self.piece(key.get())?;
            if table.contains_key(name.as_str()) {
                return Err(Fault::twice(self.at(key.get()), &name));
            }
            let value = self.value(value, depth + 1, nulls)?;
            table.insert(self.spanned(key.get(), Cow::Owned(name)), value);
        }
        Ok(table)
    }
}

/// The entries of an object, in the order of the text: none is lost to another of its name.
#[derive(Debug)]
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Collect).map(Self)
    }
}

/// Objects and arrays inside one another; as TOML's parser has it.
const DEPTH_LIMIT: usize = 80;
