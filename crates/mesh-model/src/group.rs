//! The name of a group of readers, each message for one of them.

use std::ops::Deref;

use crate::text::texts;
use crate::{ConsumerRef, SeatName};

texts! {
    /// The group that subscribers of one subject form: a word, which on the wire stands between others. No white space, no
    /// control character, not nothing.
    QueueGroup or InvalidQueueGroup;
}

/// A text that names no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQueueGroup {
    /// Nothing at all.
    #[error("a group has a name; leave it out to subscribe alone")]
    Empty,
    /// White space or a control character, which would end the name on the wire.
    #[error("group {group:?} holds {character:?}, which the protocol cannot carry")]
    Character {
        /// The text.
        group: String,
        /// The first such character.
        character: char,
    },
    /// More than a server reads.
    #[error("the name of a group has at most {MAX} bytes, and this one {0}")]
    Long(usize),
}

/// Bytes of a name: a server reads lines of 4096, and a subject stands beside it.
const MAX: usize = 256;

impl QueueGroup {
    /// Takes a text as the name of a group.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidQueueGroup> {
        let text = text.into();
        if text.is_empty() {
            return Err(InvalidQueueGroup::Empty);
        }
        if text.len() > MAX {
            return Err(InvalidQueueGroup::Long(text.len()));
        }
        match text.chars().find(|c| c.is_whitespace() || c.is_control()) {
            Some(character) => Err(InvalidQueueGroup::Character {
                group: text,
                character,
            }),
            None => Ok(Self(text.into())),
        }
    }
}

impl Deref for QueueGroup {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// The readers of a consumer.
impl From<&ConsumerRef> for QueueGroup {
    fn from(consumer: &ConsumerRef) -> Self {
        Self(consumer.name().into())
    }
}

/// Whoever could hold a seat.
impl From<&SeatName> for QueueGroup {
    fn from(seat: &SeatName) -> Self {
        Self(seat.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_more_than_one_word_on_the_wire_is_no_group() {
        for text in [
            "",
            " ",
            "g 1",
            "g\r\nPUB $JS.API.STREAM.DELETE.NODES 0\r\n",
            "g\n",
            "g\t",
            "g\0",
            "g\u{a0}",
            "g\u{2028}",
            &"g".repeat(MAX + 1),
        ] {
            assert!(text.parse::<QueueGroup>().is_err(), "{text:?}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<QueueGroup>(&json).is_err(), "{json}");
        }
        for text in ["g", "web-1", "a.b", "*", "\u{e9}"] {
            let group: QueueGroup = text.parse().unwrap();
            let json = serde_json::to_string(&group).unwrap();
            assert_eq!(serde_json::from_str::<QueueGroup>(&json).unwrap(), group);
            assert_eq!((group.as_str(), group.to_string().as_str()), (text, text));
        }
    }
}
