//! The sidecar: a small file beside the database that remembers how far the database had come.
//!
//! A database file that is restored from a backup, or rolled back by a snapshot, is in itself perfectly sound; nothing in
//! it tells that transactions were sent since which it does not know of. So the count of write transactions is also kept
//! here, outside of it, and synced before anybody is told that a write is done. When the database is opened with a count
//! below this one, it has lost commits (O09).
//!
//! The record has a fixed size and stands in two places, written in turn: a write that is torn by a power cut spoils only
//! the place it went to, its checksum tells so, and the other place holds the count before. That one is never too high, so
//! a torn record never raises a false alarm; and the write that it belonged to was not acknowledged yet.
//!
//! The file also carries the lock that keeps a second process out, since it is opened before the database is touched.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gapless_domain::keccak256;
use gapless_store::StoreError;

use crate::error::from_io;

const MAGIC: [u8; 8] = *b"GAPLESS1";
const RECORD_BYTES: usize = 40;
/// Far enough apart that no disk writes both in one go.
const PLACES: [u64; 2] = [0, 4096];

#[derive(Debug)]
pub(crate) struct Sidecar {
    file: File,
    path: PathBuf,
}

/// What the database had come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) database_id: [u8; 16],
    pub(crate) writes: u64,
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
            Ok(()) => Ok(Sidecar { file, path }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(database.display().to_string())),
            Err(TryLockError::Error(error)) => Err(from_io(error, &path)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The newest record that is whole, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Mark>, StoreError> {
        let mut newest: Option<Mark> = None;
        for place in PLACES {
            let mut record = [0; RECORD_BYTES];
            let mut file = &self.file;
            match file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(&mut record)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(from_io(error, &self.path)),
            }
            if let Some(mark) = decode(&record)
                && newest.is_none_or(|other| mark.writes > other.writes)
            {
                newest = Some(mark);
            }
        }
        Ok(newest)
    }

    /// Writes both places, so that from here on every write goes over bytes that the disk has already given us: a disk that
    /// fills up later cannot stop it. A record of another database is gone after this.
    pub(crate) fn begin(&self, mark: Mark) -> Result<(), StoreError> {
        for place in PLACES {
            self.write(&encode(mark), place)?;
        }
        self.sync_folder()
    }

    /// Makes the mark durable.
    pub(crate) fn record(&self, mark: Mark) -> Result<(), StoreError> {
        let place = if mark.writes.is_multiple_of(2) { PLACES[0] } else { PLACES[1] };
        self.write(&encode(mark), place)
    }

    fn write(&self, record: &[u8], place: u64) -> Result<(), StoreError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(place))
            .and_then(|_| file.write_all(record))
            .and_then(|()| file.sync_data())
            .map_err(|error| from_io(error, &self.path))
    }

    /// A new file is there after a power cut only when its folder was synced too; this counts for the database as well.
    fn sync_folder(&self) -> Result<(), StoreError> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| from_io(error, &self.path))
    }

    /// The same sidecar, but every write to it fails.
    #[cfg(test)]
    pub(crate) fn that_cannot_be_written(&self) -> Sidecar {
        Sidecar { file: File::open(&self.path).unwrap(), path: self.path.clone() }
    }
}

fn encode(mark: Mark) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&MAGIC);
    record[8..24].copy_from_slice(&mark.database_id);
    record[24..32].copy_from_slice(&mark.writes.to_be_bytes());
    let check = checksum(&record);
    record[32..].copy_from_slice(&check);
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> Option<Mark> {
    if record[..8] != MAGIC || record[32..] != checksum(record) {
        return None;
    }
    let mut mark = Mark { database_id: [0; 16], writes: 0 };
    mark.database_id.copy_from_slice(&record[8..24]);
    let mut writes = [0; 8];
    writes.copy_from_slice(&record[24..32]);
    mark.writes = u64::from_be_bytes(writes);
    Some(mark)
}

fn checksum(record: &[u8; RECORD_BYTES]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&keccak256(&record[..32])[..8]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_every_bit_counts() {
        let mark = Mark { database_id: [7; 16], writes: 42 };
        let record = encode(mark);
        assert_eq!(decode(&record), Some(mark));
        for bit in 0..RECORD_BYTES * 8 {
            let mut torn = record;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&torn), None, "bit {bit}");
        }
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
