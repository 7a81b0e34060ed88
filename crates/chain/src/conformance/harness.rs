//! The interface between the suite and a chain under test.

use std::sync::Arc;

use alloy_primitives::B256;
use async_trait::async_trait;
use gapless_domain::{Action, Nonce, SignedTx, SubmitterId, TxPlan};

use crate::contract::Chain;

/// One chain under test, whose blocks the suite makes.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The chain under test.
    fn chain(&self) -> Arc<dyn Chain>;

    /// A funded account whose key the harness has, and that no other case uses.
    async fn account(&self) -> SubmitterId;

    /// Signs a plan of such an account.
    async fn sign(&self, plan: &TxPlan) -> SignedTx;

    /// Another user of the account's key sends a transaction to the node, past the chain under test.
    async fn send_foreign(&self, from: &SubmitterId, nonce: Nonce) -> B256;

    /// Makes at least one block. All transactions that a pool could include are mined afterwards, and the chain under
    /// test shows the blocks.
    async fn mine(&self);

    /// An action whose measure reverts. The harness may change the chain for it.
    async fn reverting_action(&self, from: &SubmitterId) -> Action;

    /// An action that fails in a block with the work [`samples::ENOUGH_WORK`](gapless_domain::samples::ENOUGH_WORK).
    fn failing_action(&self) -> Action;

    /// Replaces the newest block by one or more without its transactions, which no pool has any more.
    async fn reorg(&self) -> Result<(), Lack>;

    /// Cuts all endpoints off.
    async fn cut(&self) -> Result<(), Lack>;

    /// Ends the cut.
    async fn restore(&self);

    /// The abilities that the chain under test does not have, with the reason of each.
    fn lacks(&self) -> &'static [(Ability, Lack)] {
        &[]
    }
}

/// An ability that not every chain under test has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    Reorg,
    Cut,
}

/// The reason why an ability is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack(pub &'static str);
