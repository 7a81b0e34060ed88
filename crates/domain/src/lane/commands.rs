//! Execution of commands. A command is executed in the commit that writes its result. Executing a command again is
//! harmless, and a rolled back commit leaves the command open.

use std::time::Duration;

use crate::attempt::{AttemptKind, NewAttempt};
use crate::command::{Command, CommandKind, CommandResult};
use crate::cursor::Cursor;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::text::{CommandReport, NodeText};
use crate::time::Tick;

use super::Lane;
use super::pending_commit::{PendingCommit, finality_violation_text};

impl Lane {
    pub(super) fn write_commands(
        &mut self,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let commands = std::mem::take(&mut self.commands);
        let mut written = Ok(());
        for command in &commands {
            if pending.commands.contains(&command.id) {
                continue;
            }
            let waiting = commands.len().saturating_sub(pending.commands.len());
            let answer = match self.execute(command, now, cursor, commit, pending) {
                Ok(None) if self.has_waited_enough(command, waiting, now) => Ok(Some(refused(NOT_FOUND_YET))),
                answer => answer,
            };
            match answer {
                Ok(Some(result)) => {
                    commit.command_done(command, result);
                    pending.commands.push(command.id);
                }
                // The command has to wait and stays open.
                Ok(None) => {}
                Err(error) => {
                    written = Err(error);
                    break;
                }
            }
        }
        self.commands = commands;
        written
    }

    /// True if a command about an unknown intent has waited too long. Such an intent may be further back in the queue
    /// than the lane reads, and the command waits for it. But the command must not hide other commands, nor wait for an
    /// intent that has ended.
    fn has_waited_enough(&self, command: &Command, waiting: usize, now: Tick) -> bool {
        let Some(tx_id) = command.kind.tx_id().filter(|_| self.queue.was_read && !self.queue.must_peek) else {
            return false;
        };
        let at_the_signer = self.signing.iter().flatten().any(|item| item.is_for_intent(tx_id));
        let is_unseen = self.slots.find(tx_id).is_none() && !at_the_signer;
        let is_old = self.database_now(now) > command.issued_at.saturating_add(LONGEST_WAIT);
        is_unseen && (waiting > MOST_WAITING || is_old)
    }

    /// Executes one command; `None` if it has to wait.
    fn execute(
        &mut self,
        command: &Command,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<Option<CommandResult>, CommitError> {
        let at = self.database_now(now);
        match &command.kind {
            // A scan explained slots in this commit. Commands about slots wait until it is written.
            CommandKind::Cancel { .. }
            | CommandKind::CancelPending
            | CommandKind::Replace { .. }
            | CommandKind::Resubmit { .. }
            | CommandKind::UseReserved { .. }
            | CommandKind::ReleaseReserved { .. }
                if pending.reconciled.changes_slots() =>
            {
                Ok(None)
            }
            CommandKind::Pause => set_paused(true, &command.issued_by, cursor, commit).map(Some),
            CommandKind::Resume => set_paused(false, &command.issued_by, cursor, commit).map(Some),
            CommandKind::Cancel { tx_id } => self.cancel(*tx_id, commit, pending),
            CommandKind::CancelPending => self.cancel_pending(commit, pending).map(Some),
            CommandKind::UseReserved { nonce, lock_owner, signed, fees, cost } => {
                let (hash, raw) = (signed.hash, signed.raw.clone());
                let kind = AttemptKind::Original;
                let attempt = NewAttempt { nonce: *nonce, ordinal: 0, kind, hash, raw, fees: *fees };
                Ok(Some(self.use_reserved(lock_owner, attempt, *cost, at, commit, pending)))
            }
            CommandKind::ReleaseReserved { nonce, lock_owner } => {
                self.release_reserved(*nonce, lock_owner, at, commit, pending).map(Some)
            }
            // These commands wait for a scan, and a chain with a finality violation gives none.
            CommandKind::Unprotect | CommandKind::Resync { .. } => {
                let broken = self.chain.as_ref().and_then(|chain| chain.finality_violation.as_ref());
                let unread = self.scans.is_unanswered(command.id).then(|| refused(BLOCKS_UNREAD));
                Ok(broken.map(|broken| refused(&finality_violation_text(broken))).or(unread))
            }
            CommandKind::Replace { tx_id, payload } => self.replace(command, *tx_id, payload, commit, pending),
            CommandKind::Resubmit { tx_id, fees } => self.resubmit(command, *tx_id, *fees, commit, pending),
        }
    }
}

/// Number of waiting commands that are tolerated. A store returns twice as many at once.
const MOST_WAITING: usize = 50;
/// Longest time for which a command waits for its intent.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
const NOT_FOUND_YET: &str = "the intent is too far back in the queue, or has ended; try again later";
const BLOCKS_UNREAD: &str = "no endpoint could provide the blocks for a scan; nothing was changed, try again later";

/// Pauses or resumes the lane. Compares with the cursor as this commit leaves it, because one command may follow
/// another.
fn set_paused(
    wanted: bool,
    issued_by: &NodeText,
    cursor: &Cursor,
    commit: &mut LaneCommit,
) -> Result<CommandResult, CommitError> {
    let is = commit.cursor().map_or(cursor, |change| change.to()).paused;
    if is == wanted {
        return Ok(done(if wanted { "the lane is already paused" } else { "the lane is not paused" }));
    }
    commit.set_paused(cursor, wanted, issued_by.clone())?;
    Ok(done(if wanted { "the lane is paused" } else { "the lane is resumed" }))
}

pub(super) fn done(text: &str) -> CommandResult {
    CommandResult::Done(CommandReport::new(text))
}

pub(super) fn refused(text: &str) -> CommandResult {
    CommandResult::Refused(CommandReport::new(text))
}
