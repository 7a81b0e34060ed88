//! The database of a world: the real model or the real SQLite store, in memory.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use gapless_domain::{LeaseTerms, NodeText, OwnerId, Timestamp};
use gapless_store::{DatabaseClock, Model, Snapshot, Store, StoreError};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};

use crate::history::{History, Moment};
use crate::planted::DatabaseBug;
use crate::stage::Stage;
use crate::world_spec::StoreKind;

/// A handle of the database. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Database(Arc<DatabaseInner>);

#[derive(Debug)]
struct DatabaseInner {
    engine: Backend,
    bug: Option<DatabaseBug>,
    clock: Arc<SkewedClock>,
    standby: Mutex<Standby>,
    history: History,
}

#[derive(Debug)]
enum Backend {
    Model(Model),
    Sqlite(SqliteStore),
}

/// The standby: its last copy of the data, and the number of its takeovers.
#[derive(Debug, Default)]
struct Standby {
    /// The copy, and the length of the history at that moment.
    behind: Option<(Snapshot, usize)>,
    takeovers: u32,
    /// Takeovers that a process has noticed by the server's identity.
    noticed: u32,
}

/// The database's own clock: the simulated time plus an offset that faults change.
#[derive(Debug)]
pub(crate) struct SkewedClock {
    stage: Stage,
    offset: AtomicI64,
}

impl DatabaseClock for SkewedClock {
    fn now(&self) -> Timestamp {
        let micros = i64::try_from(self.stage.now().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(micros.saturating_add(self.offset.load(Ordering::Relaxed)))
    }
}

impl Database {
    pub(crate) fn new(
        kind: StoreKind,
        bug: Option<DatabaseBug>,
        terms: LeaseTerms,
        stage: &Stage,
        history: &History,
    ) -> Result<Database, StoreError> {
        /// A date in this century, in microseconds.
        const START: i64 = 1_900_000_000_000_000;
        let clock = Arc::new(SkewedClock { stage: stage.clone(), offset: AtomicI64::new(START) });
        let as_clock = Arc::clone(&clock) as Arc<dyn DatabaseClock>;
        let engine = match kind {
            StoreKind::Model => Backend::Model(match &bug {
                Some(bug) => Model::with_rules(terms, as_clock, Arc::new(*bug)),
                None => Model::new(terms, as_clock),
            }),
            StoreKind::Sqlite => {
                let options = SqliteOptions { lease: terms, clock: as_clock, ..SqliteOptions::default() };
                Backend::Sqlite(SqliteStore::open(Location::Memory, OwnerId::new("nobody", 0), options)?)
            }
        };
        let (standby, history) = (Mutex::default(), history.clone());
        Ok(Database(Arc::new(DatabaseInner { engine, bug, clock, standby, history })))
    }

    /// A direct connection, without a network, for one owner.
    pub(crate) fn open(&self, owner: OwnerId) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = match &self.0.engine {
            Backend::Model(model) => Arc::new(model.node(owner)),
            Backend::Sqlite(store) => Arc::new(store.for_owner(owner)),
        };
        match &self.0.bug {
            Some(bug) => bug.wrap(store),
            None => store,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Sets the clock ahead or back.
    pub(crate) fn jump(&self, by: Duration, ahead: bool) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(0);
        self.0.clock.offset.fetch_add(if ahead { micros } else { -micros }, Ordering::Relaxed);
    }

    /// Copies all data to the standby.
    pub(crate) fn replicate(&self) {
        if let Backend::Model(model) = &self.0.engine {
            self.standby().behind = Some((model.snapshot(), self.0.history.len()));
        }
    }

    /// The standby takes over with the data that it has. False if it has none.
    pub(crate) fn fail_over(&self) -> bool {
        let mut standby = self.standby();
        let (Backend::Model(model), Some((snapshot, since))) = (&self.0.engine, standby.behind.take()) else {
            return false;
        };
        standby.takeovers += 1;
        model.restore(snapshot);
        self.0.history.tell(Moment::StoreLost { since });
        true
    }

    /// The number of takeovers. A connection ends at a takeover.
    pub(crate) fn server(&self) -> u32 {
        self.standby().takeovers
    }

    /// Called at each new connection: declares the loss if the server is not the one that the ledger was written on.
    pub(crate) fn greet(&self, inner: &dyn Store) {
        let is_news = {
            let mut standby = self.standby();
            let is_news = standby.noticed < standby.takeovers;
            standby.noticed = standby.takeovers;
            is_news
        };
        if is_news && self.0.bug.as_ref().is_none_or(DatabaseBug::notices_takeovers) {
            // The model cannot fail here.
            let _ = wait_for(inner.declare_lost(&NodeText::new("store"), "the server is not the one before"));
        }
    }

    fn standby(&self) -> MutexGuard<'_, Standby> {
        self.0.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the waiting thread. SQLite works on its own thread and answers before this world goes on.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn wait_for<T>(verb: impl Future<Output = T>) -> T {
    let mut verb = std::pin::pin!(verb);
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    loop {
        match verb.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
