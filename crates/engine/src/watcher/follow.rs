//! Follows the chain: from the head back to what is linked already, and then forward, block by block.

use gapless_chain::{Header, HeaderAt, Receipt};
use gapless_domain::{B256, BlockRef, Sighting};

use super::canon::{Canon, Place};
use super::{WatchError, Watcher};

/// Headers in one question.
const CHUNK: u64 = 100;
/// Headers in the first question after a fork was noticed: most forks are short.
const FORK_CHUNK: u64 = 8;
/// Rounds in which the receipts of one block are asked for before it is taken without them, and hashes are looked up instead.
const RECEIPT_TRIES: u32 = 5;

impl Watcher {
    /// Takes on everything up to the newest block.
    pub(super) async fn follow(&mut self, head: Header) -> Result<(), WatchError> {
        if self.canon.head().is_none() {
            self.canon = self.linked_to(head).await?;
            // Nobody has read these blocks for us.
            self.book.ask_all();
            return Ok(());
        }
        match self.canon.place(head.block) {
            // The same head, or an endpoint that lags: a block that we have is nothing new.
            Place::Canonical => return Ok(()),
            Place::Older => return self.is_behind(head).await,
            Place::Newer | Place::Orphaned => {}
        }
        let mut path = vec![head];
        let common = loop {
            let Some(oldest) = path.last().copied() else { return Ok(()) };
            let Some(number) = oldest.block.number.checked_sub(1) else { return self.begin_anew(head).await };
            let parent = BlockRef { number, hash: oldest.parent_hash };
            match self.canon.place(parent) {
                Place::Canonical => break parent,
                Place::Older => return self.begin_anew(head).await,
                Place::Newer | Place::Orphaned if path.len() as u64 >= u64::from(self.options.walk_max) => {
                    return self.begin_anew(head).await;
                }
                Place::Newer | Place::Orphaned => self.walk_back(&mut path, oldest).await?,
            }
        };
        self.take_back_above(common).await;
        for header in path.into_iter().rev() {
            self.take_on(header).await?;
        }
        Ok(())
    }

    /// More of the way back, by number and so in one question; the hashes say whether it is the same chain.
    async fn walk_back(&self, path: &mut Vec<Header>, oldest: Header) -> Result<(), WatchError> {
        let last = oldest.block.number.saturating_sub(1);
        let gap = self.canon.head().map_or(CHUNK, |head| last.saturating_sub(head.number));
        let first = last.saturating_sub(gap.clamp(FORK_CHUNK, CHUNK) - 1);
        let mut expected = oldest.parent_hash;
        let before = path.len();
        for header in self.chain.headers(first..=last).await?.into_iter().rev() {
            // What is canonical already ends the walk, and what does not link came from another chain meanwhile.
            match header.filter(|header| header.block.hash == expected) {
                Some(header) => {
                    expected = header.parent_hash;
                    path.push(header);
                    if self.canon.place(header.block) == Place::Canonical {
                        path.pop();
                        break;
                    }
                }
                None => break,
            }
        }
        let canonical = self.canon.place(BlockRef { number: last, hash: oldest.parent_hash }) == Place::Canonical;
        if path.len() == before && !canonical { Err(WatchError::BlockMissing(last)) } else { Ok(()) }
    }

    /// The headers that are to be kept below this head.
    async fn linked_to(&self, head: Header) -> Result<Canon, WatchError> {
        let mut headers = vec![head];
        let mut keep = self.options.keep();
        if let Some(tag) = self.options.finality.tag()
            && let Some(tagged) = self.chain.header(tag).await?
        {
            let depth = head.block.number.saturating_sub(tagged.block.number);
            keep = keep.max(depth.saturating_add(1)).min(u64::from(self.options.walk_max).max(keep));
        }
        while (headers.len() as u64) < keep
            && let Some(oldest) = headers.last().copied()
            && let Some(last) = oldest.block.number.checked_sub(1)
        {
            let missing = keep.saturating_sub(headers.len() as u64).min(CHUNK);
            let mut expected = oldest.parent_hash;
            for header in self.chain.headers(last.saturating_sub(missing - 1)..=last).await?.into_iter().rev() {
                let header = header.filter(|header| header.block.hash == expected);
                let header = header.ok_or(WatchError::BlockMissing(last))?;
                expected = header.parent_hash;
                headers.push(header);
            }
        }
        Ok(Canon::restart(headers.iter().rev()))
    }

    /// The chain that we had is gone, or too far away to walk to.
    async fn begin_anew(&mut self, head: Header) -> Result<(), WatchError> {
        tracing::warn!(chain = %self.chain.id(), head = head.block.number, "the chain does not link to what was read; looking everything up");
        // What was told of the old chain is known until the new one is: a question that fails in between loses nothing.
        let new = self.linked_to(head).await?;
        if let Some(finalized) = self.canon.final_block() {
            self.check_final(&new, head, finalized).await?;
        }
        let mut old = std::mem::replace(&mut self.canon, new);
        self.book.ask_all();
        while let Some(linked) = old.pop() {
            for hash in linked.ours {
                self.book.ask(hash, Some(linked.link.block));
            }
        }
        Ok(())
    }

    /// Is what was final still on this chain? If not, everybody stops.
    async fn check_final(&mut self, chain: &Canon, head: Header, finalized: BlockRef) -> Result<(), WatchError> {
        let is_there = match chain.place(finalized) {
            Place::Canonical => true,
            Place::Orphaned => false,
            // The head went back behind it; whether it comes again, nobody knows.
            Place::Newer => return self.is_behind(head).await,
            Place::Older => match self.chain.header(HeaderAt::Number(finalized.number)).await? {
                Some(header) => header.block == finalized,
                None => return Err(WatchError::BlockMissing(finalized.number)),
            },
        };
        if !is_there {
            self.is_broken_below(finalized).await;
        }
        Ok(())
    }

    /// Blocks above the common one are no longer canonical.
    async fn take_back_above(&mut self, common: BlockRef) {
        if let Some(finalized) = self.canon.final_block()
            && finalized.number > common.number
        {
            self.is_broken_below(finalized).await;
        }
        while self.canon.head().is_some_and(|head| head.number > common.number) {
            let Some(linked) = self.canon.pop() else { return };
            let block = linked.link.block;
            tracing::info!(chain = %self.chain.id(), block = block.number, hash = %block.hash, ours = linked.ours.len(), "a block was orphaned");
            metrics::counter!("gapless_reorged_blocks_total", "chain" => self.chain.id().to_string()).increment(1);
            for hash in linked.ours {
                self.book.tell(hash, Sighting::Unmined { hash, block });
            }
        }
    }

    /// One new block: its receipts are read once, for all lanes, and only if anybody waits for any.
    async fn take_on(&mut self, header: Header) -> Result<(), WatchError> {
        let block = header.block;
        let receipts = match self.receipts_of(block).await {
            Ok(receipts) => {
                self.receipt_tries = (block.hash, 0);
                receipts
            }
            Err(error) => {
                let (hash, tries) = self.receipt_tries;
                let tries = if hash == block.hash { tries.saturating_add(1) } else { 1 };
                self.receipt_tries = (block.hash, tries);
                if tries < RECEIPT_TRIES {
                    return Err(error);
                }
                tracing::warn!(chain = %self.chain.id(), block = block.number, "its receipts cannot be had; looking every open hash up instead: {error}");
                self.book.ask_all();
                Vec::new()
            }
        };
        if !self.canon.push(&header) {
            return Err(WatchError::BlockMissing(block.number));
        }
        for receipt in receipts {
            if self.book.contains(receipt.hash) {
                self.found(receipt, header.parent_hash, None);
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
