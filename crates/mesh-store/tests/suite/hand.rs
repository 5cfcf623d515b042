//! What went wrong with other people's embedded stores, and does not with this one.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds.

use std::fs;
use std::sync::Arc;

use mesh_store::{Class, EngineKind, Fault, FaultGate, RawOp, StoreError};
use tempfile::tempdir;

use crate::backup::sealed;
use crate::damage::tamper;
use crate::kit::{self, after, block_on, content, put, step};
use crate::process::{
    every_acknowledgement_comes_after_a_sync_of_all_that_was_written,
    nothing_acknowledged_is_lost_when_the_process_is_killed,
};

const BOTH: [EngineKind; 2] = [EngineKind::Redb, EngineKind::Sled];
const STEPS: u64 = 12;

/// After a kill the file is damaged, and what is said is no way to go on from.
/// <https://github.com/spacejam/sled/issues/1509>
#[test]
fn case_d_740c770_a_flipped_byte_is_told_with_its_path_and_never_taken_for_an_empty_store() {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), EngineKind::Redb).await.unwrap();
        for n in 1..=STEPS {
            store.commit(step(n)).await.unwrap();
        }
        store.close().await;
    });
    let path = dir.path().join("store.redb");
    let whole = fs::read(&path).unwrap();
    let mut told = 0;
    for nth in 0..64 {
        let mut harmed = whole.clone();
        let at = nth * whole.len() / 64;
        for byte in harmed.iter_mut().skip(at).take(16) {
            *byte ^= 0xff;
        }
        fs::write(&path, &harmed).unwrap();
        match block_on(kit::open(dir.path(), EngineKind::Redb)) {
            Ok((store, opened)) => {
                assert!(content(opened.entries) == after(STEPS), "at byte {at}");
                block_on(store.close());
            }
            Err(error) => {
                told += 1;
                assert_eq!(error.class(), Class::Stop, "at byte {at}: {error}");
                let said = error.to_string();
                assert!(said.contains(&*dir.path().to_string_lossy()), "{said}");
                assert!(said.contains("restore"), "{said}");
            }
        }
    }
    assert!(told > 0);
}

/// What was acknowledged is not on disk yet when the process is killed.
/// <https://github.com/spacejam/sled/issues/1160>
#[test]
fn case_d_0848b74_what_was_acknowledged_is_there_after_a_kill() {
    nothing_acknowledged_is_lost_when_the_process_is_killed(EngineKind::Redb);
}

/// The flush was begun and not waited for: nobody hears that it failed.
/// <https://github.com/subconsciousnetwork/noosphere/pull/540>
#[test]
fn case_d_a29641a_a_commit_waits_for_its_flush_and_says_when_that_failed() {
    every_acknowledgement_comes_after_a_sync_of_all_that_was_written(EngineKind::Redb);
    for kind in BOTH {
        let (dir, gate) = (tempdir().unwrap(), Arc::new(FaultGate::default()));
        block_on(async {
            let (store, _) = kit::open_behind(&gate, dir.path(), kind).await;
            store.commit(vec![put("a", b"1")]).await.unwrap();
            gate.refuse(Fault::Full);
            let refused = store.commit(vec![put("a", b"2")]).await.unwrap_err();
            assert_eq!(refused.class(), Class::Retry, "{refused}");
        });
    }
}

/// Two processes cannot have one store, and during an upgrade there are two.
/// <https://github.com/spacejam/sled/issues/1375>
#[test]
fn case_d_f805667_a_second_opener_waits_for_the_first_and_finds_the_same_store() {
    for kind in BOTH {
        let dir = tempdir().unwrap();
        block_on(async {
            let (store, first) = kit::open(dir.path(), kind).await.unwrap();
            store.commit(vec![put("a", b"1")]).await.unwrap();
            for _ in 0..3 {
                let error = kit::open(dir.path(), kind).await.unwrap_err();
                assert_eq!(error.class(), Class::Retry, "{error}");
            }
            store.close().await;
            let (_store, second) = kit::open(dir.path(), kind).await.unwrap();
            assert_eq!(second.identity, first.identity);
            assert_eq!(second.entries.len(), 1);
        });
    }
}

/// A new major version writes another format, and there is no way back.
/// <https://github.com/ZcashFoundation/zebra/issues/588>
#[test]
fn case_d_9476c92_a_newer_format_is_refused_by_its_number_and_left_as_it_is() {
    for kind in BOTH {
        let dir = tempdir().unwrap();
        block_on(async { kit::open(dir.path(), kind).await.unwrap().0.close().await });
        let (key, value) = sealed(&[0, 0], &2_u32.to_le_bytes());
        tamper(dir.path(), kind, RawOp::Put { key, value });
        for _ in 0..2 {
            let refused = block_on(kit::open(dir.path(), kind)).unwrap_err();
            assert!(
                matches!(
                    refused,
                    StoreError::FutureSchema {
                        found: 2,
                        ours: 1,
                        ..
                    }
                ),
                "{refused}"
            );
            assert_eq!(refused.class(), Class::Stop);
        }
    }
}

/// A power failure changed a value, and the system runs with it.
/// <https://github.com/theyosh/TerrariumPI/issues/734>
#[test]
fn case_d_c840fb7_a_record_whose_checksum_is_another_is_not_handed_out() {
    for kind in BOTH {
        let dir = tempdir().unwrap();
        block_on(async {
            let (store, _) = kit::open(dir.path(), kind).await.unwrap();
            store.commit(vec![put("a", b"on")]).await.unwrap();
            store.close().await;
        });
        let (key, mut value) = sealed(b"\x01a", b"on");
        let last = value.len() - 1;
        value[last] ^= 1;
        tamper(dir.path(), kind, RawOp::Put { key, value });
        let error = block_on(kit::open(dir.path(), kind)).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
}
