//! The draft: the commit that the lane builds, and the records as that commit will leave them.
//!
//! While the commit is in flight, the records in the lane's memory are untouched. A commit that was written is folded
//! into the memory (`fold`). A commit that was not written is dropped, and the lane gets back all that the draft has
//! taken from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::Work;
use crate::amount::Amount;
use crate::attempt::{NewAttempt, SendReport};
use crate::block::BlockRef;
use crate::command::{Command, CommandId, CommandResult, LostRule};
use crate::cursor::{Cursor, Protection};
use crate::event::LaneEventKind;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lease::Lease;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::reservation::{LockOwner, ReservationStep};
use crate::signing::Outline;
use crate::slot::{Claim, SlotKind};
use crate::state::{Bound, CancelReason, Goal, StateName};
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use crate::lane::decide::stuck::DecisionState;
use crate::lane::effect::Step;
use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::Candidate;
use crate::lane::reconcile::scan::ScanFindings;
use crate::lane::signing::SignedItem;
use crate::lane::slots::Slots;

/// One commit of the lane, from its first row until the store has answered.
#[derive(Debug)]
pub(super) struct Draft {
    /// Tick at which the draft was begun.
    pub(super) now: Tick,
    /// Time of the database's clock at which the draft was begun.
    pub(super) at: Timestamp,
    /// The cursor before the commit; `None` in a lane that never started.
    base: Option<Cursor>,
    pub(super) commit: LaneCommit,
    /// Intents of slots, as the commit leaves them.
    intents: BTreeMap<Nonce, Box<IntentRecord>>,
    /// Origins of the attempts, in the order of the commit.
    pub(super) origins: Vec<AttemptOrigin>,
    /// Claimed nonces that a dearer attempt is made for.
    pub(super) bumps: BTreeSet<Nonce>,
    /// Nonces that were consumed by something else.
    pub(super) lost: BTreeSet<Nonce>,
    pub(super) decided: Vec<(Nonce, DecisionState)>,
    pub(super) taken: Taken,
    /// Effects and wake-ups that do not depend on the commit.
    pub(super) step: Step,
}

/// Parts of the lane's memory that a draft has taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Candidates that the commit moves out of the queue, or changes there.
    pub(super) candidates: Vec<Candidate>,
    pub(super) signed: Vec<SignedItem>,
    pub(super) reports: Vec<SendReport>,
    pub(super) protection: Option<Protection>,
    pub(super) found: Option<ScanFindings>,
}

/// Facts about a new attempt that the commit does not carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptOrigin {
    pub(super) source: AttemptSource,
    pub(super) cost: Amount,
    pub(super) work: Work,
}

/// Source of a new attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptSource {
    /// The lane has it signed.
    Signed,
    /// The lane has it signed, because a command requested it.
    Requested(CommandId),
    /// The caller has submitted it for a reserved nonce.
    Submitted,
    /// A scan has found it on chain, at the nonce of a slot.
    Attached,
    /// A scan has found it on chain, at a nonce without a slot.
    Adopted,
}

impl AttemptOrigin {
    fn is_found(&self) -> bool {
        matches!(self.source, AttemptSource::Attached | AttemptSource::Adopted)
    }
}

impl Draft {
    pub(super) fn new(lease: &Lease, cursor: Option<Cursor>, now: Tick, at: Timestamp) -> Self {
        Draft {
            now,
            at,
            base: cursor,
            commit: LaneCommit::new(lease),
            intents: BTreeMap::new(),
            origins: Vec::new(),
            bumps: BTreeSet::new(),
            lost: BTreeSet::new(),
            decided: Vec::new(),
            taken: Taken::default(),
            step: Step::default(),
        }
    }

    /// The cursor before the commit.
    pub(super) fn base(&self) -> Option<&Cursor> {
        self.base.as_ref()
    }

    /// The cursor as the commit leaves it so far.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.commit.cursor().map(|change| change.to()).or(self.base.as_ref())
    }

    /// The commit, and the cursor that its verbs start from.
    fn lane_row(&mut self) -> Result<(&mut LaneCommit, &Cursor), CommitError> {
        let base = self.base.as_ref().ok_or(CommitError::NoCursor)?;
        Ok((&mut self.commit, base))
    }

    /// The intent of a slot, as the commit leaves it so far.
    pub(super) fn intent<'a>(&'a self, nonce: Nonce, slots: &'a Slots) -> Option<&'a IntentRecord> {
        self.intents.get(&nonce).or_else(|| slots.get(nonce)?.tx.as_ref()).map(Box::as_ref)
    }

    /// A slot with the bound state of its intent, as the commit leaves it so far.
    pub(super) fn bound<'a>(&'a self, nonce: Nonce, slots: &'a Slots) -> Option<(&'a OpenSlot, &'a Bound)> {
        Some((slots.get(nonce)?, self.intent(nonce, slots)?.state.bound()?))
    }

    /// True if the intent of the slot is being canceled, as the commit leaves it so far.
    pub(super) fn cancels(&self, nonce: Nonce, slots: &Slots) -> bool {
        self.bound(nonce, slots).is_some_and(|(_, bound)| matches!(bound.goal, Goal::Cancel(_)))
    }

    /// Changes the intent of a slot. A slot without an intent stays as it is.
    pub(super) fn change(&mut self, nonce: Nonce, transition: Transition, slots: &Slots) -> Result<(), CommitError> {
        let Some(mut tx) = self.intent(nonce, slots).cloned() else { return Ok(()) };
        let change = tx.change(transition)?;
        tx.apply(&change, tx.updated_at);
        self.commit.change(change);
        self.intents.insert(nonce, Box::new(tx));
        Ok(())
    }

    /// Changes the intent of a candidate. The draft keeps the candidate, also if the transition is illegal.
    pub(super) fn change_queued(&mut self, candidate: Candidate, transition: Transition) -> Result<(), CommitError> {
        let change = candidate.tx.change(transition);
        self.taken.candidates.push(candidate);
        self.commit.change(change?);
        Ok(())
    }

    /// Ends STUCK after a decision.
    pub(super) fn revive(&mut self, nonce: Nonce, slots: &Slots) -> Result<(), CommitError> {
        let is_stuck = self.intent(nonce, slots).is_some_and(|tx| tx.state.name() == StateName::Stuck);
        if is_stuck { self.change(nonce, Transition::Revive, slots) } else { Ok(()) }
    }

    /// Makes the intent's goal a cancel, whether it is stuck or not.
    pub(super) fn want_cancel(&mut self, nonce: Nonce, reason: CancelReason, slots: &Slots) -> Result<(), CommitError> {
        self.revive(nonce, slots)?;
        self.change(nonce, Transition::WantCancel(reason), slots)
    }

    /// Binds the next nonce. A refused item is handed back with the reason.
    pub(super) fn bind(&mut self, item: SignedItem) -> Result<(), (CommitError, Box<SignedItem>)> {
        let (Some(base), Some(candidate)) = (&self.base, &item.candidate) else {
            return Err((CommitError::NoCursor, Box::new(item)));
        };
        if let Err(error) = self.commit.bind(base, &candidate.tx, item.attempt.clone()) {
            return Err((error, Box::new(item)));
        }
        self.origins.push(item.origin());
        self.taken.signed.push(item);
        Ok(())
    }

    /// Adds another attempt of a slot that the lane has signed.
    pub(super) fn attempt(&mut self, item: SignedItem) {
        self.commit.attempt(item.attempt.clone());
        self.origins.push(item.origin());
        self.taken.signed.push(item);
    }

    /// Adds an attempt that a caller has submitted for its reserved nonce.
    pub(super) fn submitted(&mut self, by: &LockOwner, attempt: NewAttempt, cost: Amount) {
        let step = ReservationStep::Use { nonce: attempt.nonce, lock_owner: by.clone() };
        self.commit.reservation(step).attempt(attempt);
        self.origins.push(AttemptOrigin { source: AttemptSource::Submitted, cost, work: Work::default() });
    }

    /// Adds an attempt that a scan has found at the nonce of a slot.
    pub(super) fn attach(&mut self, attempt: NewAttempt, outline: &Outline) {
        self.commit.attempt(attempt);
        let Outline { cost, work, .. } = *outline;
        self.origins.push(AttemptOrigin { source: AttemptSource::Attached, cost, work });
    }

    /// Binds the next nonce, which a transaction of this intent has consumed.
    pub(super) fn adopt_for(
        &mut self,
        tx: &IntentRecord,
        attempt: NewAttempt,
        outline: &Outline,
        above: Option<BlockRef>,
    ) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.adopt_for(base, tx, attempt, above)?;
        let Outline { cost, work, .. } = *outline;
        self.origins.push(AttemptOrigin { source: AttemptSource::Adopted, cost, work });
        Ok(())
    }

    /// Adopts the next nonce, which a foreign transaction has consumed.
    pub(super) fn adopt_foreign(&mut self, nonce: Nonce, evidence: NodeText) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.adopt_foreign(base, nonce, evidence).map(drop)
    }

    /// Takes the nonce from an intent. Returns the record if it is queued again.
    pub(super) fn lose(
        &mut self,
        nonce: Nonce,
        tx: Option<&IntentRecord>,
        rule: LostRule,
        may_end: bool,
        why: &str,
    ) -> Result<Option<IntentRecord>, CommitError> {
        let why = NodeText::new(why);
        let again = tx.map(|tx| self.commit.lose_nonce(tx, rule, may_end, why)).transpose()?.flatten();
        self.lost.insert(nonce);
        Ok(again)
    }

    /// Reserves the next nonce, or a recyclable one whose slot exists.
    pub(super) fn reserve(&mut self, tx: &IntentRecord, step: ReservationStep, fresh: bool) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        if fresh { commit.bind_reserved(base, tx, step) } else { commit.reserve_again(tx, step) }.map(drop)
    }

    /// Ends a reservation without a transaction. Its intent ends as well.
    pub(super) fn end_reservation(&mut self, step: ReservationStep, slots: &Slots) -> Result<(), CommitError> {
        let nonce = step.nonce();
        let Some(mut tx) = self.intent(nonce, slots).cloned() else { return Ok(()) };
        self.commit.end_reservation(&tx, step)?;
        tx.state = tx.state.apply(Transition::ReleaseReserved)?;
        tx.version = tx.version.saturating_add(1);
        self.intents.insert(nonce, Box::new(tx));
        Ok(())
    }

    /// Claims a resend or a bump.
    pub(super) fn claim(&mut self, claim: Claim, is_bump: bool) {
        if is_bump {
            self.bumps.insert(claim.nonce);
        }
        self.commit.claim_resubmit(claim);
    }

    pub(super) fn command_done(&mut self, command: &Command, result: CommandResult) {
        self.commit.command_done(command, result);
    }

    pub(super) fn protect(&mut self, protection: Protection) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.protect(base, protection.clone())?;
        self.taken.protection = Some(protection);
        Ok(())
    }

    pub(super) fn unprotect(&mut self, in_flight: bool, text: NodeText) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.unprotect(base, in_flight, text).map(drop)
    }

    pub(super) fn set_paused(&mut self, paused: bool, text: NodeText) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.set_paused(base, paused, text).map(drop)
    }

    pub(super) fn set_low_balance(&mut self, low: bool, text: &str) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.set_low_balance(base, low, NodeText::new(text)).map(drop)
    }

    pub(super) fn set_in_flight(&mut self, in_flight: bool) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.set_in_flight(base, in_flight).map(drop)
    }

    pub(super) fn close_below(&mut self, open: Nonce) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.close_below(base, open).map(drop)
    }

    pub(super) fn start_at(&mut self, nonce: Nonce) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.start_at(base, nonce).map(drop)
    }

    pub(super) fn observe_counts(&mut self, latest: Nonce, finalized: Nonce) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.observe_counts(base, latest, finalized).map(drop)
    }

    pub(super) fn lane_event(&mut self, kind: LaneEventKind, text: NodeText) -> Result<(), CommitError> {
        let (commit, base) = self.lane_row()?;
        commit.lane_event(base, kind, text).map(drop)
    }

    /// Number of nonces that the commit assigns.
    pub(super) fn binds(&self) -> usize {
        self.commit.slots().len()
    }

    /// Bytes of the attempts that the chain has not included yet.
    pub(super) fn bytes(&self) -> usize {
        self.unmined_attempts().map(|(attempt, _)| attempt.raw.len()).sum()
    }

    /// Costs of the attempts that the chain has not included yet.
    pub(super) fn costs(&self) -> impl Iterator<Item = Amount> {
        self.unmined_attempts().map(|(_, origin)| origin.cost)
    }

    fn unmined_attempts(&self) -> impl Iterator<Item = (&NewAttempt, &AttemptOrigin)> {
        self.commit.attempts().iter().zip(&self.origins).filter(|(_, origin)| !origin.is_found())
    }

    /// Intents that leave the queue, or change in it.
    pub(super) fn ids(&self) -> impl Iterator<Item = TxId> {
        let signed = self.taken.signed.iter().filter_map(|item| item.candidate.as_ref());
        self.taken.candidates.iter().chain(signed).map(|candidate| candidate.tx.id)
    }

    /// True if the commit has the result of the command.
    pub(super) fn is_done(&self, id: CommandId) -> bool {
        self.commit.commands_done().iter().any(|(done, _)| *done == id)
    }

    /// Nonces whose reservation ends with the commit.
    pub(super) fn ended_reservations(&self) -> impl Iterator<Item = Nonce> {
        let ends =
            |step: &&ReservationStep| matches!(step, ReservationStep::Release { .. } | ReservationStep::Expire { .. });
        self.commit.reservations().iter().filter(ends).map(ReservationStep::nonce)
    }

    pub(super) fn ends_reservation(&self, nonce: Nonce) -> bool {
        self.ended_reservations().any(|ended| ended == nonce)
    }

    /// The submitted transaction for a reserved nonce.
    pub(super) fn submitted_at(&self, nonce: Nonce) -> Option<&NewAttempt> {
        let mut submitted = self.unmined_attempts().filter(|(_, origin)| origin.source == AttemptSource::Submitted);
        submitted.find(|(attempt, _)| attempt.nonce == nonce).map(|(attempt, _)| attempt)
    }

    /// True if the commit reconciles slots with the chain.
    pub(super) fn reconciles(&self) -> bool {
        let adopts = self.commit.slots().iter().any(|slot| slot.kind == SlotKind::Foreign);
        adopts || !self.lost.is_empty() || self.origins.iter().any(AttemptOrigin::is_found)
    }

    pub(super) fn has_lost(&self, nonce: Nonce) -> bool {
        self.lost.contains(&nonce)
    }

    /// True if a scan explains the slot in this commit.
    pub(super) fn explains(&self, nonce: Nonce) -> bool {
        self.has_lost(nonce) || self.found_nonces().any(|found| found == nonce)
    }

    /// The nonces of all slots that a scan explains in this commit.
    pub(super) fn explained(&self) -> BTreeSet<Nonce> {
        self.lost.iter().copied().chain(self.found_nonces()).collect()
    }

    fn found_nonces(&self) -> impl Iterator<Item = Nonce> {
        let found = self.commit.attempts().iter().zip(&self.origins).filter(|(_, origin)| origin.is_found());
        found.map(|(attempt, _)| attempt.nonce)
    }

    /// Takes a reason for PROTECT that the commit resolves. The lane gets it back if the commit is not written.
    pub(super) fn take_protection(&mut self, protection: Option<Protection>) {
        if let Some(protection) = protection {
            self.taken.protection.get_or_insert(protection);
        }
    }

    /// True if the intent of the slot ends with the commit.
    pub(super) fn ends_intent(&self, nonce: Nonce) -> bool {
        self.intents.get(&nonce).is_some_and(|tx| tx.state.name().is_terminal())
    }
}
