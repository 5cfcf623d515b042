//! What the controller listens to, once it has taken over.

use std::panic::resume_unwind;
use std::sync::Arc;

use lapin::types::ShortString;
use mesh_bus::Queue;
use mesh_derive::topology::Queue as Of;
use mesh_model::Subject;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::ear::{self, Heard, Told};
use crate::intake::{Intake, address};
use crate::line::Line;
use crate::sender::proven;

/// All of its ears, and what they heard that is said for now.
#[derive(Debug)]
pub(super) struct Ears {
    /// What the names of the mesh's users begin with.
    users: String,
    listening: Mutex<Listening>,
    beats: Said,
    logs: Said,
}

/// What is said for now, and was not taken yet.
#[derive(Debug)]
struct Said {
    says: mpsc::Sender<(Subject, Vec<u8>)>,
    heard: Mutex<mpsc::Receiver<(Subject, Vec<u8>)>>,
}

impl Said {
    fn new(ahead: usize) -> Self {
        let (says, heard) = mpsc::channel(ahead);
        Self {
            says,
            heard: Mutex::new(heard),
        }
    }

    /// What hears it, of whoever the broker vouches for.
    fn hear(&self, users: &str) -> impl FnMut(Heard) -> Option<lapin::Acker> + Send + use<> {
        let (says, users) = (self.says.clone(), users.to_owned());
        move |heard| {
            if let Heard::Delivered(message) = heard {
                let user = message.properties.user_id().as_ref();
                let subject = address(&message).and_then(|at| at.subject());
                if let Some(subject) = subject
                    && proven(&subject, user.map(ShortString::as_str), &users)
                {
                    // While nobody listens it is worth nothing.
                    drop(says.try_send((subject, message.data)));
                }
            }
            None
        }
    }

    async fn next(&self) -> (Subject, Vec<u8>) {
        let mut heard = self.heard.lock().await;
        match heard.recv().await {
            Some(said) => said,
            None => std::future::pending().await,
        }
    }
}

#[derive(Debug, Default)]
struct Listening {
    told: Vec<Arc<Told>>,
    tasks: JoinSet<()>,
}

impl Ears {
    pub(super) fn new(users: String) -> Self {
        Self {
            users,
            listening: Mutex::default(),
            beats: Said::new(HEARTBEATS_AHEAD),
            logs: Said::new(LOGS_AHEAD),
        }
    }

    /// Listens, and holds at most so many of each queue. Once, however often it is told to: then it listens anew.
    pub(super) async fn listen(&self, line: &Arc<Line>, intake: &Arc<Intake>, held: u16) {
        let mut listening = self.listening.lock().await;
        if !listening.told.is_empty() {
            for told in &listening.told {
                told.again();
            }
            return;
        }
        for (of, queue) in [
            (Of::Reports, Queue::Control),
            (Of::Enrolments, Queue::Control),
            (Of::Announcements, Queue::Events),
        ] {
            let (intake, name) = (Arc::clone(intake), of.name());
            let hear = move |heard| intake.heard(queue, &name, heard);
            listening.to(line, &of, (held, false), hear);
        }
        let (beats, logs) = (self.beats.hear(&self.users), self.logs.hear(&self.users));
        listening.to(line, &Of::Heartbeats, (HEARTBEATS_OUT, true), beats);
        listening.to(line, &Of::Logs, (LOGS_OUT, true), logs);
    }

    /// Waits for the next sign of life. May be dropped.
    pub(super) async fn heartbeat(&self) -> (Subject, Vec<u8>) {
        self.beats.next().await
    }

    /// Waits for the next part of a log. May be dropped.
    pub(super) async fn log(&self) -> (Subject, Vec<u8>) {
        self.logs.next().await
    }

    /// A panic in one is not to go unheard: nobody would know that the controller is deaf.
    pub(super) fn are_well(&self) {
        let Ok(mut listening) = self.listening.try_lock() else {
            return;
        };
        if let Some(Err(ended)) = listening.tasks.try_join_next()
            && let Ok(panic) = ended.try_into_panic()
        {
            resume_unwind(panic);
        }
    }

    /// Gives back what is not settled.
    pub(super) async fn stop(&self) {
        let mut listening = self.listening.lock().await;
        for told in &listening.told {
            told.stop();
        }
        while listening.tasks.join_next().await.is_some() {}
    }
}

impl Listening {
    fn to(
        &mut self,
        line: &Arc<Line>,
        of: &Of,
        (prefetch, settled): (u16, bool),
        hear: impl FnMut(Heard) -> Option<lapin::Acker> + Send + 'static,
    ) {
        let told = Arc::new(Told::default());
        let queue = ear::Queue {
            name: of.name(),
            prefetch,
            settled,
            priority: None,
        };
        self.told.push(Arc::clone(&told));
        self.tasks
            .spawn(ear::listen(Arc::clone(line), queue, told, hear));
    }
}

/// Heartbeats that wait to be heard, before some are missed.
const HEARTBEATS_AHEAD: usize = 4096;
const HEARTBEATS_OUT: u16 = 256;
/// Parts of logs that wait to be read, before some are missed.
const LOGS_AHEAD: usize = 256;
const LOGS_OUT: u16 = 64;
