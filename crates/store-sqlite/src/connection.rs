//! The room that owns the database: one thread, one connection, one job after the other.
//!
//! SQLite writes one transaction at a time anyway, and every call of it may wait for the disk, which would block an
//! executor. So calls are sent to a thread as closures, through a channel of bounded length, and their answers are awaited.
//! A caller that goes away leaves its job behind, which is then done all the same: wholly, or not at all.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use gapless_store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::error::Failure;
use crate::ledger::{Ledger, Reading, Writing};

/// More calls than this wait at the door, where dropping them costs nothing.
const MAX_WAITING: usize = 256;

type Job = Box<dyn FnOnce(&mut Ledger) + Send>;

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
        let work = move || {
            while let Some(job) = jobs.blocking_recv() {
                job(&mut ledger);
            }
        };
        let thread = thread::Builder::new()
            .name("gapless-sqlite".to_owned())
            .spawn(work)
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Room { jobs: Some(sender), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(|ledger| ledger.read(work)).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writing<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(|ledger| ledger.write(work)).await
    }

    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Ledger) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |ledger| {
            // Nobody may be waiting any more.
            let _ = answer.send(work(ledger));
        });
        let jobs = self.jobs.as_ref().ok_or_else(|| StoreError::Unavailable(ThreadEnded.into()))?;
        jobs.send(job).await.map_err(|_| StoreError::Unavailable(ThreadEnded.into()))?;
        // The job may have got as far as its COMMIT before the thread ended.
        answered.await.map_err(|_| StoreError::OutcomeUnknown(ThreadEnded.into()))?
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
