//! The watcher: one for each chain on each node. The watcher follows new heads, links them, reads the receipts of each
//! block once for all lanes, and reports to lanes the fate of their hashes.
//!
//! - `canon`: the linked headers, and our hashes in each.
//! - `follow`: walks from a new head back to the linked part, and forward again.
//! - `finality`: the final block, its persistence, and finality violations.
//! - `book`: the watched hashes of all lanes. `look_up`: finds hashes that were in no block that was read. `reverts`:
//!   finds the reasons of reverts.
//!
//! A lane learns that a hash is mined, no longer mined, or final; each by the hash of a canonical block, never by a
//! height or a count alone.

mod book;
mod canon;
mod finality;
mod follow;
mod look_up;
mod reverts;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{Chain, ChainError, Header, Receipt, Revert};
use gapless_domain::{
    B256, BlockLink, BlockRef, ChainFacts, Execution, MinedTx, ProtectCode, Protection, Sighting, Tick,
};
use gapless_store::{Store, StoreError};

use crate::driver::Driver;
use crate::published::{Follower, Publisher, published};

pub(crate) use book::WatchBook;
use canon::Canon;
pub use finality::Finality;
use follow::ReceiptFailures;
use reverts::{Asking, Unexplained, answered};

/// The rules of watching a chain, by their config names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatcherOptions {
    /// Blocks, beginning with a transaction's own, that make it final; also the longest confirmation list.
    pub confirmations: u32,
    pub finality: Finality,
    /// Headers kept below the final block, so that a fork there is still recognised.
    pub margin: u32,
    /// Longest gap in blocks that is walked header by header; above it, every open hash is looked up instead.
    pub walk_max: u32,
    pub poll_min: Duration,
    pub poll_max: Duration,
    /// Hashes that are looked up in one round.
    pub look_ups: usize,
    /// A hash that is in no block for this long is looked up by hash.
    pub stale_receipt_timeout: Duration,
    /// Such look-ups at each new head.
    pub stale_checks: usize,
    /// Interval of saving the head while none of our transactions becomes final; with one, the head is saved at once.
    pub save_interval: Duration,
    /// Most blocks that a scan reads, from the head down.
    pub survey_blocks: u32,
}

impl Default for WatcherOptions {
    fn default() -> Self {
        WatcherOptions {
            confirmations: 20,
            finality: Finality::Depth,
            margin: 64,
            walk_max: 1000,
            poll_min: Duration::from_millis(50),
            poll_max: Duration::from_secs(2),
            look_ups: 500,
            stale_receipt_timeout: Duration::from_secs(60),
            stale_checks: 100,
            save_interval: Duration::from_secs(5),
            survey_blocks: 10_000,
        }
    }
}

impl WatcherOptions {
    /// The number of headers to keep.
    fn keep(&self) -> u64 {
        u64::from(self.confirmations.max(1)).saturating_add(u64::from(self.margin))
    }
}

/// This node's knowledge of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainStatus {
    pub head: BlockRef,
    pub final_block: Option<BlockRef>,
    /// This node's time when the head was read.
    pub read_at: Tick,
    pub block_time_ms: Option<u64>,
    /// The facts for lanes.
    pub facts: Arc<ChainFacts>,
}

impl ChainStatus {
    /// The finality violation that stops every lane of the chain.
    pub fn broken(&self) -> Option<&Protection> {
        self.facts.finality_violation.as_ref()
    }
}

#[derive(Debug)]
pub(crate) struct Watcher {
    chain: Arc<dyn Chain>,
    store: Arc<dyn Store>,
    driver: Arc<dyn Driver>,
    book: Arc<WatchBook>,
    status: Publisher<Option<ChainStatus>>,
    options: WatcherOptions,
    canon: Canon,
    /// The saved head was read from the store.
    remembers: bool,
    genesis: Option<B256>,
    broken: Option<Protection>,
    /// The head at which the finality tag was last read, and the tagged block.
    tag: Option<(BlockRef, Option<BlockRef>)>,
    save_at: Tick,
    /// Start of the period in which endpoints contradict a final block without being ahead, and their lowest head in
    /// it.
    behind: Option<(Tick, u64)>,
    /// Lowest height that holds one of our transactions and is not linked yet.
    reach: Option<u64>,
    /// The earliest time of the next request for older headers.
    deepen_at: Tick,
    /// By height: hashes that are mined too deep to be linked, and not final yet.
    parked: BTreeMap<u64, Vec<(B256, BlockRef)>>,
    /// Headers that link to the canonical chain and are not appended yet.
    ahead: VecDeque<Header>,
    reverted: VecDeque<Unexplained>,
    /// Lowest block of the reverts whose reasons are being queried.
    explaining: Option<u64>,
    ask_why_at: Tick,
    receipt_failures: ReceiptFailures,
    /// Consecutive rounds in which the head could not be followed, and in which any step failed.
    failures: u32,
    troubles: u32,
    /// Work is left that needs no new head.
    again_soon: bool,
    /// Hashes in one look-up request. Halved after a failure, so that a hash that fails the request is isolated in the
    /// end.
    look_up_size: usize,
}

/// The error of a round. The next round continues where this one ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("the kept head cannot be read or written: {0}")]
    Store(#[from] StoreError),
    #[error("block {0} is not known to any endpoint (yet), or does not link to the one after it")]
    BlockMissing(u64),
    #[error("the endpoints contradict what was final")]
    Contradiction,
    #[error("the endpoints are at block {head} and behind what was read before")]
    Behind { head: u64 },
}

impl Watcher {
    pub(crate) fn new(
        chain: Arc<dyn Chain>,
        store: Arc<dyn Store>,
        driver: Arc<dyn Driver>,
        book: Arc<WatchBook>,
        options: WatcherOptions,
    ) -> (Self, Follower<Option<ChainStatus>>) {
        let (status, seen) = published(None);
        let look_up_size = options.look_ups;
        let watcher = Watcher {
            chain,
            store,
            driver,
            book,
            status,
            options,
            canon: Canon::default(),
            remembers: false,
            genesis: None,
            broken: None,
            tag: None,
            save_at: Tick::default(),
            behind: None,
            reach: None,
            deepen_at: Tick::default(),
            parked: BTreeMap::new(),
            ask_why_at: Tick::default(),
            ahead: VecDeque::new(),
            reverted: VecDeque::new(),
            explaining: None,
            receipt_failures: ReceiptFailures::default(),
            failures: 0,
            troubles: 0,
            again_soon: false,
            look_up_size,
        };
        (watcher, seen)
    }

    /// Watches for as long as the future is polled.
    pub(crate) async fn run(mut self) {
        let mut asking: Option<Asking> = None;
        loop {
            match self.round().await {
                Ok(()) => self.troubles = 0,
                Err(error) => {
                    self.troubles = self.troubles.saturating_add(1);
                    metrics::counter!("gapless_watcher_errors_total", "chain" => self.chain.id().to_string())
                        .increment(1);
                    if self.troubles == 3 || self.troubles.is_multiple_of(100) {
                        tracing::warn!(chain = %self.chain.id(), rounds = self.troubles, "cannot follow the chain: {error}");
                    }
                }
            }
            asking = asking.or_else(|| self.begin_asking());
            let wait = self.driver.sleep_until(self.driver.now().saturating_add(self.pause()));
            tokio::select! {
                // The other branches only begin the next round, so the answer of a query comes before them.
                biased;
                answers = answered(&mut asking) => {
                    asking = None;
                    self.explain_reverts(answers).await;
                }
                () = self.chain.head_changed(), if self.failures == 0 => {}
                () = self.book.asked(), if self.failures == 0 => {}
                () = wait => {}
            }
        }
    }

    /// A quarter of the block time; longer after failures.
    fn pause(&self) -> Duration {
        if self.again_soon && self.failures == 0 {
            return self.options.poll_min;
        }
        let learned = self.canon.block_time_ms().map_or(self.options.poll_min * 4, |ms| Duration::from_millis(ms / 4));
        let longer = learned.max(self.options.poll_min).saturating_mul(1 << self.failures.min(6));
        longer.min(self.options.poll_max)
    }

    /// One round. A failed step does not stop the other steps, and everything that was read is reported (R02).
    pub(crate) async fn round(&mut self) -> Result<(), WatchError> {
        self.again_soon = false;
        let before = self.canon.head();
        let followed = self.look().await;
        // Only following the head tells whether endpoints answer; the other steps have their own pace.
        self.failures = if followed.is_ok() { 0 } else { self.failures.saturating_add(1) };
        let has_moved = self.canon.head() != before;
        let stale = if has_moved { self.options.stale_checks } else { 0 };
        self.book.ask_for_stale(self.driver.now(), self.options.stale_receipt_timeout, stale);
        if self.canon.head().is_none() || self.is_of_another_chain() {
            self.publish(false);
            return followed;
        }
        let deepened = self.deepen().await;
        // Before requests are answered: the answers depend on the final block.
        let finalized = self.finalize().await;
        self.unpark_due();
        self.reach = None;
        let answered = self.answer_requests().await;
        // Under a finality violation no block is reported as final.
        for linked in self.canon.trim(self.oldest_kept(), self.broken.is_none()) {
            linked.ours.iter().for_each(|hash| self.park(*hash, linked.link.block));
        }
        self.publish(followed.is_ok());
        followed.and(deepened).and(finalized).and(answered)
    }

    /// Requests the parked hashes whose blocks are linked or final by now.
    fn unpark_due(&mut self) {
        if let Some(first) = self.canon.first_number() {
            self.unpark(first..=u64::MAX);
        }
        if let Some(finalized) = self.canon.final_block().filter(|_| self.broken.is_none()) {
            self.unpark(0..=finalized.number);
        }
    }

    async fn look(&mut self) -> Result<(), WatchError> {
        self.remember().await?;
        if self.is_of_another_chain() {
            return Err(WatchError::Contradiction);
        }
        let head = self.chain.head().await?;
        self.follow(head).await
    }

    /// Another chain under the same id: the watcher neither follows it nor trusts its blocks.
    fn is_of_another_chain(&self) -> bool {
        self.broken.as_ref().is_some_and(|broken| broken.code == ProtectCode::OtherChain)
    }

    fn publish(&self, read: bool) {
        let Some(head) = self.canon.head() else { return };
        let old = self.status.read(Clone::clone);
        let same = |old: &ChainStatus| old.head == head && old.facts.finality_violation == self.broken;
        let facts = match old.as_ref().filter(|old| same(old)) {
            Some(old) => Arc::clone(&old.facts),
            None => {
                let Some(tail) = self.canon.tail(self.options.keep()) else { return };
                metrics::gauge!("gapless_chain_head", "chain" => self.chain.id().to_string()).set(head.number as f64);
                Arc::new(ChainFacts { tail, finality_violation: self.broken.clone() })
            }
        };
        let read_at = match old {
            _ if read => self.driver.now(),
            Some(old) => old.read_at,
            None => Tick::default(),
        };
        let (final_block, block_time_ms) = (self.canon.final_block(), self.canon.block_time_ms());
        let news = ChainStatus { head, final_block, read_at, block_time_ms, facts };
        self.status.publish_if(|status| {
            let is_new = status.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.facts, &news.facts));
            *status = Some(news);
            is_new
        });
    }

    /// Handles the receipt of one of our hashes in a canonical block.
    fn found(&mut self, receipt: Receipt, parent_hash: B256, final_list: Option<Arc<[BlockLink]>>) {
        if receipt.succeeded {
            self.tell_mined(&receipt, parent_hash, None, final_list);
        } else {
            self.ask_why(receipt);
        }
    }

    fn tell_mined(
        &mut self,
        receipt: &Receipt,
        parent_hash: B256,
        reverted: Option<Revert>,
        final_list: Option<Arc<[BlockLink]>>,
    ) {
        let (hash, block) = (receipt.hash, receipt.block);
        metrics::counter!("gapless_receipt_check_total", "result" => "mined").increment(1);
        let execution = match reverted {
            None => Execution::Success,
            Some(Revert { reason, data }) => Execution::Reverted { reason, data },
        };
        self.canon.note(block, hash);
        let (gas_used, effective_gas_price) = (receipt.gas_used, receipt.effective_gas_price);
        let mined = MinedTx { hash, block, parent_hash, execution, gas_used, effective_gas_price };
        self.book.tell(hash, Sighting::Mined(mined));
        if let Some(list) = final_list {
            self.book.tell(hash, Sighting::Final { hash, block, list });
        }
    }
}
