//! A module's side of the bus: what it emits and sends, and ears it may be granted later.

use std::sync::Arc;

use mesh_bus::{BusError, Incoming, Listener, ModuleBus, ModuleSettlement, Source};
use mesh_derive::subject;
use mesh_derive::topology::Queue;
use mesh_model::{EventName, EventRef, InstanceRef, ModuleName, Principal, SeatName, Subject};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::credential::Credential;
use crate::ear::{self, Told};
use crate::endpoint::Endpoint;
use crate::inbox::{Inbox, ModuleReceipt};
use crate::line::{Dialling, Line, Login};
use crate::node::{acknowledge, lines};
use crate::publish::{Letter, Publisher, place_of};

/// An instance of a module, over AMQP.
#[derive(Debug)]
pub struct AmqpModule {
    consuming: Arc<Line>,
    publisher: Publisher,
    module: ModuleName,
    users: String,
}

/// An ear on one source. A queue the broker does not let it read is tried again until it does.
#[derive(Debug)]
pub struct AmqpListener {
    inbox: Arc<Inbox>,
    _task: JoinSet<()>,
}

impl AmqpModule {
    /// Connects.
    pub async fn connect(
        endpoint: &Endpoint,
        credential: &Credential,
        instance: &InstanceRef,
        dialling: Dialling,
    ) -> Result<Self, BusError> {
        let who = Principal::Instance(instance.clone());
        let (consuming, publishing) = lines(endpoint, credential, &who, dialling).await?;
        Ok(Self {
            consuming,
            publisher: Publisher::new(publishing),
            module: instance.module.clone(),
            users: endpoint.users.clone(),
        })
    }

    /// Has another credential from now on. What there is of connections goes on: a broker asks for a password when one is
    /// made, and whoever made it is the same.
    pub fn take(&self, credential: &Credential) {
        for line in [&*self.consuming, self.publisher.line()] {
            if let Some(user) = line.user() {
                let credential = credential.clone();
                line.log_in_next_as(Login { user, credential });
            }
        }
    }

    fn letter(subject: &Subject, id: &str, must_arrive: bool) -> Result<Letter, BusError> {
        if id.is_empty() || id.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(BusError::Refused {
                what: format!("the message id {id:?}"),
                why: "an id is one word".to_owned(),
            });
        }
        Ok(Letter {
            to: place_of(subject)?,
            id: id.to_owned(),
            must_arrive,
            headers: Vec::new(),
        })
    }
}

impl ModuleBus for AmqpModule {
    type Receipt = ModuleReceipt;
    type Listener = AmqpListener;

    /// An event that nobody follows is kept for nobody.
    async fn emit(&self, event: &EventName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let event = EventRef {
            module: self.module.clone(),
            event: event.clone(),
        };
        let letter = Self::letter(&subject::event(&event), id, false)?;
        self.publisher.publish(&letter, &body).await.map(drop)
    }

    async fn send(&self, seat: &SeatName, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let letter = Self::letter(&subject::work(seat, &self.module), id, true)?;
        self.publisher.deliver(&letter, &body).await
    }

    async fn listen(&self, source: Source) -> Result<AmqpListener, BusError> {
        let queue = match &source {
            Source::Followed => Queue::Module(self.module.clone()),
            Source::Seat(seat) => Queue::Seat(seat.clone()),
        };
        let prefetch = out_at_once(&source);
        let inbox = Arc::new(Inbox::new(self.module.clone(), source, self.users.clone()));
        let queue = ear::Queue {
            name: queue.name(),
            prefetch,
            settled: false,
            priority: None,
        };
        let hears = Arc::clone(&inbox);
        let hear = move |heard| hears.heard(heard);
        let mut task = JoinSet::new();
        let told = Arc::new(Told::default());
        task.spawn(ear::listen(Arc::clone(&self.consuming), queue, told, hear));
        Ok(AmqpListener { inbox, _task: task })
    }

    /// A message in hand needs no sign of work.
    async fn settle(&self, receipt: &ModuleReceipt, how: ModuleSettlement) -> Result<(), BusError> {
        settle(receipt, how).await
    }
}

/// Settles what came into somebody's inbox.
pub(crate) async fn settle(receipt: &ModuleReceipt, how: ModuleSettlement) -> Result<(), BusError> {
    match how {
        ModuleSettlement::Done => acknowledge(receipt.done()).await,
        ModuleSettlement::Working => Ok(()),
        ModuleSettlement::Again(delay) => {
            receipt.again(delay);
            Ok(())
        }
    }
}

impl Listener for AmqpListener {
    type Receipt = ModuleReceipt;

    fn terms(&self) -> watch::Receiver<u64> {
        self.inbox.terms()
    }

    async fn next(&mut self) -> Incoming<ModuleReceipt> {
        Inbox::next(&self.inbox).await
    }
}

/// How many of a source one reader has out.
pub(crate) const fn out_at_once(source: &Source) -> u16 {
    match source {
        Source::Followed => EVENTS_OUT,
        Source::Seat(_) => WORK_OUT,
    }
}

/// Instances compete for what one queue has; what one of them has out waits for it.
const EVENTS_OUT: u16 = 64;
const WORK_OUT: u16 = 8;
