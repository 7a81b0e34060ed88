//! What reverted, and why. The reason is asked for before a lane hears of it, so that it is there when the transaction is final;
//! who cannot be told why in a few tries is told without it. Nobody else waits for this (R02).

use gapless_chain::{Receipt, Revert};
use gapless_domain::B256;

use super::Watcher;
use super::look_up::{OldBlocks, Standing};

/// Questions about one transaction, before it is told without a reason.
const TRIES: u32 = 3;
/// Transactions in one round.
const AT_ONCE: usize = 100;

#[derive(Debug)]
pub(super) struct Unexplained {
    receipt: Receipt,
    tries: u32,
}

impl Watcher {
    pub(super) fn ask_why(&mut self, receipt: Receipt) {
        if !self.reverted.iter().any(|other| other.receipt.hash == receipt.hash) {
            self.reverted.push_back(Unexplained { receipt, tries: 0 });
        }
    }

    pub(super) async fn explain_reverts(&mut self) {
        let count = self.reverted.len().min(AT_ONCE);
        if count == 0 {
            return;
        }
        let asked: Vec<Unexplained> = self.reverted.drain(..count).collect();
        let hashes: Vec<B256> = asked.iter().map(|one| one.receipt.hash).collect();
        let answers = self.chain.reverts(&hashes).await.unwrap_or_else(|error| {
            tracing::debug!(chain = %self.chain.id(), "cannot ask why {} reverted: {error}", hashes.len());
            vec![None; hashes.len()]
        });
        let mut old = OldBlocks::new();
        for (one, answer) in asked.into_iter().zip(answers) {
            let tries = one.tries.saturating_add(1);
            match answer {
                None if tries < TRIES => self.reverted.push_back(Unexplained { tries, ..one }),
                answer => self.tell_revert(one.receipt, answer.unwrap_or_default(), &mut old).await,
            }
        }
        self.again_soon |= !self.reverted.is_empty();
    }

    /// Its block may have been orphaned while we asked; then the book looks for it anew.
    async fn tell_revert(&mut self, receipt: Receipt, why: Revert, old: &mut OldBlocks) {
        match self.standing(receipt.block, old).await {
            Ok(Standing::Canonical { parent_hash, final_list }) => {
                self.tell_mined(&receipt, parent_hash, Some(why), final_list);
            }
            Ok(Standing::Orphaned | Standing::Unclear) | Err(_) => self.book.ask(receipt.hash, None),
        }
    }
}
