//! Known mistakes of systems of this kind, to be made on purpose.
//!
//! A simulator that finds nothing proves nothing, unless it is known to find what is wrong. So each of these can be switched on,
//! one at a time, and the simulator has to notice. They are not invented: each was made by a real system, or by an early draft of
//! this one.
//!
//! No shipped build has them: without the cargo feature `mistakes`, which no crate has by default, [`made`] is a constant `false`
//! and nothing of them is left. With it, a mistake is made only on the thread that has asked for it with `make`.

macro_rules! mistakes {
    ($($variant:ident = $name:literal: $what:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mistake { $(#[doc = $what] $variant),+ }

        impl Mistake {
            pub const ALL: &'static [Mistake] = &[$(Mistake::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(Mistake::$variant => $name),+ }
            }

            /// What is done wrong, in one sentence.
            pub const fn describe(self) -> &'static str {
                match self { $(Mistake::$variant => $what),+ }
            }

            pub fn from_name(name: &str) -> Option<Mistake> {
                Self::ALL.iter().copied().find(|mistake| mistake.name() == name)
            }
        }
    };
}

mistakes! {
    RecycleAfterTimeout = "recycle_after_timeout": "A send that timed out frees the nonce for the next intent, and its own intent goes back to the queue.";
    OnlyLastHash = "only_last_hash": "Only the newest attempt of a slot is looked for on the chain.";
    SendBeforeCommit = "send_before_commit": "Signed bytes are sent together with the commit that makes them durable, not after it.";
    RequeueOnNullReceipt = "requeue_on_null_receipt": "A receipt that nobody has sends the intent back to the queue for a new nonce.";
    NonceTooLowIsSuccess = "nonce_too_low_is_success": "\"Nonce too low\" is taken for proof that our transaction is mined and final.";
    JumpToChain = "jump_to_chain": "Where the chain's count is ahead of the ledger, the lane goes on from there without asking anybody.";
    UnderpricedIsSuccess = "underpriced_is_success": "A refusal as underpriced is taken for acceptance, and what was refused is neither priced nor sent again.";
    MinedIsFinal = "mined_is_final": "The first receipt ends the intent.";
    ReorgIgnored = "reorg_ignored": "Nobody hears that the block of a transaction was orphaned, and confirmations are counted by height alone.";
    ForkContinues = "fork_continues": "Where blocks that were told of are gone, only what is higher than they were is told, as if it continued them.";
    RejectedFreesNonce = "rejected_frees_nonce": "A refusal, for what it is or for want of funds, ends the intent and frees its nonce for the next one, though the bytes may be out.";
    NoFillForHole = "no_fill_for_hole": "A nonce whose intent was released, rejected, expired or canceled is never filled.";
    WindowIgnored = "window_ignored": "Nonces are bound without regard to how many are in flight.";
    ExistsFence = "exists_fence": "A commit is applied without asking whether the lease still holds.";
    KeepToken = "keep_token": "Whoever takes over an expired lease gets the same fencing token.";
    EventApart = "event_apart": "Some changes of state are written without their event.";
    NoEpoch = "no_epoch": "Nobody notices that the database has lost commits.";
    ForgetRequest = "forget_request": "The request id of an accepted intent is not remembered.";
    LostWakeup = "lost_wakeup": "Work is found by wake-ups only: nobody ever sweeps, or looks at a queue by itself.";
    UnknownIsDone = "unknown_is_done": "A commit whose outcome is unknown is taken for done.";
    AckBeforeCommit = "ack_before_commit": "Intake answers before what it accepts is durable.";
    SendWithoutPermit = "send_without_permit": "A node sends without asking its own clock whether it may still trust its lease.";
}

/// Is this mistake to be made here?
#[cfg(not(feature = "mistakes"))]
pub const fn made(_: Mistake) -> bool {
    false
}

#[cfg(feature = "mistakes")]
pub use switch::{made, make};

#[cfg(feature = "mistakes")]
mod switch {
    use std::cell::Cell;

    use super::Mistake;

    thread_local! {
        static MADE: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// Is this mistake to be made here?
    pub fn made(mistake: Mistake) -> bool {
        MADE.get() == Some(mistake)
    }

    /// From now on, on this thread, until it is called again.
    pub fn make(mistake: Option<Mistake>) {
        MADE.set(mistake);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mistake_has_a_name_of_its_own_and_is_found_by_it() {
        let names: BTreeSet<_> = Mistake::ALL.iter().map(|mistake| mistake.name()).collect();
        let sentences: BTreeSet<_> = Mistake::ALL.iter().map(|mistake| mistake.describe()).collect();
        assert_eq!((names.len(), sentences.len()), (Mistake::ALL.len(), Mistake::ALL.len()));
        for mistake in Mistake::ALL {
            assert_eq!(Mistake::from_name(mistake.name()), Some(*mistake));
        }
        assert_eq!(Mistake::from_name("none of them"), None);
    }

    #[test]
    fn nothing_is_done_wrong_unless_it_is_asked_for() {
        assert!(!Mistake::ALL.iter().any(|mistake| made(*mistake)));
    }

    #[cfg(feature = "mistakes")]
    #[test]
    fn one_at_a_time_is_made_and_only_on_this_thread() {
        make(Some(Mistake::KeepToken));
        let all = || Mistake::ALL.iter().copied().filter(|mistake| made(*mistake)).collect::<Vec<_>>();
        assert_eq!(all(), [Mistake::KeepToken]);
        std::thread::scope(|scope| assert_eq!(scope.spawn(all).join().unwrap(), []));
        make(Some(Mistake::NoEpoch));
        assert_eq!(all(), [Mistake::NoEpoch]);
        make(None);
        assert_eq!(all(), []);
    }
}
