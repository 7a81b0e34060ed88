//! The decisions of the model that a simulator may replace, to plant a bug of a store.

use std::fmt;

use gapless_domain::ledger::{CommitFacts, Rejection, check};
use gapless_domain::{FencingToken, LaneCommit};

/// Decisions of a model. The default methods keep the store contract.
pub trait ModelRules: fmt::Debug + Send + Sync {
    /// Decides whether a commit may be applied to the rows that `facts` describe.
    fn check(&self, commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Rejection> {
        check(commit, facts).map(drop)
    }

    /// The token of a lease that is granted again after this one has ended.
    fn next_token(&self, last: FencingToken) -> FencingToken {
        FencingToken::new(last.get() + 1)
    }

    /// True if the database lost commits: a process has written another canary than the one that the database holds.
    fn is_loss(&self, written: u64, found: u64) -> bool {
        written != found
    }
}

/// The rules of the store contract.
#[derive(Clone, Copy, Debug, Default)]
pub struct DomainRules;

impl ModelRules for DomainRules {}
