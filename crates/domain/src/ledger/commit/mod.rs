//! [`LaneCommit`]: one fenced write of one lane.
//!
//! - this file: the value, its plain parts, and its accessors
//! - `binding`: the verbs that bind, adopt, reserve or lose a nonce
//! - `lane_row`: the verbs that change the cursor and record lane events

mod binding;
mod lane_row;
#[cfg(test)]
mod tests;

use crate::attempt::{NewAttempt, SendReport};
use crate::audit::NewAudit;
use crate::block::BlockRef;
use crate::command::{Command, CommandId, CommandKind, CommandResult};
use crate::cursor::CursorChange;
use crate::event::LaneEventKind;
use crate::intent_record::Change;
use crate::lease::Lease;
use crate::nonce::{Nonce, NonceError};
use crate::reservation::ReservationStep;
use crate::slot::{Claim, NewSlot};
use crate::text::{CommandReport, NodeText};
use crate::transition::IllegalTransition;

/// One fenced write of one lane. A [`Lease`] is needed to make one. A store applies all of it in one database
/// transaction, or none of it.
///
/// A store first runs [`check`](super::check): the rows must still be what the lane knew (cursor version, intent
/// versions, owners of reservations). Otherwise the verdict is a conflict, and the lane loads itself again.
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
    /// The block that new slots of this commit are bound above.
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
    #[error("the lane has no cursor yet")]
    NoCursor,
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

    /// Marks a command as executed. Commands of operators are audited. Submitting and releasing reserved nonces is the
    /// daily work of callers, and is not.
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

    /// True if the commit puts the lane into PROTECT because the store lost commits, and does nothing else. A lane that
    /// has not acknowledged the loss may write nothing but this. Being in that PROTECT state already is not enough: the
    /// store may have lost more since.
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

    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == LaneCommit { above: self.above, ..LaneCommit::new(&self.lease) }
    }

    /// True if the commit moves an intent into a terminal state.
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
}
