//! What a server says of each call of its API: the one way to hear of a consumer that somebody changed.

use std::borrow::Cow;

use mesh_model::{ConsumerRef, StreamName};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Who called, where an advisory says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Caller {
    /// Its number on its server.
    #[serde(default)]
    pub(crate) id: u64,
    /// Which server.
    #[serde(default)]
    pub(crate) server: String,
}

#[derive(Deserialize)]
struct Call<'a> {
    client: Option<Caller>,
    #[serde(borrow)]
    subject: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(borrow, default)]
    response: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Answer {
    error: Option<IgnoredAny>,
}

/// The consumer that a call made or changed, which another than `own` made. The most are one's own, with the whole answer
/// in them, so that no more of one is unpacked than it takes to leave it.
pub(crate) fn changed_by_another(
    advisory: &[u8],
    own: impl FnOnce(&Caller) -> bool,
) -> Option<ConsumerRef> {
    let call: Call<'_> = serde_json::from_slice(advisory).ok()?;
    let consumer = defined(&call.subject)?;
    if call.client.as_ref().is_some_and(own) {
        return None;
    }
    let answered: Answered<'_> = serde_json::from_slice(advisory).ok()?;
    let answer: Answer = serde_json::from_str(&answered.response).ok()?;
    answer.error.is_none().then_some(consumer)
}

/// The consumer that a call pauses or defines: as it is asked now, with its one filter in the subject or without, and as it was.
fn defined(subject: &str) -> Option<ConsumerRef> {
    let (_, call) = subject.split_once(".API.CONSUMER.")?;
    let names = call.strip_prefix("DURABLE.").unwrap_or(call);
    let names = names
        .strip_prefix("CREATE.")
        .or_else(|| names.strip_prefix("PAUSE."))?;
    let mut names = names.split('.');
    let stream = StreamName::new(names.next()?).ok()?;
    ConsumerRef::new(stream, names.next()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As nats-server 2.15.1 writes it, by client 14.
    fn advisory(subject: &str, response: &str) -> Vec<u8> {
        let advisory = json!({
            "type": "io.nats.jetstream.advisory.v1.api_audit",
            "server": "N1",
            "client": { "id": 14, "acc": "MESH", "name": "x", "rtt": 821_654, "server": "N1", "kind": "Client" },
            "subject": subject,
            "request": "{\"config\":{}}",
            "response": response,
        });
        serde_json::to_vec(&advisory).unwrap()
    }

    fn changed(subject: &str, response: &str, own: u64) -> Option<String> {
        let own = |caller: &Caller| caller.id == own && caller.server == "N1";
        changed_by_another(&advisory(subject, response), own).map(|it| it.to_string())
    }

    #[test]
    fn a_consumer_that_another_defines_is_told_in_each_form_of_the_call() {
        for subject in [
            "$JS.API.CONSUMER.CREATE.EVENTS.clerk",
            "$JS.API.CONSUMER.CREATE.EVENTS.clerk.mesh.mod.shop.sold",
            "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.clerk",
            "$JS.hub.API.CONSUMER.CREATE.EVENTS.clerk",
        ] {
            let told = changed(subject, "{\"name\":\"clerk\"}", 3);
            assert_eq!(told.as_deref(), Some("EVENTS/clerk"), "{subject}");
        }
    }

    #[test]
    fn what_was_refused_or_ones_own_or_changes_nothing_is_not_told() {
        let create = "$JS.API.CONSUMER.CREATE.EVENTS.clerk";
        assert_eq!(changed(create, "{\"error\":{\"code\":500}}", 3), None);
        assert_eq!(changed(create, "{}", 14), None);
        for subject in [
            "$JS.API.CONSUMER.INFO.EVENTS.clerk",
            "$JS.API.CONSUMER.LIST.EVENTS",
            "$JS.API.CONSUMER.CREATE.EVENTS",
            "$JS.API.STREAM.CREATE.EVENTS",
        ] {
            assert_eq!(changed(subject, "{}", 3), None, "{subject}");
        }
        assert_eq!(changed_by_another(b"{}", |_| false), None);
        assert_eq!(changed_by_another(b"", |_| false), None);
    }
}
