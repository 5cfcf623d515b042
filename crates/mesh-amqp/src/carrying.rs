//! Carrying between the two buses of a mesh: reading what waits here for who is on the other, and putting down what comes
//! from there.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use mesh_bus::{BusError, Carried, Carrier, Incoming, ModuleSettlement, Source};
use mesh_derive::Plan;
use mesh_derive::subject::{self, Heard};
use mesh_derive::topology::Queue;
use mesh_model::{ModuleName, Principal, Subject};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::controller::AmqpController;
use crate::ear::{self, Told};
use crate::inbox::{Inbox, ModuleReceipt};
use crate::line::Line;
use crate::module::{out_at_once, settle};
use crate::publish::{Letter, place_of};

/// What a controller reads for the other bus. What is not settled stays out, within the prefetch, however often it is to
/// come again; it goes back when it is no longer to be carried.
#[derive(Debug)]
pub(crate) struct Carrying {
    /// What the names of the mesh's users begin with.
    users: String,
    inboxes: watch::Sender<BTreeMap<Queue, Carries>>,
    readers: Mutex<BTreeMap<Queue, Reader>>,
    turn: AtomicUsize,
}

/// What one queue has, and for whom.
#[derive(Debug, Clone)]
struct Carries {
    to: ModuleName,
    inbox: Arc<Inbox>,
}

#[derive(Debug)]
struct Reader {
    told: Arc<Told>,
    /// Looked at when something is waited for: a panic in one is not to go unheard.
    task: JoinSet<()>,
}

impl Carrying {
    pub(crate) fn new(users: String) -> Self {
        Self {
            users,
            inboxes: watch::Sender::default(),
            readers: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Reads no more of what this plan does not have carried, and gives back what is not settled of it.
    pub(crate) async fn leave(&self, plan: &Plan) {
        let carried = carried(plan);
        self.end(|queue| !carried.contains_key(queue)).await;
    }

    /// Reads no more at all.
    pub(crate) async fn stop(&self) {
        self.end(|_| true).await;
    }

    async fn end(&self, is_left: impl Fn(&Queue) -> bool) {
        let mut readers = self.readers.lock().await;
        self.inboxes.send_if_modified(|inboxes| {
            let before = inboxes.len();
            inboxes.retain(|queue, _| !is_left(queue));
            inboxes.len() != before
        });
        let ending = readers.extract_if(.., |queue, _| is_left(queue));
        join_all(ending.map(|(_, reader)| reader.end())).await;
    }

    /// Reads what this plan has carried; what is read already is read on.
    pub(crate) async fn read(&self, plan: &Plan, line: &Arc<Line>) {
        let mut readers = self.readers.lock().await;
        for (queue, (to, source)) in carried(plan) {
            if readers.contains_key(&queue) {
                continue;
            }
            let prefetch = out_at_once(&source);
            let inbox = Arc::new(Inbox::new(to.clone(), source, self.users.clone()));
            let of = ear::Queue {
                name: queue.name(),
                prefetch,
                settled: false,
                priority: None,
            };
            let (told, hears) = (Arc::new(Told::default()), Arc::clone(&inbox));
            let hear = move |heard| hears.heard(heard);
            let listen = ear::listen(Arc::clone(line), of, Arc::clone(&told), hear);
            let mut task = JoinSet::new();
            task.spawn(listen);
            readers.insert(queue.clone(), Reader { told, task });
            let carries = Carries { to, inbox };
            self.inboxes
                .send_modify(|inboxes| drop(inboxes.insert(queue, carries)));
        }
    }

    async fn next(&self) -> Carried<ModuleReceipt> {
        loop {
            self.are_well();
            let mut changed = self.inboxes.subscribe();
            let mut all: Vec<Carries> = changed.borrow_and_update().values().cloned().collect();
            // A flood of one must not keep the others out.
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let first = turn % all.len().max(1);
            all.rotate_left(first);
            let any = async {
                if all.is_empty() {
                    return std::future::pending().await;
                }
                let each = all.iter().map(|from| Box::pin(from.next()));
                select_all(each).await.0
            };
            tokio::select! {
                biased;
                Ok(()) = changed.changed() => {}
                () = tokio::time::sleep(LOOK_EACH) => {}
                next = any => return next,
            }
        }
    }

    /// Nobody would know that a queue is no longer read.
    fn are_well(&self) {
        let Ok(mut readers) = self.readers.try_lock() else {
            return;
        };
        for reader in readers.values_mut() {
            if let Some(Err(ended)) = reader.task.try_join_next()
                && let Ok(panic) = ended.try_into_panic()
            {
                resume_unwind(panic);
            }
        }
    }
}

impl Carries {
    async fn next(&self) -> Carried<ModuleReceipt> {
        let Incoming {
            id,
            subject,
            body,
            receipt,
        } = Inbox::next(&self.inbox).await;
        let to = match subject::heard(&subject) {
            Some(Heard::Event(event)) => subject::carry(&self.to, &event),
            _ => subject,
        };
        Carried {
            to,
            id,
            body,
            load: receipt,
        }
    }
}

impl Reader {
    async fn end(mut self) {
        self.told.stop();
        // One that is about to connect does not hear it at once; it has nothing to give back.
        let _ended = timeout(ENDED_WITHIN, self.task.join_next()).await;
    }
}

/// The queues of a plan that are carried: for whom, and what they are to him.
fn carried(plan: &Plan) -> BTreeMap<Queue, (ModuleName, Source)> {
    let all = plan.carried.iter().filter_map(|consumer| {
        let Some(Principal::Module(owner)) = &plan.consumers.get(consumer)?.owner else {
            return None;
        };
        let (queue, source) = match subject::seat_of(consumer.stream()) {
            Some(seat) => (Queue::Seat(seat.clone()), Source::Seat(seat)),
            None => (Queue::Module(owner.clone()), Source::Followed),
        };
        Some((queue, (owner.clone(), source)))
    });
    all.collect()
}

impl Carrier for AmqpController {
    type Load = ModuleReceipt;

    async fn load(&self) -> Carried<ModuleReceipt> {
        self.carrying.next().await
    }

    async fn unload(&self, load: &ModuleReceipt, how: ModuleSettlement) -> Result<(), BusError> {
        settle(load, how).await
    }

    /// A broker knows no message for one it had before: the id is the module's own.
    async fn put(&self, to: &Subject, id: &str, body: Vec<u8>) -> Result<(), BusError> {
        let letter = Letter {
            to: place_of(to)?,
            id: short_id(to, id),
            must_arrive: true,
            headers: Vec::new(),
        };
        self.publish(&letter, &body).await
    }
}

/// An id as AMQP takes it: of one that is too long, what it is always told by.
fn short_id(to: &Subject, id: &str) -> String {
    if id.len() <= ID_LIMIT {
        id.to_owned()
    } else {
        Letter::id_of(to, id.as_bytes())
    }
}

/// Bytes of a short string.
const ID_LIMIT: usize = 255;
const ENDED_WITHIN: Duration = Duration::from_secs(12);
/// How soon a reader that ended by itself is noticed.
const LOOK_EACH: Duration = Duration::from_secs(5);
