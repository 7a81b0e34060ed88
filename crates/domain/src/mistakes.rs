//! Planted bugs: deliberate mistakes that the simulator must find.
//!
//! A simulator run without findings proves something only if the simulator is known to find bugs. So each planted bug
//! can be switched on, one at a time, and the simulator must report it. Each of them was made by a real system, or by
//! an early draft of this one.
//!
//! No shipped build contains them. Without the cargo feature `mistakes`, which no crate enables by default, [`made`] is
//! a constant `false` and the compiler removes the code. With the feature, a bug is active only on the thread that
//! called `make`.

macro_rules! mistakes {
    ($($variant:ident = $name:literal: $what:literal;)+) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mistake { $(#[doc = $what] $variant),+ }

        impl Mistake {
            pub const ALL: &'static [Mistake] = &[$(Mistake::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(Mistake::$variant => $name),+ }
            }

            /// The bug in one sentence.
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
    RecycleAfterTimeout = "recycle_after_timeout":
        "A send that timed out frees the nonce for the next intent, and its own intent returns to the queue.";
    OnlyLastHash = "only_last_hash": "Only the newest attempt of a slot is looked for on the chain.";
    SendBeforeCommit = "send_before_commit":
        "Signed bytes are sent together with the commit that makes them durable, not after it.";
    RequeueOnNullReceipt = "requeue_on_null_receipt":
        "A missing receipt returns the intent to the queue for a new nonce.";
    NonceTooLowIsSuccess = "nonce_too_low_is_success":
        "\"Nonce too low\" is treated as proof that our transaction is mined and final.";
    JumpToChain = "jump_to_chain":
        "When the account's nonce is ahead of the ledger, the lane continues from there without PROTECT.";
    UnderpricedIsSuccess = "underpriced_is_success":
        "An underpriced rejection is treated as acceptance; the attempt is neither bumped nor sent again.";
    MinedIsFinal = "mined_is_final": "The first receipt ends the intent.";
    ReorgIgnored = "reorg_ignored":
        "An orphaned block is not reported, and confirmations are counted by height alone.";
    ForkContinues = "fork_continues":
        "After a fork, a notice carries only the blocks above the last notice, as if they continued it.";
    RejectedFreesNonce = "rejected_frees_nonce":
        "A rejection, or a lack of funds, ends the intent and frees its nonce, although nodes may have the bytes.";
    NoFillForHole = "no_fill_for_hole":
        "A nonce whose intent was released, rejected, expired or canceled is never filled.";
    WindowIgnored = "window_ignored": "Nonces are bound without a limit on how many are in flight.";
    ExistsFence = "exists_fence": "A commit is applied without a check that the lease still holds.";
    KeepToken = "keep_token": "A takeover of an expired lease keeps the fencing token.";
    EventApart = "event_apart": "Some state changes are written without their event.";
    NoEpoch = "no_epoch": "A loss of commits in the database is not detected.";
    ForgetRequest = "forget_request": "The request id of an accepted intent is not stored.";
    LostWakeup = "lost_wakeup": "Work is found by wake-ups only: no sweep and no periodic peek.";
    UnknownIsDone = "unknown_is_done": "A commit with an unknown outcome is treated as applied.";
    AckBeforeCommit = "ack_before_commit": "Intake answers before the accepted intent is durable.";
    SendWithoutPermit = "send_without_permit":
        "A node sends without checking by its own clock that it still trusts its lease.";
}

/// True if this planted bug is active on the current thread.
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

    /// True if this planted bug is active on the current thread.
    pub fn made(mistake: Mistake) -> bool {
        MADE.get() == Some(mistake)
    }

    /// Activates a planted bug on this thread, or none, until the next call.
    pub fn make(mistake: Option<Mistake>) {
        MADE.set(mistake);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mistake_names_are_unique_and_parse_back() {
        let names: BTreeSet<_> = Mistake::ALL.iter().map(|mistake| mistake.name()).collect();
        let sentences: BTreeSet<_> = Mistake::ALL.iter().map(|mistake| mistake.describe()).collect();
        assert_eq!((names.len(), sentences.len()), (Mistake::ALL.len(), Mistake::ALL.len()));
        for mistake in Mistake::ALL {
            assert_eq!(Mistake::from_name(mistake.name()), Some(*mistake));
        }
        assert_eq!(Mistake::from_name("none of them"), None);
    }

    #[test]
    fn mistakes_are_inactive_by_default() {
        assert!(!Mistake::ALL.iter().any(|mistake| made(*mistake)));
    }

    #[cfg(feature = "mistakes")]
    #[test]
    fn active_mistake_is_single_and_per_thread() {
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
