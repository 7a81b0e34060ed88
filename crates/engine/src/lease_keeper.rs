//! Which leases this process holds, and how long it may trust them.
//!
//! A node stops trusting a lease before the database does: by its own monotonic clock, counted from the moment *before* it
//! asked. Signing and sending need a [`Permit`], and there is no other way to get one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_domain::{Lapsed, Lease, LeaseTerms, Permit, SubmitterId, Term, Tick};
use gapless_store::{Acquired, Leases, StoreError};

use crate::clock::Clock;

#[derive(Debug)]
pub struct LeaseKeeper {
    store: Arc<dyn Leases>,
    clock: Arc<dyn Clock>,
    terms: LeaseTerms,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    held: BTreeMap<SubmitterId, Term>,
    /// Acquisitions whose answer is under way, and how many there ever were: while there is one, the database may know of
    /// leases that we do not.
    acquiring: usize,
    acquisitions: u64,
    /// Lanes whose release is under way, or was never answered, until the store must have done with it. Acquiring one of
    /// them would be answered with the same token, and the late release would then take it away unnoticed.
    releasing: BTreeMap<SubmitterId, Tick>,
}

impl LeaseKeeper {
    pub fn new(store: Arc<dyn Leases>, clock: Arc<dyn Clock>, terms: LeaseTerms) -> Self {
        LeaseKeeper { store, clock, terms, book: Mutex::default() }
    }

    pub async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        let asked_at = self.clock.now();
        let (_acquiring, wanted) = Acquiring::begin(self, lanes, asked_at);
        let mut answers = self.store.acquire(&wanted).await?.into_iter();
        let mut book = self.book();
        Ok(lanes
            .iter()
            .map(|lane| {
                let answer = if wanted.contains(lane) { answers.next() } else { None };
                if let Some(Acquired::Held(lease)) = &answer {
                    book.begin_or_extend(lease, asked_at, &self.terms);
                }
                answer.unwrap_or(Acquired::Busy)
            })
            .collect())
    }

    /// Renews all leases at once, and gives back those that are lost: their lanes must be dropped.
    ///
    /// The store renews whatever it holds for this process, also a lane that was dropped without giving its lease back, or
    /// one whose acquisition was never answered. Nobody would ever take such a lane over, so those are released here.
    pub async fn renew(&self) -> Result<Vec<Lease>, StoreError> {
        let asked_at = self.clock.now();
        let (known, quiet, acquisitions) = {
            let book = self.book();
            let known: Vec<Lease> = book.held.values().map(|term| term.lease().clone()).collect();
            (known, book.acquiring == 0, book.acquisitions)
        };
        let renewal = self.store.renew().await.inspect_err(|error| {
            if matches!(error, StoreError::Regressed(_)) {
                self.distrust_all();
            }
        })?;
        let orphans = {
            let mut book = self.book();
            let mut orphans = book.extend_all(&renewal.extended, asked_at, &self.terms);
            if !quiet || book.acquisitions != acquisitions {
                orphans.clear();
            }
            book.begin_release(&orphans, asked_at.saturating_add(self.terms.duration));
            orphans
        };
        if !orphans.is_empty()
            && let Err(error) = self.send_release(&orphans).await
        {
            tracing::warn!(
                "leases that nobody uses could not be given back, trying again with the next renewal: {error}"
            );
        }
        let still: HashSet<&Lease> = renewal.extended.iter().chain(&renewal.busy).collect();
        let mut lost: Vec<Lease> = known.into_iter().filter(|lease| !still.contains(lease)).collect();
        // What was dropped or acquired anew while the answer was under way is nobody's loss.
        lost.retain(|lease| self.drop_lease(lease));
        Ok(lost)
    }

    /// Gives leases back. They are no longer trusted from the moment of the call, whatever comes of it.
    pub async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let over = self.clock.now().saturating_add(self.terms.duration);
        self.book().begin_release(leases, over);
        self.send_release(leases).await
    }

    async fn send_release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        self.store.release(leases).await?;
        let mut book = self.book();
        for lease in leases {
            book.releasing.remove(lease.submitter());
        }
        Ok(())
    }

    /// The leases that this process believes to hold, trusted or not.
    pub fn held(&self) -> Vec<Lease> {
        self.book().held.values().map(|term| term.lease().clone()).collect()
    }

    /// A commit that was asked for at `asked_at` is done, and has extended the lease.
    pub fn committed(&self, lease: &Lease, asked_at: Tick) {
        self.book().extend_all(std::slice::from_ref(lease), asked_at, &self.terms);
    }

    /// The lease is lost, or its lane is dropped: nothing is signed or sent for it any more. False if it was not held.
    pub fn drop_lease(&self, lease: &Lease) -> bool {
        let mut book = self.book();
        let is_held = book.held.get(lease.submitter()).is_some_and(|term| term.lease() == lease);
        if is_held {
            book.held.remove(lease.submitter());
        }
        is_held
    }

    /// The database has lost what it acknowledged to this process: what our lanes know may never have happened. None of them is trusted any
    /// more, also one that has nothing to write and would never notice; all are taken and loaded anew.
    pub fn distrust_all(&self) {
        self.book().held.clear();
    }

    /// The right to sign and send for a lane, for as long as it says.
    pub fn permit(&self, lane: &SubmitterId) -> Result<Permit, Lapsed> {
        let now = self.clock.now();
        match self.book().held.get(lane) {
            Some(term) => term.permit(now),
            None => Err(Lapsed { submitter: lane.clone() }),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic elsewhere cannot leave the book half-written.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// One step: whoever acquires the lane sees it either held or being released, never neither.
    fn begin_release(&mut self, leases: &[Lease], over: Tick) {
        for lease in leases {
            if self.held.get(lease.submitter()).is_some_and(|term| term.lease() == lease) {
                self.held.remove(lease.submitter());
            }
            self.releasing.insert(lease.submitter().clone(), over);
        }
    }

    fn begin_or_extend(&mut self, lease: &Lease, asked_at: Tick, terms: &LeaseTerms) {
        match self.held.get_mut(lease.submitter()) {
            Some(term) if term.lease() == lease => term.extend(asked_at, terms),
            // An answer that was overtaken by a newer one.
            Some(term) if term.lease().token() > lease.token() => {}
            _ => {
                self.held.insert(lease.submitter().clone(), Term::begin(lease.clone(), asked_at, terms));
            }
        }
    }

    /// Gives back the leases that are not in the book.
    fn extend_all(&mut self, leases: &[Lease], asked_at: Tick, terms: &LeaseTerms) -> Vec<Lease> {
        let mut unknown = Vec::new();
        for lease in leases {
            match self.held.get_mut(lease.submitter()) {
                Some(term) if term.lease() == lease => term.extend(asked_at, terms),
                _ => unknown.push(lease.clone()),
            }
        }
        unknown
    }
}

/// Says that an acquisition is under way for as long as it lives, also if its caller goes away.
struct Acquiring<'a>(&'a LeaseKeeper);

impl<'a> Acquiring<'a> {
    /// Also says which of the lanes may be asked for now.
    fn begin(keeper: &'a LeaseKeeper, lanes: &[SubmitterId], now: Tick) -> (Self, Vec<SubmitterId>) {
        let mut book = keeper.book();
        book.acquiring += 1;
        book.acquisitions += 1;
        book.releasing.retain(|_, over| *over > now);
        let wanted = lanes.iter().filter(|lane| !book.releasing.contains_key(*lane)).cloned().collect();
        drop(book);
        (Acquiring(keeper), wanted)
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        self.0.book().acquiring -= 1;
    }
}
