//! From one bus to the other: each message is settled where it waited once it is where it is read.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mesh_model::BusKind;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::carrier::{Carried, Carrier};
use crate::seam::{BusError, ControllerBus, Link, ModuleSettlement};

/// Carries what waits on one bus to the other, until that is of no use any more. While the other is away, what waits is
/// left where it is.
pub(super) async fn carry<F, T>(from: BusKind, source: Arc<F>, target: Arc<T>)
where
    F: Carrier,
    T: Carrier + ControllerBus,
{
    let mut link = target.link();
    let mut hands = FuturesUnordered::new();
    loop {
        let up = *link.borrow_and_update() == Link::Up;
        tokio::select! {
            Some(ended) = hands.next(), if !hands.is_empty() => {
                if let Err(error) = ended {
                    tracing::debug!(%from, %error, "nothing is carried any more");
                    return;
                }
            }
            changed = link.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            carried = source.load(), if up && hands.len() < HANDS => {
                hands.push(carry_one(from, &*source, &*target, carried));
            }
        }
    }
}

/// Puts one down, and settles it: a message is never on neither bus. An error is the end of carrying.
async fn carry_one<F: Carrier, T: Carrier>(
    from: BusKind,
    source: &F,
    target: &T,
    carried: Carried<F::Load>,
) -> Result<(), BusError> {
    let Carried { to, id, body, load } = carried;
    let put = target.put(&to, &id, body);
    tokio::pin!(put);
    let mut working = interval(WORKING);
    working.set_missed_tick_behavior(MissedTickBehavior::Delay);
    working.reset();
    let put = loop {
        tokio::select! {
            ended = &mut put => break ended,
            _ = working.tick() => {
                // Where it cannot be said, it may come again: under the same id.
                let _again = source.unload(&load, ModuleSettlement::Working).await;
            }
        }
    };
    let how = match put {
        Ok(()) => ModuleSettlement::Done,
        Err(error) if error.is_final() => return Err(error),
        Err(error) if error.is_passing() => {
            tracing::debug!(%from, %to, %error, "not carried yet");
            ModuleSettlement::Again(SOON)
        }
        Err(error) => {
            // Its sender may have been taken off since, or its plan is not asserted there yet.
            tracing::warn!(%from, %to, %error, "a message cannot be carried; it is tried again");
            ModuleSettlement::Again(LATER)
        }
    };
    match source.unload(&load, how).await {
        Err(error) if error.is_final() => Err(error),
        Err(error) => {
            tracing::debug!(%from, %to, %error, "a carried message could not be settled; it comes again");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Says that the bus can be reached while either can; and again when one that could not can.
pub(super) async fn links(
    mut nats: watch::Receiver<Link>,
    mut amqp: watch::Receiver<Link>,
    both: watch::Sender<Link>,
) {
    loop {
        let (one, other) = (*nats.borrow_and_update(), *amqp.borrow_and_update());
        let up = one == Link::Up || other == Link::Up;
        both.send_replace(if up { Link::Up } else { Link::Down });
        let changed = tokio::select! {
            changed = nats.changed() => changed,
            changed = amqp.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Messages on their way at once, in each direction.
const HANDS: usize = 64;
/// How often a bus is told that one is still on its way; well within the ack wait.
const WORKING: Duration = Duration::from_secs(10);
/// When one comes again that the other bus could not take.
const SOON: Duration = Duration::from_secs(1);
/// When one comes again that the other bus does not let in.
const LATER: Duration = Duration::from_secs(5);
