//! How one form becomes bytes and bytes become it: bounded, to the end, in one way only.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{FieldError, InvalidText, WireError};

/// The most bytes that are read as one thing: what a NATS server takes as one message unless told otherwise.
pub const MAX_BYTES: usize = 1024 * 1024;

/// What is said over the wire: an enum with one variant for each version, in order, to which variants are only added.
pub(crate) trait Versions: Serialize + DeserializeOwned {
    /// What it is, for people.
    const WHAT: &'static str;
    /// How many versions there are, so that a later one is told from rubbish.
    const KNOWN: u32;
}

#[expect(
    clippy::expect_used,
    reason = "postcard fails to write only to a full buffer, a sequence of unknown length, or when a type's own \
              Serialize fails: a Vec grows, and every form derives Serialize over strings, numbers, Vec and BTreeMap"
)]
pub(crate) fn write<T: Serialize>(form: &T) -> Vec<u8> {
    postcard::to_stdvec(form).expect("a form is written to a growing buffer")
}

/// Reads a form that begins with its version.
pub(crate) fn read<T: Versions>(bytes: &[u8]) -> Result<T, WireError> {
    bounded(T::WHAT, bytes)?;
    // The variant's index comes first. Read by itself, so that a version of tomorrow is not taken for damage.
    if let Ok((index, _)) = postcard::take_from_bytes::<u32>(bytes)
        && index >= T::KNOWN
    {
        return Err(WireError::Newer {
            what: T::WHAT,
            found: index.saturating_add(1),
            known: T::KNOWN,
        });
    }
    read_plain(T::WHAT, bytes)
}

/// Reads a form whose version was told beside it.
pub(crate) fn read_plain<T: Serialize + DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, WireError> {
    bounded(what, bytes)?;
    let (form, rest) = postcard::take_from_bytes(bytes).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => WireError::CutShort {
            what,
            length: bytes.len(),
        },
        other => WireError::Malformed {
            what,
            why: other.to_string(),
        },
    })?;
    if !rest.is_empty() {
        return Err(WireError::Trailing {
            what,
            extra: rest.len(),
        });
    }
    // Numbers with needless zeros, and sets with an entry twice or out of order, say the same in other bytes.
    if write(&form) != bytes {
        return Err(WireError::Malformed {
            what,
            why: "it is not written in the one way it can be".to_owned(),
        });
    }
    Ok(form)
}

/// Refuses what is written in a later version than the first that can say it: each thing is written in one way.
pub(crate) fn no_later(what: &'static str, found: u8, needed: u8) -> Result<(), WireError> {
    if found == needed {
        return Ok(());
    }
    Err(WireError::Malformed {
        what,
        why: "it is in a later version than it needs".to_owned(),
    })
}

pub(crate) fn bounded(what: &'static str, bytes: &[u8]) -> Result<(), WireError> {
    match bytes.len() {
        0 => Err(WireError::Empty { what }),
        length if length > MAX_BYTES => Err(WireError::TooLarge {
            what,
            length,
            limit: MAX_BYTES,
        }),
        _ => Ok(()),
    }
}

/// Takes a field's text as what it stands for.
pub(crate) fn text<T>(field: &'static str, text: String) -> Result<T, FieldError>
where
    T: TryFrom<String, Error: Into<InvalidText>>,
{
    T::try_from(text).map_err(|rule| FieldError {
        field,
        rule: rule.into(),
    })
}

/// Takes what a node says of itself as one line, to be shown to people.
pub(crate) fn line(field: &'static str, text: String) -> Result<String, FieldError> {
    if mesh_model::one_line(&text) == text {
        return Ok(text);
    }
    let rule = InvalidText::NoLine(text.len());
    Err(FieldError { field, rule })
}

/// The same for a field that may be absent.
pub(crate) fn optional<T>(
    field: &'static str,
    found: Option<String>,
) -> Result<Option<T>, FieldError>
where
    T: TryFrom<String, Error: Into<InvalidText>>,
{
    found.map(|found| text(field, found)).transpose()
}

/// The same for a field of many texts.
pub(crate) fn texts<T, C>(
    field: &'static str,
    found: impl IntoIterator<Item = String>,
) -> Result<C, FieldError>
where
    T: TryFrom<String, Error: Into<InvalidText>>,
    C: FromIterator<T>,
{
    found.into_iter().map(|found| text(field, found)).collect()
}

/// A set of named things as the texts it is written as.
pub(crate) fn written<C, T>(things: impl IntoIterator<Item = T>) -> C
where
    T: ToString,
    C: FromIterator<String>,
{
    things.into_iter().map(|thing| thing.to_string()).collect()
}

/// Says what was being read when a field turned out invalid.
pub(crate) fn field_of(what: &'static str) -> impl Fn(FieldError) -> WireError {
    move |error| WireError::Field { what, error }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    enum Form {
        V1(u16),
        V2(std::collections::BTreeSet<u8>),
    }

    impl Versions for Form {
        const WHAT: &'static str = "form";
        const KNOWN: u32 = 2;
    }

    fn malformed() -> WireError {
        WireError::Malformed {
            what: "form",
            why: "it is not written in the one way it can be".to_owned(),
        }
    }

    #[test]
    fn what_is_not_the_form_is_refused_saying_what_it_is_instead() {
        let what = "form";
        for (bytes, expected) in [
            (&[][..], Err(WireError::Empty { what })),
            (&[0, 7], Ok(Form::V1(7))),
            (&[1, 2, 3, 4], Ok(Form::V2([3, 4].into()))),
            (&[0], Err(WireError::CutShort { what, length: 1 })),
            (
                &[2, 0],
                Err(WireError::Newer {
                    what,
                    found: 3,
                    known: 2,
                }),
            ),
            (&[0, 7, 0, 0], Err(WireError::Trailing { what, extra: 2 })),
            // Seven, in two bytes where one does; then a set out of order, and one with an entry twice.
            (&[0, 0x87, 0], Err(malformed())),
            (&[1, 2, 4, 3], Err(malformed())),
            (&[1, 2, 3, 3], Err(malformed())),
        ] {
            assert_eq!(read::<Form>(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_not_looked_at() {
        let large = vec![0; MAX_BYTES + 1];
        assert_eq!(
            read::<Form>(&large),
            Err(WireError::TooLarge {
                what: "form",
                length: MAX_BYTES + 1,
                limit: MAX_BYTES
            })
        );
    }
}
