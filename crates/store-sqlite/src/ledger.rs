//! The database on its one thread: reads, write transactions, and the sidecar record after every commit.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use gapless_domain::{CommandKind, LeaseTerms, Timestamp};
use gapless_store::{DatabaseClock, StoreError};
use gapless_store_sql::signed;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use crate::error::{Failure, from_sql};
use crate::rows;
use crate::sidecar::{Mark, Record, Sidecar};

#[derive(Debug)]
pub(crate) struct SqliteLedger {
    pub(crate) sql: Connection,
    /// `None` for a database in memory, which cannot be restored from a backup.
    pub(crate) sidecar: Option<Sidecar>,
    pub(crate) database_id: [u8; 16],
    /// The record of a commit that is durable in the database, and that the sidecar does not have yet. Until it has,
    /// every call fails: a restore of the file to the state before that commit would not be noticed.
    pub(crate) unmarked: Option<Record>,
    /// The count of writes in the file without its log; see [`crate::sidecar`].
    pub(crate) checkpointed: u64,
    pub(crate) clock: Arc<dyn DatabaseClock>,
    pub(crate) terms: LeaseTerms,
    pub(crate) checkpoint_pages: u32,
}

/// The database at one moment of its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) sql: &'a Connection,
    pub(crate) now: Timestamp,
    pub(crate) terms: LeaseTerms,
}

/// The database inside a write transaction.
pub(crate) struct Writing<'a> {
    reading: Reading<'a>,
    group: &'a Group<'a>,
}

/// Several pieces of work that are written with one COMMIT.
pub(crate) struct Group<'a> {
    ledger: &'a SqliteLedger,
    commit_no: i64,
    savepoints: Savepoints,
    next_event: Cell<i64>,
    /// The newest sequence number that the group gave to an intent, if it gave one. It is written at the end.
    tx_seq: Cell<Option<i64>>,
    changed: Cell<bool>,
    spoiled: Cell<bool>,
}

/// Whether a part of a transaction can be rolled back while the rest stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Savepoints {
    /// A part that fails rolls the whole transaction back.
    Off,
    /// Each part stands in a savepoint of its own.
    PerWrite,
}

/// The end of a transaction without an error of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    /// The transaction is durable, or there was nothing to write.
    Durable,
    /// A part failed without a savepoint, so the transaction was rolled back.
    Spoiled,
}

impl<'a> Group<'a> {
    fn new(ledger: &'a SqliteLedger, commit_no: i64, savepoints: Savepoints) -> Self {
        Group {
            ledger,
            commit_no,
            savepoints,
            next_event: Cell::new(1),
            tx_seq: Cell::new(None),
            changed: Cell::new(false),
            spoiled: Cell::new(false),
        }
    }

    /// The clock is read inside the transaction, so that a lease cannot run out between its check and its use.
    pub(crate) fn writing(&self) -> Writing<'_> {
        Writing { reading: self.ledger.reading(), group: self }
    }

    /// Runs one piece of work. The work returns false to be rolled back.
    pub(crate) fn run_write(&self, work: impl FnOnce(&Writing<'_>) -> bool) -> Result<(), StoreError> {
        let sql = &self.ledger.sql;
        let before = sql.total_changes();
        let kept = self.savepoint("work", || if work(&self.writing()) { Ok(()) } else { Err(Undone::ByItself) });
        self.check_not_ended()?;
        match kept {
            Ok(()) => {
                self.changed.set(self.changed.get() || sql.total_changes() != before);
                Ok(())
            }
            Err(Undone::ByItself) => Ok(()),
            Err(Undone::Sql(error)) => Err(from_sql(error)),
        }
    }

    /// Runs one piece of work that only reads.
    pub(crate) fn run_read(&self, work: impl FnOnce(&Writing<'_>)) -> Result<(), StoreError> {
        work(&self.writing());
        self.check_not_ended()
    }

    /// Fails if the transaction has ended. Some errors (a full disk, a bad sector) end it, also errors of reads. The
    /// next statement would then be written outside of any transaction.
    fn check_not_ended(&self) -> Result<(), StoreError> {
        if !self.ledger.sql.is_autocommit() {
            return Ok(());
        }
        self.spoiled.set(true);
        match self.savepoints {
            Savepoints::Off => Ok(()),
            Savepoints::PerWrite => {
                Err(StoreError::Unavailable("an error of another call has ended the transaction".into()))
            }
        }
    }

    /// True if the transaction will be rolled back, so that further work in it is useless.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.spoiled.get()
    }

    fn savepoint<T, E: From<rusqlite::Error>>(&self, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let sql = &self.ledger.sql;
        if self.savepoints == Savepoints::Off {
            return work().inspect_err(|_| self.spoiled.set(true));
        }
        let run = |verb: &str| sql.prepare_cached(&format!("{verb} {name}"))?.execute([]);
        run("SAVEPOINT")?;
        let answer = work();
        if answer.is_err() && !sql.is_autocommit() {
            run("ROLLBACK TO")?;
        }
        if !sql.is_autocommit() {
            run("RELEASE")?;
        }
        answer
    }
}

enum Undone {
    ByItself,
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Undone {
    fn from(error: rusqlite::Error) -> Self {
        Undone::Sql(error)
    }
}

impl SqliteLedger {
    /// A group for reading the database as it is now.
    pub(crate) fn begin_read(&mut self) -> Result<Group<'_>, StoreError> {
        self.catch_up()?;
        Ok(Group::new(self, 0, Savepoints::PerWrite))
    }

    /// Runs `work` in one transaction. An error rolls all of it back.
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&Writing<'_>) -> Result<T, Failure>) -> Result<T, StoreError> {
        let mut answer = None;
        let work = |group: &Group<'_>| group.run_write(|writing| answer.insert(work(writing)).is_ok());
        let written = self.transact(Savepoints::PerWrite, work);
        match answer {
            Some(Err(failure)) => Err(failure.into()),
            Some(Ok(answer)) => written.map(|_| answer),
            None => Err(written.err().unwrap_or_else(|| StoreError::Unavailable("the work was not run".into()))),
        }
    }

    /// Runs everything that `work` does in its group in one transaction.
    ///
    /// After the COMMIT the count of writes goes to the sidecar; only then is the work done. If the sidecar fails, the
    /// rows are durable all the same, so the outcome is "unknown". Every later call writes the sidecar first, so that
    /// no caller acts upon a commit that the sidecar does not have.
    pub(crate) fn transact(
        &mut self,
        savepoints: Savepoints,
        work: impl FnOnce(&Group<'_>) -> Result<(), StoreError>,
    ) -> Result<JobOutcome, StoreError> {
        self.catch_up()?;
        let transaction = Transaction::new_unchecked(&self.sql, TransactionBehavior::Immediate).map_err(from_sql)?;
        let commit_no = next_commit_no(&self.sql).map_err(from_sql)?;
        let group = Group::new(self, commit_no, savepoints);
        work(&group)?;
        if group.spoiled.get() || self.sql.is_autocommit() {
            return Ok(JobOutcome::Spoiled);
        }
        if !group.changed.get() {
            // Without a change there is no need to wait for the disk.
            return Ok(JobOutcome::Durable);
        }
        let writes = count_write(&self.sql, commit_no, group.tx_seq.get()).map_err(from_sql)?;
        if let Err(error) = transaction.commit() {
            return Err(failed_commit(error));
        }
        self.mark(writes).map_err(|error| StoreError::OutcomeUnknown(error.into()))?;
        self.checkpoint_when_due(writes);
        Ok(JobOutcome::Durable)
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.sidecar.is_some()
    }

    /// Copies a long log into the file. The automatic checkpoint of SQLite is off: the commit after a checkpoint starts
    /// a new log, and before that the sidecar must know the file that the new log belongs to.
    ///
    /// A failure here does not change the result of the write before it. A checkpoint that failed is tried again after
    /// the next write, a sidecar record that failed before it.
    fn checkpoint_when_due(&mut self, writes: u64) {
        if self.sidecar.is_none() {
            return;
        }
        let done = match pages_waiting(&self.sql) {
            Ok(pages) if pages < i64::from(self.checkpoint_pages) => return,
            Ok(_) => checkpoint(&self.sql, "PASSIVE").map_err(from_sql),
            Err(error) => Err(from_sql(error)),
        };
        let recorded = done.and_then(|done| {
            if done {
                self.checkpointed = writes;
                self.mark(writes)?;
            }
            Ok(())
        });
        if let Err(error) = recorded {
            tracing::warn!(%error, "checkpoint failed; the log of the database keeps growing");
        }
    }

    /// Writes the sidecar record that could not be written before.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.unmarked {
            Some(record) => self.mark(record.mark.writes),
            None => Ok(()),
        }
    }

    fn mark(&mut self, writes: u64) -> Result<(), StoreError> {
        if let Some(sidecar) = &self.sidecar {
            let mark = Mark { database_id: self.database_id, writes };
            let record = Record { mark, checkpointed: self.checkpointed };
            self.unmarked = Some(record);
            sidecar.record(record)?;
            self.unmarked = None;
        }
        Ok(())
    }

    fn reading(&self) -> Reading<'_> {
        Reading { sql: &self.sql, now: self.clock.now(), terms: self.terms }
    }
}

impl<'a> Deref for Writing<'a> {
    type Target = Reading<'a>;

    fn deref(&self) -> &Reading<'a> {
        &self.reading
    }
}

impl Reading<'_> {
    /// The end of a lease that is granted now.
    pub(crate) fn lease_end(&self) -> Timestamp {
        self.now.saturating_add(self.terms.duration)
    }

    /// The latest possible end of a lease or claim. A later end was written before the clock went back, and the lease
    /// would never run out.
    pub(crate) fn farthest_end(&self) -> Timestamp {
        self.lease_end().saturating_add(self.terms.clock_skew)
    }

    /// The store epoch: the number of times that a loss of commits was found.
    pub(crate) fn epoch(&self) -> Result<i64, rusqlite::Error> {
        self.sql.prepare_cached("SELECT coalesce(max(epoch), 0) FROM store_epoch")?.query_one([], |row| row.get(0))
    }

    /// True if commits were lost since the lane wrote its cursor, which carries the epoch `written_in`. A lane without
    /// a cursor may have lost it, if its submitter is older than the loss.
    pub(crate) fn is_regressed(&self, lane: &str, written_in: Option<i64>) -> Result<bool, Failure> {
        let known = match written_in {
            Some(epoch) => Some(epoch),
            None => {
                let registered = self.sql.prepare_cached("SELECT epoch FROM submitter WHERE submitter = ?1")?;
                rows::first(registered, [lane], rows::value)?
            }
        };
        Ok(match known {
            Some(epoch) => epoch < self.epoch()?,
            None => false,
        })
    }
}

impl Writing<'_> {
    /// The number of this write transaction, which its events carry.
    pub(crate) fn commit_no(&self) -> i64 {
        self.group.commit_no
    }

    pub(crate) fn next_event_index(&self) -> i64 {
        let index = self.group.next_event.get();
        self.group.next_event.set(index.saturating_add(1));
        index
    }

    /// Runs `work` in a savepoint, so that its failure leaves the rest of the transaction as it was.
    pub(crate) fn alone<T, E: From<rusqlite::Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.group.savepoint("one", work)
    }

    /// The next sequence number of an intent. The number of an intent that is rolled back stays unused.
    pub(crate) fn next_tx_seq(&self) -> Result<i64, rusqlite::Error> {
        let last = match self.group.tx_seq.get() {
            Some(last) => last,
            None => self.sql.prepare_cached("SELECT tx_seq FROM canary")?.query_one([], |row| row.get(0))?,
        };
        self.group.tx_seq.set(Some(last.saturating_add(1)));
        Ok(last.saturating_add(1))
    }

    /// Begins a new epoch, and raises the count of writes to the time of day in microseconds. The number of positions
    /// that the lost commits used may be unknown, but no write takes less than a microsecond.
    pub(crate) fn new_epoch(&self, why: &str) -> Result<(), rusqlite::Error> {
        lift_writes(self.sql, u64::try_from(self.now.as_micros()).unwrap_or(0))?;
        let epoch = self.epoch()?.saturating_add(1);
        self.sql.prepare_cached("INSERT INTO store_epoch (epoch, noticed_at, why) VALUES (?1, ?2, ?3)")?.execute((
            epoch,
            self.now.as_micros(),
            why,
        ))?;
        self.refuse_decisions()
    }

    /// Refuses the open decisions of operators, which were made about the ledger as it was before the loss.
    fn refuse_decisions(&self) -> Result<(), rusqlite::Error> {
        let [unprotect, resync] = CommandKind::DECISIONS;
        self.sql
            .prepare_cached(
                "UPDATE lane_command INDEXED BY lane_command_open SET done_at = ?1, result = ?2, refused = 1
                 WHERE done_at IS NULL AND kind IN (?3, ?4)",
            )?
            .execute((self.now.as_micros(), CommandKind::OVERTAKEN, unprotect, resync))?;
        Ok(())
    }
}

/// Records the write. Returns the count of writes, which is higher than `commit_no` if this write raised it.
fn count_write(sql: &Connection, commit_no: i64, tx_seq: Option<i64>) -> Result<u64, rusqlite::Error> {
    let count = "UPDATE canary SET writes = max(writes, ?1), tx_seq = coalesce(?2, tx_seq) RETURNING writes";
    let writes: i64 = sql.prepare_cached(count)?.query_one((commit_no, tx_seq), |row| row.get(0))?;
    Ok(writes.unsigned_abs())
}

/// The number of pages in the log that are not in the file yet.
fn pages_waiting(sql: &Connection) -> Result<i64, rusqlite::Error> {
    let pages = |row: &Row<'_>| Ok(row.get::<_, i64>(1)?.saturating_sub(row.get(2)?));
    sql.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?.query_one([], pages)
}

/// Copies the log into the file, and syncs it. Returns true if all of it was copied.
pub(crate) fn checkpoint(sql: &Connection, mode: &str) -> Result<bool, rusqlite::Error> {
    sql.query_one(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (busy, pages, done): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && pages == done)
    })
}

fn next_commit_no(sql: &Connection) -> Result<i64, rusqlite::Error> {
    let writes: i64 = sql.prepare_cached("SELECT writes FROM canary")?.query_one([], |row| row.get(0))?;
    Ok(writes.saturating_add(1))
}

/// A COMMIT that fails for lack of space or rights has written no complete transaction. Any other failure may have left
/// its bytes in the log, where a recovery after a crash could find them, so the outcome is unknown.
fn failed_commit(error: rusqlite::Error) -> StoreError {
    match from_sql(error) {
        StoreError::Unavailable(source) => StoreError::OutcomeUnknown(source),
        other => other,
    }
}

/// The count that a database carries, for comparison with its sidecar.
pub(crate) fn mark_of(sql: &Connection) -> Result<Mark, rusqlite::Error> {
    sql.query_one("SELECT database_id, writes FROM canary", [], |row| {
        let writes: i64 = row.get(1)?;
        Ok(Mark { database_id: row.get(0)?, writes: writes.unsigned_abs() })
    })
}

/// Raises the count above everything that the lost commits used, so that no event position and no sidecar record is
/// ever used twice.
pub(crate) fn lift_writes(sql: &Connection, above: u64) -> Result<(), rusqlite::Error> {
    sql.execute("UPDATE canary SET writes = max(writes, ?1) + 1", [signed(above)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{Location, SqliteOptions, open};

    fn add_epoch(ledger: &mut SqliteLedger) -> Result<(), StoreError> {
        ledger.write(|writing| Ok(writing.new_epoch("test")?))
    }

    /// proves O09
    #[test]
    fn commit_without_sidecar_record_blocks_every_call() {
        let path = std::env::temp_dir().join(format!("gapless-sqlite-unmarked-{}.db", std::process::id()));
        let mut ledger = open(&Location::File(path.clone()), SqliteOptions::default()).unwrap();
        add_epoch(&mut ledger).unwrap();

        let sound = ledger.sidecar.take().unwrap();
        ledger.sidecar = Some(sound.that_cannot_be_written());
        assert!(matches!(add_epoch(&mut ledger), Err(StoreError::OutcomeUnknown(_))));
        assert!(ledger.begin_read().and_then(|group| group.writing().epoch().map_err(from_sql)).is_err());
        assert!(add_epoch(&mut ledger).is_err());

        ledger.sidecar = Some(sound);
        let epoch = ledger.begin_read().and_then(|group| group.writing().epoch().map_err(from_sql)).unwrap();
        assert_eq!(epoch, 2, "the failed write is durable, and the write after it was not begun");
        let known = ledger.sidecar.as_ref().unwrap().read().unwrap();
        assert_eq!(known.map(|known| known.mark), Some(mark_of(&ledger.sql).unwrap()));
        drop(ledger);
        std::fs::remove_file(Sidecar::path_for(&path)).unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn write_without_change_is_not_counted() {
        let mut ledger = open(&Location::Memory, SqliteOptions::default()).unwrap();
        let before = mark_of(&ledger.sql).unwrap();
        ledger.write(|_| Ok(())).unwrap();
        assert_eq!(mark_of(&ledger.sql).unwrap(), before);
        add_epoch(&mut ledger).unwrap();
        assert!(mark_of(&ledger.sql).unwrap().writes > before.writes);
    }
}
