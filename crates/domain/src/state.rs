//! States of an intent. Each state carries exactly the data that exists in it.

use crate::block::{BlockRef, Execution, Inclusion};
use crate::names::names;
use crate::nonce::Nonce;
use crate::text::NodeText;

/// State of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxState {
    /// Durable and in the queue, without a nonce.
    Queued,
    /// A nonce is bound and an attempt is durable; no node has acknowledged the attempt yet.
    Allocated(Bound),
    /// A node has acknowledged an attempt.
    Tracking(Bound),
    /// Needs a decision. The intent is still confirmed if the chain mines it.
    Stuck(Bound, StuckReason),
    /// One of our hashes is final and succeeded.
    Confirmed(Settled),
    /// Reverted and final, or failed before a nonce was bound.
    FailedFinal(FinalFailure),
    /// Canceled in the queue, or a transaction without the payload is final at the nonce.
    Canceled(Cancellation),
}

/// Data of an intent that has a nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub nonce: Nonce,
    pub goal: Goal,
    pub progress: Progress,
}

/// Purpose that the intent's slot serves now. The goal survives a reorg: a canceled intent is canceled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Deliver,
    Replace,
    Cancel(CancelReason),
}

/// Position of a bound intent on chain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most intents end mined, and the value is moved seldom")]
pub enum Progress {
    Pending,
    AwaitingFunds,
    Mined(Mined),
}

/// The transaction is in a canonical block that is not final yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mined {
    pub inclusion: Inclusion,
    /// The last confirmation that consumers were notified of. It stands for the whole list up to it.
    pub notified: BlockRef,
}

/// A nonce that is finally consumed by one of our hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub nonce: Nonce,
    pub inclusion: Inclusion,
}

/// Why an intent failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalFailure {
    Unbound(FailReason, NodeText),
    Reverted(Settled),
}

/// How an intent was canceled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most intents end mined, and the value is moved seldom")]
pub enum Cancellation {
    InQueue(CancelReason),
    /// The reserved nonce was released before a transaction was submitted.
    Released,
    OnChain(CancelReason, Settled),
}

names! {
    /// Reason of a cancellation.
    CancelReason {
        User = "user",
        Expired = "expired",
        Rejected = "rejected",
    }
}

names! {
    /// Reason of a failure in the queue.
    FailReason {
        InvalidPayload = "invalid_payload",
        SimulationReverted = "simulation_reverted",
        InsufficientFunds = "insufficient_funds",
        Expired = "expired",
        /// The nonce was consumed by a foreign transaction, and the operator chose not to requeue the intent.
        NonceLost = "nonce_lost",
    }
}

names! {
    /// Reason why an intent is stuck.
    StuckReason {
        OutOfTries = "out_of_tries",
        Contradiction = "contradiction",
    }
}

names! {
    /// Names of the states, as operators and callers see them.
    StateName {
        Queued = "QUEUED",
        Allocated = "ALLOCATED",
        Tracking = "TRACKING",
        Stuck = "STUCK",
        Confirmed = "CONFIRMED",
        FailedFinal = "FAILED_FINAL",
        Canceled = "CANCELED",
    }
}

names! {
    /// Names of the sub-states of a bound intent.
    SubStateName {
        Pending = "PENDING",
        Mined = "MINED",
        AwaitingFunds = "AWAITING_FUNDS",
        Canceling = "CANCELING",
        Replacing = "REPLACING",
    }
}

impl StateName {
    pub fn is_terminal(self) -> bool {
        match self {
            StateName::Confirmed | StateName::FailedFinal | StateName::Canceled => true,
            StateName::Queued | StateName::Allocated | StateName::Tracking | StateName::Stuck => false,
        }
    }

    pub fn is_bound(self) -> bool {
        matches!(self, StateName::Allocated | StateName::Tracking | StateName::Stuck)
    }
}

impl TxState {
    pub fn name(&self) -> StateName {
        match self {
            TxState::Queued => StateName::Queued,
            TxState::Allocated(_) => StateName::Allocated,
            TxState::Tracking(_) => StateName::Tracking,
            TxState::Stuck(..) => StateName::Stuck,
            TxState::Confirmed(_) => StateName::Confirmed,
            TxState::FailedFinal(_) => StateName::FailedFinal,
            TxState::Canceled(_) => StateName::Canceled,
        }
    }

    pub fn bound(&self) -> Option<&Bound> {
        match self {
            TxState::Allocated(bound) | TxState::Tracking(bound) | TxState::Stuck(bound, _) => Some(bound),
            _ => None,
        }
    }

    /// The nonce that the intent holds or has consumed.
    pub fn nonce(&self) -> Option<Nonce> {
        match self {
            TxState::Allocated(bound) | TxState::Tracking(bound) | TxState::Stuck(bound, _) => Some(bound.nonce),
            TxState::Confirmed(settled)
            | TxState::FailedFinal(FinalFailure::Reverted(settled))
            | TxState::Canceled(Cancellation::OnChain(_, settled)) => Some(settled.nonce),
            TxState::Queued
            | TxState::FailedFinal(FinalFailure::Unbound(..))
            | TxState::Canceled(Cancellation::InQueue(_) | Cancellation::Released) => None,
        }
    }

    /// The inclusion that ended the intent.
    pub fn inclusion(&self) -> Option<&Inclusion> {
        match self {
            TxState::Confirmed(settled)
            | TxState::FailedFinal(FinalFailure::Reverted(settled))
            | TxState::Canceled(Cancellation::OnChain(_, settled)) => Some(&settled.inclusion),
            _ => None,
        }
    }

    pub fn sub_state(&self) -> Option<SubStateName> {
        self.bound().map(Bound::sub_state)
    }
}

impl Bound {
    /// The sub-state that callers see. The position on chain takes precedence over the goal.
    pub fn sub_state(&self) -> SubStateName {
        match (&self.progress, self.goal) {
            (Progress::Mined(_), _) => SubStateName::Mined,
            (Progress::AwaitingFunds, _) => SubStateName::AwaitingFunds,
            (Progress::Pending, Goal::Cancel(_)) => SubStateName::Canceling,
            (Progress::Pending, Goal::Replace) => SubStateName::Replacing,
            (Progress::Pending, Goal::Deliver) => SubStateName::Pending,
        }
    }
}

impl Settled {
    /// The terminal state of an intent whose slot was consumed by this inclusion. Only the final block counts: if a
    /// cancel lost the race, the intent is confirmed, also when a former owner sent the original late (N24).
    pub(crate) fn end_state(self, goal: Goal) -> TxState {
        if !self.inclusion.kind.carries_payload() {
            let reason = match goal {
                Goal::Cancel(reason) => reason,
                // No cancel was requested, so the filler was sent because nodes rejected the original.
                Goal::Deliver | Goal::Replace => CancelReason::Rejected,
            };
            return TxState::Canceled(Cancellation::OnChain(reason, self));
        }
        match self.inclusion.execution {
            Execution::Success => TxState::Confirmed(self),
            Execution::Reverted { .. } => TxState::FailedFinal(FinalFailure::Reverted(self)),
        }
    }
}
