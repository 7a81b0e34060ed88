//! Lane commits: each is written as a whole or not at all, all of them in one transaction.
//!
//! The facts of a commit are read inside of the transaction, and the domain's rules decide. The writes of one lane
//! stand in a savepoint, so a row that the tables cannot hold fails its own lane and leaves the others as they are.

use std::collections::{BTreeMap, BTreeSet};

use gapless_domain::ledger::check;
use gapless_domain::{
    Attempt, Claim, CommandResult, CursorChange, LaneCommit, LaneState, NewAttempt, NodeText, OwnerId, Reservation,
    SlotKind, SubmitterId,
};
use gapless_store::{AuditRow, CommitVerdict, Committed, Conflict};
use gapless_store_sql::{fees_to_json, sends_to_json, signed};

use crate::change::write_change;
use crate::error::{Failure, refusal};
use crate::ledger::Writing;
use crate::{audit, facts, lease, reservation, rows};

/// One lane's commit while it is being written.
struct LaneWrite<'a> {
    writing: &'a Writing<'a>,
    commit: &'a LaneCommit,
    lane: &'a str,
    token: i64,
    /// The reservations that the commit changes, as it leaves them.
    reservations: Vec<Reservation>,
}

pub(crate) fn commit(writing: &Writing<'_>, owner: &OwnerId, commits: &[LaneCommit]) -> Result<Committed, Failure> {
    let mut seen = BTreeSet::new();
    let verdicts = commits.iter().map(|commit| commit_one(writing, owner, commit, &mut seen));
    Ok(Committed { verdicts: verdicts.collect::<Result<_, _>>()?, at: writing.now, replicated: true })
}

fn commit_one<'a>(
    writing: &Writing<'_>,
    owner: &OwnerId,
    commit: &'a LaneCommit,
    seen: &mut BTreeSet<&'a SubmitterId>,
) -> Result<CommitVerdict, Failure> {
    // A lane has one commit in flight: a second one cannot know what the first one changes.
    if !seen.insert(commit.lease().submitter()) {
        return Ok(CommitVerdict::Conflict(Conflict::Cursor));
    }
    let reservations = match check(commit, &facts::gather(writing, owner, commit)?) {
        Ok(reservations) => reservations,
        Err(rejection) => return Ok(rejection.into()),
    };
    let (lane, token) = (commit.lease().submitter().as_str(), signed(commit.lease().token().get()));
    let write = LaneWrite { writing, commit, lane, token, reservations };
    match writing.alone(|| write.write()) {
        Ok(()) => Ok(CommitVerdict::Done),
        Err(failure) => refusal(&failure).map(CommitVerdict::Refused).ok_or(failure),
    }
}

impl LaneWrite<'_> {
    /// Writes everything. Attempts take their intent from the slots and reservations that are written before them.
    fn write(&self) -> Result<(), Failure> {
        if let Some(change) = self.commit.cursor() {
            self.write_cursor(change)?;
        }
        for change in self.commit.changes() {
            write_change(self.writing, self.commit.lease().submitter(), change, Some(self.token))?;
        }
        self.write_slots()?;
        reservation::write(self.writing, self.lane, self.token, &self.reservations)?;
        self.write_attempts()?;
        self.write_reports()?;
        self.write_claims()?;
        self.finish_commands()?;
        self.write_lane_events()?;
        for entry in self.commit.audits() {
            audit::write(self.writing, &AuditRow::of_lane(self.commit.lease().submitter(), entry))?;
        }
        lease::extend(self.writing, self.commit.lease())
    }

    /// The row carries the newest epoch: a lane that has not acknowledged that epoch may only write its
    /// acknowledgement.
    fn write_cursor(&self, change: &CursorChange) -> Result<(), Failure> {
        let (to, epoch) = (change.to(), self.writing.epoch()?);
        let (code, detail) = match &to.state {
            LaneState::Protect(protection) => (Some(protection.code.as_str()), Some(protection.detail.as_str())),
            LaneState::Idle | LaneState::InFlight => (None, None),
        };
        self.writing
            .sql
            .prepare_cached(
                "INSERT OR REPLACE INTO submitter_nonce_cursor (submitter, next_nonce, chain_nonce, final_nonce,
                     open_nonce, state, protect_code, protect_detail, paused, version, event_seq, epoch, fencing_token,
                     updated_at, low_balance)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )?
            .execute((
                self.lane,
                signed(to.next_nonce.get()),
                signed(to.chain_nonce.get()),
                signed(to.final_nonce.get()),
                signed(to.open_nonce.get()),
                to.state.as_str(),
                code,
                detail,
                to.paused,
                signed(to.version),
                signed(to.event_seq),
                epoch,
                self.token,
                self.writing.now.as_micros(),
                to.low_balance,
            ))?;
        Ok(())
    }

    fn write_slots(&self) -> Result<(), Failure> {
        let mut statement = self.writing.sql.prepare_cached(
            "INSERT INTO slot
                 (submitter, nonce, kind, tx_id, fencing_token, bound_at, above_block, above_hash, evidence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        for new in self.commit.slots() {
            let (kind, tx_id) = rows::slot_columns(new.kind);
            statement.execute((
                self.lane,
                signed(new.nonce.get()),
                kind,
                tx_id,
                self.token,
                self.writing.now.as_micros(),
                new.above.map(|block| signed(block.number)),
                new.above.map(|block| block.hash.0),
                new.evidence.as_ref().map(NodeText::as_str),
            ))?;
        }
        Ok(())
    }

    fn write_attempts(&self) -> Result<(), Failure> {
        let fresh: BTreeMap<_, _> = self.commit.slots().iter().map(|slot| (slot.nonce, slot.kind)).collect();
        for new in self.commit.attempts() {
            let tx_id = match fresh.get(&new.nonce) {
                Some(SlotKind::Intent(id)) => Some(id.to_string()),
                _ => self.owner_of_attempt(new)?,
            };
            self.write_attempt(new, tx_id)?;
        }
        Ok(())
    }

    /// The intent of an attempt's slot, or of the reservation that was submitted there. A separate statement, because
    /// SQLite builds a temporary table for an INSERT that selects.
    fn owner_of_attempt(&self, new: &NewAttempt) -> Result<Option<String>, Failure> {
        let owner = self.writing.sql.prepare_cached(
            "SELECT coalesce(slot.tx_id, (SELECT reserved.tx_id FROM submitter_nonce_allocation AS reserved
                 WHERE reserved.submitter = ?1 AND reserved.nonce = ?2 AND reserved.status = 'USED'))
             FROM slot WHERE slot.submitter = ?1 AND slot.nonce = ?2",
        )?;
        Ok(rows::first(owner, (self.lane, signed(new.nonce.get())), rows::value::<Option<String>>)?.flatten())
    }

    fn write_attempt(&self, new: &NewAttempt, tx_id: Option<String>) -> Result<(), Failure> {
        self.writing
            .sql
            .prepare_cached(
                "INSERT INTO tx_attempt
                     (submitter, nonce, ordinal, tx_id, kind, hash, raw, fees, fencing_token, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                self.lane,
                signed(new.nonce.get()),
                new.ordinal,
                tx_id,
                new.kind.as_str(),
                new.hash.as_slice(),
                new.raw.as_ref(),
                fees_to_json(&new.fees),
                self.token,
                self.writing.now.as_micros(),
            ))?;
        Ok(())
    }

    fn write_reports(&self) -> Result<(), Failure> {
        let mut statement = self.writing.sql.prepare_cached(
            "UPDATE tx_attempt SET sends = sends + 1, last_sent_at = ?4, last_outcome = ?5, last_text = ?6,
                 fencing_token = ?7,
                 history = json_insert(
                     CASE WHEN json_array_length(history) < ?9 THEN history ELSE json_remove(history, '$[0]') END,
                     '$[#]', json_extract(?8, '$[0]'))
             WHERE submitter = ?1 AND nonce = ?2 AND hash = ?3",
        )?;
        for report in self.commit.reports() {
            statement.execute((
                self.lane,
                signed(report.nonce.get()),
                report.hash.as_slice(),
                self.writing.now.as_micros(),
                report.outcome.as_str(),
                report.text.as_str(),
                self.token,
                sends_to_json(self.writing.now, &[report]),
                signed(Attempt::HISTORY as u64),
            ))?;
        }
        Ok(())
    }

    fn write_claims(&self) -> Result<(), Failure> {
        let mut statement = self.writing.sql.prepare_cached(
            "UPDATE slot SET next_resubmit_at = ?3, fencing_token = ?4, tries = ?5, signal = coalesce(?6, signal)
             WHERE submitter = ?1 AND nonce = ?2",
        )?;
        for Claim { nonce, pause, tries, signal } in self.commit.claims() {
            let until = self.writing.now.saturating_add(*pause).as_micros();
            let signal = signal.map(|signal| signal.as_str());
            statement.execute((self.lane, signed(nonce.get()), until, self.token, tries, signal))?;
        }
        Ok(())
    }

    /// A command that is done already keeps its result.
    fn finish_commands(&self) -> Result<(), Failure> {
        let mut statement = self.writing.sql.prepare_cached(
            "UPDATE lane_command SET done_at = ?3, result = ?4, refused = ?5
             WHERE id = ?1 AND submitter = ?2 AND done_at IS NULL",
        )?;
        for (id, result) in self.commit.commands_done() {
            let refused = matches!(result, CommandResult::Refused(_));
            let report = result.report().as_str();
            statement.execute((signed(id.0), self.lane, self.writing.now.as_micros(), report, refused))?;
        }
        Ok(())
    }

    fn write_lane_events(&self) -> Result<(), Failure> {
        let mut statement = self.writing.sql.prepare_cached(
            "INSERT INTO tx_event (commit_no, idx, submitter, seq, kind, text, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for (seq, kind, text) in self.commit.lane_events() {
            statement.execute((
                self.writing.commit_no(),
                self.writing.next_event_index(),
                self.lane,
                signed(seq),
                kind.as_str(),
                text.as_str(),
                self.writing.now.as_micros(),
            ))?;
        }
        Ok(())
    }
}
