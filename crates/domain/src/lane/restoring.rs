//! Loading: the memory of a lane from its ledger, before the chain was read.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};

use crate::action::Work;
use crate::amount::Amount;
use crate::attempt::Attempt;
use crate::intent_record::IntentRecord;
use crate::lease::Lease;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::signing::Outline;
use crate::slot::{Slot, SlotKind};
use crate::snapshot::LaneSnapshot;
use crate::state::{Mined, Progress, StateName, TxState};
use crate::time::{Tick, Timestamp};

use super::decide::stuck::DecisionState;
use super::effect::{Effect, WatchRequest};
use super::funds::Funds;
use super::lane_state::{ChainView, CommitState, FeeCap, OpenLedger, Outbox, Phase, SignerState};
use super::open_slot::{OpenSlot, PoolState, SlotAttempt};
use super::queue::Queue;
use super::reconcile::scan::Scans;
use super::reservations::SlotReservation;
use super::slot_work::{MiningState, NextAttempt, Notice, Resends, Sending, Sends, Unmined};
use super::slots::Slots;
use super::{Lane, LaneSetup};

impl Lane {
    /// Loads a lane from a snapshot. `outline_of` decodes the effect and the highest cost of signed bytes.
    pub fn restore(
        lease: &Lease,
        snapshot: LaneSnapshot,
        setup: LaneSetup,
        outline_of: impl Fn(&Bytes) -> Option<Outline>,
        now: Tick,
    ) -> Self {
        let LaneSnapshot { cursor, slots, attempts, bound, reservations, commands, regressed, now: database_now } =
            snapshot;
        let ledger = OpenLedger { cursor, slots: Slots::default(), commands, commands_done: HashSet::new(), regressed };
        let mut lane = Lane {
            lease: lease.clone(),
            setup,
            ledger,
            chain: ChainView::default(),
            queue: Queue::unread(),
            funds: Funds::default(),
            scans: Scans::default(),
            signer: SignerState::default(),
            commits: CommitState::new(database_now, now),
            outbox: Outbox::default(),
            fee_cap: FeeCap::default(),
            phase: Phase::Working,
        };
        lane.chain.by_hash = attempts.iter().map(|attempt| (attempt.hash, attempt.nonce)).collect();
        let slots = slots.into_iter().map(|slot| (slot.nonce, lane.restore_slot(&slot, now)));
        let mut slots: BTreeMap<Nonce, OpenSlot> = slots.collect();
        for attempt in attempts {
            if let Some(slot) = slots.get_mut(&attempt.nonce) {
                slot.attempts.reserve_exact(1);
                slot.attempts.push(SlotAttempt::restore(attempt, &outline_of));
            }
        }
        for tx in bound {
            if let Some(slot) = tx.state.nonce().and_then(|nonce| slots.get_mut(&nonce)) {
                slot.restore_intent(tx, now, &outline_of);
            }
        }
        for reservation in reservations {
            if let Some(slot) = slots.get_mut(&reservation.nonce) {
                slot.restore_reservation(reservation);
            }
        }
        let resubmit = lane.setup.resubmit_interval();
        for mut slot in slots.into_values() {
            slot.restore_lost();
            slot.restore_sending(resubmit, database_now, now);
            lane.ledger.slots.insert(slot);
        }
        let watched: Vec<WatchRequest> = lane.ledger.slots.iter().flat_map(OpenSlot::watched).collect();
        if !watched.is_empty() {
            lane.outbox.effects.push(Effect::Watch(watched));
        }
        lane.check_slots_have_no_hole();
        lane
    }

    /// A slot from its row alone.
    fn restore_slot(&self, row: &Slot, now: Tick) -> OpenSlot {
        let mut slot = OpenSlot { above: row.above, ..OpenSlot::empty(row.nonce, row.kind) };
        (slot.resends.tries, slot.resends.signal) = (row.tries, row.signal);
        slot.sends.next = match row.next_resubmit_at {
            Some(at) => Sending::claim(self.tick_of(at)),
            None => Sending::Send { at: now },
        };
        slot
    }
}

impl SlotAttempt {
    /// Bytes that cannot be decoded get the highest possible cost: nothing more is bound until they are explained.
    fn restore(attempt: Attempt, outline_of: &impl Fn(&Bytes) -> Option<Outline>) -> Self {
        let unknown = (Amount::new(U256::MAX), Work::default());
        let (cost, work) = outline_of(&attempt.raw).map_or(unknown, |outline| (outline.cost, outline.work));
        // The former owner may have died before it wrote the result of a send. So a refusal counts only if it is the
        // answer to the only send.
        let refused = attempt.last_outcome.as_ref().is_some_and(|(outcome, _)| outcome.is_refusal());
        let pool = if refused && attempt.sends == 1 { PoolState::Absent } else { PoolState::Pooled };
        SlotAttempt { attempt, cost, work, missing: false, pool, stale: false }
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
        if let Some(wanted) = tx.replacement.as_ref().and_then(Payload::action) {
            for held in self.attempts.iter_mut().filter(|held| held.attempt.kind.carries_payload()) {
                held.stale = outline_of(&held.attempt.raw).is_some_and(|outline| !outline.action.does_the_same(wanted));
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
