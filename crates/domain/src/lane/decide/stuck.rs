//! Stuck intents: a policy outside of the lane decides, and the lane carries the decision out.

use crate::audit::NewAudit;
use crate::event::LaneEventKind;
use crate::intent_record::IntentRecord;
use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::state::{CancelReason, TxState};
use crate::stuck::{Decision, StuckAttempt, StuckCase};
use crate::text::{CommandReport, NodeText};
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::effect::{Effect, Step};
use crate::lane::open_slot::{OpenSlot, SlotAttempt};

/// Progress of a decision about a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::lane) enum DecisionState {
    #[default]
    None,
    /// A decision is to be requested at this time.
    AskAt(Tick),
    Requested,
    Decided(Decision),
}

impl Lane {
    pub(in crate::lane) fn plan_decisions(&mut self, now: Tick, step: &mut Step) {
        if self.is_draining() {
            return;
        }
        for nonce in self.ledger.slots.deciding() {
            let Some(slot) = self.ledger.slots.get(nonce) else { continue };
            match slot.resends.decision {
                DecisionState::AskAt(at) if at > now => step.wake(at),
                DecisionState::AskAt(_) => {
                    let case = slot.tx.as_ref().and_then(|tx| self.case(slot, tx));
                    let next = if case.is_some() { DecisionState::Requested } else { DecisionState::None };
                    step.effects.extend(case.map(|case| Effect::Decide(Box::new(case))));
                    self.ledger.slots.update(nonce, |slot| slot.resends.decision = next);
                }
                DecisionState::None | DecisionState::Requested | DecisionState::Decided(_) => {}
            }
        }
    }

    fn case(&self, slot: &OpenSlot, tx: &IntentRecord) -> Option<StuckCase> {
        let TxState::Stuck(_, reason) = tx.state else { return None };
        let attempt_of = |held: &SlotAttempt| {
            let attempt = &held.attempt;
            StuckAttempt { kind: attempt.kind, hash: attempt.hash, fees: attempt.fees }
        };
        Some(StuckCase {
            submitter: self.lease.submitter().clone(),
            tx_id: tx.id,
            request_id: tx.intent.request_id().clone(),
            nonce: slot.nonce,
            reason,
            tries: slot.resends.tries,
            signal: slot.resends.signal,
            since: slot.attempts.first().map(|held| held.attempt.created_at),
            attempts: slot.attempts.iter().map(attempt_of).collect(),
        })
    }

    pub(in crate::lane) fn decided(&mut self, nonce: Nonce, decision: Decision) {
        self.ledger.slots.update(nonce, |slot| {
            if slot.resends.decision == DecisionState::Requested {
                slot.resends.decision = DecisionState::Decided(decision);
            }
        });
    }

    /// Writes the decisions before they are carried out.
    pub(in crate::lane) fn write_decisions(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let again = DecisionState::AskAt(draft.now.saturating_add(self.setup.policy.stuck.ask_interval));
        for nonce in self.ledger.slots.deciding() {
            let Some(slot) = self.ledger.slots.get(nonce) else { continue };
            let DecisionState::Decided(decision) = slot.resends.decision else { continue };
            let is_stuck = |tx: &IntentRecord| matches!(tx.state, TxState::Stuck(..));
            if !draft.intent(nonce, &self.ledger.slots).is_some_and(is_stuck) {
                // A command was quicker. The fold ends the decision when the commit is written.
                continue;
            }
            if decision == Decision::Wait {
                self.ledger.slots.update(nonce, |slot| slot.resends.decision = again);
            } else if !draft.explains(nonce) {
                let next = self.write_decision(nonce, decision, again, draft)?;
                draft.decided.push((nonce, next));
            }
        }
        Ok(())
    }

    fn write_decision(
        &mut self,
        nonce: Nonce,
        decision: Decision,
        again: DecisionState,
        draft: &mut Draft,
    ) -> Result<DecisionState, CommitError> {
        let text = format!("nonce {nonce} is stuck: {}", decision.as_str());
        let (actor, detail) = (NodeText::new("stuck policy"), CommandReport::new(&text));
        draft.commit.audit(NewAudit { actor, action: "decide", detail });
        match decision {
            Decision::Wait => return Ok(again),
            Decision::Escalate => {
                draft.lane_event(LaneEventKind::Escalated, NodeText::new(&text))?;
                return Ok(again);
            }
            // The cancel itself is stuck.
            Decision::Cancel if draft.cancels(nonce, &self.ledger.slots) => {
                draft.revive(nonce, &self.ledger.slots)?;
                self.claim_now(nonce, false, draft);
            }
            Decision::Cancel => draft.want_cancel(nonce, CancelReason::User, &self.ledger.slots)?,
            Decision::Resend | Decision::Bump => {
                // A price that the caller set is not bumped.
                let has_own_price = self.ledger.slots.get(nonce).is_some_and(OpenSlot::has_own_price);
                draft.revive(nonce, &self.ledger.slots)?;
                self.claim_now(nonce, decision == Decision::Bump && !has_own_price, draft);
            }
        }
        Ok(DecisionState::None)
    }
}

impl OpenSlot {
    /// Requests a decision if the intent is stuck in the ledger.
    pub(in crate::lane) fn follow_state(&mut self, now: Tick) {
        let is_stuck = self.tx.as_ref().is_some_and(|tx| matches!(tx.state, TxState::Stuck(..)));
        self.resends.decision = match self.resends.decision {
            DecisionState::None if is_stuck => DecisionState::AskAt(now),
            deciding if is_stuck => deciding,
            _ => DecisionState::None,
        };
    }
}
