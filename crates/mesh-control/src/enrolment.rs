//! Whether a host becomes a node.

use std::collections::BTreeSet;

use mesh_derive::subject;
use mesh_model::{
    Enrolment, EnrolmentRefusal, Filter, Moving, NodeName, NodeRecord, Principal, PublicKey,
    Records, Spent, Timestamp, TokenId,
};

use crate::placement::{Mint, settle_instances};
use crate::spread::standing;

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It makes a node, in these records.
    New {
        /// The records with the node, its token spent.
        records: Box<Records>,
        /// The node.
        node: NodeName,
    },
    /// It made this node before, with the same key: the same answer again.
    Again {
        /// The node.
        node: NodeName,
    },
    /// It does not.
    Refused(EnrolmentRefusal),
}

/// How far a host's clock may be from ours. Wider than the store window's default bound: a request may have been held
/// for as long as that.
const CLOCK_SKEW_SECS: u64 = 15 * 60;

/// Decides about a request that came with a token. `own_keys` are the controller's.
pub(crate) fn admit(
    records: &Records,
    token: &TokenId,
    request: &Enrolment,
    now: Timestamp,
    own_keys: &BTreeSet<PublicKey>,
    mint: &mut impl Mint,
) -> Admission {
    let node = match admissible(records, token, request, now, own_keys) {
        Ok(Admissible::New(node)) => node,
        Ok(Admissible::Again(node)) => return Admission::Again { node },
        Err(refusal) => return Admission::Refused(refusal),
    };
    let mut next = records.clone();
    let Some(record) = next.tokens.get_mut(token) else {
        return Admission::Refused(EnrolmentRefusal::Unknown {
            token: token.clone(),
        });
    };
    record.spent = Some(Spent {
        node: node.clone(),
        key: request.key.clone(),
        arrived: false,
    });
    let (named, bus) = (record.labels.clone(), record.bus);
    // A host that replaces another is placed as that one was: what the token says of it comes on top.
    let before = next.nodes.remove(&node);
    let (mut labels, scheduling) = before
        .map(|before| (before.labels, before.scheduling))
        .unwrap_or_default();
    labels.extend(named);
    // Who had the machine before may have had the secrets of its modules: none of them is good any longer.
    next.instances.retain(|instance, _| instance.node != node);
    next.nodes.insert(
        node.clone(),
        NodeRecord {
            bus,
            moving: None,
            key: request.key.clone(),
            box_key: request.box_key.clone(),
            labels,
            token: token.clone(),
            enrolled: now,
            scheduling,
        },
    );
    if let Err(error) = settle_instances(&mut next, &standing(records), now, mint) {
        return Admission::Refused(EnrolmentRefusal::InvalidKey { what: error.why });
    }
    next.revision = next.revision.next();
    Admission::New {
        records: Box::new(next),
        node,
    }
}

enum Admissible {
    New(NodeName),
    Again(NodeName),
}

fn admissible(
    records: &Records,
    token: &TokenId,
    request: &Enrolment,
    now: Timestamp,
    own_keys: &BTreeSet<PublicKey>,
) -> Result<Admissible, EnrolmentRefusal> {
    // The reply address is the sender's text, and the controller may publish where the sender may not.
    let own = subject::inbox(&Principal::Joiner(token.clone()));
    if !Filter::from(&request.reply).is_subset_of(&own) {
        return Err(EnrolmentRefusal::ForeignAddress {
            address: request.reply.clone(),
        });
    }
    let Some(record) = records.tokens.get(token) else {
        return Err(EnrolmentRefusal::Unknown {
            token: token.clone(),
        });
    };
    if now >= record.expires {
        return Err(EnrolmentRefusal::Expired {
            token: token.clone(),
            seconds_ago: now.since(record.expires) / 1000,
        });
    }
    if let Some(spent) = &record.spent {
        let node = records.nodes.get(&spent.node);
        if spent.key == request.key && node.is_some_and(|node| node.key == spent.key) {
            return Ok(Admissible::Again(spent.node.clone()));
        }
        return Err(EnrolmentRefusal::Spent {
            token: token.clone(),
            node: spent.node.clone(),
        });
    }
    let skew = now.since(request.clock).max(request.clock.since(now)) / 1000;
    if skew > CLOCK_SKEW_SECS {
        return Err(EnrolmentRefusal::ClockSkew { seconds: skew });
    }
    if own_keys.contains(&request.key) {
        return Err(EnrolmentRefusal::InvalidKey {
            what: format!("user key {} is the controller's own", request.key),
        });
    }
    let node = match (&record.node, &request.node) {
        (Some(allowed), Some(asked)) if allowed != asked => {
            return Err(EnrolmentRefusal::NameMismatch {
                allowed: allowed.clone(),
                asked: asked.clone(),
            });
        }
        (Some(node), _) | (None, Some(node)) => node.clone(),
        (None, None) => return Err(EnrolmentRefusal::NoName),
    };
    let replaces = record.rejoin && record.node.as_ref() == Some(&node);
    let taken = records.nodes.contains_key(&node) && !replaces;
    if taken || is_anothers(records, &request.key, &node) {
        return Err(EnrolmentRefusal::NameTaken { node });
    }
    Ok(Admissible::New(node))
}

/// Whether a key is somebody's already: on the bus a key is who it is, so two principals with one are one.
fn is_anothers(records: &Records, key: &PublicKey, node: &NodeName) -> bool {
    let mut nodes = records.nodes.iter();
    nodes.any(|(other, record)| other != node && has(record, key))
        || records.tokens.values().any(|token| token.key == *key)
        || records.instances.values().any(|of| of.key == *key)
}

/// Whether it is the key of a node, here or on the bus it may go to.
fn has(record: &NodeRecord, key: &PublicKey) -> bool {
    let offered = match &record.moving {
        Some(Moving::Proving { key, .. }) => Some(key),
        _ => None,
    };
    record.key == *key || offered == Some(key)
}
