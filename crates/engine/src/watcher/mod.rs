//! The watcher: one for each chain on each node. It follows new heads, links them, reads the receipts of each block once for
//! all lanes, and tells lanes what became of their hashes.
//!
//! - `canon`: the linked headers, and which of our hashes stand in each.
//! - `book`: who waits for which hash.
//! - `look_up`: hashes that no block explained, by hash.
//!
//! What a lane is told: mined, no longer mined, final; each by a canonical block's hash, never by a height or a count alone.

mod book;
mod canon;
mod look_up;

use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{Chain, ChainError, Header, HeaderAt, Receipt};
use gapless_domain::{BlockRef, Bytes, Execution, MinedTx, Sighting, Tick};
use tokio::sync::watch;

use crate::driver::Driver;

pub(crate) use book::WatchBook;
use canon::{Canon, Place};

/// How a chain is watched, by the names that the config gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatcherOptions {
    /// Blocks, beginning with a transaction's own, that make it final.
    pub confirmations: u32,
    /// Headers kept below the final one, so that a fork there is still seen for what it is.
    pub margin: u32,
    /// A gap of more blocks than this is not walked; then every open hash is looked up instead.
    pub walk_max: u32,
    pub poll_min: Duration,
    pub poll_max: Duration,
    /// Hashes that are looked up in one round.
    pub look_ups: usize,
}

impl Default for WatcherOptions {
    fn default() -> Self {
        WatcherOptions {
            confirmations: 20,
            margin: 64,
            walk_max: 1000,
            poll_min: Duration::from_millis(50),
            poll_max: Duration::from_secs(2),
            look_ups: 500,
        }
    }
}

/// What a node knows of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainStatus {
    pub head: Header,
    pub final_block: BlockRef,
    /// When the head was read, by this node's clock.
    pub read_at: Tick,
    pub block_time_ms: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Watcher {
    chain: Arc<dyn Chain>,
    driver: Arc<dyn Driver>,
    book: Arc<WatchBook>,
    status: watch::Sender<Option<ChainStatus>>,
    options: WatcherOptions,
    canon: Canon,
    failures: u32,
    /// Hashes in one question. Fewer after a failure, so that one that cannot be asked for is left alone in the end.
    look_up_size: usize,
}

/// Why a round ended early. The next one goes on from there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("block {0} is not known to any endpoint (yet)")]
    BlockMissing(u64),
}

impl Watcher {
    pub(crate) fn new(
        chain: Arc<dyn Chain>,
        driver: Arc<dyn Driver>,
        book: Arc<WatchBook>,
        options: WatcherOptions,
    ) -> (Self, watch::Receiver<Option<ChainStatus>>) {
        let (status, seen) = watch::channel(None);
        let look_up_size = options.look_ups;
        let watcher =
            Watcher { chain, driver, book, status, options, canon: Canon::default(), failures: 0, look_up_size };
        (watcher, seen)
    }

    /// Watches for as long as it is driven.
    pub(crate) async fn run(mut self) {
        loop {
            match self.round().await {
                Ok(()) => self.failures = 0,
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    metrics::counter!("gapless_watcher_errors_total", "chain" => self.chain.id().to_string())
                        .increment(1);
                    if self.failures == 3 || self.failures.is_multiple_of(100) {
                        tracing::warn!(chain = %self.chain.id(), rounds = self.failures, "cannot follow the chain: {error}");
                    }
                }
            }
            let wait = self.driver.sleep_until(self.driver.now().saturating_add(self.pause()));
            tokio::select! {
                () = wait => {}
                () = self.chain.head_changed(), if self.failures == 0 => {}
                () = self.book.asked() => {}
            }
        }
    }

    /// A quarter of the block time; longer after failures.
    fn pause(&self) -> Duration {
        let learned = self.canon.block_time_ms().map_or(self.options.poll_min * 4, |ms| Duration::from_millis(ms / 4));
        let longer = learned.max(self.options.poll_min).saturating_mul(1 << self.failures.min(6));
        longer.min(self.options.poll_max)
    }

    /// One look at the chain.
    pub(crate) async fn round(&mut self) -> Result<(), WatchError> {
        let head = self.chain.head().await?;
        if self.canon.head().is_none() {
            self.restart(head).await?;
        } else {
            self.advance(head).await?;
        }
        // Whatever becomes of single questions, the blocks were read: what they say is told (R02).
        let answered = self.answer_requests().await;
        for (hash, block) in self.canon.newly_final(self.options.confirmations) {
            self.book.tell(hash, Sighting::Final { hash, block });
        }
        self.canon.trim(self.options.confirmations.saturating_add(self.options.margin) as usize);
        self.publish();
        answered
    }

    fn publish(&self) {
        let (Some(head), Some(final_block)) = (self.canon.head(), self.canon.final_block(self.options.confirmations))
        else {
            return;
        };
        let block_time_ms = self.canon.block_time_ms();
        let status = ChainStatus { head: *head, final_block, read_at: self.driver.now(), block_time_ms };
        let moved = self.status.borrow().is_none_or(|old| old.head.block != head.block);
        self.status.send_replace(Some(status));
        if moved {
            metrics::gauge!("gapless_chain_head", "chain" => self.chain.id().to_string()).set(head.block.number as f64);
        }
    }

    async fn restart(&mut self, head: Header) -> Result<(), WatchError> {
        self.canon = self.linked_to(head).await?;
        // Nobody has read these blocks for us.
        self.book.ask_all();
        Ok(())
    }

    /// The headers down to the final one: everything older is final by depth.
    async fn linked_to(&self, head: Header) -> Result<Canon, WatchError> {
        let mut headers = vec![head];
        let mut oldest = head;
        while headers.len() < self.options.confirmations as usize && oldest.block.number > 0 {
            let at = HeaderAt::Hash(oldest.parent_hash);
            oldest = self.chain.header(at).await?.ok_or(WatchError::BlockMissing(oldest.block.number - 1))?;
            headers.push(oldest);
        }
        headers.reverse();
        Ok(Canon::restart(headers))
    }

    async fn advance(&mut self, head: Header) -> Result<(), WatchError> {
        match self.canon.place(head.block) {
            // The same head, or an endpoint that lags: a block that we have is nothing new.
            Place::Canonical | Place::Older => return Ok(()),
            Place::Newer | Place::Orphaned => {}
        }
        let mut path = vec![head];
        let mut oldest = head;
        let common = loop {
            let Some(number) = oldest.block.number.checked_sub(1) else { return self.begin_anew(head).await };
            let parent = BlockRef { number, hash: oldest.parent_hash };
            match self.canon.place(parent) {
                Place::Canonical => break parent,
                Place::Older => return self.begin_anew(head).await,
                Place::Newer | Place::Orphaned if path.len() as u64 >= u64::from(self.options.walk_max) => {
                    return self.begin_anew(head).await;
                }
                Place::Newer | Place::Orphaned => {
                    let found = self.chain.header(HeaderAt::Hash(parent.hash)).await?;
                    oldest = found.ok_or(WatchError::BlockMissing(number))?;
                    path.push(oldest);
                }
            }
        };
        self.take_back_above(common);
        for header in path.into_iter().rev() {
            self.take_on(header).await?;
        }
        Ok(())
    }

    /// The chain that we had is gone, or too far away to walk to.
    async fn begin_anew(&mut self, head: Header) -> Result<(), WatchError> {
        tracing::warn!(chain = %self.chain.id(), head = head.block.number, "the chain does not link to what was read; looking everything up");
        // What was told of the old chain is known until the new one is: a question that fails in between loses nothing.
        let new = self.linked_to(head).await?;
        let mut old = std::mem::replace(&mut self.canon, new);
        self.book.ask_all();
        while let Some(linked) = old.pop() {
            for hash in linked.ours {
                self.book.ask(hash, Some(linked.header.block));
            }
        }
        Ok(())
    }

    /// Blocks above the common one are no longer canonical.
    fn take_back_above(&mut self, common: BlockRef) {
        while self.canon.head().is_some_and(|head| head.block.number > common.number) {
            let Some(linked) = self.canon.pop() else { return };
            let block = linked.header.block;
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
        let receipts = if self.book.is_empty() {
            Vec::new()
        } else {
            self.chain.block_receipts(block).await?.ok_or(WatchError::BlockMissing(block.number))?
        };
        if !self.canon.push(header) {
            return Err(WatchError::BlockMissing(block.number));
        }
        for receipt in receipts.into_iter().filter(|receipt| self.book.contains(receipt.hash)) {
            metrics::counter!("gapless_receipt_check_total", "result" => "mined").increment(1);
            self.canon.note(block, receipt.hash);
            self.book.tell(receipt.hash, Sighting::Mined(mined(&receipt)));
        }
        Ok(())
    }
}

fn mined(receipt: &Receipt) -> MinedTx {
    let execution =
        if receipt.succeeded { Execution::Success } else { Execution::Reverted { reason: None, data: Bytes::new() } };
    MinedTx {
        hash: receipt.hash,
        block: receipt.block,
        execution,
        gas_used: receipt.gas_used,
        effective_gas_price: receipt.effective_gas_price,
    }
}
