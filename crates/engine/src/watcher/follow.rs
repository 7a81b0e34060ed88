//! Follows the chain: from the head back to what is linked already, and then forward, block by block.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{Header, HeaderAt, Receipt};
use gapless_domain::{B256, BlockRef, Sighting};

use super::canon::{Canon, Place};
use super::{WatchError, Watcher};

/// Headers in one question.
const CHUNK: u64 = 100;
/// Headers in the first question after a fork was noticed: most forks are short.
const FORK_CHUNK: u64 = 8;
/// Questions in one round for headers that are older than those that are kept.
const CHUNKS_A_ROUND: usize = 5;
/// Blocks that are taken on in one round, and whose receipts are asked for at once: whoever waits for something else waits no
/// longer than this takes (R02).
const BLOCKS_A_ROUND: usize = 64;
const BLOCKS_AT_ONCE: usize = 8;
/// Before headers are asked for again that nobody had.
const DEEPEN_AGAIN: Duration = Duration::from_secs(60);
/// Rounds in which the receipts of one block are asked for before it is taken without them, and hashes are looked up instead.
const RECEIPT_TRIES: u32 = 5;

/// How often receipts of blocks could not be had. Once a block had to do without, the next ones are asked only once.
#[derive(Debug, Default)]
pub(super) struct ReceiptFailures {
    in_a_row: u32,
    given_up: bool,
}

impl ReceiptFailures {
    /// False if it is time to do without.
    fn try_again(&mut self) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let again = !self.given_up && self.in_a_row < RECEIPT_TRIES;
        self.given_up |= !again;
        again
    }
}

impl Watcher {
    /// Takes on what comes up to the newest block; in several rounds, if it is much.
    pub(super) async fn follow(&mut self, head: Header) -> Result<(), WatchError> {
        if self.canon.head().is_none() {
            self.canon = Canon::restart(&head, None);
            // Nobody has read the blocks before it for us.
            self.book.ask_unexplained();
            return Ok(());
        }
        match self.canon.place(head.block) {
            // The same head, or an endpoint that lags: a block that we have is nothing new.
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
                // What comes next is found anew: the chain may be another one by then.
                self.ahead.clear();
                return Err(error);
            }
        }
        self.again_soon |= !self.ahead.is_empty();
        self.behind = None;
        Ok(())
    }

    /// The newest block that we have in common with this head, and the way from it, oldest first; `None` if it is too far.
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
            // More of the way back, by number and so in one question; the hashes say whether it is the same chain.
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

    /// Links older headers to those that are kept, until there are enough.
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
                // Nobody has older ones: the chain begins here, or they were dropped.
                self.deepen_at = self.driver.now().saturating_add(DEEPEN_AGAIN);
                return Ok(());
            }
        }
        self.again_soon = true;
        Ok(())
    }

    /// The chain that we had is gone, or too far away to walk to.
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

    /// Forgets the chain that we had; whoever stood on it has to be compared with the new one.
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

    /// Is what was final still on the chain of this head? If not, everybody stops.
    async fn check_final(&mut self, head: Header, finalized: BlockRef) -> Result<(), WatchError> {
        // A head that is not higher than ours may be one that lags, on a branch that was orphaned since.
        if self.canon.head().is_some_and(|ours| head.block.number <= ours.number) {
            return self.report_behind(head, true).await;
        }
        match self.chain.header(HeaderAt::Number(finalized.number)).await? {
            Some(header) if header.block == finalized => Ok(()),
            Some(_) => self.declare_broken(finalized).await,
            None => Err(WatchError::BlockMissing(finalized.number)),
        }
    }

    /// Blocks above the common one are no longer canonical.
    async fn take_back_above(&mut self, common: BlockRef, head: Header) -> Result<(), WatchError> {
        if let Some(finalized) = self.canon.final_block()
            && finalized.number > common.number
            && self.broken.is_none()
        {
            self.check_final(head, finalized).await?;
            // The way to this head passes it by, and somebody still shows it: endpoints disagree, and nothing is taken back.
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

    /// New blocks: the receipts of each are read once, for all lanes, and only if anybody waits for any.
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
