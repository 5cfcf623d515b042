//! The controller's side of the bus.

mod ears;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::{
    Asserted, Attempted, Backlog, BusError, ControllerBus, Delivery, Disturbance, Disturbed,
    Finding, Link, Prober, Proven, Settlement, UnprovenError,
};
use mesh_derive::proof::Act;
use mesh_derive::topology::{
    BrokerFacts, BrokerVersion, Queue as Of, QueueKind, Topology, topology,
};
use mesh_derive::{Bounds, Plan, derive, subject};
use mesh_model::{BusFacts, NodeName, Records, SeatName, StreamSpec, Subject};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::asserting::{Asserting, Found, Memory, make_missing};
use crate::backlog::backlogs;
use crate::carrying::Carrying;
use crate::credential::password_hash;
use crate::endpoint::Endpoint;
use crate::epoch::{Epoch, Standing};
use crate::findings::findings;
use crate::intake::{Intake, Receipt};
use crate::line::{Dialling, FirstAttempt, Line};
use crate::management::{Management, part};
use crate::publish::{Letter, Published, Publisher, place_of, unrouted};
use crate::watch::Watch;
use ears::Ears;

/// What a controller is told of its bus.
#[derive(Debug, Clone)]
pub struct ControllerSetup {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Where it is managed, and by whom.
    pub management: Management,
    /// The bounds of what is asserted.
    pub bounds: Bounds,
    /// What kind of queues hold what must not be lost.
    pub queues: QueueKind,
    /// How to keep connecting.
    pub dialling: Dialling,
}

/// The controller, over AMQP.
#[derive(Debug)]
pub struct AmqpController {
    vhost: String,
    reached: BrokerVersion,
    encrypted: bool,
    pub(crate) bounds: Bounds,
    queues: QueueKind,
    pub(crate) management: Arc<Management>,
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) consuming: Arc<Line>,
    publisher: Publisher,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) disturbed: Arc<Disturbed>,
    link: watch::Receiver<Link>,
    intake: Arc<Intake>,
    /// When to look again who took over last.
    taking: Mutex<Instant>,
    ears: Ears,
    pub(crate) carrying: Carrying,
    /// Joined where its disturbances are heard: a panic there is not to go unheard.
    tasks: Mutex<JoinSet<()>>,
}

impl AmqpController {
    /// Connects. Nothing is asserted and nothing taken over yet; until that the controller logs in nowhere, since it is
    /// the epoch that makes its user.
    pub async fn connect(setup: ControllerSetup) -> Result<Self, BusError> {
        let management = Arc::new(setup.management);
        let reached = Found::read(&management, &setup.endpoint.vhost).await;
        let (up, reached) = match reached {
            Ok(found) => {
                check_version(&management, found.version)?;
                (Link::Up, found.version)
            }
            Err(error) if error.is_passing() && setup.dialling.first == FirstAttempt::MayFail => {
                tracing::warn!(%error, "the bus is not reached; it is tried again and again");
                (Link::Down, BrokerVersion::OLDEST)
            }
            Err(error) => return Err(error),
        };
        let endpoint = Arc::new(setup.endpoint);
        let line = || Arc::new(Line::new(Arc::clone(&endpoint), None, setup.dialling.seed));
        let (consuming, publishing) = (line(), line());
        let epoch = Epoch::new(Arc::clone(&management), &endpoint.vhost, &endpoint.users);
        let memory = Arc::new(Mutex::new(Memory::default()));
        let disturbed = Arc::new(Disturbed::default());
        let (watch, link) = Watch::new(
            Arc::clone(&management),
            endpoint.vhost.clone(),
            Arc::clone(&consuming),
            Arc::clone(&memory),
            Arc::clone(&disturbed),
            up,
        );
        let mut tasks = JoinSet::new();
        tasks.spawn(watch.run());
        Ok(Self {
            vhost: endpoint.vhost.clone(),
            reached,
            encrypted: endpoint.trust.is_some(),
            bounds: setup.bounds,
            queues: setup.queues,
            management,
            epoch: Arc::new(epoch),
            consuming,
            publisher: Publisher::new(publishing),
            memory,
            disturbed,
            link,
            intake: Arc::new(Intake::new(endpoint.users.clone())),
            taking: Mutex::new(Instant::now()),
            ears: Ears::new(endpoint.users.clone()),
            carrying: Carrying::new(endpoint.users.clone()),
            tasks: Mutex::new(tasks),
        })
    }

    /// Stops listening, gives back what is not settled, and ends its connections: what the broker has then comes first to
    /// the next controller. One that is only dropped does the same without waiting for it.
    pub async fn close(&self) {
        self.ears.stop().await;
        self.carrying.stop().await;
        self.consuming.hang_up().await;
        self.publisher.line().hang_up().await;
    }

    pub(crate) fn broker(&self, version: BrokerVersion) -> BrokerFacts {
        BrokerFacts {
            vhost: self.vhost.clone(),
            version,
            queues: self.queues,
            users: self.epoch.names().users,
        }
    }

    /// What the broker was when this controller first reached it: what is declared is held against it.
    pub fn broker_facts(&self) -> BrokerFacts {
        self.broker(self.reached)
    }

    /// What is there whatever was declared: the mesh's own queues, and the controller's authority.
    fn own_topology(&self, version: BrokerVersion) -> Result<Topology, BusError> {
        let name = "own".parse().map_err(|error| BusError::Refused {
            what: "a mesh of nothing".to_owned(),
            why: format!("{error}"),
        })?;
        let nothing = derive(&Records::new(name, self.facts()), &self.bounds);
        Ok(topology(&nothing, &self.bounds, &self.broker(version)))
    }

    pub(crate) async fn found(&self) -> Result<Found, BusError> {
        let found = Found::read(&self.management, &self.vhost).await?;
        check_version(&self.management, found.version)?;
        Ok(found)
    }

    /// Publishes as the controller, unless another has taken over: then it is that, and not what the broker says of a
    /// user it no longer knows, that went wrong.
    pub(crate) async fn publish(&self, letter: &Letter, body: &[u8]) -> Result<(), BusError> {
        if self.epoch.login().is_none() {
            return Err(BusError::Refused {
                what: letter.to.to_string(),
                why: "this controller has not taken over".to_owned(),
            });
        }
        match self.publisher.publish(letter, body).await {
            Ok(Published::Taken) => Ok(()),
            Ok(Published::Unrouted) => Err(unrouted(&letter.to)),
            Err(error @ BusError::Full(_)) => Err(error),
            Err(error) => match self.epoch.look().await {
                Err(fenced) if fenced.is_final() => Err(fenced),
                _ => Err(error),
            },
        }
    }

    /// Whether the virtual host is there.
    async fn is_there(&self) -> Result<bool, BusError> {
        let path = format!("/api/vhosts/{}?columns=name", part(&self.vhost));
        Ok(self.management.get(&path).await?.is_some())
    }

    /// What a queue of one message has, without taking it away.
    async fn newest(&self, queue: &Of) -> Result<Option<Vec<u8>>, BusError> {
        let path = format!(
            "/api/queues/{}/{}/get",
            part(&self.vhost),
            part(&queue.name())
        );
        let look = json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "base64" });
        for _ in 0..LOOKS {
            let found = match self.management.post(&path, &look).await {
                // To look into a virtual host takes a right to it, and nobody has one to what is not there yet.
                Err(BusError::Refused { .. }) if !self.is_there().await? => None,
                found => found?,
            };
            let Some(found) = found else { return Ok(None) };
            if let Some(body) = found.pointer("/0/payload").and_then(Value::as_str) {
                let body = data_encoding::BASE64.decode(body.as_bytes());
                return body
                    .map(Some)
                    .map_err(|error| BusError::Away(error.to_string()));
            }
            // Somebody else may be looking just now: then it is out, for a moment.
            sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }
}

impl ControllerBus for AmqpController {
    type Receipt = Receipt;

    /// Nothing of a broker stands in subjects.
    fn facts(&self) -> BusFacts {
        BusFacts::default()
    }

    fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    async fn make_streams(&self, _streams: &[StreamSpec]) -> Result<(), BusError> {
        let _not_asserting = self.memory.lock().await;
        let found = self.found().await?;
        let own = self.own_topology(found.version)?;
        let names = self.epoch.names();
        make_missing(&self.management, &own, &found.document, &names).await
    }

    async fn take_over(&self) -> Result<(), BusError> {
        let found = self.found().await?;
        self.epoch.begin(&self.own_topology(found.version)?).await?;
        if let Some(login) = self.epoch.login() {
            self.consuming.log_in_as(login.clone()).await;
            self.publisher.line().log_in_as(login).await;
        }
        let held = u16::try_from(self.bounds.held).unwrap_or(u16::MAX);
        self.ears.listen(&self.consuming, &self.intake, held).await;
        Ok(())
    }

    async fn assert(&self, plan: &Plan) -> Result<Asserted, BusError> {
        let mut memory = self.memory.lock().await;
        // Whoever took over since has brought the bus to a plan that must not be undone.
        if self.epoch.look().await? == Standing::Lost {
            // With the users, what nodes were told may be gone too.
            self.disturbed.tell(Disturbance::Declarations);
        }
        let found = self.found().await?;
        // What is given back comes first to whoever may read it then.
        self.carrying.leave(plan).await;
        let users = plan.users.iter();
        let mut hashes = self.epoch.hash();
        hashes.extend(users.filter_map(|(key, who)| Some((who.clone(), password_hash(key)?))));
        let retiring = plan.retiring.iter();
        let retiring = retiring.filter_map(|(key, who)| Some((who.clone(), password_hash(key)?)));
        let asserting = Asserting {
            retiring: retiring.collect(),
            management: &self.management,
            epoch: &self.epoch,
            plan,
            bounds: &self.bounds,
            topology: &fitting(topology(plan, &self.bounds, &self.broker(found.version)))?,
            hashes,
            found: found.document,
            done: Asserted::default(),
            refused: None,
        };
        let asserted = asserting.run(&mut memory).await;
        // One that could not do everything may have done this; what is refused is tried again until it is not.
        if !matches!(&asserted, Err(error) if error.is_passing() || error.is_final()) {
            self.carrying.read(plan, &self.consuming).await;
        }
        asserted
    }

    async fn disturbed(&self) -> Disturbance {
        let mut tasks = self.tasks.lock().await;
        tokio::select! {
            what = self.disturbed.heard() => what,
            Some(ended) = tasks.join_next() => {
                if let Err(Ok(panic)) = ended.map_err(tokio::task::JoinError::try_into_panic) {
                    resume_unwind(panic);
                }
                self.disturbed.heard().await
            }
        }
    }

    async fn take(&self, max: usize) -> Result<Vec<Delivery<Receipt>>, BusError> {
        let mut look_at = self.taking.lock().await;
        let until = Instant::now() + TAKE_WAIT;
        self.ears.are_well();
        if Instant::now() >= *look_at {
            *look_at = Instant::now() + LOOK_WHO_EACH;
            match self.epoch.look().await {
                Err(error) if error.is_final() => return Err(error),
                // A look that gets no answer is made up for at the next one.
                _ => {}
            }
        }
        if max == 0 {
            sleep_until(until).await;
            return Ok(Vec::new());
        }
        let taken = self.intake.take(max, until).await;
        match self.intake.deaf() {
            Some(error) if taken.is_empty() => match self.epoch.look().await {
                Err(fenced) if fenced.is_final() => Err(fenced),
                _ => Err(error),
            },
            _ => Ok(taken),
        }
    }

    async fn settle(&self, receipt: &Receipt, how: Settlement) -> Result<(), BusError> {
        match how {
            Settlement::Done => self.intake.done(receipt).await,
            Settlement::Hold(delay) => {
                self.intake.hold(receipt, delay);
                Ok(())
            }
        }
    }

    async fn heartbeat(&self) -> (Subject, Vec<u8>) {
        self.ears.heartbeat().await
    }

    async fn ask(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        let to = place_of(&subject::ask(node))?;
        self.publisher.tell(&to, &body).await
    }

    async fn log(&self) -> (Subject, Vec<u8>) {
        self.ears.log().await
    }

    async fn declared(&self, node: &NodeName) -> Result<Option<Vec<u8>>, BusError> {
        self.newest(&Of::Node(node.clone())).await
    }

    async fn declare(&self, node: &NodeName, body: Vec<u8>) -> Result<(), BusError> {
        let letter = Letter::to(&subject::declare(node), &body)?;
        self.publish(&letter, &body).await
    }

    async fn answer(&self, to: &Subject, body: Vec<u8>) -> Result<(), BusError> {
        let mut letter = Letter::to(to, &body)?;
        letter.must_arrive = false;
        letter.headers = vec![(ANSWERS_TO, to.to_string())];
        self.publish(&letter, &body).await
    }

    async fn park(&self, of: &Subject, body: Vec<u8>, why: &str) -> Result<(), BusError> {
        let mut letter = Letter::to(&subject::parked(of), &body)?;
        letter.headers = vec![
            ("Mesh-Subject", of.to_string()),
            ("Mesh-Reason", why.to_owned()),
        ];
        self.publish(&letter, &body).await
    }

    async fn mark(&self) -> Result<Option<Vec<u8>>, BusError> {
        self.newest(&Of::Mark).await
    }

    async fn leave_mark(&self, mark: Vec<u8>) -> Result<(), BusError> {
        let letter = Letter::to(&subject::mark(), &mark)?;
        self.publish(&letter, &mark).await
    }

    async fn backlogs(&self) -> Result<BTreeMap<SeatName, Backlog>, BusError> {
        backlogs(&self.management, &self.vhost).await
    }

    async fn findings(&self) -> Result<Vec<Finding>, BusError> {
        let timeout = self.intake.timeout();
        findings(&self.management, self.queues, self.encrypted, timeout).await
    }

    async fn prove(&self, plan: &Plan, probers: &[Prober]) -> Result<Vec<Proven>, UnprovenError> {
        self.prove_all(plan, probers).await
    }

    async fn attempt(
        &self,
        plan: &Plan,
        prober: &Prober,
        act: &Act,
    ) -> Result<Attempted, UnprovenError> {
        self.attempt_one(plan, prober, act).await
    }
}

/// What holds together. A broker takes nearly all of the rest without a word, and then does something else.
fn fitting(topology: Topology) -> Result<Topology, BusError> {
    let faults = topology.check();
    if faults.is_empty() {
        return Ok(topology);
    }
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Err(BusError::Refused {
        what: "what is declared".to_owned(),
        why: faults.join("; "),
    })
}

fn check_version(management: &Management, version: BrokerVersion) -> Result<(), BusError> {
    if version >= BrokerVersion::OLDEST {
        return Ok(());
    }
    Err(BusError::TooOld {
        url: format!("{}:{}", management.host, management.port),
        found: version.to_string(),
        needed: BrokerVersion::OLDEST.to_string(),
    })
}

/// In which header an answer says to which address it is.
pub(crate) const ANSWERS_TO: &str = "Mesh-Subject";
/// After this long a `take` comes back empty-handed.
const TAKE_WAIT: Duration = Duration::from_secs(2);
/// For so long a controller may go on taking after another has taken over.
const LOOK_WHO_EACH: Duration = Duration::from_secs(2);
const LOOKS: usize = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(30);
