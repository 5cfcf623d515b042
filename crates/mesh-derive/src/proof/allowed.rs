//! Everything a grant allows, each entry as one act.

use mesh_model::{Filter, Grant, Principal, Subject};

use crate::proof::Act;
use crate::proof::manner::NEVER_DELIVERED;
use crate::subject::{inbox, inboxes, subject};

/// An act for every entry, in the order of the grant.
pub(super) fn acts(grant: &Grant) -> Vec<Act> {
    let publish = published(grant).map(Act::Publish);
    let subscribe = grant.subscribe.iter().map(|filter| Act::Subscribe {
        filter: filter.clone(),
        queue: None,
    });
    let queues = grant.queues.iter().map(|entry| Act::Subscribe {
        filter: entry.filter.clone(),
        queue: Some(entry.queue.clone()),
    });
    // Subscriptions first: what is published may be answered there.
    subscribe.chain(queues).chain(publish).collect()
}

/// A concrete subject of every entry to publish on.
pub(super) fn published(grant: &Grant) -> impl Iterator<Item = Subject> {
    grant.publish.iter().map(concrete)
}

/// One subject a filter stands for: for acks that of a message never delivered, for the API a question.
pub(super) fn concrete(filter: &Filter) -> Subject {
    let text = filter.as_str();
    match text {
        "$JS.API.>" => return subject("$JS.API.INFO".to_owned()),
        // Where whoever may answer everybody hears it itself.
        _ if *filter == inboxes() => return concrete(&inbox(&Principal::Controller)),
        _ => {}
    }
    let tail = if text.starts_with("$JS.ACK.") {
        NEVER_DELIVERED
    } else {
        WORD
    };
    let tokens: Vec<&str> = filter
        .tokens()
        .map(|token| match token {
            ">" => tail,
            "*" => WORD,
            token => token,
        })
        .collect();
    subject(tokens.join("."))
}

/// What stands for a wildcard: a name anybody could have.
pub(crate) const WORD: &str = "mesh-probe";
