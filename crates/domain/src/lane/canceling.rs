//! Canceling: what is asked for, and what is past its time. A bound intent keeps its nonce, and only wants something else of it;
//! the attempt that consumes it without effect is made by the way of remedies, and the chain decides which one counts (P9).

use crate::command::CommandResult;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::state::{Bound, CancelReason, Goal};
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use super::Lane;
use super::commands::{done, refused};
use super::effect::Step;
use super::open_slot::{OpenSlot, Seen};
use super::orders::Whereabouts;
use super::writing::{Writing, apply};

pub(super) const UNRECONCILED: &str = "the store lost commits: nothing ends before that is reconciled";
pub(super) const NOT_OPEN: &str = "it is not open in this lane";

impl Lane {
    /// `None` while it cannot be said yet where the intent is.
    pub(super) fn cancel(
        &mut self,
        id: TxId,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<Option<CommandResult>, CommitError> {
        match self.find(id, writing) {
            Whereabouts::Slot(nonce) => self.cancel_bound(nonce, commit, writing).map(Some),
            Whereabouts::Line(at) => self.cancel_in_line(at, commit, writing).map(Some),
            Whereabouts::Unknown => Ok(None),
            Whereabouts::NotOpen => Ok(Some(refused(NOT_OPEN))),
        }
    }

    fn cancel_bound(
        &mut self,
        nonce: Nonce,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        let Some((slot, bound)) = self.bound_at(nonce, writing) else {
            return Ok(refused(NOT_OPEN));
        };
        if slot.is_lent() {
            return Ok(refused("its nonce is lent, and nothing was given to us for it: release it instead"));
        }
        if slot.seen != Seen::Nowhere {
            return Ok(refused("it is mined already; the chain has decided"));
        }
        if matches!(bound.goal, Goal::Cancel(_)) {
            return Ok(done("it is being canceled already"));
        }
        self.want_cancel(nonce, CancelReason::User, commit, writing)?;
        Ok(done("a cancel is sent at the same nonce; which of the two counts, the chain decides"))
    }

    fn cancel_in_line(
        &mut self,
        at: usize,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        if !self.may_end() {
            return Ok(refused(UNRECONCILED));
        }
        let Some(candidate) = self.line.take(at) else { return Ok(refused(NOT_OPEN)) };
        let change = candidate.tx.change(Transition::CancelInQueue(CancelReason::User));
        // Back to its place in line, if nothing is written; and the command is executed again.
        writing.doomed.push(candidate);
        commit.change(change?);
        Ok(done("it was still in the queue, and is canceled"))
    }

    /// Everything that is bound, and that no block has. What is lent is left to those who have it.
    pub(super) fn cancel_pending(
        &mut self,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        let unmined: Vec<Nonce> = self.slots.unmined().iter().copied().collect();
        let (mut canceled, mut lent) = (0_usize, 0_usize);
        for nonce in unmined {
            let Some((slot, bound)) = self.bound_at(nonce, writing) else { continue };
            if slot.is_lent() {
                lent += 1;
            } else if slot.seen == Seen::Nowhere && !matches!(bound.goal, Goal::Cancel(_)) {
                self.want_cancel(nonce, CancelReason::User, commit, writing)?;
                canceled += 1;
            }
        }
        let left = if lent == 0 { String::new() } else { format!("; {lent} lent nonces are left alone") };
        Ok(done(&format!("{canceled} bound intents are being canceled; the chain decides{left}")))
    }

    /// Bound intents that are past their time, and that no block has, are canceled (S16).
    pub(super) fn write_expired(
        &mut self,
        now: Tick,
        commit: &mut LaneCommit,
        writing: &mut Writing,
        step: &mut Step,
    ) -> Result<(), CommitError> {
        let at = self.database_now(now);
        for nonce in self.slots.overdue(at) {
            let Some((slot, bound)) = self.bound_at(nonce, writing) else { continue };
            if !slot.is_lent() && !matches!(bound.goal, Goal::Cancel(_)) && !writing.recovered.concerns(nonce) {
                self.want_cancel(nonce, CancelReason::Expired, commit, writing)?;
            }
        }
        // For those that are lent as well.
        self.slots.next_deadline(at).into_iter().for_each(|due| step.wake(self.tick_of(due)));
        Ok(())
    }

    pub(super) fn want_cancel(
        &self,
        nonce: Nonce,
        reason: CancelReason,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        self.revive(nonce, commit, writing)?;
        let Some(mut tx) = self.intent_at(nonce, writing).cloned() else { return Ok(()) };
        apply(&mut tx, Transition::WantCancel(reason), commit)?;
        writing.changed.insert(nonce, Box::new(tx));
        Ok(())
    }

    /// The intent of a slot as the commit leaves it, so far.
    pub(super) fn intent_at<'a>(&'a self, nonce: Nonce, writing: &'a Writing) -> Option<&'a IntentRecord> {
        writing.changed.get(&nonce).or_else(|| self.slots.get(nonce)?.tx.as_ref()).map(Box::as_ref)
    }

    pub(super) fn bound_at<'a>(&'a self, nonce: Nonce, writing: &'a Writing) -> Option<(&'a OpenSlot, &'a Bound)> {
        Some((self.slots.get(nonce)?, self.intent_at(nonce, writing)?.state.bound()?))
    }

    /// In a store that lost commits nothing ends before an operator has reconciled it.
    pub(super) fn may_end(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| !cursor.state.is_store_regressed())
    }
}

impl OpenSlot {
    /// When it is past its time: a lent one comes back, any other that no block has is canceled.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let expires = || {
            let wants_it = self.seen == Seen::Nowhere && !self.wants_nothing();
            self.tx.as_ref().filter(|_| wants_it)?.intent.valid_until()
        };
        self.loan_ends_at().or_else(expires)
    }

    /// It may be sent, as far as time goes. What has expired is not sent again while its cancel is on its way.
    pub(super) fn is_in_time(&self, database_now: Timestamp) -> bool {
        self.deadline().is_none_or(|at| at > database_now)
    }
}
