//! What serde says of a form, as a sentence about the file.

use toml::Spanned;
use toml::de::DeValue;

use crate::locate::{Located, locate};
use crate::notation::Notation;
use crate::source::{Source, did_you_mean, printable, quoted};
use crate::{ErrorCode, FileError};

/// Whether an error shows the text that it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// It helps to see what one typed.
    Shown,
    /// It may be a password, or an address with one in it.
    Hidden,
}

/// What serde said, as a sentence about the file. Its message is the only thing it hands on; the shapes taken apart here
/// are those of `serde::de::Error`, and what has another shape is shown as it is.
pub(crate) fn explain(
    source: Source<'_>,
    root: &Spanned<DeValue<'_>>,
    error: &toml::de::Error,
    texts: Texts,
) -> FileError {
    let at = begin(error);
    let table = root.get_ref().as_table();
    let found = table
        .and_then(|table| locate(table, at))
        .unwrap_or_default();
    let message = error.message();
    let (code, sentence) = if message.starts_with("unknown field ") {
        (ErrorCode::UnknownKey, unknown_key(&found, message))
    } else if let Some(key) = missing(message) {
        let sentence = format!("{} needs a key {}", found.table(), quoted(key));
        (ErrorCode::MissingKey, sentence)
    } else if message.starts_with("unknown variant ") {
        (ErrorCode::WrongValue, unknown_value(&found, message, texts))
    } else if message == "invalid type: map, expected a sequence" && source.has_header(at) {
        let table = found.table();
        let sentence = format!("{table} may be there several times: write [{table}]");
        (ErrorCode::WrongValue, sentence)
    } else {
        let sentence = format!(
            "{}: {}",
            subject(&found),
            plain(message, source.notation, texts)
        );
        (ErrorCode::WrongValue, sentence)
    };
    source.error(shown(error), code, sentence)
}

/// The key that serde misses.
pub(crate) fn missing(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("missing field `")?;
    rest.strip_suffix('`')
}

fn unknown_key(found: &Located, message: &str) -> String {
    let word = found.key.as_deref().unwrap_or_default();
    let known = expected(message);
    let mut hint = did_you_mean(word, known.iter().copied());
    if hint.is_empty() && !known.is_empty() {
        hint = format!("; known are {}", known.join(", "));
    }
    format!("unknown key {} {}{hint}", quoted(word), found.within())
}

fn unknown_value(found: &Located, message: &str, texts: Texts) -> String {
    let word = found.text.as_deref().unwrap_or_default();
    let known = expected(message);
    let shown = match texts {
        Texts::Shown => quoted(word),
        Texts::Hidden => "this".to_owned(),
    };
    format!(
        "{}: {shown} is none of {}{}",
        subject(found),
        known.join(", "),
        did_you_mean(word, known.iter().copied())
    )
}

/// What an error is about.
fn subject(found: &Located) -> String {
    match &found.key {
        Some(key) => format!("{} {}", quoted(key), found.within()),
        None => found.table(),
    }
}

/// The words serde lists: "expected `a`", "expected `a` or `b`", "expected one of `a`, `b`, `c`".
pub(crate) fn expected(message: &str) -> Vec<&str> {
    message
        .rsplit_once("`, expected ")
        .map_or_else(Vec::new, |(_, list)| {
            list.split('`').skip(1).step_by(2).collect()
        })
}

/// Serde's words for kinds of values, as the notation's: an operator knows no struct, sequence or map.
fn plain(message: &str, notation: Notation, texts: Texts) -> String {
    let (found, wanted) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let unquoted =
        found.contains(": integer") || found.contains(": float") || found.contains(": bool");
    let found = match found.strip_prefix("invalid type: ") {
        Some(kind) => format!("this is {}", kind_of(kind, notation, texts)),
        None if texts == Texts::Hidden && found.starts_with("invalid value: string ") => {
            "invalid value".to_owned()
        }
        None => found.to_owned(),
    };
    let wanted = match wanted {
        "" => String::new(),
        "a string" | "string" if unquoted => {
            ", and a string is wanted; put it in quotes".to_owned()
        }
        wanted => format!(", and {} is wanted", kind_of(wanted, notation, texts)),
    };
    printable(&format!("{found}{wanted}"))
}

fn kind_of(kind: &str, notation: Notation, texts: Texts) -> String {
    match kind {
        "map" | "a map" => notation.table().to_owned(),
        "sequence" | "a sequence" => "an array".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        _ if kind.starts_with("struct ") => notation.table().to_owned(),
        _ => match kind.split_once(' ') {
            Some(("integer", value)) => format!("the integer {}", value.replace('`', "")),
            Some(("boolean", value)) => format!("the boolean {}", value.replace('`', "")),
            Some(("floating", value)) => {
                format!(
                    "the number {}",
                    value.replace("point ", "").replace('`', "")
                )
            }
            Some(("string", _)) if texts == Texts::Hidden => "a string".to_owned(),
            Some(("string", value)) => format!("the string {value}"),
            _ => kind.to_owned(),
        },
    }
}

/// The byte an error is at; that of the whole, when it does not say.
pub(crate) fn begin(error: &toml::de::Error) -> usize {
    error.span().map_or(WHOLE, |span| span.start)
}

/// The byte an error is shown at.
pub(crate) fn shown(error: &toml::de::Error) -> usize {
    match begin(error) {
        WHOLE => 0,
        at => at,
    }
}

/// Where the whole of a file is said to begin, so that it is told from the first thing in it.
pub(crate) const WHOLE: usize = usize::MAX;
