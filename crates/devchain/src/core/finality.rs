//! Positions of `safe` and `finalized`.
//!
//! The tags follow the head at a fixed depth and do not move back: a larger depth, or a lower head, leaves them in
//! place. Only a reorg deeper than a tag moves it back. A real chain must never do that, but tests need it.

use super::Core;
use crate::error::ChainError;
use crate::query::Finality;

#[derive(Clone, Copy, Debug)]
pub(super) struct FinalityTags {
    pub(super) depths: Finality,
    safe: u64,
    finalized: u64,
}

impl FinalityTags {
    pub(super) fn new(depths: Finality, head: u64) -> Self {
        let mut tags = Self { depths, safe: 0, finalized: 0 };
        tags.follow(head);
        tags
    }

    /// Moves the tags forward to a new head.
    pub(super) fn follow(&mut self, head: u64) {
        self.safe = self.safe.max(head.saturating_sub(self.depths.safe));
        self.finalized = self.finalized.max(head.saturating_sub(self.depths.finalized));
    }

    /// Moves the tags back to the new head after blocks were removed.
    pub(super) fn rewind(&mut self, head: u64) {
        self.safe = self.safe.min(head);
        self.finalized = self.finalized.min(head);
    }
}

impl Core {
    pub(crate) fn finality(&self) -> Finality {
        self.tags.depths
    }

    pub(crate) fn set_finality(&mut self, depths: Finality) -> Result<(), ChainError> {
        let Finality { safe, finalized } = depths;
        if safe > finalized {
            return Err(ChainError::SafeBehindFinalized { safe, finalized });
        }
        self.tags.depths = depths;
        self.tags.follow(self.head().number());
        Ok(())
    }

    /// The number of the `safe` block.
    pub(crate) fn safe(&self) -> u64 {
        self.tags.safe
    }

    /// The number of the `finalized` block.
    pub(crate) fn finalized(&self) -> u64 {
        self.tags.finalized
    }
}
