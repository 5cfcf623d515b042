//! Taking from two buses: on each at most one take runs, and each runs to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mesh_control::MessageKey;
use mesh_model::BusKind;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::BothReceipt;
use crate::ended::came_to_its_end;
use crate::seam::{BusError, ControllerBus, Delivery};

/// What was taken of either.
type Taken<N, A> = Result<Vec<Delivery<BothReceipt<N, A>>>, BusError>;

/// Takes that run, and what they took that nobody has asked for yet.
pub(super) struct Taking<N, A> {
    running: JoinSet<(BusKind, Taken<N, A>)>,
    nats: Side,
    amqp: Side,
    ready: VecDeque<Delivery<BothReceipt<N, A>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Side {
    running: bool,
    /// Its last take failed.
    fails: bool,
}

impl Side {
    /// Begins the next take, if none runs: at once, or after this long.
    fn begin(&mut self) -> Option<Duration> {
        let begins = !std::mem::replace(&mut self.running, true);
        begins.then_some(if self.fails { AGAIN } else { Duration::ZERO })
    }
}

impl<N, A> Default for Taking<N, A> {
    fn default() -> Self {
        Self {
            running: JoinSet::new(),
            nats: Side::default(),
            amqp: Side::default(),
            ready: VecDeque::new(),
        }
    }
}

impl<N, A> Taking<N, A>
where
    N: Clone + Send + Sync + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// What one of them has, whichever comes first. While one is away the other goes on; when both are, or one can never
    /// be used again, that is said. What runs goes on when this is dropped.
    pub(super) async fn take<NB, AB>(
        &mut self,
        nats: &Arc<NB>,
        amqp: &Arc<AB>,
        max: usize,
    ) -> Taken<N, A>
    where
        NB: ControllerBus<Receipt = N>,
        AB: ControllerBus<Receipt = A>,
    {
        loop {
            if !self.ready.is_empty() {
                let most = max.min(self.ready.len());
                return Ok(self.ready.drain(..most).collect());
            }
            if let Some(pause) = self.nats.begin() {
                let take = take_of(
                    Arc::clone(nats),
                    max,
                    pause,
                    BusKind::Nats,
                    BothReceipt::Nats,
                );
                self.running.spawn(take);
            }
            if let Some(pause) = self.amqp.begin() {
                let take = take_of(
                    Arc::clone(amqp),
                    max,
                    pause,
                    BusKind::Amqp,
                    BothReceipt::Amqp,
                );
                self.running.spawn(take);
            }
            let ended = self.running.join_next().await;
            let Some((bus, taken)) = ended.and_then(came_to_its_end) else {
                return Err(BusError::Away("a take was called off".to_owned()));
            };
            let (side, other) = match bus {
                BusKind::Nats => (&mut self.nats, self.amqp),
                BusKind::Amqp => (&mut self.amqp, self.nats),
            };
            *side = Side {
                running: false,
                fails: taken.is_err(),
            };
            match taken {
                Ok(taken) if taken.is_empty() => return Ok(taken),
                Ok(taken) => self.ready.extend(taken),
                Err(error) if error.is_final() || other.fails => return Err(error),
                Err(error) => tracing::debug!(%bus, %error, "no messages could be taken"),
            }
        }
    }
}

async fn take_of<B: ControllerBus, N, A>(
    from: Arc<B>,
    max: usize,
    pause: Duration,
    bus: BusKind,
    receipt: fn(B::Receipt) -> BothReceipt<N, A>,
) -> (BusKind, Taken<N, A>) {
    sleep(pause).await;
    let of_bus = |delivery: Delivery<B::Receipt>| Delivery {
        key: MessageKey {
            bus,
            ..delivery.key
        },
        subject: delivery.subject,
        body: delivery.body,
        receipt: receipt(delivery.receipt),
    };
    let taken = from.take(max).await;
    let taken = taken.map(|taken| taken.into_iter().map(of_bus).collect());
    (bus, taken)
}

/// How long after a failed take of one bus the next begins.
const AGAIN: Duration = Duration::from_millis(500);
