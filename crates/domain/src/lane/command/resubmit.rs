//! Resubmitting: another attempt at a given price or, without bumps, a resend of the same bytes.

use crate::action::Fees;
use crate::id::TxId;
use crate::nonce::Nonce;

use super::{Answer, Execution, IntentPosition, NOT_OPEN, done, refused};
use crate::lane::decide::next_attempt::RequestedChange;

pub(super) fn execute(run: &mut Execution<'_>, id: TxId, named: Option<Fees>) -> Answer {
    match run.find(id) {
        IntentPosition::Slot(nonce) if named.is_none() && !run.lane.setup.policy.bump.enabled => resend(run, nonce),
        IntentPosition::Slot(nonce) => run.request_attempt(nonce, RequestedChange::Price(named)),
        IntentPosition::Queue(_) => refused("the intent is still in the queue and has no nonce yet"),
        IntentPosition::Unknown => Ok(None),
        IntentPosition::NotOpen => refused(NOT_OPEN),
    }
}

/// Sends the same bytes again now (F08).
fn resend(run: &mut Execution<'_>, nonce: Nonce) -> Answer {
    if let Some(why) = run.objection(nonce) {
        return refused(why);
    }
    run.draft.revive(nonce, &run.lane.ledger.slots)?;
    run.lane.claim_now(nonce, false, run.draft);
    done("the same transaction is sent again")
}
