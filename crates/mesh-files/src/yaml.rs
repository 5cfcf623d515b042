//! YAML into the tables that forms are read from, every key and value with its place.
//!
//! What YAML has over JSON and would surprise is refused: anchors, tags, several documents, keys that are no text. Plain
//! words are read by the core schema: `1.4` is a number and `no` is a text.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::tree::{Fault, Tree, nested_too_deep, number};

/// The whole text as a table.
pub(crate) fn parse(text: &str) -> Result<Tree<'_>, Fault> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut bytes: Vec<usize> = bare.char_indices().map(|(at, _)| at).collect();
    bytes.push(bare.len());
    let mut reading = Reading {
        text,
        events: Parser::new_from_str(bare),
        bytes,
        before: text.len() - bare.len(),
        nulls: Vec::new(),
    };
    let mut root = None;
    while let Some((event, span)) = reading.next()? {
        match event {
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::DocumentStart(_) if root.is_some() => {
                let message = "the file has a second document; a file says one thing";
                return Err(reading.fault(span.start, message));
            }
            Event::DocumentStart(_) => {
                let (event, span) = reading.expected(span)?;
                root = Some(reading.value(event, span, 0)?);
            }
            _ => break,
        }
    }
    let root = root.unwrap_or_else(|| Spanned::new(0..0, DeValue::Table(DeTable::new())));
    let nulls = reading.nulls;
    Ok(Tree { root, nulls })
}

/// The events of a text, and what of it is known so far.
struct Reading<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    /// The byte of each character: events are placed in characters.
    bytes: Vec<usize>,
    /// Bytes of the text before the first character that counts.
    before: usize,
    nulls: Vec<usize>,
}

impl<'t> Reading<'t> {
    fn at(&self, marker: Marker) -> usize {
        let last = self.bytes.last().copied().unwrap_or_default();
        self.before + self.bytes.get(marker.index()).copied().unwrap_or(last)
    }

    fn fault(&self, marker: Marker, message: &str) -> Fault {
        Fault::ours(self.at(marker), message.to_owned())
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Fault> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(Fault {
                ours: false,
                ..self.fault(*error.marker(), error.info())
            }),
        }
    }

    fn expected(&mut self, after: Span) -> Result<(Event<'t>, Span), Fault> {
        let next = self.next()?;
        next.ok_or_else(|| self.fault(after.end, "the text ends here"))
    }

    fn value(
        &mut self,
        event: Event<'t>,
        span: Span,
        depth: usize,
    ) -> Result<Spanned<DeValue<'t>>, Fault> {
        let at = self.at(span.start);
        if depth > DEPTH_LIMIT {
            return Err(nested_too_deep(at));
        }
        let (anchored, tagged) = match &event {
            Event::Alias(_) => (true, false),
            Event::Scalar(_, _, anchor, tag) => (*anchor != 0, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                (*anchor != 0, tag.is_some())
            }
            _ => (false, false),
        };
        if anchored {
            let message = "anchors and aliases are not taken; write the value where it belongs";
            return Err(self.fault(span.start, message));
        }
        if tagged {
            let message = "tags are not taken; write the value alone";
            return Err(self.fault(span.start, message));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, _, _) => {
                let written = self.text.get(at..self.at(span.end)).unwrap_or_default();
                self.plain(at, written.trim_end(), text)
            }
            Event::Scalar(text, _, _, _) => DeValue::String(Cow::Owned(text.into_owned())),
            Event::SequenceStart(_, _) => DeValue::Array(self.sequence(span, depth)?),
            Event::MappingStart(_, _) => DeValue::Table(self.mapping(span, depth)?),
            _ => return Err(self.fault(span.start, "a value is wanted here")),
        };
        Ok(Spanned::new(at..self.at(span.end).max(at), value))
    }

    /// Words without quotes: as they are written, and as they are meant when they are on several lines.
    fn plain(&mut self, at: usize, written: &'t str, text: Cow<'t, str>) -> DeValue<'t> {
        match text.as_ref() {
            "" | "~" | "null" | "Null" | "NULL" => {
                self.nulls.push(at);
                DeValue::Boolean(false)
            }
            "true" | "True" | "TRUE" => DeValue::Boolean(true),
            "false" | "False" | "FALSE" => DeValue::Boolean(false),
            _ => number(written).unwrap_or(DeValue::String(text)),
        }
    }

    fn sequence(&mut self, span: Span, depth: usize) -> Result<DeArray<'t>, Fault> {
        let mut array = DeArray::new();
        loop {
            let (event, span) = self.expected(span)?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(array);
            }
            array.push(self.value(event, span, depth + 1)?);
        }
    }

    fn mapping(&mut self, span: Span, depth: usize) -> Result<DeTable<'t>, Fault> {
        let mut table = DeTable::new();
        loop {
            let (event, span) = self.expected(span)?;
            let key = match event {
                Event::MappingEnd => return Ok(table),
                Event::Scalar(key, _, 0, None) => key.into_owned(),
                _ => {
                    return Err(self.fault(span.start, "a key is a text, without anchor and tag"));
                }
            };
            let at = self.at(span.start);
            if table.contains_key(key.as_str()) {
                return Err(Fault::twice(at, &key));
            }
            let key = Spanned::new(at..self.at(span.end).max(at), Cow::Owned(key));
            let (event, span) = self.expected(span)?;
            let value = placed_apart(self.value(event, span, depth + 1)?, &key);
            table.insert(key, value);
        }
    }
}

/// A mapping begins where its first key does. To tell the two apart it is said to begin behind its own key.
fn placed_apart<'i>(
    value: Spanned<DeValue<'i>>,
    key: &Spanned<Cow<'_, str>>,
) -> Spanned<DeValue<'i>> {
    let span = value.span();
    let first = |table: &DeTable<'_>| table.keys().any(|key| key.span().start == span.start);
    match value.get_ref() {
        DeValue::Table(table) if first(table) => {
            Spanned::new(key.span().end..span.end, value.into_inner())
        }
        _ => value,
    }
}

/// Mappings and sequences inside one another; as TOML's parser has it.
const DEPTH_LIMIT: usize = 80;
