//! Services that all lanes of one chain share on this node: prices, sends, account reads, the watch book.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{Chain, ChainError, FeeQuote, Verdict};
use gapless_domain::{
    AccountFacts, B256, BlockRef, NodeText, PrepareFailure, PrepareKey, PrepareRequest, Prepared, SubmitterId, Tick,
};
use gapless_store::Heads;
use tokio::sync::Mutex;

use crate::batched_io::{AccountReadOp, AccountReader, Sender};
use crate::driver::Driver;
use crate::published::Follower;
use crate::watcher::{ChainStatus, WatchBook, WatcherOptions};

/// Gas limit = estimate × factor + constant (F05), and the lifetime of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GasPolicy {
    pub factor_permille: u32,
    pub constant: u64,
    /// A price is reused at later blocks for this long.
    pub price_for: Duration,
}

impl Default for GasPolicy {
    fn default() -> Self {
        GasPolicy { factor_permille: 1200, constant: 0, price_for: Duration::from_secs(1) }
    }
}

impl GasPolicy {
    fn limit(&self, estimate: u64) -> u64 {
        let scaled = u128::from(estimate) * u128::from(self.factor_permille) / 1000;
        u64::try_from(scaled).unwrap_or(u64::MAX).saturating_add(self.constant)
    }
}

/// The parts that a [`ChainDesk`] is made of.
pub(crate) struct DeskParts {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) heads: Arc<dyn Heads>,
    pub(crate) book: Arc<WatchBook>,
    pub(crate) sender: Sender,
    pub(crate) accounts: AccountReader,
    pub(crate) status: Follower<Option<ChainStatus>>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) gas: GasPolicy,
    pub(crate) watcher_options: WatcherOptions,
}

#[derive(Debug)]
pub(crate) struct ChainDesk {
    pub(crate) chain: Arc<dyn Chain>,
    /// The heads that all nodes have saved.
    pub(crate) heads: Arc<dyn Heads>,
    pub(crate) book: Arc<WatchBook>,
    pub(crate) sender: Sender,
    pub(crate) status: Follower<Option<ChainStatus>>,
    accounts: AccountReader,
    gas: GasPolicy,
    /// One quote for all lanes. The first lane requests it; the others wait for the lock.
    quote: Mutex<Option<CachedQuote>>,
    /// The last read of each account.
    cached_accounts: std::sync::Mutex<HashMap<SubmitterId, CachedAccount>>,
    driver: Arc<dyn Driver>,
    pub(crate) watcher_options: WatcherOptions,
    /// Only one lane at a time scans: blocks are big, and a thousand lanes may need a scan at the same moment.
    pub(crate) scan_lock: Mutex<()>,
    lanes: AtomicUsize,
}

/// A fee quote with the head and the time at which it was requested.
#[derive(Clone, Copy, Debug)]
struct CachedQuote {
    quote: FeeQuote,
    head: B256,
    asked_at: Tick,
}

/// Account facts with the time and the head at which they were read.
#[derive(Clone, Copy, Debug)]
struct CachedAccount {
    at: Tick,
    head: BlockRef,
    facts: AccountFacts,
}

/// The load of one chain on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLoad {
    /// Hashes that this node watches.
    pub open_hashes: usize,
    /// Lanes that run on this node.
    pub lanes: usize,
}

/// Maximum age of displayed account facts, and the timeout for a newer read.
const DISPLAY_MAX_AGE: Duration = Duration::from_secs(1);
const DISPLAY_TIMEOUT: Duration = Duration::from_secs(3);

impl ChainDesk {
    pub(crate) fn new(parts: DeskParts) -> Self {
        let DeskParts { chain, heads, book, sender, accounts, status, driver, gas, watcher_options } = parts;
        ChainDesk {
            chain,
            heads,
            book,
            sender,
            status,
            accounts,
            gas,
            quote: Mutex::new(None),
            cached_accounts: std::sync::Mutex::default(),
            driver,
            watcher_options,
            scan_lock: Mutex::default(),
            lanes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn status(&self) -> Option<ChainStatus> {
        self.status.read(Clone::clone)
    }

    pub(crate) async fn account(&self, submitter: &SubmitterId) -> Option<AccountFacts> {
        let status = self.status()?;
        let AccountReadOp { view, final_at } = self.accounts.read(submitter.clone(), status.final_block).await?;
        let facts = AccountFacts {
            head: status.head.number,
            latest: view.latest,
            pending: view.pending,
            finalized: view.finalized,
            final_block: final_at,
            balance: view.balance,
            delegated: view.delegated,
        };
        self.cached_accounts()
            .insert(submitter.clone(), CachedAccount { at: self.driver.now(), head: status.head, facts });
        Some(facts)
    }

    /// For display: at most 1 s old; after 3 s without an answer, the last known value.
    pub(crate) async fn account_for_display(&self, submitter: &SubmitterId) -> Option<AccountFacts> {
        let now = self.driver.now();
        let known = self.cached_accounts().get(submitter).copied();
        let head = self.status().map(|status| status.head);
        let is_fresh =
            |account: &CachedAccount| now.saturating_since(account.at) <= DISPLAY_MAX_AGE && Some(account.head) == head;
        if let Some(account) = known.filter(is_fresh) {
            return Some(account.facts);
        }
        let newer = tokio::select! {
            biased;
            newer = self.account(submitter) => newer,
            () = self.driver.sleep_until(now.saturating_add(DISPLAY_TIMEOUT)) => None,
        };
        newer.or(known.map(|account| account.facts))
    }

    pub(crate) fn load(&self) -> ChainLoad {
        ChainLoad { open_hashes: self.book.len(), lanes: self.lanes.load(Ordering::Relaxed) }
    }

    pub(crate) fn lane_started(&self) {
        self.lanes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lane_ended(&self) {
        self.lanes.fetch_sub(1, Ordering::Relaxed);
    }

    fn cached_accounts(&self) -> MutexGuard<'_, HashMap<SubmitterId, CachedAccount>> {
        self.cached_accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn prepare(
        &self,
        submitter: &SubmitterId,
        requests: Vec<PrepareRequest>,
    ) -> Vec<(PrepareKey, Result<Prepared, PrepareFailure>)> {
        let all = requests.iter().map(async |request| (request.key, self.prepare_one(submitter, request).await));
        join_all(all).await
    }

    async fn prepare_one(&self, submitter: &SubmitterId, request: &PrepareRequest) -> Result<Prepared, PrepareFailure> {
        let Some(status) = self.status() else {
            return Err(PrepareFailure::Unavailable(NodeText::new("this node has not read the chain yet")));
        };
        let head = status.head;
        let gas_limit = match request.call.gas_limit {
            Some(limit) => limit,
            None => {
                let estimate = self.chain.estimate_gas(submitter, &request.call, head).await;
                self.gas.limit(estimate.map_err(|error| self.estimate_failure(error, head))?)
            }
        };
        let failed = |error| prepare_failure(error, head);
        let (fees, base_fee) = match request.call.fees {
            Some(fees) => (fees, 0),
            None => {
                let quote = self.quote(head).await.map_err(failed)?;
                (quote.at(request.speed), quote.base_fee)
            }
        };
        let surcharge = self.chain.surcharge(&request.call).await.map_err(failed)?;
        Ok(Prepared { gas_limit, fees, base_fee, surcharge })
    }

    /// A revert on top of a block that is orphaned by now proves nothing.
    fn estimate_failure(&self, error: ChainError, at: BlockRef) -> PrepareFailure {
        let orphaned = self.status().is_none_or(|now| now.head.number <= at.number && now.head != at);
        match prepare_failure(error, at) {
            PrepareFailure::Reverted { text, .. } if orphaned => PrepareFailure::Unavailable(text),
            failure => failure,
        }
    }

    async fn quote(&self, head: BlockRef) -> Result<FeeQuote, ChainError> {
        let mut cached = self.quote.lock().await;
        let asked_at = self.driver.now();
        if let Some(CachedQuote { quote, head: cached_head, asked_at: cached_at }) = *cached
            && (cached_head == head.hash || asked_at.saturating_since(cached_at) < self.gas.price_for)
        {
            return Ok(quote);
        }
        let quote = self.chain.quote().await?;
        *cached = Some(CachedQuote { quote, head: head.hash, asked_at });
        Ok(quote)
    }
}

fn prepare_failure(error: ChainError, at: BlockRef) -> PrepareFailure {
    let text = error.classified.text;
    match error.classified.verdict {
        Verdict::Reverted => PrepareFailure::Reverted { at, text },
        Verdict::InsufficientFunds => PrepareFailure::InsufficientFunds(text),
        Verdict::Rejected => PrepareFailure::Invalid(text),
        _ => PrepareFailure::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves F05
    #[test]
    fn gas_limit_is_estimate_times_factor_plus_constant() {
        let policy = GasPolicy { factor_permille: 1500, constant: 1000, ..GasPolicy::default() };
        assert_eq!(policy.limit(100_000), 151_000);
        assert_eq!(policy.limit(u64::MAX), u64::MAX);
    }
}
