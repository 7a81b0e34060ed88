//! ModelLane commits: the domain's rules decide, and the domain's fold writes.

use std::collections::BTreeSet;

use gapless_domain::ledger::{CommitFacts, LeaseFact, Rejection};
use gapless_domain::{Change, Conflict, EventBody, LaneCommit, SubmitterId};

use super::tables::{CallContext, Tables};
use crate::audit::AuditRow;
use crate::roles::CommitVerdict;

impl Tables {
    /// Returns one verdict for each commit. A commit that is refused leaves the other lanes as they are.
    pub(super) fn commit(&mut self, call: &CallContext<'_>, commits: &[LaneCommit]) -> Vec<CommitVerdict> {
        self.begin_transaction();
        let mut seen = BTreeSet::new();
        commits.iter().map(|commit| self.commit_one(call, commit, &mut seen)).collect()
    }

    fn commit_one<'a>(
        &mut self,
        call: &CallContext<'_>,
        commit: &'a LaneCommit,
        seen: &mut BTreeSet<&'a SubmitterId>,
    ) -> CommitVerdict {
        // A lane has one commit in flight: a second one cannot know what the first one changes.
        if !seen.insert(commit.lease().submitter()) {
            return CommitVerdict::Conflict(Conflict::Cursor);
        }
        match self.facts(call, commit).and_then(|facts| call.rules.check(commit, &facts)) {
            Ok(()) => {
                self.write(call, commit);
                CommitVerdict::Done
            }
            Err(rejection) => rejection.into(),
        }
    }

    fn facts(&self, call: &CallContext<'_>, commit: &LaneCommit) -> Result<CommitFacts, Rejection> {
        let lease = if self.holds(call, commit.lease()) { LeaseFact::Held } else { LeaseFact::Lost };
        let ledger = self.ledger(commit.lease().submitter()).ok_or(Rejection::Fenced)?;
        Ok(ledger.facts(commit, lease, call.now))
    }

    fn write(&mut self, call: &CallContext<'_>, commit: &LaneCommit) {
        let submitter = commit.lease().submitter();
        let lane = self.lane_mut(submitter);
        lane.ledger.apply(commit, call.now);
        lane.record_finished(call);
        if let Some(lease) = &mut lane.lease {
            lease.expires_at = call.lease_end();
        }
        for change in commit.changes() {
            self.record_event_of(call, submitter, change);
        }
        for (seq, kind, text) in commit.lane_events() {
            self.record_event(submitter, call.now, EventBody::Lane { seq, kind, text: text.clone() });
        }
        for entry in commit.audits() {
            self.audit(call, AuditRow::of_lane(submitter, entry));
        }
    }

    pub(super) fn record_event_of(&mut self, call: &CallContext<'_>, submitter: &SubmitterId, change: &Change) {
        let intent = (change.tx_id(), change.to_version());
        self.record_change(submitter, call.now, intent, change.event(), change.to().clone(), change.notice());
    }
}
