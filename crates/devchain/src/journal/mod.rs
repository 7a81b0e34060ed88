//! Persistence of the chain: a snapshot, and a journal of all operations since.
//!
//! `snapshot-N` is the whole chain at one moment, and `journal-N` has the operations after it. `N` counts snapshots;
//! the first journal has no snapshot. A snapshot is written to a temporary file, synced and renamed; only then are the
//! older files removed. A journal is only appended to. After a crash, the directory has the last snapshot, its journal,
//! and at most half a record at the journal's end. No caller got an answer for that half record.

mod codec;
mod frame;
mod snapshot;

use std::fs::{self, File, OpenOptions as FileOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy_primitives::B256;

use crate::chain::{JournalSync, OpenOptions};
use crate::core::{Core, Durability, Op};
use crate::error::ChainError;
use crate::genesis::Genesis;

/// Minimum journal length before a snapshot replaces it.
const SNAPSHOT_MIN_BYTES: u64 = 8 * 1024 * 1024;
const LOCK_FILE: &str = "lock";
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    generation: u64,
    file: File,
    bytes: u64,
    snapshot_bytes: u64,
    sync: JournalSync,
    identity: B256,
    /// The lock on the directory. It excludes other processes while the file is open.
    _lock: File,
}

/// Opens the chain of a directory, or creates it.
pub(crate) fn open(dir: &Path, genesis: Genesis, options: OpenOptions) -> Result<Core, ChainError> {
    fs::create_dir_all(dir).map_err(io("create the chain's directory"))?;
    let lock = lock(dir)?;
    let identity = genesis.identity();
    let generation = newest_generation(dir)?;
    let (restored, snapshot_bytes) = match generation {
        0 => (None, 0),
        generation => {
            let path = dir.join(snapshot_name(generation));
            let bytes = fs::read(&path).map_err(io("read the snapshot"))?;
            (Some(snapshot::decode(&name_of(&path), &bytes, identity)?), bytes.len() as u64)
        }
    };
    let mut core = Core::replaying(genesis, restored);
    let path = dir.join(journal_name(generation));
    let (file, bytes) = replay(&path, identity, &mut core)?;
    remove_older(dir, generation)?;
    let journal = Journal {
        dir: dir.to_owned(),
        generation,
        file,
        bytes,
        snapshot_bytes,
        sync: options.sync,
        identity,
        _lock: lock,
    };
    Ok(core.start_recording(journal))
}

impl Journal {
    /// Appends operations. A killed process loses none of them after the return. `durable` decides whether a machine
    /// crash can.
    pub(crate) fn append(&mut self, ops: &[Op], durable: Durability) -> Result<(), ChainError> {
        let mut bytes = Vec::new();
        for op in ops {
            frame::push(&mut bytes, &codec::encode_op(op));
        }
        if !bytes.is_empty() {
            self.file.write_all(&bytes).map_err(io("write the journal"))?;
            self.bytes += bytes.len() as u64;
        }
        let has_to_sync = match durable {
            Durability::Later => false,
            Durability::WithAnswer => !bytes.is_empty() && self.sync == JournalSync::EveryAnswer,
            Durability::WithBlock => true,
        };
        if has_to_sync {
            self.file.sync_data().map_err(io("sync the journal to disk"))?;
        }
        Ok(())
    }

    /// Replaces a long journal by a snapshot. A larger snapshot is written less often, so the total cost of snapshots
    /// stays proportional to the data written.
    pub(crate) fn snapshot_if_due(&mut self, core: &Core) -> Result<(), ChainError> {
        if self.bytes < SNAPSHOT_MIN_BYTES.max(self.snapshot_bytes / 2) {
            return Ok(());
        }
        self.snapshot(core)
    }

    fn snapshot(&mut self, core: &Core) -> Result<(), ChainError> {
        let next = self.generation + 1;
        let bytes = snapshot::encode(core, self.identity);
        let beside = self.dir.join(format!("{}.new", snapshot_name(next)));
        let mut file = File::create(&beside).map_err(io("create a snapshot"))?;
        file.write_all(&bytes).map_err(io("write a snapshot"))?;
        file.sync_all().map_err(io("sync a snapshot to disk"))?;
        // The journal is created first: a snapshot without a journal is complete, but the journal must exist before the
        // next answer.
        let (journal, length) = create_journal(&self.dir.join(journal_name(next)), self.identity)?;
        fs::rename(&beside, self.dir.join(snapshot_name(next))).map_err(io("rename a snapshot"))?;
        sync_dir(&self.dir)?;
        remove_older(&self.dir, next)?;
        self.generation = next;
        self.file = journal;
        self.bytes = length;
        self.snapshot_bytes = bytes.len() as u64;
        Ok(())
    }
}

/// Replays the journal, truncates a torn tail, and leaves the file open at its end.
fn replay(path: &Path, identity: B256, core: &mut Core) -> Result<(File, u64), ChainError> {
    if !path.exists() {
        let made = create_journal(path, identity)?;
        if let Some(dir) = path.parent() {
            sync_dir(dir)?;
        }
        return Ok(made);
    }
    let bytes = fs::read(path).map_err(io("read the journal"))?;
    let name = name_of(path);
    let mut frames = frame::Frames::of(&name, &bytes);
    let mut good = 0;
    let mut has_header = false;
    while let Some(payload) = frames.next()? {
        if has_header {
            let op = codec::decode_op(payload).map_err(|error| frames.damaged(error.to_string()))?;
            core.replay(op)?;
        } else {
            codec::check_header(payload, identity)?;
            has_header = true;
        }
        good = frames.offset();
    }
    if !has_header {
        // Either a crash interrupted the first record, or the file is not a journal. A foreign file is never
        // overwritten.
        let header = frame::framed_len(&codec::encode_header(identity));
        return if bytes.len() < header { create_journal(path, identity) } else { Err(ChainError::OtherFormat) };
    }
    let mut file = FileOptions::new().read(true).write(true).open(path).map_err(io("open the journal"))?;
    file.set_len(good).map_err(io("truncate the journal's torn end"))?;
    file.sync_all().map_err(io("sync the journal to disk"))?;
    file.seek(SeekFrom::Start(good)).map_err(io("open the journal at its end"))?;
    Ok((file, good))
}

fn create_journal(path: &Path, identity: B256) -> Result<(File, u64), ChainError> {
    let mut bytes = Vec::new();
    frame::push(&mut bytes, &codec::encode_header(identity));
    let mut file = File::create(path).map_err(io("create a journal"))?;
    file.write_all(&bytes).map_err(io("write a journal's header"))?;
    file.sync_all().map_err(io("sync a journal to disk"))?;
    Ok((file, bytes.len() as u64))
}

/// Locks the directory. A child that this process starts inherits the lock until its program begins, so a lock that was
/// just released may be held for a moment.
fn lock(dir: &Path) -> Result<File, ChainError> {
    let file = File::create(dir.join(LOCK_FILE)).map_err(io("create the lock file"))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            #[expect(clippy::disallowed_methods, reason = "a chain is opened before anything runs on its thread")]
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(fs::TryLockError::Error(source)) => {
                return Err(ChainError::Io { action: "lock the chain's directory", source });
            }
        }
    }
    Err(ChainError::InUse)
}

/// The number of the newest snapshot. 0 if the directory has none.
fn newest_generation(dir: &Path) -> Result<u64, ChainError> {
    Ok(generations(dir)?.into_iter().filter(|(_, file)| *file == FileKind::Snapshot).map(|(n, _)| n).max().unwrap_or(0))
}

/// Removes files older than the snapshot `kept`, and unfinished files.
fn remove_older(dir: &Path, kept: u64) -> Result<(), ChainError> {
    for (generation, kind) in generations(dir)? {
        let name = match kind {
            FileKind::Snapshot if generation < kept => snapshot_name(generation),
            // A newer journal belongs to a snapshot that was never renamed.
            FileKind::Journal if generation != kept => journal_name(generation),
            FileKind::Unfinished => format!("{}.new", snapshot_name(generation)),
            FileKind::Snapshot | FileKind::Journal => continue,
        };
        fs::remove_file(dir.join(name)).map_err(io("remove an old file"))?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Snapshot,
    Journal,
    Unfinished,
}

fn generations(dir: &Path) -> Result<Vec<(u64, FileKind)>, ChainError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(io("list the chain's directory"))? {
        let name = entry.map_err(io("list the chain's directory"))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let (kind, number) = match (name.strip_prefix("journal-"), name.strip_prefix("snapshot-")) {
            (Some(number), _) => (FileKind::Journal, number),
            (_, Some(rest)) => match rest.strip_suffix(".new") {
                Some(number) => (FileKind::Unfinished, number),
                None => (FileKind::Snapshot, rest),
            },
            _ => continue,
        };
        if let Ok(number) = number.parse() {
            found.push((number, kind));
        }
    }
    Ok(found)
}

fn snapshot_name(generation: u64) -> String {
    format!("snapshot-{generation}")
}

fn journal_name(generation: u64) -> String {
    format!("journal-{generation}")
}

/// The file name without its directory, for error texts.
fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn sync_dir(dir: &Path) -> Result<(), ChainError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io("sync the chain's directory to disk"))
}

fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> ChainError {
    move |source| ChainError::Io { action, source }
}
