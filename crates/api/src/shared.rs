//! State that all routes share: the app, and the counters of the limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_domain::{LockOwner, SubmitterId, TxId};
use gapless_engine::IntakeError;
use gapless_store::StoreError;
use gapless_wire::{ProblemCode, SubmitterRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::directory::Directory;
use crate::problem::Refusal;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) app: App,
    pub(crate) directory: Directory,
    waiters: Arc<Semaphore>,
    in_flight: Arc<Semaphore>,
}

/// A request's permit among the concurrent requests. A caller that begins to wait for a change returns it.
#[derive(Clone, Debug)]
pub(crate) struct InFlight(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

/// A permit among the callers who wait for a change, with the time to wait.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) time: Duration,
    _permit: OwnedSemaphorePermit,
}

impl Shared {
    pub(crate) fn new(app: App) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Shared {
            directory: Directory::new(Arc::clone(&app.views), app.driver.clone(), app.limits.alias_age),
            waiters: permits(app.limits.waiters_max),
            in_flight: permits(app.limits.in_flight_requests),
            app,
        }
    }

    pub(crate) fn enter(&self) -> Result<InFlight, Refusal> {
        match Arc::clone(&self.in_flight).try_acquire_owned() {
            Ok(permit) => Ok(InFlight(Arc::new(Mutex::new(Some(permit))))),
            Err(_) => Err(Refusal::later(ProblemCode::TooManyRequests, self.app.limits.retry_after)),
        }
    }

    /// Takes a permit to wait for a change. A route that writes and then waits takes the permit first: a refusal must
    /// mean that nothing was written.
    pub(crate) fn place_to_wait(&self, time: Duration) -> Result<Place, Refusal> {
        let permit = Arc::clone(&self.waiters).try_acquire_owned();
        let permit = permit.map_err(|_| Refusal::later(ProblemCode::TooManyWaiters, self.app.limits.retry_after))?;
        Ok(Place { time, _permit: permit })
    }

    pub(crate) async fn resolve(&self, name: SubmitterRef) -> Result<SubmitterId, Refusal> {
        let found = self.directory.resolve(name).await.map_err(|error| self.store_failed(&error))?;
        found.ok_or_else(|| Refusal::of(ProblemCode::UnknownSubmitter))
    }

    pub(crate) async fn find(&self, id: TxId) -> Result<gapless_domain::IntentRecord, Refusal> {
        let found = self.app.views.get(&[id]).await.map_err(|error| self.store_failed(&error))?;
        found.into_iter().next().flatten().ok_or_else(|| Refusal::of(ProblemCode::TxNotFound))
    }

    /// Names for a caller who left them out. An id consists of the time and a random part; two of them are not
    /// guessable.
    pub(crate) fn fresh_names(&self) -> Result<(String, LockOwner), Refusal> {
        let lock_owner = LockOwner::new(&format!("{}-{}", self.app.ids.next_tx(), self.app.ids.next_tx()));
        let lock_owner = lock_owner.ok_or_else(|| Refusal::of(ProblemCode::Internal))?;
        Ok((format!("nonce-{}", self.app.ids.next_tx()), lock_owner))
    }

    pub(crate) fn store_failed(&self, error: &StoreError) -> Refusal {
        Refusal::of_store(error, self.app.limits.retry_after)
    }

    pub(crate) fn intake_failed(&self, error: &IntakeError) -> Refusal {
        Refusal::of_intake(error, self.app.limits.retry_after)
    }
}

impl InFlight {
    pub(crate) fn give_up(&self) {
        // A panic while the lock is held leaves the permit either present or absent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
