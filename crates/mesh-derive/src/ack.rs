//! Ack subjects: what a consumer's owner must be able to publish on, in both forms a server may write.
//!
//! A 2.10–2.15 server writes `$JS.ACK.<stream>.<consumer>.<delivered>.…`; with the feature flag `js_ack_fc_v2` it writes
//! `$JS.ACK.<domain|_>.<account hash>.<stream>.<consumer>.…`. A grant covers both, the second with its exact hash: a
//! wildcard in its place would let a node named `5` acknowledge messages of another stream.

use mesh_model::{BusFacts, ConsumerRef, Filter, StreamName};
use sha2::{Digest, Sha256};

use crate::subject::filter;

/// What the owner of a consumer publishes on to settle its messages, whichever form the server writes.
pub fn ack_filters(consumer: &ConsumerRef, bus: &BusFacts) -> [Filter; 2] {
    Acks::of(bus).filters(consumer)
}

/// Whether a reply subject acknowledges a message of this consumer and of no other.
pub fn is_ack_of(reply: &str, consumer: &ConsumerRef, bus: &BusFacts) -> bool {
    let begins = |ack: &Filter| {
        let begins = ack.as_str().strip_suffix('>').unwrap_or(ack.as_str());
        reply.starts_with(begins) && reply.len() > begins.len()
    };
    ack_filters(consumer, bus).iter().any(begins)
}

/// Every ack, which crosses between the accounts as one service: a server writes two forms of it.
pub(crate) fn acks() -> Filter {
    filter(format!("{ROOT}>"))
}

/// Whether publishing there is to settle something.
pub(crate) fn is_ack(text: &str) -> bool {
    text.starts_with(ROOT)
}

/// How either form begins.
const ROOT: &str = "$JS.ACK.";

/// What of a bus stands in its ack subjects, worked out once for all its consumers.
#[derive(Debug, Clone)]
pub(crate) struct Acks {
    domain: String,
    hash: String,
}

impl Acks {
    pub(crate) fn of(bus: &BusFacts) -> Self {
        Self {
            domain: domain_token(bus).unwrap_or(NO_DOMAIN).to_owned(),
            hash: account_hash(&bus.account),
        }
    }

    /// The same as [`ack_filters`].
    pub(crate) fn filters(&self, consumer: &ConsumerRef) -> [Filter; 2] {
        let (older, newer) = self.tokens(consumer);
        [filter(older.join(".")), filter(newer.join("."))]
    }

    /// Whether a consumer's older form of ack is how everybody's newer one begins.
    pub(crate) fn may_read_as_newer(&self, consumer: &ConsumerRef) -> bool {
        consumer.stream().as_str() == self.domain && consumer.name() == self.hash
    }

    /// The tokens of the two.
    pub(crate) fn tokens<'a>(&'a self, consumer: &'a ConsumerRef) -> (Older<'a>, Newer<'a>) {
        self.of_named(consumer.stream(), consumer.name())
    }

    /// The same, of a consumer by its name.
    pub(crate) fn of_named<'a>(
        &'a self,
        stream: &'a StreamName,
        name: &'a str,
    ) -> (Older<'a>, Newer<'a>) {
        let stream = stream.as_str();
        (
            ["$JS", "ACK", stream, name, ">"],
            ["$JS", "ACK", &self.domain, &self.hash, stream, name, ">"],
        )
    }
}

/// The tokens of the older form.
type Older<'a> = [&'a str; 5];
/// The tokens of the newer form.
type Newer<'a> = [&'a str; 7];

/// The domain as it stands in a subject: one token, or no domain a server would have (`isValidName` in nats-server).
pub(crate) fn domain_token(bus: &BusFacts) -> Option<&str> {
    bus.domain.as_deref().filter(|domain| {
        let ends_token = |c: char| c.is_whitespace() || c.is_control() || ".*>".contains(c);
        !domain.is_empty() && !domain.contains(ends_token)
    })
}

/// What a server writes where it has no domain.
const NO_DOMAIN: &str = "_";

/// The first eight bytes of SHA-256, each as one base-62 digit (nats-server `getHashSize`).
fn account_hash(account: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    Sha256::digest(account.as_bytes())
        .iter()
        .take(8)
        .filter_map(|byte| DIGITS.get(usize::from(byte % 62)))
        .map(|digit| char::from(*digit))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::nodes_stream;

    #[test]
    fn the_hash_is_the_one_a_server_writes() {
        // Observed on nats-server 2.15.1 for an account named MESH.
        assert_eq!(account_hash("MESH"), "znJdjy7f");
    }

    #[test]
    fn a_reply_of_another_consumer_is_no_ack_of_mine() {
        let bus = BusFacts {
            domain: None,
            account: "MESH".into(),
        };
        let mine = ConsumerRef::new(nodes_stream(), "5").unwrap();
        for (reply, expected) in [
            ("$JS.ACK.NODES.5.1.4.3.0.0", true),
            ("$JS.ACK._.znJdjy7f.NODES.5.1.4.3.0.0", true),
            ("$JS.ACK.NODES.55.1.4.3.0.0", false),
            ("$JS.ACK.SEAT.w.NODES.5.5.0.0", false),
            ("$JS.ACK.NODES.5.", false),
            ("$JS.API.STREAM.DELETE.NODES", false),
        ] {
            assert_eq!(is_ack_of(reply, &mine, &bus), expected, "{reply}");
        }
    }
}
