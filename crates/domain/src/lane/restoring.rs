//! Loading of slots: the state of a slot from the ledger, before the chain was read, and its first send.

use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};

use crate::amount::Amount;
use crate::attempt::Attempt;
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::signing::Outline;
use crate::slot::SlotKind;
use crate::state::{Mined, Progress, StateName, TxState};
use crate::time::{Tick, Timestamp};

use super::decide::stuck::DecisionState;
use super::effect::WatchRequest;
use super::open_slot::{OpenSlot, PoolState, SlotAttempt};
use super::reservations::SlotReservation;
use super::slot_work::{MiningState, NextAttempt, Notice, Resends, Sending, Sends, Unmined};

impl SlotAttempt {
    /// Bytes that cannot be decoded get the highest possible cost: nothing more is bound until they are explained.
    pub(super) fn restore(attempt: Attempt, pool: PoolState, outline_of: &impl Fn(&Bytes) -> Option<Outline>) -> Self {
        let (cost, gas_limit) =
            outline_of(&attempt.raw).map_or((Amount::new(U256::MAX), 0), |outline| (outline.cost, outline.gas_limit));
        SlotAttempt { attempt, cost, gas_limit, missing: false, pool, stale: false }
    }
}

impl OpenSlot {
    /// A slot without attempts.
    pub(super) fn empty(nonce: Nonce, kind: SlotKind) -> Self {
        OpenSlot {
            nonce,
            kind,
            above: None,
            reservation: SlotReservation::NotReserved,
            attempts: Vec::new(),
            tx: None,
            mining: MiningState::Unmined(Unmined::default()),
            notice: Notice::default(),
            sends: Sends::default(),
            next: NextAttempt::default(),
            resends: Resends::default(),
        }
    }

    pub(super) fn restore_intent(
        &mut self,
        tx: IntentRecord,
        now: Tick,
        outline_of: &impl Fn(&Bytes) -> Option<Outline>,
    ) {
        // Only the bytes of an attempt tell whether it carries the replaced payload.
        if let Some(Payload::Evm(wanted)) = &tx.replacement {
            for held in self.attempts.iter_mut().filter(|held| held.attempt.kind.carries_payload()) {
                held.stale = outline_of(&held.attempt.raw).is_some_and(|outline| !outline.call.has_same_effect(wanted));
            }
        }
        if let TxState::Stuck(..) = tx.state {
            self.resends.decision = DecisionState::AskAt(now);
        }
        if let Some(bound) = tx.state.bound() {
            if let Progress::Mined(Mined { inclusion, .. }) = &bound.progress {
                self.mining = MiningState::Unverified(inclusion.block);
            }
            self.sends.refusals.short_of_funds = bound.progress == Progress::AwaitingFunds;
        }
        self.sends.acknowledged = tx.state.name() != StateName::Allocated;
        self.tx = Some(Box::new(tx));
    }

    /// Sets the first send after loading. An attempt that was never sent, or not accepted at its last send, is sent at
    /// once. An accepted attempt waits for its resend. Without resends it is sent once, because it may have left all
    /// pools meanwhile.
    pub(super) fn restore_sending(&mut self, resubmit: Option<Duration>, database_now: Timestamp, now: Tick) {
        let over = self.is_ended();
        let Some(wanted) = self.wanted() else {
            self.sends.next = Sending::Idle;
            return;
        };
        let accepted =
            self.sends.acknowledged && wanted.last_outcome.as_ref().is_some_and(|(outcome, _)| outcome.is_accepted());
        let last_sent = wanted.last_sent_at;
        if let MiningState::Unmined(unmined) = &mut self.mining {
            unmined.inherited = accepted;
        }
        self.sends.next = match (accepted, resubmit, self.sends.next) {
            _ if over || matches!(self.mining, MiningState::Unverified(_)) => Sending::Idle,
            (false, _, _) | (true, None, _) => Sending::Send { at: now },
            (true, Some(_), Sending::Claim { at, .. }) => Sending::claim(at),
            (true, Some(interval), _) => {
                let due = last_sent.unwrap_or(database_now).saturating_add(interval);
                let wait = due.as_micros().saturating_sub(database_now.as_micros());
                let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0));
                Sending::claim(now.saturating_add(wait))
            }
        };
    }

    /// Watch requests for all hashes of the slot, after the lane was loaded.
    pub(super) fn watched(&self) -> Vec<WatchRequest> {
        let known = if let MiningState::Unverified(block) = self.mining { Some(block) } else { None };
        let mined = self.tx.as_ref().and_then(|tx| match tx.state.bound().map(|bound| &bound.progress) {
            Some(Progress::Mined(mined)) => Some(mined.inclusion.hash),
            _ => None,
        });
        let watch = |hash| {
            let known = known.filter(|_| mined == Some(hash));
            WatchRequest { hash, known_block: known, look_up: known.is_none() }
        };
        if self.is_ended() { Vec::new() } else { self.hashes().map(watch).collect() }
    }

    pub(super) fn hashes(&self) -> impl Iterator<Item = B256> {
        self.attempts.iter().map(|held| held.attempt.hash)
    }
}
