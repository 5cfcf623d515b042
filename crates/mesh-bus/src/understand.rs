//! From a delivery to what it says: the subject tells who speaks, the body is decoded, nothing is believed beyond that.

use mesh_control::{Announcement, Message};
use mesh_derive::subject::{Heard, heard};
use mesh_model::{EventName, Heartbeat, Subject};
use mesh_wire::{decode_announcement, decode_enrolment, decode_heartbeat, decode_report};

/// What a message to the controller says.
pub(crate) fn message(subject: &Subject, body: &[u8]) -> Message {
    match heard(subject) {
        Some(Heard::Report(node)) => match decode_report(body) {
            Ok(report) => Message::Report(node, report),
            Err(error) => Message::Malformed(format!("a report of node {node}: {error}")),
        },
        Some(Heard::Enrolment(token)) => match decode_enrolment(body) {
            Ok(request) => Message::Enrolment(token, request),
            Err(error) => Message::Malformed(format!("an enrolment with token {token}: {error}")),
        },
        Some(Heard::Event(event)) if event.event == EventName::announced() => {
            match decode_announcement(body) {
                Ok(said) => Message::Announced(
                    event.module,
                    Announcement {
                        release: said.release,
                        node: said.node,
                    },
                ),
                Err(error) => Message::Malformed(format!(
                    "an announcement of module {}: {error}",
                    event.module
                )),
            }
        }
        Some(Heard::Event(_) | Heard::Heartbeat(_) | Heard::Work(..)) | None => {
            Message::Malformed(format!("nothing for the controller comes on {subject}"))
        }
    }
}

/// A sign of life, if it is one and speaks for the node of its subject.
pub(crate) fn heartbeat(subject: &Subject, body: &[u8]) -> Result<Heartbeat, String> {
    let Some(Heard::Heartbeat(node)) = heard(subject) else {
        return Err(format!("no heartbeat comes on {subject}"));
    };
    let heartbeat = decode_heartbeat(body).map_err(|error| format!("node {node}: {error}"))?;
    if heartbeat.node == node {
        Ok(heartbeat)
    } else {
        let whose = &heartbeat.node;
        Err(format!(
            "node {node} sent a heartbeat that says it is {whose}'s"
        ))
    }
}
