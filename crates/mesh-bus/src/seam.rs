//! What a bus must do, for each of those who use one.
//!
//! Every future here may be dropped before it is ready only where the method says so.

use std::collections::BTreeMap;
use std::future::{Future, pending, ready};
use std::sync::Arc;
use std::time::Duration;

use mesh_control::{MessageKey, NodeSettlement, Settlement};
use mesh_derive::proof::Act;
use mesh_derive::{Plan, subject};
use mesh_model::{
    BusFacts, BusKind, Declaration, EventName, NodeName, SeatName, StreamName, StreamSpec, Subject,
};
use tokio::sync::watch;

use crate::backlog::Backlog;
use crate::proof::{Attempted, Prober, Proven, UnprovenError};

/// What went wrong on the bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// It cannot be reached now; the same call may succeed later.
    #[error("the bus is away: {0}")]
    Away(String),
    /// Another controller has taken over.
    #[error("another controller has taken over this bus; this one stops (last epoch: {0})")]
    Fenced(String),
    /// The server does not grant it.
    #[error("the bus refuses {what}: {why}")]
    Refused {
        /// What was attempted.
        what: String,
        /// What the server says.
        why: String,
    },
    /// A queue that tells its publishers when it is full.
    #[error("{0} is full; what cannot be queued is sent again later")]
    Full(String),
    /// The bus takes no message of that size.
    #[error(
        "{what}: the message is too large for this bus: {why}; send less at once, or have the bus take more"
    )]
    TooLarge {
        /// Where it was to go.
        what: String,
        /// What the server says.
        why: String,
    },
    /// The server is older than what the mesh needs.
    #[error("the server at {url} is version {found}; the mesh needs {needed} or newer")]
    TooOld {
        /// Where.
        url: String,
        /// What it is.
        found: String,
        /// What it would have to be.
        needed: String,
    },
    /// A definition differs from the derived one in a way that cannot be changed in place.
    #[error(
        "{what} differs in {field}, which cannot be changed in place ({found} instead of {wanted}); {remedy}"
    )]
    Immutable {
        /// Which stream or consumer.
        what: String,
        /// Which field.
        field: String,
        /// What it has.
        found: String,
        /// What it should have.
        wanted: String,
        /// What an operator can do.
        remedy: String,
    },
}

impl BusError {
    /// Whether trying again later can help.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Full(_))
    }

    /// Whether it is the message itself that is not taken: then no retry of it helps, whatever an operator grants.
    pub const fn is_of_the_message(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }

    /// Whether a controller must stop: another has taken over, or this bus can never be used. Anything else an operator
    /// can mend while it runs.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Fenced(_) | Self::TooOld { .. })
    }
}

/// Whether the bus can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It can.
    Up,
    /// Of two it is one that cannot, and is tried again for ever.
    Without(BusKind),
    /// It cannot, and is tried again for ever.
    Down,
}

/// A message in hand: the bus keeps it until it is settled.
#[derive(Debug, Clone)]
pub struct Delivery<R> {
    /// Which message.
    pub key: MessageKey,
    /// What it was published on.
    pub subject: Subject,
    /// What it says.
    pub body: Vec<u8>,
    /// What settling it takes.
    pub receipt: R,
}

/// What may have been changed behind the controller's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    /// Definitions.
    Definitions,
    /// Those, and what nodes were told: their declarations may be gone.
    Declarations,
}

impl Disturbance {
    /// What it is that a stream is another one, or was.
    pub fn of(stream: &StreamName) -> Self {
        if *stream == subject::nodes_stream() {
            Self::Declarations
        } else {
            Self::Definitions
        }
    }
}

/// What bringing the bus to a plan took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asserted {
    /// Definitions that were missing or different, each in words; empty when nothing was written.
    pub written: Vec<String>,
    /// Definitions nobody derived. They are left.
    pub strays: Vec<String>,
}

/// Something `doctor` says of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it wants doing something about.
    pub warning: bool,
    /// What, in one sentence.
    pub text: String,
}

/// The controller's side.
pub trait ControllerBus: Send + Sync + 'static {
    /// What settling a message takes.
    type Receipt: Clone + Send + Sync + 'static;

    /// What of this bus stands in subjects.
    fn facts(&self) -> BusFacts;

    /// Whether it can be reached, and each change of that.
    fn link(&self) -> watch::Receiver<Link>;

    /// Makes those of these streams that are not there, and touches nothing else: what taking over needs.
    fn make_streams(
        &self,
        streams: &[StreamSpec],
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Takes over: from here on an earlier controller's declarations, marks and assertions are refused, and within a few
    /// seconds it takes no more messages. Each of its calls that finds this out answers [`BusError::Fenced`].
    fn take_over(&self) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Brings the bus to the plan: reads what there is, compares, writes only what differs. When it returns, every
    /// definition exists and every user of the plan can connect.
    fn assert(&self, plan: &Plan) -> impl Future<Output = Result<Asserted, BusError>> + Send;

    /// Returns when what the mesh defined may have been changed by somebody else, or may have been while the bus was away.
    /// May be dropped.
    fn disturbed(&self) -> impl Future<Output = Disturbance> + Send;

    /// Waits for messages of both queues and takes at most `max`; comes back empty-handed after a while. Must be run to
    /// its end: what it took and did not return is sent again only after the ack wait.
    fn take(
        &self,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Receipt>>, BusError>> + Send;

    /// Settles a message. Not durable at once: a server that crashes may send it again.
    fn settle(
        &self,
        receipt: &Self::Receipt,
        how: Settlement,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Waits for the next sign of life: subject and body. May be dropped.
    fn heartbeat(&self) -> impl Future<Output = (Subject, Vec<u8>)> + Send;

    /// Asks a node for something, for now; a node that is not there never hears of it.
    fn ask(
        &self,
        _node: &NodeName,
        _body: Vec<u8>,
    ) -> impl Future<Output = Result<(), BusError>> + Send {
        ready(Err(BusError::Away("nobody is asked here".to_owned())))
    }

    /// Waits for the next part of a log that some node says: subject and body. What nobody waits for is lost. May be
    /// dropped.
    fn log(&self) -> impl Future<Output = (Subject, Vec<u8>)> + Send {
        pending()
    }

    /// What a node was last told, if the bus still has it.
    fn declared(
        &self,
        node: &NodeName,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, BusError>> + Send;

    /// Publishes a node's declaration, in place of the one before, and waits until the bus has it.
    fn declare(
        &self,
        node: &NodeName,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Answers into somebody's inbox; not kept for one who is not there.
    fn answer(
        &self,
        to: &Subject,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Keeps a copy of what is let go, with the reason, and waits until the bus has it.
    fn park(
        &self,
        of: &Subject,
        body: Vec<u8>,
        why: &str,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// The mark the last commit left, if any.
    fn mark(&self) -> impl Future<Output = Result<Option<Vec<u8>>, BusError>> + Send;

    /// Leaves a mark, in place of the one before.
    fn leave_mark(&self, mark: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send;

    /// What waits in the queue of each seat.
    fn backlogs(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<SeatName, Backlog>, BusError>> + Send {
        ready(Ok(BTreeMap::new()))
    }

    /// What an operator should know of this bus: what it promises and what it does not.
    fn findings(&self) -> impl Future<Output = Result<Vec<Finding>, BusError>> + Send;

    /// Connects as each of these, tries what the plan lets them do and what it does not, and leaves nothing behind. The
    /// plan is the one that is asserted, or nothing is said. May be dropped.
    fn prove(
        &self,
        _plan: &Plan,
        _probers: &[Prober],
    ) -> impl Future<Output = Result<Vec<Proven>, UnprovenError>> + Send {
        ready(Err(unproven()))
    }

    /// Connects as one of them and tries one act. May be dropped.
    fn attempt(
        &self,
        _plan: &Plan,
        _prober: &Prober,
        _act: &Act,
    ) -> impl Future<Output = Result<Attempted, UnprovenError>> + Send {
        ready(Err(unproven()))
    }
}

fn unproven() -> UnprovenError {
    let why = "no controller makes users of it for a proof";
    UnprovenError::CannotAsk(why.to_owned())
}

/// What a node hears.
#[derive(Debug, Clone)]
pub enum NodeEvent<R> {
    /// A message on the node's own declare subject, through the node's own consumer: everything else was dropped. What
    /// it says is still to be verified.
    Declared {
        /// What it says.
        body: Vec<u8>,
        /// What settling it takes.
        receipt: R,
    },
    /// The consumer says that it is there.
    Idle,
    /// The bus was reached, or was lost.
    Link(Link),
    /// The server does not let the node listen.
    Denied(String),
}

/// A node's side.
pub trait NodeBus: Send + Sync + 'static {
    /// What settling a declaration takes.
    type Receipt: Clone + Send + Sync + 'static;

    /// After how long a silence the consumer says that it is there; nothing where it does not. Asked again and again: a
    /// node may move to a bus of another kind.
    fn idle_heartbeat(&self) -> Option<Duration>;

    /// What was received with this is a declaration the controller signed.
    fn believed(&self, _receipt: &Self::Receipt, _declaration: &Declaration) {}

    /// Goes where a declaration says the node is at home; it is on the node's disk. Nothing of it is carried out before
    /// this is done, and where that cannot be, nothing of it is until it is tried again.
    fn settle_in(
        &self,
        _declaration: &Declaration,
    ) -> impl Future<Output = Result<(), String>> + Send {
        ready(Ok(()))
    }

    /// Waits for what the node hears next. May be dropped.
    fn next(&self) -> impl Future<Output = NodeEvent<Self::Receipt>> + Send;

    /// Settles a declaration.
    fn settle(
        &self,
        receipt: &Self::Receipt,
        how: NodeSettlement,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Reports, and waits until the bus has it.
    fn report(&self, body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Says that the node lives.
    fn heartbeat(&self, body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Waits for what the node is asked next. Nothing of it is verified yet. May be dropped.
    fn asked(&self) -> impl Future<Output = Vec<u8>> + Send {
        pending()
    }

    /// Says some of a log, for now: where nobody hears it, it is lost.
    fn say_log(&self, _body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send {
        ready(Err(BusError::Away("no logs are said here".to_owned())))
    }

    /// Listens anew, on the connection there is.
    fn listen_again(&self) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Connects anew.
    fn reconnect(&self) -> impl Future<Output = Result<(), BusError>> + Send;
}

/// One bus for several who use it.
impl<B: NodeBus> NodeBus for Arc<B> {
    type Receipt = B::Receipt;

    fn idle_heartbeat(&self) -> Option<Duration> {
        B::idle_heartbeat(self)
    }

    fn believed(&self, receipt: &Self::Receipt, declaration: &Declaration) {
        B::believed(self, receipt, declaration);
    }

    fn settle_in(
        &self,
        declaration: &Declaration,
    ) -> impl Future<Output = Result<(), String>> + Send {
        B::settle_in(self, declaration)
    }

    fn next(&self) -> impl Future<Output = NodeEvent<Self::Receipt>> + Send {
        B::next(self)
    }

    fn settle(
        &self,
        receipt: &Self::Receipt,
        how: NodeSettlement,
    ) -> impl Future<Output = Result<(), BusError>> + Send {
        B::settle(self, receipt, how)
    }

    fn report(&self, body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send {
        B::report(self, body)
    }

    fn heartbeat(&self, body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send {
        B::heartbeat(self, body)
    }

    fn asked(&self) -> impl Future<Output = Vec<u8>> + Send {
        B::asked(self)
    }

    fn say_log(&self, body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send {
        B::say_log(self, body)
    }

    fn listen_again(&self) -> impl Future<Output = Result<(), BusError>> + Send {
        B::listen_again(self)
    }

    fn reconnect(&self) -> impl Future<Output = Result<(), BusError>> + Send {
        B::reconnect(self)
    }
}

/// The side of a host that holds a token.
pub trait JoinerBus: Send + Sync + 'static {
    /// Where it awaits its answer; goes into the request.
    fn answer_address(&self) -> Subject;

    /// Asks, and waits until the bus has the request.
    fn ask(&self, body: Vec<u8>) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Waits for what arrives at the answer's address. May be dropped.
    fn answer(&self) -> impl Future<Output = Result<Vec<u8>, BusError>> + Send;
}

/// What a module listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The events it follows.
    Followed,
    /// The work of a seat, while it holds it.
    Seat(SeatName),
}

/// A message for a module.
#[derive(Debug, Clone)]
pub struct Incoming<R> {
    /// Its id: the same each time it is delivered again.
    pub id: String,
    /// What it was published on: for an event who says what, for work who sends it.
    pub subject: Subject,
    /// What it says.
    pub body: Vec<u8>,
    /// What settling it takes.
    pub receipt: R,
}

/// How a module settles a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleSettlement {
    /// Done with.
    Done,
    /// Still working on it.
    Working,
    /// Not done: again after this long.
    Again(Duration),
}

/// A module's side.
pub trait ModuleBus: Send + Sync + 'static {
    /// What settling a message takes.
    type Receipt: Clone + Send + Sync + 'static;
    /// What it listens with.
    type Listener: Listener<Receipt = Self::Receipt>;

    /// Emits an event, and waits until the bus has it.
    fn emit(
        &self,
        event: &EventName,
        id: &str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Sends work to a seat, and waits until the bus has it.
    fn send(
        &self,
        seat: &SeatName,
        id: &str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Listens. What the module may not hear now is tried again until it may.
    fn listen(
        &self,
        source: Source,
    ) -> impl Future<Output = Result<Self::Listener, BusError>> + Send;

    /// Settles a message.
    fn settle(
        &self,
        receipt: &Self::Receipt,
        how: ModuleSettlement,
    ) -> impl Future<Output = Result<(), BusError>> + Send;
}

/// A module's ear on one source.
pub trait Listener: Send + 'static {
    /// What settling a message takes.
    type Receipt: Clone + Send + Sync + 'static;

    /// How often so far what was heard here ceased to be this reader's to settle, and each time it does: the seat was taken
    /// from it, or a connection ended on which it was delivered.
    fn terms(&self) -> watch::Receiver<u64>;

    /// Waits for the next message. May be dropped.
    fn next(&mut self) -> impl Future<Output = Incoming<Self::Receipt>> + Send;
}
