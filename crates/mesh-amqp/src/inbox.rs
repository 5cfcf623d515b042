//! What a module has of one queue: ready, in its hands, or put off for a while, and what it has done with already.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::Acker;
use lapin::message::Delivery;
use lapin::types::ShortString;
use mesh_bus::{Incoming, Source};
use mesh_derive::subject::{Heard as Said, heard};
use mesh_model::{ModuleName, Subject};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::ear::Heard;
use crate::intake::address;
use crate::publish::Letter;
use crate::sender::said;

/// What settling a message takes.
#[derive(Debug, Clone)]
pub struct ModuleReceipt {
    entry: Arc<Entry>,
    inbox: Arc<Inbox>,
}

#[derive(Debug)]
pub(crate) struct Inbox {
    /// For whom.
    module: ModuleName,
    source: Source,
    /// What the names of the mesh's users begin with.
    users: String,
    inner: Mutex<Inner>,
    changed: Notify,
    terms: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entry {
    /// In which order it came.
    nth: u64,
    named: bool,
    id: String,
    subject: Subject,
    body: Vec<u8>,
    acker: Acker,
}

#[derive(Debug, Default)]
struct Inner {
    ready: VecDeque<Arc<Entry>>,
    put_off: BTreeMap<(Instant, u64), Arc<Entry>>,
    /// Messages by subject and id, that one published twice is heard once: a broker keeps both.
    known: BTreeMap<(Subject, String), Known>,
    /// When those that are done with may be forgotten.
    forget: VecDeque<(Instant, (Subject, String))>,
    next: u64,
}

#[derive(Debug)]
enum Known {
    Out(Acker),
    Done,
}

impl Inbox {
    pub(crate) fn new(module: ModuleName, source: Source, users: String) -> Self {
        Self {
            module,
            source,
            users,
            inner: Mutex::default(),
            changed: Notify::new(),
            terms: watch::Sender::new(0),
        }
    }

    /// How often a channel ended so far: with it everything that came over it is another's to settle.
    pub(crate) fn terms(&self) -> watch::Receiver<u64> {
        self.terms.subscribe()
    }

    /// Takes in what is heard on the queue, and answers with what is to be acknowledged at once.
    pub(crate) fn heard(&self, heard: Heard) -> Option<Acker> {
        match heard {
            Heard::Delivered(message) => {
                let acker = self.delivered(*message);
                self.changed.notify_one();
                acker
            }
            Heard::Ended(_) => {
                self.inner().forget_what_is_gone();
                self.terms.send_modify(|term| *term += 1);
                None
            }
            Heard::Refused(error) => {
                tracing::debug!(%error, "the module cannot listen now; it is tried again until it can");
                None
            }
            Heard::Listening => None,
        }
    }

    fn delivered(&self, message: Delivery) -> Option<Acker> {
        let subject = address(&message).and_then(|at| at.subject());
        let user = message.properties.user_id().as_ref();
        let user = user.map(ShortString::as_str);
        let subject = subject.and_then(|at| said(at, user, &self.users, &self.module));
        let Some(subject) = subject.filter(|subject| self.is_asked_for(subject)) else {
            tracing::debug!(key = %message.routing_key, "dropped a message this module did not ask for");
            return Some(message.acker);
        };
        let named = message.properties.message_id().as_ref();
        let named = named.map(|id| id.as_str().to_owned());
        let mut inner = self.inner();
        inner.forget_what_is_long_done();
        if let Some(id) = &named {
            let known = (subject.clone(), id.clone());
            match inner.known.get(&known) {
                Some(Known::Done) => return Some(message.acker),
                Some(Known::Out(out)) if out.usable() => return Some(message.acker),
                Some(Known::Out(_)) | None => {}
            }
            inner.known.insert(known, Known::Out(message.acker.clone()));
        }
        inner.next += 1;
        let entry = Entry {
            nth: inner.next,
            named: named.is_some(),
            id: named.unwrap_or_else(|| Letter::id_of(&subject, &message.data)),
            subject,
            body: message.data,
            acker: message.acker,
        };
        inner.ready.push_back(Arc::new(entry));
        None
    }

    fn is_asked_for(&self, subject: &Subject) -> bool {
        match (&self.source, heard(subject)) {
            (Source::Followed, Some(Said::Event(_))) => true,
            (Source::Seat(seat), Some(Said::Work(of, _))) => *seat == of,
            _ => false,
        }
    }

    /// Waits for the next message. May be dropped.
    pub(crate) async fn next(this: &Arc<Self>) -> Incoming<ModuleReceipt> {
        loop {
            let (next, due) = this.inner().next();
            if let Some(entry) = next {
                return Incoming {
                    id: entry.id.clone(),
                    subject: entry.subject.clone(),
                    body: entry.body.clone(),
                    receipt: ModuleReceipt {
                        entry,
                        inbox: Arc::clone(this),
                    },
                };
            }
            let is_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = this.changed.notified() => {}
                () = is_due => {}
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModuleReceipt {
    /// It is done with, and known to be for as long as it may be published again; to be acknowledged with this.
    pub(crate) fn done(&self) -> &Acker {
        let entry = &self.entry;
        if entry.named {
            let mut inner = self.inbox.inner();
            let known = (entry.subject.clone(), entry.id.clone());
            inner
                .forget
                .push_back((Instant::now() + SAME_WITHIN, known.clone()));
            inner.known.insert(known, Known::Done);
        }
        &entry.acker
    }

    /// It is put off. It stays with the module, which says no word of it to the broker: one that is given back comes
    /// again at once.
    pub fn again(&self, delay: Duration) {
        let at = (Instant::now() + delay, self.entry.nth);
        self.inbox
            .inner()
            .put_off
            .insert(at, Arc::clone(&self.entry));
        self.inbox.changed.notify_one();
    }
}

impl Inner {
    /// The next that can be settled, and when another is due.
    fn next(&mut self) -> (Option<Arc<Entry>>, Option<Instant>) {
        let now = Instant::now();
        while let Some(first) = self.put_off.first_entry()
            && first.key().0 <= now
        {
            let entry = first.remove();
            self.ready.push_back(entry);
        }
        while let Some(entry) = self.ready.pop_front() {
            if entry.acker.usable() {
                return (Some(entry), None);
            }
        }
        let due = self.put_off.first_key_value().map(|((at, _), _)| *at);
        (None, due)
    }

    /// What came on a channel that has ended is the broker's again, also where nobody answered that it ended. All of it
    /// came on that one.
    fn forget_what_is_gone(&mut self) {
        self.ready.clear();
        self.put_off.clear();
        self.known.retain(|_, known| matches!(known, Known::Done));
    }

    fn forget_what_is_long_done(&mut self) {
        let now = Instant::now();
        while let Some((at, _)) = self.forget.front()
            && *at <= now
        {
            if let Some((_, known)) = self.forget.pop_front()
                && matches!(self.known.get(&known), Some(Known::Done))
            {
                self.known.remove(&known);
            }
        }
    }
}

/// For so long a message published again under its id is known for the same.
const SAME_WITHIN: Duration = Duration::from_mins(2);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use lapin::BasicProperties;

    use super::*;

    fn inbox() -> Arc<Inbox> {
        let module = "mailer".parse().unwrap();
        Arc::new(Inbox::new(module, Source::Followed, "h.".to_owned()))
    }

    fn event(key: &str, user: &str, id: Option<&str>) -> Heard {
        let mut message = Delivery::mock(1, "mesh.ev".into(), key.into(), false, b"said".to_vec());
        message.properties = BasicProperties::default().with_user_id(user.into());
        if let Some(id) = id {
            message.properties = message.properties.with_message_id(id.into());
        }
        Heard::Delivered(Box::new(message))
    }

    fn next(inbox: &Arc<Inbox>) -> Option<Incoming<ModuleReceipt>> {
        Inbox::next(inbox).now_or_never()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_twice_under_an_id_is_heard_once_for_a_while() {
        let inbox = inbox();
        let said = || event("one.said", "h.module.one.a", Some("1"));
        assert!(inbox.heard(said()).is_none());
        assert!(inbox.heard(said()).is_some(), "it is out");
        let heard = next(&inbox).unwrap();
        assert_eq!(heard.id, "1");
        let _acker = heard.receipt.done();
        assert!(inbox.heard(said()).is_some(), "it is done with");
        assert!(next(&inbox).is_none());
        tokio::time::advance(SAME_WITHIN).await;
        assert!(inbox.heard(said()).is_none(), "it is another by now");
    }

    #[tokio::test]
    async fn what_came_on_a_channel_that_ended_is_heard_again_and_what_was_done_is_not() {
        let inbox = inbox();
        let said = |id| event("one.said", "h.module.one.a", Some(id));
        for id in ["done", "ready"] {
            assert!(inbox.heard(said(id)).is_none(), "{id}");
        }
        let _acker = next(&inbox).unwrap().receipt.done();
        assert!(inbox.heard(Heard::Ended(None)).is_none());
        assert!(inbox.heard(said("done")).is_some(), "it is done with");
        assert!(
            inbox.heard(said("ready")).is_none(),
            "it was taken for a copy, and is lost"
        );
        assert_eq!(next(&inbox).unwrap().id, "ready");
        assert!(next(&inbox).is_none());
    }

    #[tokio::test]
    async fn another_subjects_id_and_one_that_nobody_gave_silence_nobody() {
        let inbox = inbox();
        for (key, user, id) in [
            ("one.said", "h.module.one.a", Some("1")),
            ("two.said", "h.module.two.a", Some("1")),
            ("one.said", "h.module.one.a", None),
            ("one.said", "h.module.one.a", None),
        ] {
            assert!(inbox.heard(event(key, user, id)).is_none(), "{key} {id:?}");
            assert!(next(&inbox).is_some());
        }
    }

    #[tokio::test]
    async fn what_was_not_asked_for_or_is_another_senders_is_dropped() {
        let inbox = inbox();
        for (key, user) in [
            ("one.said", "h.module.two.a"),
            ("one.said", "h.node.a"),
            ("..", "h.module.one.a"),
        ] {
            assert!(
                inbox.heard(event(key, user, Some("1"))).is_some(),
                "{key} {user}"
            );
        }
        assert!(next(&inbox).is_none());
    }

    #[tokio::test]
    async fn an_event_that_is_carried_as_well_is_heard_once_and_as_what_it_was() {
        let inbox = inbox();
        let carried = || {
            let Heard::Delivered(mut message) =
                event("mailer.one.said", "h.controller.7f", Some("1"))
            else {
                panic!()
            };
            message.exchange = "mesh.carry".into();
            Heard::Delivered(message)
        };
        assert!(inbox.heard(carried()).is_none());
        let said = event("one.said", "h.module.one.a", Some("1"));
        assert!(inbox.heard(said).is_some(), "it is out");
        let heard = next(&inbox).unwrap();
        assert_eq!(
            (heard.id.as_str(), heard.subject.as_str()),
            ("1", "mesh.mod.one.said")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_off_comes_again_when_it_is_due() {
        let inbox = inbox();
        let said = event("one.said", "h.module.one.a", Some("1"));
        inbox.heard(said);
        let heard = next(&inbox).unwrap();
        heard.receipt.again(Duration::from_secs(3));
        let began = Instant::now();
        let again = Inbox::next(&inbox).await;
        assert_eq!((again.id.as_str(), began.elapsed().as_secs()), ("1", 3));
    }
}
