//! How a lane is run.

use std::time::Duration;

use crate::policy::SubmitterPolicy;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneSetup {
    pub policy: SubmitterPolicy,
    pub limits: LaneLimits,
}

/// The limits and paces of a lane, by the names that the config gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Slots that may be open at once: bound, mined and waiting to be final.
    pub open_slots: usize,
    /// Bytes of signed transactions that may be bound and not mined at once; one always may.
    pub window_bytes: usize,
    /// Nonces that one reconciliation with the chain adopts at the most.
    pub adopt: usize,
    /// Intents that are signed, written or sent in one go.
    pub batch: usize,
    /// Calldata in one batch of binds.
    pub batch_bytes: usize,
    /// How often a held lane looks at its queue, whatever wake-ups are lost; one that has everybody in line for whom there is room reads its
    /// commands then, and its line at every fifth look.
    pub look_interval: Duration,
    /// How long a lane without work is kept.
    pub idle_linger: Duration,
    /// How often counts and balance are read while the lane works.
    pub account_interval: Duration,
    /// Confirmation notices that are written when there is a new head, beside the first, the last and those of forks; who was told
    /// longest ago comes first.
    pub notices_per_head: usize,
    /// How old a price may be when it is signed.
    pub price_age: Duration,
    /// Before preparing again what could not be prepared.
    pub prepare_retry: Duration,
    /// Before the first resend of what no node has taken; twice as long each time.
    pub resend_first: Duration,
    pub resend_longest: Duration,
    /// Before a commit is tried again that the store could not take, and before a signer is asked again.
    pub retry: Duration,
}

impl Default for LaneLimits {
    fn default() -> Self {
        LaneLimits {
            open_slots: 16_384,
            window_bytes: 8 << 20,
            adopt: 10_000,
            batch: 256,
            batch_bytes: 1 << 20,
            look_interval: Duration::from_secs(2),
            idle_linger: Duration::from_secs(5),
            account_interval: Duration::from_secs(15),
            notices_per_head: 100,
            price_age: Duration::from_secs(15),
            prepare_retry: Duration::from_secs(1),
            resend_first: Duration::from_secs(1),
            resend_longest: Duration::from_secs(60),
            retry: Duration::from_millis(500),
        }
    }
}

impl LaneSetup {
    pub(super) fn resubmit_interval(&self) -> Option<Duration> {
        let policy = &self.policy.resubmit;
        policy.enabled.then_some(policy.interval)
    }
}
