//! How far `safe` and `finalized` are.
//!
//! They follow the head at a depth, and what was safe or final once stays so: a deeper depth, or a head that goes back, leaves them where
//! they are. Only a reorg that goes deeper than a tag takes it along, which is what a chain must never do and a test must be able to.

use super::Core;
use crate::error::ChainError;
use crate::query::Finality;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    pub(super) depths: Finality,
    safe: u64,
    finalized: u64,
}

impl Tags {
    pub(super) fn new(depths: Finality, head: u64) -> Self {
        let mut tags = Self { depths, safe: 0, finalized: 0 };
        tags.follow(head);
        tags
    }

    /// The head moved on.
    pub(super) fn follow(&mut self, head: u64) {
        self.safe = self.safe.max(head.saturating_sub(self.depths.safe));
        self.finalized = self.finalized.max(head.saturating_sub(self.depths.finalized));
    }

    /// Blocks were taken back until this one.
    pub(super) fn go_back(&mut self, head: u64) {
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

    /// The number of the block that `safe` stands for at the head.
    pub(crate) fn safe(&self) -> u64 {
        self.tags.safe
    }

    /// The number of the block that `finalized` stands for at the head.
    pub(crate) fn finalized(&self) -> u64 {
        self.tags.finalized
    }
}
