//! Peeking: reads of the queue and of the commands.

use std::collections::HashSet;

use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::effect::{Effect, Step};
use crate::lane::fact::Peeked;
use crate::lane::queue::{Coverage, PeekInFlight, Stage};

/// A queue with enough candidates is read at every this many-th interval; at the others, the lane reads only its
/// commands.
const FULL_QUEUE_PEEK_EVERY: u32 = 5;

/// A read of the store, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Read {
    Nothing,
    Commands,
    Queue,
}

/// Supply of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// There are candidates for all nonces that may be bound. New intents wait behind them.
    Enough,
    /// The queue may hold intents for nonces that may be bound.
    Low,
    /// No candidate is known to be missing, but the queue may have changed.
    Unsure,
}

impl Lane {
    pub(in crate::lane) fn plan_peek(&mut self, now: Tick, step: &mut Step) {
        if self.queue.is_peeking() || self.is_draining() {
            return;
        }
        let ahead = self.peek_ahead();
        let supply = self.supply(ahead);
        let again_at = self.queue.times.last_peek.saturating_add(self.setup.limits.look_interval);
        // A failed peek is repeated after a pause.
        let retry_at = self.queue.times.began.saturating_add(self.setup.limits.pauses.retry);
        let may_retry = !self.queue.has_failed_peek() || now >= retry_at;
        let needed = self.needed_read(supply);
        let by_clock = if now >= again_at { self.read_by_clock(supply, now) } else { Read::Nothing };
        let (limit, without) = match by_clock.max(if may_retry { needed } else { Read::Nothing }) {
            Read::Queue => {
                // Intents that are leaving the queue may still be first in it.
                let without: Vec<TxId> = self.ids_leaving().collect();
                let limit = u32::try_from(ahead).unwrap_or(u32::MAX);
                self.queue.begin_peek(limit, without.iter().copied().collect(), now);
                (limit, without)
            }
            Read::Commands => {
                self.queue.begin_command_poll(now);
                if now >= again_at {
                    self.queue.times.last_peek = now;
                }
                (0, Vec::new())
            }
            Read::Nothing if needed == Read::Nothing => return step.wake(again_at),
            Read::Nothing => return step.wake(retry_at.min(again_at)),
        };
        self.ledger.commands_done.clear();
        step.effects.push(Effect::Peek { limit, without });
    }

    /// Number of candidates to read ahead.
    fn peek_ahead(&self) -> usize {
        let batch = self.setup.limits.batch.max(8);
        let ahead = usize::from(self.setup.policy.nonce.max_in_flight).saturating_mul(2).clamp(8, batch);
        // A scan compares queued intents with foreign transactions, and needs more of the queue.
        if self.compares_queue() { ahead.max(self.setup.limits.adopt) } else { ahead }
    }

    fn supply(&self, ahead: usize) -> Supply {
        let is_filled = self.queue.candidates.len() >= self.free().clamp(1, ahead);
        match is_filled {
            true if self.queue.was_read() && !self.compares_queue() => Supply::Enough,
            false if self.queue.may_have_more() => Supply::Low,
            true | false => Supply::Unsure,
        }
    }

    /// Read that a change, a command or a lack of candidates calls for.
    fn needed_read(&self, supply: Supply) -> Read {
        // Intents whose bind has not committed are still QUEUED in the store. Peek at most once per commit, or they are
        // read again and again.
        let was_read = self.commits.draft.is_some()
            && self.queue.was_read_since_commit()
            && self.queue.was_read()
            && !self.compares_queue();
        let wanted = self.queue.wants_peek();
        match supply {
            _ if self.queue.coverage == Coverage::Insufficient => Read::Queue,
            // The intents behind a canceled candidate must not wait for it.
            _ if self.queue.may_have_lost_candidate() => Read::Queue,
            // A lane at its limit is woken for every accepted intent, and must not read its whole queue each time.
            Supply::Enough if wanted => Read::Commands,
            Supply::Low if !was_read => Read::Queue,
            Supply::Unsure if wanted && !was_read => Read::Queue,
            Supply::Low | Supply::Unsure if wanted => Read::Commands,
            Supply::Enough | Supply::Low | Supply::Unsure => Read::Nothing,
        }
    }

    /// Read at the interval. A candidate may be canceled in the store at any time. This matters most for the front, if
    /// the others wait for it.
    fn read_by_clock(&self, supply: Supply, now: Tick) -> Read {
        let full_interval = self.setup.limits.look_interval.saturating_mul(FULL_QUEUE_PEEK_EVERY);
        let stale_at = self.queue.times.last_read.saturating_add(full_interval);
        let front_is_backing_off = self.queue.first().is_some_and(|first| matches!(first.stage, Stage::Later(_)));
        match supply {
            Supply::Enough if now < stale_at && !front_is_backing_off => Read::Commands,
            Supply::Enough | Supply::Low | Supply::Unsure => Read::Queue,
        }
    }

    pub(in crate::lane) fn peeked(&mut self, answer: Option<Peeked>) {
        let Some(peek) = self.queue.end_peek() else { return };
        let Some(Peeked { queue, commands }) = answer else {
            self.queue.peek_failed(&peek);
            return;
        };
        self.ledger.commands =
            commands.into_iter().filter(|command| !self.ledger.commands_done.contains(&command.id)).collect();
        if peek.limit > 0 {
            self.merge(&peek, queue);
        } else if self.ledger.commands.iter().any(|command| self.targets_unknown_intent(command)) {
            self.queue.want_read();
        }
        self.drop_orphaned_requests();
    }

    fn merge(&mut self, peek: &PeekInFlight, queue: Vec<IntentRecord>) {
        if peek.limit as usize >= self.setup.limits.adopt && !peek.is_outdated {
            self.scans.queue_was_read();
        }
        let leaving: HashSet<TxId> = self.ids_leaving().collect();
        let slots = &self.ledger.slots;
        self.queue.merge(peek, queue, |id| slots.holds(id) || leaving.contains(&id));
    }

    /// Intents that are about to leave the queue. The store may still list them as queued.
    pub(in crate::lane) fn ids_leaving(&self) -> impl Iterator<Item = TxId> {
        let signing = self.signer.in_flight.iter().flatten().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let signed = self.signer.signed.iter().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let drafted = self.commits.draft.iter().flat_map(Draft::ids);
        signing.chain(signed).chain(drafted)
    }
}
