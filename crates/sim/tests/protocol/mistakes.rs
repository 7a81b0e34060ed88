//! Mistakes of real systems, as switches of the model. Each must break a promise, or the model would prove nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The lease is checked by a statement that locks nothing: takeovers and loads do not wait for the write.
    ExistsFence,
    /// A takeover does not raise the token.
    KeepToken,
    /// Signed bytes are sent while their commit is under way.
    SendBeforeCommit,
    /// A commit whose outcome is unknown counts as failed: the node goes on with its old rows.
    UnknownIsFailure,
    /// A nonce whose transaction is not mined after a while is given to the next intent.
    RecycleAfterTimeout,
    /// The next nonce is the chain's count if the count is higher.
    JumpToChain,
    /// A new process has the owner id of the process before, which may still be alive.
    SameOwnerId,
    /// A load does not wait for a write of the same lease that is under way.
    LoadWithoutWaiting,
    /// An intent without a receipt is put back into the queue.
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

    /// Explores until all the promises are broken.
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
    fn fence_without_lock_breaks_fencing_and_exactly_once() {
        breaks(Mistake::ExistsFence, Protocol { tenures: 2, ..one_intent() }, &[FENCED, EXACT, STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn constant_token_breaks_fencing_and_exactly_once() {
        breaks(Mistake::KeepToken, one_intent(), &[FENCED, STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn reused_owner_id_breaks_fencing_and_exactly_once() {
        breaks(Mistake::SameOwnerId, one_intent(), &[FENCED, EXACT, STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn send_before_commit_breaks_exactly_once() {
        breaks(Mistake::SendBeforeCommit, one_intent(), &[WRITE_BEFORE_SEND, STICKY, EXACTLY_ONCE]);
    }

    /// The compare-and-set prevents more damage: the node meets a conflict, and loads.
    #[test]
    fn unknown_counted_as_failed_breaks_the_owners_memory() {
        breaks(Mistake::UnknownIsFailure, one_intent(), &[EXACT]);
    }

    /// The compare-and-set prevents more damage, as for an unknown outcome.
    #[test]
    fn load_without_waiting_breaks_the_owners_memory() {
        breaks(Mistake::LoadWithoutWaiting, one_intent(), &[EXACT]);
    }

    #[test]
    fn recycled_nonce_breaks_sticky_nonces_and_exactly_once() {
        breaks(Mistake::RecycleAfterTimeout, pipelined(), &[STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn requeue_without_receipt_breaks_exactly_once() {
        breaks(Mistake::RequeueWithoutReceipt, one_intent(), &[STICKY, EXACTLY_ONCE]);
    }

    #[test]
    fn jump_to_the_chain_count_leaves_a_gap() {
        breaks(Mistake::JumpToChain, Protocol { foreign_txs: 1, ..one_intent() }, &[NO_GAP]);
    }

    #[test]
    fn end_at_the_first_receipt_breaks_exactly_once() {
        breaks(Mistake::MinedIsFinal, Protocol { reorgs: 1, ..one_intent() }, &[EXACTLY_ONCE]);
    }
}
