//! Mistakes of real systems, as switches of the model: each must break a promise, or the model would prove nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The lease is checked by a statement that locks nothing: takeovers and loads do not wait for the write.
    ExistsFence,
    /// A takeover does not raise the token.
    KeepToken,
    /// What was signed leaves while its commit is under way.
    SendBeforeCommit,
    /// A commit whose outcome is unknown is taken for one that failed: the node goes on with what it had.
    UnknownIsFailure,
    /// A nonce whose transaction was sent, but is not mined after a while, is given to the next intent.
    RecycleAfterTimeout,
    /// The next nonce is the chain's count where that is higher.
    JumpToChain,
    /// A process that is started anew has the owner id of the one before, which may still be alive.
    SameOwnerId,
    /// Loading reads what is committed, though a write of the same lease is under way.
    LoadWithoutWaiting,
    /// An intent without a receipt is put back into the line.
    RequeueWithoutReceipt,
    /// A terminal state is written at the first receipt.
    MinedIsFinal,
}

mod tests {
    use std::collections::BTreeSet;

    use stateright::{Checker, HasDiscoveries, Model};

    use super::Mistake;
    use crate::explorations::pipelined;
    use crate::promises::{EXACT, EXACTLY_ONCE, FENCED, NO_GAP, STICKY, WRITE_BEFORE_SEND};
    use crate::steps::Protocol;

    /// One intent is enough for most mistakes, and finds them fast.
    fn one_intent() -> Protocol {
        Protocol { intents: 1, window: 1, ..pipelined() }
    }

    /// Explores until all these promises are found broken.
    #[expect(clippy::print_stdout, reason = "which promises broke, and how soon, is the result of an exploration")]
    fn breaks(mistake: Mistake, bounds: Protocol, promises: &[&'static str]) {
        let wanted: BTreeSet<&'static str> = promises.iter().copied().collect();
        let protocol = Protocol { mistake: Some(mistake), ..bounds };
        let checker = protocol.checker().threads(1).finish_when(HasDiscoveries::AllOf(wanted)).spawn_bfs().join();
        for promise in promises {
            assert!(checker.discovery(promise).is_some(), "{mistake:?} does not break {promise}");
        }
        println!("{mistake:?} breaks {promises:?} within {} states", checker.unique_state_count());
    }

    #[test]
    fn a_fence_that_locks_nothing_breaks_fencing_and_exactly_once() {
        breaks(Mistake::ExistsFence, Protocol { tenures: 2, ..one_intent() }, &[FENCED, EXACT, STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn a_token_that_does_not_grow_breaks_fencing_and_exactly_once() {
        breaks(Mistake::KeepToken, one_intent(), &[FENCED, STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn an_owner_id_that_outlives_its_process_breaks_fencing_and_exactly_once() {
        breaks(Mistake::SameOwnerId, one_intent(), &[FENCED, EXACT, STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn sending_before_the_commit_breaks_write_before_send_and_exactly_once() {
        breaks(Mistake::SendBeforeCommit, one_intent(), &[WRITE_BEFORE_SEND, STICKY, EXACTLY_ONCE]);
    }

    /// The compare-and-set keeps worse from happening: the node meets a conflict, and loads.
    #[test]
    fn taking_unknown_for_failed_breaks_the_exact_memory_of_the_owner() {
        breaks(Mistake::UnknownIsFailure, one_intent(), &[EXACT]);
    }

    /// The same.
    #[test]
    fn loading_without_waiting_for_writes_under_way_breaks_the_exact_memory_of_the_owner() {
        breaks(Mistake::LoadWithoutWaiting, one_intent(), &[EXACT]);
    }

    #[test]
    fn recycling_a_nonce_after_a_time_out_breaks_sticky_nonces_and_exactly_once() {
        breaks(Mistake::RecycleAfterTimeout, pipelined(), &[STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn requeueing_without_a_receipt_breaks_sticky_nonces_and_exactly_once() {
        breaks(Mistake::RequeueWithoutReceipt, one_intent(), &[STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn jumping_to_the_count_of_the_chain_leaves_a_gap() {
        breaks(Mistake::JumpToChain, Protocol { strangers: 1, ..one_intent() }, &[NO_GAP]);
    }

    #[test]
    fn ending_at_the_first_receipt_breaks_exactly_once() {
        breaks(Mistake::MinedIsFinal, Protocol { reorgs: 1, ..one_intent() }, &[EXACTLY_ONCE]);
    }
}
