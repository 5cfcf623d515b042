//! From a store to a backup file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{ExportSummary, MAGIC, TRAILER};
use crate::engine::{Engine, EngineError, files};
use crate::meta::{Meta, ReadError, Reading};

/// Why a backup was not written: the two sides of it.
pub(crate) enum ExportError {
    Engine(EngineError),
    File(io::Error),
}

impl From<EngineError> for ExportError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        Self::Engine(EngineError::Corrupt(error.to_string()))
    }
}

/// Writes all of `engine` to `to`, which appears whole or not at all.
pub(crate) fn export(engine: &dyn Engine, to: &Path) -> Result<ExportSummary, ExportError> {
    let part = beside(to);
    let written = write(engine, &part).and_then(|summary| {
        files::rename(&part, to)?;
        Ok(summary)
    });
    if written.is_err() {
        // Best effort: the disk may be the very thing that failed, and the next export begins by removing it.
        drop(files::remove(&part));
    }
    written
}

fn write(engine: &dyn Engine, to: &Path) -> Result<ExportSummary, ExportError> {
    let mut writer = DumpWriter::create(to)?;
    let mut reading = Reading::default();
    let mut outcome: Result<(), ExportError> = Ok(());
    engine.scan(&mut |key, value| {
        // A damaged store must not make a sound backup.
        let taken = reading.take(key, value).map_err(ExportError::from);
        outcome = taken.and_then(|_| Ok(writer.record(key, value)?));
        if outcome.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    outcome?;
    let Meta {
        id: identity,
        commit,
    } = reading.finish()?;
    let (records, bytes) = writer.finish()?;
    Ok(ExportSummary {
        records,
        bytes,
        identity,
        commit,
    })
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
