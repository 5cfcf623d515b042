//! From one bus to the other: each message is settled where it waited once it is where it is read. One that the other bus
//! never takes is let go, with a copy kept.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mesh_model::{BusKind, Subject};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::carrier::{Carried, Carrier};
use crate::seam::{BusError, ControllerBus, Link, ModuleSettlement};

/// Carries what waits on one bus to the other, until that is of no use any more. While the other is away, what waits is
/// left where it is.
pub(super) async fn carry<F, T>(from: BusKind, source: Arc<F>, target: Arc<T>)
where
    F: Carrier + ControllerBus,
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
async fn carry_one<F: Carrier + ControllerBus, T: Carrier>(
    from: BusKind,
    source: &F,
    target: &T,
    carried: Carried<F::Load>,
) -> Result<(), BusError> {
    let load = carried.load.clone();
    let to = carried.to.clone();
    let put = put_down(from, source, target, carried);
    tokio::pin!(put);
    let mut working = interval(WORKING);
    working.set_missed_tick_behavior(MissedTickBehavior::Delay);
    working.reset();
    let how = loop {
        tokio::select! {
            ended = &mut put => break ended?,
            _ = working.tick() => {
                // Where it cannot be said, it may come again: under the same id.
                let _again = source.unload(&load, ModuleSettlement::Working).await;
            }
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

/// Puts one down on the other bus, or beside where it waits if that bus never takes it; how it is to be settled then.
async fn put_down<F: Carrier + ControllerBus, T: Carrier>(
    from: BusKind,
    source: &F,
    target: &T,
    carried: Carried<F::Load>,
) -> Result<ModuleSettlement, BusError> {
    let Carried { to, id, body, .. } = carried;
    let bytes = body.len();
    let why = match after(target.put(&to, &id, body.clone()).await)? {
        Next::Settle(how) => return Ok(how),
        Next::Again(when, error) => {
            say_again(from, &to, when, &error);
            return Ok(ModuleSettlement::Again(when));
        }
        Next::LetGo(why) => why,
    };
    let reason = format!("not carried to {}: {why}", from.other());
    match after(source.park(&to, body, &reason).await)? {
        Next::Settle(how) => {
            tracing::error!(%from, %to, %id, bytes, error = %why, "a message cannot be carried and is let go; a copy is parked");
            Ok(how)
        }
        Next::Again(when, error) => {
            say_again(from, &to, when, &error);
            Ok(ModuleSettlement::Again(when))
        }
        Next::LetGo(error) => {
            // Without a copy nothing is let go.
            say_again(from, &to, LATER, &error);
            Ok(ModuleSettlement::Again(LATER))
        }
    }
}

/// What is next for a message.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// It is where it was to go.
    Settle(ModuleSettlement),
    /// It is tried again after this long.
    Again(Duration, BusError),
    /// It is never taken there.
    LetGo(BusError),
}

/// What is next for a message after a bus said this to it. An error is the end of carrying.
fn after(said: Result<(), BusError>) -> Result<Next, BusError> {
    match said {
        Ok(()) => Ok(Next::Settle(ModuleSettlement::Done)),
        Err(error) if error.is_final() => Err(error),
        Err(error) if error.is_of_the_message() => Ok(Next::LetGo(error)),
        Err(error) if error.is_passing() => Ok(Next::Again(SOON, error)),
        // Its sender may have been taken off since, or its plan is not asserted there yet.
        Err(error) => Ok(Next::Again(LATER, error)),
    }
}

fn say_again(from: BusKind, to: &Subject, when: Duration, error: &BusError) {
    if when == SOON {
        tracing::debug!(%from, %to, %error, "not carried yet");
    } else {
        tracing::warn!(%from, %to, %error, "a message cannot be carried; it is tried again");
    }
}

/// Says which of both can be reached; and again when one that could not can.
pub(super) async fn links(
    mut nats: watch::Receiver<Link>,
    mut amqp: watch::Receiver<Link>,
    both: watch::Sender<Link>,
) {
    loop {
        let (one, other) = (*nats.borrow_and_update(), *amqp.borrow_and_update());
        both.send_replace(match (one == Link::Up, other == Link::Up) {
            (true, true) => Link::Up,
            (true, false) => Link::Without(BusKind::Amqp),
            (false, true) => Link::Without(BusKind::Nats),
            (false, false) => Link::Down,
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn which_of_both_is_away_is_said() {
        let (nats, nats_link) = watch::channel(Link::Up);
        let (amqp, amqp_link) = watch::channel(Link::Up);
        let (both, mut said) = watch::channel(Link::Down);
        let mut links = Box::pin(links(nats_link, amqp_link, both));
        for (one, other, link) in [
            (Link::Up, Link::Up, Link::Up),
            (Link::Up, Link::Down, Link::Without(BusKind::Amqp)),
            (Link::Down, Link::Down, Link::Down),
            (Link::Down, Link::Up, Link::Without(BusKind::Nats)),
            // It was away and is back before anybody looked.
            (Link::Down, Link::Up, Link::Without(BusKind::Nats)),
        ] {
            nats.send_replace(one);
            amqp.send_replace(other);
            while said.has_changed().is_ok_and(|changed| !changed) || *said.borrow() != link {
                tokio::select! {
                    () = &mut links => unreachable!(),
                    () = tokio::task::yield_now() => {}
                }
            }
            assert_eq!(*said.borrow_and_update(), link);
        }
    }

    #[test]
    fn only_what_is_refused_for_its_size_is_let_go() {
        let what = || "mesh.seat.desk.shop".to_owned();
        let why = || "why".to_owned();
        let too_large = BusError::TooLarge {
            what: what(),
            why: why(),
        };
        let refused = BusError::Refused {
            what: what(),
            why: why(),
        };
        let again = |when, error: &BusError| Next::Again(when, error.clone());
        for error in [BusError::Away(why()), BusError::Full(why())] {
            assert_eq!(after(Err(error.clone())), Ok(again(SOON, &error)));
        }
        assert_eq!(after(Err(refused.clone())), Ok(again(LATER, &refused)));
        let expected = Next::LetGo(too_large.clone());
        assert_eq!(after(Err(too_large)), Ok(expected));
        assert_eq!(after(Ok(())), Ok(Next::Settle(ModuleSettlement::Done)));
        let fenced = BusError::Fenced(why());
        assert_eq!(after(Err(fenced.clone())), Err(fenced));
    }
}
