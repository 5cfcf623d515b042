//! Texts into names, with an error for each that is none.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::str::FromStr;

use mesh_model::{EventName, EventRef, InvalidName, MeshName, ModuleName, NameKind, NameRule};

use crate::form::Text;
use crate::source::{Source, as_label, quoted};
use crate::{ErrorCode, FileError};

/// One file's names as they are read, and what was wrong with them.
#[derive(Debug)]
pub(crate) struct Names<'s, 'e> {
    pub(crate) source: Source<'s>,
    pub(crate) errors: &'e mut Vec<FileError>,
}

/// Where something stands: the byte of its first character.
pub(crate) type Offset = usize;

impl Names<'_, '_> {
    /// Notes that something at a place is wrong.
    pub(crate) fn refuse(&mut self, at: Offset, code: ErrorCode, message: String) {
        // What stands in for something that was refused is told once, as what was refused.
        if self.errors.len() < ERROR_LIMIT && self.source.holds(at) {
            self.errors.push(self.source.error(at, code, message));
        }
    }

    /// One name. `field` says where it was written: `"name" in [module]`.
    pub(crate) fn one<T: FromStr<Err = InvalidName>>(
        &mut self,
        field: &str,
        text: &Text,
    ) -> Option<T> {
        match text.get_ref().parse() {
            Ok(name) => Some(name),
            Err(error) => {
                let meant = meant(error.kind, &error.name);
                self.no_name(field, text, &error, meant);
                None
            }
        }
    }

    fn no_name(&mut self, field: &str, text: &Text, error: &InvalidName, meant: Option<String>) {
        let InvalidName { kind, name, .. } = error;
        let hint = meant.map_or_else(String::new, |meant| {
            format!("; did you mean {}?", quoted(&meant))
        });
        let message = format!(
            "{field}: {kind} name {}: {}{hint}",
            quoted(name),
            broken(error)
        );
        self.refuse(text.span().start, ErrorCode::InvalidName, message);
    }

    /// One text that stands for what is no name: an image, a port. `meant` says what may have been meant by a wrong one.
    pub(crate) fn value<T: FromStr<Err: fmt::Display>>(
        &mut self,
        field: &str,
        text: &Text,
        meant: fn(&str) -> String,
    ) -> Option<T> {
        let written = text.get_ref();
        match written.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                // What is wrong says the text in full, and it may be a long one.
                let whole = format!("{written:?}");
                let what = error.to_string().replacen(&whole, &quoted(written), 1);
                let meant = meant(written);
                let hint = match meant.parse::<T>() {
                    Ok(_) => format!("; did you mean {}?", quoted(&meant)),
                    Err(_) => String::new(),
                };
                let message = format!("{field}: {what}{hint}");
                self.refuse(text.span().start, ErrorCode::WrongValue, message);
                None
            }
        }
    }

    /// A list of such texts, each once, with its place.
    pub(crate) fn values<T: FromStr<Err: fmt::Display> + Ord>(
        &mut self,
        field: &str,
        texts: &[Text],
        meant: fn(&str) -> String,
    ) -> BTreeMap<T, Offset> {
        self.distinct(field, texts, |names, field, text| {
            names.value(field, text, meant)
        })
    }

    /// One `<module>.<event>`.
    pub(crate) fn event(&mut self, field: &str, text: &Text) -> Option<EventRef> {
        let written = text.get_ref();
        let what = if written.contains(WILDCARDS) {
            NO_WILDCARDS
        } else if written.contains('.') {
            return match written.parse() {
                Ok(event) => Some(event),
                Err(error) => {
                    self.no_name(field, text, &error, meant_event(written));
                    None
                }
            };
        } else {
            "this names no module's event; write \"<module>.<event>\""
        };
        let message = format!("{field}: {}: {what}", quoted(written));
        self.refuse(text.span().start, ErrorCode::InvalidName, message);
        None
    }

    /// A list of names, each once, with its place.
    pub(crate) fn set<T: FromStr<Err = InvalidName> + Ord>(
        &mut self,
        field: &str,
        texts: &[Text],
    ) -> BTreeMap<T, Offset> {
        self.distinct(field, texts, Self::one)
    }

    /// A list of `<module>.<event>`, each once, with its place.
    pub(crate) fn events(&mut self, field: &str, texts: &[Text]) -> BTreeMap<EventRef, Offset> {
        self.distinct(field, texts, Self::event)
    }

    fn distinct<T: Ord>(
        &mut self,
        field: &str,
        texts: &[Text],
        read: impl Fn(&mut Self, &str, &Text) -> Option<T>,
    ) -> BTreeMap<T, Offset> {
        let mut names = BTreeMap::new();
        for text in texts {
            let Some(name) = read(self, field, text) else {
                continue;
            };
            match names.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(text.span().start);
                }
                Entry::Occupied(_) => {
                    let message = format!("{field} lists {} twice", quoted(text.get_ref()));
                    self.refuse(text.span().start, ErrorCode::Duplicate, message);
                }
            }
        }
        names
    }
}

/// The name that was meant by a text that is none; nothing when no rule makes one of it.
fn meant(kind: NameKind, text: &str) -> Option<String> {
    match kind {
        NameKind::Event if text.contains(WILDCARDS) => None,
        NameKind::Event => EventName::new(as_labels(text)).ok().map(String::from),
        NameKind::Mesh | NameKind::Token => MeshName::new(as_label(text)).ok().map(String::from),
        NameKind::Node | NameKind::Module | NameKind::Seat => {
            ModuleName::new(as_label(text)).ok().map(String::from)
        }
    }
}

/// The `<module>.<event>` that was meant by a text that is none, whole: a part of it would be refused in its place.
fn meant_event(text: &str) -> Option<String> {
    as_labels(text).parse().ok().map(EventRef::into)
}

/// The nearest labels to those between the dots of a text.
fn as_labels(text: &str) -> String {
    let parts = text.split('.').map(as_label);
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

/// The rule that a name broke. An event's name has dots, of which the rule of a single label knows nothing.
fn broken(error: &InvalidName) -> String {
    match (error.kind, &error.rule) {
        (NameKind::Event, NameRule::Character { character, .. })
            if WILDCARDS.contains(character) =>
        {
            NO_WILDCARDS.to_owned()
        }
        (NameKind::Event, NameRule::Character { character, at }) => format!(
            "{character:?} at byte {at} is not one of a-z, 0-9, '-' and '.' (an event's name is one or more RFC 1123 labels \
             joined by dots: no upper case)"
        ),
        (NameKind::Event, NameRule::Empty) => {
            "each label, before a dot or after one, has at least one character".to_owned()
        }
        (_, rule) => rule.to_string(),
    }
}

/// What stands for more than one name in a subject.
const WILDCARDS: [char; 2] = ['*', '>'];
const NO_WILDCARDS: &str = "no wildcards: list each event by name";
/// Errors kept for one file; with more of them nobody reads on, and each costs a walk through the text.
const ERROR_LIMIT: usize = 100;
