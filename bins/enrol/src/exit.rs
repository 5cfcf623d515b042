//! How this program ends when this host did not become a node.

use mesh_agent::JoinError;
use mesh_auth::token::Token;
use mesh_bus::BusError;

/// What went wrong, and the code to end with.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The code.
    pub exit: Exit,
    /// What and why.
    pub error: anyhow::Error,
}

/// The codes this program ends with; they mean the same in every program of the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did not work.
    Failed = 1,
    /// What was typed makes no sense.
    Usage = 2,
    /// The mesh does not take this token any more, or refuses this host.
    Denied = 5,
    /// Nobody answered.
    TimedOut = 6,
    /// The bus is not there.
    Unreachable = 7,
}

impl Failure {
    /// With its code.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { exit, error }
    }
}

/// Whatever has no code of its own.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, error)
    }
}

/// Why the bus was not reached with this token.
pub(crate) fn not_connected(token: &Token, error: BusError) -> Failure {
    let urls = token.urls.join(", ");
    match &error {
        BusError::Refused { .. } => denied(token, error),
        // The refusal of a certificate comes through the client as text; of all errors it alone names the fingerprint.
        BusError::Away(why) if token.ca.is_some_and(|ca| why.contains(&ca.to_string())) => Failure::new(
            Exit::Failed,
            anyhow::anyhow!(
                "the server at {urls} is not the one of this token: its certificate comes from another authority ({why})"
            ),
        ),
        BusError::Away(_) => Failure::new(
            Exit::Unreachable,
            anyhow::Error::new(error).context(format!(
                "the bus cannot be reached at {urls}; see that this host can reach it, then run the same command again"
            )),
        ),
        _ => Failure::new(Exit::Failed, error),
    }
}

/// Why there was no answer.
pub(crate) fn not_answered(token: &Token, error: JoinError) -> Failure {
    match error {
        JoinError::Refused(error @ BusError::Refused { .. }) => denied(token, error),
        JoinError::Refused(error) => Failure::new(Exit::Failed, error),
        JoinError::TimedOut { .. } => Failure::new(Exit::TimedOut, error),
    }
}

fn denied(token: &Token, error: BusError) -> Failure {
    let what = format!(
        "the bus does not take token {} (any more): it was spent, revoked, or has expired; create a new one with `meshctl \
         token create`",
        token.id
    );
    Failure::new(Exit::Denied, anyhow::Error::new(error).context(what))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mesh_auth::keys::{SigningKey, UserKey};
    use mesh_auth::tls::CaFingerprint;

    use super::*;

    fn token() -> Token {
        Token {
            mesh: "home".parse().unwrap(),
            urls: vec!["tls://bus.example:4222".to_owned()],
            ca: Some(CaFingerprint::from_bytes([0xab; 32])),
            id: "t1".parse().unwrap(),
            joiner: UserKey::generate().unwrap(),
            controller: SigningKey::generate().unwrap().public(),
            node: None,
            expires: 0,
        }
    }

    fn refused() -> BusError {
        BusError::Refused {
            what: "the connection of joiner/t1".to_owned(),
            why: "authorization violation".to_owned(),
        }
    }

    #[test]
    fn each_way_not_to_connect_has_its_code_and_its_next_step() {
        let token = token();
        let other_ca = format!(
            "TLS error: none is the mesh's CA with the fingerprint {}",
            token.ca.unwrap()
        );
        for (error, exit, said) in [
            (refused(), Exit::Denied, "spent, revoked, or has expired"),
            (
                BusError::Away("refused".to_owned()),
                Exit::Unreachable,
                "bus.example",
            ),
            (BusError::Away(other_ca), Exit::Failed, "another authority"),
            (
                BusError::Fenced(String::new()),
                Exit::Failed,
                "another controller",
            ),
        ] {
            let failure = not_connected(&token, error);
            assert_eq!(failure.exit, exit, "{:#}", failure.error);
            let text = format!("{:#}", failure.error);
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn each_way_to_hear_nothing_has_its_code() {
        let silence = JoinError::TimedOut {
            within: Duration::from_mins(1),
            last: None,
        };
        for (error, exit) in [
            (JoinError::Refused(refused()), Exit::Denied),
            (
                JoinError::Refused(BusError::Fenced(String::new())),
                Exit::Failed,
            ),
            (silence, Exit::TimedOut),
        ] {
            assert_eq!(not_answered(&token(), error).exit, exit);
        }
    }
}
