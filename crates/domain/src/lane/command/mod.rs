//! Commands of callers and operators, one a file. A command is executed in the commit that writes its result. Executing
//! a command again is harmless, and a commit that was not written leaves the command open.

mod cancel;
mod cancel_pending;
mod pause;
mod release_reserved;
mod replace;
mod request;
mod resubmit;
mod resync;
mod submit_reserved;
mod unprotect;

use std::time::Duration;

use crate::attempt::{AttemptKind, NewAttempt};
use crate::command::{Command, CommandKind, CommandResult};
use crate::cursor::Protection;
use crate::id::TxId;
use crate::intent_record::Change;
use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::reservation::LockOwner;
use crate::slot::SlotKind;
use crate::state::{CancelReason, Goal, TxState};
use crate::text::CommandReport;
use crate::time::Timestamp;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::queue::Coverage;
use crate::lane::reconcile::plan::ReconcilePlan;
use crate::lane::reconcile::scan::ScanFindings;
use crate::lane::reservations::SlotReservation;

/// Number of waiting commands that are tolerated. A store returns twice as many at once.
const MOST_WAITING: usize = 50;
/// Longest time for which a command waits for its intent.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
const NOT_FOUND_YET: &str = "the intent is too far back in the queue, or has ended; try again later";
const UNRECONCILED: &str = "the store lost commits: run resync before anything in this lane may end";
const NOT_OPEN: &str = "the intent is not open in this lane";
const RESERVED: &str = "the nonce is reserved: its holder signs the transaction";

/// The execution of one command.
struct Execution<'a> {
    lane: &'a mut Lane,
    draft: &'a mut Draft,
    command: &'a Command,
}

/// Result of executing a command; `None` if the command has to wait and stays open.
type Answer = Result<Option<CommandResult>, CommitError>;

/// Position of the intent that a command refers to.
enum IntentPosition {
    Slot(Nonce),
    /// Index among the candidates.
    Queue(usize),
    /// The position is not known yet.
    Unknown,
    NotOpen,
}

impl Lane {
    pub(in crate::lane) fn write_commands(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let commands = std::mem::take(&mut self.ledger.commands);
        let written = self.execute_all(&commands, draft);
        self.ledger.commands = commands;
        written
    }

    fn execute_all(&mut self, commands: &[Command], draft: &mut Draft) -> Result<(), CommitError> {
        for command in commands {
            if draft.is_done(command.id) {
                continue;
            }
            let waiting = commands.len().saturating_sub(draft.commit.commands_done().len());
            let answer = match execute(&mut Execution { lane: self, draft, command })? {
                None if self.has_waited_enough(command, waiting, draft.at) => refused(NOT_FOUND_YET)?,
                answer => answer,
            };
            if let Some(result) = answer {
                draft.command_done(command, result);
            }
        }
        Ok(())
    }

    /// True if a command about an unknown intent has waited too long. Such an intent may be further back in the queue
    /// than the lane reads, and the command waits for it. But the command must not hide other commands, nor wait for an
    /// intent that has ended.
    fn has_waited_enough(&self, command: &Command, waiting: usize, at: Timestamp) -> bool {
        let Some(tx_id) = command.kind.tx_id() else { return false };
        if matches!(self.queue.coverage, Coverage::Unread | Coverage::Insufficient) {
            return false;
        }
        let at_the_signer = self.signer.in_flight.iter().flatten().any(|item| item.is_for_intent(tx_id));
        let is_unseen = self.ledger.slots.find(tx_id).is_none() && !at_the_signer;
        is_unseen && (waiting > MOST_WAITING || at > command.issued_at.saturating_add(LONGEST_WAIT))
    }

    /// True if the command refers to an intent that is neither a candidate, nor in a slot, nor about to leave the
    /// queue.
    pub(in crate::lane) fn targets_unknown_intent(&self, command: &Command) -> bool {
        let Some(id) = command.kind.tx_id() else { return false };
        let is_candidate = self.queue.candidates.iter().any(|candidate| candidate.tx.id == id);
        !is_candidate && self.ledger.slots.find(id).is_none() && !self.ids_leaving().any(|leaving| leaving == id)
    }
}

/// Executes one command.
fn execute(run: &mut Execution<'_>) -> Answer {
    let command = run.command;
    match &command.kind {
        CommandKind::Pause => pause::execute(run, true),
        CommandKind::Resume => pause::execute(run, false),
        CommandKind::Unprotect | CommandKind::Resync { .. } => run.wait_for_scan(),
        // A scan explained slots in this commit. Commands about slots wait until it is written.
        _ if run.draft.reconciles() => Ok(None),
        CommandKind::Cancel { tx_id } => cancel::execute(run, *tx_id),
        CommandKind::CancelPending => cancel_pending::execute(run),
        CommandKind::Replace { tx_id, payload } => replace::execute(run, *tx_id, payload),
        CommandKind::Resubmit { tx_id, fees } => resubmit::execute(run, *tx_id, *fees),
        CommandKind::UseReserved { nonce, lock_owner, signed, fees, cost } => {
            let (nonce, hash, raw) = (*nonce, signed.hash, signed.raw.clone());
            let attempt = NewAttempt { nonce, ordinal: 0, kind: AttemptKind::Original, hash, raw, fees: *fees };
            submit_reserved::execute(run, lock_owner, attempt, *cost)
        }
        CommandKind::ReleaseReserved { nonce, lock_owner } => release_reserved::execute(run, *nonce, lock_owner),
    }
}

/// Executes the commands that waited for this scan. Returns true if one of them has decided about the plan.
pub(in crate::lane) fn execute_scanned(
    lane: &mut Lane,
    draft: &mut Draft,
    found: &ScanFindings,
    plan: &ReconcilePlan,
) -> Result<bool, CommitError> {
    let asked: Vec<Command> = lane.ledger.commands.iter().filter(|command| found.is_for(command.id)).cloned().collect();
    let mut decided = false;
    for command in &asked {
        let mut run = Execution { lane, draft, command };
        let answer = match &command.kind {
            CommandKind::Unprotect => unprotect::execute(&mut run, plan)?,
            // One resync per scan, because a later one needs a new scan.
            CommandKind::Resync { dry_run: false, .. } if decided => None,
            CommandKind::Resync { lost, dry_run } => {
                decided |= !dry_run;
                resync::execute(&mut run, plan, *lost, *dry_run)?
            }
            _ => None,
        };
        if let Some(result) = answer {
            draft.command_done(command, result);
        }
    }
    Ok(decided)
}

impl Execution<'_> {
    /// Finds the intent of the command. A signed attempt that is not written has no nonce yet: its intent returns to
    /// the queue, and the attempts signed behind it are planned again.
    fn find(&mut self, id: TxId) -> IntentPosition {
        let lane = &mut *self.lane;
        // The commit being built already replaces the payload of this intent.
        let is_replaced = |change: &Change| change.tx_id() == id && *change.to() == TxState::Queued;
        if self.draft.commit.changes().iter().any(is_replaced) {
            return IntentPosition::Unknown;
        }
        if let Some(nonce) = lane.ledger.slots.find(id) {
            return IntentPosition::Slot(nonce);
        }
        if let Some(at) = lane.signer.signed.iter().position(|item| item.is_for_intent(id)) {
            let item = lane.signer.signed.remove(at);
            lane.return_to_queue(item);
        }
        if let Some(at) = lane.queue.find(id) {
            return IntentPosition::Queue(at);
        }
        let at_the_signer = lane.signer.in_flight.iter().flatten().any(|item| item.is_for_intent(id));
        // The intent may be further back than the queue was read.
        match lane.queue.coverage {
            Coverage::Unread | Coverage::Partial | Coverage::Insufficient => IntentPosition::Unknown,
            Coverage::Complete | Coverage::Outdated if at_the_signer => IntentPosition::Unknown,
            Coverage::Complete | Coverage::Outdated => IntentPosition::NotOpen,
        }
    }

    /// Waits for a scan. A chain with a finality violation gives none.
    fn wait_for_scan(&self) -> Answer {
        if let Some(violation) = self.lane.chain.finality_violation() {
            return refused(&finality_violation_text(violation));
        }
        match self.lane.scans.failure(self.command.id) {
            Some(why) => {
                refused(&format!("the blocks could not be scanned: {why}; nothing was changed, try again later"))
            }
            None => Ok(None),
        }
    }

    /// True if a cancel has the nonce because its reservation timed out.
    fn is_canceled_for_time(&self, nonce: Nonce) -> bool {
        let slot = self.lane.ledger.slots.get(nonce);
        let bound = slot.and_then(|slot| slot.tx.as_ref()?.state.bound());
        bound.is_some_and(|bound| bound.goal == Goal::Cancel(CancelReason::Expired))
    }

    /// Checks that the nonce is reserved for this owner, as this commit leaves it so far. The store checks again, by
    /// its own clock.
    fn check_reservation(&self, nonce: Nonce, by: &LockOwner) -> Result<(), String> {
        let slot = self.lane.ledger.slots.get(nonce).filter(|slot| slot.kind == SlotKind::Reservation);
        let is_submitted = self.draft.submitted_at(nonce).is_some();
        let has_ended = self.draft.ends_reservation(nonce);
        match slot.map(|slot| &slot.reservation) {
            None => Err(format!("nonce {nonce} is not reserved")),
            Some(SlotReservation::Recyclable) => Err(format!("nonce {nonce} is no longer reserved")),
            Some(_) if has_ended => Err(format!("nonce {nonce} is no longer reserved")),
            Some(SlotReservation::NotReserved) if self.is_canceled_for_time(nonce) => {
                Err(format!("the reservation of nonce {nonce} has timed out"))
            }
            Some(SlotReservation::NotReserved) => Err(format!("a transaction for nonce {nonce} was already submitted")),
            Some(_) if is_submitted => Err(format!("a transaction for nonce {nonce} was already submitted")),
            Some(SlotReservation::Reserved { to, .. }) if to != by => {
                Err(format!("nonce {nonce} is reserved by another lock owner"))
            }
            Some(SlotReservation::TimedOut { .. }) => Err(format!("the reservation of nonce {nonce} has timed out")),
            Some(SlotReservation::Reserved { until, .. }) if *until <= self.draft.at => {
                Err(format!("the reservation of nonce {nonce} has timed out"))
            }
            Some(SlotReservation::Reserved { .. }) => Ok(()),
        }
    }
}

/// Refusal of reconciliation while the chain has a finality violation.
pub(in crate::lane) fn finality_violation_text(violation: &Protection) -> String {
    format!("{}; to accept the chain as it is, run `gapless chain accept`", violation.detail)
}

fn done(text: &str) -> Answer {
    Ok(Some(CommandResult::Done(CommandReport::new(text))))
}

fn refused(text: &str) -> Answer {
    Ok(Some(CommandResult::Refused(CommandReport::new(text))))
}
