//! Commands: each is executed in the commit that says so. Executing one again is harmless; a commit that was not written leaves
//! them where they were.

use std::time::Duration;

use crate::attempt::{AttemptKind, NewAttempt};
use crate::command::{Command, CommandKind, CommandResult};
use crate::cursor::Cursor;
use crate::ledger::{CommitError, LaneCommit};
use crate::text::{CommandReport, NodeText};
use crate::time::Tick;

use super::Lane;
use super::writing::{Writing, contradicted};

impl Lane {
    pub(super) fn write_commands(
        &mut self,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let commands = std::mem::take(&mut self.commands);
        let mut written = Ok(());
        for command in &commands {
            if writing.commands.contains(&command.id) {
                continue;
            }
            let waiting = commands.len().saturating_sub(writing.commands.len());
            let answer = match self.execute(command, now, cursor, commit, writing) {
                Ok(None) if self.has_waited_enough(command, waiting, now) => Ok(Some(refused(NOT_SEEN))),
                answer => answer,
            };
            match answer {
                Ok(Some(result)) => {
                    commit.command_done(command, result);
                    writing.commands.push(command.id);
                }
                // Its time has not come: it stays open.
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

    /// What is asked of an intent that is further back in line than anybody looks waits for it to come nearer. But it must not keep other
    /// commands from being seen, nor wait for one that has ended meanwhile.
    fn has_waited_enough(&self, command: &Command, waiting: usize, now: Tick) -> bool {
        let Some(tx_id) = command.kind.tx_id().filter(|_| self.line.known && !self.line.must_look) else {
            return false;
        };
        let at_the_signer = self.signing.iter().flatten().any(|item| item.is_of(tx_id));
        let is_unseen = self.slots.find(tx_id).is_none() && !at_the_signer;
        let is_old = self.database_now(now) > command.issued_at.saturating_add(LONGEST_WAIT);
        is_unseen && (waiting > MOST_WAITING || is_old)
    }

    /// `None` if it has to wait.
    fn execute(
        &mut self,
        command: &Command,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<Option<CommandResult>, CommitError> {
        let at = self.database_now(now);
        match &command.kind {
            // What a survey has explained in this very commit is looked at when it is written.
            CommandKind::Cancel { .. }
            | CommandKind::CancelPending
            | CommandKind::Replace { .. }
            | CommandKind::Resubmit { .. }
            | CommandKind::UseReserved { .. }
            | CommandKind::ReleaseReserved { .. }
                if writing.recovered.changes_slots() =>
            {
                Ok(None)
            }
            CommandKind::Pause => set_paused(true, &command.issued_by, cursor, commit).map(Some),
            CommandKind::Resume => set_paused(false, &command.issued_by, cursor, commit).map(Some),
            CommandKind::Cancel { tx_id } => self.cancel(*tx_id, commit, writing),
            CommandKind::CancelPending => self.cancel_pending(commit, writing).map(Some),
            CommandKind::UseReserved { nonce, lock_owner, signed, fees, cost } => {
                let (hash, raw) = (signed.hash, signed.raw.clone());
                let kind = AttemptKind::Original;
                let attempt = NewAttempt { nonce: *nonce, ordinal: 0, kind, hash, raw, fees: *fees };
                Ok(Some(self.use_reserved(lock_owner, attempt, *cost, at, commit, writing)))
            }
            CommandKind::ReleaseReserved { nonce, lock_owner } => {
                self.release_reserved(*nonce, lock_owner, at, commit, writing).map(Some)
            }
            // They wait for a survey, which a chain that contradicts itself does not give.
            CommandKind::Unprotect | CommandKind::Resync { .. } => {
                let broken = self.chain.as_ref().and_then(|chain| chain.broken.as_ref());
                let unread = self.surveys.is_unanswered(command.id).then(|| refused(UNREAD));
                Ok(broken.map(|broken| refused(&contradicted(broken))).or(unread))
            }
            CommandKind::Replace { tx_id, payload } => self.replace(command, *tx_id, payload, commit, writing),
            CommandKind::Resubmit { tx_id, fees } => self.resubmit(command, *tx_id, *fees, commit, writing),
        }
    }
}

/// A store hands out twice as many at once.
const MOST_WAITING: usize = 50;
const LONGEST_WAIT: Duration = Duration::from_secs(600);
const NOT_SEEN: &str = "it is too far back in line, or has ended; ask again later";
const UNREAD: &str = "no endpoint could show the blocks that would tell; nothing was changed";

/// Asked of the cursor as this commit leaves it: one command may follow another.
fn set_paused(
    wanted: bool,
    issued_by: &NodeText,
    cursor: &Cursor,
    commit: &mut LaneCommit,
) -> Result<CommandResult, CommitError> {
    let is = commit.cursor().map_or(cursor, |change| change.to()).paused;
    if is == wanted {
        return Ok(done("it was so already"));
    }
    commit.set_paused(cursor, wanted, issued_by.clone())?;
    Ok(done("done"))
}

pub(super) fn done(text: &str) -> CommandResult {
    CommandResult::Done(CommandReport::new(text))
}

pub(super) fn refused(text: &str) -> CommandResult {
    CommandResult::Refused(CommandReport::new(text))
}
