//! The controller's side of the bus.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, Subscriber};
use futures_util::StreamExt;
use mesh_bus::{
    Asserted, Attempted, Backlog, BusError, ControllerBus, Delivery, Disturbance, Disturbed,
    Finding, Link, Prober, Proven, Queue, Settlement, UnprovenError,
};
use mesh_derive::proof::Act;
use mesh_derive::{Plan, subject};
use mesh_model::{
    BusFacts, ConsumerRef, InvalidBusName, NodeName, Principal, SeatName, StreamName, StreamSpec,
    Subject,
};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::ack::{DONE, again_after};
use crate::api::{Api, ApiCalls};
use crate::asserting::{Asserting, make_missing};
use crate::authority::Authority;
use crate::backlog::backlogs;
use crate::carrying::Carrying;
use crate::connect::{Connection, Credential, Dialling, Endpoint};
use crate::epoch::{Epoch, Standing, while_last};
use crate::findings::findings;
use crate::guests::Guests;
use crate::holding::{Read, look};
use crate::logs::Logs;
use crate::memory::Memory;
use crate::publish::store;
use crate::pull::Receipt;
use crate::taking::{LastTaken, TAKE_WAIT, Taking};
use crate::watch::Watch;

/// What a controller is told of its bus.
#[derive(Debug, Clone)]
pub struct ControllerSetup {
    /// Where it is.
    pub endpoint: Endpoint,
    /// The controller's credential in the account that holds JetStream.
    pub credential: Credential,
    /// What that account is called, as it stands in [`BusFacts::account`].
    pub account: String,
    /// Who tells the server what each principal may do.
    pub authority: Authority,
    /// Copies of each stream.
    pub replicas: u8,
    /// How to keep connecting.
    pub dialling: Dialling,
}

/// The controller, over JetStream.
#[derive(Debug)]
pub struct NatsController {
    connection: Connection,
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: Credential,
    account: String,
    pub(crate) authority: Authority,
    replicas: u8,
    api: Arc<Api>,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) disturbed: Arc<Disturbed>,
    pub(crate) guests: Arc<Guests>,
    /// Held by the one proof there is at a time.
    pub(crate) proving: Mutex<()>,
    epoch: Epoch,
    taking: Mutex<Taking>,
    last_taken: LastTaken,
    follows_events: AtomicBool,
    pub(crate) carrying: Carrying,
    heartbeats: Mutex<Subscriber>,
    logs: Logs,
    /// Joined where its disturbances are heard: a panic there is not to go unheard.
    watch: Mutex<JoinSet<()>>,
}

impl NatsController {
    /// Connects. Nothing is asserted and nothing taken over yet.
    pub async fn connect(setup: ControllerSetup) -> Result<Self, BusError> {
        let connection = Connection::open(
            &setup.endpoint,
            &setup.credential,
            &Principal::Controller,
            setup.dialling,
        )
        .await?;
        let heartbeats = connection
            .subscribe(subject::heartbeats().as_str(), None)
            .await?;
        let logs = Logs::new(&connection).await?;
        let api = Arc::new(Api::new(connection.clone()));
        let memory = Arc::new(Mutex::new(Memory::default()));
        let disturbed = Arc::new(Disturbed::default());
        let watch = Watch {
            connection: connection.clone(),
            api: Arc::clone(&api),
            memory: Arc::clone(&memory),
            disturbed: Arc::clone(&disturbed),
        };
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            if let Err(error) = watch.run().await {
                tracing::error!(%error, "definitions changed by others are no longer noticed");
            }
        });
        Ok(Self {
            taking: Mutex::new(Taking::new(
                consumer(subject::control_stream())?,
                consumer(subject::events_stream())?,
            )),
            epoch: Epoch::new(connection.clone(), Arc::clone(&api)),
            carrying: Carrying::new(connection.clone()),
            connection,
            endpoint: setup.endpoint,
            credential: setup.credential,
            account: setup.account,
            last_taken: LastTaken::default(),
            authority: setup.authority,
            replicas: setup.replicas,
            api,
            memory,
            disturbed,
            guests: Arc::default(),
            proving: Mutex::new(()),
            follows_events: AtomicBool::new(false),
            heartbeats: Mutex::new(heartbeats),
            logs,
            watch: Mutex::new(watching),
        })
    }

    /// How often the JetStream API was used so far.
    pub fn api_calls(&self) -> ApiCalls {
        self.api.calls()
    }

    /// What was last said on a subject of the stream of declarations.
    async fn last(&self, on: &Subject) -> Result<Option<Vec<u8>>, BusError> {
        let stream = subject::nodes_stream();
        let last = self.api.last(&stream, on.as_str()).await?;
        Ok(last.map(|(_, body)| body))
    }

    /// With what each stream begins that is made anew: above every sequence this controller has met in the one before. An
    /// epoch taken there can then never be the last one here, and a message is never taken for one known from there.
    fn first_sequences(&self) -> BTreeMap<StreamName, u64> {
        let control = self.last_taken.control.load(Ordering::Relaxed);
        let events = self.last_taken.events.load(Ordering::Relaxed);
        [
            (subject::nodes_stream(), self.epoch.sequence().unwrap_or(0)),
            (subject::control_stream(), control),
            (subject::events_stream(), events),
        ]
        .into_iter()
        .filter(|(_, met)| *met > 0)
        .map(|(stream, met)| (stream, met.saturating_add(ON_THEIR_WAY)))
        .collect()
    }

    /// Stores in the stream of declarations, unless another controller has taken over.
    async fn store_while_last(&self, subject: &Subject, body: Vec<u8>) -> Result<(), BusError> {
        let Some(epoch) = self.epoch.sequence() else {
            return Err(BusError::Refused {
                what: subject.to_string(),
                why: "this controller has not taken over".to_owned(),
            });
        };
        let stored = store(&self.connection, subject.as_str(), while_last(epoch), body);
        match stored.await {
            Err(BusError::Fenced(_)) => Err(self.not_last().await),
            other => other.map(drop),
        }
    }

    /// What it means that this epoch was not the last: a stream made anew holds none at first, and one of this
    /// controller's own may have begun since. An assertion under way is about to see to that.
    async fn not_last(&self) -> BusError {
        let _asserting = self.memory.lock().await;
        match self.epoch.look().await {
            Ok(standing) => {
                if standing == Standing::Lost {
                    self.disturbed.tell(Disturbance::Declarations);
                }
                BusError::Away("the stream of declarations was made anew".to_owned())
            }
            Err(error) => error,
        }
    }

    /// Whether another controller has taken over: one that declares nothing is told by nobody. An assertion under way
    /// looks for itself, and a look that gets no answer is made up for at the next one.
    async fn look_who_is_last(&self) -> Result<(), BusError> {
        let Ok(_not_asserting) = self.memory.try_lock() else {
            return Ok(());
        };
        match timeout(LOOKED_WITHIN, self.epoch.look()).await {
            Ok(Ok(Standing::Lost)) => self.disturbed.tell(Disturbance::Declarations),
            Ok(Err(error)) if error.is_final() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        Ok(())
    }
}

impl ControllerBus for NatsController {
    type Receipt = Receipt;

    fn facts(&self) -> BusFacts {
        BusFacts {
            domain: self.connection.domain(),
            account: self.account.clone(),
        }
    }

    fn link(&self) -> watch::Receiver<Link> {
        self.connection.link()
    }

    async fn make_streams(&self, streams: &[StreamSpec]) -> Result<(), BusError> {
        self.connection.require_up()?;
        self.connection.check_version()?;
        let _not_asserting = self.memory.lock().await;
        make_missing(&self.api, self.replicas, streams).await
    }

    async fn take_over(&self) -> Result<(), BusError> {
        self.connection.check_version()?;
        self.epoch.begin().await
    }

    async fn assert(&self, plan: &Plan) -> Result<Asserted, BusError> {
        self.connection.require_up()?;
        self.connection.check_version()?;
        let mut memory = self.memory.lock().await;
        // Whoever took over since has brought the bus to a plan that must not be undone.
        self.epoch.look().await?;
        let (with_guests, guests) = self.guests.among(plan);
        let asserting = Asserting {
            api: &self.api,
            authority: &self.authority,
            facts: self.facts(),
            replicas: self.replicas,
            plan: &with_guests,
            done: Asserted::default(),
            refused: None,
        };
        self.carrying.leave(plan).await;
        let first = self.first_sequences();
        let keep_epoch = || async {
            if self.epoch.keep().await? == Standing::Lost {
                // With the epoch before, what nodes were told is gone too.
                self.disturbed.tell(Disturbance::Declarations);
            }
            Ok(())
        };
        let asserted = asserting.run(&mut memory, &first, keep_epoch).await;
        // One that could not do everything may have done this.
        if memory.plan.as_ref() == Some(&*with_guests) {
            if self.guests.are_awaited(guests) {
                self.guests.are_known(guests);
            }
            self.carrying.read(plan, &self.facts())?;
        }
        let asserted = asserted?;
        let events = consumer(subject::events_stream())?;
        let follows = plan.consumers.contains_key(&events);
        self.follows_events.store(follows, Ordering::Relaxed);
        Ok(asserted)
    }

    async fn disturbed(&self) -> Disturbance {
        let mut watch = self.watch.lock().await;
        tokio::select! {
            what = self.disturbed.heard() => what,
            Some(ended) = watch.join_next() => {
                if let Err(Ok(panic)) = ended.map_err(tokio::task::JoinError::try_into_panic) {
                    resume_unwind(panic);
                }
                self.disturbed.heard().await
            }
        }
    }

    async fn take(&self, max: usize) -> Result<Vec<Delivery<Receipt>>, BusError> {
        let mut taking = self.taking.lock().await;
        if Instant::now() >= taking.look_at {
            taking.look_at = Instant::now() + LOOK_WHO_EACH;
            self.look_who_is_last().await?;
        }
        if max == 0 {
            sleep_until(Instant::now() + TAKE_WAIT).await;
            return Ok(Vec::new());
        }
        let follows = self.follows_events.load(Ordering::Relaxed);
        let bus = self.facts();
        let taken = taking
            .take(&self.connection, &bus, follows, &self.disturbed, max)
            .await?;
        for Delivery { key, .. } in &taken {
            let last = match key.queue {
                Queue::Control => &self.last_taken.control,
                Queue::Events => &self.last_taken.events,
            };
            last.fetch_max(key.sequence, Ordering::Relaxed);
        }
        Ok(taken)
    }

    async fn settle(&self, receipt: &Receipt, how: Settlement) -> Result<(), BusError> {
        let body = match how {
            Settlement::Done => DONE.to_vec(),
            Settlement::Hold(delay) => again_after(delay),
        };
        self.connection.tell(&receipt.0, body).await
    }

    async fn heartbeat(&self) -> (Subject, Vec<u8>) {
        let mut heartbeats = self.heartbeats.lock().await;
        loop {
            let Some(message) = heartbeats.next().await else {
                return std::future::pending().await;
            };
            if let Ok(subject) = Subject::new(message.subject.as_str()) {
                return (subject, message.payload.to_vec());
            }
        }
    }

    async fn ask(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        self.logs.are_wanted();
        let ask = subject::ask(node);
        self.connection.tell(ask.as_str(), body).await
    }

    async fn log(&self) -> (Subject, Vec<u8>) {
        self.logs.next(&self.connection).await
    }

    async fn declared(&self, node: &NodeName) -> Result<Option<Vec<u8>>, BusError> {
        self.last(&subject::declare(node)).await
    }

    async fn declare(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        self.store_while_last(&subject::declare(node), body).await
    }

    async fn answer(&self, to: &Subject, body: Vec<u8>) -> Result<(), BusError> {
        self.connection.tell(to.as_str(), body).await
    }

    async fn park(&self, of: &Subject, body: Vec<u8>, why: &str) -> Result<(), BusError> {
        let mut headers = HeaderMap::new();
        headers.insert("Mesh-Subject", of.as_str());
        headers.insert("Mesh-Reason", one_line(why));
        let parked = subject::parked(of);
        store(&self.connection, parked.as_str(), headers, body)
            .await
            .map(drop)
    }

    async fn mark(&self) -> Result<Option<Vec<u8>>, BusError> {
        self.last(&subject::mark()).await
    }

    async fn leave_mark(&self, mark: Vec<u8>) -> Result<(), BusError> {
        self.store_while_last(&subject::mark(), mark).await
    }

    async fn backlogs(&self) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
        self.connection.require_up()?;
        backlogs(&self.api).await
    }

    async fn findings(&self) -> Result<Vec<Finding>, BusError> {
        self.connection.require_up()?;
        let mut found = findings(&self.connection, &self.authority, self.replicas).await;
        found.extend(self.logs.finding());
        if let Ok(memory) = self.memory.try_lock() {
            found.extend(memory.nearly_full());
            found.extend(memory.of_consumers());
        }
        let held = look(&self.memory, self.facts(), self.replicas, |plan| {
            Read::of(&self.api, &self.authority, plan)
        });
        found.extend(held.await);
        Ok(found)
    }

    async fn prove(&self, plan: &Plan, probers: &[Prober]) -> Result<Vec<Proven>, UnprovenError> {
        self.connection.require_up()?;
        self.prove_all(plan, probers).await
    }

    async fn attempt(
        &self,
        plan: &Plan,
        prober: &Prober,
        act: &Act,
    ) -> Result<Attempted, UnprovenError> {
        self.connection.require_up()?;
        self.attempt_one(plan, prober, act).await
    }
}

/// The controller's own consumer of a stream.
fn consumer(stream: StreamName) -> Result<ConsumerRef, BusError> {
    ConsumerRef::new(stream, "controller").map_err(|InvalidBusName(name)| BusError::Refused {
        what: name,
        why: "no consumer can be called so".to_owned(),
    })
}

/// A header ends with its line.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// More than can be on their way to a controller at once, delivered and not yet taken.
const ON_THEIR_WAY: u64 = 4096;
/// For so long a controller may go on taking after another has taken over.
const LOOK_WHO_EACH: Duration = Duration::from_secs(2);
const LOOKED_WITHIN: Duration = Duration::from_secs(2);
