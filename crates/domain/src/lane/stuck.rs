//! Stuck intents: a policy outside of the lane decides, and the lane carries the decision out.

use crate::audit::NewAudit;
use crate::cursor::Cursor;
use crate::event::LaneEventKind;
use crate::intent_record::IntentRecord;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::state::{CancelReason, Goal, TxState};
use crate::stuck::{Decision, StuckAttempt, StuckCase};
use crate::text::{CommandReport, NodeText};
use crate::time::Tick;

use super::Lane;
use super::effect::{Effect, Step};
use super::open_slot::{MiningState, OpenSlot};
use super::pending_commit::PendingCommit;

/// Progress of a decision about a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionState {
    None,
    /// A decision is to be requested at this time.
    AskAt(Tick),
    Requested,
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
                DecisionState::AskAt(at) if at > now => step.wake(at),
                DecisionState::AskAt(_) => {
                    let case = slot.tx.as_ref().and_then(|tx| self.case(slot, tx));
                    let next = if case.is_some() { DecisionState::Requested } else { DecisionState::None };
                    step.effects.extend(case.map(|case| Effect::Decide(Box::new(case))));
                    self.slots.update(nonce, |slot| slot.decision = next);
                }
                DecisionState::None | DecisionState::Requested | DecisionState::Decided(_) => {}
            }
        }
    }

    fn case(&self, slot: &OpenSlot, tx: &IntentRecord) -> Option<StuckCase> {
        let TxState::Stuck(_, reason) = tx.state else { return None };
        let attempt_of = |held: &super::SlotAttempt| {
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
            if slot.decision == DecisionState::Requested {
                slot.decision = DecisionState::Decided(decision);
            }
        });
    }

    /// Writes the decisions before they are carried out.
    pub(super) fn write_decisions(
        &mut self,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let again = DecisionState::AskAt(now.saturating_add(self.setup.policy.stuck.ask_interval));
        for nonce in self.slots.deciding() {
            let Some(slot) = self.slots.get(nonce) else { continue };
            let DecisionState::Decided(decision) = slot.decision else { continue };
            let has_own_price = slot.has_own_price();
            let is_stuck = |tx: &IntentRecord| matches!(tx.state, TxState::Stuck(..));
            if slot.mining != MiningState::Unmined || !self.intent_at(nonce, pending).is_some_and(is_stuck) {
                // The chain or a command was quicker.
                self.slots.update(nonce, |slot| slot.decision = DecisionState::None);
                continue;
            }
            if decision == Decision::Wait {
                self.slots.update(nonce, |slot| slot.decision = again);
                continue;
            }
            if pending.reconciled.touches(nonce) {
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
                // The cancel itself is stuck.
                Decision::Cancel if self.is_canceled(nonce, pending) => {
                    self.revive(nonce, commit, pending)?;
                    self.claim_now(nonce, false, commit, pending);
                    DecisionState::None
                }
                Decision::Resend | Decision::Bump => {
                    self.revive(nonce, commit, pending)?;
                    // A price that the caller set is not bumped.
                    let is_bump = decision == Decision::Bump && !has_own_price;
                    self.claim_now(nonce, is_bump, commit, pending);
                    DecisionState::None
                }
                Decision::Cancel => {
                    self.want_cancel(nonce, CancelReason::User, commit, pending)?;
                    DecisionState::None
                }
            };
            pending.decided.push((nonce, next));
        }
        Ok(())
    }
}

impl Lane {
    fn is_canceled(&self, nonce: Nonce, pending: &PendingCommit) -> bool {
        self.bound_at(nonce, pending).is_some_and(|(_, bound)| matches!(bound.goal, Goal::Cancel(_)))
    }
}

impl OpenSlot {
    /// Requests a decision if the intent is stuck in the ledger.
    pub(super) fn follow_state(&mut self, now: Tick) {
        let is_stuck = self.tx.as_ref().is_some_and(|tx| matches!(tx.state, TxState::Stuck(..)));
        self.decision = match self.decision {
            DecisionState::None if is_stuck => DecisionState::AskAt(now),
            deciding if is_stuck => deciding,
            _ => DecisionState::None,
        };
    }
}
