//! The controller's side of a proof: what arrives in the account that holds JetStream, and what is asked of its API.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_bus::BusError;
use mesh_derive::proof::NO_STREAM;
use mesh_derive::subject;
use mesh_model::{Principal, one_line};
use serde::Deserialize;
use tokio::time::timeout;

use super::found::{Found, Text, Verdict, Watched};
use super::prober::MARK;
use super::reading::Message;
use super::wire::{Said, Wire};
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
            Verdict::Untried(why) => Found::Closed(Text::of(&why.to_string())),
            Verdict::Watched(watched) => match (&watched, self.0.contains(&watched)) {
                (Watched::Heartbeat(_), true) => Found::Allowed,
                (Watched::Heartbeat(_), false) => Found::Unheard,
                (Watched::Api(_), true) => Found::Effect(Text::of("the reply reached the API")),
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
        let (heartbeats, logs) = (subject::heartbeats(), subject::logs());
        wire.subscribe(heartbeats.as_str(), None, 1)
            .and_then(|()| wire.subscribe(ADVISORIES, None, 2))
            .and_then(|()| wire.subscribe(logs.as_str(), None, 3))
            .map_err(ProveError::Watching)?;
        wire.ping();
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

    /// Asks the API itself, as whoever injected would have had it asked, until all of that has been heard of.
    ///
    /// What silence about the others rests on: each reply that is judged by it has been dealt with before this is called,
    /// since the same stream or consumer has answered a later message in an inbox, and they answer in order. A server that
    /// serves alone has by then made the call, and says of calls in their order, so that one control would do. In a
    /// cluster calls go to another server, and wait there in one line for up to 16 workers: when as many controls as
    /// those have been heard of, each that was before them has been begun; and it is assumed that none takes longer than
    /// a second round of as many, made when the first was heard.
    pub(super) async fn close(mut self) -> Result<Heard, ProveError> {
        let inbox = subject::inbox_prefix(&Principal::Controller);
        let reply = format!("{inbox}.{}", self.nonce);
        for round in 0..ROUNDS {
            let marks: Vec<String> = (0..WORKERS)
                .map(|at| format!("{}-control-{round}-{at}", self.nonce))
                .collect();
            for mark in &marks {
                let call = control(mark);
                let asked = self.wire.publish(&call, Some(&reply), &[], b"");
                asked.map_err(ProveError::Watching)?;
            }
            for mark in marks {
                let call = control(&mark);
                let announced = Watched::Api(mark);
                match timeout(HEARD_WITHIN, self.until_heard(&announced)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Err(ProveError::Watching(error)),
                    Err(_late) => return Err(ProveError::Unannounced(call)),
                }
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
                        why: one_line(&why),
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

fn control(mark: &str) -> String {
    format!("$JS.API.STREAM.DELETE.{NO_STREAM}-{mark}")
}

/// Where the server says what was asked of its API.
const ADVISORIES: &str = "$JS.EVENT.ADVISORY.API";
/// As many calls as a server of a cluster deals with at once.
const WORKERS: usize = 16;
const ROUNDS: usize = 2;
const HEARD_WITHIN: Duration = Duration::from_secs(10);
