//! Submitting a transaction that a caller has signed for its reserved nonce.

use crate::amount::Amount;
use crate::attempt::NewAttempt;
use crate::reservation::LockOwner;

use super::{Answer, Execution, done, refused};

pub(super) fn execute(run: &mut Execution<'_>, by: &LockOwner, attempt: NewAttempt, cost: Amount) -> Answer {
    let (nonce, hash) = (attempt.nonce, attempt.hash);
    let is_held = run.lane.ledger.slots.get(nonce).and_then(|slot| slot.kind_of(hash)).is_some();
    if is_held || run.draft.submitted_at(nonce).is_some_and(|other| other.hash == hash) {
        return done("the transaction was already submitted");
    }
    if let Err(why) = run.check_reservation(nonce, by) {
        return refused(&why);
    }
    run.draft.submitted(by, attempt, cost);
    // The transaction is signed, and its owner can send it at any time, so the funds are not checked.
    run.lane.funds.spend_unchecked(cost);
    done("the transaction was accepted and is sent until the chain includes it")
}
