//! Planted bugs: deliberate mistakes that the simulator must find.
//!
//! A simulator run without findings proves something only if the simulator is known to find bugs. So each planted bug
//! can be planted in a world, one at a time, and the simulator must report it. Each of them was made by a real system,
//! or by an early draft of this one.
//!
//! No other crate contains a planted bug. A bug wraps a port of the engine or of the database, and changes the values
//! that pass through the port:
//!
//! - `lane`: between the engine and a lane. `nonces`, `answers`, `durability`: the bugs there
//! - `store`: between the engine and the store, and inside the database of a world
//! - this file: the list, and the bugs that are wrong settings

mod answers;
mod durability;
mod lane;
mod nonces;
mod store;

use std::time::Duration;

use gapless_domain::{LaneSetup, LeaseTerms};

pub(crate) use lane::lanes;
pub(crate) use store::{DatabaseBug, NodeBug};

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
        "A send that timed out takes the nonce from its intent, which returns to the queue.";
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
        "An underpriced rejection is treated as acceptance; the nonce is not sent again.";
    MinedIsFinal = "mined_is_final": "The first receipt ends the intent.";
    ReorgIgnored = "reorg_ignored":
        "An orphaned block is not reported, and confirmations are counted by height alone.";
    ForkContinues = "fork_continues":
        "After a fork, a notice carries only the blocks above the last notice, as if they continued it.";
    RejectedFreesNonce = "rejected_frees_nonce":
        "A rejection or lack of funds ends the intent and takes the nonce from it, although nodes may have the bytes.";
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
        "A node trusts its lease, and sends, for much longer than the lease lasts.";
}

impl Mistake {
    /// True for a bug of the rules of the model store. A world with another store does not have it.
    pub(crate) const fn is_of_model_rules(self) -> bool {
        matches!(self, Mistake::ExistsFence | Mistake::KeepToken | Mistake::NoEpoch)
    }
}

/// The setup of all lanes of a world with this bug.
pub(crate) fn lane_setup(mistake: Option<Mistake>, mut setup: LaneSetup) -> LaneSetup {
    match mistake {
        Some(Mistake::WindowIgnored) => {
            setup.policy.nonce.max_in_flight = u16::MAX;
            setup.policy.nonce.narrow_max_in_flight = u16::MAX;
        }
        Some(Mistake::LostWakeup) => setup.limits.look_interval = Duration::from_secs(365 * 86_400),
        _ => {}
    }
    setup
}

/// The lease terms that nodes count by. The database has its own.
pub(crate) fn node_terms(mistake: Option<Mistake>, terms: LeaseTerms) -> LeaseTerms {
    match mistake {
        // Longer than any pause of a process.
        Some(Mistake::SendWithoutPermit) => LeaseTerms { duration: Duration::from_secs(60), ..terms },
        _ => terms,
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
}
