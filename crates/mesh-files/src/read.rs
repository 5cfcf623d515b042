//! One file's text into a form, or what is wrong with it in words an operator can act on.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::later::{self, Later};
use crate::locate::{Located, correct, locate};
use crate::source::{Source, did_you_mean, nearest, printable, quoted};
use crate::{ErrorCode, FileError};

/// Reads one file. `file` is what errors call it.
///
/// The text says `version = 1` before its tables; the form does not hold that key. Forms are strict by
/// `#[serde(deny_unknown_fields)]`, and what serde then says becomes a place, a sentence and the nearest key.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, FileError> {
    let source = Source { file, text };
    let table = parse(source)?;
    form(source, table)
}

/// Reads one file and goes on behind keys for later and unknown keys, the latter as if what was nearest had been meant,
/// so that one look shows them all. A form may come of it beside errors.
pub(crate) fn read_on<T: DeserializeOwned>(
    source: Source<'_>,
    keys: &[Later],
    errors: &mut Vec<FileError>,
) -> Option<T> {
    let mut table = parse(source).map_err(|error| errors.push(error)).ok()?;
    later::refuse(keys, table.get_mut(), source, errors);
    for _ in 0..UNKNOWN_LIMIT {
        let error = match T::deserialize(toml::Deserializer::from(table.clone())) {
            Ok(form) => return Some(form),
            Err(error) => error,
        };
        let explained = explain(source, table.get_ref(), &error);
        let unknown = explained.code == ErrorCode::UnknownKey;
        errors.push(explained);
        let at = begin(&error);
        let key = locate(table.get_ref(), at).and_then(|found| found.key);
        let meant = nearest(&key.unwrap_or_default(), expected(error.message()));
        if !unknown || !correct(table.get_mut(), at, meant) {
            break;
        }
    }
    None
}

/// The byte an error is at; the first, when it does not say.
fn begin(error: &toml::de::Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// The text as a table, without its version.
fn parse(source: Source<'_>) -> Result<Spanned<DeTable<'_>>, FileError> {
    let mut table = DeTable::parse(source.text).map_err(|error| {
        let word = error.span().and_then(|span| source.text.get(span));
        let message = match (error.message(), word) {
            ("duplicate key", Some(word)) => format!("{} is there twice", quoted(word)),
            (message, _) => format!("not TOML: {}", printable(message)),
        };
        source.error(begin(&error), ErrorCode::Syntax, message)
    })?;
    let Some(version) = table.get_mut().remove("version") else {
        let message = "the file does not say version = 1; make that its first line".to_owned();
        return Err(source.error(0, ErrorCode::Version, message));
    };
    match version.get_ref() {
        DeValue::Integer(one) if one.as_str() == "1" => Ok(table),
        _ => {
            let said = source.text.get(version.span()).unwrap_or_default();
            let message = format!(
                "version {} is not known here; this release reads version = 1",
                printable(said)
            );
            Err(source.error(version.span().start, ErrorCode::Version, message))
        }
    }
}

fn form<T: DeserializeOwned>(
    source: Source<'_>,
    table: Spanned<DeTable<'_>>,
) -> Result<T, FileError> {
    T::deserialize(toml::Deserializer::from(table.clone()))
        .map_err(|error| explain(source, table.get_ref(), &error))
}

/// What serde said, as a sentence about the file. Its message is the only thing it hands on; the shapes taken apart here
/// are those of `serde::de::Error`, and what has another shape is shown as it is.
fn explain(source: Source<'_>, root: &DeTable<'_>, error: &toml::de::Error) -> FileError {
    let at = begin(error);
    let found = locate(root, at).unwrap_or_default();
    let message = error.message();
    let (code, sentence) = if message.starts_with("unknown field ") {
        (ErrorCode::UnknownKey, unknown_key(&found, message))
    } else if let Some(key) = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        let sentence = format!("{} needs a key {}", found.table(), quoted(key));
        (ErrorCode::MissingKey, sentence)
    } else if message.starts_with("unknown variant ") {
        (ErrorCode::WrongValue, unknown_value(&found, message))
    } else if message == "invalid type: map, expected a sequence" {
        let table = found.table();
        let sentence = format!("{table} may be there several times: write [{table}]");
        (ErrorCode::WrongValue, sentence)
    } else {
        let sentence = format!("{}: {}", subject(&found), plain(message));
        (ErrorCode::WrongValue, sentence)
    };
    source.error(at, code, sentence)
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

fn unknown_value(found: &Located, message: &str) -> String {
    let word = found.text.as_deref().unwrap_or_default();
    let known = expected(message);
    format!(
        "{}: {} is none of {}{}",
        subject(found),
        quoted(word),
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
fn expected(message: &str) -> Vec<&str> {
    message
        .rsplit_once("`, expected ")
        .map_or_else(Vec::new, |(_, list)| {
            list.split('`').skip(1).step_by(2).collect()
        })
}

/// Serde's words for kinds of values, as TOML's: an operator knows no struct, sequence or map.
fn plain(message: &str) -> String {
    let (found, wanted) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let found = found.strip_prefix("invalid type: ").map_or_else(
        || found.to_owned(),
        |kind| format!("this is {}", toml_kind(kind)),
    );
    let wanted = if wanted.is_empty() {
        String::new()
    } else {
        format!(", and {} is wanted", toml_kind(wanted))
    };
    printable(&format!("{found}{wanted}"))
}

fn toml_kind(kind: &str) -> String {
    match kind {
        "map" | "a map" => "a table".to_owned(),
        "sequence" | "a sequence" => "an array".to_owned(),
        _ if kind.starts_with("struct ") => "a table".to_owned(),
        _ => match kind.split_once(' ') {
            Some(("integer", value)) => format!("the integer {}", value.replace('`', "")),
            Some(("boolean", value)) => format!("the boolean {}", value.replace('`', "")),
            Some(("floating", value)) => {
                format!(
                    "the number {}",
                    value.replace("point ", "").replace('`', "")
                )
            }
            Some(("string", value)) => format!("the string {value}"),
            _ => kind.to_owned(),
        },
    }
}

/// Unknown keys shown for one file: somebody with more has the wrong file.
const UNKNOWN_LIMIT: usize = 20;

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        bus: Bus,
        #[serde(default)]
        words: Vec<String>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Bus {
        kind: Kind,
        port: u16,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Managed,
        Server,
    }

    #[test]
    fn a_form_of_another_crate_is_read_without_its_version() {
        let read: Result<Form, _> = read("f", "version = 1\nbus = { kind = 'server', port = 1 }");
        let bus = Bus {
            kind: Kind::Server,
            port: 1,
        };
        assert_eq!(read, Ok(Form { bus, words: vec![] }));
    }

    #[test]
    fn each_way_serde_fails_becomes_a_place_and_a_sentence() {
        for (body, expected) in [
            (
                "bus = 3",
                "f:2:7: \"bus\" at the top of the file: this is the integer 3, and a table is wanted",
            ),
            (
                "[bus]\nkind = 'server'",
                "f:2:1: [bus] needs a key \"port\"",
            ),
            (
                "[bus]\nkind = 'serve'\nport = 1",
                "f:3:8: \"kind\" in [bus]: \"serve\" is none of managed, server; did you mean \"server\"?",
            ),
            (
                "[bus]\nkind = 'server'\nport = 70000",
                "f:4:8: \"port\" in [bus]: invalid value: integer `70000`, and u16 is wanted",
            ),
            (
                "[bus]\nkind = 'server'\nport = 'a'",
                "f:4:8: \"port\" in [bus]: this is the string \"a\", and u16 is wanted",
            ),
            (
                "[bus]\nkind = 'server'\nprot = 1",
                "f:4:1: unknown key \"prot\" in [bus]; did you mean \"port\"?",
            ),
            (
                "[bus]\nkind = 'server'\nxyz = 1",
                "f:4:1: unknown key \"xyz\" in [bus]; known are kind, port",
            ),
            (
                "words = ['a', 1]\n",
                "f:2:15: \"words\" at the top of the file: this is the integer 1, and a string is wanted",
            ),
            (
                "words = 'a'\n",
                "f:2:9: \"words\" at the top of the file: this is the string \"a\", and an array is wanted",
            ),
            ("", "f:1:1: the file needs a key \"bus\""),
        ] {
            let error = read::<Form>("f", &format!("version = 1\n{body}")).unwrap_err();
            assert_eq!(error.to_string(), expected, "{body}");
        }
    }
}
