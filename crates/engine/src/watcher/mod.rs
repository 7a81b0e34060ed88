//! The watcher: one for each chain on each node. It follows new heads, links them, reads the receipts of each block once for
//! all lanes, and tells lanes what became of their hashes.
//!
//! - `canon`: the linked headers, and which of our hashes stand in each.
//! - `follow`: from a new head back to what is linked, and forward again.
//! - `finality`: what is final, and what is kept of it.
//! - `book`: who waits for which hash. `look_up`: hashes that no block explained, by hash. `reverts`: why something reverted.
//!
//! What a lane is told: mined, no longer mined, final; each by a canonical block's hash, never by a height or a count alone.

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
use gapless_store::{Heads, StoreError};

use crate::driver::Driver;
use crate::published::{Follower, Publisher, published};

pub(crate) use book::WatchBook;
use canon::Canon;
pub use finality::Finality;
use follow::ReceiptFailures;
use reverts::{Asking, Unexplained, answered};

/// How a chain is watched, by the names that the config gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatcherOptions {
    /// Blocks, beginning with a transaction's own, that make it final; and the most that are listed.
    pub confirmations: u32,
    pub finality: Finality,
    /// Headers kept below the final one, so that a fork there is still seen for what it is.
    pub margin: u32,
    /// A gap of more blocks than this is not walked; then every open hash is looked up instead.
    pub walk_max: u32,
    pub poll_min: Duration,
    pub poll_max: Duration,
    /// Hashes that are looked up in one round.
    pub look_ups: usize,
    /// How long a hash may be in no block before it is asked for by name.
    pub stale_receipt_timeout: Duration,
    /// Hashes that are asked for so when there is a new head.
    pub stale_checks: usize,
    /// How often the head is kept in the store while nothing of ours becomes final; whatever does is kept at once.
    pub save_interval: Duration,
    /// Whole blocks that are read at the most, from the head down, to find what an account has sent.
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
    /// Headers that are kept.
    fn keep(&self) -> u64 {
        u64::from(self.confirmations.max(1)).saturating_add(u64::from(self.margin))
    }
}

/// What a node knows of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainStatus {
    pub head: BlockRef,
    pub final_block: Option<BlockRef>,
    /// When the head was read, by this node's clock.
    pub read_at: Tick,
    pub block_time_ms: Option<u64>,
    /// What lanes are told.
    pub facts: Arc<ChainFacts>,
}

impl ChainStatus {
    /// Why every lane of the chain has to stop.
    pub fn broken(&self) -> Option<&Protection> {
        self.facts.finality_violation.as_ref()
    }
}

#[derive(Debug)]
pub(crate) struct Watcher {
    chain: Arc<dyn Chain>,
    store: Arc<dyn Heads>,
    driver: Arc<dyn Driver>,
    book: Arc<WatchBook>,
    status: Publisher<Option<ChainStatus>>,
    options: WatcherOptions,
    canon: Canon,
    /// The kept head was read.
    remembers: bool,
    genesis: Option<B256>,
    broken: Option<Protection>,
    /// The head at which the finality tag was last asked for, and where it was.
    tag: Option<(BlockRef, Option<BlockRef>)>,
    save_at: Tick,
    /// Since when the endpoints contradict what was final without being ahead, and the lowest head they had.
    behind: Option<(Tick, u64)>,
    /// The oldest block that somebody stands in who waits for it to be linked.
    reach: Option<u64>,
    /// Not before this are older headers asked for again.
    deepen_at: Tick,
    /// By height: those that are mined too deep to be linked and not final yet.
    parked: BTreeMap<u64, Vec<(B256, BlockRef)>>,
    /// Headers that link to what is kept and were not taken on yet.
    ahead: VecDeque<Header>,
    reverted: VecDeque<Unexplained>,
    /// The oldest block that somebody stands in who is being asked about.
    explaining: Option<u64>,
    ask_why_at: Tick,
    receipt_failures: ReceiptFailures,
    /// Rounds in a row in which the chain could not be followed, and in which something could not be done.
    failures: u32,
    troubles: u32,
    /// There is something left to do that no new head is needed for.
    again_soon: bool,
    /// Hashes in one question. Fewer after a failure, so that one that cannot be asked for is left alone in the end.
    look_up_size: usize,
}

/// Why a round ended early. The next one goes on from there.
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
        store: Arc<dyn Heads>,
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

    /// Watches for as long as it is driven.
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
                // All the others only begin the next round, so the one answer that is waited for comes before them.
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

    /// One look at the chain. Whatever becomes of one question, the others are asked all the same, and what was read is told
    /// (R02).
    pub(crate) async fn round(&mut self) -> Result<(), WatchError> {
        self.again_soon = false;
        let before = self.canon.head();
        let followed = self.look().await;
        // Only this says whether the endpoints answer; other questions have a pace of their own.
        self.failures = if followed.is_ok() { 0 } else { self.failures.saturating_add(1) };
        let has_moved = self.canon.head() != before;
        let stale = if has_moved { self.options.stale_checks } else { 0 };
        self.book.ask_for_stale(self.driver.now(), self.options.stale_receipt_timeout, stale);
        if self.canon.head().is_none() || self.is_of_another_chain() {
            self.publish(false);
            return followed;
        }
        let deepened = self.deepen().await;
        // Before anybody is answered: what is final decides what they are told.
        let finalized = self.finalize().await;
        self.unpark_due();
        self.reach = None;
        let answered = self.answer_requests().await;
        // While the chain contradicts what was final, nobody is told that anything is.
        for linked in self.canon.trim(self.oldest_kept(), self.broken.is_none()) {
            linked.ours.iter().for_each(|hash| self.park(*hash, linked.link.block));
        }
        self.publish(followed.is_ok());
        followed.and(deepened).and(finalized).and(answered)
    }

    /// What is final by now, or linked, is asked about again.
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

    /// What stands on another chain is nothing to follow, and nothing to believe.
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

    /// One of ours is in a canonical block.
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
