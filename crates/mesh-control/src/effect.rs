//! The work a controller gives out, and how it is told what became of it.

use std::sync::Arc;

use mesh_derive::Plan;
use mesh_model::{Declaration, EnrolmentAnswer, NodeName, Revision, SeatName, Subject};

use crate::amend::CommandError;
use crate::fact::Change;
use crate::message::{MessageKey, Settlement};

/// One thing to carry out. Effects are carried out in the order they are given; those that take long may overlap, except
/// that commits to the store keep their order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an effect that is not carried out never happened"]
pub enum Effect {
    /// Commit this, whole or not at all; then say so with the ticket.
    Store {
        /// What to say it with.
        ticket: Ticket,
        /// What to commit.
        changes: Vec<Change>,
    },
    /// The store's handle is dead: open the store anew and say what it holds.
    Reopen,
    /// Settle a message in hand.
    Settle(MessageKey, Settlement),
    /// Keep a copy of a message in hand where an operator finds it, then say so. It is settled afterwards.
    Park {
        /// Which message.
        key: MessageKey,
        /// Why, in one sentence.
        why: String,
    },
    /// Bring the bus to this plan, then say so with the version.
    Assert {
        /// What to say it with.
        version: u64,
        /// The plan.
        plan: Arc<Plan>,
    },
    /// Sign a declaration and publish it, then say so.
    Declare {
        /// The declaration.
        declaration: Declaration,
        /// Not if the bus has exactly this already.
        unless_there: bool,
    },
    /// Sign an answer and send it.
    Answer {
        /// Where to.
        to: Subject,
        /// What.
        answer: EnrolmentAnswer,
    },
    /// Tell whoever gave the command.
    Reply {
        /// Which command.
        id: CommandId,
        /// The revision it made, or why it made none.
        result: Result<Revision, CommandError>,
    },
    /// Say this to whoever reads logs.
    Note(Note),
    /// Stop: going on would lose or overwrite something.
    Stop(String),
}

/// With what a commit is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ticket {
    /// The commit takes this message.
    Message(MessageKey),
    /// The commit changes the records.
    Records,
}

/// One command, for as long as it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// Why a commit was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRefusal {
    /// The store cannot now; whether this commit is there is unknown until it is read again.
    Later(String),
    /// The store never will take this commit; others are not concerned.
    Never(String),
    /// Something is wrong that no retry mends.
    Stop(String),
}

/// Something worth a line in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A message waits with the bus because the store does not take it.
    Held {
        /// Which.
        key: MessageKey,
        /// Why.
        why: String,
    },
    /// A message held was taken after this long, in milliseconds.
    Taken {
        /// Which.
        key: MessageKey,
        /// For how long it was held.
        after: u64,
    },
    /// A message was let go; a copy is parked.
    LetGo {
        /// Which.
        key: MessageKey,
        /// Why.
        why: String,
    },
    /// The store does not take commits.
    StoreDown(String),
    /// It does again.
    StoreUp,
    /// The bus could not be brought to the plan; it is tried again.
    NotAsserted(String),
    /// A declaration could not be published; it is tried again.
    NotDeclared(NodeName, String),
    /// A host asked to become a node and was refused.
    EnrolmentRefused(String),
    /// A host became a node.
    Enrolled(NodeName),
    /// The records changed.
    Changed(Revision, String),
    /// A message was not acted upon.
    Ignored(String),
    /// A seat goes to another module, or does not, because its holder is lost.
    Seat(SeatName, String),
    /// Something a node says of itself that an operator should see.
    Node(NodeName, String),
}
