//! A store for tests and for the simulator, with faults in front of a real one.
//!
//! [`FaultyStore`] is the only delegation of the whole contract. A test writes a [`StoreFaults`] for the verbs that it
//! disturbs, and nothing else.

mod store;
mod verb;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use gapless_domain::{ChainId, CommandId, Head, LaneCommit, Lease, NewCommand, SubmitterId, TxId};

use crate::error::StoreError;
use crate::retention::RetentionKind;
use crate::roles::{Accepted, Acquired, CancelVerdict, Committed, HeadVerdict, NewIntent, Store};
use crate::wake::Wakeups;
pub use verb::{StoreVerb, VerbKind};

/// A call that has not run yet. Polling it runs the verb on the inner store.
pub type PendingCall<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// A store whose calls pass through `F` before they reach the inner store.
#[derive(Debug)]
pub struct FaultyStore<F> {
    inner: Arc<dyn Store>,
    faults: Arc<F>,
}

/// The faults of a [`FaultyStore`]. Every method has a default that disturbs nothing.
pub trait StoreFaults: fmt::Debug + Send + Sync + Sized + 'static {
    /// Runs before the verb. It may wait, and an error fails the call without reaching the inner store. `lanes` are the
    /// lanes that the arguments of the verb name.
    fn before(&self, verb: StoreVerb, lanes: &[SubmitterId]) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (verb, lanes);
        async { Ok(()) }
    }

    /// Runs one call. An override decides when the call runs, and what its caller gets.
    fn call<T: Send + 'static>(
        &self,
        verb: StoreVerb,
        lanes: &[SubmitterId],
        call: PendingCall<T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        async move {
            self.before(verb, lanes).await?;
            call.await
        }
    }

    /// Runs an accept. Only a planted bug overrides it, to change the intents on their way.
    fn accept(
        &self,
        store: &FaultyStore<Self>,
        intents: &[NewIntent],
    ) -> impl Future<Output = Result<Vec<Accepted>, StoreError>> + Send {
        store.run_accept(intents.to_vec())
    }

    /// Runs a commit. Only a planted bug overrides it, to change the commits on their way.
    fn commit(
        &self,
        store: &FaultyStore<Self>,
        commits: &[LaneCommit],
    ) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        store.run_commit(commits.to_vec())
    }

    /// Observes a write at the moment when the inner store has executed it, even if its caller never gets the answer.
    fn executed(&self, write: ExecutedWrite<'_>) {
        let _ = write;
    }

    fn wakeups(&self, inner: &dyn Store) -> Wakeups {
        inner.wakeups()
    }

    fn changes(&self, inner: &dyn Store) -> Wakeups {
        inner.changes()
    }
}

/// A write that the inner store has executed, with its answer.
#[derive(Debug)]
pub enum ExecutedWrite<'a> {
    Accept(&'a [NewIntent], &'a [Accepted]),
    CancelQueued(&'a [TxId], &'a [CancelVerdict]),
    PutCommands(&'a [NewCommand], &'a [CommandId]),
    Acquire(&'a [Acquired]),
    Release(&'a [Lease]),
    Commit(&'a [LaneCommit], &'a Committed),
    SaveHead(&'a Head, &'a HeadVerdict),
    ForgetHead(&'a ChainId),
    /// The kind of the rows, and the number of rows or intents that were moved or deleted.
    ApplyRetention(RetentionKind, u32),
}

impl<F: StoreFaults> FaultyStore<F> {
    pub fn new(inner: Arc<dyn Store>, faults: F) -> Self {
        FaultyStore { inner, faults: Arc::new(faults) }
    }

    pub fn faults(&self) -> &F {
        &self.faults
    }
}
