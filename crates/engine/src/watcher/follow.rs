//! Follows the chain: from the head back to the linked part, and then forward, block by block.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{Header, HeaderAt, Receipt};
use gapless_domain::{B256, BlockRef, Sighting};

use super::canon::{Canon, Position};
use super::{WatchError, Watcher};

/// Headers in one request.
const CHUNK: u64 = 100;
/// Headers in the first request after a fork: most forks are short.
const FORK_CHUNK: u64 = 8;
/// Requests for older headers in one round.
const CHUNKS_PER_ROUND: usize = 5;
/// Blocks that are appended in one round, and blocks whose receipts are requested concurrently: they bound the delay of
/// the other steps of a round (R02).
const BLOCKS_PER_ROUND: usize = 64;
const CONCURRENT_BLOCKS: usize = 8;
/// Pause before older headers that no endpoint had are requested again.
const DEEPEN_PAUSE: Duration = Duration::from_secs(60);
/// Rounds in which the receipts of one block are requested before it is appended without them and hashes are looked up.
const RECEIPT_TRIES: u32 = 5;

/// Failures to read receipts. Once a block was appended without them, each later block gets one try until one succeeds.
#[derive(Debug, Default)]
pub(super) struct ReceiptFailures {
    in_a_row: u32,
    without_receipts: bool,
}

impl ReceiptFailures {
    /// Records a failure. False if the block is to be appended without receipts.
    fn should_retry(&mut self) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let again = !self.without_receipts && self.in_a_row < RECEIPT_TRIES;
        self.without_receipts |= !again;
        again
    }
}

impl Watcher {
    /// Appends the blocks up to this head; in several rounds if there are many.
    pub(super) async fn follow(&mut self, head: Header) -> Result<(), WatchError> {
        if self.canon.head().is_none() {
            self.canon = Canon::restart(&head, None);
            // The blocks before this head were not read.
            self.book.request_unmined();
            return Ok(());
        }
        match self.canon.position(head.block) {
            // The head has not moved, or the endpoint lags.
            Position::Canonical => return Ok(()),
            Position::Older => return self.report_behind(head, false).await,
            Position::Newer | Position::Orphaned => {}
        }
        if self.linking.ahead.front().is_none_or(|next| !self.canon.is_next(next)) {
            let Some((common, path)) = self.path_to(head).await? else { return self.restart_at(head).await };
            self.remove_above(common, head).await?;
            self.linking.ahead = path;
        }
        let count = self.linking.ahead.len().min(BLOCKS_PER_ROUND);
        let next: Vec<Header> = self.linking.ahead.drain(..count).collect();
        for headers in next.chunks(CONCURRENT_BLOCKS) {
            if let Err(error) = self.append(headers).await {
                // The next round searches again: the chain may be another one by then.
                self.linking.ahead.clear();
                return Err(error);
            }
        }
        self.pace.has_more_work |= !self.linking.ahead.is_empty();
        self.finality.behind = None;
        Ok(())
    }

    /// The newest common block with this head, and the headers above it, oldest first; `None` if it is too far.
    async fn path_to(&self, head: Header) -> Result<Option<(BlockRef, VecDeque<Header>)>, WatchError> {
        let mut path = VecDeque::from([head]);
        let mut oldest = head;
        loop {
            let Some(number) = oldest.block.number.checked_sub(1) else { return Ok(None) };
            let parent = BlockRef { number, hash: oldest.parent_hash };
            match self.canon.position(parent) {
                Position::Canonical => return Ok(Some((parent, path))),
                Position::Older => return Ok(None),
                Position::Newer | Position::Orphaned if path.len() as u64 >= u64::from(self.options.walk_max) => {
                    return Ok(None);
                }
                Position::Newer | Position::Orphaned => {}
            }
            // Older headers are requested by number, in one request; their hashes prove that they link.
            let gap = self.canon.head().map_or(CHUNK, |ours| number.saturating_sub(ours.number));
            let first = number.saturating_sub(gap.clamp(FORK_CHUNK, CHUNK) - 1);
            let before = oldest.block;
            for header in self.chain.headers(first..=number).await?.into_iter().rev().flatten() {
                let is_known = self.canon.position(header.block) == Position::Canonical;
                if is_known || header.block.hash != oldest.parent_hash {
                    break;
                }
                path.push_front(header);
                oldest = header;
            }
            if oldest.block == before {
                return Err(WatchError::BlockMissing(number));
            }
        }
    }

    /// Links older headers below the kept ones, until there are enough.
    pub(super) async fn deepen(&mut self) -> Result<(), WatchError> {
        for _ in 0..CHUNKS_PER_ROUND {
            let Some(first) = self.canon.first_number() else { return Ok(()) };
            let wanted = self.oldest_wanted();
            let last = first.checked_sub(1).filter(|last| *last >= wanted);
            let Some(last) = last.filter(|_| self.driver.now() >= self.linking.deepen_at) else { return Ok(()) };
            let from = last.saturating_sub(CHUNK - 1).max(wanted);
            self.book.deliver_held();
            for header in self.chain.headers(from..=last).await?.into_iter().rev() {
                let Some(header) = header else { break };
                if !self.canon.push_below(&header) {
                    return Err(WatchError::BlockMissing(last));
                }
            }
            if self.canon.contradicts_final()
                && let Some(finalized) = self.canon.final_block()
            {
                self.declare_missing_final(finalized).await?;
            }
            if self.canon.first_number() == Some(first) {
                // No endpoint has older headers: the chain begins here, or they were pruned.
                self.linking.deepen_at = self.driver.now().saturating_add(DEEPEN_PAUSE);
                return Ok(());
            }
        }
        self.pace.has_more_work = true;
        Ok(())
    }

    /// Restarts at a head that does not link to the kept chain, or is too far away to walk to.
    async fn restart_at(&mut self, head: Header) -> Result<(), WatchError> {
        let (chain, head_number) = (self.chain.id(), head.block.number);
        tracing::warn!(%chain, head = head_number, "head does not link to the known chain; looking up all open hashes");
        let finalized = self.canon.final_block();
        if let Some(finalized) = finalized.filter(|_| self.finality.violation.is_none()) {
            self.check_final(head, finalized).await?;
        }
        let finalized = finalized.filter(|_| self.finality.violation.is_none());
        self.replace_canon(Canon::restart(&head, finalized));
        Ok(())
    }

    /// Replaces the canonical chain; our hashes in the old one are compared with the new one.
    pub(super) fn replace_canon(&mut self, canon: Canon) {
        let mut old = std::mem::replace(&mut self.canon, canon);
        self.linking.ahead.clear();
        self.book.request_unmined();
        while let Some(linked) = old.pop() {
            for hash in linked.ours {
                self.book.request(hash, Some(linked.link.block));
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
            Some(_) => self.declare_missing_final(finalized).await,
            None => Err(WatchError::BlockMissing(finalized.number)),
        }
    }

    /// Removes the blocks above the common one: they are no longer canonical.
    async fn remove_above(&mut self, common: BlockRef, head: Header) -> Result<(), WatchError> {
        if let Some(finalized) = self.canon.final_block()
            && finalized.number > common.number
            && self.finality.violation.is_none()
        {
            self.check_final(head, finalized).await?;
            // This head's branch lacks the final block, but an endpoint still shows it: endpoints disagree, nothing
            // changes.
            if self.finality.violation.is_none() {
                return Err(WatchError::FinalityViolation);
            }
        }
        while self.canon.head().is_some_and(|head| head.number > common.number) {
            let Some(linked) = self.canon.pop() else { break };
            let block = linked.link.block;
            let (chain, number, ours) = (self.chain.id(), block.number, linked.ours.len());
            tracing::info!(%chain, block = number, hash = %block.hash, ours, "block orphaned");
            metrics::counter!("gapless_reorged_blocks_total", "chain" => self.chain.id().to_string()).increment(1);
            for hash in linked.ours {
                self.book.deliver(hash, Sighting::Unmined { hash, block });
            }
        }
        Ok(())
    }

    /// Appends new blocks. The receipts of each are read once for all lanes, and only if any hash is watched. Sightings
    /// are held back until finality is known, or the next read from an endpoint.
    async fn append(&mut self, headers: &[Header]) -> Result<(), WatchError> {
        self.book.deliver_held();
        let receipts = join_all(headers.iter().map(|header| self.receipts_of(header.block))).await;
        self.book.hold();
        for (header, receipts) in headers.iter().zip(receipts) {
            let block = header.block;
            let receipts = match receipts {
                Ok(receipts) => {
                    self.linking.receipt_failures = ReceiptFailures::default();
                    receipts
                }
                Err(error) if self.linking.receipt_failures.should_retry() => return Err(error),
                Err(error) => {
                    let (chain, block) = (self.chain.id(), block.number);
                    tracing::warn!(%chain, block, "receipts unavailable; looking up open hashes instead: {error}");
                    self.book.request_unmined();
                    Vec::new()
                }
            };
            if !self.canon.push(header) {
                return Err(WatchError::BlockMissing(block.number));
            }
            for receipt in receipts {
                if receipt.block == block && self.book.contains(receipt.hash) {
                    self.handle_receipt(receipt, header.parent_hash, None);
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
