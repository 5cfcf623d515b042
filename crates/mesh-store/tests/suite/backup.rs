//! The backup file: what goes in comes out, under a new identity and into any engine, or nothing does.

use std::fs;
use std::path::Path;

use mesh_store::{Class, EngineKind, ImportError, ImportSummary, Store, StoreId, import};
use tempfile::tempdir;

use crate::kit::{self, FORM, ID, after, block_on, content, over_each_engine, put, step};

const GOLDEN: &[u8] = include_bytes!("../golden/dump-1.bin");
const RESTORED: StoreId = StoreId::new([9; 16]);

over_each_engine!(
    a_backup_restores_everything_into_any_engine_under_a_new_identity,
    todays_code_reads_and_writes_the_first_backup_file,
    an_occupied_directory_is_not_restored_into,
    a_restore_that_fails_leaves_no_store,
    a_backup_that_cannot_be_written_leaves_the_store_as_it_was,
);

fn a_backup_restores_everything_into_any_engine_under_a_new_identity(kind: EngineKind) {
    let dir = tempdir().unwrap();
    let file = dir.path().join("backup");
    block_on(async {
        let (store, _) = kit::open(&dir.path().join("old"), kind).await.unwrap();
        for n in 1..=25 {
            store.commit(step(n)).await.unwrap();
        }
        // More than one batch of the restore.
        let many = (0..6000).map(|n| put(&format!("many/{n}"), b"x")).collect();
        store.commit(many).await.unwrap();
        let before = store.scan().await.unwrap();
        fs::write(&file, "yesterday's").unwrap();
        let exported = store.export(&file).await.unwrap();
        assert_eq!((exported.identity, exported.commit), (ID, 26));
        assert_eq!(exported.bytes, fs::metadata(&file).unwrap().len());
        store.commit(step(26)).await.unwrap();

        for into in EngineKind::ALL {
            let new = dir.path().join(format!("new in {into}"));
            let imported = import(&file, &new, into, RESTORED).unwrap();
            assert_eq!(
                imported,
                ImportSummary {
                    records: exported.records,
                    from: ID,
                    commit: 26
                }
            );
            let (store, opened) = kit::open(&new, into).await.unwrap();
            assert_eq!((opened.identity, opened.commit), (RESTORED, 26));
            assert!(opened.entries == before);
            assert_eq!(store.commit(step(26)).await, Ok(27));
        }
    });
}

fn todays_code_reads_and_writes_the_first_backup_file(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(&dir.path().join("old"), kind).await.unwrap();
        for n in 1..=3 {
            store.commit(step(n)).await.unwrap();
        }
        let written = dir.path().join("written");
        store.export(&written).await.unwrap();
        assert!(fs::read(written).unwrap() == GOLDEN);

        let (_store, opened) = restore(GOLDEN, dir.path(), kind).await.unwrap();
        assert_eq!(opened.commit, 3);
        assert!(content(opened.entries) == after(3));
    });
}

fn an_occupied_directory_is_not_restored_into(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(&dir.path().join("store"), kind).await.unwrap();
        let error = restore(GOLDEN, dir.path(), kind).await.unwrap_err();
        assert!(
            matches!(&error, ImportError::Store(error) if error.class() == Class::Retry),
            "locked: {error}"
        );
        store.close().await;
        for into in EngineKind::ALL {
            let error = restore(GOLDEN, dir.path(), into).await.unwrap_err();
            assert!(
                matches!(error, ImportError::Occupied { found, .. } if found == kind),
                "{error}"
            );
        }
    });
}

fn a_restore_that_fails_leaves_no_store(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (last, rest) = GOLDEN.split_last().unwrap();
        let damaged = [rest, &[!last]].concat();
        let error = restore(&damaged, dir.path(), kind).await.unwrap_err();
        assert!(matches!(error, ImportError::Damaged { .. }), "{error}");
        let missing = import(
            &dir.path().join("none"),
            &dir.path().join("store"),
            kind,
            RESTORED,
        );
        assert!(
            matches!(missing, Err(ImportError::Unreadable { .. })),
            "{missing:?}"
        );

        let (_store, opened) = restore(GOLDEN, dir.path(), kind).await.unwrap();
        assert_eq!(opened.identity, RESTORED);
    });
}

fn a_backup_that_cannot_be_written_leaves_the_store_as_it_was(kind: EngineKind) {
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(&dir.path().join("store"), kind).await.unwrap();
        let nowhere = dir.path().join("no/such/directory/backup");
        let error = store.export(&nowhere).await.unwrap_err();
        assert!(error.to_string().contains("no/such/directory"), "{error}");
        assert_eq!(store.commit(step(1)).await, Ok(1));
    });
}

#[test]
fn a_backup_file_is_for_its_owner_only_and_replaces_the_one_before() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    block_on(async {
        let (store, _) = kit::open(&dir.path().join("store"), EngineKind::Redb)
            .await
            .unwrap();
        let file = dir.path().join("backup");
        for n in 1..=2 {
            store.commit(step(n)).await.unwrap();
            assert_eq!(store.export(&file).await.unwrap().commit, n);
        }
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 2, "{left:?}");
    });
}

#[test]
fn a_backup_whose_records_moved_or_went_missing_is_refused() {
    let dir = tempdir().unwrap();
    let meta = [
        sealed(&[0, 0], &1_u32.to_le_bytes()),
        sealed(&[0, 1], &[7; 16]),
        sealed(&[0, 2], &4_u64.to_le_bytes()),
    ];
    let record = |key: &[u8]| sealed(key, b"body");
    let cases = [
        (
            "whole",
            [meta.to_vec(), vec![record(b"\x01a"), record(b"\x01b")]].concat(),
            true,
        ),
        ("without its own records", vec![record(b"\x01a")], false),
        (
            "a value under another's key",
            [meta.to_vec(), vec![(b"\x01b".to_vec(), record(b"\x01a").1)]].concat(),
            false,
        ),
        (
            "a key of no known kind",
            [meta.to_vec(), vec![record(b"\x02a")]].concat(),
            false,
        ),
    ];
    for (what, pairs, whole) in cases {
        let outcome = block_on(restore(
            &dump(&pairs),
            &dir.path().join(what),
            EngineKind::Redb,
        ));
        assert_eq!(outcome.is_ok(), whole, "{what}: {outcome:?}");
    }
}

#[test]
fn a_backup_of_a_newer_schema_is_refused_by_its_number() {
    let dir = tempdir().unwrap();
    let newer = dump(&[
        sealed(&[0, 0], &2_u32.to_le_bytes()),
        sealed(&[0, 1], b"of another shape"),
    ]);
    let error = block_on(restore(&newer, dir.path(), EngineKind::Redb)).unwrap_err();
    assert!(
        matches!(
            error,
            ImportError::FutureSchema {
                found: 2,
                ours: 1,
                ..
            }
        ),
        "{error}"
    );
}

async fn restore(
    dump: &[u8],
    dir: &Path,
    kind: EngineKind,
) -> Result<(Store, mesh_store::Opened), ImportError> {
    fs::create_dir_all(dir).unwrap();
    let file = dir.join("a backup");
    fs::write(&file, dump).unwrap();
    import(&file, &dir.join("store"), kind, RESTORED)?;
    Ok(kit::open(&dir.join("store"), kind).await.unwrap())
}

type Pair = (Vec<u8>, Vec<u8>);

/// The seal, written down a second time: kind, version, checksum over key and all, body.
pub(crate) fn sealed(key: &[u8], body: &[u8]) -> Pair {
    let form = [FORM.kind, FORM.version];
    let checksum = crc32fast::hash(&[key, &form, body].concat());
    (
        key.to_vec(),
        [&form, checksum.to_le_bytes().as_slice(), body].concat(),
    )
}

/// The backup format, written down a second time.
fn dump(pairs: &[Pair]) -> Vec<u8> {
    let mut bytes = b"STORDMP1".to_vec();
    let mut checksums = Vec::new();
    for pair in pairs {
        let record = postcard::to_stdvec(pair).unwrap();
        let checksum = crc32fast::hash(&record).to_le_bytes();
        bytes.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        bytes.extend(checksum);
        bytes.extend(record);
        checksums.extend(checksum);
    }
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend(u64::try_from(pairs.len()).unwrap().to_le_bytes());
    bytes.extend(crc32fast::hash(&checksums).to_le_bytes());
    bytes
}
