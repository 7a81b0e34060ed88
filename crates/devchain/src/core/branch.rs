//! Branches: the canonical chain up to a block, or an orphaned branch.

use std::sync::Arc;

use alloy_primitives::B256;

use super::Core;
use crate::block::Block;
use crate::state::StateChanges;

/// A chain up to its tip: the canonical blocks up to `fork`, then blocks that are not canonical, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) fork: u64,
    pub(crate) blocks: Vec<Arc<Block>>,
}

impl Branch {
    /// The canonical chain up to a block.
    pub(crate) fn canonical(tip: u64) -> Self {
        Self { fork: tip, blocks: Vec::new() }
    }

    pub(crate) fn tip(&self) -> u64 {
        self.fork + self.blocks.len() as u64
    }

    pub(crate) fn is_canonical(&self) -> bool {
        self.blocks.is_empty()
    }

    /// A block of the branch that is not canonical.
    pub(crate) fn orphan(&self, number: u64) -> Option<&Arc<Block>> {
        let index = number.checked_sub(self.fork + 1)?;
        self.blocks.get(usize::try_from(index).ok()?)
    }
}

impl Core {
    /// The branch up to a block, which may be orphaned. `None` if one of its blocks is no longer kept.
    pub(crate) fn branch_of(&self, tip: B256) -> Option<Branch> {
        let mut blocks = Vec::new();
        let mut next = self.block_by_hash(tip)?;
        while self.block_by_number(next.number()).is_none_or(|canonical| canonical.hash != next.hash) {
            let parent = next.header.parent_hash;
            blocks.push(next);
            next = self.block_by_hash(parent)?;
        }
        blocks.reverse();
        Some(Branch { fork: next.number(), blocks })
    }

    /// The head of the branch that the last reorg orphaned.
    pub(crate) fn last_orphaned(&self) -> Option<B256> {
        self.last_orphaned
    }

    /// The combined changes of the orphaned blocks of a branch, up to a block number.
    pub(crate) fn changes_of_branch(&self, branch: &Branch, up_to: u64) -> StateChanges {
        let mut all = StateChanges::default();
        for block in branch.blocks.iter().take_while(|block| block.number() <= up_to) {
            let Some(changes) = self.orphan_changes.get(&block.hash) else { continue };
            all.accounts.extend(&changes.accounts);
            all.slots.extend(&changes.slots);
        }
        all
    }
}
