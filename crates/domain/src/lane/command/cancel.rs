//! Canceling one intent, in the queue or at its nonce. A bound intent keeps its nonce, and its goal becomes a cancel.
//! The filler is then made as the slot's next attempt, and the chain decides which attempt counts (P9).

use crate::id::TxId;
use crate::nonce::Nonce;
use crate::state::{CancelReason, Goal};
use crate::transition::Transition;

use super::{Answer, Execution, IntentPosition, NOT_OPEN, UNRECONCILED, done, refused};

pub(super) fn execute(run: &mut Execution<'_>, id: TxId) -> Answer {
    match run.find(id) {
        IntentPosition::Slot(nonce) => bound(run, nonce),
        IntentPosition::Queue(at) => queued(run, at),
        IntentPosition::Unknown => Ok(None),
        IntentPosition::NotOpen => refused(NOT_OPEN),
    }
}

fn bound(run: &mut Execution<'_>, nonce: Nonce) -> Answer {
    let slots = &run.lane.ledger.slots;
    let Some((slot, bound)) = run.draft.bound(nonce, slots) else { return refused(NOT_OPEN) };
    if slot.is_reserved() {
        return refused("the nonce is reserved and no transaction was submitted for it; release it instead");
    }
    if !slot.is_unmined() {
        return refused("the transaction is already mined");
    }
    if matches!(bound.goal, Goal::Cancel(_)) {
        return done("the intent is already being canceled");
    }
    run.draft.want_cancel(nonce, CancelReason::User, slots)?;
    done("a cancel is sent at the same nonce; the chain decides which transaction counts")
}

fn queued(run: &mut Execution<'_>, at: usize) -> Answer {
    if !run.lane.may_end() {
        return refused(UNRECONCILED);
    }
    let Some(candidate) = run.lane.queue.take(at) else { return refused(NOT_OPEN) };
    run.draft.change_queued(candidate, Transition::CancelInQueue(CancelReason::User))?;
    done("the intent was canceled in the queue")
}
