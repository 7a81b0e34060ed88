//! Canceling every bound intent that is not mined. Reserved nonces are left to their holders.

use crate::state::{CancelReason, Goal};

use super::{Answer, Execution, done};

pub(super) fn execute(run: &mut Execution<'_>) -> Answer {
    let slots = &run.lane.ledger.slots;
    let (mut canceled, mut reserved) = (0_usize, 0_usize);
    for nonce in slots.unmined().iter().copied() {
        let Some((slot, bound)) = run.draft.bound(nonce, slots) else { continue };
        if slot.is_reserved() {
            reserved += 1;
        } else if slot.is_unmined() && !matches!(bound.goal, Goal::Cancel(_)) {
            run.draft.want_cancel(nonce, CancelReason::User, slots)?;
            canceled += 1;
        }
    }
    let left = if reserved == 0 { String::new() } else { format!("; {reserved} reserved nonces are left alone") };
    done(&format!("{canceled} bound intents are being canceled; the chain decides what counts{left}"))
}
