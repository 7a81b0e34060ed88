//! The transition table: the single source of which state may follow which.
//!
//! [`targets`] is the table by name. [`TxState::apply`] moves the data along and asks the table first, so nothing can
//! pass that the table does not know; a test walks every cell of it, and the diagram in `docs/states.md` is drawn from it.

use crate::block::Inclusion;
use crate::confirmation::ConfirmationNotice;
use crate::names::names;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::state::{
    Bound, CancelReason, Cancellation, FailReason, FinalFailure, Goal, Mined, Progress, Settled, StateName,
    StuckReason, TxState,
};
use crate::text::NodeText;

/// What may happen to an intent after it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A nonce is bound, with a durable attempt in the same commit.
    Bind(Nonce),
    /// A node has it.
    Acknowledge,
    /// One of our hashes at this nonce is in a canonical block: the first confirmation.
    Mine(Inclusion),
    /// There are more confirmations, or other ones.
    Confirm(ConfirmationNotice),
    /// That block is no longer canonical.
    Unmine,
    AwaitFunds,
    Funded,
    GiveUp(StuckReason),
    /// The chain moved, or somebody decided: no longer stuck.
    Revive,
    WantCancel(CancelReason),
    /// Another payload is wanted at the same nonce, or in the same place in line.
    WantReplace(Payload),
    /// P4 has proven the nonce consumed by something else: back to the original place in line.
    LoseNonce,
    /// The mined block is final; with the confirmations that were not told yet.
    Settle(Option<ConfirmationNotice>),
    FailInQueue(FailReason, NodeText),
    CancelInQueue(CancelReason),
    /// A reserved nonce is let go before any transaction was given to us.
    ReleaseReserved,
}

names! {
    TransitionName {
        Bind = "bind",
        Acknowledge = "acknowledge",
        Mine = "mine",
        Confirm = "confirm",
        Unmine = "unmine",
        AwaitFunds = "await_funds",
        Funded = "funded",
        GiveUp = "give_up",
        Revive = "revive",
        WantCancel = "want_cancel",
        WantReplace = "want_replace",
        LoseNonce = "lose_nonce",
        Settle = "settle",
        FailInQueue = "fail_in_queue",
        CancelInQueue = "cancel_in_queue",
        ReleaseReserved = "release_reserved",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an intent that is {} cannot {}", from.as_str(), transition.as_str())]
pub struct IllegalTransition {
    pub from: StateName,
    pub transition: TransitionName,
}

/// The table. An empty list means that the transition does not exist there; several names mean that the data decides.
pub const fn targets(from: StateName, transition: TransitionName) -> &'static [StateName] {
    use StateName as S;
    use TransitionName as T;
    match (from, transition) {
        (S::Queued, T::Bind) => &[S::Allocated],
        (S::Queued, T::FailInQueue) => &[S::FailedFinal],
        (S::Queued, T::CancelInQueue) => &[S::Canceled],
        (S::Queued, T::WantReplace) => &[S::Queued],

        (S::Allocated, T::Acknowledge) => &[S::Tracking],
        (S::Allocated, T::ReleaseReserved) => &[S::Canceled],
        (S::Allocated | S::Tracking, T::GiveUp) => &[S::Stuck],
        (S::Stuck, T::Revive) => &[S::Tracking],

        // Mined means that some node had it, whatever we were told; and a chain that moves ends STUCK.
        (S::Allocated | S::Tracking | S::Stuck, T::Mine) => &[S::Tracking],
        (S::Tracking, T::Unmine | T::Confirm) => &[S::Tracking],
        (S::Tracking, T::Settle) => &[S::Confirmed, S::FailedFinal, S::Canceled],
        (S::Allocated | S::Tracking | S::Stuck, T::LoseNonce) => &[S::Queued],

        (S::Allocated, T::AwaitFunds | T::Funded | T::WantCancel | T::WantReplace) => &[S::Allocated],
        (S::Tracking, T::AwaitFunds | T::Funded | T::WantCancel | T::WantReplace) => &[S::Tracking],
        (S::Stuck, T::AwaitFunds | T::Funded | T::WantCancel | T::WantReplace) => &[S::Stuck],

        (S::Queued, _) | (S::Allocated, _) | (S::Tracking, _) | (S::Stuck, _) => &[],
        (S::Confirmed | S::FailedFinal | S::Canceled, _) => &[],
    }
}

impl Transition {
    pub fn name(&self) -> TransitionName {
        match self {
            Transition::Bind(_) => TransitionName::Bind,
            Transition::Acknowledge => TransitionName::Acknowledge,
            Transition::Mine(_) => TransitionName::Mine,
            Transition::Confirm(_) => TransitionName::Confirm,
            Transition::Unmine => TransitionName::Unmine,
            Transition::AwaitFunds => TransitionName::AwaitFunds,
            Transition::Funded => TransitionName::Funded,
            Transition::GiveUp(_) => TransitionName::GiveUp,
            Transition::Revive => TransitionName::Revive,
            Transition::WantCancel(_) => TransitionName::WantCancel,
            Transition::WantReplace(_) => TransitionName::WantReplace,
            Transition::LoseNonce => TransitionName::LoseNonce,
            Transition::Settle(_) => TransitionName::Settle,
            Transition::FailInQueue(..) => TransitionName::FailInQueue,
            Transition::CancelInQueue(_) => TransitionName::CancelInQueue,
            Transition::ReleaseReserved => TransitionName::ReleaseReserved,
        }
    }

    /// What consumers are told of confirmations by it.
    pub(crate) fn notice(&self) -> Option<ConfirmationNotice> {
        match self {
            Transition::Mine(inclusion) => Some(ConfirmationNotice::first(inclusion.link())),
            Transition::Confirm(notice) => Some(notice.clone()),
            Transition::Settle(notice) => notice.clone(),
            _ => None,
        }
    }
}

impl TxState {
    /// The state after `transition`, or a refusal: by the table, or because the data forbids it (a block that was never
    /// mined cannot be unmined, and what is being canceled cannot be replaced).
    pub fn apply(&self, transition: Transition) -> Result<TxState, IllegalTransition> {
        let illegal = IllegalTransition { from: self.name(), transition: transition.name() };
        if targets(illegal.from, illegal.transition).is_empty() {
            return Err(illegal);
        }
        match (self, self.bound()) {
            (TxState::Queued, _) => from_queue(transition),
            (_, Some(bound)) => self.move_bound(bound, transition),
            _ => None,
        }
        .ok_or(illegal)
    }

    fn move_bound(&self, bound: &Bound, transition: Transition) -> Option<TxState> {
        let mined = matches!(bound.progress, Progress::Mined(_));
        let with_progress = |progress| Bound { progress, ..bound.clone() };
        let with_wish = |goal| Bound { goal, ..bound.clone() };
        match transition {
            Transition::Acknowledge | Transition::Revive => Some(TxState::Tracking(bound.clone())),
            Transition::Mine(inclusion) => {
                let told = inclusion.block;
                Some(TxState::Tracking(with_progress(Progress::Mined(Mined { inclusion, told }))))
            }
            Transition::Confirm(notice) => {
                let Progress::Mined(mined) = &bound.progress else { return None };
                let mined = Mined { told: notice.tip()?, ..mined.clone() };
                Some(TxState::Tracking(with_progress(Progress::Mined(mined))))
            }
            Transition::Unmine => mined.then(|| TxState::Tracking(with_progress(Progress::Pending))),
            Transition::AwaitFunds => (!mined).then(|| self.same_state(with_progress(Progress::AwaitingFunds))),
            Transition::Funded => {
                let waits = bound.progress == Progress::AwaitingFunds;
                waits.then(|| self.same_state(with_progress(Progress::Pending)))
            }
            Transition::GiveUp(reason) => (!mined).then(|| TxState::Stuck(bound.clone(), reason)),
            Transition::WantCancel(reason) => {
                let already = matches!(bound.goal, Goal::Cancel(_));
                (!already).then(|| self.same_state(with_wish(Goal::Cancel(reason))))
            }
            Transition::WantReplace(_) => {
                let canceling = matches!(bound.goal, Goal::Cancel(_));
                (!canceling).then(|| self.same_state(with_wish(Goal::Replace)))
            }
            Transition::LoseNonce => (!mined).then_some(TxState::Queued),
            Transition::ReleaseReserved => Some(TxState::Canceled(Cancellation::Released)),
            Transition::Settle(_) => match &bound.progress {
                Progress::Mined(Mined { inclusion, .. }) => {
                    Some(Settled { nonce: bound.nonce, inclusion: inclusion.clone() }.end_state(bound.goal))
                }
                Progress::Pending | Progress::AwaitingFunds => None,
            },
            Transition::Bind(_) | Transition::FailInQueue(..) | Transition::CancelInQueue(_) => None,
        }
    }

    fn same_state(&self, bound: Bound) -> TxState {
        match self {
            TxState::Allocated(_) => TxState::Allocated(bound),
            TxState::Stuck(_, reason) => TxState::Stuck(bound, *reason),
            _ => TxState::Tracking(bound),
        }
    }
}

fn from_queue(transition: Transition) -> Option<TxState> {
    match transition {
        Transition::Bind(nonce) => {
            Some(TxState::Allocated(Bound { nonce, goal: Goal::Deliver, progress: Progress::Pending }))
        }
        Transition::FailInQueue(reason, text) => Some(TxState::FailedFinal(FinalFailure::Unbound(reason, text))),
        Transition::WantReplace(_) => Some(TxState::Queued),
        Transition::CancelInQueue(reason) => Some(TxState::Canceled(Cancellation::InQueue(reason))),
        _ => None,
    }
}
