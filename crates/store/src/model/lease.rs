//! Leases: the right to write a lane, by the database's clock.

use gapless_domain::{FencingToken, Lease, SubmitterId, Timestamp};

use super::tables::{CallContext, ModelLease, Tables};
use crate::roles::{Acquired, LeaseStatus, Renewal};

impl Tables {
    pub(super) fn acquire(&mut self, call: &CallContext<'_>, submitter: &SubmitterId) -> Acquired {
        let lease = &mut self.lane_mut(submitter).lease;
        let token = match lease {
            None => FencingToken::new(1),
            Some(row) if row.owner == *call.owner && row.is_valid(call) => row.token,
            Some(row) if row.owner == *call.owner || row.is_free(call) => call.rules.next_token(row.token),
            Some(_) => return Acquired::HeldByOther,
        };
        *lease = Some(ModelLease { owner: call.owner.clone(), token, expires_at: call.lease_end() });
        Acquired::Held(Lease::granted(submitter.clone(), call.owner.clone(), token))
    }

    pub(super) fn renew(&mut self, call: &CallContext<'_>) -> Renewal {
        let mut renewal = Renewal::default();
        for (submitter, lane) in &mut self.lanes {
            if let Some(row) = lane.lease.as_mut().filter(|row| row.owner == *call.owner && row.is_valid(call)) {
                row.expires_at = call.lease_end();
                renewal.extended.push(Lease::granted(submitter.clone(), row.owner.clone(), row.token));
            }
        }
        renewal
    }

    /// Releases a lease. Returns true if another node should take the lane, because work is left. An idle lane wakes no
    /// node, or idle lanes would change owners for ever.
    pub(super) fn release(&mut self, call: &CallContext<'_>, lease: &Lease) -> bool {
        let Some(lane) = self.lanes.get_mut(lease.submitter()) else { return false };
        let Some(row) = lane.lease.as_mut().filter(|row| row.is_of(call, lease)) else { return false };
        row.expires_at = LeaseStatus::RELEASED;
        lane.ledger.has_work()
    }

    /// True if the caller holds the lease now. Every fenced verb asks this first.
    pub(super) fn holds(&self, call: &CallContext<'_>, lease: &Lease) -> bool {
        let row = self.lanes.get(lease.submitter()).and_then(|lane| lane.lease.as_ref());
        row.is_some_and(|row| row.is_of(call, lease) && row.is_valid(call))
    }
}

impl ModelLease {
    /// True if the row is this lease, and the caller is the process that it was granted to.
    fn is_of(&self, call: &CallContext<'_>, lease: &Lease) -> bool {
        lease.owner() == call.owner && self.owner == *lease.owner() && self.token == lease.token()
    }

    pub(super) fn is_valid(&self, call: &CallContext<'_>) -> bool {
        self.expires_at > call.now && !self.is_absurd(call)
    }

    /// True if another process may take the lease. The skew covers the clock of a database server after a failover.
    fn is_free(&self, call: &CallContext<'_>) -> bool {
        self.expires_at.saturating_add(call.terms.clock_skew) < call.now || self.is_absurd(call)
    }

    /// True if the lease ends later than any lease that is granted now: the database's clock has gone back.
    fn is_absurd(&self, call: &CallContext<'_>) -> bool {
        self.expires_at > call.lease_end().saturating_add(call.terms.clock_skew)
    }
}

impl CallContext<'_> {
    pub(super) fn lease_end(&self) -> Timestamp {
        self.now.saturating_add(self.terms.duration)
    }
}
