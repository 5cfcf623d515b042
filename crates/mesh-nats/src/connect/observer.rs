//! What the client tells of a connection, turned into what others wait for.

use async_nats::{ClientError, Event, ServerError};
use mesh_bus::Link;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::denial::Denial;
use crate::warned::Warned;

/// What turns the client's events into a link, a count and denials.
pub(super) struct Observer {
    pub(super) name: String,
    pub(super) link: watch::Sender<Link>,
    pub(super) connects: watch::Sender<u64>,
    pub(super) denials: broadcast::Sender<Denial>,
    pub(super) refused: Warned,
    pub(super) dropped: Warned,
}

impl Observer {
    pub(super) fn observe(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.connects.send_modify(|count| *count += 1);
                self.turn(Link::Up);
            }
            Event::Disconnected | Event::Closed => self.turn(Link::Down),
            Event::ServerError(ServerError::Other(text)) => self.denied(text),
            Event::ServerError(ServerError::AuthorizationViolation) => {
                self.denied("authorization violation");
            }
            Event::ClientError(ClientError::Other(text)) if text.contains("authorization") => {
                self.denied(text);
            }
            Event::SlowConsumer(_) => {
                if let Some(withheld) = self.dropped.due(Instant::now()) {
                    tracing::warn!(connection = %self.name, withheld, "messages were dropped: they came faster than they were read");
                }
            }
            other => {
                tracing::debug!(connection = %self.name, event = %other, "event of the client");
            }
        }
    }

    /// Every [`super::Connection`] of the client was dropped.
    pub(super) fn nobody_looks(&self) -> bool {
        self.link.is_closed()
    }

    fn turn(&self, to: Link) {
        let turned = self.link.send_if_modified(|link| {
            let turned = *link != to;
            *link = to;
            turned
        });
        if turned {
            tracing::info!(connection = %self.name, link = ?to, "the link to the bus changed");
        }
    }

    fn denied(&self, text: &str) {
        if let Some(withheld) = self.refused.due(Instant::now()) {
            tracing::warn!(connection = %self.name, error = text, withheld, "the server refuses something");
        }
        // Nobody may be listening for it just now.
        drop(self.denials.send(Denial::parse(text)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::warned::WARN_EACH;

    /// Counts what is logged as a warning.
    #[derive(Default)]
    struct Warnings(std::sync::atomic::AtomicUsize);

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
            *of.level() == tracing::Level::WARN
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    /// One subscriber that stops reading, and its log has thousands of lines a second.
    /// <https://github.com/vectordotdev/vector/pull/24230>
    #[tokio::test(start_paused = true)]
    async fn case_b_c436d06_events_that_come_by_the_thousand_are_logged_once_in_a_while_and_counted()
     {
        let observer = Observer {
            name: "test".to_owned(),
            link: watch::Sender::new(Link::Up),
            connects: watch::Sender::new(0),
            denials: broadcast::Sender::new(8),
            refused: Warned::default(),
            dropped: Warned::default(),
        };
        let warnings = Arc::new(Warnings::default());
        let _logging = tracing::subscriber::set_default(Arc::clone(&warnings));
        let logged = || warnings.0.load(Ordering::Relaxed);
        for _ in 0..1_000 {
            observer.observe(&Event::SlowConsumer(1));
        }
        assert_eq!(logged(), 1);
        // What is refused is not hidden behind what is dropped.
        for _ in 0..1_000 {
            observer.observe(&Event::ServerError(ServerError::AuthorizationViolation));
        }
        assert_eq!(logged(), 2);
        tokio::time::advance(WARN_EACH).await;
        assert_eq!(observer.dropped.due(Instant::now()), Some(999));
    }
}
