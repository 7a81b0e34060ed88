//! Hashes that no block explained, by hash.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use gapless_chain::Receipt;
use gapless_domain::{B256, BlockLink, BlockRef, Sighting, Tail};

use super::canon::Place;
use super::{WatchError, Watcher};

/// Where a block stands, for one of our hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// With its confirmations, if it is final.
    Canonical {
        parent_hash: B256,
        final_list: Option<Arc<[BlockLink]>>,
    },
    Orphaned,
    /// Not to be told yet; asked again in the next round.
    Unclear,
}

/// Blocks that are older than what is kept, asked for once in a round.
pub(super) type OldBlocks = HashMap<u64, Option<Tail>>;

impl Watcher {
    pub(super) async fn answer_requests(&mut self) -> Result<(), WatchError> {
        let mut outcome = Ok(());
        let mut unexplained = Vec::new();
        let mut old = OldBlocks::new();
        for (hash, known) in self.book.requests(self.options.look_ups.max(1)) {
            match known {
                None => unexplained.push(hash),
                Some(block) if outcome.is_ok() => {
                    self.book.tried(&[hash]);
                    outcome = self.compare(hash, block, &mut old).await;
                }
                // After a failure the others come first, in the next round.
                Some(_) => {}
            }
        }
        unexplained.truncate(self.look_up_size);
        let looked_up = self.look_up(&unexplained, &mut old).await;
        self.look_up_size = match looked_up {
            Ok(()) => self.look_up_size.saturating_mul(2).min(self.options.look_ups),
            Err(_) => self.look_up_size / 2,
        }
        .max(1);
        outcome.and(looked_up)?;
        self.book.go_on();
        Ok(())
    }

    async fn look_up(&mut self, hashes: &[B256], old: &mut OldBlocks) -> Result<(), WatchError> {
        if hashes.is_empty() {
            return Ok(());
        }
        self.book.tried(hashes);
        let receipts = self.chain.receipts(hashes).await?;
        for (hash, receipt) in hashes.iter().copied().zip(receipts) {
            match receipt {
                Some(receipt) if receipt.hash == hash => self.explain(receipt, old).await?,
                _ => {
                    metrics::counter!("gapless_receipt_check_total", "result" => "not_found").increment(1);
                    self.book.answered(hash, None);
                    self.book.tell(hash, Sighting::NotFound { hash });
                }
            }
        }
        Ok(())
    }

    /// The ledger says that it was mined there.
    async fn compare(&mut self, hash: B256, block: BlockRef, old: &mut OldBlocks) -> Result<(), WatchError> {
        match self.standing(block, old).await? {
            Standing::Canonical { final_list, .. } => {
                self.canon.note(block, hash);
                self.book.answered(hash, Some(block));
                self.book.tell(hash, Sighting::StillMined { hash, block });
                if let Some(list) = final_list {
                    self.book.tell(hash, Sighting::Final { hash, block, list });
                }
            }
            Standing::Orphaned => {
                self.book.tell(hash, Sighting::Unmined { hash, block });
                self.book.ask(hash, None);
            }
            Standing::Unclear => {}
        }
        Ok(())
    }

    /// A node says that it is mined: true only if the block is on the chain that we have linked.
    async fn explain(&mut self, receipt: Receipt, old: &mut OldBlocks) -> Result<(), WatchError> {
        if let Standing::Canonical { parent_hash, final_list } = self.standing(receipt.block, old).await? {
            self.book.answered(receipt.hash, None);
            self.found(receipt, parent_hash, final_list);
        }
        Ok(())
    }

    pub(super) async fn standing(&self, block: BlockRef, old: &mut OldBlocks) -> Result<Standing, WatchError> {
        let required = self.options.confirmations;
        Ok(match self.canon.place(block) {
            Place::Canonical => {
                let Some(link) = self.canon.get(block.number) else { return Ok(Standing::Unclear) };
                let is_final = self.canon.is_final(block.number);
                let final_list = is_final.then(|| self.canon.list(block.number, required));
                Standing::Canonical { parent_hash: link.parent_hash, final_list }
            }
            Place::Orphaned => Standing::Orphaned,
            Place::Newer => Standing::Unclear,
            Place::Older => {
                let tail = match old.entry(block.number) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => unknown.insert(self.old_block(block.number).await?),
                };
                let Some(tail) = tail else { return Ok(Standing::Unclear) };
                let Some(link) = tail.get(block.number) else { return Ok(Standing::Unclear) };
                let is_final = self.canon.is_final(block.number);
                if link.block == block {
                    let final_list = is_final.then(|| tail.from(block, required).into());
                    Standing::Canonical { parent_hash: link.parent_hash, final_list }
                } else {
                    Standing::Orphaned
                }
            }
        })
    }

    /// The block at this height and those that confirm it, as the chain shows them now; `None` while it does not show them
    /// linked.
    async fn old_block(&self, number: u64) -> Result<Option<Tail>, WatchError> {
        let last = number.saturating_add(u64::from(self.options.confirmations.max(1)) - 1);
        let last = self.canon.head().map_or(last, |head| last.min(head.number));
        let headers = self.chain.headers(number..=last).await?;
        let links = headers.iter().map_while(|header| {
            let header = header.as_ref()?;
            Some(BlockLink { block: header.block, parent_hash: header.parent_hash })
        });
        Ok(Tail::of(links).filter(|tail| tail.last().number == last))
    }
}
