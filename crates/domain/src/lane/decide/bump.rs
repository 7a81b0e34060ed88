//! Bumping: dearer attempts at the same nonce, and the events about a market price above the cap.

use crate::attempt::MempoolSignal;
use crate::bidding::CapExceeded;
use crate::event::LaneEventKind;
use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::state::StateName;
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::{AttemptStep, BumpReason};

impl Lane {
    /// True if a bump is due instead of a resend.
    pub(in crate::lane) fn may_bump(&self, slot: &OpenSlot, signal: Option<MempoolSignal>, at: Timestamp) -> bool {
        let policy = &self.setup.policy.bump;
        let is_lowest = self.ledger.slots.unmined().first() == Some(&slot.nonce);
        let is_allowed = policy.enabled
            && (is_lowest || !policy.only_lowest)
            && slot.next_ordinal() <= policy.max_attempts
            && !slot.has_own_price();
        let created_at = slot.attempts.last().map(|held| held.attempt.created_at);
        let has_rested = created_at.is_some_and(|created| created.saturating_add(policy.min_interval) <= at);
        let blocks = slot.sends.newest_sent_at_head.and_then(|sent| Some(self.head()?.saturating_sub(sent)));
        let has_waited = has_rested && blocks.is_some_and(|blocks| blocks >= u64::from(policy.min_blocks));
        let is_stuck = slot.tx.as_ref().is_some_and(|tx| tx.state.name() == StateName::Stuck);
        let is_handled = is_stuck || slot.next.bump_reason.is_some() || slot.next.requested.is_some();
        // An attempt that is in no pool is not too cheap.
        let would_help = !slot.sends.refusals.short_of_funds && signal != Some(MempoolSignal::LikelyDropped);
        is_allowed && has_waited && !is_handled && would_help
    }

    /// Requests a new price for the slot, at the pace of resends, unless the caller set the price or the tries are used
    /// up. A filler is priced again without a limit on tries, but only if the market price rose.
    pub(in crate::lane) fn request_bump(&mut self, nonce: Nonce, is_replacement: bool, now: Tick) {
        let (most, pace) = (self.setup.policy.bump.max_attempts, self.pace());
        self.ledger.slots.update(nonce, |slot| {
            let has_tries = slot.next_ordinal() <= most;
            let ours = if slot.wants_filler() {
                has_tries || !is_replacement
            } else {
                slot.repeated_action().is_some() && !slot.has_own_price() && has_tries
            };
            if ours && !slot.is_mined() && slot.next.step == AttemptStep::None {
                slot.next.bump_reason =
                    Some(if is_replacement { BumpReason::ReplacementUnderpriced } else { BumpReason::Underpriced });
                slot.next.step = AttemptStep::Later(now.saturating_add(pace.after_failures(slot.sends.failures)));
            }
        });
    }

    /// The text of a price above the cap.
    pub(in crate::lane) fn above_cap(&self, exceeded: CapExceeded) -> String {
        let (CapExceeded { needed, cap }, unit) = (exceeded, self.setup.rules.words().price);
        format!("the next attempt needs a price of at least {needed} {unit}, above the cap of {cap}")
    }

    /// Notifies consumers when the market price rises above the cap of the policy, and when it falls below it again.
    pub(in crate::lane) fn write_fee_cap_event(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        if self.queue.is_known_empty() && self.ledger.slots.unmined().is_empty() {
            // No intent waits for a price.
            self.fee_cap.exceeded = None;
        }
        match &self.fee_cap.exceeded {
            Some(text) if !self.fee_cap.notified => draft.lane_event(LaneEventKind::FeesAboveCap, NodeText::new(text)),
            None if self.fee_cap.notified => {
                let text = NodeText::new("the market price is below the cap again");
                draft.lane_event(LaneEventKind::FeesBelowCap, text)
            }
            Some(_) | None => Ok(()),
        }
    }
}
