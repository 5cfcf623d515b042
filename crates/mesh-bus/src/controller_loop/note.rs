//! What a note is to whoever reads logs.

use mesh_control::Note;

use crate::seam::Asserted;

pub(super) fn log(note: &Note) {
    match note {
        Note::Held { key, why } => {
            tracing::debug!(?key, why, "a message is held");
        }
        Note::Taken { key, after } => {
            tracing::info!(?key, after_ms = after, "a held message was recorded");
        }
        Note::LetGo { key, why } => {
            tracing::error!(?key, why, "a message was let go; a copy is parked");
        }
        Note::StoreDown(why) => {
            tracing::error!(why, "the store takes no commits");
        }
        Note::StoreUp => {
            tracing::info!("the store takes commits again");
        }
        Note::NotAsserted(why) => {
            tracing::warn!(why, "the bus could not be brought to the plan");
        }
        Note::NotDeclared(node, why) => {
            tracing::warn!(%node, why, "a declaration could not be published");
        }
        Note::EnrolmentRefused(why) => {
            tracing::warn!(why, "an enrolment was refused");
        }
        Note::Enrolled(node) => {
            tracing::info!(%node, "a node enrolled");
        }
        Note::Changed(revision, what) => {
            tracing::info!(%revision, what, "the records changed");
        }
        Note::Ignored(what) => {
            tracing::debug!(what, "a message was not acted upon");
        }
        Note::Seat(seat, what) => {
            tracing::warn!(%seat, what, "the holder of a seat is lost");
        }
        Note::Node(node, what) => {
            tracing::warn!(%node, what, "a node needs a look");
        }
    }
}

/// What had to be written to the bus; nothing is said when nothing had to be.
pub(super) fn asserted(asserted: &Asserted) {
    for written in &asserted.written {
        tracing::info!(written, "the bus was brought to the plan");
    }
    for stray in &asserted.strays {
        tracing::warn!(stray, "nobody derived this; it is left");
    }
}
