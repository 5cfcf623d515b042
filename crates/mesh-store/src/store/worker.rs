//! The thread that owns the engine: groups commits, answers in order, and dies and comes back with the disk.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;

use tokio::sync::mpsc;

use super::{Answer, Opened, Request};
use crate::dump::{self, ExportError, ExportSummary};
use crate::engine::guard::{guard, put_down};
use crate::engine::{Engine, EngineError, IfAbsent, RawOp, files};
use crate::error::StoreError;
use crate::meta::{self, Meta, ReadError, Reading, StoreId};
use crate::record::Entry;

/// A group takes no further commit past this many ops: its flush must not keep the first one waiting for long.
const GROUP_OPS: usize = 4096;

pub(super) type OpenEngine =
    Box<dyn Fn(&Path, IfAbsent<'_>) -> Result<Box<dyn Engine>, EngineError> + Send>;

#[derive(Debug)]
pub(super) struct Commit {
    pub(super) ops: Vec<RawOp>,
    pub(super) answer: Answer<u64>,
}

/// Starts the thread. It answers `opened` first, and ends when the store is closed.
pub(super) fn start(
    dir: &Path,
    new_id: StoreId,
    open_engine: OpenEngine,
    queue: mpsc::Receiver<Request>,
    opened: Answer<Opened>,
) -> Result<(), StoreError> {
    let dir = dir.to_owned();
    let failed = dir.clone();
    thread::Builder::new()
        .name("mesh-store".to_owned())
        .spawn(move || match Worker::open(dir, new_id, open_engine) {
            Ok((worker, found)) => {
                // Nobody left to tell: the queue is closed as well, and the worker ends at once.
                if opened.send(Ok(found)).is_ok() {
                    worker.run(queue);
                }
            }
            Err(error) => drop(opened.send(Err(error))),
        })
        .map(drop)
        .map_err(|error| StoreError::at(&failed, error.into()))
}

struct Worker {
    dir: PathBuf,
    open_engine: OpenEngine,
    state: State,
    /// What was acknowledged last; the disk may be ahead of it, never behind.
    acknowledged: Meta,
    /// Last, so that it is given up after the engine is.
    _lock: File,
}

enum State {
    Live(Box<dyn Engine>),
    Dead(StoreError),
}

impl Worker {
    fn open(
        dir: PathBuf,
        new_id: StoreId,
        open_engine: OpenEngine,
    ) -> Result<(Self, Opened), StoreError> {
        let at = |error: EngineError| StoreError::at(&dir, error);
        files::make_dir(&dir).map_err(|error| at(error.into()))?;
        let lock = files::lock(&dir).map_err(at)?;
        let birth = meta::birth(new_id, 0);
        let (engine, opened) = open_and_read(&dir, &open_engine, IfAbsent::Create(&birth))?;
        let acknowledged = Meta {
            id: opened.identity,
            commit: opened.commit,
        };
        Ok((
            Self {
                dir,
                open_engine,
                state: State::Live(engine),
                acknowledged,
                _lock: lock,
            },
            opened,
        ))
    }

    fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        let mut next = queue.blocking_recv();
        let mut closed = None;
        while let Some(request) = next {
            next = None;
            match request {
                Request::Commit(first) => {
                    let group;
                    (group, next) = gather(first, &mut queue);
                    self.commit(group);
                }
                Request::Scan(answer) => tell(answer, self.scan()),
                Request::Reopen(answer) => tell(answer, self.reopen()),
                Request::Export(to, answer) => tell(answer, self.export(&to)),
                Request::Close(answer) => {
                    closed = Some(answer);
                    break;
                }
            }
            if next.is_none() {
                next = queue.blocking_recv();
            }
        }
        drop(queue);
        self.close();
        if let Some(answer) = closed {
            tell(answer, Ok(()));
        }
    }

    fn commit(&mut self, group: Vec<Commit>) {
        let (ops, answers): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|commit| (commit.ops, commit.answer))
            .unzip();
        let outcome = self.apply(ops.into_iter().flatten().collect());
        for answer in answers {
            tell(answer, outcome.clone());
        }
    }

    fn apply(&mut self, mut ops: Vec<RawOp>) -> Result<u64, StoreError> {
        let number = self.acknowledged.commit.saturating_add(1);
        ops.push(meta::commit_op(number));
        self.with_engine(|engine| engine.apply(&ops))?;
        self.acknowledged.commit = number;
        Ok(number)
    }

    fn scan(&mut self) -> Result<Vec<Entry>, StoreError> {
        let dir = self.dir.clone();
        let read = self.with_engine(|engine| Ok(read(&dir, engine)))?;
        self.or_die(read).map(|opened| opened.entries)
    }

    fn export(&mut self, to: &Path) -> Result<ExportSummary, StoreError> {
        let exported = self.with_engine(|engine| match dump::export(engine, to) {
            Ok(summary) => Ok(Ok(summary)),
            // The file is the asker's business; the store is as it was.
            Err(ExportError::File(error)) => Ok(Err(StoreError::at(to, error.into()))),
            Err(ExportError::Engine(error)) => Err(error),
        });
        exported.flatten()
    }

    fn reopen(&mut self) -> Result<Opened, StoreError> {
        if let State::Live(engine) =
            std::mem::replace(&mut self.state, State::Dead(StoreError::Closed))
        {
            put_down(engine);
        }
        let reopened = open_and_read(&self.dir, &self.open_engine, IfAbsent::Refuse);
        let recognised = reopened.and_then(|(engine, opened)| match self.recognise(&opened) {
            Ok(()) => Ok((engine, opened)),
            Err(error) => {
                put_down(engine);
                Err(error)
            }
        });
        match recognised {
            Ok((engine, opened)) => {
                self.acknowledged.commit = opened.commit;
                self.state = State::Live(engine);
                Ok(opened)
            }
            Err(error) => {
                self.state = State::Dead(error.clone());
                Err(error)
            }
        }
    }

    fn recognise(&self, opened: &Opened) -> Result<(), StoreError> {
        let Meta { id, commit } = self.acknowledged;
        if opened.identity != id {
            let detail = format!("it is store {}, and {id} was open", opened.identity);
            return Err(StoreError::NotOurs {
                path: self.dir.clone(),
                detail,
            });
        }
        if opened.commit < commit {
            return Err(StoreError::Lost {
                stored: opened.commit,
                promised: commit,
            });
        }
        Ok(())
    }

    fn with_engine<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Engine) -> Result<T, EngineError>,
    ) -> Result<T, StoreError> {
        let done = match &mut self.state {
            State::Live(engine) => guard(|| work(engine.as_mut())),
            State::Dead(error) => return Err(error.clone()),
        };
        self.or_die(done.map_err(|error| StoreError::at(&self.dir, error)))
    }

    fn or_die<T>(&mut self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        done.inspect_err(|error| {
            tracing::error!(%error, "the store failed and takes nothing until it is opened again");
            if let State::Live(engine) =
                std::mem::replace(&mut self.state, State::Dead(error.clone()))
            {
                put_down(engine);
            }
        })
    }

    fn close(self) {
        if let State::Live(engine) = self.state
            && let Err(error) = guard(|| engine.close())
        {
            tracing::warn!(%error, "the store did not close cleanly; what was acknowledged is on disk");
        }
    }
}

/// The commits that are ready now, in order, and the first request that is none.
fn gather(first: Commit, queue: &mut mpsc::Receiver<Request>) -> (Vec<Commit>, Option<Request>) {
    let mut size = first.ops.len();
    let mut group = vec![first];
    while size < GROUP_OPS {
        match queue.try_recv() {
            Ok(Request::Commit(commit)) => {
                size = size.saturating_add(commit.ops.len());
                group.push(commit);
            }
            Ok(other) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

fn open_and_read(
    dir: &Path,
    open_engine: &OpenEngine,
    absent: IfAbsent<'_>,
) -> Result<(Box<dyn Engine>, Opened), StoreError> {
    let engine = guard(|| open_engine(dir, absent)).map_err(|error| StoreError::at(dir, error))?;
    let opened = guard(|| Ok(read(dir, engine.as_ref())))
        .map_err(|error| StoreError::at(dir, error))
        .flatten();
    match opened {
        Ok(opened) => Ok((engine, opened)),
        Err(error) => {
            put_down(engine);
            Err(error)
        }
    }
}

fn read(dir: &Path, engine: &dyn Engine) -> Result<Opened, StoreError> {
    let mut reading = Reading::default();
    let mut entries = Vec::new();
    let mut wrong = None;
    engine
        .scan(&mut |key, value| match reading.take(key, value) {
            Ok(entry) => {
                entries.extend(entry);
                ControlFlow::Continue(())
            }
            Err(error) => {
                wrong = Some(error);
                ControlFlow::Break(())
            }
        })
        .map_err(|error| StoreError::at(dir, error))?;
    let finished = wrong.map_or_else(|| reading.finish(), Err);
    let path = dir.to_owned();
    match finished {
        Ok(Meta { id, commit }) => Ok(Opened {
            entries,
            identity: id,
            commit,
        }),
        Err(ReadError::Damaged(detail)) => Err(StoreError::Corrupt { path, detail }),
        Err(ReadError::FutureSchema(found)) => Err(StoreError::FutureSchema {
            path,
            found,
            ours: meta::SCHEMA,
        }),
    }
}

/// Whoever asked may have stopped waiting; what was done stays done.
fn tell<T>(answer: Answer<T>, outcome: Result<T, StoreError>) {
    drop(answer.send(outcome));
}
