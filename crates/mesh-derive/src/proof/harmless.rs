//! What a message could do to the server itself, told by its subject: only what is known to do nothing is tried.

use mesh_model::Subject;

use crate::proof::allowed::WORD;

/// Whether it is known that nothing comes of a message there, published as a proof does: of the server's own subjects
/// those that are asked about, and no others. A release may have verbs of which this one knows nothing.
pub(super) fn is_harmless(subject: &Subject) -> bool {
    let tokens: Vec<&str> = subject.tokens().collect();
    match tokens.as_slice() {
        ["$JS", "ACK", ..] => settles_nothing(&tokens),
        // With a domain, the API has it in its name.
        ["$JS", "API", call @ ..] | ["$JS", _, "API", call @ ..] => does_nothing(call),
        // Of what a consumer awaits, not this: it numbers what it awaits.
        ["$JS", "FC", .., last] => *last == WORD,
        [] | ["$JS"] | ["$JS", "EVENT" | WORD, ..] => true,
        ["$SYS", "REQ", asked @ ..] => matches!(
            asked,
            ["SERVER", "PING"]
                | ["SERVER", "PING", "CONNZ"]
                | ["USER", "INFO"]
                | ["ACCOUNT", _, "CONNZ"]
        ),
        [first, ..] => !first.starts_with('$'),
    }
}

/// Whether a call of the API is one of those that read, or that refuse a body that begins like JSON and is none.
fn does_nothing(call: &[&str]) -> bool {
    let is = |verb: &str, names: usize, more: bool| {
        let verb: Vec<&str> = verb.split('.').collect();
        let named = call.strip_prefix(verb.as_slice());
        named.is_some_and(|it| it.len() == names || (more && it.len() > names))
    };
    // No server has a verb of this name.
    let is_none = call.iter().take(2).any(|token| *token == WORD);
    is_none
        || matches!(call, [] | ["INFO"] | ["STREAM", "LIST" | "NAMES"])
        || STREAM_VERBS.iter().any(|verb| is(verb, 1, *verb == DIRECT))
        || CONSUMER_VERBS
            .iter()
            .any(|verb| is(verb, 2, *verb == CREATE))
}

/// Whether an ack is of a message that no consumer was ever delivered, or of none at all: of another it would put off
/// that the message is delivered again.
fn settles_nothing(tokens: &[&str]) -> bool {
    let at = match tokens.len() {
        9 => 2,
        11.. => 4,
        _ => return true,
    };
    let is_made_up = tokens.iter().skip(at).take(2).any(|token| *token == WORD);
    let sequence = tokens.get(at + 3).map(|it| it.parse::<u64>());
    is_made_up || !matches!(sequence, Some(Ok(sequence)) if sequence < NEVER)
}

/// Further on than any stream gets.
const NEVER: u64 = 4_611_686_018_427_387_903;
const DIRECT: &str = "DIRECT.GET";
const CREATE: &str = "CONSUMER.CREATE";

/// Each with the name of a stream.
pub(super) const STREAM_VERBS: [&str; 14] = [
    "STREAM.CREATE",
    "STREAM.UPDATE",
    "STREAM.DELETE",
    "STREAM.PURGE",
    "STREAM.INFO",
    "STREAM.MSG.GET",
    "STREAM.MSG.DELETE",
    "STREAM.SNAPSHOT",
    "STREAM.RESTORE",
    "STREAM.LEADER.STEPDOWN",
    CREATE,
    "CONSUMER.LIST",
    "CONSUMER.NAMES",
    DIRECT,
];

/// Each with the names of a stream and of a consumer.
pub(super) const CONSUMER_VERBS: [&str; 9] = [
    CREATE,
    "CONSUMER.DURABLE.CREATE",
    "CONSUMER.DELETE",
    "CONSUMER.INFO",
    "CONSUMER.MSG.NEXT",
    "CONSUMER.PAUSE",
    "CONSUMER.RESET",
    "CONSUMER.UNPIN",
    "CONSUMER.LEADER.STEPDOWN",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_do_nothing_is_tried() {
        for (subject, harmless) in [
            ("mesh.mod.shop.order", true),
            ("$JS.API.INFO", true),
            ("$JS.API.STREAM.PURGE.EVENTS", true),
            ("$JS.hub.API.STREAM.PURGE.EVENTS", true),
            ("$JS.API.CONSUMER.PAUSE.EVENTS.a", true),
            ("$JS.API.CONSUMER.CREATE.EVENTS.a.mesh.mod.shop", true),
            ("$JS.API.DIRECT.GET.EVENTS.mesh.mod.shop", true),
            ("$JS.API.STREAM.mesh-probe.EVENTS", true),
            // Verbs there are, and one there may be some day.
            ("$JS.API.STREAM.PEER.REMOVE.EVENTS", false),
            ("$JS.API.META.LEADER.STEPDOWN", false),
            ("$JS.API.SERVER.REMOVE", false),
            ("$JS.API.ACCOUNT.PURGE.MESH", false),
            ("$JS.hub.API.ACCOUNT.PURGE.MESH", false),
            ("$JS.API.STREAM.EMPTY.EVENTS", false),
            ("$JS.API.STREAM.PURGE.EVENTS.more", false),
            ("$JS.SNAPSHOT.RESTORE.EVENTS.id", false),
            ("$JS.FC.EVENTS.a.mesh-probe", true),
            ("$JS.FC.EVENTS.a.7", false),
            ("$SYS.REQ.SERVER.PING", true),
            ("$SYS.REQ.ACCOUNT.MESH.CONNZ", true),
            ("$SYS.REQ.SERVER.ID.RELOAD", false),
            ("$SYS.REQ.SERVER.ID.KICK", false),
            ("$NRG.V.x", false),
            ("$JS.ACK.NODES.w.1.5.5.0.0", false),
            ("$JS.ACK._.hash.NODES.w.1.5.5.0.0", false),
            ("$JS.ACK.NODES.w.1.5.5.0.mesh-probe", false),
            ("$JS.ACK.NODES.mesh-probe.1.5.5.0.0", true),
            (
                "$JS.ACK.NODES.w.1.4611686018427387903.4611686018427387903.1.0",
                true,
            ),
            ("$JS.ACK.NODES.w", true),
        ] {
            let of: Subject = subject.parse().unwrap();
            assert_eq!(is_harmless(&of), harmless, "{subject}");
        }
    }
}
