//! Services that all lanes of one chain share on this node: prices, sends, account reads, the watch book.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_chain::Chain;
use gapless_domain::{AccountFacts, BlockRef, PrepareFailure, PrepareKey, PrepareRequest, Prepared, SubmitterId, Tick};
use gapless_store::Heads;
use tokio::sync::Mutex;

use crate::batched_io::{AccountReadOp, AccountReader, Sender};
use crate::driver::Driver;
use crate::prices::{PriceOptions, Prices};
use crate::published::Follower;
use crate::watcher::{ChainStatus, WatchBook, WatcherOptions};

/// The parts that a [`ChainDesk`] is made of.
pub(crate) struct DeskParts {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) heads: Arc<dyn Heads>,
    pub(crate) book: Arc<WatchBook>,
    pub(crate) sender: Sender,
    pub(crate) accounts: AccountReader,
    pub(crate) status: Follower<Option<ChainStatus>>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) prices: PriceOptions,
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
    prices: Prices,
    /// The last read of each account.
    cached_accounts: std::sync::Mutex<HashMap<SubmitterId, CachedAccount>>,
    driver: Arc<dyn Driver>,
    pub(crate) watcher_options: WatcherOptions,
    /// Only one lane at a time scans: blocks are big, and a thousand lanes may need a scan at the same moment.
    pub(crate) scan_lock: Mutex<()>,
    lanes: AtomicUsize,
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
        let DeskParts { chain, heads, book, sender, accounts, status, driver, prices, watcher_options } = parts;
        let prices = Prices::new(chain.clone(), status.clone(), Arc::clone(&driver), prices);
        ChainDesk {
            chain,
            heads,
            book,
            sender,
            status,
            accounts,
            prices,
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
            lags: status.lags,
            balance: view.balance,
            narrow: view.narrow,
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
        self.prices.prepare(submitter, requests).await
    }
}
