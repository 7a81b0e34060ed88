//! The bound nonces of a lane, for the views of a submitter.

use gapless_domain::{
    Attempt, IntentRecord, Nonce, Progress, Slot, SlotKind, SubStateName, SubmitterId, Timestamp, TxState,
};
use gapless_store::{LaneStatus, SlotStatus};
use gapless_wire::{LowestUnminedView, SlotView, moment_to_text};

use crate::limits::MAX_SLOTS_SHOWN;
use crate::problem::Refusal;
use crate::shared::Shared;

/// One page of slots, and the first nonce of the next page.
pub(super) async fn page(
    shared: &Shared,
    lane: &SubmitterId,
    from: Option<Nonce>,
) -> Result<(Vec<SlotView>, Option<Nonce>), Refusal> {
    // One slot more than is shown tells whether there is a next page.
    let mut found = read(shared, lane, from, MAX_SLOTS_SHOWN + 1).await?;
    let more = found.split_off(found.len().min(MAX_SLOTS_SHOWN as usize));
    let outline = |attempt: &Attempt| shared.app.chains.outline(lane.chain(), &attempt.raw);
    let view = |status: &SlotStatus| {
        let reservation = status.reservation.as_ref();
        SlotView::new(&status.slot, status.tx.as_ref(), reservation, &status.attempts, outline)
    };
    Ok((found.iter().map(view).collect(), more.first().map(|status| status.slot.nonce)))
}

/// The slot of an intent, while it is not closed.
pub(super) async fn of(shared: &Shared, tx: &IntentRecord) -> Result<Option<Slot>, Refusal> {
    let Some(nonce) = tx.state.nonce() else { return Ok(None) };
    let found = read(shared, tx.intent.submitter(), Some(nonce), 1).await?;
    Ok(found.into_iter().map(|status| status.slot).find(|slot| slot.nonce == nonce))
}

/// The lowest slot without a mined attempt, for which everything behind it waits.
pub(super) async fn lowest_unmined(
    shared: &Shared,
    lane: &SubmitterId,
    status: &LaneStatus,
    consumed: Nonce,
) -> Result<Option<SlotStatus>, Refusal> {
    // A lane without bound nonces, or with closed slots only, needs no read.
    if status.cursor.as_ref().is_none_or(|cursor| cursor.open_nonce == cursor.next_nonce) {
        return Ok(None);
    }
    let lowest = read(shared, lane, None, MAX_SLOTS_SHOWN).await?;
    let all = lowest.len() < MAX_SLOTS_SHOWN as usize;
    let unmined = lowest.into_iter().find(|slot| !is_mined(slot, consumed));
    if unmined.is_some() || all {
        return Ok(unmined);
    }
    // Many slots are mined and wait to be final; unmined slots come behind them.
    let next = read(shared, lane, Some(consumed), 1).await?;
    Ok(next.into_iter().find(|slot| !is_mined(slot, consumed)))
}

pub(super) fn awaits_funds(slot: &SlotStatus) -> bool {
    slot.tx.as_ref().and_then(|tx| tx.state.sub_state()) == Some(SubStateName::AwaitingFunds)
}

/// Endpoints name nonces in their texts, so texts are shown only to callers who asked for nonces.
pub(super) fn lowest_view(status: &SlotStatus, now: Timestamp, with_nonce: bool) -> LowestUnminedView {
    let SlotStatus { slot, tx, attempts, .. } = status;
    let last = attempts.iter().filter(|attempt| attempt.last_outcome.is_some()).max_by_key(|a| a.last_sent_at);
    let outcome = last.and_then(|attempt: &Attempt| attempt.last_outcome.as_ref());
    let since = now.as_micros().saturating_sub(slot.bound_at.as_micros()) / 1000;
    LowestUnminedView {
        kind: slot.kind.into(),
        bound_at: moment_to_text(slot.bound_at),
        since_ms: u64::try_from(since).unwrap_or_default(),
        tx_id: tx.as_ref().map(|tx| tx.id.to_string()),
        state: tx.as_ref().map(|tx| tx.state.name().into()),
        sub_state: tx.as_ref().and_then(|tx| tx.state.sub_state()).map(Into::into),
        attempts: u32::try_from(attempts.len()).unwrap_or(u32::MAX),
        sends: attempts.iter().map(|attempt| attempt.sends).fold(0, u32::saturating_add),
        last_sent_at: attempts.iter().filter_map(|attempt| attempt.last_sent_at).max().map(moment_to_text),
        last_outcome: outcome.map(|(outcome, _)| outcome.as_str().to_owned()),
        last_outcome_text: outcome.filter(|_| with_nonce).map(|(_, text)| text.as_str().to_owned()),
        nonce: with_nonce.then(|| slot.nonce.get()),
    }
}

/// True if an attempt of the slot is in a block. Without an intent the chain's count decides; this is for display only.
fn is_mined(status: &SlotStatus, consumed: Nonce) -> bool {
    let counted = status.slot.nonce < consumed;
    match (&status.slot.kind, &status.tx) {
        (SlotKind::Intent(_), Some(tx)) => is_on_chain(tx),
        // A released nonce has an ended intent, and is still to be used.
        (SlotKind::Reservation, Some(tx)) if !tx.state.name().is_terminal() => is_on_chain(tx),
        (SlotKind::Intent(_) | SlotKind::Foreign, _) => true,
        (SlotKind::Reservation | SlotKind::Fill, _) => counted,
    }
}

fn is_on_chain(tx: &IntentRecord) -> bool {
    match &tx.state {
        TxState::Allocated(bound) | TxState::Tracking(bound) | TxState::Stuck(bound, _) => {
            matches!(bound.progress, Progress::Mined(_))
        }
        TxState::Queued | TxState::Confirmed(_) | TxState::FailedFinal(_) | TxState::Canceled(_) => true,
    }
}

async fn read(
    shared: &Shared,
    lane: &SubmitterId,
    from: Option<Nonce>,
    limit: u32,
) -> Result<Vec<SlotStatus>, Refusal> {
    shared.app.store.open_slots(lane, from, limit).await.map_err(|error| shared.store_failed(&error))
}
