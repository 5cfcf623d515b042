//! The backup file: the same for every engine, so it is also the way from one engine to another.
//!
//! `STORDMP1`, then per record `[length u32 LE][crc32 LE][postcard (raw key, sealed value)]`, then a trailer
//! `[u32::MAX LE][records u64 LE][crc32 LE of all the crc32s]` and nothing after it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::engine::{Engine, EngineError, EngineKind, RawOp, files};
use crate::error::StoreError;
use crate::key::Key;
use crate::meta::{self, Meta, ReadError, Reading, StoreId};
use crate::record::MAX_BODY;

const MAGIC: &[u8; 8] = b"STORDMP1";
const TRAILER: u32 = u32::MAX;
/// Longer than any record: key and body at their bounds, the seal, and their lengths.
const MAX_RECORD: usize = MAX_BODY + Key::MAX + 64;
/// How many records are put into a new store at once.
const BATCH: usize = 5000;

/// What went into a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    /// How many records, the store's own three included.
    pub records: u64,
    /// How long the file is, in bytes.
    pub bytes: u64,
    /// Which store it was taken from.
    pub identity: StoreId,
    /// Its commit number at that moment.
    pub commit: u64,
}

/// What came out of a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportSummary {
    /// How many records, the store's own three included.
    pub records: u64,
    /// Which store the backup was taken from.
    pub from: StoreId,
    /// The commit number the new store starts at: that of the backup.
    pub commit: u64,
}

/// Why a backup was not restored. Nothing is left behind in the store's place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("the backup {path} cannot be read: {detail}", path = .path.display())]
    Unreadable {
        /// The backup file.
        path: PathBuf,
        /// What went wrong.
        detail: String,
    },
    /// The file is not what was written.
    #[error("the backup {path} is damaged: {detail}; use another one", path = .path.display())]
    Damaged {
        /// The backup file.
        path: PathBuf,
        /// Where the damage shows.
        detail: String,
    },
    /// The backup was taken by a newer version of this program.
    #[error("the backup {path} has schema {found}, this program knows {ours}; run the newer program", path = .path.display())]
    FutureSchema {
        /// The backup file.
        path: PathBuf,
        /// The schema it was written with.
        found: u32,
        /// The newest one known here.
        ours: u32,
    },
    /// There is a store already.
    #[error("{path} holds a {found} store already; restore into an empty directory", path = .path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// The engine of the store in it.
        found: EngineKind,
    },
    /// The new store could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes all of `engine` to `to`. Outer error: the engine; inner: the file.
pub(crate) fn export(
    engine: &dyn Engine,
    to: &Path,
) -> Result<Result<ExportSummary, EngineError>, EngineError> {
    let part = beside(to);
    let mut writer = match DumpWriter::create(&part) {
        Ok(writer) => writer,
        Err(error) => return Ok(Err(error.into())),
    };
    let mut reading = Reading::default();
    let mut file_wrong = Ok(());
    let mut store_wrong = Ok(());
    engine.scan(&mut |key, value| {
        // A damaged store must not make a sound backup.
        store_wrong = reading.take(key, value).map(drop);
        if store_wrong.is_ok() {
            file_wrong = writer.record(key, value);
        }
        if store_wrong.is_ok() && file_wrong.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let Meta {
        id: identity,
        commit,
    } = store_wrong
        .and_then(|()| reading.finish())
        .map_err(|error| EngineError::Corrupt(error.to_string()))?;
    let written = file_wrong
        .and_then(|()| writer.finish())
        .and_then(|(records, bytes)| {
            files::rename(&part, to)?;
            Ok(ExportSummary {
                records,
                bytes,
                identity,
                commit,
            })
        });
    Ok(written.map_err(EngineError::from))
}

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
    let mut summary = None;
    kind.create(dir, |engine| {
        summary = Some(fill(from, engine, id)?);
        Ok(())
    })
    .map_err(|failure: FillError| failure.at(from, dir))?;
    summary.ok_or_else(|| at(EngineError::Io("the new store was not filled".to_owned())))
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

fn beside(to: &Path) -> PathBuf {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

struct DumpWriter {
    file: BufWriter<File>,
    records: u64,
    bytes: u64,
    checksums: crc32fast::Hasher,
}

impl DumpWriter {
    /// For its owner only: a backup holds keys.
    fn create(path: &Path) -> io::Result<Self> {
        files::remove(path)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut writer = Self {
            file: BufWriter::new(file),
            records: 0,
            bytes: 0,
            checksums: crc32fast::Hasher::new(),
        };
        writer.write(MAGIC)?;
        Ok(writer)
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let record = postcard::to_stdvec(&(key, value)).map_err(io::Error::other)?;
        let length = u32::try_from(record.len()).map_err(io::Error::other)?;
        let checksum = crc32fast::hash(&record).to_le_bytes();
        self.checksums.update(&checksum);
        self.records = self.records.saturating_add(1);
        self.write(&length.to_le_bytes())?;
        self.write(&checksum)?;
        self.write(&record)
    }

    fn finish(mut self) -> io::Result<(u64, u64)> {
        let checksum = self.checksums.clone().finalize();
        self.write(&TRAILER.to_le_bytes())?;
        self.write(&self.records.to_le_bytes())?;
        self.write(&checksum.to_le_bytes())?;
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok((self.records, self.bytes))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes = self
            .bytes
            .saturating_add(bytes.len().try_into().unwrap_or(u64::MAX));
        self.file.write_all(bytes)
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

    const GOLDEN: &[u8] = include_bytes!("../tests/golden/dump-1.bin");

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
