//! The state of a slot on chain: inclusions, orphaned blocks, finality and missing hashes, and the transitions of the
//! intent that follow.

use std::sync::Arc;

use alloy_primitives::B256;

use crate::block::{BlockLink, BlockRef, Inclusion};
use crate::confirmation::ConfirmationNotice;
use crate::slot::SlotKind;
use crate::state::{Bound, CancelReason, Goal, Mined, Progress, StateName};
use crate::tail::Tail;
use crate::time::Tick;
use crate::transition::Transition;

use super::fact::MinedTx;
use super::open_slot::OpenSlot;
use super::slot_work::{MiningState, Notice, Refusals, Sending, Sends, Unmined};

impl OpenSlot {
    /// Records an inclusion. Returns true if it changes the slot.
    pub(super) fn mined(&mut self, mined: MinedTx) -> bool {
        let Some(kind) = self.kind_of(mined.hash) else { return false };
        // A final inclusion stays. The watcher reports a reorg below it separately (R09). A lost nonce stays lost.
        if self.is_final() || self.mining == MiningState::Lost {
            return false;
        }
        let MinedTx { hash, block, parent_hash, execution, work_used, unit_price } = mined;
        let inclusion = Inclusion { hash, kind, block, parent_hash, execution, work_used, unit_price };
        // An equal hash in an equal block is the same inclusion. A second read may lack the revert reason, because the
        // node may have forgotten it.
        let is_same = |known: &&Inclusion| known.hash == hash && known.block == block;
        let mining = MiningState::Mined(self.known_inclusion().filter(is_same).cloned().unwrap_or(inclusion));
        let changed = self.mining != mining;
        self.mining = mining;
        self.sends.next = Sending::Idle;
        // The chain has accepted the transaction, so earlier rejections do not matter.
        self.sends.refusals = Refusals::default();
        self.next.bump_reason = None;
        changed
    }

    /// The last known inclusion, by the chain or by the ledger.
    fn known_inclusion(&self) -> Option<&Inclusion> {
        if let MiningState::Mined(inclusion) = &self.mining {
            return Some(inclusion);
        }
        match &self.tx.as_ref()?.state.bound()?.progress {
            Progress::Mined(mined) => Some(&mined.inclusion),
            Progress::Pending | Progress::AwaitingFunds => None,
        }
    }

    pub(super) fn still_mined(&mut self, hash: B256, block: BlockRef) {
        let Some(bound) = self.tx.as_ref().and_then(|tx| tx.state.bound()) else { return };
        if let (MiningState::Unverified(at), Progress::Mined(Mined { inclusion, .. })) = (&self.mining, &bound.progress)
            && *at == block
            && inclusion.hash == hash
        {
            self.mining = MiningState::Mined(inclusion.clone());
            self.sends.next = Sending::Idle;
        }
    }

    pub(super) fn is_final_in(&self, hash: B256, block: BlockRef) -> bool {
        matches!(&self.mining, MiningState::Final(inclusion, _) if inclusion.hash == hash && inclusion.block == block)
    }

    /// A reorg below finality. An intent that has ended stays as it is (R09). An intent that has not ended follows the
    /// chain as it is now.
    pub(super) fn no_longer_final(&mut self, now: Tick) {
        let has_ended = match self.kind {
            SlotKind::Intent(_) => self.tx.is_none(),
            SlotKind::Reservation => self.tx.is_none() && !self.is_unclaimed(),
            SlotKind::Foreign => true,
        };
        if !has_ended {
            self.reset_unmined(now);
        }
    }

    fn reset_unmined(&mut self, now: Tick) {
        self.mining = MiningState::Unmined(Unmined::default());
        self.forget_missing();
        self.sends.next = Sending::Send { at: now };
    }

    /// Records that the block was orphaned. Returns true if it held this slot; the wanted attempt is then sent again.
    pub(super) fn unmined(&mut self, hash: B256, block: BlockRef, now: Tick) -> bool {
        let was_there = match &self.mining {
            MiningState::Mined(inclusion) => inclusion.hash == hash && inclusion.block == block,
            MiningState::Unverified(at) => *at == block,
            MiningState::Unmined(_) | MiningState::Final(..) | MiningState::Lost => false,
        };
        if was_there {
            self.reset_unmined(now);
        }
        was_there
    }

    /// Records finality. Returns false if the slot is not known to be in that block, so that its hash must be looked
    /// up.
    pub(super) fn finalized(&mut self, hash: B256, block: BlockRef, list: Arc<[BlockLink]>) -> bool {
        // A final block is canonical, so the inclusion still holds.
        self.still_mined(hash, block);
        if let MiningState::Mined(inclusion) = &self.mining
            && inclusion.hash == hash
            && inclusion.block == block
        {
            self.mining = MiningState::Final(inclusion.clone(), Some(list));
        }
        self.is_final() || self.is_ended()
    }

    /// Records that a lookup of a hash found nothing. An attempt sent by a former owner may have left all pools. It is
    /// sent again when no block has it, not only when its resend is due.
    pub(super) fn hash_not_found(&mut self, hash: B256, now: Tick) {
        if let Some(held) = self.attempts.iter_mut().find(|held| held.attempt.hash == hash) {
            held.missing = true;
        }
        let all_missing = self.attempts.iter().all(|held| held.missing);
        if let MiningState::Unmined(unmined) = &mut self.mining
            && unmined.inherited
            && all_missing
        {
            unmined.inherited = false;
            if let Sending::Claim { at, diagnosis } = self.sends.next {
                self.sends.next = Sending::Claim { at: at.min(now), diagnosis };
            }
        }
    }

    /// True if every hash was looked up since the last call and none was found.
    pub(super) fn take_missing(&mut self) -> bool {
        let all = self.attempts.iter().all(|held| held.missing);
        self.forget_missing();
        all
    }

    pub(super) fn forget_missing(&mut self) {
        for held in &mut self.attempts {
            held.missing = false;
        }
    }

    /// The legal transitions from the state in the ledger to the state on chain and in the nodes.
    pub(super) fn due_transitions(&self, may_end: bool, tail: Option<&Tail>, most: u32) -> Vec<Transition> {
        let Some(tx) = &self.tx else { return Vec::new() };
        let Some(bound) = tx.state.bound() else { return Vec::new() };
        let held = if let Progress::Mined(mined) = &bound.progress { Some(mined) } else { None };
        match &self.mining {
            MiningState::Unverified(_) | MiningState::Lost => Vec::new(),
            MiningState::Unmined(_) => {
                let mut due: Vec<_> = held.map(|_| Transition::Unmine).into_iter().collect();
                due.extend(self.transitions_by_answers(bound, tx.state.name()));
                due
            }
            MiningState::Mined(inclusion) => {
                let (mut due, notified) = to_inclusion(held, inclusion);
                if self.notice == Notice::Due {
                    let list = tail.map(|tail| tail.list_from(inclusion.block, most)).unwrap_or_default();
                    due.extend(notice(notified, &list, tail).map(Transition::Confirm));
                }
                due
            }
            MiningState::Final(inclusion, list) => {
                let (mut due, notified) = to_inclusion(held, inclusion);
                if may_end {
                    let last = list.as_deref().and_then(|list| notice(notified, list, tail));
                    due.push(Transition::Settle(last));
                }
                due
            }
        }
    }

    /// Transitions of an unmined intent that the answers of nodes call for.
    fn transitions_by_answers(&self, bound: &Bound, state: StateName) -> impl Iterator<Item = Transition> {
        let Sends { acknowledged, refusals: Refusals { short_of_funds, rejected }, .. } = self.sends;
        let waits = bound.progress == Progress::AwaitingFunds;
        let is_delivering = matches!(bound.goal, Goal::Deliver | Goal::Replace);
        let due = [
            (short_of_funds && !waits).then_some(Transition::AwaitFunds),
            (!short_of_funds && waits && acknowledged).then_some(Transition::Funded),
            (acknowledged && state == StateName::Allocated).then_some(Transition::Acknowledge),
            (rejected && is_delivering).then_some(Transition::WantCancel(CancelReason::Rejected)),
        ];
        due.into_iter().flatten()
    }

    /// True if the ledger says something else about the intent than the chain and the nodes do. A final intent waits
    /// for its end, also while the lane may end no intent.
    pub(super) fn has_due_transition(&self) -> bool {
        let Some(bound) = self.tx.as_ref().and_then(|tx| tx.state.bound()) else { return false };
        let written = if let Progress::Mined(mined) = &bound.progress { Some(&mined.inclusion) } else { None };
        match &self.mining {
            MiningState::Unverified(_) | MiningState::Lost => false,
            MiningState::Final(..) => true,
            MiningState::Mined(inclusion) => self.notice == Notice::Due || written != Some(inclusion),
            MiningState::Unmined(_) => {
                let state = self.tx.as_ref().map_or(StateName::Queued, |tx| tx.state.name());
                written.is_some() || self.transitions_by_answers(bound, state).next().is_some()
            }
        }
    }
}

/// Transitions that write an inclusion, and the confirmation that consumers were last notified of.
fn to_inclusion(held: Option<&Mined>, inclusion: &Inclusion) -> (Vec<Transition>, BlockRef) {
    match held {
        Some(mined) if mined.inclusion == *inclusion => (Vec::new(), mined.notified),
        Some(_) => (vec![Transition::Unmine, Transition::Mine(inclusion.clone())], inclusion.block),
        None => (vec![Transition::Mine(inclusion.clone())], inclusion.block),
    }
}

/// The notice that leads from the last notice to this list. There is none if consumers were notified of more
/// confirmations than the list has, and all of them are still canonical.
fn notice(notified: BlockRef, list: &[BlockLink], tail: Option<&Tail>) -> Option<ConfirmationNotice> {
    let is_shorter = list.last().is_none_or(|last| last.block.number < notified.number);
    let is_canonical = tail.is_some_and(|tail| tail.contains(notified));
    if is_shorter && is_canonical { None } else { ConfirmationNotice::between(notified, list) }
}
