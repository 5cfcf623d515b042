//! Names: what may be called what, decided once, where a name enters.
//!
//! A name becomes a subject token, a stream name, a durable name, a queue name and a container name, so the rule is the
//! strictest of those: an RFC 1123 label. A bad name is refused naming the character and the rule; it is never escaped
//! and never altered, because two spellings of one name are two consumers on one inbox.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::texts;

/// What a name was meant to name; used in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// The mesh itself.
    Mesh,
    /// A node.
    Node,
    /// A module.
    Module,
    /// A seat.
    Seat,
    /// An event of a module.
    Event,
    /// A token's public id.
    Token,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mesh => "mesh",
            Self::Node => "node",
            Self::Module => "module",
            Self::Seat => "seat",
            Self::Event => "event",
            Self::Token => "token id",
        })
    }
}

/// The rule a refused name broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameRule {
    /// There is nothing in it.
    #[error("a name has at least one character")]
    Empty,
    /// Too long, in bytes.
    #[error("a name has at most {limit} bytes, this one has {length}")]
    TooLong {
        /// Bytes allowed.
        limit: usize,
        /// Bytes found.
        length: usize,
    },
    /// A character that no label has.
    #[error(
        "{character:?} at byte {at} is not one of a-z, 0-9 and '-' (names are RFC 1123 labels: no dots, no upper case)"
    )]
    Character {
        /// The character.
        character: char,
        /// Its byte offset.
        at: usize,
    },
    /// A hyphen where a letter or digit must stand.
    #[error("a name begins and ends with a letter or a digit, not with '-'")]
    Edge,
    /// A word the mesh keeps for itself.
    #[error("the name is reserved")]
    Reserved,
    /// The name of a device, which no file or folder may have on some file systems.
    #[error(
        "some file systems keep the name for a device (con, nul, prn, aux, com1 to com9, lpt1 to lpt9), so that no file can \
         have it; choose another"
    )]
    Device,
}

/// A name that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} name {name:?}: {rule}")]
pub struct InvalidName {
    /// What was to be named.
    pub kind: NameKind,
    /// The text as it came.
    pub name: String,
    /// The rule it broke.
    pub rule: NameRule,
}

/// Bytes a label may have (RFC 1123 through RFC 1035).
const LABEL_LIMIT: usize = 63;
/// Bytes a dotted event name may have, so that subjects stay far below a broker's limits.
const EVENT_LIMIT: usize = 127;
/// The one name no node, module or seat may take: a consumer of the controller's has it.
const RESERVED: &str = "controller";
/// Names of devices on Windows file systems; a broker keeps a folder of a stream's or a consumer's name.
const DEVICES: [&str; 4] = ["con", "nul", "prn", "aux"];
/// The same, before one digit that is not 0.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

fn label(text: &str) -> Result<(), NameRule> {
    if text.is_empty() {
        return Err(NameRule::Empty);
    }
    if let Some((at, character)) = text
        .char_indices()
        .find(|(_, c)| !matches!(c, 'a'..='z' | '0'..='9' | '-'))
    {
        return Err(NameRule::Character { character, at });
    }
    if text.len() > LABEL_LIMIT {
        return Err(NameRule::TooLong {
            limit: LABEL_LIMIT,
            length: text.len(),
        });
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(NameRule::Edge);
    }
    Ok(())
}

fn name(text: &str) -> Result<(), NameRule> {
    label(text)?;
    if text == RESERVED {
        return Err(NameRule::Reserved);
    }
    if is_device(text) {
        return Err(NameRule::Device);
    }
    Ok(())
}

/// Letters are lower case here already.
fn is_device(text: &str) -> bool {
    let numbered = |device: &&str| {
        matches!(
            text.strip_prefix(*device).map(str::as_bytes),
            Some([b'1'..=b'9'])
        )
    };
    DEVICES.contains(&text) || NUMBERED_DEVICES.iter().any(numbered)
}

fn dotted(text: &str) -> Result<(), NameRule> {
    if text.len() > EVENT_LIMIT {
        return Err(NameRule::TooLong {
            limit: EVENT_LIMIT,
            length: text.len(),
        });
    }
    let mut offset = 0;
    for part in text.split('.') {
        label(part).map_err(|rule| match rule {
            NameRule::Character { character, at } => NameRule::Character {
                character,
                at: at + offset,
            },
            other => other,
        })?;
        offset += part.len() + 1;
    }
    Ok(())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $kind:ident by $rule:path;)*) => {$(
        texts! {
            $(#[$doc])*
            $name or InvalidName;
        }

        impl $name {
            /// Takes a text as a name.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let name = text.into();
                match $rule(&name) {
                    Ok(()) => Ok(Self(name.into())),
                    Err(rule) => Err(InvalidName { kind: NameKind::$kind, name, rule }),
                }
            }
        }
    )*};
}

names! {
    /// The mesh's own name, for people.
    MeshName: Mesh by label;
    /// An enrolled host.
    NodeName: Node by name;
    /// A unit of software with a manifest.
    ModuleName: Module by name;
    /// A role with a work queue.
    SeatName: Seat by name;
    /// An event of a module: one or more labels joined by dots.
    EventName: Event by dotted;
    /// The public part of a token: names the joiner that holds it.
    TokenId: Token by label;
}

impl EventName {
    /// The event every module may emit without listing it.
    pub fn announced() -> Self {
        Self("announced".into())
    }
}

/// One event of one module, written `<module>.<event>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventRef {
    /// Who emits it.
    pub module: ModuleName,
    /// Which event.
    pub event: EventName,
}

impl fmt::Display for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.module, self.event)
    }
}

impl FromStr for EventRef {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let Some((module, event)) = text.split_once('.') else {
            return Err(InvalidName {
                kind: NameKind::Event,
                name: text.to_owned(),
                rule: NameRule::Empty,
            });
        };
        Ok(Self {
            module: module.parse()?,
            event: event.parse()?,
        })
    }
}

impl TryFrom<String> for EventRef {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<EventRef> for String {
    fn from(event: EventRef) -> Self {
        event.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bad_name_is_refused_naming_the_character_and_the_rule() {
        for (text, rule) in [
            ("", NameRule::Empty),
            (
                "web.01",
                NameRule::Character {
                    character: '.',
                    at: 3,
                },
            ),
            (
                "Web",
                NameRule::Character {
                    character: 'W',
                    at: 0,
                },
            ),
            (
                "a b",
                NameRule::Character {
                    character: ' ',
                    at: 1,
                },
            ),
            (
                "*",
                NameRule::Character {
                    character: '*',
                    at: 0,
                },
            ),
            (
                ">",
                NameRule::Character {
                    character: '>',
                    at: 0,
                },
            ),
            (
                "naïve",
                NameRule::Character {
                    character: 'ï',
                    at: 2,
                },
            ),
            ("-a", NameRule::Edge),
            ("a-", NameRule::Edge),
            ("controller", NameRule::Reserved),
            ("con", NameRule::Device),
            ("nul", NameRule::Device),
            ("prn", NameRule::Device),
            ("aux", NameRule::Device),
            ("com1", NameRule::Device),
            ("lpt9", NameRule::Device),
        ] {
            assert_eq!(
                NodeName::new(text).map_err(|e| e.rule),
                Err(rule),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_only_looks_like_a_device_is_a_name() {
        for text in [
            "com0", "com", "lpt10", "com1-a", "cons", "nul-1", "lpta", "aux2",
        ] {
            assert!(NodeName::new(text).is_ok(), "{text}");
        }
        // No folder is called after these.
        assert!(TokenId::new("con").is_ok() && EventName::new("con").is_ok());
    }

    #[test]
    fn a_name_too_long_is_refused_with_its_length() {
        let long = "a".repeat(64);
        assert_eq!(
            SeatName::new(long).map_err(|e| e.rule),
            Err(NameRule::TooLong {
                limit: 63,
                length: 64
            })
        );
    }

    #[test]
    fn the_message_says_what_was_named_and_why_not() {
        let error = NodeName::new("web.01").map_err(|e| e.to_string());
        assert_eq!(
            error,
            Err(
                "node name \"web.01\": '.' at byte 3 is not one of a-z, 0-9 and '-' \
                 (names are RFC 1123 labels: no dots, no upper case)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn an_event_may_have_dots_and_its_parts_may_not_be_empty() {
        assert!(EventName::new("order.placed").is_ok());
        assert!(EventName::new("order..placed").is_err());
        assert!(
            "shop.order.placed"
                .parse::<EventRef>()
                .is_ok_and(|e| e.event.as_str() == "order.placed")
        );
        assert!("shop".parse::<EventRef>().is_err());
    }

    #[test]
    fn json_does_not_smuggle_a_bad_name_in() {
        assert!(serde_json::from_str::<NodeName>("\"web.01\"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_reads_back_as_itself(text in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?") {
            prop_assume!(text != RESERVED && !is_device(&text));
            let name = NodeName::new(text.clone());
            prop_assert_eq!(name.map(String::from), Ok(text));
        }

        #[test]
        fn a_name_is_always_one_subject_token(text in any::<String>()) {
            if let Ok(name) = NodeName::new(text) {
                prop_assert!(!name.as_str().contains(['.', '*', '>', ' ', '/', '\\']));
                prop_assert!((1..=63).contains(&name.as_str().len()));
            }
        }
    }
}
