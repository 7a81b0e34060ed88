//! The states of an intent, each with the data that exists in it and no other.

use crate::block::{BlockRef, Execution, Inclusion};
use crate::names::names;
use crate::nonce::Nonce;
use crate::text::NodeText;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxState {
    /// Durable, in the queue, without a nonce.
    Queued,
    /// A nonce is bound and an attempt is durable; no node has acknowledged it yet.
    Allocated(Bound),
    /// A node has acknowledged it.
    Tracking(Bound),
    /// Needs a decision. Still confirmed if the chain mines it.
    Stuck(Bound, StuckReason),
    /// An attempt with the payload is final, and succeeded.
    Confirmed(Settled),
    /// Reverted and final, or failed before a nonce was bound.
    FailedFinal(FinalFailure),
    /// Canceled in the queue, or an attempt without the payload is final at the nonce.
    Canceled(Cancellation),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub nonce: Nonce,
    pub goal: Goal,
    pub progress: Progress,
}

/// The effect that the intent wants of its slot now. A goal survives a reorg: a canceled intent is canceled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Deliver,
    Replace,
    Cancel(CancelReason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "what is on chain is the ordinary end, and is moved seldom")]
pub enum Progress {
    Pending,
    AwaitingFunds,
    Mined(Mined),
}

/// In a canonical block, and not final yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mined {
    pub inclusion: Inclusion,
    /// The newest confirmation in the events. It stands for the whole list up to it.
    pub told: BlockRef,
}

/// A nonce that is finally consumed by an attempt of its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub nonce: Nonce,
    pub inclusion: Inclusion,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalFailure {
    Unbound(FailReason, NodeText),
    Reverted(Settled),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "what is on chain is the ordinary end, and is moved seldom")]
pub enum Cancellation {
    InQueue(CancelReason),
    /// A reserved nonce was released, or expired, before a transaction was submitted.
    Released,
    OnChain(CancelReason, Settled),
}

names! {
    CancelReason {
        User = "user",
        Expired = "expired",
        Rejected = "rejected",
    }
}

names! {
    FailReason {
        InvalidPayload = "invalid_payload",
        SimulationReverted = "simulation_reverted",
        InsufficientFunds = "insufficient_funds",
        Expired = "expired",
        /// Another transaction consumed the nonce, and the operator chose not to queue the intent again.
        NonceLost = "nonce_lost",
    }
}

names! {
    /// Why an intent needs a decision. `contradiction` was a second reason once; no release ever wrote it.
    StuckReason {
        OutOfTries = "out_of_tries",
    }
}

names! {
    /// The names of the states, as operators and callers see them.
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

    /// The inclusion that ended the intent on chain.
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
    /// The most useful name for a caller: the progress on chain comes before the goal.
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
    /// The end of an intent whose slot was consumed by this inclusion. Only the transaction in the final block counts:
    /// a cancel that lost the race leaves the intent confirmed, and a stopped owner's late original does too (N24).
    pub(crate) fn end_state(self, goal: Goal) -> TxState {
        if !self.inclusion.kind.carries_payload() {
            let reason = match goal {
                Goal::Cancel(reason) => reason,
                // No caller asked for the cancel, so it was sent because the original was rejected.
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
