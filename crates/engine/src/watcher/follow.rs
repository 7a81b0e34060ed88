//! Follows the chain: from the head back to the linked part, and then forward, block by block.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{Header, HeaderAt, Receipt};
use gapless_domain::{B256, BlockRef, Sighting};

use super::canon::{Canon, Place};
use super::{WatchError, Watcher};

/// Headers in one request.
const CHUNK: u64 = 100;
/// Headers in the first request after a fork: most forks are short.
const FORK_CHUNK: u64 = 8;
/// Requests for older headers in one round.
const CHUNKS_A_ROUND: usize = 5;
/// Blocks that are appended in one round, and blocks whose receipts are requested concurrently: they bound the delay of
/// the other steps of a round (R02).
const BLOCKS_A_ROUND: usize = 64;
const BLOCKS_AT_ONCE: usize = 8;
/// Pause before older headers that no endpoint had are requested again.
const DEEPEN_AGAIN: Duration = Duration::from_secs(60);
/// Rounds in which the receipts of one block are requested before it is appended without them and hashes are looked up.
const RECEIPT_TRIES: u32 = 5;

/// Failures to read receipts. Once a block was appended without them, each later block gets one try until one succeeds.
#[derive(Debug, Default)]
pub(super) struct ReceiptFailures {
    in_a_row: u32,
    given_up: bool,
}

impl ReceiptFailures {
    /// Records a failure. False if the block is to be appended without receipts.
    fn try_again(&mut self) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let again = !self.given_up && self.in_a_row < RECEIPT_TRIES;
        self.given_up |= !again;
        again
    }
}

impl Watcher {
    /// Appends the blocks up to this head; in several rounds if there are many.
    pub(super) async fn follow(&mut self, head: Header) -> Result<(), WatchError> {
        if self.canon.head().is_none() {
            self.canon = Canon::restart(&head, None);
            // The blocks before this head were not read.
            self.book.ask_unexplained();
            return Ok(());
        }
        match self.canon.place(head.block) {
            // The head has not moved, or the endpoint lags.
            Place::Canonical => return Ok(()),
            Place::Older => return self.report_behind(head, false).await,
            Place::Newer | Place::Orphaned => {}
        }
        if self.ahead.front().is_none_or(|next| !self.canon.is_next(next)) {
            let Some((common, way)) = self.way_to(head).await? else { return self.begin_anew(head).await };
            self.take_back_above(common, head).await?;
            self.ahead = way;
        }
        let count = self.ahead.len().min(BLOCKS_A_ROUND);
        let next: Vec<Header> = self.ahead.drain(..count).collect();
        for headers in next.chunks(BLOCKS_AT_ONCE) {
            if let Err(error) = self.take_on(headers).await {
                // The next round searches again: the chain may be another one by then.
                self.ahead.clear();
                return Err(error);
            }
        }
        self.again_soon |= !self.ahead.is_empty();
        self.behind = None;
        Ok(())
    }

    /// The newest common block with this head, and the headers above it, oldest first; `None` if it is too far.
    async fn way_to(&self, head: Header) -> Result<Option<(BlockRef, VecDeque<Header>)>, WatchError> {
        let mut way = VecDeque::from([head]);
        let mut oldest = head;
        loop {
            let Some(number) = oldest.block.number.checked_sub(1) else { return Ok(None) };
            let parent = BlockRef { number, hash: oldest.parent_hash };
            match self.canon.place(parent) {
                Place::Canonical => return Ok(Some((parent, way))),
                Place::Older => return Ok(None),
                Place::Newer | Place::Orphaned if way.len() as u64 >= u64::from(self.options.walk_max) => {
                    return Ok(None);
                }
                Place::Newer | Place::Orphaned => {}
            }
            // Older headers are requested by number, in one request; their hashes prove that they link.
            let gap = self.canon.head().map_or(CHUNK, |ours| number.saturating_sub(ours.number));
            let first = number.saturating_sub(gap.clamp(FORK_CHUNK, CHUNK) - 1);
            let before = oldest.block;
            for header in self.chain.headers(first..=number).await?.into_iter().rev().flatten() {
                let is_known = self.canon.place(header.block) == Place::Canonical;
                if is_known || header.block.hash != oldest.parent_hash {
                    break;
                }
                way.push_front(header);
                oldest = header;
            }
            if oldest.block == before {
                return Err(WatchError::BlockMissing(number));
            }
        }
    }

    /// Links older headers below the kept ones, until there are enough.
    pub(super) async fn deepen(&mut self) -> Result<(), WatchError> {
        for _ in 0..CHUNKS_A_ROUND {
            let Some(first) = self.canon.first_number() else { return Ok(()) };
            let wanted = self.oldest_wanted();
            let last = first.checked_sub(1).filter(|last| *last >= wanted);
            let Some(last) = last.filter(|_| self.driver.now() >= self.deepen_at) else { return Ok(()) };
            let from = last.saturating_sub(CHUNK - 1).max(wanted);
            for header in self.chain.headers(from..=last).await?.into_iter().rev() {
                let Some(header) = header else { break };
                if !self.canon.push_below(&header) {
                    return Err(WatchError::BlockMissing(last));
                }
            }
            if self.canon.denies_final()
                && let Some(finalized) = self.canon.final_block()
            {
                self.declare_broken(finalized).await?;
            }
            if self.canon.first_number() == Some(first) {
                // No endpoint has older headers: the chain begins here, or they were pruned.
                self.deepen_at = self.driver.now().saturating_add(DEEPEN_AGAIN);
                return Ok(());
            }
        }
        self.again_soon = true;
        Ok(())
    }

    /// Restarts at a head that does not link to the kept chain, or is too far away to walk to.
    async fn begin_anew(&mut self, head: Header) -> Result<(), WatchError> {
        tracing::warn!(chain = %self.chain.id(), head = head.block.number, "the chain does not link to what was read; looking everything up");
        let finalized = self.canon.final_block();
        if let Some(finalized) = finalized.filter(|_| self.broken.is_none()) {
            self.check_final(head, finalized).await?;
        }
        let finalized = finalized.filter(|_| self.broken.is_none());
        self.go_on_with(Canon::restart(&head, finalized));
        Ok(())
    }

    /// Replaces the canonical chain; our hashes in the old one are compared with the new one.
    pub(super) fn go_on_with(&mut self, canon: Canon) {
        let mut old = std::mem::replace(&mut self.canon, canon);
        self.ahead.clear();
        self.book.ask_unexplained();
        while let Some(linked) = old.pop() {
            for hash in linked.ours {
                self.book.ask(hash, Some(linked.link.block));
            }
        }
        self.unpark(0..=u64::MAX);
    }

    /// Checks that the final block is on the chain of this head. If not, all lanes stop.
    async fn check_final(&mut self, head: Header, finalized: BlockRef) -> Result<(), WatchError> {
        // A head that is not above ours may come from a lagging endpoint on an orphaned branch.
        if self.canon.head().is_some_and(|ours| head.block.number <= ours.number) {
            return self.report_behind(head, true).await;
        }
        match self.chain.header(HeaderAt::Number(finalized.number)).await? {
            Some(header) if header.block == finalized => Ok(()),
            Some(_) => self.declare_broken(finalized).await,
            None => Err(WatchError::BlockMissing(finalized.number)),
        }
    }

    /// Removes the blocks above the common one: they are no longer canonical.
    async fn take_back_above(&mut self, common: BlockRef, head: Header) -> Result<(), WatchError> {
        if let Some(finalized) = self.canon.final_block()
            && finalized.number > common.number
            && self.broken.is_none()
        {
            self.check_final(head, finalized).await?;
            // This head's branch lacks the final block, but an endpoint still shows it: endpoints disagree, nothing
            // changes.
            if self.broken.is_none() {
                return Err(WatchError::Contradiction);
            }
        }
        while self.canon.head().is_some_and(|head| head.number > common.number) {
            let Some(linked) = self.canon.pop() else { break };
            let block = linked.link.block;
            tracing::info!(chain = %self.chain.id(), block = block.number, hash = %block.hash, ours = linked.ours.len(), "a block was orphaned");
            metrics::counter!("gapless_reorged_blocks_total", "chain" => self.chain.id().to_string()).increment(1);
            for hash in linked.ours {
                self.book.tell(hash, Sighting::Unmined { hash, block });
            }
        }
        Ok(())
    }

    /// Appends new blocks. The receipts of each are read once for all lanes, and only if any hash is watched.
    async fn take_on(&mut self, headers: &[Header]) -> Result<(), WatchError> {
        let receipts = join_all(headers.iter().map(|header| self.receipts_of(header.block))).await;
        for (header, receipts) in headers.iter().zip(receipts) {
            let block = header.block;
            let receipts = match receipts {
                Ok(receipts) => {
                    self.receipt_failures = ReceiptFailures::default();
                    receipts
                }
                Err(error) if self.receipt_failures.try_again() => return Err(error),
                Err(error) => {
                    tracing::warn!(chain = %self.chain.id(), block = block.number, "its receipts cannot be had; open hashes are looked up instead: {error}");
                    self.book.ask_unexplained();
                    Vec::new()
                }
            };
            if !self.canon.push(header) {
                return Err(WatchError::BlockMissing(block.number));
            }
            for receipt in receipts {
                if receipt.block == block && self.book.contains(receipt.hash) {
                    self.found(receipt, header.parent_hash, None);
                }
            }
        }
        Ok(())
    }

    async fn receipts_of(&self, block: BlockRef) -> Result<Vec<Receipt>, WatchError> {
        if self.book.len() == 0 {
            return Ok(Vec::new());
        }
        let wanted = |hash: B256| self.book.contains(hash);
        self.chain.block_receipts(block, &wanted).await?.ok_or(WatchError::BlockMissing(block.number))
    }
}
