//! The transition table: the only definition of which state may follow which.
//!
//! [`targets`] is the table by name. [`TxState::apply`] checks the table first and then moves the data, so a transition
//! outside of the table is impossible. A test covers every cell of the table, and the diagram in `docs/states.md` is
//! generated from it.

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

/// Declares the transitions once: the enum with their data, their stable names and the conversion between both.
macro_rules! transitions {
    ($($(#[$doc:meta])* $variant:ident $(($($data:ty),+))? = $text:literal,)+) => {
        /// A state change of an accepted intent, with its data.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Transition {
            $($(#[$doc])* $variant $(($($data),+))?,)+
        }

        names! {
            /// The name of a transition, as rows and events hold it.
            TransitionName { $($(#[$doc])* $variant = $text,)+ }
        }

        impl Transition {
            pub fn name(&self) -> TransitionName {
                match self { $(Transition::$variant { .. } => TransitionName::$variant),+ }
            }
        }
    };
}

transitions! {
    /// Bind a nonce, with a durable attempt in the same commit.
    Bind(Nonce) = "bind",
    /// A node has an attempt.
    Acknowledge = "acknowledge",
    /// One of our hashes at this nonce is in a canonical block: the first confirmation.
    Mine(Inclusion) = "mine",
    /// The list of confirmations grew, or changed after a fork.
    Confirm(ConfirmationNotice) = "confirm",
    /// The block of the inclusion is no longer canonical.
    Unmine = "unmine",
    /// The account cannot pay for the attempt.
    AwaitFunds = "await_funds",
    /// The account can pay for the attempt again.
    Funded = "funded",
    /// The intent is stuck.
    GiveUp(StuckReason) = "give_up",
    /// The intent is no longer stuck, because the chain moved or a decision was taken.
    Revive = "revive",
    /// The goal of a bound intent becomes a cancel.
    WantCancel(CancelReason) = "want_cancel",
    /// The intent gets another payload, at the same nonce or the same queue position.
    WantReplace(Payload) = "want_replace",
    /// P4 has proven that a foreign transaction consumed the nonce. The intent returns to its queue position.
    LoseNonce = "lose_nonce",
    /// The block of the inclusion is final. The notice carries the confirmations that consumers do not have yet.
    Settle(Option<ConfirmationNotice>) = "settle",
    /// The intent fails before it has a nonce.
    FailInQueue(FailReason, NodeText) = "fail_in_queue",
    /// The intent is canceled before it has a nonce.
    CancelInQueue(CancelReason) = "cancel_in_queue",
    /// A reserved nonce is released before a transaction was submitted for it.
    ReleaseReserved = "release_reserved",
}

/// The transition does not exist in the state of the intent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transition {} is not allowed in state {}", transition.as_str(), from.as_str())]
pub struct IllegalTransition {
    pub from: StateName,
    pub transition: TransitionName,
}

/// The transition table. An empty list means that the transition does not exist in that state. With several targets,
/// the data decides.
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

        // A mined attempt was in some node, even if no node acknowledged it. An inclusion also ends STUCK.
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
    /// The confirmation notice that the event of this transition carries.
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
    /// The state after `transition`. An error if the table or the data forbids it: an attempt that is not mined cannot
    /// be unmined, and an intent that is being canceled cannot be replaced.
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
        let with_goal = |goal| Bound { goal, ..bound.clone() };
        match transition {
            Transition::Acknowledge | Transition::Revive => Some(TxState::Tracking(bound.clone())),
            Transition::Mine(inclusion) => {
                let notified = inclusion.block;
                Some(TxState::Tracking(with_progress(Progress::Mined(Mined { inclusion, notified }))))
            }
            Transition::Confirm(notice) => {
                let Progress::Mined(mined) = &bound.progress else { return None };
                let mined = Mined { notified: notice.tip()?, ..mined.clone() };
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
                (!already).then(|| self.same_state(with_goal(Goal::Cancel(reason))))
            }
            Transition::WantReplace(_) => {
                let canceling = matches!(bound.goal, Goal::Cancel(_));
                (!canceling).then(|| self.same_state(with_goal(Goal::Replace)))
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
