//! Replacing the payload of an intent, in the queue or by another attempt at its nonce.

use crate::id::TxId;
use crate::payload::Payload;
use crate::transition::Transition;

use super::{Answer, Execution, IntentPosition, NOT_OPEN, RESERVED, UNRECONCILED, done, refused};
use crate::lane::decide::next_attempt::RequestedChange;
use crate::lane::queue::Candidate;

pub(super) fn execute(run: &mut Execution<'_>, id: TxId, payload: &Payload) -> Answer {
    let Some(action) = payload.action() else { return refused(RESERVED) };
    if !run.lane.may_end() {
        // Transactions with the earlier payload must still be recognized on chain.
        return refused(UNRECONCILED);
    }
    match run.find(id) {
        IntentPosition::Slot(nonce) => run.request_attempt(nonce, RequestedChange::Payload(Box::new(action.clone()))),
        IntentPosition::Queue(at) => queued(run, at, payload),
        IntentPosition::Unknown => Ok(None),
        IntentPosition::NotOpen => refused(NOT_OPEN),
    }
}

/// Replaces the payload of a queued intent, which keeps its queue position.
fn queued(run: &mut Execution<'_>, at: usize, payload: &Payload) -> Answer {
    let is_reservation = |candidate: &Candidate| candidate.reservation_request().is_some();
    if run.lane.queue.candidates.get(at).is_none_or(is_reservation) {
        return refused(RESERVED);
    }
    let Some(candidate) = run.lane.queue.take(at) else { return refused(NOT_OPEN) };
    run.draft.change_queued(candidate, Transition::WantReplace(payload.clone()))?;
    done("the payload was replaced in the queue; the intent keeps its position")
}
