//! What can go wrong for a module, and what to do about it.

use mesh_bus::BusError;
use mesh_model::{InvalidName, ModuleName};

use crate::config::ConfigError;

/// Why a module is not connected. A bus that is away is no reason: it is waited for.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// What the module was handed.
    #[error("the module was not handed what it needs")]
    Config(#[from] ConfigError),
    /// A bus that this SDK cannot use.
    #[error("the bus cannot be used")]
    Bus(#[source] BusError),
}

/// Why an event was not emitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The name is none.
    #[error("no event can be called so")]
    Name(#[from] InvalidName),
    /// The manifest does not list it.
    #[error(
        "event {event:?} is not in the grant of module {module}: list {event:?} under events.emits of its manifest and \
         apply that; where it is listed, the module is being moved or stopped just now"
    )]
    NotGranted {
        /// Who may not.
        module: ModuleName,
        /// What.
        event: String,
    },
    /// The bus does not have it, or was lost before it said so.
    #[error("event {event:?} with the id {id} was not confirmed")]
    Unconfirmed {
        /// What was emitted.
        event: String,
        /// Under which id.
        id: String,
        /// Why.
        source: BusError,
    },
}

/// Why work was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The name is none.
    #[error("no seat can be called so")]
    Name(#[from] InvalidName),
    /// The manifest does not list it.
    #[error(
        "seat {seat:?} is not in the grant of module {module}: list {seat:?} under seats.sends_to of its manifest and \
         apply that; where it is listed, the module is being moved or stopped just now"
    )]
    NotGranted {
        /// Who may not.
        module: ModuleName,
        /// To which seat.
        seat: String,
    },
    /// The bus does not have it, or was lost before it said so. A full queue is [`BusError::Full`].
    #[error("work for seat {seat:?} with the id {id} was not confirmed")]
    Unconfirmed {
        /// To which seat.
        seat: String,
        /// Under which id.
        id: String,
        /// Why.
        source: BusError,
    },
}

/// Why a module does not listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The name is none.
    #[error("no seat can be called so")]
    Name(#[from] InvalidName),
    /// The bus cannot be listened to.
    #[error("the module cannot listen")]
    Bus(#[from] BusError),
}

/// Why a message was not settled. It comes again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id} was not settled and comes again")]
pub struct SettleError {
    /// Which message.
    pub id: String,
    /// Why.
    pub source: BusError,
}

/// Whether the bus refuses because no grant allows it, and not because of what the message is.
pub(crate) fn is_denial(error: &BusError) -> bool {
    // A NATS server's words, a broker's, and those of the loopback.
    const WORDS: [&str; 3] = [
        "permissions violation",
        "access_refused",
        "no grant allows it",
    ];
    let BusError::Refused { why, .. } = error else {
        return false;
    };
    let why = why.to_lowercase();
    WORDS.iter().any(|words| why.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_grant_is_told_from_other_refusals() {
        let refused = |why: &str| BusError::Refused {
            what: "mesh.mod.shop.sold".to_owned(),
            why: why.to_owned(),
        };
        for (error, denial) in [
            (
                refused(r#"Permissions Violation for Publish to "mesh.mod.shop.sold""#),
                true,
            ),
            (
                refused(r#"permissions violation for publish to "mesh.mod.shop.sold""#),
                true,
            ),
            (refused("no grant allows it"), true),
            (
                refused(
                    "ACCESS_REFUSED - write access to topic 'shop.sold' in exchange 'mesh.ev' refused",
                ),
                true,
            ),
            (refused("max payload exceeded"), false),
            (BusError::Away("permissions violation".to_owned()), false),
        ] {
            assert_eq!(is_denial(&error), denial, "{error}");
        }
    }
}
