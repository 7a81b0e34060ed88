//! Lane commits: asked wholly first, then written wholly.

use std::collections::{BTreeMap, BTreeSet};

use gapless_domain::mistakes::{self, Mistake};
use gapless_domain::{
    Attempt, EventBody, IntentRecord, LaneCommit, NewAttempt, NewSlot, Nonce, ReservationStatus, SendRecord,
    SendReport, Slot, SubmitterId, Timestamp,
};

use super::tables::{Call, CursorRow, FinishedCommand, Lane, Tables};
use crate::audit::AuditRow;
use crate::verdict::{CommitVerdict, Conflict};

impl Tables {
    /// One verdict each; a lane that is refused leaves the others as they are.
    pub(super) fn commit(&mut self, call: &Call<'_>, commits: &[LaneCommit]) -> Vec<CommitVerdict> {
        self.begin_transaction();
        let mut seen = BTreeSet::new();
        commits.iter().map(|commit| self.commit_one(call, commit, &mut seen)).collect()
    }

    fn commit_one<'a>(
        &mut self,
        call: &Call<'_>,
        commit: &'a LaneCommit,
        seen: &mut BTreeSet<&'a SubmitterId>,
    ) -> CommitVerdict {
        if !seen.insert(commit.lease().submitter()) {
            return CommitVerdict::Conflict(Conflict::Cursor);
        }
        match self.check(call, commit) {
            Ok(()) => {
                self.write(call, commit);
                CommitVerdict::Done
            }
            Err(refusal) => refusal,
        }
    }

    /// In this order, so that a commit with several faults gets the same answer from every store.
    fn check(&self, call: &Call<'_>, commit: &LaneCommit) -> Result<(), CommitVerdict> {
        let submitter = commit.lease().submitter();
        let unfenced = mistakes::made(Mistake::ExistsFence);
        let lane = self.lanes.get(submitter).filter(|_| unfenced || self.holds(call, commit.lease()));
        let lane = lane.ok_or(CommitVerdict::Fenced)?;
        // Cannot be with a lease that holds; the SQL stores ask it of every row, as a second fence.
        if lane.written_by > Some(commit.lease().token()) && !unfenced {
            return Err(CommitVerdict::Fenced);
        }
        let stopped = self.is_regressed(submitter) && !commit.acknowledges_regression();
        if stopped || (lane.is_unreconciled() && commit.ends_an_intent()) {
            return Err(CommitVerdict::Regressed);
        }
        lane.check_cursor(commit).map_err(CommitVerdict::Conflict)?;
        self.check_changes(commit).map_err(CommitVerdict::Conflict)?;
        lane.check_slots(commit).map_err(CommitVerdict::Conflict)?;
        lane.check_attempts(commit).map_err(CommitVerdict::Conflict)?;
        let lent = lane.reservations_after(call, commit).map_err(CommitVerdict::Conflict)?;
        let used = |nonce| lent.get(nonce).is_none_or(|status| matches!(status, ReservationStatus::Used { .. }));
        if !commit.attempts().iter().all(|attempt| used(&attempt.nonce)) || !self.may_close(lane, commit) {
            return Err(CommitVerdict::Conflict(Conflict::Cursor));
        }
        Ok(())
    }

    /// No intent below the new open nonce holds its nonce after this commit.
    fn may_close(&self, lane: &Lane, commit: &LaneCommit) -> bool {
        let Some(change) = commit.cursor() else { return true };
        let holds = |tx: &IntentRecord| {
            let mut changes = commit.changes().iter().rev();
            let newest = changes.find(|change| change.tx_id() == tx.id).map_or(&tx.state, |change| change.to());
            newest.bound().is_some_and(|bound| bound.nonce < change.to().open_nonce)
        };
        change.to().open_nonce <= lane.first_open()
            || !self.txs.values().any(|tx| tx.intent.submitter() == commit.lease().submitter() && holds(tx))
    }

    /// Each starts from the version that the row has, or that the change before it in this commit leads to.
    fn check_changes(&self, commit: &LaneCommit) -> Result<(), Conflict> {
        let mut led_to = BTreeMap::new();
        for change in commit.changes() {
            let id = change.tx_id();
            let row = self.txs.get(&id).filter(|row| row.intent.submitter() == commit.lease().submitter());
            let version = led_to.insert(id, change.to_version()).or(row.map(|row| row.version));
            if version != Some(change.from_version()) {
                return Err(Conflict::Tx(id));
            }
        }
        Ok(())
    }

    fn write(&mut self, call: &Call<'_>, commit: &LaneCommit) {
        let submitter = commit.lease().submitter();
        let epoch = self.epoch;
        self.lane_mut(submitter).write(call, commit, epoch);
        for change in commit.changes() {
            if let Some(mut tx) = self.txs.get(&change.tx_id()).cloned() {
                tx.apply(change, call.now);
                self.write_tx(tx, change.event(), change.notice());
            }
        }
        for (seq, kind, text) in commit.lane_events() {
            self.record_event(submitter, call.now, EventBody::Lane { seq, kind, text: text.clone() });
        }
        for entry in commit.audits() {
            self.audit(call, AuditRow::of_lane(submitter, entry));
        }
    }
}

impl Lane {
    /// It took notice that the store lost commits, and nobody has reconciled it yet.
    pub(super) fn is_unreconciled(&self) -> bool {
        self.cursor.as_ref().is_some_and(|row| row.cursor.state.is_store_regressed())
    }

    fn check_cursor(&self, commit: &LaneCommit) -> Result<(), Conflict> {
        let version = self.cursor.as_ref().map_or(0, |row| row.cursor.version);
        match commit.cursor() {
            Some(change) if change.from_version() != version => Err(Conflict::Cursor),
            _ => Ok(()),
        }
    }

    fn check_slots(&self, commit: &LaneCommit) -> Result<(), Conflict> {
        let mut new = BTreeSet::new();
        for slot in commit.slots() {
            if (self.slots.contains_key(&slot.nonce) && !reuses_nonces()) || !new.insert(slot.nonce) {
                return Err(Conflict::Slot(slot.nonce));
            }
        }
        let is_bound = |nonce: &Nonce| self.slots.contains_key(nonce) || new.contains(nonce);
        let attempts = commit.attempts().iter().map(|attempt| attempt.nonce);
        let claims = commit.claims().iter().map(|claim| claim.nonce);
        match attempts.chain(claims).find(|nonce| !is_bound(nonce)) {
            Some(nonce) => Err(Conflict::Slot(nonce)),
            None => Ok(()),
        }
    }

    /// A send is reported only of what was durable before (P3), so not of an attempt of the same commit.
    fn check_attempts(&self, commit: &LaneCommit) -> Result<(), Conflict> {
        let (mut places, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for attempt in commit.attempts() {
            let place = (attempt.nonce, attempt.ordinal);
            let is_taken = self.attempts.contains_key(&place) && !reuses_nonces();
            let exists = is_taken || self.hashes.contains_key(&attempt.hash);
            if exists || !places.insert(place) || !hashes.insert(attempt.hash) {
                return Err(Conflict::Slot(attempt.nonce));
            }
        }
        for report in commit.reports() {
            if self.hashes.get(&report.hash).is_none_or(|(nonce, _)| *nonce != report.nonce) {
                return Err(Conflict::Slot(report.nonce));
            }
        }
        Ok(())
    }

    fn write(&mut self, call: &Call<'_>, commit: &LaneCommit, epoch: u64) {
        self.written_by = Some(commit.lease().token());
        if let Some(lease) = &mut self.lease {
            lease.expires_at = call.lease_end();
        }
        if let Ok(reservations) = self.reservations_after(call, commit) {
            self.reservations = reservations;
        }
        if let Some(change) = commit.cursor() {
            self.cursor = Some(CursorRow { cursor: change.to().clone(), epoch });
        }
        for new in commit.slots() {
            self.slots.insert(new.nonce, bound(new, call.now));
        }
        for new in commit.attempts() {
            self.hashes.insert(new.hash, (new.nonce, new.ordinal));
            self.attempts.insert((new.nonce, new.ordinal), durable(new, call.now));
        }
        for report in commit.reports() {
            let place = self.hashes.get(&report.hash);
            if let Some(attempt) = place.and_then(|place| self.attempts.get_mut(place)) {
                attempt.sends += 1;
                attempt.last_sent_at = Some(call.now);
                attempt.last_outcome = Some((report.outcome, report.text.clone()));
                let SendReport { outcome, text, heard, .. } = report.clone();
                attempt.history.push(SendRecord { at: call.now, outcome, text, heard });
                let over = attempt.history.len().saturating_sub(Attempt::HISTORY);
                attempt.history.drain(..over);
            }
        }
        for claim in commit.claims() {
            if let Some(slot) = self.slots.get_mut(&claim.nonce) {
                slot.next_resubmit_at = Some(call.now.saturating_add(claim.pause));
                slot.tries = claim.tries;
                slot.signal = claim.signal.or(slot.signal);
            }
        }
        for (id, result) in commit.commands_done() {
            if self.commands.remove(id).is_some() {
                self.commands_done.insert(*id, FinishedCommand { result: result.clone(), at: call.now });
            }
        }
    }
}

/// A store that knows nothing of slots would not mind.
fn reuses_nonces() -> bool {
    mistakes::made(Mistake::RecycleAfterTimeout) || mistakes::made(Mistake::RejectedFreesNonce)
}

fn bound(new: &NewSlot, now: Timestamp) -> Slot {
    Slot {
        nonce: new.nonce,
        kind: new.kind,
        above: new.above,
        evidence: new.evidence.clone(),
        bound_at: now,
        next_resubmit_at: None,
        tries: 0,
        signal: None,
    }
}

fn durable(new: &NewAttempt, now: Timestamp) -> Attempt {
    Attempt {
        nonce: new.nonce,
        ordinal: new.ordinal,
        kind: new.kind,
        hash: new.hash,
        raw: new.raw.clone(),
        fees: new.fees,
        created_at: now,
        sends: 0,
        last_sent_at: None,
        last_outcome: None,
        history: Vec::new(),
    }
}
