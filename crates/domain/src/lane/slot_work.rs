//! The work that the lane has with one open slot, by concern: its state on chain, its sends, its next attempt, and the
//! resends up to a decision. A state carries the data that exists in it.

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::MempoolSignal;
use crate::block::{BlockLink, BlockRef, Inclusion};
use crate::time::Tick;

use super::decide::next_attempt::RequestedAttempt;
use super::decide::stuck::DecisionState;
use super::fact::Prepared;

/// State of a slot on chain, by any of its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MiningState {
    Unmined(Unmined),
    /// The ledger says that the transaction is in this block. The block was not compared with the chain since the lane
    /// was loaded.
    Unverified(BlockRef),
    Mined(Inclusion),
    /// Final, with the confirmations of the inclusion if they are known.
    Final(Inclusion, Option<Arc<[BlockLink]>>),
    /// The nonce was finally consumed by something else. The slot has no work left.
    Lost,
}

/// A slot that no known block contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmined {
    /// Number of lookups at which all hashes were missing while the nonce was consumed; `None` while the nonce is not
    /// consumed.
    pub(super) missed_lookups: Option<u32>,
    /// A former owner sent the attempt.
    pub(super) inherited: bool,
}

/// Confirmation notices of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Notice {
    /// The slot is not in the lane's queue for notices.
    #[default]
    None,
    Queued,
    /// The slot is in the queue, and its notice is to be written.
    Due,
}

/// Sends of a slot, and the answers to them.
#[derive(Debug, Default)]
pub(super) struct Sends {
    pub(super) next: Sending,
    /// Number of sends in a row without an acknowledgement.
    pub(super) failures: u32,
    /// Some node has accepted an attempt.
    pub(super) acknowledged: bool,
    pub(super) refusals: Refusals,
    /// Head at the last send of any attempt; `None` if the lane was loaded after that.
    pub(super) sent_at_head: Option<u64>,
    /// Head at the first send of the newest attempt; `None` if the lane was loaded after that.
    pub(super) newest_sent_at_head: Option<u64>,
}

/// Refusals of the wanted attempt since the last acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    /// Nodes report that the account cannot pay.
    pub(super) short_of_funds: bool,
    /// Nodes reject the attempt itself, not only its price.
    pub(super) rejected: bool,
}

/// Next send of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sending {
    /// No send is planned.
    #[default]
    Idle,
    /// To be sent at this time.
    Send {
        at: Tick,
    },
    /// To be claimed in the ledger at this time, and then sent again.
    Claim {
        at: Tick,
        diagnosis: Diagnosis,
    },
    /// The commit with the claim is in flight. The signal is the one that the claim records.
    Claiming {
        signal: Option<MempoolSignal>,
    },
    InFlight,
}

/// Progress of a mempool diagnosis before a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Diagnosis {
    None,
    Requested,
    Known(MempoolSignal),
}

impl Sending {
    pub(super) fn claim(at: Tick) -> Self {
        Sending::Claim { at, diagnosis: Diagnosis::None }
    }

    /// True if no send is in flight or being claimed.
    pub(super) fn is_waiting(self) -> bool {
        matches!(self, Sending::Idle | Sending::Send { .. } | Sending::Claim { .. })
    }

    /// Sends at once after a claim that was written.
    pub(super) fn after_claim(self, now: Tick) -> Self {
        if let Sending::Claiming { .. } = self { Sending::Send { at: now } } else { self }
    }

    /// Claims again after a claim that was not written.
    pub(super) fn without_claim(self) -> Self {
        let Sending::Claiming { signal } = self else { return self };
        Sending::Claim { at: Tick::default(), diagnosis: signal.map_or(Diagnosis::None, Diagnosis::Known) }
    }

    /// Records the progress of the diagnosis before a claim.
    pub(super) fn diagnosed(self, diagnosis: Diagnosis) -> Self {
        if let Sending::Claim { at, .. } = self { Sending::Claim { at, diagnosis } } else { self }
    }
}

/// The next attempt at the same nonce.
#[derive(Debug, Default)]
pub(super) struct NextAttempt {
    /// Reason why a dearer attempt is needed.
    pub(super) bump_reason: Option<BumpReason>,
    /// The attempt that a command has requested.
    pub(super) requested: Option<RequestedAttempt>,
    pub(super) step: AttemptStep,
    /// Number of the last price request; answers to older requests are ignored.
    pub(super) ticket: u32,
}

/// Reason for a bump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BumpReason {
    /// Nodes ask for a higher price.
    Underpriced,
    /// Another transaction in the pool has the same nonce, so the market price is not enough.
    ReplacementUnderpriced,
    /// The attempt has waited long enough.
    Overdue,
}

/// Progress of the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AttemptStep {
    /// No further attempt is being made.
    #[default]
    None,
    /// A price was requested.
    Pricing,
    /// To be tried again at this time.
    Later(Tick),
    /// The price is known.
    Ready(Prepared),
    /// The attempt is at the signer, or signed and not yet durable.
    Signing,
}

/// Resends of a slot, up to the decision about a stuck intent.
#[derive(Debug, Default)]
pub(super) struct Resends {
    /// Number of resends and bumps since the bind, or since the last decision.
    pub(super) tries: u16,
    /// Newest mempool signal.
    pub(super) signal: Option<MempoolSignal>,
    pub(super) decision: DecisionState,
}

/// Pauses between sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) first: Duration,
    pub(super) longest: Duration,
    pub(super) resubmit: Option<Duration>,
}

impl Pace {
    /// Pause after this many failures in a row; it doubles each time.
    pub(super) fn after_failures(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}
