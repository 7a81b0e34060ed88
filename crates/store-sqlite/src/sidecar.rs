//! The sidecar: a small file beside the database that remembers how far the database had come.
//!
//! A database file that was restored from a backup, or rolled back by a snapshot, is sound in itself. Nothing in it
//! shows that transactions were sent since. So the count of write transactions is also kept here, outside of the
//! database, and synced before a write is acknowledged. A database with a lower count than the sidecar has lost commits
//! (O09).
//!
//! The log of the database (`-wal`) is beside it too, and SQLite applies the log to any file of that name. Applied to a
//! restored file, the log would mix pages of two times, with the newest count among them. So the record also holds the
//! count of the file alone, without its log, at the time when the log was begun: `checkpointed`. A file with a lower
//! count is not the file that the log belongs to. This needs a new count for every state of the file, so every opening
//! counts as a write.
//!
//! The record has a fixed size and two places, which are written in turn. A power cut can tear only the record that is
//! being written; its checksum shows that, and the other place holds the count before. That count is never too high, so
//! a torn record is never taken for a loss, and the write that it belonged to was not acknowledged.
//!
//! The sidecar also carries the lock that keeps a second process out, because it is opened before the database.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gapless_domain::keccak256;
use gapless_store::StoreError;

use crate::error::from_io;

const MAGIC: [u8; 8] = *b"GAPLESS1";
const RECORD_BYTES: usize = 48;
/// The offset of the checksum, which covers all bytes before it.
const CHECKSUM_AT: usize = 40;
/// The offsets of the two places: far enough apart that no disk writes both at once.
const PLACES: [u64; 2] = [0, 4096];

#[derive(Debug)]
pub(crate) struct Sidecar {
    file: File,
    path: PathBuf,
    /// The index of the place that does not hold the newest whole record.
    turn: Cell<usize>,
}

/// The identity of a database, and its count of write transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) database_id: [u8; 16],
    pub(crate) writes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) mark: Mark,
    /// The count of the file alone, at the last checkpoint of its log.
    pub(crate) checkpointed: u64,
}

impl Record {
    fn age(&self) -> (u64, u64) {
        (self.mark.writes, self.checkpointed)
    }
}

impl Sidecar {
    pub(crate) fn path_for(database: &Path) -> PathBuf {
        let mut path = database.as_os_str().to_owned();
        path.push(".canary");
        PathBuf::from(path)
    }

    /// Opens the file, or creates an empty one, and locks it until this value is dropped.
    pub(crate) fn open(database: &Path) -> Result<Sidecar, StoreError> {
        let path = Self::path_for(database);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| from_io(error, &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Sidecar { file, path, turn: Cell::new(0) }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(database.display().to_string())),
            Err(TryLockError::Error(error)) => Err(from_io(error, &path)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The newest whole record, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Record>, StoreError> {
        let mut newest: Option<Record> = None;
        for place in PLACES {
            let mut record = [0; RECORD_BYTES];
            let mut file = &self.file;
            match file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(&mut record)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(from_io(error, &self.path)),
            }
            if let Some(record) = decode(&record)
                && newest.is_none_or(|other| record.age() > other.age())
            {
                newest = Some(record);
            }
        }
        Ok(newest)
    }

    /// Writes both places, so that later writes need no new space: a disk that fills up cannot stop them. A record of
    /// another database is overwritten.
    pub(crate) fn begin(&self, record: Record) -> Result<(), StoreError> {
        for place in PLACES {
            self.write(&encode(record), place)?;
        }
        self.sync_folder()
    }

    /// Makes the record durable. After a failure the next record goes to the same place, and the other place stays
    /// whole.
    pub(crate) fn record(&self, record: Record) -> Result<(), StoreError> {
        let turn = self.turn.get();
        self.write(&encode(record), PLACES[turn])?;
        self.turn.set(1 - turn);
        Ok(())
    }

    fn write(&self, record: &[u8], place: u64) -> Result<(), StoreError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(place))
            .and_then(|_| file.write_all(record))
            .and_then(|()| file.sync_data())
            .map_err(|error| from_io(error, &self.path))
    }

    /// Syncs the folder: without that, a new file (the database too) may be missing after a power cut.
    pub(crate) fn sync_folder(&self) -> Result<(), StoreError> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| from_io(error, &self.path))
    }

    /// A copy of this sidecar whose writes fail.
    #[cfg(test)]
    pub(crate) fn that_cannot_be_written(&self) -> Sidecar {
        Sidecar { file: File::open(&self.path).unwrap(), path: self.path.clone(), turn: self.turn.clone() }
    }
}

fn encode(record: Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(&record.mark.database_id);
    bytes[24..32].copy_from_slice(&record.mark.writes.to_be_bytes());
    bytes[32..40].copy_from_slice(&record.checkpointed.to_be_bytes());
    let check = checksum(&bytes);
    bytes[CHECKSUM_AT..].copy_from_slice(&check);
    bytes
}

fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
    if bytes[..8] != MAGIC || bytes[CHECKSUM_AT..] != checksum(bytes) {
        return None;
    }
    let number = |at: usize| bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let mut database_id = [0; 16];
    database_id.copy_from_slice(&bytes[8..24]);
    Some(Record { mark: Mark { database_id, writes: number(24) }, checkpointed: number(32) })
}

fn checksum(bytes: &[u8; RECORD_BYTES]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&keccak256(&bytes[..CHECKSUM_AT])[..8]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_round_trips_and_any_flipped_bit_is_found() {
        let mark = Mark { database_id: [7; 16], writes: 0x0102_0304_0506_0708 };
        let whole = Record { mark, checkpointed: 0x1112_1314_1516_1718 };
        let record = encode(whole);
        assert_eq!(decode(&record), Some(whole));
        for bit in 0..RECORD_BYTES * 8 {
            let mut torn = record;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&torn), None, "bit {bit}");
        }
    }

    /// A torn record must leave the newest whole record, also when only `checkpointed` has changed.
    #[test]
    fn newest_whole_record_is_never_overwritten() {
        let database = std::env::temp_dir().join(format!("gapless-sqlite-turns-{}.db", std::process::id()));
        let sidecar = Sidecar::open(&database).unwrap();
        let record = |writes, checkpointed| Record { mark: Mark { database_id: [7; 16], writes }, checkpointed };
        sidecar.begin(record(1, 1)).unwrap();
        let mut before = record(1, 1);
        for next in [record(2, 1), record(2, 2), record(3, 2), record(4, 2), record(4, 4), record(5, 4)] {
            sidecar.write(&[0; RECORD_BYTES], PLACES[sidecar.turn.get()]).unwrap();
            assert_eq!(sidecar.read().unwrap(), Some(before));
            sidecar.record(next).unwrap();
            assert_eq!(sidecar.read().unwrap(), Some(next));
            before = next;
        }
        std::fs::remove_file(Sidecar::path_for(&database)).unwrap();
    }

    /// The first of two locks. The second is SQLite's own, which also holds when the sidecar is removed.
    #[test]
    fn sidecar_is_locked_by_one_owner_at_a_time() {
        let database = std::env::temp_dir().join(format!("gapless-sqlite-held-{}.db", std::process::id()));
        let held = Sidecar::open(&database).unwrap();
        assert!(matches!(Sidecar::open(&database), Err(StoreError::InUse(_))));
        drop(held);
        drop(Sidecar::open(&database).unwrap());
        std::fs::remove_file(Sidecar::path_for(&database)).unwrap();
    }
}
