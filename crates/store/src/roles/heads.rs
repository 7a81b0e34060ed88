//! The heads of the chains.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{ChainId, Head, NodeText};

use crate::error::StoreError;

/// Keeps the linked head of each chain, so that a restarted node notices a chain that was replaced or rolled back.
#[async_trait]
pub trait Heads: Send + Sync + fmt::Debug {
    /// Saves the newest linked head of a chain. Every node saves the heads that it links. The final block only moves
    /// forward, and a known genesis stays; [`crate::merge_heads`] is the rule. Repeating a call whose outcome is
    /// unknown is harmless.
    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError>;

    /// The saved head of a chain; `None` if none was saved since [`Heads::forget_head`].
    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError>;

    /// An operator accepts that the chain is another one or was started again. The saved head is deleted, with its
    /// final block and its genesis. A node that still follows the old chain may save it again. The audit log records
    /// `accept_chain` with the operator `by` and the reason `why`.
    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError>;
}

/// The answer of [`Heads::save_head`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    Saved,
    /// The saved final block is newer, or the new head has none. The saved head stays and is returned. A genesis that
    /// was not known before is written.
    FinalIsNewer(Head),
    /// The new head contradicts the final block of the saved head, which is returned. No row was changed.
    FinalDiffers(Head),
    /// The new head belongs to another chain than the saved head, which is returned. No row was changed.
    GenesisDiffers(Head),
}
