//! Reservations: each step is asked of what the steps before it left.

use std::collections::BTreeMap;

use gapless_domain::{
    LaneCommit, LockOwner, NewSlot, Nonce, ReservationStatus as Status, ReservationStep as Step, SlotKind, Timestamp,
    TxId,
};

use super::tables::{Call, Lane};
use crate::roles::Conflict;

impl Lane {
    /// The lane's reservations after all steps of a commit, or the first step that is refused.
    pub(super) fn reservations_after(
        &self,
        call: &Call<'_>,
        commit: &LaneCommit,
    ) -> Result<BTreeMap<Nonce, Status>, Conflict> {
        let mut reservations = self.reservations.clone();
        for step in commit.reservations() {
            let nonce = step.nonce();
            let lent = reservations.get(&nonce).and_then(Lent::of);
            let next = match step {
                Step::Reserve { tx_id, lock_owner, hold, .. } => {
                    self.may_reserve(&reservations, commit, nonce).then(|| Status::Reserved {
                        tx_id: *tx_id,
                        lock_owner: lock_owner.clone(),
                        locked_until: call.now.saturating_add(*hold),
                    })
                }
                Step::Use { lock_owner, .. } => {
                    let lent = lent.filter(|lent| lent.is_to(lock_owner, call.now));
                    lent.map(|lent| Status::Used { tx_id: Some(lent.tx_id) })
                }
                Step::Release { lock_owner, .. } => {
                    lent.filter(|lent| lent.is_to(lock_owner, call.now)).map(|_| Status::Recyclable)
                }
                Step::Expire { .. } => lent.filter(|lent| lent.until <= call.now).map(|_| Status::Recyclable),
                Step::Fill { .. } => {
                    let is_recyclable = reservations.get(&nonce) == Some(&Status::Recyclable);
                    is_recyclable.then_some(Status::Used { tx_id: None })
                }
            };
            reservations.insert(nonce, next.ok_or(Conflict::Reservation(nonce))?);
        }
        Ok(reservations)
    }

    /// The smallest recyclable nonce that is not closed, or a fresh one if there is none. What this commit closes is open
    /// until it is written.
    fn may_reserve(&self, reservations: &BTreeMap<Nonce, Status>, commit: &LaneCommit, nonce: Nonce) -> bool {
        let mut open = reservations.range(self.first_open()..);
        match open.find(|(_, status)| **status == Status::Recyclable) {
            Some((recyclable, _)) => *recyclable == nonce,
            None => {
                let is_fresh = |slot: &NewSlot| slot.nonce == nonce && slot.kind == SlotKind::Reservation;
                !reservations.contains_key(&nonce) && commit.slots().iter().any(is_fresh)
            }
        }
    }
}

struct Lent<'a> {
    tx_id: TxId,
    owner: &'a LockOwner,
    until: Timestamp,
}

impl<'a> Lent<'a> {
    fn of(status: &'a Status) -> Option<Self> {
        match status {
            Status::Reserved { tx_id, lock_owner, locked_until } => {
                Some(Lent { tx_id: *tx_id, owner: lock_owner, until: *locked_until })
            }
            Status::Used { .. } | Status::Recyclable => None,
        }
    }

    fn is_to(&self, owner: &LockOwner, now: Timestamp) -> bool {
        self.owner == owner && self.until > now
    }
}
