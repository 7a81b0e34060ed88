//! The facts that [`check`](super::check) needs about a commit, and the keys that name them.
//!
//! A store reads the rows that [`FactKeys`] names, and fills [`CommitFacts`] with them. PostgreSQL does so for many
//! lanes in one flight, SQLite inside its transaction, and a [`LaneLedger`] has everything in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::{LaneCommit, LaneLedger};
use crate::B256;
use crate::id::TxId;
use crate::lease::FencingToken;
use crate::nonce::Nonce;
use crate::reservation::{ReservationStatus, ReservationStep};
use crate::time::Timestamp;

/// The rows that the check of one commit depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactKeys {
    pub intents: BTreeSet<TxId>,
    /// Nonces with new attempts or claims. Nonces that the commit binds itself are left out: the cursor shows that they
    /// are new.
    pub slots: BTreeSet<Nonce>,
    /// Nonces with new attempts or send reports, without the nonces that the commit binds itself.
    pub attempts: BTreeSet<Nonce>,
    /// Nonces with reservation steps, and those with new attempts that the commit does not bind itself.
    pub reservations: BTreeSet<Nonce>,
    /// True if the commit reserves a nonce, so that all recyclable nonces of the lane matter.
    pub reserves: bool,
    /// The open nonce that the commit writes.
    pub open_nonce: Option<Nonce>,
}

/// The rows of one lane, as far as one commit depends on them. A row that [`FactKeys`] names and that is missing here
/// does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFacts {
    /// The database's time of the commit.
    pub now: Timestamp,
    pub lease: LeaseFact,
    /// The fencing token of the newest owner that wrote the lane's cursor.
    pub written_by: Option<FencingToken>,
    /// True if the store lost commits and the lane has not acknowledged the loss.
    pub regressed: bool,
    /// `None` for a lane that never wrote a cursor.
    pub cursor: Option<CursorFact>,
    /// The lane's own intents only: an intent of another lane is as good as missing.
    pub intents: BTreeMap<TxId, IntentFact>,
    /// The nonces among [`FactKeys::slots`] that are bound.
    pub slots: BTreeSet<Nonce>,
    pub attempts: BTreeMap<Nonce, Vec<AttemptFact>>,
    /// The reservations of the named nonces. If the commit reserves a nonce, also every recyclable nonce that is open.
    pub reservations: BTreeMap<Nonce, ReservationStatus>,
    /// The intents that hold a nonce below [`FactKeys::open_nonce`].
    pub holders: BTreeSet<TxId>,
}

/// The state of the lease that a commit was made under, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseFact {
    /// The owner holds it, and no other transaction can change it before this one ends.
    Held,
    /// The owner holds it, but another transaction is writing its row.
    Busy,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorFact {
    pub version: u64,
    pub next_nonce: Nonce,
    pub open_nonce: Nonce,
    /// True in PROTECT because the store lost commits: the loss is acknowledged, and not reconciled yet.
    pub unreconciled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentFact {
    pub version: u32,
    /// The fencing token of the newest owner that wrote the row; `None` if no owner did.
    pub written_by: Option<FencingToken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptFact {
    pub ordinal: u16,
    pub hash: B256,
}

impl FactKeys {
    pub fn of(commit: &LaneCommit) -> Self {
        let fresh: BTreeSet<Nonce> = commit.slots().iter().map(|slot| slot.nonce).collect();
        let is_old = |nonce: &Nonce| !fresh.contains(nonce);
        let attempts = || commit.attempts().iter().map(|attempt| attempt.nonce).filter(is_old);
        let claims = commit.claims().iter().map(|claim| claim.nonce).filter(is_old);
        let reports = commit.reports().iter().map(|report| report.nonce).filter(is_old);
        let steps = commit.reservations().iter().map(ReservationStep::nonce);
        FactKeys {
            intents: commit.changes().iter().map(|change| change.tx_id()).collect(),
            slots: attempts().chain(claims).collect(),
            attempts: attempts().chain(reports).collect(),
            reservations: steps.chain(attempts()).collect(),
            reserves: commit.reservations().iter().any(|step| matches!(step, ReservationStep::Reserve { .. })),
            open_nonce: commit.cursor().map(|change| change.to().open_nonce),
        }
    }
}

impl CommitFacts {
    /// The facts of a lane that has no rows.
    pub fn new(now: Timestamp, lease: LeaseFact) -> Self {
        CommitFacts {
            now,
            lease,
            written_by: None,
            regressed: false,
            cursor: None,
            intents: BTreeMap::new(),
            slots: BTreeSet::new(),
            attempts: BTreeMap::new(),
            reservations: BTreeMap::new(),
            holders: BTreeSet::new(),
        }
    }

    /// The lowest nonce whose slot is open.
    pub fn open_nonce(&self) -> Nonce {
        self.cursor.map_or(Nonce::ZERO, |cursor| cursor.open_nonce)
    }
}

impl LaneLedger {
    /// The facts for the check of `commit`. The ledger knows neither the lease nor the time.
    pub fn facts(&self, commit: &LaneCommit, lease: LeaseFact, now: Timestamp) -> CommitFacts {
        let keys = FactKeys::of(commit);
        let open = self.open_nonce();
        let intents = keys.intents.iter().filter_map(|id| self.intent(*id));
        let attempts = |nonce: &Nonce| {
            let record = self.slots.get(nonce)?;
            let fact =
                |(ordinal, attempt): (&u16, &crate::Attempt)| AttemptFact { ordinal: *ordinal, hash: attempt.hash };
            Some((*nonce, record.attempts.iter().map(fact).collect()))
        };
        let reservation = |nonce: &Nonce| Some((*nonce, self.slots.get(nonce)?.reservation.clone()?));
        let mut reservations: BTreeMap<_, _> = keys.reservations.iter().filter_map(reservation).collect();
        if keys.reserves {
            reservations.extend(self.recyclable().map(|nonce| (nonce, ReservationStatus::Recyclable)));
        }
        let closed = keys.open_nonce.filter(|nonce| *nonce > open).unwrap_or(open);
        CommitFacts {
            now,
            lease,
            written_by: self.written_by,
            regressed: self.regressed,
            cursor: self.cursor.as_ref().map(|cursor| CursorFact {
                version: cursor.version,
                next_nonce: cursor.next_nonce,
                open_nonce: cursor.open_nonce,
                unreconciled: cursor.state.is_store_regressed(),
            }),
            intents: intents.map(|tx| (tx.id, IntentFact { version: tx.version, written_by: None })).collect(),
            slots: keys.slots.into_iter().filter(|nonce| self.slots.contains_key(nonce)).collect(),
            attempts: keys.attempts.iter().filter_map(attempts).collect(),
            reservations,
            holders: self.slots.range(open..closed).filter_map(|(_, record)| record.intent).collect(),
        }
    }
}
