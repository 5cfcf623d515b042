//! From a backup file to a new store.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::{ImportError, ImportSummary, MAGIC, TRAILER};
use crate::engine::{Engine, EngineError, EngineKind, RawOp, files};
use crate::error::StoreError;
use crate::key::Key;
use crate::meta::{self, Meta, ReadError, Reading, StoreId};
use crate::record::MAX_BODY;

/// Longer than any record: key and body at their bounds, the seal, and their lengths.
const MAX_RECORD: usize = MAX_BODY + Key::MAX + 64;
/// How many records are put into a new store at once.
const BATCH: usize = 5000;

/// Restores the backup `from` into a new store in `dir`, which gets the new identity `id`.
///
/// Blocks while it works. The store appears whole or not at all.
pub fn import(
    from: &Path,
    dir: &Path,
    kind: EngineKind,
    id: StoreId,
) -> Result<ImportSummary, ImportError> {
    let at = |error: EngineError| ImportError::Store(StoreError::at(dir, error));
    files::make_dir(dir).map_err(|error| at(error.into()))?;
    let _lock = files::lock(dir).map_err(at)?;
    if let Some(found) = EngineKind::find(dir).map_err(at)? {
        return Err(ImportError::Occupied {
            path: dir.to_owned(),
            found,
        });
    }
    kind.create(dir, |engine| fill(from, engine, id))
        .map_err(|failure: FillError| failure.at(from, dir))
}

fn fill(from: &Path, engine: &mut dyn Engine, id: StoreId) -> Result<ImportSummary, FillError> {
    let mut batch = Vec::with_capacity(BATCH);
    let (records, Meta { id: from, commit }) =
        read(BufReader::new(File::open(from)?), |(key, value)| {
            batch.push(RawOp::Put { key, value });
            if batch.len() == BATCH {
                engine.apply(&batch)?;
                batch.clear();
            }
            Ok(())
        })?;
    batch.extend(meta::birth(id, commit));
    engine.apply(&batch)?;
    Ok(ImportSummary {
        records,
        from,
        commit,
    })
}

/// Reads a backup to its end: hands out each record that is not the store's own, answers how many there are in all and
/// what the store said of itself.
fn read(
    file: impl Read,
    mut each: impl FnMut(Pair) -> Result<(), FillError>,
) -> Result<(u64, Meta), FillError> {
    let mut reader = DumpReader::begin(file)?;
    let mut reading = Reading::default();
    while let Some((key, value)) = reader.next()? {
        if reading.take(&key, &value)?.is_some() {
            each((key, value))?;
        }
    }
    Ok((reader.records, reading.finish()?))
}

/// Why a new store could not be filled: the two sides of it.
#[derive(Debug)]
enum FillError {
    File(io::Error),
    Damaged(String),
    FutureSchema(u32),
    Engine(EngineError),
}

impl FillError {
    fn at(self, from: &Path, dir: &Path) -> ImportError {
        let path = from.to_owned();
        match self {
            Self::File(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                ImportError::Damaged {
                    path,
                    detail: "it ends too early".to_owned(),
                }
            }
            Self::File(error) => ImportError::Unreadable {
                path,
                detail: error.to_string(),
            },
            Self::Damaged(detail) => ImportError::Damaged { path, detail },
            Self::FutureSchema(found) => ImportError::FutureSchema {
                path,
                found,
                ours: meta::SCHEMA,
            },
            Self::Engine(error) => ImportError::Store(StoreError::at(dir, error)),
        }
    }
}

impl From<EngineError> for FillError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for FillError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<ReadError> for FillError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Damaged(detail) => Self::Damaged(detail),
            ReadError::FutureSchema(found) => Self::FutureSchema(found),
        }
    }
}

type Pair = (Vec<u8>, Vec<u8>);

struct DumpReader<R> {
    file: R,
    records: u64,
    checksums: crc32fast::Hasher,
}

impl<R: Read> DumpReader<R> {
    fn begin(file: R) -> Result<Self, FillError> {
        let mut reader = Self {
            file,
            records: 0,
            checksums: crc32fast::Hasher::new(),
        };
        if reader.bytes()? == *MAGIC {
            Ok(reader)
        } else {
            Err(FillError::Damaged(
                "it does not begin as a backup of the store does".to_owned(),
            ))
        }
    }

    /// The next record, or none once the trailer was read and found right.
    fn next(&mut self) -> Result<Option<Pair>, FillError> {
        let length = u32::from_le_bytes(self.bytes()?);
        if length == TRAILER {
            return self.trailer().map(|()| None);
        }
        let damaged = |what: &str| FillError::Damaged(format!("record {}: {what}", self.records));
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= MAX_RECORD);
        let length = length.ok_or_else(|| damaged("it is longer than any record"))?;
        let checksum: [u8; 4] = self.bytes()?;
        let mut record = vec![0; length];
        self.file.read_exact(&mut record)?;
        let damaged = |what: &str| FillError::Damaged(format!("record {}: {what}", self.records));
        if crc32fast::hash(&record).to_le_bytes() != checksum {
            return Err(damaged("its checksum does not match"));
        }
        let (pair, rest) =
            postcard::take_from_bytes(&record).map_err(|error| damaged(&error.to_string()))?;
        if !rest.is_empty() {
            return Err(damaged("it is longer than its content"));
        }
        self.checksums.update(&checksum);
        self.records = self.records.saturating_add(1);
        Ok(Some(pair))
    }

    fn trailer(&mut self) -> Result<(), FillError> {
        let records = u64::from_le_bytes(self.bytes()?);
        let checksum = u32::from_le_bytes(self.bytes()?);
        let more = self.file.read(&mut [0])?;
        if records == self.records && checksum == self.checksums.clone().finalize() && more == 0 {
            Ok(())
        } else {
            Err(FillError::Damaged(
                "its end does not match its records".to_owned(),
            ))
        }
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../tests/golden/dump-1.bin");

    fn is_damaged(bytes: &[u8]) -> bool {
        match read(bytes, |_| Ok(())) {
            Ok(_) => false,
            Err(FillError::Damaged(_)) => true,
            Err(FillError::File(error)) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_backup_damaged_anywhere_is_refused() {
        assert!(!is_damaged(GOLDEN));
        for bit in 0..GOLDEN.len() * 8 {
            let mut flipped = GOLDEN.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(is_damaged(&flipped), "bit {bit} flipped");
        }
        for length in 0..GOLDEN.len() {
            assert!(is_damaged(&GOLDEN[..length]), "cut to {length} bytes");
        }
        assert!(is_damaged(&[GOLDEN, b"x"].concat()), "one byte more");
    }

    proptest! {
        #[test]
        fn reading_any_bytes_as_a_backup_never_panics(bytes: Vec<u8>) {
            let bytes = [MAGIC.as_slice(), &bytes].concat();
            prop_assert!(is_damaged(&bytes));
        }
    }
}
