//! What a lane wants written, all of it or nothing.

use crate::attempt::{NewAttempt, SendReport};
use crate::audit::NewAudit;
use crate::block::BlockRef;
use crate::command::{Command, CommandId, CommandKind, CommandResult, LostRule};
use crate::cursor::{Cursor, CursorChange, LaneState, ProtectCode, Protection};
use crate::event::LaneEventKind;
use crate::intent_record::{Change, IntentRecord};
use crate::lease::Lease;
use crate::nonce::{Nonce, NonceError};
use crate::payload::Payload;
use crate::reservation::ReservationStep;
use crate::slot::{Claim, NewSlot, SlotKind};
use crate::state::{FailReason, Goal};
use crate::text::{CommandReport, NodeText};
use crate::transition::{IllegalTransition, Transition};

/// One fenced write of one lane. It takes a [`Lease`] to make one, and a store applies all of it in one database
/// transaction, or none.
///
/// Whoever applies it asks first whether the rows still are what the lane thought they were (cursor version, transaction
/// versions, reservation owners), and answers *conflict* if not: the lane then loads itself anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCommit {
    lease: Lease,
    cursor: Option<CursorChange>,
    slots: Vec<NewSlot>,
    changes: Vec<Change>,
    attempts: Vec<NewAttempt>,
    reports: Vec<SendReport>,
    claims: Vec<Claim>,
    reservations: Vec<ReservationStep>,
    commands_done: Vec<(CommandId, CommandResult)>,
    lane_events: Vec<(LaneEventKind, NodeText)>,
    audits: Vec<NewAudit>,
    /// What its slots are bound above.
    above: Option<BlockRef>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    #[error("the next nonce to bind is {expected}, not {got}")]
    NonceOutOfOrder { expected: Nonce, got: Nonce },
    #[error("the intent belongs to another submitter")]
    OtherSubmitter,
    #[error("the step of the reservation does not fit the intent")]
    WrongStep,
    #[error("the lane is in PROTECT or paused and binds nothing")]
    BindsNothing,
    #[error("the cursor changed within one commit")]
    OtherCursor,
    #[error("a nonce of the cursor would go back")]
    Backwards,
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    #[error(transparent)]
    Nonce(#[from] NonceError),
}

impl LaneCommit {
    pub fn new(lease: &Lease) -> Self {
        LaneCommit {
            lease: lease.clone(),
            cursor: None,
            slots: Vec::new(),
            changes: Vec::new(),
            attempts: Vec::new(),
            reports: Vec::new(),
            claims: Vec::new(),
            reservations: Vec::new(),
            commands_done: Vec::new(),
            lane_events: Vec::new(),
            audits: Vec::new(),
            above: None,
        }
    }

    /// The newest final block that is known before anything is sent: whatever this commit binds from here on is consumed above it,
    /// on every chain that has this block.
    pub fn bind_above(&mut self, block: Option<BlockRef>) -> &mut Self {
        self.above = block;
        self
    }

    /// Binds the cursor's next nonce to an intent, with its signed transaction. Called again, it binds the nonce after.
    pub fn bind(&mut self, cursor: &Cursor, tx: &IntentRecord, attempt: NewAttempt) -> Result<&mut Self, CommitError> {
        self.check_submitter(tx)?;
        let change = tx.change_with_slot(Transition::Bind(attempt.nonce))?;
        self.take_next_nonce(cursor, attempt.nonce)?;
        self.new_slot(attempt.nonce, SlotKind::Intent(tx.id));
        self.changes.push(change);
        self.attempts.push(attempt);
        Ok(self)
    }

    /// The cursor's next nonce was used for this intent already, by a transaction that is on chain and that the ledger had lost: it
    /// becomes the intent's attempt. It stands on `above`, which is not the newest final one: it may be final itself. Also in
    /// PROTECT, which this helps to leave.
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

    /// Lends the cursor's next nonce to a caller who signs by itself. The step is the `Reserve` for this intent.
    pub fn bind_reserved(
        &mut self,
        cursor: &Cursor,
        tx: &IntentRecord,
        step: ReservationStep,
    ) -> Result<&mut Self, CommitError> {
        self.check_lending(tx, &step)?;
        let change = tx.change_with_slot(Transition::Bind(step.nonce()))?;
        self.take_next_nonce(cursor, step.nonce())?;
        self.new_slot(step.nonce(), SlotKind::Reservation);
        self.changes.push(change);
        self.reservations.push(step);
        Ok(self)
    }

    /// Lends a recyclable nonce, whose slot exists, to another caller.
    pub fn lend_again(&mut self, tx: &IntentRecord, step: ReservationStep) -> Result<&mut Self, CommitError> {
        self.check_lending(tx, &step)?;
        self.changes.push(tx.change_with_slot(Transition::Bind(step.nonce()))?);
        self.reservations.push(step);
        Ok(self)
    }

    /// A lent nonce comes back, by a `Release` or an `Expire`; the intent that it was lent to ends.
    pub fn take_back(&mut self, tx: &IntentRecord, step: ReservationStep) -> Result<&mut Self, CommitError> {
        self.check_submitter(tx)?;
        let comes_back = matches!(step, ReservationStep::Release { .. } | ReservationStep::Expire { .. });
        if !comes_back || !is_external(tx) || tx.state.nonce() != Some(step.nonce()) {
            return Err(CommitError::WrongStep);
        }
        self.changes.push(tx.change_with_slot(Transition::ReleaseReserved)?);
        self.reservations.push(step);
        Ok(self)
    }

    /// Binds the cursor's next nonce to nobody: a filler of ours will consume it.
    pub fn bind_fill(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<&mut Self, CommitError> {
        self.take_next_nonce(cursor, nonce)?;
        self.new_slot(nonce, SlotKind::Fill);
        Ok(self)
    }

    /// The cursor's next nonce was used by somebody else with our key, and is adopted. Also in PROTECT, which this helps to leave.
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

    /// P4 has proven that the intent's nonce was used by something else: it goes back to its place in line, or fails there. One
    /// that was being canceled is canceled there, unless nothing may end. Gives what is in line again.
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

    /// A lane that never bound anything begins further up: what the account did before is none of ours.
    pub fn start_at(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if nonce < to.next_nonce || to.open_nonce != to.next_nonce {
            return Err(CommitError::Backwards);
        }
        to.next_nonce = nonce;
        to.open_nonce = nonce;
        Ok(self)
    }

    pub fn change(&mut self, change: Change) -> &mut Self {
        self.changes.push(change);
        self
    }

    pub fn attempt(&mut self, attempt: NewAttempt) -> &mut Self {
        self.attempts.push(attempt);
        self
    }

    pub fn report(&mut self, report: SendReport) -> &mut Self {
        self.reports.push(report);
        self
    }

    pub fn claim_resubmit(&mut self, claim: Claim) -> &mut Self {
        self.claims.push(claim);
        self
    }

    pub fn reservation(&mut self, step: ReservationStep) -> &mut Self {
        self.reservations.push(step);
        self
    }

    /// The command is executed. What an operator has asked for is audited; what callers do with lent nonces is their daily work.
    pub fn command_done(&mut self, command: &Command, result: CommandResult) -> &mut Self {
        let routine = matches!(command.kind, CommandKind::UseReserved { .. } | CommandKind::ReleaseReserved { .. });
        if !routine {
            let refused = if matches!(result, CommandResult::Refused(_)) { "refused: " } else { "" };
            let detail = CommandReport::new(&format!("{refused}{}", result.report()));
            self.audit(NewAudit { actor: command.issued_by.clone(), action: command.kind.as_str(), detail });
        }
        self.commands_done.push((command.id, result));
        self
    }

    pub fn audit(&mut self, entry: NewAudit) -> &mut Self {
        self.audits.push(entry);
        self
    }

    /// What the chain says of the account's count. The latest may go back, with a reorg; the final one does not.
    pub fn observe_counts(
        &mut self,
        cursor: &Cursor,
        latest: Nonce,
        finalized: Nonce,
    ) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if finalized < to.final_nonce {
            return Err(CommitError::Backwards);
        }
        to.chain_nonce = latest;
        to.final_nonce = finalized;
        Ok(self)
    }

    /// Every slot below `nonce` is closed; the lane needs them no more.
    pub fn close_below(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if nonce < to.open_nonce {
            return Err(CommitError::Backwards);
        }
        if nonce > to.next_nonce {
            return Err(CommitError::NonceOutOfOrder { expected: to.next_nonce, got: nonce });
        }
        to.open_nonce = nonce;
        Ok(self)
    }

    pub fn set_in_flight(&mut self, cursor: &Cursor, in_flight: bool) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if !to.is_protected() {
            to.state = if in_flight { LaneState::InFlight } else { LaneState::Idle };
        }
        Ok(self)
    }

    pub fn protect(&mut self, cursor: &Cursor, protection: Protection) -> Result<&mut Self, CommitError> {
        let text = NodeText::new(&format!("{}: {}", protection.code.as_str(), protection.detail));
        let to = self.cursor_mut(cursor)?;
        // A store that lost commits is the worst of reasons: it also keeps anything from ending. Another one is told, but
        // does not take its place; only reconciling does.
        if !to.state.is_store_regressed() || protection.code == ProtectCode::StoreRegressed {
            to.state = LaneState::Protect(protection);
        }
        self.lane_event(cursor, LaneEventKind::Protected, text)
    }

    pub fn unprotect(&mut self, cursor: &Cursor, in_flight: bool, text: NodeText) -> Result<&mut Self, CommitError> {
        self.cursor_mut(cursor)?.state = if in_flight { LaneState::InFlight } else { LaneState::Idle };
        self.lane_event(cursor, LaneEventKind::Unprotected, text)
    }

    pub fn set_paused(&mut self, cursor: &Cursor, paused: bool, text: NodeText) -> Result<&mut Self, CommitError> {
        self.cursor_mut(cursor)?.paused = paused;
        self.lane_event(cursor, if paused { LaneEventKind::Paused } else { LaneEventKind::Resumed }, text)
    }

    pub fn set_low_balance(&mut self, cursor: &Cursor, low: bool, text: NodeText) -> Result<&mut Self, CommitError> {
        self.cursor_mut(cursor)?.low_balance = low;
        self.lane_event(cursor, if low { LaneEventKind::LowBalance } else { LaneEventKind::BalanceRestored }, text)
    }

    pub fn lane_event(
        &mut self,
        cursor: &Cursor,
        kind: LaneEventKind,
        text: NodeText,
    ) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        to.event_seq = to.event_seq.saturating_add(1);
        self.lane_events.push((kind, text));
        Ok(self)
    }

    /// Does it put the lane into PROTECT because the store lost commits, and do nothing else? That is the only write which
    /// a lane may make that has not taken notice yet. Being in that state already is not enough: the store may have lost
    /// more since.
    pub fn acknowledges_regression(&self) -> bool {
        let protects = self.cursor.as_ref().is_some_and(|change| change.to().state.is_store_regressed())
            && self.lane_events.iter().any(|(kind, _)| *kind == LaneEventKind::Protected);
        let nothing_else = self.slots.is_empty()
            && self.changes.is_empty()
            && self.attempts.is_empty()
            && self.reports.is_empty()
            && self.claims.is_empty()
            && self.reservations.is_empty()
            && self.commands_done.is_empty()
            && self.audits.is_empty();
        protects && nothing_else
    }

    /// Is there nothing to write?
    pub fn is_empty(&self) -> bool {
        *self == LaneCommit { above: self.above, ..LaneCommit::new(&self.lease) }
    }

    /// Does some intent end by it?
    pub fn ends_an_intent(&self) -> bool {
        self.changes.iter().any(|change| change.to().name().is_terminal())
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn cursor(&self) -> Option<&CursorChange> {
        self.cursor.as_ref()
    }

    pub fn slots(&self) -> &[NewSlot] {
        &self.slots
    }

    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub fn attempts(&self) -> &[NewAttempt] {
        &self.attempts
    }

    pub fn reports(&self) -> &[SendReport] {
        &self.reports
    }

    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    pub fn reservations(&self) -> &[ReservationStep] {
        &self.reservations
    }

    pub fn commands_done(&self) -> &[(CommandId, CommandResult)] {
        &self.commands_done
    }

    pub fn audits(&self) -> &[NewAudit] {
        &self.audits
    }

    /// The lane's own events, each with its number.
    pub fn lane_events(&self) -> impl Iterator<Item = (u64, LaneEventKind, &NodeText)> {
        let newest = self.cursor.as_ref().map_or(0, |change| change.to().event_seq);
        let first = newest.saturating_sub(self.lane_events.len() as u64);
        self.lane_events.iter().zip(first + 1..).map(|((kind, text), seq)| (seq, *kind, text))
    }

    fn check_submitter(&self, tx: &IntentRecord) -> Result<(), CommitError> {
        if tx.intent.submitter() == self.lease.submitter() { Ok(()) } else { Err(CommitError::OtherSubmitter) }
    }

    fn check_lending(&self, tx: &IntentRecord, step: &ReservationStep) -> Result<(), CommitError> {
        self.check_submitter(tx)?;
        let fits = matches!(step, ReservationStep::Reserve { tx_id, .. } if *tx_id == tx.id) && is_external(tx);
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

    /// Without asking whether the lane may bind: it is used up, whatever we think of it.
    fn take_used_nonce(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<(), CommitError> {
        let to = self.cursor_mut(cursor)?;
        if nonce != to.next_nonce {
            return Err(CommitError::NonceOutOfOrder { expected: to.next_nonce, got: nonce });
        }
        to.next_nonce = nonce.next()?;
        Ok(())
    }

    fn cursor_mut(&mut self, cursor: &Cursor) -> Result<&mut Cursor, CommitError> {
        let change = self.cursor.get_or_insert_with(|| CursorChange::of(cursor));
        if change.from_version() != cursor.version {
            return Err(CommitError::OtherCursor);
        }
        Ok(change.to_mut())
    }
}

fn is_external(tx: &IntentRecord) -> bool {
    matches!(tx.intent.payload(), Payload::Reservation(_))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        AttemptKind, B256, Bytes, EvmCall, Fees, FencingToken, Intent, LockOwner, OwnerId, Payload, ProtectCode,
        RequestId, Speed, SubmitterId, Timestamp, TxId, TxState,
    };

    const ACCOUNT: &str = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    const OTHER: &str = "eip155:2:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    fn lease() -> Lease {
        Lease::granted(ACCOUNT.parse().unwrap(), OwnerId::new("a", 1), FencingToken::new(1))
    }

    fn queued(submitter: &str, seq: u64) -> IntentRecord {
        let submitter: SubmitterId = submitter.parse().unwrap();
        let payload = Payload::Evm(EvmCall::default());
        let intent = Intent::restore(submitter, RequestId::restore("r"), payload, Speed::Standard, None, None);
        IntentRecord {
            id: TxId::from_uuid(uuid::Uuid::from_u128(u128::from(seq))),
            seq,
            intent,
            replacement: None,
            state: TxState::Queued,
            version: 1,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
        }
    }

    fn attempt(nonce: u64) -> NewAttempt {
        NewAttempt {
            nonce: Nonce::new(nonce).unwrap(),
            ordinal: 0,
            kind: AttemptKind::Original,
            hash: B256::with_last_byte(nonce as u8),
            raw: Bytes::new(),
            fees: Fees::Legacy { gas_price: 1 },
        }
    }

    #[test]
    fn binds_are_contiguous_within_a_commit() {
        let cursor = Cursor::starting_at(Nonce::new(5).unwrap());
        let mut commit = LaneCommit::new(&lease());
        commit.bind(&cursor, &queued(ACCOUNT, 1), attempt(5)).unwrap();
        commit.bind(&cursor, &queued(ACCOUNT, 2), attempt(6)).unwrap();
        let gap = commit.bind(&cursor, &queued(ACCOUNT, 3), attempt(8)).unwrap_err();
        assert!(matches!(gap, CommitError::NonceOutOfOrder { .. }));
        assert_eq!(commit.cursor().unwrap().to().next_nonce.get(), 7);
        assert_eq!((commit.slots().len(), commit.changes().len(), commit.attempts().len()), (2, 2, 2));
    }

    #[test]
    fn a_refused_bind_leaves_nothing_behind() {
        let cursor = Cursor::starting_at(Nonce::ZERO);
        let mut commit = LaneCommit::new(&lease());
        assert_eq!(commit.bind(&cursor, &queued(OTHER, 1), attempt(0)).err(), Some(CommitError::OtherSubmitter));
        assert!(commit.slots().is_empty() && commit.changes().is_empty() && commit.attempts().is_empty());
    }

    #[test]
    fn a_nonce_is_lent_to_the_lanes_own_intents_only() {
        let cursor = Cursor::starting_at(Nonce::ZERO);
        let mut commit = LaneCommit::new(&lease());
        let lend = |commit: &mut LaneCommit, tx: &IntentRecord| {
            let lock_owner = LockOwner::new("me").unwrap();
            let step = ReservationStep::Reserve { nonce: Nonce::ZERO, tx_id: tx.id, lock_owner, hold: Duration::ZERO };
            commit.bind_reserved(&cursor, tx, step).err()
        };
        assert_eq!(lend(&mut commit, &external(OTHER)), Some(CommitError::OtherSubmitter));
        assert_eq!(lend(&mut commit, &queued(ACCOUNT, 1)), Some(CommitError::WrongStep), "nobody else signs for it");
        assert!(commit.slots().is_empty() && commit.changes().is_empty() && commit.reservations().is_empty());
        assert_eq!(lend(&mut commit, &external(ACCOUNT)), None);
    }

    fn external(submitter: &str) -> IntentRecord {
        let tx = queued(submitter, 1);
        let payload =
            Payload::Reservation(crate::ReservationRequest { lock_owner: LockOwner::new("me").unwrap(), hold_ms: 1 });
        let intent = &tx.intent;
        let (lane, request) = (intent.submitter().clone(), intent.request_id().clone());
        IntentRecord { intent: Intent::restore(lane, request, payload, Speed::Standard, None, None), ..tx }
    }

    /// What changes a slot too is not to be had without it.
    #[test]
    fn an_intent_alone_is_neither_bound_nor_let_go() {
        let tx = queued(ACCOUNT, 1);
        assert!(tx.change(Transition::Bind(Nonce::ZERO)).is_err());
        let bound = IntentRecord { state: tx.state.apply(Transition::Bind(Nonce::ZERO)).unwrap(), ..tx };
        assert!(bound.change(Transition::ReleaseReserved).is_err());
        let expire = ReservationStep::Expire { nonce: Nonce::ZERO };
        let mut commit = LaneCommit::new(&lease());
        assert_eq!(commit.take_back(&bound, expire).err(), Some(CommitError::WrongStep));
    }

    #[test]
    fn a_lost_store_outweighs_every_other_reason() {
        let lost = Protection { code: ProtectCode::StoreRegressed, detail: NodeText::default() };
        let cursor = Cursor { state: LaneState::Protect(lost.clone()), ..Cursor::starting_at(Nonce::ZERO) };
        let mut commit = LaneCommit::new(&lease());
        let other = Protection { code: ProtectCode::ExternalNonce, detail: NodeText::default() };
        commit.protect(&cursor, other).unwrap();
        assert_eq!(commit.cursor().unwrap().to().state, LaneState::Protect(lost));
        assert_eq!(commit.lane_events().count(), 1);
    }

    #[test]
    fn a_protected_or_paused_lane_binds_nothing() {
        let protection = Protection { code: ProtectCode::CannotFill, detail: NodeText::default() };
        let protected = Cursor { state: LaneState::Protect(protection), ..Cursor::starting_at(Nonce::ZERO) };
        let paused = Cursor { paused: true, ..Cursor::starting_at(Nonce::ZERO) };
        for cursor in [protected, paused] {
            let refused = LaneCommit::new(&lease()).bind(&cursor, &queued(ACCOUNT, 1), attempt(0)).err();
            assert_eq!(refused, Some(CommitError::BindsNothing));
        }
    }

    #[test]
    fn lane_events_continue_the_lanes_numbers() {
        let cursor = Cursor { event_seq: 7, ..Cursor::starting_at(Nonce::ZERO) };
        let mut commit = LaneCommit::new(&lease());
        commit.set_paused(&cursor, true, NodeText::default()).unwrap();
        commit.set_paused(&cursor, false, NodeText::default()).unwrap();
        let numbers: Vec<u64> = commit.lane_events().map(|(seq, _, _)| seq).collect();
        assert_eq!(numbers, [8, 9]);
        assert_eq!(commit.cursor().unwrap().to().event_seq, 9);
    }

    #[test]
    fn only_bound_slots_are_closed_and_never_opened_again() {
        let cursor = Cursor { next_nonce: Nonce::new(7).unwrap(), ..Cursor::starting_at(Nonce::new(5).unwrap()) };
        let close = |nonce| LaneCommit::new(&lease()).close_below(&cursor, Nonce::new(nonce).unwrap()).err();
        assert_eq!(close(7), None);
        assert_eq!(close(4), Some(CommitError::Backwards));
        assert!(matches!(close(8), Some(CommitError::NonceOutOfOrder { .. })));
    }

    #[test]
    fn the_final_count_never_goes_back() {
        let cursor = Cursor::starting_at(Nonce::new(5).unwrap());
        let back = LaneCommit::new(&lease()).observe_counts(&cursor, Nonce::ZERO, Nonce::new(4).unwrap()).err();
        assert_eq!(back, Some(CommitError::Backwards));
    }
}
