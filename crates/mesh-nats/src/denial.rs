//! What a server says when it refuses: it names the subject, and the client keeps it from whoever asked.

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    /// What was refused.
    pub(crate) of: Denied,
    /// The server's words.
    pub(crate) text: String,
}

/// What a refusal is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    /// A subscription, or one that was there and was withdrawn.
    Subscription(String),
    /// A message, or the reply it asked for.
    Publish(String),
    /// The connection.
    Connection,
}

impl Denial {
    /// Reads the text of an `-ERR`: nats-server writes `Permissions Violation for Subscription to "…"` (or
    /// `… for Publish to "…"`, `… for Publish with Reply of "…"`), and adds the sid where it withdraws.
    pub(crate) fn parse(text: &str) -> Self {
        let lower = text.to_lowercase();
        let subject = || text.split('"').nth(1).unwrap_or_default().to_owned();
        let of = if lower.contains("violation for subscription") {
            Denied::Subscription(subject())
        } else if lower.contains("violation for publish") {
            Denied::Publish(subject())
        } else {
            Denied::Connection
        };
        Self {
            of,
            text: text.to_owned(),
        }
    }

    /// Whether a subscription to `subject` was refused or withdrawn.
    pub(crate) fn is_of_subscription(&self, subject: &str) -> bool {
        matches!(&self.of, Denied::Subscription(of) if of == subject)
    }

    /// Whether a message on `subject` was refused.
    pub(crate) fn is_of_publish(&self, subject: &str) -> bool {
        matches!(&self.of, Denied::Publish(of) if of == subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_was_refused() {
        for (text, of) in [
            (
                r#"Permissions Violation for Subscription to "mesh.deliver.node.a""#,
                Denied::Subscription("mesh.deliver.node.a".to_owned()),
            ),
            (
                r#"Permissions Violation for Subscription to "mesh.deliver.node.a" (sid "2")"#,
                Denied::Subscription("mesh.deliver.node.a".to_owned()),
            ),
            (
                r#"Permissions Violation for Subscription to "mesh.deliver.seat.s" using queue "s""#,
                Denied::Subscription("mesh.deliver.seat.s".to_owned()),
            ),
            (
                r#"permissions violation for publish to "mesh.mod.a.x""#,
                Denied::Publish("mesh.mod.a.x".to_owned()),
            ),
            ("User Authentication Revoked", Denied::Connection),
        ] {
            assert_eq!(Denial::parse(text).of, of, "{text}");
        }
    }
}
