//! Users the broker has for a while, beside those of the plan: as whom a proof logs in.
//!
//! Each has the rows of the user it stands for, as the broker holds them, and a name that is nobody's: a reader believes a
//! sender by its `user_id`, and of these none. They are made and removed through the management; those that a controller
//! left behind when it was killed, the next assertion removes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;
use mesh_bus::{BusError, Disturbance, Disturbed};
use mesh_derive::render::rabbitmq::PasswordHash;
use serde_json::{Value, json};
use tokio::sync::Mutex as Turn;

use crate::asserting::write;
use crate::definitions::{Document, Part, set};
use crate::management::Management;

/// Whose guests are there now, if anybody's.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    /// Of one proof at a time.
    pub(crate) turn: Turn<()>,
    /// What the names of those of the proof under way begin with.
    now: Mutex<Option<String>>,
}

impl Guests {
    /// Whether a user is a guest nobody waits for any more.
    pub(crate) fn is_left_behind(&self, users: &str, name: &str) -> bool {
        let now = self.now();
        let stays = now.as_ref().is_some_and(|own| name.starts_with(own));
        is_guest(users, name) && !stays
    }

    fn now(&self) -> MutexGuard<'_, Option<String>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a user of this name is a guest of this mesh: no principal's name begins so.
pub(crate) fn is_guest(users: &str, name: &str) -> bool {
    let rest = name
        .strip_prefix(users)
        .and_then(|it| it.strip_prefix(GUEST));
    let parts = rest.and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(proof, nth)| {
        proof.len() == 2 * PROOF_BYTES
            && proof.bytes().all(|it| it.is_ascii_hexdigit())
            && nth.parse::<usize>().is_ok()
    })
}

/// Guests, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Stay {
    guests: Arc<Guests>,
    management: Arc<Management>,
    disturbed: Arc<Disturbed>,
    begins: String,
    rows: Document,
    names: Vec<String>,
    over: bool,
}

impl Stay {
    /// Of nobody yet.
    pub(crate) fn begin(
        guests: &Arc<Guests>,
        management: &Arc<Management>,
        disturbed: &Arc<Disturbed>,
        users: &str,
    ) -> Result<Self, BusError> {
        let mut random = [0_u8; PROOF_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| BusError::Away(format!("the system gives no randomness: {error}")))?;
        let begins = format!("{users}{GUEST}{}.", HEXLOWER.encode(&random));
        *guests.now() = Some(begins.clone());
        Ok(Self {
            guests: Arc::clone(guests),
            management: Arc::clone(management),
            disturbed: Arc::clone(disturbed),
            begins,
            rows: Document::default(),
            names: Vec::new(),
            over: false,
        })
    }

    /// One more, who has these rows of somebody's and this password. Answers with its name.
    pub(crate) fn add(&mut self, rows: &Document, hash: &str) -> String {
        let name = format!("{}{}", self.begins, self.names.len());
        self.rows.add(
            Part::Users,
            json!({
                "name": name,
                "password_hash": hash,
                "hashing_algorithm": PasswordHash::ALGORITHM,
                "tags": "",
            }),
        );
        for kind in [Part::TopicPermissions, Part::Permissions] {
            for (_, row) in rows.all(kind) {
                let mut row: Value = row.clone();
                set(&mut row, "user", json!(name));
                self.rows.add(kind, row);
            }
        }
        self.names.push(name.clone());
        name
    }

    /// Lets them in.
    pub(crate) async fn let_in(&self) -> Result<(), BusError> {
        write(&self.management, &self.rows).await
    }

    /// Ends: they are removed, and their connections with them.
    pub(crate) async fn end(mut self) -> Result<(), BusError> {
        for names in self.names.chunks(AT_ONCE) {
            let gone = json!({ "users": names });
            self.management
                .post("/api/users/bulk-delete", &gone)
                .await?;
        }
        self.over = true;
        Ok(())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        *self.guests.now() = None;
        if !self.over && !self.names.is_empty() {
            // The next assertion removes who is left.
            self.disturbed.tell(Disturbance::Definitions);
        }
    }
}

/// What comes before a proof's own word in the name of a guest: no principal is called so.
const GUEST: &str = "probe.";
const PROOF_BYTES: usize = 8;
const AT_ONCE: usize = 500;

#[cfg(test)]
mod tests {
    use mesh_derive::topology::whose_login;

    use super::*;

    #[test]
    fn a_guest_is_told_from_everybody_and_is_nobody_to_a_reader() {
        for (users, name, expected) in [
            ("h.", "h.probe.0123456789abcdef.0", true),
            ("", "probe.0123456789abcdef.12", true),
            ("h.", "probe.0123456789abcdef.0", false),
            ("", "probe.0123456789abcdef.x", false),
            ("", "probe.0123.0", false),
            ("", "node.probe", false),
            ("", "probe", false),
        ] {
            assert_eq!(is_guest(users, name), expected, "{users} {name}");
            if expected {
                assert_eq!(whose_login(users, name), None);
            }
        }
    }

    #[test]
    fn whom_a_proof_under_way_made_stays_and_everybody_elses_guest_goes() {
        let guests = Guests::default();
        let [own, other] = ["h.probe.0123456789abcdef.0", "h.probe.fedcba9876543210.0"];
        assert!(guests.is_left_behind("h.", own));
        *guests.now() = Some("h.probe.0123456789abcdef.".to_owned());
        assert!(!guests.is_left_behind("h.", own));
        assert!(guests.is_left_behind("h.", other));
        assert!(!guests.is_left_behind("h.", "h.node.a"));
    }
}
