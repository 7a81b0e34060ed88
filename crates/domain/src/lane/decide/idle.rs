//! The end of a lane: drained, or idle for long enough.

use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::effect::{Effect, Step};
use crate::lane::lane_state::Phase;

impl Lane {
    pub(in crate::lane) fn plan_end(&mut self, now: Tick, step: &mut Step) {
        self.phase = match self.phase {
            Phase::Over => return,
            Phase::Draining if self.has_work_in_flight() => Phase::Draining,
            Phase::Draining => self.release(step),
            Phase::Working | Phase::Idle(_) if !self.is_idle() => Phase::Working,
            Phase::Working => self.linger(now, now, step),
            Phase::Idle(since) => self.linger(since, now, step),
        };
    }

    /// Keeps a lane without work for a while.
    fn linger(&self, since: Tick, now: Tick, step: &mut Step) -> Phase {
        let over_at = since.saturating_add(self.setup.limits.idle_linger);
        if self.queue.is_peeking() {
            // The answer to the peek decides.
            return Phase::Idle(since);
        }
        if now >= over_at {
            return self.release(step);
        }
        step.wake(over_at);
        Phase::Idle(since)
    }

    fn release(&self, step: &mut Step) -> Phase {
        step.effects.push(Effect::Release);
        Phase::Over
    }

    /// Binds nothing more, finishes the work in flight, and releases the lease.
    pub(in crate::lane) fn drain(&mut self) {
        if self.phase != Phase::Over {
            self.phase = Phase::Draining;
        }
    }

    pub(in crate::lane) fn is_draining(&self) -> bool {
        self.phase == Phase::Draining
    }

    fn has_work_in_flight(&self) -> bool {
        self.commits.draft.is_some()
            || self.outbox.broadcasts > 0
            || self.signer.in_flight.is_some()
            || !self.outbox.reports.is_empty()
    }

    /// True if the lane has no work, and waits for no answer but the one to a peek.
    fn is_idle(&self) -> bool {
        let has_intents = !self.ledger.slots.is_empty()
            || !self.queue.candidates.is_empty()
            || self.queue.wants_peek()
            || self.queue.may_have_more();
        let reads_chain = self.scans.is_under_way() || self.scans.has_found() || self.funds.is_reading();
        let writes = !self.ledger.commands.is_empty() || self.commits.protection.is_some() || self.ledger.regressed;
        !(has_intents || reads_chain || writes || self.has_work_in_flight())
    }
}
