//! The end of a lane: drained, or idle for long enough.

use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::effect::{Effect, Step};

impl Lane {
    pub(in crate::lane) fn plan_end(&mut self, now: Tick, step: &mut Step) {
        if self.draining {
            if !self.has_work_in_flight() {
                self.over = true;
                step.effects.push(Effect::Release);
            }
            return;
        }
        if !self.is_idle() {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(now);
        let over_at = since.saturating_add(self.setup.limits.idle_linger);
        if self.queue.is_peeking() {
            // The answer to the peek decides.
        } else if now >= over_at {
            self.over = true;
            step.effects.push(Effect::Release);
        } else {
            step.wake(over_at);
        }
    }

    fn has_work_in_flight(&self) -> bool {
        self.draft.is_some() || self.broadcasting || self.signing.is_some() || !self.reports.is_empty()
    }

    /// True if the lane has no work, and waits for no answer but the one to a peek.
    fn is_idle(&self) -> bool {
        let has_intents = !self.slots.is_empty()
            || !self.queue.candidates.is_empty()
            || self.queue.wants_peek()
            || self.queue.may_have_more();
        let reads_chain = self.scans.is_under_way() || self.scans.has_found() || self.funds.is_reading();
        let writes = !self.commands.is_empty() || self.protect.is_some() || self.regressed;
        !(has_intents || reads_chain || writes || self.has_work_in_flight())
    }
}
