//! This controller's epoch: a user of its own on the broker. Whoever takes over makes another and removes this one, and
//! from then on it is the broker that lets the earlier controller do nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use mesh_bus::BusError;
use mesh_derive::topology::{EPOCH_LENGTH, Queue, Topology, controller_login};
use mesh_model::Principal;
use serde_json::Value;
use tokio::time::sleep;

use crate::asserting::write;
use crate::credential::{Credential, password_hash};
use crate::definitions::{Document, Names};
use crate::guests::Guests;
use crate::line::Login;
use crate::management::{Management, part};

/// How an epoch stands that nobody ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// This controller has not taken over.
    NotBegun,
    /// Its user is there.
    Held,
    /// No controller's is: somebody removed it, or the broker was set up anew.
    Lost,
}

/// The epoch of one controller.
#[derive(Debug)]
pub(crate) struct Epoch {
    management: Arc<Management>,
    vhost: String,
    users: String,
    login: Mutex<Option<Login>>,
    guests: Arc<Guests>,
}

impl Epoch {
    pub(crate) fn new(management: Arc<Management>, vhost: &str, users: &str) -> Self {
        Self {
            management,
            vhost: vhost.to_owned(),
            users: users.to_owned(),
            login: Mutex::default(),
            guests: Arc::default(),
        }
    }

    /// Who is let in for a proof.
    pub(crate) fn guests(&self) -> Arc<Guests> {
        Arc::clone(&self.guests)
    }

    /// As whom this controller logs in, once its epoch began.
    pub(crate) fn login(&self) -> Option<Login> {
        self.login
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What the controller and everybody else is called while it lasts.
    pub(crate) fn names(&self) -> Names {
        Names {
            users: self.users.clone(),
            controller: self.login().map(|login| login.user),
        }
    }

    /// The hash of the controller's password, by whose it is.
    pub(crate) fn hash(&self) -> BTreeMap<Principal, String> {
        let hash = self
            .login()
            .and_then(|login| password_hash(&login.credential.public()));
        hash.map(|hash| (Principal::Controller, hash))
            .into_iter()
            .collect()
    }

    /// Begins it. `topology` says what a controller may do; it follows from no record.
    ///
    /// The order is what makes one of two that begin at once the last: each makes its own user before it looks for
    /// others', so at least one sees the other's, and whose user is gone in the end has not taken over.
    pub(crate) async fn begin(&self, topology: &Topology) -> Result<(), BusError> {
        let mark = self.queue_path(&Queue::Mark);
        if self.management.get(&mark).await?.is_none() {
            return Err(BusError::Away(
                "there is nothing to take over: the mesh has no queues yet".to_owned(),
            ));
        }
        let login = new_login(&self.users)?;
        let before = self.replace(Some(login.clone()));
        let begun = self.begin_as(&login, topology).await;
        if begun.is_err() {
            self.replace(before);
            // It may never have been made, and who takes over next removes it as well.
            let _left = self.remove(&login.user).await;
        }
        begun
    }

    async fn begin_as(&self, login: &Login, topology: &Topology) -> Result<(), BusError> {
        let names = self.names();
        let own = Document::of(topology, &self.hash(), &names).of_user(&login.user);
        match write(&self.management, &own).await {
            // Somebody has removed the user before what it may do was written.
            Err(BusError::Refused { .. }) if !self.is_there(&login.user).await? => {
                return Err(just_taken_over());
            }
            made => made?,
        }
        let others = self.others(&login.user).await?;
        for other in &others {
            self.remove(other).await?;
        }
        if !self.is_there(&login.user).await? {
            return Err(just_taken_over());
        }
        // A connection made in the moment before its user went may not have been known yet when the first were closed.
        for other in &others {
            self.disconnect(other).await?;
        }
        tracing::info!(user = login.user, "this controller's epoch began");
        Ok(())
    }

    /// Looks how it stands; an error that is final when another began after it.
    pub(crate) async fn look(&self) -> Result<Standing, BusError> {
        let Some(login) = self.login() else {
            return Ok(Standing::NotBegun);
        };
        if self.is_there(&login.user).await? {
            return Ok(Standing::Held);
        }
        match self.others(&login.user).await?.first() {
            Some(other) => Err(BusError::Fenced(format!("user {other}"))),
            None => Ok(Standing::Lost),
        }
    }

    /// Ends every connection of a user: what it could no longer do anew it could go on doing on one it has. A broker that
    /// finds one of them ending by itself stumbles over it and leaves the rest, so it is asked again.
    pub(crate) async fn disconnect(&self, user: &str) -> Result<(), BusError> {
        let path = format!("/api/connections/username/{}", part(user));
        for _ in 1..DISCONNECTS {
            match self.management.delete(&path).await {
                Err(error) if error.is_passing() => sleep(DISCONNECT_AGAIN).await,
                ended => return ended,
            }
        }
        self.management.delete(&path).await
    }

    /// Removes a user, and ends its connections.
    pub(crate) async fn remove(&self, user: &str) -> Result<(), BusError> {
        self.management
            .delete(&format!("/api/users/{}", part(user)))
            .await?;
        self.disconnect(user).await
    }

    fn queue_path(&self, queue: &Queue) -> String {
        format!("/api/queues/{}/{}", part(&self.vhost), part(&queue.name()))
    }

    async fn is_there(&self, user: &str) -> Result<bool, BusError> {
        let user = self
            .management
            .get(&format!("/api/users/{}", part(user)))
            .await?;
        Ok(user.is_some())
    }

    /// Controllers' users other than this.
    async fn others(&self, own: &str) -> Result<Vec<String>, BusError> {
        let names = self.names();
        let users = self.management.get("/api/users?columns=name").await?;
        let users = users.as_ref().and_then(Value::as_array);
        let users = users.into_iter().flatten();
        let others = users.filter_map(|user| {
            let name = user.get("name").and_then(Value::as_str)?;
            let is = names.whose(name) == Some(Principal::Controller) && name != own;
            is.then(|| name.to_owned())
        });
        Ok(others.collect())
    }

    fn replace(&self, login: Option<Login>) -> Option<Login> {
        let mut kept = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *kept, login)
    }
}

fn just_taken_over() -> BusError {
    BusError::Away("another controller is just taking over".to_owned())
}

/// A name nobody has had, and a secret nobody else has.
fn new_login(users: &str) -> Result<Login, BusError> {
    let mut random = [0_u8; NAME_BYTES + SECRET_BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| BusError::Away(format!("the system gives no randomness: {error}")))?;
    let (name, secret) = random.split_at(NAME_BYTES);
    Ok(Login {
        user: controller_login(users, &HEXLOWER.encode(name)),
        credential: Credential::of_seed(&HEXLOWER.encode(secret)),
    })
}

/// A byte is two characters.
const NAME_BYTES: usize = EPOCH_LENGTH / 2;
const SECRET_BYTES: usize = 32;
const DISCONNECTS: u32 = 10;
const DISCONNECT_AGAIN: Duration = Duration::from_millis(50);
