//! Consuming one queue: a channel of its own, opened anew whenever it ends, for whatever reason.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Acker, Channel, Consumer};
use mesh_bus::BusError;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::line::Line;
use crate::refusal::{bus_error, held_too_long};

/// What is consumed, and how.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// Messages out at once.
    pub(crate) prefetch: u16,
    /// Whether what is delivered is settled with that.
    pub(crate) settled: bool,
    /// Of several who read it the one with the greatest hears everything, as long as it takes it.
    pub(crate) priority: Option<i64>,
}

/// What an ear hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The broker lets it listen.
    Listening,
    /// A message.
    Delivered(Box<Delivery>),
    /// Its channel ended, and with it everything that was delivered on it and is not settled; where the broker said that
    /// it was for a message held too long, that and how long one may be.
    Ended(Option<Duration>),
    /// The broker does not let it listen, or not now.
    Refused(BusError),
}

/// How an ear is told something.
#[derive(Debug, Default)]
pub(crate) struct Told {
    again: Notify,
    stop: Notify,
}

impl Told {
    /// Listen anew, on the connection there is.
    pub(crate) fn again(&self) {
        self.again.notify_one();
    }

    /// Take no more, give back what is not settled, and end.
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }
}

/// Listens until it is dropped or told to stop. `hear` answers with what is to be acknowledged at once.
pub(crate) async fn listen(
    line: Arc<Line>,
    queue: Queue,
    told: Arc<Told>,
    mut hear: impl FnMut(Heard) -> Option<Acker> + Send,
) {
    let mut delay = RETRY_FIRST;
    loop {
        match open(&line, &queue).await {
            Ok((channel, consumer)) => {
                let since = Instant::now();
                hear(Heard::Listening);
                let ended = consume(consumer, &channel, &told, &mut hear).await;
                close(&channel).await;
                let held_too_long = match ended {
                    Ended::Itself(too_long) => too_long,
                    Ended::Again | Ended::Stopped => None,
                };
                if let Some(timeout) = held_too_long {
                    tracing::warn!(
                        queue = queue.name,
                        ?timeout,
                        "the broker ended a channel since a message on it was held for longer than its consumer_timeout; all that was held comes again"
                    );
                }
                hear(Heard::Ended(held_too_long));
                line.look().await;
                match ended {
                    Ended::Stopped => return,
                    Ended::Again => continue,
                    Ended::Itself(_) => {}
                }
                if since.elapsed() > RETRY_MOST {
                    delay = RETRY_FIRST;
                }
            }
            Err(error) => {
                hear(Heard::Refused(error));
            }
        }
        tokio::select! {
            () = sleep(delay) => delay = (delay * 2).min(RETRY_MOST),
            () = told.again.notified() => {}
            () = told.stop.notified() => return,
        }
    }
}

enum Ended {
    /// Where the broker said that a message was held too long: how long one may be.
    Itself(Option<Duration>),
    Again,
    Stopped,
}

async fn open(line: &Line, queue: &Queue) -> Result<(Channel, Consumer), BusError> {
    let channel = line.channel().await?;
    let what = format!("to read {}", queue.name);
    let opened = timeout(OPENED_WITHIN, async {
        channel
            .basic_qos(queue.prefetch, BasicQosOptions { global: false })
            .await?;
        let options = BasicConsumeOptions {
            no_ack: queue.settled,
            ..BasicConsumeOptions::default()
        };
        let name = queue.name.as_str().into();
        let mut arguments = FieldTable::default();
        if let Some(priority) = queue.priority {
            arguments.insert("x-priority".into(), AMQPValue::LongLongInt(priority));
        }
        channel
            .basic_consume(name, "mesh".into(), options, arguments)
            .await
    });
    let opened = opened
        .await
        .map_err(|_| BusError::Away(format!("{what}: no answer in time")))?;
    match opened {
        Ok(consumer) => Ok((channel, consumer)),
        Err(error) => {
            line.look().await;
            Err(bus_error(&what, &error))
        }
    }
}

async fn consume(
    mut consumer: Consumer,
    channel: &Channel,
    told: &Told,
    hear: &mut impl FnMut(Heard) -> Option<Acker>,
) -> Ended {
    loop {
        let next = tokio::select! {
            biased;
            () = told.stop.notified() => {
                // What is out goes back with the channel, in its old place.
                let cancelled = channel.basic_cancel("mesh".into(), BasicCancelOptions::default());
                let _gone = timeout(OPENED_WITHIN, cancelled).await;
                return Ended::Stopped;
            }
            () = told.again.notified() => return Ended::Again,
            next = consumer.next() => next,
        };
        match next {
            Some(Ok(delivery)) => {
                if let Some(acker) = hear(Heard::Delivered(Box::new(delivery))) {
                    // Where that fails the channel is about to end.
                    let _ending = acker.ack(BasicAckOptions::default()).await;
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "a consumer ended");
                return Ended::Itself(held_too_long(&error));
            }
            // The queue is gone, or the broker has waited too long for a settlement: of which it says nothing else.
            None => return Ended::Itself(None),
        }
    }
}

/// A channel whose consumer has ended may still be there, holding messages.
async fn close(channel: &Channel) {
    if channel.status().connected() {
        let _gone = timeout(OPENED_WITHIN, channel.close(200, "done".into())).await;
    }
}

const OPENED_WITHIN: Duration = Duration::from_secs(5);
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MOST: Duration = Duration::from_secs(4);
