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
                        key: said.key,
                    },
                ),
                Err(error) => Message::Malformed(format!(
                    "an announcement of module {}: {error}",
                    event.module
                )),
            }
        }
        Some(Heard::Event(_) | Heard::Heartbeat(_) | Heard::Log(_) | Heard::Work(..)) | None => {
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

#[cfg(test)]
mod tests {
    use mesh_derive::subject;
    use mesh_model::{
        Enrolment, EventRef, Generation, NodeName, Outcome, Report, ReportId, Seq, Timestamp,
        TokenId,
    };
    use mesh_wire::{encode_announcement, encode_enrolment, encode_heartbeat, encode_report};

    use super::*;

    fn report(node: &str) -> Report {
        Report {
            id: ReportId {
                node: node.parse().unwrap(),
                generation: Generation::default(),
                seq: Seq(1),
            },
            at: Timestamp::default(),
            outcome: Outcome::Converged,
            modules: [].into(),
        }
    }

    fn event(text: &str) -> Subject {
        subject::event(&text.parse::<EventRef>().unwrap())
    }

    #[test]
    fn who_reports_is_told_by_the_subject_whatever_the_body_says() {
        let (node, other): (NodeName, _) = ("a".parse().unwrap(), report("b"));
        let said = message(&subject::report(&node), &encode_report(&other));
        assert_eq!(said, Message::Report(node, other));
    }

    #[test]
    fn which_token_asks_is_told_by_the_subject() {
        let token: TokenId = "t1".parse().unwrap();
        let asked = Enrolment {
            node: None,
            key: mesh_model::PublicKey::from_raw([0; 32]),
            box_key: mesh_model::BoxPublicKey::from_raw([0; 32]),
            reply: subject::enrolment_answer(&token),
            clock: Timestamp::default(),
        };
        let said = message(&subject::enrol(&token), &encode_enrolment(&asked));
        assert_eq!(said, Message::Enrolment(token, asked));
    }

    #[test]
    fn which_module_announces_itself_is_told_by_the_subject() {
        let body = encode_announcement(&mesh_wire::Announcement {
            release: "1".to_owned(),
            node: "a".parse().unwrap(),
            instance: None,
            key: None,
        });
        let announcement = Announcement {
            release: "1".to_owned(),
            node: "a".parse().unwrap(),
            key: None,
        };
        assert_eq!(
            message(&event("m.announced"), &body),
            Message::Announced("m".parse().unwrap(), announcement)
        );
    }

    #[test]
    fn what_cannot_be_understood_says_what_it_was_to_be() {
        let (node, token): (NodeName, TokenId) = ("a".parse().unwrap(), "t1".parse().unwrap());
        let body = encode_report(&report("a"));
        for (on, body, begins) in [
            (subject::report(&node), &b"{}"[..], "a report of node a: "),
            (subject::report(&node), b"", "a report of node a: "),
            (
                subject::enrol(&token),
                &body,
                "an enrolment with token t1: ",
            ),
            (event("m.announced"), &body, "an announcement of module m: "),
            (
                event("m.said"),
                &body,
                "nothing for the controller comes on mesh.mod.m.said",
            ),
            (
                subject::heartbeat(&node),
                &body,
                "nothing for the controller comes on",
            ),
            (
                "mesh.control.other.a".parse().unwrap(),
                &body,
                "nothing for the controller",
            ),
            (
                "mesh.control.report.A".parse().unwrap(),
                &body,
                "nothing for the controller",
            ),
            (
                "else.where".parse().unwrap(),
                &body,
                "nothing for the controller",
            ),
        ] {
            match message(&on, body) {
                Message::Malformed(why) => assert!(why.starts_with(begins), "{on}: {why}"),
                other => panic!("{on}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_node_speaks_for_itself_in_a_heartbeat_and_for_nobody_else() {
        let (node, other): (NodeName, NodeName) = ("a".parse().unwrap(), "b".parse().unwrap());
        let beat = Heartbeat {
            node: node.clone(),
            session: 1,
            applied: None,
            seq: Seq(0),
            deaf: false,
            version: "1".to_owned(),
            doing: [].into(),
        };
        let body = encode_heartbeat(&beat);
        assert_eq!(heartbeat(&subject::heartbeat(&node), &body), Ok(beat));
        assert_eq!(
            heartbeat(&subject::heartbeat(&other), &body),
            Err("node b sent a heartbeat that says it is a's".to_owned())
        );
        assert!(heartbeat(&subject::heartbeat(&node), b"?").is_err());
        assert!(heartbeat(&subject::report(&node), &body).is_err());
    }
}
