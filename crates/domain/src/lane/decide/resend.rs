//! Resending: attempts that wait too long. The claim is committed before anything is sent.

use crate::attempt::MempoolSignal;
use crate::event::LaneEventKind;
use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::slot::Claim;
use crate::state::{StateName, StuckReason};
use crate::text::NodeText;
use crate::transition::Transition;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::effect::{DiagnoseRequest, Effect};
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::{Diagnosis, Sending};

impl Lane {
    /// Claims the slots that are due. If the policy asks for it, the mempools are diagnosed first.
    pub(in crate::lane) fn write_claims(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let Some(pause) = self.setup.resubmit_interval().filter(|_| !self.is_draining()) else { return Ok(()) };
        let mut asked = Vec::new();
        let explained = draft.explained();
        for nonce in self.ledger.slots.to_claim(draft.now) {
            if explained.contains(&nonce) {
                continue;
            }
            let Some(slot) = self.ledger.slots.get(nonce) else { continue };
            let Sending::Claim { diagnosis, .. } = slot.sends.next else { continue };
            let signal = match diagnosis {
                Diagnosis::Known(signal) => Some(signal),
                Diagnosis::Requested => continue,
                Diagnosis::None if self.setup.policy.mempool.diagnose => {
                    asked.push(DiagnoseRequest { nonce, hashes: slot.hashes().collect() });
                    continue;
                }
                Diagnosis::None => None,
            };
            if let Some(signal) = signal.filter(|signal| slot.resends.signal != Some(*signal)) {
                let text = NodeText::new(&format!("nonce {nonce}: {}", signal.as_str()));
                draft.lane_event(LaneEventKind::Diagnosed, text)?;
            }
            let is_try = self.is_try(slot);
            let is_bump = self.may_bump(slot, signal, draft.at);
            let tries = slot.resends.tries.saturating_add(u16::from(is_try));
            draft.claim(Claim { nonce, pause, tries, signal }, is_bump);
            if is_try && tries >= self.setup.policy.stuck.after_tries {
                self.give_up(nonce, draft)?;
            }
            self.ledger.slots.update(nonce, |slot| slot.sends.next = Sending::Claiming { signal });
        }
        for request in &asked {
            self.note_diagnosis(request.nonce, Diagnosis::Requested);
        }
        if !asked.is_empty() {
            draft.step.effects.push(Effect::Diagnose(asked));
        }
        self.ledger.slots.next_after(draft.now).into_iter().for_each(|at| draft.step.wake(at));
        Ok(())
    }

    /// Claims a resend at once, outside of the schedule. The tries are counted from zero again.
    pub(in crate::lane) fn claim_now(&mut self, nonce: Nonce, is_bump: bool, draft: &mut Draft) {
        let pause = self.setup.policy.resubmit.interval;
        draft.claim(Claim { nonce, pause, tries: 0, signal: None }, is_bump);
        self.ledger.slots.update(nonce, |slot| {
            if slot.sends.next != Sending::InFlight {
                slot.sends.next = Sending::Claiming { signal: None };
            }
        });
    }

    /// True if the resend counts as a try. Only the lowest nonce counts, because the others wait for it. A chain
    /// without new blocks and an account without funds are not counted either.
    fn is_try(&self, slot: &OpenSlot) -> bool {
        let is_lowest = self.ledger.slots.unmined().first() == Some(&slot.nonce);
        is_lowest
            && !slot.sends.refusals.short_of_funds
            && self.blocks_since_sent(slot).is_some_and(|blocks| blocks > 0)
    }

    fn blocks_since_sent(&self, slot: &OpenSlot) -> Option<u64> {
        Some(self.head()?.saturating_sub(slot.sends.sent_at_head?))
    }

    /// Newest block at the last read of the account.
    pub(in crate::lane) fn head(&self) -> Option<u64> {
        self.funds.account.map(|account| account.head)
    }

    pub(in crate::lane) fn diagnosed(&mut self, signals: Vec<(Nonce, MempoolSignal)>) {
        for (nonce, signal) in signals {
            self.note_diagnosis(nonce, Diagnosis::Known(signal));
        }
    }

    fn note_diagnosis(&mut self, nonce: Nonce, diagnosis: Diagnosis) {
        self.ledger.slots.update(nonce, |slot| slot.sends.next = slot.sends.next.diagnosed(diagnosis));
    }

    /// Marks the intent as stuck after the last try.
    fn give_up(&self, nonce: Nonce, draft: &mut Draft) -> Result<(), CommitError> {
        let state = draft.intent(nonce, &self.ledger.slots).map(|tx| tx.state.name());
        if let Some(StateName::Allocated | StateName::Tracking) = state {
            draft.change(nonce, Transition::GiveUp(StuckReason::OutOfTries), &self.ledger.slots)?;
        }
        Ok(())
    }
}
