//! The database as its one thread sees it: reads, write transactions, and the sidecar behind every commit.

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
pub(crate) struct Ledger {
    pub(crate) sql: Connection,
    /// None for a database in memory, which nobody can restore.
    pub(crate) sidecar: Option<Sidecar>,
    pub(crate) database_id: [u8; 16],
    /// A commit that is durable in the database but that the sidecar does not know of yet. While there is one, nothing is
    /// told to anybody: were the file restored to the state before that commit, nothing would notice it.
    pub(crate) unmarked: Option<Record>,
    /// The count of the file without its log; see [`crate::sidecar`].
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

/// The same inside a write transaction.
pub(crate) struct Writing<'a> {
    reading: Reading<'a>,
    group: &'a Group<'a>,
}

/// Works that are written with one COMMIT.
pub(crate) struct Group<'a> {
    ledger: &'a Ledger,
    commit_no: i64,
    care: Care,
    next_event: Cell<i64>,
    /// The last place in line that was given, once somebody wanted one. It is written when all are done.
    tx_seq: Cell<Option<i64>>,
    changed: Cell<bool>,
    spoiled: Cell<bool>,
}

/// Can one part of a transaction be undone, and the rest stay?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// No. A part that fails spoils all of it.
    Bold,
    Careful,
}

/// What became of a transaction in which nothing was wrong with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Also if there was nothing to write.
    Durable,
    /// Nothing was written.
    Spoiled,
}

impl<'a> Group<'a> {
    fn new(ledger: &'a Ledger, commit_no: i64, care: Care) -> Self {
        Group {
            ledger,
            commit_no,
            care,
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

    /// One work, which says whether it is to stay.
    pub(crate) fn undoably(&self, work: impl FnOnce(&Writing<'_>) -> bool) -> Result<(), StoreError> {
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

    /// One that only reads.
    pub(crate) fn looking(&self, work: impl FnOnce(&Writing<'_>)) -> Result<(), StoreError> {
        work(&self.writing());
        self.check_not_ended()
    }

    /// Some errors (a full disk, a bad sector), also of reads, end the whole transaction. There is nothing left to go back to, and whatever
    /// came next would be written by itself.
    fn check_not_ended(&self) -> Result<(), StoreError> {
        if !self.ledger.sql.is_autocommit() {
            return Ok(());
        }
        self.spoiled.set(true);
        match self.care {
            Care::Bold => Ok(()),
            Care::Careful => Err(StoreError::Unavailable("what another one did has ended the transaction".into())),
        }
    }

    /// Nothing of it will be written, so nothing more is to be done in it.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.spoiled.get()
    }

    fn savepoint<T, E: From<rusqlite::Error>>(&self, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let sql = &self.ledger.sql;
        if self.care == Care::Bold {
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

impl Ledger {
    /// The database as it is now, for reading.
    pub(crate) fn look(&mut self) -> Result<Group<'_>, StoreError> {
        self.catch_up()?;
        Ok(Group::new(self, 0, Care::Careful))
    }

    /// Runs `work` in one transaction. An error rolls all of it back.
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&Writing<'_>) -> Result<T, Failure>) -> Result<T, StoreError> {
        let mut answer = None;
        let work = |group: &Group<'_>| group.undoably(|writing| answer.insert(work(writing)).is_ok());
        let written = self.transact(Care::Careful, work);
        match answer {
            Some(Err(failure)) => Err(failure.into()),
            Some(Ok(answer)) => written.map(|_| answer),
            None => Err(written.err().unwrap_or_else(|| StoreError::Unavailable("nothing was done".into()))),
        }
    }

    /// One transaction for everything that `work` does in its group.
    ///
    /// After the COMMIT the count of writes goes to the sidecar, and only then is the work done. If that fails, the rows are
    /// durable all the same and cannot be taken back, so the answer is "unknown"; and every later call tries the sidecar
    /// first, so that nobody can act upon a commit that the sidecar does not know of.
    pub(crate) fn transact(
        &mut self,
        care: Care,
        work: impl FnOnce(&Group<'_>) -> Result<(), StoreError>,
    ) -> Result<Outcome, StoreError> {
        self.catch_up()?;
        let transaction = Transaction::new_unchecked(&self.sql, TransactionBehavior::Immediate).map_err(from_sql)?;
        let commit_no = next_commit_no(&self.sql).map_err(from_sql)?;
        let group = Group::new(self, commit_no, care);
        work(&group)?;
        if group.spoiled.get() || self.sql.is_autocommit() {
            return Ok(Outcome::Spoiled);
        }
        if !group.changed.get() {
            // Nothing to make durable, so nothing to wait for.
            return Ok(Outcome::Durable);
        }
        let writes = count_write(&self.sql, commit_no, group.tx_seq.get()).map_err(from_sql)?;
        if let Err(error) = transaction.commit() {
            return Err(failed_commit(error));
        }
        self.mark(writes).map_err(|error| StoreError::OutcomeUnknown(error.into()))?;
        self.checkpoint_when_due(writes);
        Ok(Outcome::Durable)
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.sidecar.is_some()
    }

    /// Brings a long log into the file. SQLite does not do so by itself here: the commit after a checkpoint begins the log
    /// anew, and before that the sidecar has to know what file the new log belongs to.
    ///
    /// The write before it is done, whatever becomes of this. A checkpoint that failed is tried again after the next write;
    /// a record that failed, before it.
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
            tracing::warn!(%error, "the log of the database was not brought into its file; it goes on growing");
        }
    }

    /// Tells the sidecar of a commit that it could not be told of before.
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
    /// When a lease that is granted now runs out.
    pub(crate) fn lease_end(&self) -> Timestamp {
        self.now.saturating_add(self.terms.duration)
    }

    /// The newest moment that a lease or claim can honestly end at. One that lies further away was written under a clock
    /// that has since gone back, and would otherwise never run out.
    pub(crate) fn farthest_end(&self) -> Timestamp {
        self.lease_end().saturating_add(self.terms.clock_skew)
    }

    /// How often this store was found to have lost commits.
    pub(crate) fn epoch(&self) -> Result<i64, rusqlite::Error> {
        self.sql.prepare_cached("SELECT coalesce(max(epoch), 0) FROM store_epoch")?.query_one([], |row| row.get(0))
    }

    /// Were commits lost since a lane wrote its cursor, in the epoch `seen`? A lane that has none may have lost it, if its
    /// submitter is older than the loss.
    pub(crate) fn is_regressed(&self, lane: &str, seen: Option<i64>) -> Result<bool, Failure> {
        let seen = match seen {
            Some(epoch) => Some(epoch),
            None => {
                let registered = self.sql.prepare_cached("SELECT epoch FROM submitter WHERE submitter = ?1")?;
                rows::first(registered, [lane], rows::value)?
            }
        };
        Ok(match seen {
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

    /// Runs `work` so that its failure leaves the rest of the transaction as it was.
    pub(crate) fn alone<T, E: From<rusqlite::Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.group.savepoint("one", work)
    }

    /// The next place in line. That of one who is undone stays empty.
    pub(crate) fn next_tx_seq(&self) -> Result<i64, rusqlite::Error> {
        let last = match self.group.tx_seq.get() {
            Some(last) => last,
            None => self.sql.prepare_cached("SELECT tx_seq FROM canary")?.query_one([], |row| row.get(0))?,
        };
        self.group.tx_seq.set(Some(last.saturating_add(1)));
        Ok(last.saturating_add(1))
    }

    /// Begins a new epoch, and lifts the count of writes to the time of day in microseconds. How many positions the lost part
    /// of the database's life has used may be unknown, but no write takes less than a microsecond.
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

    /// What an operator asked for was about the ledger as it was before the loss.
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

/// The count after this write; more than its number if the write has lifted it.
fn count_write(sql: &Connection, commit_no: i64, tx_seq: Option<i64>) -> Result<u64, rusqlite::Error> {
    let count = "UPDATE canary SET writes = max(writes, ?1), tx_seq = coalesce(?2, tx_seq) RETURNING writes";
    let writes: i64 = sql.prepare_cached(count)?.query_one((commit_no, tx_seq), |row| row.get(0))?;
    Ok(writes.unsigned_abs())
}

/// Pages in the log that the file does not have yet.
fn pages_waiting(sql: &Connection) -> Result<i64, rusqlite::Error> {
    let pages = |row: &Row<'_>| Ok(row.get::<_, i64>(1)?.saturating_sub(row.get(2)?));
    sql.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?.query_one([], pages)
}

/// Brings the log into the file, and syncs it. Says whether all of it is there now.
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

/// A COMMIT that fails for want of room or rights has written nothing whole. Any other may have left its bytes in the log,
/// where a crash could find them again; nobody can say then whether it went through.
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

/// Lifts the count over everything that the lost part of the database's life has used, so that no event position and no
/// sidecar record is ever given twice.
pub(crate) fn lift_writes(sql: &Connection, above: u64) -> Result<(), rusqlite::Error> {
    sql.execute("UPDATE canary SET writes = max(writes, ?1) + 1", [signed(above)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{Location, SqliteOptions, open};

    fn add_epoch(ledger: &mut Ledger) -> Result<(), StoreError> {
        ledger.write(|writing| Ok(writing.new_epoch("test")?))
    }

    /// proves O09
    #[test]
    fn a_commit_that_the_sidecar_missed_is_told_to_nobody_until_it_knows() {
        let path = std::env::temp_dir().join(format!("gapless-sqlite-unmarked-{}.db", std::process::id()));
        let mut ledger = open(&Location::File(path.clone()), SqliteOptions::default()).unwrap();
        add_epoch(&mut ledger).unwrap();

        let sound = ledger.sidecar.take().unwrap();
        ledger.sidecar = Some(sound.that_cannot_be_written());
        assert!(matches!(add_epoch(&mut ledger), Err(StoreError::OutcomeUnknown(_))));
        assert!(ledger.look().and_then(|looking| looking.writing().epoch().map_err(from_sql)).is_err());
        assert!(add_epoch(&mut ledger).is_err());

        ledger.sidecar = Some(sound);
        let epoch = ledger.look().and_then(|looking| looking.writing().epoch().map_err(from_sql)).unwrap();
        assert_eq!(epoch, 2, "the one that failed is durable, and the one after it was not begun");
        let known = ledger.sidecar.as_ref().unwrap().read().unwrap();
        assert_eq!(known.map(|known| known.mark), Some(mark_of(&ledger.sql).unwrap()));
        drop(ledger);
        std::fs::remove_file(Sidecar::path_for(&path)).unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_write_that_changes_nothing_waits_for_no_disk() {
        let mut ledger = open(&Location::Memory, SqliteOptions::default()).unwrap();
        let before = mark_of(&ledger.sql).unwrap();
        ledger.write(|_| Ok(())).unwrap();
        assert_eq!(mark_of(&ledger.sql).unwrap(), before);
        add_epoch(&mut ledger).unwrap();
        assert!(mark_of(&ledger.sql).unwrap().writes > before.writes);
    }
}
