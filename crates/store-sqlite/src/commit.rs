//! Lane commits: each is written as a whole or not at all, all of them in one transaction.
//!
//! The facts of a commit are read inside of the transaction, and the domain's rules decide. The writes of one lane
//! stand in a savepoint, so a row that the tables cannot hold fails its own lane and leaves the others as they are.

use std::collections::{BTreeMap, BTreeSet};

use gapless_domain::ledger::check;
use gapless_domain::{
    Attempt, CommandResult, CursorChange, LaneCommit, NewAttempt, NodeText, OwnerId, Reservation, SlotKind, SubmitterId,
};
use gapless_store::{AuditRow, CommitVerdict, Committed, Conflict};
use gapless_store_sql::{CursorRow, fees_to_json, sends_to_json, signed};

use crate::change::write_change;
use crate::commit_statements::{
    AttemptInsert, ClaimUpdate, CommandUpdate, CursorWrite, LaneEventInsert, SendUpdate, SlotInsert,
};
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
        let to = CursorRow::from(change.to());
        let write = CursorWrite {
            submitter: self.lane,
            next_nonce: to.next_nonce,
            chain_nonce: to.chain_nonce,
            final_nonce: to.final_nonce,
            open_nonce: to.open_nonce,
            state: to.state,
            protect_code: to.protect_code,
            protect_detail: to.protect_detail,
            paused: to.paused,
            version: to.version,
            event_seq: to.event_seq,
            epoch: self.writing.epoch()?,
            fencing_token: self.token,
            updated_at: self.writing.now.as_micros(),
            low_balance: to.low_balance,
        };
        write.execute(self.writing.sql)?;
        Ok(())
    }

    fn write_slots(&self) -> Result<(), Failure> {
        for new in self.commit.slots() {
            let (kind, tx_id) = rows::slot_columns(new.kind);
            let insert = SlotInsert {
                submitter: self.lane,
                nonce: signed(new.nonce.get()),
                kind,
                tx_id,
                fencing_token: self.token,
                bound_at: self.writing.now.as_micros(),
                above_block: new.above.map(|block| signed(block.number)),
                above_hash: new.above.map(|block| block.hash.0),
                evidence: new.evidence.as_ref().map(NodeText::as_str),
            };
            insert.execute(self.writing.sql)?;
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
        let insert = AttemptInsert {
            submitter: self.lane,
            nonce: signed(new.nonce.get()),
            ordinal: new.ordinal,
            tx_id,
            kind: new.kind.as_str(),
            hash: new.hash.as_slice(),
            raw: new.raw.as_ref(),
            fees: fees_to_json(&new.fees),
            fencing_token: self.token,
            created_at: self.writing.now.as_micros(),
        };
        insert.execute(self.writing.sql)?;
        Ok(())
    }

    fn write_reports(&self) -> Result<(), Failure> {
        for report in self.commit.reports() {
            let update = SendUpdate {
                submitter: self.lane,
                nonce: signed(report.nonce.get()),
                hash: report.hash.as_slice(),
                sent_at: self.writing.now.as_micros(),
                outcome: report.outcome.as_str(),
                text: report.text.as_str(),
                fencing_token: self.token,
                sent: sends_to_json(self.writing.now, &[report]),
                kept: signed(Attempt::HISTORY as u64),
            };
            update.execute(self.writing.sql)?;
        }
        Ok(())
    }

    fn write_claims(&self) -> Result<(), Failure> {
        for claim in self.commit.claims() {
            let update = ClaimUpdate {
                submitter: self.lane,
                nonce: signed(claim.nonce.get()),
                next_resubmit_at: self.writing.now.saturating_add(claim.pause).as_micros(),
                fencing_token: self.token,
                tries: claim.tries,
                signal: claim.signal.map(|signal| signal.as_str()),
            };
            update.execute(self.writing.sql)?;
        }
        Ok(())
    }

    fn finish_commands(&self) -> Result<(), Failure> {
        for (id, result) in self.commit.commands_done() {
            let update = CommandUpdate {
                id: signed(id.0),
                submitter: self.lane,
                done_at: self.writing.now.as_micros(),
                result: result.report().as_str(),
                refused: matches!(result, CommandResult::Refused(_)),
            };
            update.execute(self.writing.sql)?;
        }
        Ok(())
    }

    fn write_lane_events(&self) -> Result<(), Failure> {
        for (seq, kind, text) in self.commit.lane_events() {
            let insert = LaneEventInsert {
                commit_no: self.writing.commit_no(),
                idx: self.writing.next_event_index(),
                submitter: self.lane,
                seq: signed(seq),
                kind: kind.as_str(),
                text: text.as_str(),
                at: self.writing.now.as_micros(),
            };
            insert.execute(self.writing.sql)?;
        }
        Ok(())
    }
}
