//! The `announced` event: the one event whose body is ours, in JSON so that a module in any language can write it.

use mesh_model::{NodeName, PublicKey, one_line};
use serde::{Deserialize, Serialize};

use crate::codec::{bounded, field_of, text};
use crate::error::WireError;

const WHAT: &str = "announcement";

/// What a module says of itself when it starts. Which module it is, the subject says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The release it is.
    pub release: String,
    /// Where it runs.
    pub node: NodeName,
    /// Which run of it, in words of its own.
    pub instance: Option<String>,
    /// The public half of the credential it uses, so that one it used before can be ended.
    pub key: Option<PublicKey>,
}

/// The body of the event: `{"release":"1.2","node":"web-1","instance":"a","key":"U…"}`, without `instance` and `key` when
/// there are none.
pub fn encode_announcement(announcement: &Announcement) -> Vec<u8> {
    write(&AnnouncementForm {
        release: announcement.release.clone(),
        node: announcement.node.to_string(),
        instance: announcement.instance.clone(),
        key: announcement.key.as_ref().map(|key| key.as_str().into()),
    })
}

/// The announcement in an event's body. Members not known here are passed over: JSON has room for more without a
/// version.
pub fn decode_announcement(body: &[u8]) -> Result<Announcement, WireError> {
    bounded(WHAT, body)?;
    let form: AnnouncementForm =
        serde_json::from_slice(body).map_err(|error| WireError::Malformed {
            what: WHAT,
            why: error.to_string(),
        })?;
    Ok(Announcement {
        release: one_line(&form.release),
        node: text("node", form.node).map_err(field_of(WHAT))?,
        instance: form.instance.as_deref().map(one_line),
        // Whatever else its author means by the word is no key of ours.
        key: form.key.and_then(|key| PublicKey::new(key.as_str()?).ok()),
    })
}

#[derive(Serialize, Deserialize)]
struct AnnouncementForm {
    release: String,
    node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<serde_json::Value>,
}

#[expect(
    clippy::expect_used,
    reason = "serde_json fails to write only when a type's Serialize or the writer fails, or at a map key that is no \
              string: this struct of strings has none of them"
)]
fn write(form: &AnnouncementForm) -> Vec<u8> {
    serde_json::to_vec(form).expect("strings are written to a growing buffer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(instance: Option<&str>) -> Announcement {
        Announcement {
            release: "1.2".to_owned(),
            node: "web-1".parse().unwrap(),
            instance: instance.map(str::to_owned),
            key: None,
        }
    }

    #[test]
    fn what_a_plain_client_writes_is_understood() {
        for (body, expected) in [
            (r#"{"release":"1.2","node":"web-1"}"#, announcement(None)),
            (
                r#" { "node": "web-1", "pid": 7, "instance": "a", "release": "1.2" } "#,
                announcement(Some("a")),
            ),
            (
                r#"{"release":"1.2","node":"web-1","instance":null}"#,
                announcement(None),
            ),
            // What is no key of ours is somebody else's word.
            (
                r#"{"release":"1.2","node":"web-1","key":["a", 7]}"#,
                announcement(None),
            ),
        ] {
            assert_eq!(decode_announcement(body.as_bytes()), Ok(expected), "{body}");
        }
    }

    #[test]
    fn what_would_steer_a_terminal_does_not_get_through() {
        let body = format!(
            r#"{{"release":"1\u001b[2J{}","node":"web-1"}}"#,
            "9".repeat(1_000)
        );
        let release = decode_announcement(body.as_bytes()).unwrap().release;
        assert!(release.starts_with("1 [2J9") && release.len() == 500);
    }

    #[test]
    fn what_is_no_announcement_is_refused_saying_why() {
        for (body, message) in [
            ("", "the announcement is empty"),
            (
                "{}",
                "the announcement is malformed: missing field `release` at line 1 column 2",
            ),
            (
                r#"{"release":"1","node":"web.01"}"#,
                "the announcement holds an invalid node: node name \"web.01\": '.' at byte 3 is not one of a-z, 0-9 \
                 and '-' (names are RFC 1123 labels: no dots, no upper case)",
            ),
        ] {
            let error = decode_announcement(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(error, Err(message.to_owned()), "{body}");
        }
    }
}
