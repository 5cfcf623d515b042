//! The controller's side of a proof: what arrives in the account that holds JetStream, and what is asked of its API.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_bus::BusError;
use mesh_derive::proof::NO_STREAM;
use mesh_derive::subject;
use mesh_model::Principal;
use serde::Deserialize;
use tokio::time::timeout;

use super::found::{Found, Verdict, Watched};
use super::prober::MARK;
use super::wire::{Message, Said, Wire};
use super::{ProveError, Proving};

/// A connection that listens.
#[derive(Debug)]
pub(super) struct Witness {
    wire: Wire,
    nonce: String,
    heard: Heard,
}

/// What was heard, by its mark.
#[derive(Debug, Default)]
pub(super) struct Heard(BTreeSet<Watched>);

impl Heard {
    /// What an act came to, now that everything was heard.
    pub(super) fn judge(&self, verdict: Verdict) -> Found {
        match verdict {
            Verdict::Found(found) => found,
            Verdict::Untried => Found::Closed(UNTRIED.to_owned()),
            Verdict::Watched(watched) => match (&watched, self.0.contains(&watched)) {
                (Watched::Heartbeat(_), true) => Found::Allowed,
                (Watched::Heartbeat(_), false) => Found::Unheard,
                (Watched::Api(_), true) => Found::Effect("the reply reached the API".to_owned()),
                (Watched::Api(_), false) => Found::NoEffect,
            },
        }
    }
}

impl Witness {
    /// Connects as the controller and listens.
    pub(super) async fn open(proving: &Proving) -> Result<Self, ProveError> {
        let wire = Wire::open(&proving.endpoint, &proving.controller).await;
        let mut wire = wire.map_err(ProveError::Watching)?;
        // Its challenge is random, and in letters that a name may have.
        let nonce = wire.challenge().to_owned();
        let heartbeats = subject::heartbeats();
        wire.put(format_args!(
            "SUB {heartbeats} 1\r\nSUB {ADVISORIES} 2\r\nPING\r\n"
        ));
        let mut witness = Self {
            wire,
            nonce,
            heard: Heard::default(),
        };
        let ready = timeout(HEARD_WITHIN, witness.until_pong()).await;
        ready
            .unwrap_or_else(|_| Err(BusError::Away("the server does not answer".to_owned())))
            .map_err(ProveError::Watching)?;
        Ok(witness)
    }

    /// What no other proof has.
    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Listens until it cannot any more. Dropped, it can go on.
    pub(super) async fn listen(&mut self) -> BusError {
        loop {
            match self.wire.next().await {
                Ok(Said::Message(message)) => self.hear(&message),
                Ok(Said::Pong | Said::Refusal(_)) => {}
                Err(error) => return error,
            }
        }
    }

    /// Asks the API itself, as whoever injected would have had it asked, until it has heard of that: what was asked
    /// before has been heard by then, and silence says something.
    pub(super) async fn close(mut self) -> Result<Heard, ProveError> {
        for at in 0..CONTROLS {
            let mark = format!("{}-control-{at}", self.nonce);
            let call = format!("$JS.API.STREAM.DELETE.{NO_STREAM}-{mark}");
            let inbox = subject::inbox_prefix(&Principal::Controller);
            let reply = format!("{inbox}.{}", self.nonce);
            self.wire.publish(&call, Some(&reply), &[], "");
            let announced = Watched::Api(mark);
            let heard = timeout(HEARD_WITHIN, self.until_heard(&announced)).await;
            match heard {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(ProveError::Watching(error)),
                Err(_late) => return Err(ProveError::Unannounced(call)),
            }
        }
        Ok(self.heard)
    }

    async fn until_heard(&mut self, what: &Watched) -> Result<(), BusError> {
        while !self.heard.0.contains(what) {
            if let Said::Message(message) = self.wire.next().await? {
                self.hear(&message);
            }
        }
        Ok(())
    }

    async fn until_pong(&mut self) -> Result<(), BusError> {
        loop {
            match self.wire.next().await? {
                Said::Pong => return Ok(()),
                Said::Refusal(why) => {
                    return Err(BusError::Refused {
                        what: "watching".to_owned(),
                        why,
                    });
                }
                Said::Message(message) => self.hear(&message),
            }
        }
    }

    fn hear(&mut self, message: &Message) {
        let mark = if message.subject == ADVISORIES {
            let advisory = serde_json::from_slice::<Advisory>(&message.body).ok();
            advisory.and_then(|it| it.mark().map(Watched::Api))
        } else {
            message.header(MARK).map(Watched::Heartbeat)
        };
        let mine = |mark: &Watched| match mark {
            Watched::Heartbeat(mark) | Watched::Api(mark) => mark.starts_with(&self.nonce),
        };
        self.heard.0.extend(mark.filter(mine));
    }
}

/// What the server says of a call of its API.
#[derive(Deserialize)]
struct Advisory {
    subject: String,
}

impl Advisory {
    fn mark(&self) -> Option<String> {
        let (_, named) = self.subject.rsplit_once('.')?;
        Some(named.strip_prefix(NO_STREAM)?.strip_prefix('-')?.to_owned())
    }
}

/// Of an act that is not tried, and why when its connection did not end.
const UNTRIED: &str = "it is not tried, since a subscription without an inbox beside it would take what waits to be delivered; try it \
                       as one of the module's instances";
/// Where the server says what was asked of its API.
const ADVISORIES: &str = "$JS.EVENT.ADVISORY.API";
/// Calls wait their turn in more than one line; one in each has passed everything before it.
const CONTROLS: usize = 4;
const HEARD_WITHIN: Duration = Duration::from_secs(10);
