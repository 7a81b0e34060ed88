//! The room that owns the database: one thread, one connection, one job after the other, and one COMMIT for all the writes that wait.
//!
//! SQLite writes one transaction at a time anyway, and every call of it may wait for the disk, which would block an
//! executor. So calls are sent to a thread as closures, through a channel of bounded length, and their answers are awaited.
//! A caller that goes away leaves its job behind, which is then done all the same: wholly, or not at all.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use gapless_store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Failure, same};
use crate::ledger::{Ledger, Outcome, Reading, Savepoints, Writing};

/// More calls than this wait at the door, where dropping them costs nothing.
const MAX_WAITING: usize = 256;

/// So many jobs become durable with one COMMIT at the most.
const MAX_TOGETHER: usize = 64;

enum Job {
    Read(Box<dyn Task>),
    Write(Box<dyn Task>),
    /// Whatever is not one transaction.
    Alone(Alone),
}

type Alone = Box<dyn FnOnce(&mut Ledger) + Send>;

/// A piece of work and where its answer goes.
trait Task: Send {
    /// Does it, perhaps once more than before. Says whether it came to an end in order.
    fn run(&mut self, writing: &Writing<'_>) -> bool;

    /// Tells the caller what came of it, once it is known whether what it saw and did is durable. What failed by itself says why; what
    /// did not, or was never begun, has failed with the others, if they did.
    fn answer(self: Box<Self>, durable: Result<(), &StoreError>);
}

struct Errand<T, Work> {
    work: Work,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, Work: Send + FnMut(&Writing<'_>) -> Result<T, Failure>> Task for Errand<T, Work> {
    fn run(&mut self, writing: &Writing<'_>) -> bool {
        self.result.insert((self.work)(writing).map_err(StoreError::from)).is_ok()
    }

    fn answer(self: Box<Self>, durable: Result<(), &StoreError>) {
        let answer = match (self.result, durable) {
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(same(error)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Unavailable(ThreadEnded.into())),
        };
        // Nobody may be waiting any more.
        let _ = self.reply.send(answer);
    }
}

pub(crate) struct Room {
    /// None only while the room is being closed.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The thread is gone, so a job was not run or its answer was lost.
#[derive(Debug, thiserror::Error)]
#[error("the thread of the database has ended")]
struct ThreadEnded;

impl Room {
    /// Starts the thread. It ends, and closes the database, when the room is dropped; the drop waits for it, so that the
    /// file is free afterwards.
    pub(crate) fn open(mut ledger: Ledger) -> Result<Room, StoreError> {
        let (sender, mut jobs) = mpsc::channel::<Job>(MAX_WAITING);
        let thread = thread::Builder::new()
            .name("gapless-sqlite".to_owned())
            .spawn(move || work_off(&mut ledger, &mut jobs))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Room { jobs: Some(sender), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Reading<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let work = move |writing: &Writing<'_>| work(writing);
        self.send(Job::Read(Box::new(Errand { work, result: None, reply })), answered).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Writing<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        self.send(Job::Write(Box::new(Errand { work, result: None, reply })), answered).await
    }

    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Ledger) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answered) = oneshot::channel();
        let alone = move |ledger: &mut Ledger| {
            let _ = reply.send(work(ledger));
        };
        self.send(Job::Alone(Box::new(alone)), answered).await
    }

    async fn send<T>(&self, job: Job, answered: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
        let jobs = self.jobs.as_ref().ok_or_else(|| StoreError::Unavailable(ThreadEnded.into()))?;
        jobs.send(job).await.map_err(|_| StoreError::Unavailable(ThreadEnded.into()))?;
        // The job may have got as far as its COMMIT before the thread ended.
        answered.await.map_err(|_| StoreError::OutcomeUnknown(ThreadEnded.into()))?
    }
}

fn work_off(ledger: &mut Ledger, jobs: &mut mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            Job::Read(mut task) => {
                let read = ledger.begin_read().map(|group| task.run(&group.writing()));
                task.answer(read.as_ref().map(|_| ()));
            }
            Job::Write(task) => {
                let (group, alone) = gather((true, task), ledger, jobs);
                write_together(ledger, group);
                if let Some(alone) = alone {
                    alone(ledger);
                }
            }
            Job::Alone(alone) => alone(ledger),
        }
    }
}

/// Whether it writes.
type Member = (bool, Box<dyn Task>);

/// All that waits behind a write, to be done with it: the disk is waited for once. In memory there is no disk, and one thing after the
/// other is the same run every time.
fn gather(first: Member, ledger: &Ledger, jobs: &mut mpsc::Receiver<Job>) -> (Vec<Member>, Option<Alone>) {
    let mut group = vec![first];
    while ledger.is_on_disk() && group.len() < MAX_TOGETHER {
        match jobs.try_recv() {
            Ok(Job::Alone(alone)) => return (group, Some(alone)),
            Ok(Job::Read(task)) => group.push((false, task)),
            Ok(Job::Write(task)) => group.push((true, task)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// Runs a group of tasks in one transaction. No task is answered before the COMMIT: later tasks have read the writes of
/// earlier ones.
///
/// The first run has no savepoints, because a savepoint costs SQLite a copy of every page that changes. If a task fails, the
/// transaction is rolled back and run again with savepoints, so that only the failed task is rolled back.
fn write_together(ledger: &mut Ledger, mut group: Vec<Member>) {
    let mut run = |ledger: &mut Ledger, savepoints: Savepoints| {
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
        Ok(Outcome::Spoiled) => run(ledger, Savepoints::PerWrite),
        other => other,
    };
    let durable = durable.and_then(|outcome| match outcome {
        Outcome::Durable => Ok(()),
        Outcome::Spoiled => Err(StoreError::Unavailable("nothing was written".into())),
    });
    let durable = durable.as_ref().copied();
    for (_, task) in group {
        task.answer(durable);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has closed the database too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::ledger::mark_of;
    use crate::open::{Location, SqliteOptions, open};
    use crate::sidecar::Sidecar;

    async fn note(room: &Room, why: &'static str) -> Result<(), StoreError> {
        let insert = "INSERT INTO audit_log (subject, actor, action, detail, at) VALUES ('x', 'test', 'note', ?1, 1)";
        room.write(move |writing| {
            writing.sql.execute(insert, [why])?;
            if why == "wrong" { Err(rusqlite::Error::QueryReturnedNoRows.into()) } else { Ok(()) }
        })
        .await
    }

    fn room_on_disk(name: &str) -> (Room, PathBuf) {
        let path = std::env::temp_dir().join(format!("gapless-sqlite-{name}-{}.db", std::process::id()));
        let ledger = open(&Location::File(path.clone()), SqliteOptions::default()).unwrap();
        (Room::open(ledger).unwrap(), path)
    }

    fn remove(room: Room, path: &Path) {
        drop(room);
        std::fs::remove_file(Sidecar::path_for(path)).unwrap();
        std::fs::remove_file(path).unwrap();
    }

    async fn notes(room: &Room) -> Result<i64, StoreError> {
        room.read(|reading| Ok(reading.sql.query_one("SELECT count(*) FROM audit_log", [], |row| row.get(0))?)).await
    }

    async fn writes(room: &Room) -> u64 {
        room.call(|ledger| mark_of(&ledger.sql).map_err(crate::error::from_sql)).await.unwrap().writes
    }

    #[tokio::test]
    async fn what_waits_is_written_with_one_commit_and_what_is_wrong_is_undone_alone() {
        let (room, path) = room_on_disk("together");
        let before = writes(&room).await;
        let (open_the_door, door) = std::sync::mpsc::channel::<()>();
        let busy = room.call(move |_| {
            door.recv().unwrap();
            Ok(())
        });
        let seen = notes(&room);
        let begin = async {
            // Everybody has been polled once, in order, and so stands in line.
            open_the_door.send(()).unwrap();
        };
        let (.., first, wrong, seen, second, ()) = tokio::join!(
            biased;
            busy,
            note(&room, "first"),
            note(&room, "wrong"),
            seen,
            note(&room, "second"),
            begin,
        );
        assert!(first.is_ok() && second.is_ok());
        assert!(matches!(wrong, Err(StoreError::Row(_))), "{wrong:?}");
        assert_eq!(seen.unwrap(), 1, "what stands before it, without what was undone");
        assert_eq!(writes(&room).await, before + 1, "one commit");
        assert_eq!(notes(&room).await.unwrap(), 2);
        remove(room, &path);
    }

    /// A statement that meets a bad sector ends the transaction, also one that only reads.
    #[tokio::test]
    async fn after_a_read_that_ends_the_transaction_nothing_is_written_by_itself() {
        let (room, path) = room_on_disk("together-read");
        let before = writes(&room).await;
        let (open_the_door, door) = std::sync::mpsc::channel::<()>();
        let busy = room.call(move |_| {
            door.recv().unwrap();
            Ok(())
        });
        let ends = room.read(|reading| Ok(reading.sql.execute_batch("ROLLBACK")?));
        let begin = async { open_the_door.send(()).unwrap() };
        let (.., first, ends, last, ()) =
            tokio::join!(biased; busy, note(&room, "first"), ends, note(&room, "last"), begin);
        assert!(first.is_err() && ends.is_err() && last.is_err(), "{first:?} {ends:?} {last:?}");
        assert_eq!(writes(&room).await, before);
        assert_eq!(notes(&room).await.unwrap(), 0);
        note(&room, "later").await.unwrap();
        remove(room, &path);
    }

    /// The one whose write ends the transaction takes the others along, and everybody hears of it.
    #[tokio::test]
    async fn a_full_disk_fails_all_that_were_to_be_written_with_it() {
        let (room, path) = room_on_disk("together-full");
        let (open_the_door, door) = std::sync::mpsc::channel::<()>();
        let busy = room.call(move |ledger| {
            let pages: u32 = ledger.sql.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
            ledger.sql.pragma_update(None, "max_page_count", pages).unwrap();
            door.recv().unwrap();
            Ok(())
        });
        let big = room.write(|writing| {
            let insert =
                "INSERT INTO audit_log (subject, actor, action, detail, at) VALUES ('x', 'test', 'note', ?1, 1)";
            writing.sql.execute(insert, ["x".repeat(1 << 20)])?;
            Ok(())
        });
        let begin = async { open_the_door.send(()).unwrap() };
        let (.., first, big, last, ()) =
            tokio::join!(biased; busy, note(&room, "first"), big, note(&room, "last"), begin);
        assert!(matches!(big, Err(StoreError::Full(_))), "{big:?}");
        assert!(first.is_err(), "it was undone with the others: {first:?}");
        assert!(last.is_err(), "{last:?}");
        assert_eq!(notes(&room).await.unwrap(), 0);
        remove(room, &path);
    }
}
