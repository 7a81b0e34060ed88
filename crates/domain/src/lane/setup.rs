//! Settings of a lane.

use std::time::Duration;

use crate::policy::SubmitterPolicy;
use crate::rules::ChainRules;

/// Policies, limits and chain rules of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSetup {
    pub policy: SubmitterPolicy,
    pub limits: LaneLimits,
    pub rules: &'static dyn ChainRules,
}

/// Limits and intervals of a lane, by the names that the config gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Largest number of open slots: bound, or mined and not final.
    pub open_slots: usize,
    /// Largest total of signed bytes that are bound and not mined. One transaction is always allowed.
    pub window_bytes: usize,
    /// Largest number of nonces that one reconciliation adopts.
    pub adopt: usize,
    /// Largest number of intents that are signed, written or sent at once.
    pub batch: usize,
    /// Largest number of broadcasts of the lane in flight. Above one, nodes may receive higher nonces first.
    pub broadcasts: usize,
    /// Largest total of the callers' bytes in one batch of binds.
    pub batch_bytes: usize,
    /// Interval at which an owned lane reads its queue without a wake-up. A lane with enough candidates reads only its
    /// commands at this interval, and its queue at every fifth one.
    pub look_interval: Duration,
    /// How long a lane without work is kept.
    pub idle_linger: Duration,
    /// Interval at which the account is read while the lane works.
    pub account_interval: Duration,
    /// Largest number of confirmation notices per new head, besides the first notice, the last notice and notices of
    /// forks. The slot whose last notice is oldest comes first.
    pub notices_per_head: usize,
    /// Largest age of a price at the time of signing.
    pub price_age: Duration,
    pub pauses: LanePauses,
}

/// Pauses before a lane tries again, by the names that the config gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePauses {
    /// Pause before a failed preparation is tried again.
    pub prepare_retry: Duration,
    /// Pause before the first resend of a transaction that no node accepted; it doubles each time.
    pub resend_first: Duration,
    /// Longest pause between two resends.
    pub resend_longest: Duration,
    /// Pause before a failed commit or a failed signing is tried again.
    pub retry: Duration,
}

impl Default for LaneLimits {
    fn default() -> Self {
        LaneLimits {
            open_slots: 16_384,
            window_bytes: 8 << 20,
            adopt: 10_000,
            batch: 256,
            broadcasts: 1,
            batch_bytes: 1 << 20,
            look_interval: Duration::from_secs(2),
            idle_linger: Duration::from_secs(5),
            account_interval: Duration::from_secs(15),
            notices_per_head: 100,
            price_age: Duration::from_secs(15),
            pauses: LanePauses::default(),
        }
    }
}

impl Default for LanePauses {
    fn default() -> Self {
        LanePauses {
            prepare_retry: Duration::from_secs(1),
            resend_first: Duration::from_secs(1),
            resend_longest: Duration::from_secs(60),
            retry: Duration::from_millis(500),
        }
    }
}

impl LaneSetup {
    /// The defaults of a kind of chain.
    pub fn new(rules: &'static dyn ChainRules) -> Self {
        LaneSetup { policy: rules.defaults(), limits: LaneLimits::default(), rules }
    }

    pub(super) fn resubmit_interval(&self) -> Option<Duration> {
        let policy = &self.policy.resubmit;
        policy.enabled.then_some(policy.interval)
    }
}
