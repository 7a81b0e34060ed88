//! Releasing a reserved nonce unused.

use crate::nonce::Nonce;
use crate::reservation::{LockOwner, ReservationStep};

use super::{Answer, Execution, UNRECONCILED, done, refused};

pub(super) fn execute(run: &mut Execution<'_>, nonce: Nonce, by: &LockOwner) -> Answer {
    if let Err(why) = run.check_reservation(nonce, by) {
        return refused(&why);
    }
    if !run.lane.may_end() {
        return refused(UNRECONCILED);
    }
    let step = ReservationStep::Release { nonce, lock_owner: by.clone() };
    run.draft.end_reservation(step, &run.lane.ledger.slots)?;
    done("the nonce is released")
}
