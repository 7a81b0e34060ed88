//! The sidecar: a small file beside the database that remembers how far the database had come.
//!
//! A database file that is restored from a backup, or rolled back by a snapshot, is in itself perfectly sound; nothing in
//! it tells that transactions were sent since which it does not know of. So the count of write transactions is also kept
//! here, outside of it, and synced before anybody is told that a write is done. When the database is opened with a count
//! below this one, it has lost commits (O09).
//!
//! Beside the database also lies its log (`-wal`), and SQLite lays it over whatever file it finds there. Over a restored file
//! that gives pages of two times, with the newest count among them. So the record also says how far the file itself had
//! come, without its log, before that log was begun: `checkpointed`. A file below that is not the one that the log belongs
//! to. For that comparison no two states of the file may have one count, so every opening counts as a write.
//!
//! The record has a fixed size and stands in two places, written in turn: a write that is torn by a power cut spoils only
//! the place it went to, its checksum tells so, and the other place holds the count before. That one is never too high, so
//! a torn record never raises a false alarm; and the write that it belonged to was not acknowledged yet.
//!
//! The file also carries the lock that keeps a second process out, since it is opened before the database is touched.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gapless_domain::keccak256;
use gapless_store::StoreError;

use crate::error::from_io;

const MAGIC: [u8; 8] = *b"GAPLESS1";
const RECORD_BYTES: usize = 48;
/// Where the checksum of what stands before it begins.
const CHECKSUM_AT: usize = 40;
/// Far enough apart that no disk writes both in one go.
const PLACES: [u64; 2] = [0, 4096];

#[derive(Debug)]
pub(crate) struct Sidecar {
    file: File,
    path: PathBuf,
    /// The place that does not hold the newest whole record.
    turn: Cell<usize>,
}

/// How far a database has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) database_id: [u8; 16],
    pub(crate) writes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) mark: Mark,
    /// The count of the file alone, when its log was last brought into it.
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

    /// Opens the file, or makes an empty one, and locks it for as long as this value lives.
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

    /// The newest record that is whole, if there is one.
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

    /// Writes both places, so that from here on every write goes over bytes that the disk has already given us: a disk that
    /// fills up later cannot stop it. A record of another database is gone after this.
    pub(crate) fn begin(&self, record: Record) -> Result<(), StoreError> {
        for place in PLACES {
            self.write(&encode(record), place)?;
        }
        self.sync_folder()
    }

    /// Makes the record durable. When that fails, the next one goes to the same place, and the other stays whole.
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

    /// A new file is there after a power cut only when its folder was synced too; this counts for the database as well.
    pub(crate) fn sync_folder(&self) -> Result<(), StoreError> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| from_io(error, &self.path))
    }

    /// The same sidecar, but every write to it fails.
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
    fn records_round_trip_and_every_bit_counts() {
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

    /// A record that is torn must not take the newest whole one with it, also when only `checkpointed` has changed.
    #[test]
    fn the_newest_whole_record_is_never_written_over() {
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

    /// The first of two locks; SQLite's own is the second, and also holds when this file is removed.
    #[test]
    fn a_sidecar_is_held_by_one_at_a_time() {
        let database = std::env::temp_dir().join(format!("gapless-sqlite-held-{}.db", std::process::id()));
        let held = Sidecar::open(&database).unwrap();
        assert!(matches!(Sidecar::open(&database), Err(StoreError::InUse(_))));
        drop(held);
        drop(Sidecar::open(&database).unwrap());
        std::fs::remove_file(Sidecar::path_for(&database)).unwrap();
    }
}
