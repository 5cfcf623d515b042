//! Damaged files: they are seen, or they do no harm. Never is something older or other handed out in silence.

use std::fs;
use std::path::Path;

use mesh_store::{Class, EngineKind, IfAbsent, RawOp, StoreError};
use tempfile::tempdir;

use crate::backup::sealed;
use crate::kit::{self, after, block_on, content, over_each_engine, put, step};

over_each_engine!(
    values_that_changed_places_are_seen,
    a_store_of_a_newer_schema_is_refused_by_its_number,
    a_store_without_its_own_records_is_damaged,
);

fn values_that_changed_places_are_seen(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(dir.path(), kind).await.unwrap();
        store
            .commit(vec![put("a", b"1"), put("b", b"2")])
            .await
            .unwrap();
        store.close().await;
    });
    let (key, _) = sealed(b"\x01a", b"1");
    let (_, value) = sealed(b"\x01b", b"2");
    tamper(dir.path(), kind, RawOp::Put { key, value });
    let error = block_on(kit::open(dir.path(), kind)).unwrap_err();
    assert!(
        matches!(&error, StoreError::Corrupt { detail, .. } if detail.contains("checksum")),
        "{error}"
    );
}

fn a_store_of_a_newer_schema_is_refused_by_its_number(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async { kit::open(dir.path(), kind).await.unwrap().0.close().await });
    let (key, value) = sealed(&[0, 0], &2_u32.to_le_bytes());
    tamper(dir.path(), kind, RawOp::Put { key, value });
    let error = block_on(kit::open(dir.path(), kind)).unwrap_err();
    assert_eq!(
        error,
        StoreError::FutureSchema {
            path: dir.path().to_owned(),
            found: 2,
            ours: 1
        }
    );
}

fn a_store_without_its_own_records_is_damaged(kind: EngineKind) {
    for record in 0..3 {
        let dir = tempdir().unwrap();
        block_on(async { kit::open(dir.path(), kind).await.unwrap().0.close().await });
        tamper(
            dir.path(),
            kind,
            RawOp::Remove {
                key: vec![0, record],
            },
        );
        let error = block_on(kit::open(dir.path(), kind)).unwrap_err();
        assert!(
            matches!(error, StoreError::Corrupt { .. }),
            "without record {record}: {error}"
        );
    }
}

/// Does behind the store's back what no store does.
pub(crate) fn tamper(dir: &Path, kind: EngineKind, op: RawOp) {
    let mut engine = kind.open(dir, IfAbsent::Refuse).unwrap();
    engine.apply(&[op]).unwrap();
    engine.close().unwrap();
}

const STEPS: u64 = 60;
const TRIALS: u64 = 25;
const PAGE: usize = 4096;

#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip,
    Garbage,
    Zeros,
    Cut,
}

#[test]
fn no_damage_to_a_redb_file_goes_unseen() {
    let dir = tempdir().unwrap();
    let mut seed = 1;
    let (mut seen, mut harmless) = (0, 0);
    for (state, file) in [
        ("closed", closed(dir.path())),
        ("killed", killed(dir.path())),
    ] {
        for harm in [Harm::Flip, Harm::Garbage, Harm::Zeros, Harm::Cut] {
            for _ in 0..TRIALS {
                let mut file = file.clone();
                let at = inflict(harm, &mut file, &mut seed);
                match judge(dir.path(), &file) {
                    Ok(true) => harmless += 1,
                    Ok(false) => panic!(
                        "{state}, {harm:?} at {at}: opened with something else than was written"
                    ),
                    Err(error) => {
                        assert_eq!(
                            error.class(),
                            Class::Stop,
                            "{state}, {harm:?} at {at}: {error}"
                        );
                        seen += 1;
                    }
                }
            }
        }
    }
    // About half of the pages with something in them are of no commit that counts.
    assert!(
        3 * seen > harmless,
        "{seen} seen, {harmless} harmless: the harm hardly meets anything"
    );
}

/// A store's file after it was closed.
fn closed(dir: &Path) -> Vec<u8> {
    let dir = dir.join("closed");
    block_on(async {
        let (store, _) = kit::open(&dir, EngineKind::Redb).await.unwrap();
        for n in 1..=STEPS {
            store.commit(step(n)).await.unwrap();
        }
        store.close().await;
    });
    fs::read(dir.join("store.redb")).unwrap()
}

/// A store's file as a killed process leaves it: what was written, and no more.
fn killed(dir: &Path) -> Vec<u8> {
    let dir = dir.join("killed");
    block_on(async {
        let (store, _) = kit::open(&dir, EngineKind::Redb).await.unwrap();
        for n in 1..=STEPS {
            store.commit(step(n)).await.unwrap();
        }
        fs::read(dir.join("store.redb")).unwrap()
    })
}

/// Whether what opens is what was written, the commit number included.
fn judge(dir: &Path, file: &[u8]) -> Result<bool, StoreError> {
    let dir = dir.join("harmed");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("store.redb"), file).unwrap();
    block_on(async {
        let (store, opened) = kit::open(&dir, EngineKind::Redb).await?;
        store.close().await;
        Ok(opened.commit == STEPS && content(opened.entries) == after(STEPS))
    })
}

/// Harms the file somewhere in a page that holds something, and answers where.
fn inflict(harm: Harm, file: &mut Vec<u8>, seed: &mut u64) -> usize {
    let used: Vec<usize> = (0..file.len() / PAGE)
        .filter(|&page| page_of(file, page).iter().any(|&b| b != 0))
        .collect();
    let page = used[draw(seed, used.len())];
    let at = page * PAGE + draw(seed, PAGE);
    match harm {
        Harm::Flip => file[at] ^= 1 << draw(seed, 8),
        Harm::Garbage => file[page * PAGE..][..PAGE].fill_with(|| draw(seed, 256).to_le_bytes()[0]),
        Harm::Zeros => file[page * PAGE..][..PAGE].fill(0),
        Harm::Cut => file.truncate(at),
    }
    at
}

fn page_of(file: &[u8], page: usize) -> &[u8] {
    &file[page * PAGE..][..PAGE]
}

/// The next number below `bound`, from `splitmix64`: the same damage in every run.
fn draw(seed: &mut u64, bound: usize) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
}
