//! Sending: durable attempts go to the nodes, and the answers come back.

use crate::attempt::{SendOutcome, SendReport};
use crate::nonce::Nonce;
use crate::signing::SignedTx;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::effect::{Effect, Outgoing, Step, WatchRequest};
use crate::lane::fact::SentTx;
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::Sending;

impl Lane {
    pub(in crate::lane) fn plan_broadcast(&mut self, now: Tick, step: &mut Step) {
        if self.outbox.broadcasts >= self.setup.limits.broadcasts || self.is_draining() {
            return;
        }
        let mut outgoing = Vec::new();
        let database_now = self.database_now(now);
        for nonce in self.ledger.slots.to_send(now) {
            let is_sending = self.outbox.sending.contains(&nonce);
            let is_sendable = |slot: &&OpenSlot| !is_sending && slot.is_due(now) && slot.is_in_time(database_now);
            let Some(slot) = self.ledger.slots.get(nonce).filter(is_sendable) else { continue };
            let Some(wanted) = slot.wanted().filter(|_| !self.commits.unreplicated) else { continue };
            let tx = SignedTx { hash: wanted.hash, raw: wanted.raw.clone() };
            self.ledger.slots.update(nonce, |slot| slot.mark_sending(tx.hash));
            outgoing.push(Outgoing { nonce, tx });
            if outgoing.len() >= self.setup.limits.batch {
                break;
            }
        }
        self.ledger.slots.next_after(now).into_iter().for_each(|at| step.wake(at));
        if !outgoing.is_empty() {
            self.outbox.broadcasts += 1;
            self.outbox.sending.extend(outgoing.iter().map(|out| out.nonce));
            step.effects.push(Effect::Broadcast(outgoing));
        }
    }

    pub(in crate::lane) fn has_something_to_send(&self, now: Tick) -> bool {
        let database_now = self.database_now(now);
        let is_sendable = |slot: &OpenSlot| slot.is_due(now) && slot.is_in_time(database_now);
        let due = |nonce: &Nonce| self.ledger.slots.get(*nonce).is_some_and(is_sendable);
        !self.is_draining() && self.ledger.slots.to_send(now).iter().any(due)
    }

    pub(in crate::lane) fn sent(&mut self, sent: SentTx, now: Tick) {
        self.outbox.sending.remove(&sent.nonce);
        let (pace, head) = (self.pace(), self.head());
        let updated = self.ledger.slots.update(sent.nonce, |slot| {
            slot.sends.sent_at_head = head.or(slot.sends.sent_at_head);
            let is_newest = slot.attempts.last().is_some_and(|held| held.attempt.hash == sent.hash);
            slot.sends.newest_sent_at_head = slot.sends.newest_sent_at_head.or(head.filter(|_| is_newest));
            slot.sent(sent.hash, sent.outcome, now, &pace);
        });
        if updated.is_none() {
            return;
        }
        self.react_to_answer(&sent, now);
        let SentTx { nonce, hash, outcome, text, answers } = sent;
        self.outbox.reports.push(SendReport { nonce, hash, outcome, text, answers });
    }

    fn react_to_answer(&mut self, sent: &SentTx, now: Tick) {
        let Some(slot) = self.ledger.slots.get(sent.nonce) else { return };
        let was_filler = slot.kind_of(sent.hash).is_some_and(|kind| !kind.carries_payload());
        match sent.outcome {
            // The text does not prove which transaction consumed the nonce: look for our hashes (S06).
            SendOutcome::NonceTooLow => {
                let watched =
                    slot.hashes().map(|hash| WatchRequest { hash, known_block: None, look_up: true }).collect();
                self.outbox.effects.push(Effect::Watch(watched));
                self.funds.read_soon();
            }
            SendOutcome::NonceTooHigh => self.resend_below(sent.nonce, now),
            SendOutcome::InsufficientFunds => self.funds.read_soon(),
            SendOutcome::Underpriced => self.request_bump(sent.nonce, false, now),
            // The pool holds another attempt of ours, or a transaction of another owner of the key.
            SendOutcome::ReplacementUnderpriced if was_filler || slot.attempts.len() > 1 => {
                self.request_bump(sent.nonce, true, now);
            }
            // A late answer decides nothing.
            SendOutcome::Rejected if was_filler && slot.is_unmined() && !slot.is_ended() => {
                self.cannot_fill(sent);
            }
            _ => {}
        }
    }

    /// Sends the lower nonces again, because the node may have lost them. Nonces that the node does not accept keep
    /// their own pace.
    fn resend_below(&mut self, nonce: Nonce, now: Tick) {
        let lower: Vec<Nonce> = self.ledger.slots.unmined().range(..nonce).copied().collect();
        for nonce in lower {
            self.ledger.slots.update(nonce, |slot| {
                let waits = slot.sends.next.is_waiting() && slot.sends.failures == 0;
                if waits && slot.is_unmined() {
                    slot.sends.next = Sending::Send { at: now };
                }
            });
        }
    }
}
