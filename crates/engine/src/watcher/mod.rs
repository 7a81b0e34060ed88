//! The watcher: one for each chain on each node. The watcher follows new heads, links them, reads the receipts of each
//! block once for all lanes, and reports to lanes the fate of their hashes.
//!
//! - `canon`: the linked headers, and our hashes in each.
//! - `follow`: walks from a new head back to the linked part, and forward again.
//! - `linking`: blocks that are yet to be linked. `pace`: pauses and batch sizes.
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
mod linking;
mod look_up;
mod pace;
mod reverts;

use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{ChainError, ChainReader, Receipt, Revert};
use gapless_domain::{
    B256, BlockLink, BlockRef, ChainFacts, Execution, MinedTx, ProtectCode, Protection, Sighting, Tick,
};
use gapless_store::{Heads, StoreError};

use crate::driver::Driver;
use crate::published::{Follower, Publisher, published};

pub(crate) use book::WatchBook;
use canon::Canon;
pub use finality::Finality;
use finality::FinalityState;
use linking::Linking;
use pace::WatchPace;
use reverts::{RevertQuery, Reverts, query_answers};

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
    fn kept_headers(&self) -> u64 {
        u64::from(self.confirmations.max(1)).saturating_add(u64::from(self.margin))
    }
}

/// This node's knowledge of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainStatus {
    pub head: BlockRef,
    pub final_block: Option<BlockRef>,
    /// Another node has saved a newer final block.
    pub lags: bool,
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
    chain: Arc<dyn ChainReader>,
    store: Arc<dyn Heads>,
    driver: Arc<dyn Driver>,
    book: Arc<WatchBook>,
    status: Publisher<Option<ChainStatus>>,
    options: WatcherOptions,
    canon: Canon,
    finality: FinalityState,
    linking: Linking,
    reverts: Reverts,
    pace: WatchPace,
}

/// The error of a round. The next round continues where this one ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("the saved head cannot be read or written: {0}")]
    Store(#[from] StoreError),
    #[error("block {0} is missing on all endpoints, or does not link to the block above it")]
    BlockMissing(u64),
    #[error("the endpoints contradict a final block")]
    FinalityViolation,
    #[error("the endpoints are at block {head}, below the known head")]
    Behind { head: u64 },
}

impl Watcher {
    pub(crate) fn new(
        chain: Arc<dyn ChainReader>,
        store: Arc<dyn Heads>,
        driver: Arc<dyn Driver>,
        book: Arc<WatchBook>,
        options: WatcherOptions,
    ) -> (Self, Follower<Option<ChainStatus>>) {
        let (status, follower) = published(None);
        let look_up_size = options.look_ups;
        let watcher = Watcher {
            chain,
            store,
            driver,
            book,
            status,
            options,
            canon: Canon::default(),
            finality: FinalityState::default(),
            linking: Linking::default(),
            reverts: Reverts::default(),
            pace: WatchPace::new(look_up_size),
        };
        (watcher, follower)
    }

    /// Watches for as long as the future is polled.
    pub(crate) async fn run(mut self) {
        let mut query: Option<RevertQuery> = None;
        loop {
            let outcome = self.round().await;
            self.pace.round_ended(outcome.is_ok());
            if let Err(error) = &outcome {
                let chain = self.chain.id();
                metrics::counter!("gapless_watcher_errors_total", "chain" => chain.to_string()).increment(1);
                if let Some(rounds) = self.pace.failed_rounds_to_log() {
                    tracing::warn!(%chain, rounds, "chain cannot be followed: {error}");
                }
            }
            query = query.or_else(|| self.start_revert_query());
            let now = self.driver.now();
            let pause = self.pace.pause(self.canon.block_time_ms(), &self.options, now);
            let wait = self.driver.sleep_until(now.saturating_add(pause));
            tokio::select! {
                // The other branches only begin the next round, so the answer of a query comes before them.
                biased;
                answers = query_answers(&mut query) => {
                    query = None;
                    self.handle_revert_answers(answers).await;
                }
                () = self.chain.head_changed(), if self.pace.is_following() => {}
                () = self.book.requested(), if self.pace.is_following() => {}
                () = wait => {}
            }
        }
    }

    /// One round. A failed step does not stop the other steps, and everything that was read is reported (R02).
    pub(crate) async fn round(&mut self) -> Result<(), WatchError> {
        self.pace.has_more_work = false;
        let before = self.canon.head();
        let followed = self.follow_head().await;
        // Only following the head tells whether endpoints answer; the other steps have their own pace.
        self.pace.head_followed(followed.is_ok());
        let has_moved = self.canon.head() != before;
        let stale = if has_moved { self.options.stale_checks } else { 0 };
        self.book.request_stale(self.driver.now(), self.options.stale_receipt_timeout, stale);
        if self.canon.head().is_none() || self.is_other_chain() {
            self.book.deliver_held();
            self.publish(false);
            return followed;
        }
        let deepened = self.deepen().await;
        // Before requests are answered: the answers depend on the final block.
        let finalized = self.finalize().await;
        self.book.deliver_held();
        let compared = self.read_saved_final().await;
        self.unpark_due();
        self.linking.link_down_to = None;
        let answered = self.answer_requests().await;
        // Under a finality violation no block is reported as final.
        for linked in self.canon.trim(self.oldest_kept(), self.finality.violation.is_none()) {
            linked.ours.iter().for_each(|hash| self.park(*hash, linked.link.block));
        }
        self.publish(followed.is_ok());
        followed.and(deepened).and(finalized).and(compared).and(answered)
    }

    /// Requests the parked hashes whose blocks are linked or final by now.
    fn unpark_due(&mut self) {
        if let Some(first) = self.canon.first_number() {
            self.unpark(first..=u64::MAX);
        }
        if let Some(finalized) = self.canon.final_block().filter(|_| self.finality.violation.is_none()) {
            self.unpark(0..=finalized.number);
        }
    }

    async fn follow_head(&mut self) -> Result<(), WatchError> {
        self.restore_head().await?;
        if self.is_other_chain() {
            return Err(WatchError::FinalityViolation);
        }
        let head = self.chain.head().await?;
        self.follow(head).await
    }

    /// Another chain under the same id: the watcher neither follows it nor trusts its blocks.
    fn is_other_chain(&self) -> bool {
        self.finality.violation.as_ref().is_some_and(|violation| violation.code == ProtectCode::OtherChain)
    }

    fn publish(&self, read: bool) {
        let Some(head) = self.canon.head() else { return };
        let old = self.status.read(Clone::clone);
        let same = |old: &ChainStatus| old.head == head && old.facts.finality_violation == self.finality.violation;
        let facts = match old.as_ref().filter(|old| same(old)) {
            Some(old) => Arc::clone(&old.facts),
            None => {
                let Some(tail) = self.canon.tail(self.options.kept_headers()) else { return };
                metrics::gauge!("gapless_chain_head", "chain" => self.chain.id().to_string()).set(head.number as f64);
                Arc::new(ChainFacts { tail, finality_violation: self.finality.violation.clone() })
            }
        };
        let read_at = match old {
            _ if read => self.driver.now(),
            Some(old) => old.read_at,
            None => Tick::default(),
        };
        let (final_block, block_time_ms) = (self.canon.final_block(), self.canon.block_time_ms());
        let lags = self.finality.saved.map(|saved| saved.number) > final_block.map(|block| block.number);
        let new = ChainStatus { head, final_block, lags, read_at, block_time_ms, facts };
        self.status.publish_if(|status| {
            let is_new = status.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.facts, &new.facts));
            *status = Some(new);
            is_new
        });
    }

    /// Handles the receipt of one of our hashes in a canonical block.
    fn handle_receipt(&mut self, receipt: Receipt, parent_hash: B256, final_list: Option<Arc<[BlockLink]>>) {
        if receipt.succeeded {
            self.deliver_mined(&receipt, parent_hash, None, final_list);
        } else {
            self.reverts.push(receipt, self.driver.now());
        }
    }

    fn deliver_mined(
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
        self.canon.record(block, hash);
        let (work_used, unit_price) = (receipt.work_used, receipt.unit_price);
        let mined = MinedTx { hash, block, parent_hash, execution, work_used, unit_price };
        self.book.deliver(hash, Sighting::Mined(mined));
        if let Some(list) = final_list {
            self.book.deliver(hash, Sighting::Final { hash, block, list });
        }
    }
}
