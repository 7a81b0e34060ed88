//! Looks up hashes that were in no block that was read, and blocks that are older than the kept part.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use gapless_chain::{HeaderAt, Receipt};
use gapless_domain::{B256, BlockLink, BlockRef, Sighting, Tail};

use super::canon::Place;
use super::finality::KEPT_AT_MOST;
use super::{WatchError, Watcher};

/// Blocks this far below the kept part are linked to it before they count. Deeper blocks are read by number.
const REACH: u64 = KEPT_AT_MOST;
/// Deep blocks that are read in one round; the others wait for the next round.
const DEEP_BLOCKS_A_ROUND: usize = 20;

/// The status of a block that holds one of our hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Canonical {
        parent_hash: B256,
        /// The confirmations, if the block is final.
        final_list: Option<Arc<[BlockLink]>>,
        /// The block is in the kept part, so its finality will be reported; else its hashes must be requested again.
        is_kept: bool,
    },
    Orphaned,
    /// Not known yet; the next round asks again.
    Unclear,
}

/// Blocks below the kept part, each read once in a round.
#[derive(Debug, Default)]
pub(super) struct OldBlocks {
    /// The endpoints that answer by number are on our chain.
    is_ours: Option<bool>,
    blocks: HashMap<u64, Option<Tail>>,
}

impl OldBlocks {
    fn is_full(&self, number: u64) -> bool {
        self.blocks.len() >= DEEP_BLOCKS_A_ROUND && !self.blocks.contains_key(&number)
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
                Some(block) if old.is_full(block.number) && self.canon.place(block) == Place::Older => {
                    self.again_soon = true;
                }
                Some(block) if outcome.is_ok() => {
                    self.book.tried(&[hash]);
                    outcome = self.compare(hash, block, &mut old).await;
                }
                // Requests that were tried come last in the next round.
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
        let mut outcome = Ok(());
        for (hash, receipt) in hashes.iter().copied().zip(receipts) {
            match receipt {
                Some(receipt) if receipt.hash == hash => {
                    outcome = outcome.and(self.explain(receipt, old).await);
                }
                _ => {
                    metrics::counter!("gapless_receipt_check_total", "result" => "not_found").increment(1);
                    self.book.answered(hash, None);
                    self.book.tell(hash, Sighting::NotFound { hash });
                }
            }
        }
        outcome
    }

    /// Compares the block in which the ledger has the hash with the canonical chain.
    async fn compare(&mut self, hash: B256, block: BlockRef, old: &mut OldBlocks) -> Result<(), WatchError> {
        match self.standing(block, old).await? {
            Standing::Canonical { final_list, is_kept, .. } => {
                self.canon.note(block, hash);
                self.book.answered(hash, Some(block));
                if !is_kept && final_list.is_none() {
                    self.park(hash, block);
                }
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

    /// Handles a receipt from an endpoint: it counts only if its block is on the linked chain.
    async fn explain(&mut self, receipt: Receipt, old: &mut OldBlocks) -> Result<(), WatchError> {
        let (hash, block) = (receipt.hash, receipt.block);
        if let Standing::Canonical { parent_hash, final_list, is_kept } = self.standing(block, old).await? {
            let is_told = is_kept || final_list.is_some();
            self.book.answered(hash, None);
            self.found(receipt, parent_hash, final_list);
            if !is_told {
                self.park(hash, block);
            }
        }
        Ok(())
    }

    /// Parks a mined hash: it is not requested again before its block can be final or linked.
    pub(super) fn park(&mut self, hash: B256, block: BlockRef) {
        self.parked.entry(block.number).or_default().push((hash, block));
    }

    pub(super) fn unpark(&mut self, numbers: RangeInclusive<u64>) {
        let due: Vec<u64> = self.parked.range(numbers).map(|(number, _)| *number).collect();
        for (hash, block) in due.into_iter().filter_map(|number| self.parked.remove(&number)).flatten() {
            self.book.ask(hash, Some(block));
        }
    }

    pub(super) async fn standing(&mut self, block: BlockRef, old: &mut OldBlocks) -> Result<Standing, WatchError> {
        let required = self.options.confirmations;
        let is_final = self.canon.is_final(block.number) && self.broken.is_none();
        Ok(match self.canon.place(block) {
            Place::Canonical => {
                let Some(link) = self.canon.get(block.number) else { return Ok(Standing::Unclear) };
                let final_list = is_final.then(|| self.canon.list(block.number, required));
                Standing::Canonical { parent_hash: link.parent_hash, final_list, is_kept: true }
            }
            Place::Orphaned => Standing::Orphaned,
            Place::Newer => Standing::Unclear,
            // The block is linked first.
            Place::Older if self.is_within_reach(block) => {
                self.reach = Some(self.reach.map_or(block.number, |other| other.min(block.number)));
                self.again_soon |= self.driver.now() >= self.deepen_at;
                Standing::Unclear
            }
            Place::Older => {
                let Some(tail) = self.old_block(block.number, old).await? else { return Ok(Standing::Unclear) };
                let Some(link) = tail.get(block.number) else { return Ok(Standing::Unclear) };
                if link.block == block {
                    let final_list = is_final.then(|| tail.list_from(block, required).into());
                    Standing::Canonical { parent_hash: link.parent_hash, final_list, is_kept: false }
                } else {
                    Standing::Orphaned
                }
            }
        })
    }

    /// Is the block near enough to be linked?
    fn is_within_reach(&self, block: BlockRef) -> bool {
        let below = self.canon.first_number().and_then(|first| first.checked_sub(block.number));
        below.is_some_and(|below| below <= REACH)
    }

    /// The block at this height and its confirmations, from endpoints that also have our oldest linked block; `None`
    /// while no endpoint shows them.
    async fn old_block(&self, number: u64, old: &mut OldBlocks) -> Result<Option<Tail>, WatchError> {
        if let Some(known) = old.blocks.get(&number) {
            return Ok(known.clone());
        }
        if old.is_ours.is_none() {
            let first = self.canon.first_number().and_then(|first| self.canon.get(first));
            let Some(first) = first else { return Ok(None) };
            let shown = self.chain.header(HeaderAt::Number(first.block.number)).await?;
            old.is_ours = Some(shown.is_some_and(|header| header.block == first.block));
        }
        if old.is_ours != Some(true) || old.is_full(number) {
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
        let tail = tail.filter(|tail| self.canon.place(tail.last()) != Place::Orphaned);
        old.blocks.insert(number, tail.clone());
        Ok(tail)
    }
}
