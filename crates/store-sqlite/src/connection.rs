//! The database thread: one connection, one job after the other, and one COMMIT for all writes that wait.
//!
//! SQLite writes one transaction at a time anyway, and each of its calls may wait for the disk, which would block an
//! executor. So jobs are sent to a thread through a channel of bounded length, and their answers are awaited. The job
//! of a caller that goes away is still done, as a whole or not at all.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use gapless_store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Failure, copy_of};
use crate::ledger::{JobOutcome, Reading, Savepoints, SqliteLedger, Writing};

/// The length of the channel. Further calls wait before the channel, where dropping them costs nothing.
const MAX_WAITING: usize = 256;

/// The greatest number of jobs that become durable with one COMMIT.
const MAX_TOGETHER: usize = 64;

enum DatabaseJob {
    Read(Box<dyn Task>),
    Write(Box<dyn Task>),
    /// Work on the whole ledger, outside of any group.
    Exclusive(ExclusiveWork),
}

type ExclusiveWork = Box<dyn FnOnce(&mut SqliteLedger) + Send>;

/// A piece of work with the channel for its answer.
trait Task: Send {
    /// Does the work, perhaps a second time. True if the work succeeded.
    fn run(&mut self, writing: &Writing<'_>) -> bool;

    /// Answers the caller, once it is known whether the transaction is durable. Work that failed by itself reports its
    /// own error. Other work fails with the transaction.
    fn answer(self: Box<Self>, durable: Result<(), &StoreError>);
}

struct QueuedCall<T, Work> {
    work: Work,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, Work: Send + FnMut(&Writing<'_>) -> Result<T, Failure>> Task for QueuedCall<T, Work> {
    fn run(&mut self, writing: &Writing<'_>) -> bool {
        self.result.insert((self.work)(writing).map_err(StoreError::from)).is_ok()
    }

    fn answer(self: Box<Self>, durable: Result<(), &StoreError>) {
        let answer = match (self.result, durable) {
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(copy_of(error)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Unavailable(ThreadEnded.into())),
        };
        // The caller may have gone away.
        let _ = self.reply.send(answer);
    }
}

/// The handle of the database thread.
pub(crate) struct DatabaseThread {
    /// None only while the thread is being ended.
    jobs: Option<mpsc::Sender<DatabaseJob>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The thread has ended, so a job was not run or its answer was lost.
#[derive(Debug, thiserror::Error)]
#[error("the database thread has ended; restart the node")]
struct ThreadEnded;

impl DatabaseThread {
    /// Starts the thread. Dropping the handle ends the thread, which closes the database. The drop waits for that, so
    /// that the file is free afterwards.
    pub(crate) fn open(mut ledger: SqliteLedger) -> Result<DatabaseThread, StoreError> {
        let (sender, mut jobs) = mpsc::channel::<DatabaseJob>(MAX_WAITING);
        let thread = thread::Builder::new()
            .name("gapless-sqlite".to_owned())
            .spawn(move || run_jobs(&mut ledger, &mut jobs))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(DatabaseThread { jobs: Some(sender), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Reading<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let work = move |writing: &Writing<'_>| work(writing);
        self.send(DatabaseJob::Read(Box::new(QueuedCall { work, result: None, reply })), answered).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Writing<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        self.send(DatabaseJob::Write(Box::new(QueuedCall { work, result: None, reply })), answered).await
    }

    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteLedger) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let exclusive = move |ledger: &mut SqliteLedger| {
            let _ = reply.send(work(ledger));
        };
        self.send(DatabaseJob::Exclusive(Box::new(exclusive)), answered).await
    }

    async fn send<T>(
        &self,
        job: DatabaseJob,
        answered: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let jobs = self.jobs.as_ref().ok_or_else(|| StoreError::Unavailable(ThreadEnded.into()))?;
        jobs.send(job).await.map_err(|_| StoreError::Unavailable(ThreadEnded.into()))?;
        // The job may have been committed before the thread ended.
        answered.await.map_err(|_| StoreError::OutcomeUnknown(ThreadEnded.into()))?
    }
}

fn run_jobs(ledger: &mut SqliteLedger, jobs: &mut mpsc::Receiver<DatabaseJob>) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            DatabaseJob::Read(mut task) => {
                let read = ledger.begin_read().map(|group| task.run(&group.writing()));
                task.answer(read.as_ref().map(|_| ()));
            }
            DatabaseJob::Write(task) => {
                let (group, exclusive) = gather((true, task), ledger, jobs);
                write_together(ledger, group);
                if let Some(exclusive) = exclusive {
                    exclusive(ledger);
                }
            }
            DatabaseJob::Exclusive(work) => work(ledger),
        }
    }
}

/// A job of a group: whether it writes, and its task.
type Member = (bool, Box<dyn Task>);

/// Gathers the jobs that wait behind a write into one transaction, so that the disk is waited for once. A database in
/// memory has no disk to wait for; there each job runs alone, which makes every run the same.
fn gather(
    first: Member,
    ledger: &SqliteLedger,
    jobs: &mut mpsc::Receiver<DatabaseJob>,
) -> (Vec<Member>, Option<ExclusiveWork>) {
    let mut group = vec![first];
    while ledger.is_on_disk() && group.len() < MAX_TOGETHER {
        match jobs.try_recv() {
            Ok(DatabaseJob::Exclusive(work)) => return (group, Some(work)),
            Ok(DatabaseJob::Read(task)) => group.push((false, task)),
            Ok(DatabaseJob::Write(task)) => group.push((true, task)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// Runs a group in one transaction. No job is answered before the COMMIT, because later jobs have seen the writes of
/// earlier ones.
///
/// The first run has no savepoints: each would cost SQLite a copy of every changed page. If a job fails, all of it is
/// rolled back, and the second run has a savepoint for each job, so that only the failed job is undone.
fn write_together(ledger: &mut SqliteLedger, mut group: Vec<Member>) {
    let mut run = |ledger: &mut SqliteLedger, savepoints: Savepoints| {
        ledger.transact(savepoints, |transaction| {
            for (writes, task) in &mut group {
                if transaction.is_spoiled() {
                    break;
                }
                if *writes {
                    transaction.run_write(|writing| task.run(writing))?;
                } else {
                    transaction.run_read(|reading| {
                        task.run(reading);
                    })?;
                }
            }
            Ok(())
        })
    };
    let durable = match run(ledger, Savepoints::Off) {
        Ok(JobOutcome::Spoiled) => run(ledger, Savepoints::PerWrite),
        other => other,
    };
    let durable = durable.and_then(|outcome| match outcome {
        JobOutcome::Durable => Ok(()),
        JobOutcome::Spoiled => Err(StoreError::Unavailable("the transaction was rolled back".into())),
    });
    let durable = durable.as_ref().copied();
    for (_, task) in group {
        task.answer(durable);
    }
}

impl Drop for DatabaseThread {
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has closed the database too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for DatabaseThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseThread").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::ledger::mark_of;
    use crate::open::{Location, SqliteOptions, open};
    use crate::sidecar::Sidecar;

    async fn note(thread: &DatabaseThread, why: &'static str) -> Result<(), StoreError> {
        let insert = "INSERT INTO audit_log (subject, actor, action, detail, at) VALUES ('x', 'test', 'note', ?1, 1)";
        thread
            .write(move |writing| {
                writing.sql.execute(insert, [why])?;
                if why == "wrong" { Err(rusqlite::Error::QueryReturnedNoRows.into()) } else { Ok(()) }
            })
            .await
    }

    fn open_on_disk(name: &str) -> (DatabaseThread, PathBuf) {
        let path = std::env::temp_dir().join(format!("gapless-sqlite-{name}-{}.db", std::process::id()));
        let ledger = open(&Location::File(path.clone()), SqliteOptions::default()).unwrap();
        (DatabaseThread::open(ledger).unwrap(), path)
    }

    fn remove(thread: DatabaseThread, path: &Path) {
        drop(thread);
        std::fs::remove_file(Sidecar::path_for(path)).unwrap();
        std::fs::remove_file(path).unwrap();
    }

    async fn notes(thread: &DatabaseThread) -> Result<i64, StoreError> {
        thread.read(|reading| Ok(reading.sql.query_one("SELECT count(*) FROM audit_log", [], |row| row.get(0))?)).await
    }

    async fn writes(thread: &DatabaseThread) -> u64 {
        thread.call(|ledger| mark_of(&ledger.sql).map_err(crate::error::from_sql)).await.unwrap().writes
    }

    #[tokio::test]
    async fn waiting_writes_share_a_commit_and_only_failed_ones_undo() {
        let (thread, path) = open_on_disk("together");
        let before = writes(&thread).await;
        let (start, started) = std::sync::mpsc::channel::<()>();
        let busy = thread.call(move |_| {
            started.recv().unwrap();
            Ok(())
        });
        let seen = notes(&thread);
        let begin = async {
            // All calls have been polled once, in order, so their jobs wait in the channel.
            start.send(()).unwrap();
        };
        let (.., first, wrong, seen, second, ()) = tokio::join!(
            biased;
            busy,
            note(&thread, "first"),
            note(&thread, "wrong"),
            seen,
            note(&thread, "second"),
            begin,
        );
        assert!(first.is_ok() && second.is_ok());
        assert!(matches!(wrong, Err(StoreError::Row(_))), "{wrong:?}");
        assert_eq!(seen.unwrap(), 1, "the read sees the write before it, and not the undone one");
        assert_eq!(writes(&thread).await, before + 1, "one commit");
        assert_eq!(notes(&thread).await.unwrap(), 2);
        remove(thread, &path);
    }

    /// A statement that meets a bad sector ends the transaction, also if it only reads.
    #[tokio::test]
    async fn read_that_ends_the_transaction_fails_the_whole_group() {
        let (thread, path) = open_on_disk("together-read");
        let before = writes(&thread).await;
        let (start, started) = std::sync::mpsc::channel::<()>();
        let busy = thread.call(move |_| {
            started.recv().unwrap();
            Ok(())
        });
        let ends = thread.read(|reading| Ok(reading.sql.execute_batch("ROLLBACK")?));
        let begin = async { start.send(()).unwrap() };
        let (.., first, ends, last, ()) =
            tokio::join!(biased; busy, note(&thread, "first"), ends, note(&thread, "last"), begin);
        assert!(first.is_err() && ends.is_err() && last.is_err(), "{first:?} {ends:?} {last:?}");
        assert_eq!(writes(&thread).await, before);
        assert_eq!(notes(&thread).await.unwrap(), 0);
        note(&thread, "later").await.unwrap();
        remove(thread, &path);
    }

    /// A write that ends the transaction fails the whole group, and every caller gets an error.
    #[tokio::test]
    async fn full_disk_fails_all_writes_of_the_group() {
        let (thread, path) = open_on_disk("together-full");
        let (start, started) = std::sync::mpsc::channel::<()>();
        let busy = thread.call(move |ledger| {
            let pages: u32 = ledger.sql.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
            ledger.sql.pragma_update(None, "max_page_count", pages).unwrap();
            started.recv().unwrap();
            Ok(())
        });
        let big = thread.write(|writing| {
            let insert =
                "INSERT INTO audit_log (subject, actor, action, detail, at) VALUES ('x', 'test', 'note', ?1, 1)";
            writing.sql.execute(insert, ["x".repeat(1 << 20)])?;
            Ok(())
        });
        let begin = async { start.send(()).unwrap() };
        let (.., first, big, last, ()) =
            tokio::join!(biased; busy, note(&thread, "first"), big, note(&thread, "last"), begin);
        assert!(matches!(big, Err(StoreError::Full(_))), "{big:?}");
        assert!(first.is_err(), "the first write was undone with the group: {first:?}");
        assert!(last.is_err(), "{last:?}");
        assert_eq!(notes(&thread).await.unwrap(), 0);
        remove(thread, &path);
    }
}
