//! How a host asks to become a node, and what it is told.

use serde::{Deserialize, Serialize};

use crate::{BoxPublicKey, BusFacts, MeshName, NodeName, PublicKey, Subject, Timestamp, TokenId};

/// What a host with a token asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolment {
    /// The name it wants; the token may fix one instead.
    pub node: Option<NodeName>,
    /// The public half of the user key it made.
    pub key: PublicKey,
    /// The public half of the key secrets are sealed to.
    pub box_key: BoxPublicKey,
    /// Where the answer goes. In the payload, because the reply header of a message that went through a stream is no
    /// longer the sender's.
    pub reply: Subject,
    /// The host's clock.
    pub clock: Timestamp,
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnrolmentAnswer {
    /// It is a node now: its consumer waits and its key is known to the bus.
    Accepted {
        /// The mesh it joined.
        mesh: MeshName,
        /// Its name.
        node: NodeName,
        /// What of the bus stands in the subjects it checks.
        bus: BusFacts,
        /// Its signed credential, on a bus that wants one beside the key.
        jwt: Option<String>,
    },
    /// It is not, and why.
    Refused(EnrolmentRefusal),
}

/// Why a host did not become a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum EnrolmentRefusal {
    /// Nobody issued it, or it was revoked.
    #[error("token {token} is not known here; create one with `meshctl token create`")]
    Unknown {
        /// The token.
        token: TokenId,
    },
    /// Too late.
    #[error(
        "token {token} expired {seconds_ago} s ago; create a new one with `meshctl token create`"
    )]
    Expired {
        /// The token.
        token: TokenId,
        /// By how much.
        seconds_ago: u64,
    },
    /// Used by a host with another key.
    #[error("token {token} was spent by node {node}; create a new one with `meshctl token create`")]
    Spent {
        /// The token.
        token: TokenId,
        /// Who has it.
        node: NodeName,
    },
    /// A node of that name has another key.
    #[error(
        "the name {node} is taken by another host; choose another with `--name`, or replace that host with `meshctl node rejoin {node}`"
    )]
    NameTaken {
        /// The name.
        node: NodeName,
    },
    /// The token is for another name.
    #[error("the token is for node {allowed}, not for {asked}; leave `--name` out")]
    NameMismatch {
        /// What the token says.
        allowed: NodeName,
        /// What the host says.
        asked: NodeName,
    },
    /// Neither host nor token names the node.
    #[error("neither the token nor the host names the node; add `--name`")]
    NoName,
    /// The clocks are too far apart for tokens and certificates to mean the same at both ends.
    #[error("this host's clock is {seconds} s away from the controller's; set it and try again")]
    ClockSkew {
        /// How far.
        seconds: u64,
    },
    /// An answer address that is not the joiner's own.
    #[error("the answer address {address} is not inside this token's own inbox")]
    ForeignAddress {
        /// The address.
        address: Subject,
    },
    /// A key that cannot be this host's, or to which nothing can be sealed.
    #[error("the host's keys cannot be used: {what}; remove them and enrol again with new ones")]
    InvalidKey {
        /// Which, and why not.
        what: String,
    },
}
