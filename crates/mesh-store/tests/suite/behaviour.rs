//! What a caller may rely on while the disk is well, and what it is told when it is not.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mesh_store::{
    Class, Engine, EngineError, EngineKind, Fault, FaultGate, IfAbsent, RawOp, Store, StoreError,
    StoreId, Visitor,
};
use tempfile::tempdir;
use tokio::task::JoinSet;

use crate::kit::{self, ID, after, block_on, content, over_each_engine, put, remove, step};

over_each_engine!(
    a_new_store_is_empty_and_has_the_id_it_was_given,
    what_was_committed_is_there_after_a_reopen_in_key_order,
    each_commit_has_the_next_number,
    a_second_opener_is_told_the_directory,
    what_can_never_be_stored_is_refused_and_nothing_else_suffers,
    after_a_refusal_the_handle_is_dead_until_it_is_reopened,
    a_closed_store_takes_nothing,
    a_store_of_another_engine_is_not_passed_over,
    a_store_that_vanished_is_not_made_anew,
    a_store_that_comes_back_older_is_a_loss,
    a_panicking_engine_is_damage,
);

fn a_new_store_is_empty_and_has_the_id_it_was_given(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, opened) = kit::open(&dir.path().join("made/here"), kind)
            .await
            .unwrap();
        assert_eq!(
            (opened.entries, opened.identity, opened.commit),
            (vec![], ID, 0)
        );
        store.close().await;
        let (_store, again) =
            Store::open(&dir.path().join("made/here"), kind, StoreId::new([8; 16]))
                .await
                .unwrap();
        assert_eq!(again.identity, ID, "an id is given once");
    });
}

fn what_was_committed_is_there_after_a_reopen_in_key_order(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        for n in 1..=30 {
            store.commit(step(n)).await.unwrap();
        }
        store.close().await;

        let (store, opened) = kit::open(dir.path(), kind).await.unwrap();
        assert!(opened.entries.is_sorted_by(|a, b| a.key < b.key));
        assert_eq!(store.scan().await.unwrap(), opened.entries);
        assert!(content(opened.entries) == after(30));
        assert_eq!(opened.commit, 30);
    });
}

fn each_commit_has_the_next_number(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        assert_eq!(store.commit(vec![put("a", b"1")]).await, Ok(1));
        assert_eq!(store.commit(vec![]).await, Ok(2), "a probe is a commit");
        assert_eq!(
            store
                .commit(vec![put("a", b"1"), remove("a"), put("b", b"2")])
                .await,
            Ok(3)
        );
        let opened = store.reopen().await.unwrap();
        assert_eq!(opened.commit, 3);
        assert_eq!(
            content(opened.entries),
            [(b"b".to_vec(), b"2".to_vec())].into()
        );
    });
}

fn a_second_opener_is_told_the_directory(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        let error = kit::open(dir.path(), kind).await.unwrap_err();
        assert_eq!(
            error,
            StoreError::Locked {
                path: dir.path().to_owned()
            }
        );
        assert_eq!(error.class(), Class::Retry);
        assert!(error.to_string().contains(&*dir.path().to_string_lossy()));
        store.close().await;
        kit::open(dir.path(), kind).await.unwrap();
    });
}

fn what_can_never_be_stored_is_refused_and_nothing_else_suffers(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        let too_big = vec![0; mesh_store::record::MAX_BODY + 1];
        let refused = [
            vec![put("good", b"1"), put("big", &too_big)],
            vec![put("", b"1")],
            vec![remove(&"k".repeat(513))],
        ];
        for ops in refused {
            assert_eq!(
                store.commit(ops).await.unwrap_err().class(),
                Class::RefuseThis
            );
        }
        assert_eq!(store.commit(vec![put("big", &too_big[1..])]).await, Ok(1));
        assert_eq!(store.scan().await.unwrap().len(), 1);
    });
}

fn after_a_refusal_the_handle_is_dead_until_it_is_reopened(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let gate = Arc::new(FaultGate::default());
        let (store, _) = kit::open_behind(&gate, dir.path(), kind).await;
        store.commit(step(1)).await.unwrap();

        for fault in [Fault::Full, Fault::Io] {
            gate.refuse(fault);
            let error = store.commit(step(2)).await.unwrap_err();
            assert_eq!(error.class(), Class::Retry);
            assert_eq!(
                matches!(error, StoreError::Full { .. }),
                fault == Fault::Full
            );
            gate.allow();
            assert_eq!(store.commit(step(2)).await, Err(error.clone()), "dead");
            assert_eq!(store.scan().await, Err(error), "dead");

            gate.refuse(fault);
            assert_eq!(
                store.reopen().await.unwrap_err().class(),
                Class::Retry,
                "still refused"
            );
            gate.allow();
            let opened = store.reopen().await.unwrap();
            assert!(content(opened.entries) == after(1));
        }
        assert_eq!(store.commit(step(2)).await, Ok(2));
    });
}

fn a_closed_store_takes_nothing(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        let clone = store.clone();
        store.close().await;
        assert_eq!(clone.commit(step(1)).await, Err(StoreError::Closed));
        clone.close().await;
    });
}

fn a_store_of_another_engine_is_not_passed_over(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        kit::open(dir.path(), kind).await.unwrap().0.close().await;
        let other = EngineKind::ALL
            .into_iter()
            .find(|&other| other != kind)
            .unwrap();
        let error = kit::open(dir.path(), other).await.unwrap_err();
        assert!(matches!(error, StoreError::NotOurs { .. }), "{error}");
        assert!(error.to_string().contains(&kind.to_string()), "{error}");
    });
}

fn a_store_that_vanished_is_not_made_anew(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        std::fs::rename(
            dir.path().join(format!("store.{kind}")),
            dir.path().join("elsewhere"),
        )
        .unwrap();
        assert_eq!(store.reopen().await.unwrap_err().class(), Class::Stop);
    });
}

fn a_store_that_comes_back_older_is_a_loss(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        // The second opening finds another directory: the same store as it was one commit ago.
        let (now, before) = (dir.path().join("now"), dir.path().join("before"));
        let (store, _) = kit::open(&before, kind).await.unwrap();
        store.commit(step(1)).await.unwrap();
        store.close().await;
        let first = AtomicUsize::new(0);
        let dirs = [now.clone(), before];
        let (store, _) = Store::open_with(&now, ID, move |_, absent| {
            let dir = &dirs[first.fetch_add(1, Ordering::Relaxed).min(1)];
            kind.open(dir, absent)
        })
        .await
        .unwrap();
        store.commit(step(1)).await.unwrap();
        store.commit(step(2)).await.unwrap();
        assert_eq!(
            store.reopen().await,
            Err(StoreError::Lost {
                stored: 1,
                promised: 2
            })
        );
        assert_eq!(
            store.commit(step(3)).await,
            Err(StoreError::Lost {
                stored: 1,
                promised: 2
            })
        );
    });
}

/// An engine that counts, and panics when told to.
struct Watched {
    engine: Box<dyn Engine>,
    applies: Arc<AtomicUsize>,
    panics: bool,
}

impl Engine for Watched {
    fn apply(&mut self, ops: &[RawOp]) -> Result<(), EngineError> {
        assert!(!self.panics, "told to panic");
        self.applies.fetch_add(1, Ordering::Relaxed);
        self.engine.apply(ops)
    }

    fn scan(&self, each: &mut Visitor<'_>) -> Result<(), EngineError> {
        self.engine.scan(each)
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.engine.close()
    }
}

fn a_panicking_engine_is_damage(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = Store::open_with(dir.path(), ID, move |dir, absent| {
            let engine = kind.open(dir, absent)?;
            Ok(Box::new(Watched {
                engine,
                applies: Arc::default(),
                panics: true,
            }))
        })
        .await
        .unwrap();
        let error = store.commit(step(1)).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Corrupt { detail, .. } if detail.contains("told to panic")),
            "{error}"
        );
        assert_eq!(error.class(), Class::Stop);
    });
}

/// An engine whose applies wait for the gate, so that commits pile up behind the first.
fn watched(dir: &Path, gate: &Arc<FaultGate>) -> (Store, Arc<AtomicUsize>) {
    let applies = Arc::new(AtomicUsize::new(0));
    let (count, behind) = (Arc::clone(&applies), Arc::clone(gate));
    let open = move |dir: &Path, absent: IfAbsent<'_>| -> Result<Box<dyn Engine>, EngineError> {
        let engine = EngineKind::Redb.open(dir, absent)?;
        let engine = Watched {
            engine,
            applies: Arc::clone(&count),
            panics: false,
        };
        Ok(Box::new(mesh_store::Faulty::new(
            Box::new(engine),
            Arc::clone(&behind),
        )))
    };
    let (store, _) = block_on(Store::open_with(dir, ID, open)).unwrap();
    (store, applies)
}

const PILED: u64 = 200;

/// Sends steps 1 to [`PILED`], the first of which waits until the rest are queued, then lets `then` decide.
/// Answers each step's outcome, in the order in which they were answered.
async fn pile_up(
    store: &Store,
    gate: &FaultGate,
    then: impl FnOnce(&FaultGate),
) -> Vec<(u64, Result<u64, StoreError>)> {
    gate.delay(Duration::from_mins(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let queued = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for n in 1..=PILED {
        let (store, order, queued) = (store.clone(), Arc::clone(&order), Arc::clone(&queued));
        tasks.spawn(async move {
            let mut commit = pin!(store.commit(step(n)));
            let first = poll_fn(|task| Poll::Ready(commit.as_mut().poll(task))).await;
            assert!(first.is_pending(), "step {n} did not wait for the disk");
            queued.fetch_add(1, Ordering::Relaxed);
            let outcome = commit.await;
            order.lock().unwrap().push((n, outcome));
        });
    }
    while queued.load(Ordering::Relaxed) < PILED {
        tokio::task::yield_now().await;
    }
    then(gate);
    tasks.join_all().await;
    Arc::into_inner(order).unwrap().into_inner().unwrap()
}

#[test]
fn what_queues_during_a_flush_is_one_commit_answered_in_order() {
    let dir = tempdir().unwrap();
    let gate = Arc::new(FaultGate::default());
    let (store, applies) = watched(dir.path(), &gate);
    block_on(async {
        let outcomes = pile_up(&store, &gate, FaultGate::allow).await;

        let applied = applies.load(Ordering::Relaxed);
        assert!(applied <= 2, "{applied} flushes for {PILED} commits");
        let (steps, numbers): (Vec<_>, Vec<_>) = outcomes
            .into_iter()
            .map(|(n, done)| (n, done.unwrap()))
            .unzip();
        assert!(
            steps.is_sorted() && numbers.is_sorted(),
            "{steps:?} {numbers:?}"
        );
        assert_eq!(usize::try_from(*numbers.last().unwrap()).unwrap(), applied);
        assert!(content(store.scan().await.unwrap()) == after(PILED));
    });
}

#[test]
fn every_commit_behind_a_failed_one_is_told_the_same() {
    let dir = tempdir().unwrap();
    let gate = Arc::new(FaultGate::default());
    let (store, _) = watched(dir.path(), &gate);
    block_on(async {
        let outcomes = pile_up(&store, &gate, |gate| {
            gate.refuse(Fault::Full);
            gate.delay(Duration::ZERO);
        })
        .await;
        let first = outcomes[0].1.clone();
        assert!(matches!(first, Err(StoreError::Full { .. })), "{first:?}");
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == first));
        gate.allow();
        assert_eq!(store.reopen().await.unwrap().commit, 0);
    });
}

#[test]
fn an_engine_reads_a_scan_only_until_it_is_told_to_stop() {
    for kind in EngineKind::ALL {
        let dir = tempdir().unwrap();
        let pair = |n: u8| RawOp::Put {
            key: vec![n],
            value: vec![n],
        };
        let engine = kind
            .open(dir.path(), IfAbsent::Create(&[pair(1), pair(2), pair(3)]))
            .unwrap();
        let mut seen = Vec::new();
        engine
            .scan(&mut |key, _| {
                seen.extend_from_slice(key);
                if key == [2] {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        assert_eq!(seen, [1, 2], "{kind}");
        engine.close().unwrap();
    }
}
