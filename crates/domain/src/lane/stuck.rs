//! What is stuck: somebody outside decides, and only what was decided is done.

use crate::audit::NewAudit;
use crate::cursor::Cursor;
use crate::event::LaneEventKind;
use crate::intent_record::IntentRecord;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::state::{CancelReason, Goal, TxState};
use crate::stuck::{Decision, StuckAttempt, StuckCase};
use crate::text::{CommandReport, NodeText};
use crate::time::Tick;

use super::Lane;
use super::effect::{Effect, Step};
use super::open_slot::{OpenSlot, Seen};
use super::writing::Writing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deciding {
    Nothing,
    /// Somebody is to be asked then.
    Ask(Tick),
    Asked,
    Decided(Decision),
}

impl Lane {
    pub(super) fn plan_decisions(&mut self, now: Tick, step: &mut Step) {
        if self.draining {
            return;
        }
        for nonce in self.slots.deciding() {
            let Some(slot) = self.slots.get(nonce) else { continue };
            match slot.decision {
                Deciding::Ask(at) if at > now => step.wake(at),
                Deciding::Ask(_) => {
                    let case = slot.tx.as_ref().and_then(|tx| self.case(slot, tx));
                    let next = if case.is_some() { Deciding::Asked } else { Deciding::Nothing };
                    step.effects.extend(case.map(|case| Effect::Decide(Box::new(case))));
                    self.slots.update(nonce, |slot| slot.decision = next);
                }
                Deciding::Nothing | Deciding::Asked | Deciding::Decided(_) => {}
            }
        }
    }

    fn case(&self, slot: &OpenSlot, tx: &IntentRecord) -> Option<StuckCase> {
        let TxState::Stuck(_, reason) = tx.state else { return None };
        let attempt_of = |held: &super::HeldAttempt| {
            let attempt = &held.attempt;
            StuckAttempt { kind: attempt.kind, hash: attempt.hash, fees: attempt.fees }
        };
        Some(StuckCase {
            submitter: self.lease.submitter().clone(),
            tx_id: tx.id,
            request_id: tx.intent.request_id().clone(),
            nonce: slot.nonce,
            reason,
            tries: slot.tries,
            signal: slot.signal,
            since: slot.attempts.first().map(|held| held.attempt.created_at),
            attempts: slot.attempts.iter().map(attempt_of).collect(),
        })
    }

    pub(super) fn decided(&mut self, nonce: Nonce, decision: Decision) {
        self.slots.update(nonce, |slot| {
            if slot.decision == Deciding::Asked {
                slot.decision = Deciding::Decided(decision);
            }
        });
    }

    /// What was decided is written before it is done.
    pub(super) fn write_decisions(
        &mut self,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let again = Deciding::Ask(now.saturating_add(self.setup.policy.stuck.ask_interval));
        for nonce in self.slots.deciding() {
            let Some(slot) = self.slots.get(nonce) else { continue };
            let Deciding::Decided(decision) = slot.decision else { continue };
            let has_own_price = slot.has_own_price();
            let is_stuck = |tx: &IntentRecord| matches!(tx.state, TxState::Stuck(..));
            if slot.seen != Seen::Nowhere || !self.intent_at(nonce, writing).is_some_and(is_stuck) {
                // The chain, or somebody else, was quicker.
                self.slots.update(nonce, |slot| slot.decision = Deciding::Nothing);
                continue;
            }
            if decision == Decision::Wait {
                self.slots.update(nonce, |slot| slot.decision = again);
                continue;
            }
            if writing.recovered.concerns(nonce) {
                continue;
            }
            let text = format!("nonce {nonce} is stuck: {}", decision.as_str());
            let (actor, detail) = (NodeText::new("stuck policy"), CommandReport::new(&text));
            commit.audit(NewAudit { actor, action: "decide", detail });
            let next = match decision {
                Decision::Wait => again,
                Decision::Escalate => {
                    commit.lane_event(cursor, LaneEventKind::Escalated, NodeText::new(&text))?;
                    again
                }
                // Its cancel is what is stuck.
                Decision::Cancel if self.is_canceled(nonce, writing) => {
                    self.revive(nonce, commit, writing)?;
                    self.claim_by_hand(nonce, false, commit, writing);
                    Deciding::Nothing
                }
                Decision::Resend | Decision::Bump => {
                    self.revive(nonce, commit, writing)?;
                    // A price that is the caller's own, or a borrower's, is not ours to raise.
                    let raises = decision == Decision::Bump && !has_own_price;
                    self.claim_by_hand(nonce, raises, commit, writing);
                    Deciding::Nothing
                }
                Decision::Cancel => {
                    self.want_cancel(nonce, CancelReason::User, commit, writing)?;
                    Deciding::Nothing
                }
            };
            writing.decided.push((nonce, next));
        }
        Ok(())
    }
}

impl Lane {
    fn is_canceled(&self, nonce: Nonce, writing: &Writing) -> bool {
        self.bound_at(nonce, writing).is_some_and(|(_, bound)| matches!(bound.goal, Goal::Cancel(_)))
    }
}

impl OpenSlot {
    /// Its intent is as the ledger has it now: does somebody have to decide about it?
    pub(super) fn follow_state(&mut self, now: Tick) {
        let is_stuck = self.tx.as_ref().is_some_and(|tx| matches!(tx.state, TxState::Stuck(..)));
        self.decision = match self.decision {
            Deciding::Nothing if is_stuck => Deciding::Ask(now),
            deciding if is_stuck => deciding,
            _ => Deciding::Nothing,
        };
    }
}
