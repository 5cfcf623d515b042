//! One file's text into a form, or what is wrong with it in words an operator can act on.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::explain::{Texts, WHOLE, begin, expected, explain, missing, shown};
use crate::locate::{correct, locate};
use crate::notation::Notation;
use crate::source::{Source, nearest, printable};
use crate::standin::{StandIns, Wanted, quote};
use crate::tree::{Fault, Tree};
use crate::{ErrorCode, FileError, json, yaml};

/// Reads one file. `file` is what errors call it, and what it ends in says its notation; TOML, when nothing of ours.
///
/// The text says `version = 1` before its tables; the form does not hold that key. Forms are strict by
/// `#[serde(deny_unknown_fields)]`, and what serde then says becomes a place, a sentence and the nearest key. No text that
/// stands in the file is shown but keys: a configuration may have a password in it, and in the wrong place.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, FileError> {
    let source = Source::new(file, text);
    let mut errors = Vec::new();
    let table = parse(source, &mut StandIns::new(text), &mut errors);
    match (errors.into_iter().next(), table) {
        (Some(error), _) => Err(error),
        (None, Some(table)) => {
            form(&table).map_err(|error| explain(source, &table, &error, Texts::Hidden))
        }
        (None, None) => {
            Err(source.error(0, ErrorCode::Syntax, "there is nothing in it".to_owned()))
        }
    }
}

/// Reads one file and goes on behind what is wrong, so that one look shows it all: unknown keys are read as if what is nearest had
/// been meant, and other values stand in for wrong and missing ones. A form may come
/// of it beside errors.
pub(crate) fn read_on<T: DeserializeOwned>(
    source: Source<'_>,
    errors: &mut Vec<FileError>,
) -> Option<T> {
    let mut stand_ins = StandIns::new(source.text);
    let mut root = parse(source, &mut stand_ins, errors)?;
    if let DeValue::Table(table) = root.get_mut() {
        table.remove("$schema");
    }
    for _ in 0..MENDED_LIMIT {
        let error = match form(&root) {
            Ok(form) => return Some(form),
            Err(error) => error,
        };
        if error.message() == NO_WORD {
            // Read as a word it is told which words there are.
            if !quote(&mut root, begin(&error), source.text) {
                break;
            }
            continue;
        }
        if source.holds(shown(&error)) {
            errors.push(explain(source, &root, &error, Texts::Shown));
        }
        if !mended(&mut root, &error, &mut stand_ins) {
            break;
        }
    }
    None
}

/// Puts what was refused into a state in which reading goes on behind it. Whether that could be done.
fn mended(
    root: &mut Spanned<DeValue<'_>>,
    error: &toml::de::Error,
    stand_ins: &mut StandIns,
) -> bool {
    let at = begin(error);
    let message = error.message();
    if message.starts_with("unknown field ") {
        let DeValue::Table(table) = root.get_mut() else {
            return false;
        };
        let key = locate(table, at).and_then(|found| found.key);
        let meant = nearest(&key.unwrap_or_default(), expected(message)).map(str::to_owned);
        return correct(table, at, meant.as_deref());
    }
    if let Some(key) = missing(message) {
        return stand_ins.insert(root, at, key);
    }
    let wanted = match expected(message).first() {
        Some(first) => Some(Wanted::Text(Some((*first).to_owned()))),
        None => message
            .rsplit_once(", expected ")
            .and_then(|(_, expected)| Wanted::of(expected)),
    };
    wanted.is_some_and(|wanted| stand_ins.replace(root, at, &wanted))
}

/// The text as a table, without its version; nothing when its errors make it none.
fn parse<'a>(
    source: Source<'a>,
    stand_ins: &mut StandIns,
    errors: &mut Vec<FileError>,
) -> Option<Spanned<DeValue<'a>>> {
    let name = source.notation.name();
    if source.text.trim_start_matches('\u{feff}').trim().is_empty() {
        let message = format!(
            "the file is empty; begin it with {}",
            source.notation.version()
        );
        errors.push(source.error(0, ErrorCode::Version, message));
        return None;
    }
    let parsed = match source.notation {
        Notation::Toml => toml_tree(source.text),
        Notation::Json => json::parse(source.text),
        Notation::Yaml => yaml::parse(source.text),
    };
    let Tree { mut root, nulls } = parsed
        .map_err(|Fault { at, message, ours }| {
            let message = if ours {
                message
            } else {
                format!("not {name}: {}", printable(&message))
            };
            errors.push(source.error(at, ErrorCode::Syntax, message));
        })
        .ok()?;
    for at in nulls.into_iter().take(MENDED_LIMIT) {
        let message = "nothing stands here; give a value or leave the key out".to_owned();
        errors.push(source.error(at, ErrorCode::WrongValue, message));
        stand_ins.fill(&mut root, at);
    }
    let at = root.span().start;
    // The first table of a file may begin where the whole does.
    root = Spanned::new(WHOLE..WHOLE, root.into_inner());
    let DeValue::Table(table) = root.get_mut() else {
        let message = format!(
            "the file as a whole has to be {} with keys",
            source.notation.table()
        );
        errors.push(source.error(at, ErrorCode::WrongValue, message));
        return None;
    };
    versioned(source, table, errors).then_some(root)
}

fn toml_tree(text: &str) -> Result<Tree<'_>, Fault> {
    let table = DeTable::parse(text).map_err(|error| {
        let word = error.span().and_then(|span| text.get(span));
        match (error.message(), word) {
            ("duplicate key", Some(word)) => Fault::twice(shown(&error), word),
            (message, _) => Fault {
                at: shown(&error),
                message: message.to_owned(),
                ours: false,
            },
        }
    })?;
    let span = table.span();
    let root = Spanned::new(span, DeValue::Table(table.into_inner()));
    let nulls = Vec::new();
    Ok(Tree { root, nulls })
}

/// Takes the version out of a table. Whether the rest can be read: as this version, when it says none.
fn versioned(source: Source<'_>, table: &mut DeTable<'_>, errors: &mut Vec<FileError>) -> bool {
    let wanted = source.notation.version();
    let Some(version) = table.remove("version") else {
        let message = format!("the file does not say {wanted}; begin it with that");
        errors.push(source.error(0, ErrorCode::Version, message));
        return true;
    };
    match version.get_ref() {
        DeValue::Integer(one) if one.as_str() == "1" => true,
        _ => {
            let said = source.text.get(version.span()).unwrap_or_default();
            let message = format!(
                "version {} is not known here; this release reads {wanted}",
                printable(said)
            );
            errors.push(source.error(version.span().start, ErrorCode::Version, message));
            false
        }
    }
}

fn form<T: DeserializeOwned>(root: &Spanned<DeValue<'_>>) -> Result<T, toml::de::Error> {
    let table = match root.get_ref() {
        DeValue::Table(table) => table.clone(),
        _ => DeTable::new(),
    };
    T::deserialize(toml::Deserializer::from(Spanned::new(root.span(), table)))
}

/// What is said of a value that is no word where one of some words is wanted.
const NO_WORD: &str = "wanted string or table";
/// Errors of shape mended in one file: somebody with more has the wrong file.
const MENDED_LIMIT: usize = 40;

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
                "f:3:8: \"kind\" in [bus]: this is none of managed, server; did you mean \"server\"?",
            ),
            (
                "[bus]\nkind = 'server'\nport = 70000",
                "f:4:8: \"port\" in [bus]: invalid value: integer `70000`, and u16 is wanted",
            ),
            (
                "[bus]\nkind = 'server'\nport = 'a'",
                "f:4:8: \"port\" in [bus]: this is a string, and u16 is wanted",
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
                "f:2:15: \"words\" at the top of the file: this is the integer 1, and a string is wanted; put it in quotes",
            ),
            (
                "words = 'a'\n",
                "f:2:9: \"words\" at the top of the file: this is a string, and an array is wanted",
            ),
            ("", "f:1:1: the file needs a key \"bus\""),
        ] {
            let error = read::<Form>("f", &format!("version = 1\n{body}")).unwrap_err();
            assert_eq!(error.to_string(), expected, "{body}");
        }
    }
}
