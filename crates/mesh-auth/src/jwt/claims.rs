//! What is vouched for: the claims of users, accounts and operators, as the mesh uses them.

use std::collections::BTreeMap;

use crate::keys::{AccountPublic, UserPublic};

/// A user's rights: what it may publish and subscribe, and nothing else.
///
/// There are no denials, which a wildcard subscription passes by. An empty side allows nothing, although NATS
/// reads an empty list as everything: it is issued as a denial of `>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserClaims {
    /// The principal, as operators write it.
    pub name: String,
    /// Its key.
    pub subject: UserPublic,
    /// The account it is admitted to.
    pub account: AccountPublic,
    /// Subjects it may publish on.
    pub publish: Vec<String>,
    /// Subjects it may subscribe; `subject queue` for a queue group.
    pub subscribe: Vec<String>,
    /// When it is issued, in unix seconds: later than a revocation it is to replace.
    pub issued_at: u64,
    /// When its connections are closed, in unix seconds.
    pub expires: Option<u64>,
}

/// An account: what it shares with others, and whose credentials in it hold no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountClaims {
    /// Its name, such as `MESH`.
    pub name: String,
    /// Its key.
    pub subject: AccountPublic,
    /// Whether it has streams.
    pub jetstream: JetStream,
    /// What it offers.
    pub exports: Vec<Export>,
    /// What it takes from others.
    pub imports: Vec<Import>,
    /// Keys that issue its users, beside its own.
    pub signing_keys: Vec<AccountPublic>,
    /// Users whose JWTs issued until this time (unix seconds) are refused, and their connections closed.
    pub revoked: BTreeMap<UserPublic, u64>,
    /// When it is issued, in unix seconds.
    pub issued_at: u64,
}

/// Whether an account has streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JetStream {
    /// No, nor any part of the API.
    Off,
    /// Yes; what they may take, the streams' own limits say.
    On,
}

/// Which way an export's messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// From the exporter to the importer.
    Stream,
    /// From the importer to the exporter.
    Service,
}

/// Subjects an account offers to others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Export {
    /// Which way.
    pub traffic: Traffic,
    /// The subjects.
    pub subject: String,
}

/// Subjects an account takes from another, under the same names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// Which way.
    pub traffic: Traffic,
    /// The account that exports them.
    pub from: AccountPublic,
    /// The subjects.
    pub subject: String,
}

/// The operator of a bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorClaims {
    /// Its name.
    pub name: String,
    /// The account of the server's own events, pushes and reloads.
    pub system_account: Option<AccountPublic>,
    /// When it is issued, in unix seconds.
    pub issued_at: u64,
}
