//! A slot as the ledger has it: what is known of it before anybody has looked at the chain, and what is to be done first.

use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};

use crate::amount::Amount;
use crate::attempt::Attempt;
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::plan::Outline;
use crate::slot::SlotKind;
use crate::state::{Mined, Progress, StateName, TxState};
use crate::time::{Tick, Timestamp};

use super::effect::Watched;
use super::lending::Lending;
use super::open_slot::{HeldAttempt, OpenSlot, Remedy, Seen, Sending};
use super::raising::Diagnosis;
use super::stuck::Deciding;

impl HeldAttempt {
    /// Bytes of ours that cannot be read cost the most: nothing more is bound until they are explained.
    pub(super) fn restore(attempt: Attempt, pooled: bool, outline_of: &impl Fn(&Bytes) -> Option<Outline>) -> Self {
        let (cost, gas_limit) =
            outline_of(&attempt.raw).map_or((Amount::new(U256::MAX), 0), |outline| (outline.cost, outline.gas_limit));
        HeldAttempt { attempt, cost, gas_limit, missing: false, pooled, under_way: false, stale: false }
    }
}

impl OpenSlot {
    pub(super) fn empty(nonce: Nonce, kind: SlotKind) -> Self {
        OpenSlot {
            nonce,
            kind,
            lending: Lending::Ours,
            attempts: Vec::new(),
            tx: None,
            seen: Seen::Nowhere,
            sending: Sending::Rest,
            failures: 0,
            acknowledged: false,
            short_of_funds: false,
            rejected: false,
            pressure: None,
            order: None,
            remedy: Remedy::None,
            ticket: 0,
            tries: 0,
            signal: None,
            diagnosis: Diagnosis::None,
            sent_at: None,
            offered_at: None,
            decision: Deciding::Nothing,
            lost_looks: None,
            lost: false,
            above: None,
            inherited: false,
            grows: false,
            tell: false,
            final_list: None,
        }
    }

    pub(super) fn restore_intent(
        &mut self,
        tx: IntentRecord,
        now: Tick,
        outline_of: &impl Fn(&Bytes) -> Option<Outline>,
    ) {
        // Which of its attempts carry what is wanted now, only their bytes tell.
        if let Some(Payload::Evm(wanted)) = &tx.replacement {
            for held in self.attempts.iter_mut().filter(|held| held.attempt.kind.carries_payload()) {
                held.stale = outline_of(&held.attempt.raw).is_some_and(|outline| !outline.call.has_same_effect(wanted));
            }
        }
        if let TxState::Stuck(..) = tx.state {
            self.decision = Deciding::Ask(now);
        }
        if let Some(bound) = tx.state.bound() {
            if let Progress::Mined(Mined { inclusion, .. }) = &bound.progress {
                self.seen = Seen::Unverified(inclusion.block);
            }
            self.short_of_funds = bound.progress == Progress::AwaitingFunds;
        }
        self.acknowledged = tx.state.name() != StateName::Allocated;
        self.tx = Some(Box::new(tx));
    }

    /// What was never sent, or was not taken when it was sent last, goes out at once; what a node has taken waits for its
    /// resubmit. Without resubmits it goes out once, since what the chain did meanwhile may have put it out of all pools.
    pub(super) fn restore_sending(&mut self, resubmit: Option<Duration>, database_now: Timestamp, now: Tick) {
        let over = self.is_over();
        let Some(wanted) = self.wanted() else {
            self.sending = Sending::Rest;
            return;
        };
        let taken = self.acknowledged && wanted.last_outcome.as_ref().is_some_and(|(outcome, _)| outcome.is_taken());
        let last_sent = wanted.last_sent_at;
        self.inherited = taken && self.seen == Seen::Nowhere;
        self.sending = match (taken, resubmit, self.sending) {
            _ if over || matches!(self.seen, Seen::Unverified(_)) => Sending::Rest,
            (false, _, _) | (true, None, _) => Sending::Due { at: now, claim: false },
            (true, Some(_), Sending::Due { at, claim: true }) => Sending::Due { at, claim: true },
            (true, Some(interval), _) => {
                let due = last_sent.unwrap_or(database_now).saturating_add(interval);
                let wait = due.as_micros().saturating_sub(database_now.as_micros());
                let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0));
                Sending::Due { at: now.saturating_add(wait), claim: true }
            }
        };
    }

    /// All its hashes, to be looked for after the lane was loaded.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let known = if let Seen::Unverified(block) = self.seen { Some(block) } else { None };
        let mined = self.tx.as_ref().and_then(|tx| match tx.state.bound().map(|bound| &bound.progress) {
            Some(Progress::Mined(mined)) => Some(mined.inclusion.hash),
            _ => None,
        });
        let watch = |hash| {
            let known = known.filter(|_| mined == Some(hash));
            Watched { hash, known, look_up: known.is_none() }
        };
        if self.is_over() { Vec::new() } else { self.hashes().map(watch).collect() }
    }

    pub(super) fn hashes(&self) -> impl Iterator<Item = B256> {
        self.attempts.iter().map(|held| held.attempt.hash)
    }
}
