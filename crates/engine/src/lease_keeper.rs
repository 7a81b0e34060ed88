//! The leases that this process holds, and the time until which it may trust them.
//!
//! A node stops trusting a lease before the database does: by its own monotonic clock, counted from the moment *before*
//! the request. Signing and sending need a [`Permit`], and only this module grants one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_domain::{Lapsed, Lease, LeaseTerms, Permit, SubmitterId, Term, Tick};
use gapless_store::{Acquired, Store, StoreError};

use crate::clock::Clock;

#[derive(Debug)]
pub struct LeaseKeeper {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    terms: LeaseTerms,
    book: Mutex<LeaseBook>,
}

#[derive(Debug, Default)]
struct LeaseBook {
    held: BTreeMap<SubmitterId, Term>,
    /// Acquisitions in flight, and the number of all acquisitions so far: while one is in flight, the database may know
    /// leases that this process does not know yet.
    acquiring: usize,
    acquisitions: u64,
    /// Lanes whose release is in flight or was never answered, with the time at which the store must be done with it.
    /// An acquisition of such a lane would return the same token, and the late release would then end the lease
    /// unnoticed.
    releasing: BTreeMap<SubmitterId, Tick>,
}

impl LeaseKeeper {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, terms: LeaseTerms) -> Self {
        LeaseKeeper { store, clock, terms, book: Mutex::default() }
    }

    pub async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        let asked_at = self.clock.now();
        let (_acquiring, wanted) = AcquisitionGuard::begin(self, lanes, asked_at);
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

    /// Renews all leases at once, and returns the lost ones: their lanes must be dropped.
    ///
    /// The store renews every lease of this process, also of a lane that was dropped without a release, or of an
    /// acquisition that was never answered. Such a lane would never get another owner, so these leases are released
    /// here.
    pub async fn renew(&self) -> Result<Vec<Lease>, StoreError> {
        let asked_at = self.clock.now();
        let (known, no_acquisition, acquisitions) = {
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
            if !no_acquisition || book.acquisitions != acquisitions {
                orphans.clear();
            }
            book.begin_release(&orphans, asked_at.saturating_add(self.terms.duration));
            orphans
        };
        if !orphans.is_empty()
            && let Err(error) = self.send_release(&orphans).await
        {
            tracing::warn!("unused leases could not be released; the next renewal tries again: {error}");
        }
        let extended: HashSet<&Lease> = renewal.extended.iter().chain(&renewal.busy).collect();
        let mut lost: Vec<Lease> = known.into_iter().filter(|lease| !extended.contains(lease)).collect();
        // A lease that was dropped or acquired again during the renewal is not lost.
        lost.retain(|lease| self.drop_lease(lease));
        Ok(lost)
    }

    /// Releases leases. They are not trusted from the moment of the call on, regardless of the result.
    pub async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let done_at = self.clock.now().saturating_add(self.terms.duration);
        self.book().begin_release(leases, done_at);
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

    /// The leases of this process, trusted or not.
    pub fn held(&self) -> Vec<Lease> {
        self.book().held.values().map(|term| term.lease().clone()).collect()
    }

    /// Extends a lease after a commit that was requested at `asked_at`.
    pub fn committed(&self, lease: &Lease, asked_at: Tick) {
        self.book().extend_all(std::slice::from_ref(lease), asked_at, &self.terms);
    }

    /// Stops signing and sending for a lease that is lost or whose lane is dropped. False if the lease was not held.
    pub fn drop_lease(&self, lease: &Lease) -> bool {
        let mut book = self.book();
        let is_held = book.held.get(lease.submitter()).is_some_and(|term| term.lease() == lease);
        if is_held {
            book.held.remove(lease.submitter());
        }
        is_held
    }

    /// Drops all leases, because the database lost commits that it had acknowledged: the memory of the lanes may be
    /// wrong. A lane without anything to write would never notice. All lanes are acquired and loaded again.
    pub fn distrust_all(&self) {
        self.book().held.clear();
    }

    /// The right to sign and send for a lane, for a limited time.
    pub fn permit(&self, lane: &SubmitterId) -> Result<Permit, Lapsed> {
        let now = self.clock.now();
        match self.book().held.get(lane) {
            Some(term) => term.permit(now),
            None => Err(Lapsed { submitter: lane.clone() }),
        }
    }

    fn book(&self) -> MutexGuard<'_, LeaseBook> {
        // A panic elsewhere cannot leave the map half-written.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseBook {
    /// Moves leases from held to releasing in one step, so that an acquisition always sees one of the two.
    fn begin_release(&mut self, leases: &[Lease], done_at: Tick) {
        for lease in leases {
            if self.held.get(lease.submitter()).is_some_and(|term| term.lease() == lease) {
                self.held.remove(lease.submitter());
            }
            self.releasing.insert(lease.submitter().clone(), done_at);
        }
    }

    fn begin_or_extend(&mut self, lease: &Lease, asked_at: Tick, terms: &LeaseTerms) {
        match self.held.get_mut(lease.submitter()) {
            Some(term) if term.lease() == lease => term.extend(asked_at, terms),
            // A newer acquisition has overtaken this answer.
            Some(term) if term.lease().token() > lease.token() => {}
            _ => {
                self.held.insert(lease.submitter().clone(), Term::begin(lease.clone(), asked_at, terms));
            }
        }
    }

    /// Returns the leases that this process does not hold.
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

/// Marks an acquisition as in flight while it lives, even if the caller drops the future.
struct AcquisitionGuard<'a>(&'a LeaseKeeper);

impl<'a> AcquisitionGuard<'a> {
    /// Also returns the lanes that may be acquired now.
    fn begin(keeper: &'a LeaseKeeper, lanes: &[SubmitterId], now: Tick) -> (Self, Vec<SubmitterId>) {
        let mut book = keeper.book();
        book.acquiring += 1;
        book.acquisitions += 1;
        book.releasing.retain(|_, done_at| *done_at > now);
        let wanted = lanes.iter().filter(|lane| !book.releasing.contains_key(*lane)).cloned().collect();
        drop(book);
        (AcquisitionGuard(keeper), wanted)
    }
}

impl Drop for AcquisitionGuard<'_> {
    fn drop(&mut self) {
        self.0.book().acquiring -= 1;
    }
}
