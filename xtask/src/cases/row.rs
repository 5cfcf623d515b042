//! One row: what it has to have, and its arguments as what they are.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use mesh_servers::nats::Permissions;

/// A row that has all it must have.
#[derive(Debug)]
pub(super) struct Row<'v> {
    pub(super) id: &'v str,
    pub(super) op: &'v str,
    pub(super) a: &'v Value,
    pub(super) b: &'v Value,
    pub(super) expect: &'v Value,
    pub(super) note: &'v str,
    /// Of the subjects published, those a subscription was given.
    pub(super) delivered: Option<Vec<String>>,
}

impl<'v> Row<'v> {
    pub(super) fn new(value: &'v Value) -> Result<Self> {
        let field = |name: &'static str| value.get(name).with_context(|| format!("no {name:?}"));
        let words = |name| {
            field(name)?
                .as_str()
                .with_context(|| format!("{name:?} is no text"))
        };
        let delivered = match value.get("delivered_of_probe") {
            None => None,
            Some(list) => Some(texts(list).context("\"delivered_of_probe\"")?),
        };
        Ok(Self {
            id: words("id")?,
            op: words("op")?,
            a: field("a")?,
            b: value.get("b").unwrap_or(&Value::Null),
            expect: field("expect")?,
            note: value
                .get("note")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            delivered,
        })
    }

    /// What is expected, with what is to be delivered.
    pub(super) fn expectation(&self) -> Value {
        match &self.delivered {
            Some(delivered) => json!([self.expect, delivered]),
            None => self.expect.clone(),
        }
    }
}

/// The subjects a row says were delivered; none, where it says nothing that can be read.
pub(super) fn delivered(row: &Value) -> Vec<String> {
    row.get("delivered_of_probe")
        .and_then(|list| texts(list).ok())
        .unwrap_or_default()
}

pub(super) fn text(value: &Value) -> Result<&str> {
    value
        .as_str()
        .with_context(|| format!("{value} is no text"))
}

/// A list of texts. Nothing is an empty list, and one text a list of one.
pub(super) fn texts(value: &Value) -> Result<Vec<String>> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(list) => list
            .iter()
            .map(|item| text(item).map(ToOwned::to_owned))
            .collect(),
        _ => bail!("{value} is no list of texts"),
    }
}

pub(super) fn number(value: &Value) -> Result<i64> {
    match value {
        Value::Null => Ok(0),
        value => value
            .as_i64()
            .with_context(|| format!("{value} is no whole number")),
    }
}

/// `{"allow": […], "deny": […]}`, or what is allowed alone.
pub(super) fn permissions(value: &Value) -> Result<Permissions> {
    let lists = match value {
        Value::Object(_) => (&value["allow"], &value["deny"]),
        list => (list, &Value::Null),
    };
    Ok(Permissions {
        allow: texts(lists.0)?,
        deny: texts(lists.1)?,
    })
}

/// A text, or so many letters where it says `(1024 bytes)`.
pub(super) fn of_bytes(text: &str) -> String {
    let bytes = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(" bytes)"));
    bytes
        .and_then(length)
        .map_or_else(|| text.to_owned(), |length| "a".repeat(length))
}

/// A name, or one letter so many times where it says `x*256`.
pub(super) fn times(name: &str) -> String {
    match name.split_once('*') {
        Some((one, digits)) if one.chars().count() == 1 => {
            length(digits).map_or_else(|| name.to_owned(), |length| one.repeat(length))
        }
        _ => name.to_owned(),
    }
}

fn length(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|length| *length <= 1 << 20)
}
