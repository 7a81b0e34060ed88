//! Looks up hashes that were in no block that was read, and blocks that are older than the kept part.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use gapless_chain::{HeaderAt, Receipt};
use gapless_domain::{B256, BlockLink, BlockRef, Sighting, Tail};

use super::canon::Position;
use super::finality::KEPT_HEADERS_MAX;
use super::{WatchError, Watcher};

/// Blocks this far below the kept part are linked to it before they count. Deeper blocks are read by number.
const LINK_DEPTH_MAX: u64 = KEPT_HEADERS_MAX;
/// Deep blocks that are read in one round; the others wait for the next round.
const DEEP_BLOCKS_PER_ROUND: usize = 20;

/// The status of a block that holds one of our hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockStatus {
    Canonical {
        parent_hash: B256,
        /// The confirmations, if the block is final.
        final_list: Option<Arc<[BlockLink]>>,
        /// The block is in the kept part, so its finality will be reported; else its hashes must be requested again.
        is_kept: bool,
    },
    Orphaned,
    /// Not known yet; the next round asks again.
    Unknown,
}

/// Blocks below the kept part, each read once in a round.
#[derive(Debug, Default)]
pub(super) struct OldBlocks {
    /// The endpoints that answer by number are on our chain.
    is_same_chain: Option<bool>,
    blocks: HashMap<u64, Option<Tail>>,
}

impl OldBlocks {
    fn is_full(&self, number: u64) -> bool {
        self.blocks.len() >= DEEP_BLOCKS_PER_ROUND && !self.blocks.contains_key(&number)
    }
}

impl Watcher {
    pub(super) async fn answer_requests(&mut self) -> Result<(), WatchError> {
        let mut outcome = Ok(());
        let mut unexplained = Vec::new();
        let mut old = OldBlocks::default();
        for (hash, known) in self.book.requests(self.options.look_ups.max(1)) {
            match known {
                None => unexplained.push(hash),
                // This round has no room for another deep block; the request does not count as tried.
                Some(block) if old.is_full(block.number) && self.canon.position(block) == Position::Older => {
                    self.pace.has_more_work = true;
                }
                Some(block) if outcome.is_ok() => {
                    self.book.mark_tried(&[hash]);
                    outcome = self.check_known_block(hash, block, &mut old).await;
                }
                // Requests that were tried come last in the next round.
                Some(_) => {}
            }
        }
        unexplained.truncate(self.pace.look_up_size);
        let looked_up = self.look_up(&unexplained, &mut old).await;
        self.pace.record_look_up(looked_up.is_ok(), self.options.look_ups);
        outcome.and(looked_up)?;
        self.book.wake_for_untried();
        Ok(())
    }

    async fn look_up(&mut self, hashes: &[B256], old: &mut OldBlocks) -> Result<(), WatchError> {
        if hashes.is_empty() {
            return Ok(());
        }
        self.book.mark_tried(hashes);
        let receipts = self.chain.receipts(hashes).await?;
        let mut outcome = Ok(());
        for (hash, receipt) in hashes.iter().copied().zip(receipts) {
            match receipt {
                Some(receipt) if receipt.hash == hash => {
                    outcome = outcome.and(self.check_receipt(receipt, old).await);
                }
                _ => {
                    metrics::counter!("gapless_receipt_check_total", "result" => "not_found").increment(1);
                    self.book.remove_answered(hash, None);
                    self.book.deliver(hash, Sighting::NotFound { hash });
                }
            }
        }
        outcome
    }

    /// Compares the block in which the ledger has the hash with the canonical chain.
    async fn check_known_block(&mut self, hash: B256, block: BlockRef, old: &mut OldBlocks) -> Result<(), WatchError> {
        match self.block_status(block, old).await? {
            BlockStatus::Canonical { final_list, is_kept, .. } => {
                self.canon.record(block, hash);
                self.book.remove_answered(hash, Some(block));
                if !is_kept && final_list.is_none() {
                    self.park(hash, block);
                }
                self.book.deliver(hash, Sighting::StillMined { hash, block });
                if let Some(list) = final_list {
                    self.book.deliver(hash, Sighting::Final { hash, block, list });
                }
            }
            BlockStatus::Orphaned => {
                self.book.deliver(hash, Sighting::Unmined { hash, block });
                self.book.request(hash, None);
            }
            BlockStatus::Unknown => {}
        }
        Ok(())
    }

    /// Handles a receipt from an endpoint: it counts only if its block is on the linked chain.
    async fn check_receipt(&mut self, receipt: Receipt, old: &mut OldBlocks) -> Result<(), WatchError> {
        let (hash, block) = (receipt.hash, receipt.block);
        if let BlockStatus::Canonical { parent_hash, final_list, is_kept } = self.block_status(block, old).await? {
            let is_reported = is_kept || final_list.is_some();
            self.book.remove_answered(hash, None);
            self.handle_receipt(receipt, parent_hash, final_list);
            if !is_reported {
                self.park(hash, block);
            }
        }
        Ok(())
    }

    /// Parks a mined hash: it is not requested again before its block can be final or linked.
    pub(super) fn park(&mut self, hash: B256, block: BlockRef) {
        self.linking.park(hash, block);
    }

    pub(super) fn unpark(&mut self, numbers: RangeInclusive<u64>) {
        for (hash, block) in self.linking.take_parked(numbers) {
            self.book.request(hash, Some(block));
        }
    }

    pub(super) async fn block_status(
        &mut self,
        block: BlockRef,
        old: &mut OldBlocks,
    ) -> Result<BlockStatus, WatchError> {
        let required = self.options.confirmations;
        let is_final = self.canon.is_final(block.number) && self.finality.violation.is_none();
        Ok(match self.canon.position(block) {
            Position::Canonical => {
                let Some(link) = self.canon.get(block.number) else { return Ok(BlockStatus::Unknown) };
                let final_list = is_final.then(|| self.canon.confirmations(block.number, required));
                BlockStatus::Canonical { parent_hash: link.parent_hash, final_list, is_kept: true }
            }
            Position::Orphaned => BlockStatus::Orphaned,
            Position::Newer => BlockStatus::Unknown,
            // The block is linked first.
            Position::Older if self.can_be_linked(block) => {
                self.linking.link_to(block.number);
                self.pace.has_more_work |= self.driver.now() >= self.linking.deepen_at;
                BlockStatus::Unknown
            }
            Position::Older => {
                let Some(tail) = self.old_block(block.number, old).await? else { return Ok(BlockStatus::Unknown) };
                let Some(link) = tail.get(block.number) else { return Ok(BlockStatus::Unknown) };
                if link.block == block {
                    let final_list = is_final.then(|| tail.list_from(block, required).into());
                    BlockStatus::Canonical { parent_hash: link.parent_hash, final_list, is_kept: false }
                } else {
                    BlockStatus::Orphaned
                }
            }
        })
    }

    /// Is the block near enough to be linked?
    fn can_be_linked(&self, block: BlockRef) -> bool {
        let below = self.canon.first_number().and_then(|first| first.checked_sub(block.number));
        below.is_some_and(|below| below <= LINK_DEPTH_MAX)
    }

    /// The block at this height and its confirmations, from endpoints that also have our oldest linked block; `None`
    /// while no endpoint shows them.
    async fn old_block(&self, number: u64, old: &mut OldBlocks) -> Result<Option<Tail>, WatchError> {
        if let Some(known) = old.blocks.get(&number) {
            return Ok(known.clone());
        }
        if old.is_same_chain.is_none() {
            let first = self.canon.first_number().and_then(|first| self.canon.get(first));
            let Some(first) = first else { return Ok(None) };
            let shown = self.chain.header(HeaderAt::Number(first.block.number)).await?;
            old.is_same_chain = Some(shown.is_some_and(|header| header.block == first.block));
        }
        if old.is_same_chain != Some(true) || old.is_full(number) {
            return Ok(None);
        }
        let last = number.saturating_add(u64::from(self.options.confirmations.max(1)) - 1);
        let last = self.canon.head().map_or(last, |head| last.min(head.number));
        let headers = self.chain.headers(number..=last).await?;
        let links = headers.iter().map_while(|header| {
            let header = header.as_ref()?;
            Some(BlockLink { block: header.block, parent_hash: header.parent_hash })
        });
        let tail = Tail::of(links).filter(|tail| tail.last().number == last);
        // Where the confirmations overlap the linked part, they must be the same blocks.
        let tail = tail.filter(|tail| self.canon.position(tail.last()) != Position::Orphaned);
        old.blocks.insert(number, tail.clone());
        Ok(tail)
    }
}
