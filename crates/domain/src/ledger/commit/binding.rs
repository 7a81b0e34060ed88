//! Verbs of a commit that bind, adopt, reserve or lose a nonce.

use super::{CommitError, LaneCommit};
use crate::attempt::NewAttempt;
use crate::block::BlockRef;
use crate::command::LostRule;
use crate::cursor::{Cursor, LaneState};
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::reservation::ReservationStep;
use crate::slot::{NewSlot, SlotKind};
use crate::state::{FailReason, Goal};
use crate::text::NodeText;
use crate::transition::Transition;

impl LaneCommit {
    /// Sets the newest final block that is known before anything is sent. Every slot that this commit binds afterwards
    /// is consumed above this block, on every chain that has the block.
    pub fn bind_above(&mut self, block: Option<BlockRef>) -> &mut Self {
        self.above = block;
        self
    }

    /// Binds the cursor's next nonce to an intent, with its signed transaction. A second call binds the nonce after it.
    pub fn bind(&mut self, cursor: &Cursor, tx: &IntentRecord, attempt: NewAttempt) -> Result<&mut Self, CommitError> {
        self.check_submitter(tx)?;
        let change = tx.change_with_slot(Transition::Bind(attempt.nonce))?;
        self.take_next_nonce(cursor, attempt.nonce)?;
        self.new_slot(attempt.nonce, SlotKind::Intent(tx.id));
        self.changes.push(change);
        self.attempts.push(attempt);
        Ok(self)
    }

    /// Binds the cursor's next nonce to an intent whose transaction is on chain already, and was lost from the ledger.
    /// The transaction becomes the intent's attempt. The slot is bound above `above`, which is not the newest final
    /// block, because the transaction may be final itself. Allowed in PROTECT too: adopting helps to leave it.
    pub fn adopt_for(
        &mut self,
        cursor: &Cursor,
        tx: &IntentRecord,
        attempt: NewAttempt,
        above: Option<BlockRef>,
    ) -> Result<&mut Self, CommitError> {
        self.check_submitter(tx)?;
        let change = tx.change_with_slot(Transition::Bind(attempt.nonce))?;
        self.take_used_nonce(cursor, attempt.nonce)?;
        let kind = SlotKind::Intent(tx.id);
        self.slots.push(NewSlot { nonce: attempt.nonce, kind, above, evidence: None });
        self.changes.push(change);
        self.attempts.push(attempt);
        Ok(self)
    }

    /// Reserves the cursor's next nonce for a caller who signs. The step is the `Reserve` for this intent.
    pub fn bind_reserved(
        &mut self,
        cursor: &Cursor,
        tx: &IntentRecord,
        step: ReservationStep,
    ) -> Result<&mut Self, CommitError> {
        self.check_reserve(tx, &step)?;
        let change = tx.change_with_slot(Transition::Bind(step.nonce()))?;
        self.take_next_nonce(cursor, step.nonce())?;
        self.new_slot(step.nonce(), SlotKind::Reservation);
        self.changes.push(change);
        self.reservations.push(step);
        Ok(self)
    }

    /// Reserves a recyclable nonce, whose slot exists, for another caller.
    pub fn reserve_again(&mut self, tx: &IntentRecord, step: ReservationStep) -> Result<&mut Self, CommitError> {
        self.check_reserve(tx, &step)?;
        self.changes.push(tx.change_with_slot(Transition::Bind(step.nonce()))?);
        self.reservations.push(step);
        Ok(self)
    }

    /// Ends a reservation that was not submitted, by a `Release` or an `Expire` step. The intent of the reservation
    /// ends too, and the nonce becomes recyclable.
    pub fn end_reservation(&mut self, tx: &IntentRecord, step: ReservationStep) -> Result<&mut Self, CommitError> {
        self.check_submitter(tx)?;
        let ends = matches!(step, ReservationStep::Release { .. } | ReservationStep::Expire { .. });
        if !ends || !is_reservation(tx) || tx.state.nonce() != Some(step.nonce()) {
            return Err(CommitError::WrongStep);
        }
        self.changes.push(tx.change_with_slot(Transition::ReleaseReserved)?);
        self.reservations.push(step);
        Ok(self)
    }

    /// Adopts the cursor's next nonce as consumed by a foreign transaction. Allowed in PROTECT too: adopting helps to
    /// leave it.
    pub fn adopt_foreign(
        &mut self,
        cursor: &Cursor,
        nonce: Nonce,
        evidence: NodeText,
    ) -> Result<&mut Self, CommitError> {
        self.take_used_nonce(cursor, nonce)?;
        let above = self.above;
        self.slots.push(NewSlot { nonce, kind: SlotKind::Foreign, above, evidence: Some(evidence) });
        Ok(self)
    }

    /// Takes the nonce from an intent after a scan has proven that another transaction consumed it (P4). The intent
    /// goes back to its place in the queue, or fails there. An intent that was being canceled is canceled there, unless
    /// `may_end` is false. Returns the record if it is queued again.
    pub fn lose_nonce(
        &mut self,
        tx: &IntentRecord,
        rule: LostRule,
        may_end: bool,
        why: NodeText,
    ) -> Result<Option<IntentRecord>, CommitError> {
        self.check_submitter(tx)?;
        let goal = tx.state.bound().map(|bound| bound.goal);
        let lost = tx.change(Transition::LoseNonce)?;
        let mut queued = tx.clone();
        queued.apply(&lost, tx.updated_at);
        let end = match (goal, rule) {
            (Some(Goal::Cancel(reason)), _) if may_end => Some(Transition::CancelInQueue(reason)),
            (_, LostRule::Fail) => Some(Transition::FailInQueue(FailReason::NonceLost, why)),
            (_, LostRule::Requeue) => None,
        };
        let end = end.map(|end| queued.change(end)).transpose()?;
        self.changes.push(lost);
        let waits = end.is_none();
        self.changes.extend(end);
        Ok(waits.then_some(queued))
    }

    fn check_submitter(&self, tx: &IntentRecord) -> Result<(), CommitError> {
        if tx.intent.submitter() == self.lease.submitter() { Ok(()) } else { Err(CommitError::OtherSubmitter) }
    }

    fn check_reserve(&self, tx: &IntentRecord, step: &ReservationStep) -> Result<(), CommitError> {
        self.check_submitter(tx)?;
        let fits = matches!(step, ReservationStep::Reserve { tx_id, .. } if *tx_id == tx.id) && is_reservation(tx);
        if fits { Ok(()) } else { Err(CommitError::WrongStep) }
    }

    fn new_slot(&mut self, nonce: Nonce, kind: SlotKind) {
        self.slots.push(NewSlot { nonce, kind, above: self.above, evidence: None });
    }

    fn take_next_nonce(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<(), CommitError> {
        let to = self.cursor_mut(cursor)?;
        if to.is_protected() || to.paused {
            return Err(CommitError::BindsNothing);
        }
        self.take_used_nonce(cursor, nonce)?;
        self.cursor_mut(cursor)?.state = LaneState::InFlight;
        Ok(())
    }

    /// Moves the cursor over a nonce that the chain has consumed. A paused or protected lane does so too.
    fn take_used_nonce(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<(), CommitError> {
        let to = self.cursor_mut(cursor)?;
        if nonce != to.next_nonce {
            return Err(CommitError::NonceOutOfOrder { expected: to.next_nonce, got: nonce });
        }
        to.next_nonce = nonce.next()?;
        Ok(())
    }
}

fn is_reservation(tx: &IntentRecord) -> bool {
    matches!(tx.intent.payload(), Payload::Reservation(_))
}
