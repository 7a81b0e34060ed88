//! Cancellation by command and by expiry. A bound intent keeps its nonce, and its goal becomes a cancel. The filler is
//! then made as the slot's next attempt, and the chain decides which attempt counts (P9).

use crate::command::CommandResult;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::state::{Bound, CancelReason, Goal};
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use super::Lane;
use super::commands::{done, refused};
use super::effect::Step;
use super::open_slot::{MiningState, OpenSlot};
use super::pending_commit::{PendingCommit, apply};
use super::replacing::IntentPosition;

pub(super) const UNRECONCILED: &str = "the store lost commits: run resync before anything in this lane may end";
pub(super) const NOT_OPEN: &str = "the intent is not open in this lane";

impl Lane {
    /// Executes a cancel command; `None` while the intent's position is unknown.
    pub(super) fn cancel(
        &mut self,
        id: TxId,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<Option<CommandResult>, CommitError> {
        match self.find(id, pending) {
            IntentPosition::Slot(nonce) => self.cancel_bound(nonce, commit, pending).map(Some),
            IntentPosition::Queue(at) => self.cancel_in_queue(at, commit, pending).map(Some),
            IntentPosition::Unknown => Ok(None),
            IntentPosition::NotOpen => Ok(Some(refused(NOT_OPEN))),
        }
    }

    fn cancel_bound(
        &mut self,
        nonce: Nonce,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        let Some((slot, bound)) = self.bound_at(nonce, pending) else {
            return Ok(refused(NOT_OPEN));
        };
        if slot.is_reserved() {
            return Ok(refused("the nonce is reserved and no transaction was submitted for it; release it instead"));
        }
        if slot.mining != MiningState::Unmined {
            return Ok(refused("the transaction is already mined"));
        }
        if matches!(bound.goal, Goal::Cancel(_)) {
            return Ok(done("the intent is already being canceled"));
        }
        self.want_cancel(nonce, CancelReason::User, commit, pending)?;
        Ok(done("a cancel is sent at the same nonce; the chain decides which transaction counts"))
    }

    fn cancel_in_queue(
        &mut self,
        at: usize,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        if !self.may_end() {
            return Ok(refused(UNRECONCILED));
        }
        let Some(candidate) = self.queue.take(at) else { return Ok(refused(NOT_OPEN)) };
        let change = candidate.tx.change(Transition::CancelInQueue(CancelReason::User));
        // If the commit is rolled back, the candidate returns to the queue and the command is executed again.
        pending.failing.push(candidate);
        commit.change(change?);
        Ok(done("the intent was canceled in the queue"))
    }

    /// Cancels every bound intent that is not mined. Reserved nonces are left to their holders.
    pub(super) fn cancel_pending(
        &mut self,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        let unmined: Vec<Nonce> = self.slots.unmined().iter().copied().collect();
        let (mut canceled, mut reserved) = (0_usize, 0_usize);
        for nonce in unmined {
            let Some((slot, bound)) = self.bound_at(nonce, pending) else { continue };
            if slot.is_reserved() {
                reserved += 1;
            } else if slot.mining == MiningState::Unmined && !matches!(bound.goal, Goal::Cancel(_)) {
                self.want_cancel(nonce, CancelReason::User, commit, pending)?;
                canceled += 1;
            }
        }
        let left = if reserved == 0 { String::new() } else { format!("; {reserved} reserved nonces are left alone") };
        let text = format!("{canceled} bound intents are being canceled; the chain decides what counts{left}");
        Ok(done(&text))
    }

    /// Cancels bound intents that have expired and are not mined (S16).
    pub(super) fn write_expired(
        &mut self,
        now: Tick,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
        step: &mut Step,
    ) -> Result<(), CommitError> {
        let at = self.database_now(now);
        for nonce in self.slots.overdue(at) {
            let Some((slot, bound)) = self.bound_at(nonce, pending) else { continue };
            if !slot.is_reserved() && !matches!(bound.goal, Goal::Cancel(_)) && !pending.reconciled.touches(nonce) {
                self.want_cancel(nonce, CancelReason::Expired, commit, pending)?;
            }
        }
        // Deadlines of reservations are included.
        self.slots.next_deadline(at).into_iter().for_each(|due| step.wake(self.tick_of(due)));
        Ok(())
    }

    pub(super) fn want_cancel(
        &self,
        nonce: Nonce,
        reason: CancelReason,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        self.revive(nonce, commit, pending)?;
        let Some(mut tx) = self.intent_at(nonce, pending).cloned() else { return Ok(()) };
        apply(&mut tx, Transition::WantCancel(reason), commit)?;
        pending.changed.insert(nonce, Box::new(tx));
        Ok(())
    }

    /// The intent of a slot as the commit leaves it so far.
    pub(super) fn intent_at<'a>(&'a self, nonce: Nonce, pending: &'a PendingCommit) -> Option<&'a IntentRecord> {
        pending.changed.get(&nonce).or_else(|| self.slots.get(nonce)?.tx.as_ref()).map(Box::as_ref)
    }

    pub(super) fn bound_at<'a>(
        &'a self,
        nonce: Nonce,
        pending: &'a PendingCommit,
    ) -> Option<(&'a OpenSlot, &'a Bound)> {
        Some((self.slots.get(nonce)?, self.intent_at(nonce, pending)?.state.bound()?))
    }

    /// False after a loss of commits, until an operator has reconciled: no intent may become terminal.
    pub(super) fn may_end(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| !cursor.state.is_store_regressed())
    }
}

impl OpenSlot {
    /// The end of the reservation or, for an unmined intent, its `valid_until`.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let expires = || {
            let wants_it = self.mining == MiningState::Unmined && !self.wants_filler();
            self.tx.as_ref().filter(|_| wants_it)?.intent.valid_until()
        };
        self.reservation_ends_at().or_else(expires)
    }

    /// True before the deadline. An expired attempt is not sent again while its cancel is being made.
    pub(super) fn is_in_time(&self, database_now: Timestamp) -> bool {
        self.deadline().is_none_or(|at| at > database_now)
    }
}
