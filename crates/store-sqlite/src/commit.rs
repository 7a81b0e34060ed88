//! Lane commits: each wholly or not at all, all of them in one transaction.
//!
//! Every step writes and finds out by that whether the rows still are what the lane thought. The steps of one lane stand
//! in a savepoint, so a lane that is refused leaves nothing behind and does not touch the others.

use std::collections::BTreeSet;

use gapless_domain::{
    Attempt, Claim, CommandResult, CursorChange, LaneCommit, LaneState, NewAttempt, NodeText, Nonce, OwnerId,
    SendReport, SubmitterId,
};
use gapless_store::{AuditRow, CommitVerdict, Committed, Conflict};
use gapless_store_sql::{fees_to_json, sends_to_json, signed};

use crate::audit;
use crate::change::write_change;
use crate::error::{Failure, is_taken, refusal};
use crate::lease;
use crate::ledger::Writing;
use crate::reservation::take_steps;
use crate::rows;

/// Why a lane's commit stops.
#[derive(Debug)]
pub(crate) enum Stop {
    Verdict(CommitVerdict),
    Failure(Failure),
}

impl From<Conflict> for Stop {
    fn from(conflict: Conflict) -> Self {
        Stop::Verdict(CommitVerdict::Conflict(conflict))
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Stop::Failure(error.into())
    }
}

/// One lane's commit while it is being written.
pub(crate) struct LaneWrite<'a> {
    pub(crate) writing: &'a Writing<'a>,
    pub(crate) commit: &'a LaneCommit,
    pub(crate) lane: &'a str,
    pub(crate) token: i64,
    /// The open nonce before this commit.
    pub(crate) first_open: i64,
}

/// What the cursor's row holds before a commit.
pub(crate) struct CursorRow {
    pub(crate) version: i64,
    pub(crate) epoch: i64,
    pub(crate) fence: i64,
    pub(crate) open_nonce: i64,
    /// In PROTECT because the store lost commits.
    pub(crate) unreconciled: bool,
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
    if !seen.insert(commit.lease().submitter()) {
        return Ok(CommitVerdict::Conflict(Conflict::Cursor));
    }
    let lane = commit.lease().submitter().as_str();
    let before = cursor_row(writing, lane)?;
    let first_open = before.as_ref().map_or(0, |row| row.open_nonce);
    let write = LaneWrite { writing, commit, lane, token: signed(commit.lease().token().get()), first_open };
    match writing.alone(|| write.write(owner, before.as_ref())) {
        Ok(()) => Ok(CommitVerdict::Done),
        Err(Stop::Verdict(verdict)) => Ok(verdict),
        Err(Stop::Failure(failure)) => match refusal(&failure) {
            Some(text) => Ok(CommitVerdict::Refused(text)),
            None => Err(failure),
        },
    }
}

pub(crate) fn cursor_row(writing: &Writing<'_>, lane: &str) -> Result<Option<CursorRow>, Failure> {
    let statement = writing.sql.prepare_cached(
        "SELECT version, epoch, fencing_token, open_nonce, protect_code IS 'store_regressed'
         FROM submitter_nonce_cursor WHERE submitter = ?1",
    )?;
    rows::first(statement, [lane], |row| {
        Ok(CursorRow {
            version: row.get(0)?,
            epoch: row.get(1)?,
            fence: row.get(2)?,
            open_nonce: row.get(3)?,
            unreconciled: row.get(4)?,
        })
    })
}

impl LaneWrite<'_> {
    /// In this order, so that a commit with several faults gets the same answer from every store.
    fn write(&self, owner: &OwnerId, before: Option<&CursorRow>) -> Result<(), Stop> {
        if !lease::holds(self.writing, owner, self.commit.lease())? {
            return Err(Stop::Verdict(CommitVerdict::Fenced));
        }
        self.write_cursor(before)?;
        self.write_changes()?;
        self.write_slots()?;
        self.write_attempts()?;
        self.write_reports()?;
        take_steps(self)?;
        self.write_claims()?;
        self.finish_commands()?;
        self.write_lane_events()?;
        self.write_audits()?;
        self.check_lent()?;
        self.check_closed(before)?;
        Ok(lease::extend(self.writing, self.commit.lease())?)
    }

    /// A nonce that is lent, or may be lent again, has no transaction of ours.
    fn check_lent(&self) -> Result<(), Stop> {
        for attempt in self.commit.attempts() {
            let lent = self.writing.sql.prepare_cached(
                "SELECT 1 FROM submitter_nonce_allocation WHERE submitter = ?1 AND nonce = ?2 AND status <> 'USED'",
            )?;
            if rows::first(lent, (self.lane, signed(attempt.nonce.get())), rows::value::<i64>)?.is_some() {
                return Err(Conflict::Cursor.into());
            }
        }
        Ok(())
    }

    /// After the changes of this commit, no intent below the new open nonce may still hold its nonce.
    fn check_closed(&self, before: Option<&CursorRow>) -> Result<(), Stop> {
        let Some(change) = self.commit.cursor() else { return Ok(()) };
        let was_open = before.map_or(0, |row| row.open_nonce);
        let held = self.writing.sql.prepare_cached(
            "SELECT 1 FROM slot s
             LEFT JOIN submitter_nonce_allocation r ON r.submitter = s.submitter AND r.nonce = s.nonce
             JOIN managed_tx t ON t.tx_id = coalesce(s.tx_id, r.tx_id) AND t.nonce = s.nonce
             WHERE s.submitter = ?1 AND s.nonce >= ?2 AND s.nonce < ?3
               AND t.state IN ('ALLOCATED', 'TRACKING', 'STUCK') LIMIT 1",
        )?;
        let range = (self.lane, was_open, signed(change.to().open_nonce.get()));
        match rows::first(held, range, rows::value::<i64>)? {
            Some(_) => Err(Conflict::Cursor.into()),
            None => Ok(()),
        }
    }

    fn write_cursor(&self, before: Option<&CursorRow>) -> Result<(), Stop> {
        if before.is_some_and(|row| row.fence > self.token) {
            return Err(Stop::Verdict(CommitVerdict::Fenced));
        }
        let change = self.commit.cursor();
        let stopped = !self.commit.acknowledges_regression()
            && self.writing.is_regressed(self.lane, before.map(|row| row.epoch))?;
        if stopped || (before.is_some_and(|row| row.unreconciled) && self.commit.ends_an_intent()) {
            return Err(Stop::Verdict(CommitVerdict::Regressed));
        }
        let version = before.map_or(0, |row| row.version);
        match change {
            Some(change) if signed(change.from_version()) != version => Err(Conflict::Cursor.into()),
            Some(change) => self.put_cursor(change),
            None => Ok(()),
        }
    }

    fn put_cursor(&self, change: &CursorChange) -> Result<(), Stop> {
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

    /// One after the other, so that a change finds the version that the one before it has led to.
    fn write_changes(&self) -> Result<(), Stop> {
        for change in self.commit.changes() {
            let lane = self.commit.lease().submitter();
            if !write_change(self.writing, lane, change, Some(self.token))? {
                return Err(Conflict::Tx(change.tx_id()).into());
            }
        }
        Ok(())
    }

    fn write_slots(&self) -> Result<(), Stop> {
        let mut statement = self.writing.sql.prepare_cached(
            "INSERT INTO slot (submitter, nonce, kind, tx_id, fencing_token, bound_at, above_block, above_hash, evidence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (submitter, nonce) DO NOTHING",
        )?;
        for new in self.commit.slots() {
            let (kind, tx_id) = rows::slot_columns(new.kind);
            let row = (
                self.lane,
                signed(new.nonce.get()),
                kind,
                tx_id,
                self.token,
                self.writing.now.as_micros(),
                new.above.map(|block| signed(block.number)),
                new.above.map(|block| block.hash.0),
                new.evidence.as_ref().map(NodeText::as_str),
            );
            if statement.execute(row)? == 0 {
                return Err(Conflict::Slot(new.nonce).into());
            }
        }
        let attempts = self.commit.attempts().iter().map(|attempt| attempt.nonce);
        let claims = self.commit.claims().iter().map(|claim| claim.nonce);
        for nonce in attempts.chain(claims) {
            if !self.is_bound(nonce)? {
                return Err(Conflict::Slot(nonce).into());
            }
        }
        Ok(())
    }

    fn is_bound(&self, nonce: Nonce) -> Result<bool, Stop> {
        let mut statement = self
            .writing
            .sql
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM slot WHERE submitter = ?1 AND nonce = ?2)")?;
        Ok(statement.query_one((self.lane, signed(nonce.get())), |row| row.get(0))?)
    }

    fn write_attempts(&self) -> Result<(), Stop> {
        for new in self.commit.attempts() {
            if !self.write_attempt(new)? {
                return Err(Conflict::Slot(new.nonce).into());
            }
        }
        Ok(())
    }

    /// An attempt belongs to the intent of its slot. One at a lent nonce belongs to nobody until that is used. Said in two statements:
    /// one that selects what it inserts has SQLite make a table for it each time.
    fn write_attempt(&self, new: &NewAttempt) -> Result<bool, Stop> {
        let (sql, nonce) = (self.writing.sql, signed(new.nonce.get()));
        let whose = sql.prepare_cached(
            "SELECT coalesce(slot.tx_id, (SELECT lent.tx_id FROM submitter_nonce_allocation AS lent
                 WHERE lent.submitter = ?1 AND lent.nonce = ?2 AND lent.status = 'USED'))
             FROM slot WHERE slot.submitter = ?1 AND slot.nonce = ?2",
        )?;
        let Some(tx_id) = rows::first(whose, (self.lane, nonce), rows::value::<Option<String>>)? else {
            return Ok(false);
        };
        let written = sql
            .prepare_cached(
                "INSERT INTO tx_attempt (submitter, nonce, ordinal, tx_id, kind, hash, raw, fees, fencing_token, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                self.lane,
                nonce,
                new.ordinal,
                tx_id,
                new.kind.as_str(),
                new.hash.as_slice(),
                new.raw.as_ref(),
                fees_to_json(&new.fees),
                self.token,
                self.writing.now.as_micros(),
            ));
        match written {
            Err(error) if is_taken(&error) => Ok(false),
            written => Ok(written? == 1),
        }
    }

    fn write_reports(&self) -> Result<(), Stop> {
        for report in self.commit.reports() {
            // A send is reported only of what was durable before (P3), so not of an attempt of the same commit.
            let too_early = self.commit.attempts().iter().any(|attempt| attempt.hash == report.hash);
            if too_early || !self.write_report(report)? {
                return Err(Conflict::Slot(report.nonce).into());
            }
        }
        Ok(())
    }

    fn write_report(&self, report: &SendReport) -> Result<bool, Stop> {
        let written = self
            .writing
            .sql
            .prepare_cached(
                "UPDATE tx_attempt SET sends = sends + 1, last_sent_at = ?4, last_outcome = ?5, last_text = ?6,
                     fencing_token = ?7,
                     history = json_insert(
                         CASE WHEN json_array_length(history) < ?9 THEN history ELSE json_remove(history, '$[0]') END,
                         '$[#]', json_extract(?8, '$[0]'))
                 WHERE submitter = ?1 AND nonce = ?2 AND hash = ?3 AND fencing_token <= ?7",
            )?
            .execute((
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
        Ok(written == 1)
    }

    fn write_claims(&self) -> Result<(), Stop> {
        let mut statement = self.writing.sql.prepare_cached(
            "UPDATE slot SET next_resubmit_at = ?3, fencing_token = ?4, tries = ?5, signal = coalesce(?6, signal)
             WHERE submitter = ?1 AND nonce = ?2 AND fencing_token <= ?4",
        )?;
        for Claim { nonce, pause, tries, signal } in self.commit.claims() {
            let until = self.writing.now.saturating_add(*pause).as_micros();
            let signal = signal.map(|signal| signal.as_str());
            if statement.execute((self.lane, signed(nonce.get()), until, self.token, tries, signal))? == 0 {
                return Err(Conflict::Slot(*nonce).into());
            }
        }
        Ok(())
    }

    /// A command that is done already stays as it is.
    fn finish_commands(&self) -> Result<(), Stop> {
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

    fn write_audits(&self) -> Result<(), Stop> {
        for entry in self.commit.audits() {
            audit::write(self.writing, &AuditRow::of_lane(self.commit.lease().submitter(), entry))?;
        }
        Ok(())
    }

    fn write_lane_events(&self) -> Result<(), Stop> {
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
