//! Callers and operators.

use gapless_domain::{
    Amount, AttemptKind, Bytes, CommandKind, Fees, LockOwner, Nonce, Payload, ReservationRequest, ReservationStatus,
    SignedTx, TxId, keccak256,
};
use gapless_store::{CancelVerdict, IntentIntake, Views};
use uuid::Uuid;

use crate::world::{World, now};

/// A request for a nonce, by somebody who signs by himself.
pub(crate) fn borrow(number: u64) -> Payload {
    Payload::Reservation(ReservationRequest { lock_owner: owner_of(number), hold_ms: 8_000 })
}

fn owner_of(number: u64) -> LockOwner {
    LockOwner::new(&format!("caller {number}")).unwrap()
}

/// What a borrower signs.
fn signed(nonce: Nonce, number: u64) -> SignedTx {
    let raw = format!("{nonce} {} {number} 105", AttemptKind::Original.as_str());
    SignedTx { hash: keccak256(&raw), raw: Bytes::from(raw.into_bytes()) }
}

impl World {
    pub(crate) fn people(&mut self) {
        if !self.with_people || self.intents == 0 {
            return;
        }
        match self.dice.below(10) {
            0..=2 => self.cancel(),
            3..=4 => self.command(CommandKind::Resume),
            5 => self.command(CommandKind::Pause),
            6 if self.dice.percent(20) => self.command(CommandKind::CancelPending),
            _ => self.borrower(),
        }
    }

    fn cancel(&mut self) {
        let number = 1 + self.dice.below(self.intents as usize) as u128;
        let id = TxId::from_uuid(Uuid::from_u128(number));
        let node = self.any_node();
        if now(node.cancel_queued(&[id])).unwrap() == [CancelVerdict::Canceled] {
            let row = now(node.get(&[id])).unwrap().remove(0).unwrap();
            self.checks.canceled(id, row.state);
        } else if self.dice.percent(50) {
            self.command(CommandKind::Cancel { tx_id: id });
        }
    }

    /// One who was lent a nonce uses it, lets it go, or sends something by himself; and sometimes too late, or twice.
    fn borrower(&mut self) {
        let slots = now(self.any_node().open_slots(&self.lane, None, 100)).unwrap();
        let lent: Vec<(Nonce, u64)> = slots
            .iter()
            .filter_map(|slot| match &slot.reservation.as_ref()?.status {
                ReservationStatus::Reserved { tx_id, .. } => Some((slot.slot.nonce, self.checks.number_of(*tx_id))),
                _ => None,
            })
            .collect();
        if lent.is_empty() {
            return;
        }
        let (nonce, number) = self.dice.pick(&lent);
        let lock_owner = owner_of(number);
        let signed = signed(nonce, number);
        match self.dice.below(10) {
            0..=5 => {
                let (fees, cost) = (Fees::Eip1559 { max_fee: 105, max_priority_fee: 2 }, Amount::ZERO);
                self.command(CommandKind::UseReserved { nonce, lock_owner, signed, fees, cost });
            }
            6..=7 => self.command(CommandKind::ReleaseReserved { nonce, lock_owner }),
            8 => self.chain.sent_by_caller(&signed.raw),
            _ => {
                let other = LockOwner::new("a thief").unwrap();
                self.command(CommandKind::ReleaseReserved { nonce, lock_owner: other });
            }
        }
    }
}
