//! The prices of transactions of one chain, before a nonce is bound: work, fees and surcharge.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{ChainError, ChainPricer, FeeQuote, Verdict};
use gapless_domain::{
    Action, B256, BlockRef, NodeText, PrepareFailure, PrepareKey, PrepareRequest, Prepared, SubmitterId, Tick, Work,
};
use tokio::sync::Mutex;

use crate::driver::Driver;
use crate::published::Follower;
use crate::watcher::ChainStatus;

/// The lifetime of quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceOptions {
    /// A price is reused at later blocks for this long.
    pub price_for: Duration,
}

impl Default for PriceOptions {
    fn default() -> Self {
        PriceOptions { price_for: Duration::from_secs(1) }
    }
}

/// Prices for all lanes of one chain.
#[derive(Debug)]
pub(crate) struct Prices {
    pricer: Arc<dyn ChainPricer>,
    status: Follower<Option<ChainStatus>>,
    driver: Arc<dyn Driver>,
    options: PriceOptions,
    /// One quote for all lanes. The first lane requests it; the others wait for the lock.
    cached_quote: Mutex<Option<CachedQuote>>,
}

/// A fee quote with the head and the time at which it was requested.
#[derive(Clone, Copy, Debug)]
struct CachedQuote {
    quote: FeeQuote,
    head: B256,
    asked_at: Tick,
}

impl Prices {
    pub(crate) fn new(
        pricer: Arc<dyn ChainPricer>,
        status: Follower<Option<ChainStatus>>,
        driver: Arc<dyn Driver>,
        options: PriceOptions,
    ) -> Self {
        Prices { pricer, status, driver, options, cached_quote: Mutex::new(None) }
    }

    fn status(&self) -> Option<ChainStatus> {
        self.status.read(Clone::clone)
    }

    pub(crate) async fn prepare(
        &self,
        submitter: &SubmitterId,
        requests: Vec<PrepareRequest>,
    ) -> Vec<(PrepareKey, Result<Prepared, PrepareFailure>)> {
        let Some(head) = self.status().map(|status| status.head) else {
            let unread = || PrepareFailure::Unavailable(NodeText::new("this node has not read the chain yet"));
            return requests.into_iter().map(|request| (request.key, Err(unread()))).collect();
        };
        let works = self.works(submitter, &requests, head).await;
        let all = requests.iter().zip(works).map(async |(request, work)| {
            let prepared = match work {
                Ok(work) => self.priced(request, work, head).await,
                Err(failure) => Err(failure),
            };
            (request.key, prepared)
        });
        join_all(all).await
    }

    /// The work of each request: the caller's own, or as measured. All measures are asked for at once.
    async fn works(
        &self,
        submitter: &SubmitterId,
        requests: &[PrepareRequest],
        head: BlockRef,
    ) -> Vec<Result<Work, PrepareFailure>> {
        let open = requests.iter().map(|request| &request.action).filter(|action| action.own_work().is_none());
        let open: Vec<&Action> = open.collect();
        let mut measured = match open.is_empty() {
            true => Vec::new(),
            false => self.pricer.measure(submitter, &open, head).await,
        }
        .into_iter();
        let missing = || PrepareFailure::Unavailable(NodeText::new("the chain returned no estimate"));
        let work = |request: &PrepareRequest| match request.action.own_work() {
            Some(work) => Ok(work),
            None => match measured.next() {
                Some(Ok(work)) => Ok(work),
                Some(Err(error)) => Err(self.measure_failure(error, head)),
                None => Err(missing()),
            },
        };
        requests.iter().map(work).collect()
    }

    async fn priced(&self, request: &PrepareRequest, work: Work, head: BlockRef) -> Result<Prepared, PrepareFailure> {
        let failed = |error| prepare_failure(error, head);
        let (fees, base_fee) = match request.action.own_price() {
            Some(fees) => (fees, 0),
            None => {
                let quote = self.quote(head).await.map_err(failed)?;
                (quote.at(request.speed), quote.base_fee)
            }
        };
        let surcharge = self.pricer.surcharge(&request.action, work).await.map_err(failed)?;
        Ok(Prepared { work, fees, base_fee, surcharge })
    }

    /// A revert on top of a block that is orphaned by now proves nothing.
    fn measure_failure(&self, error: ChainError, at: BlockRef) -> PrepareFailure {
        let orphaned = self.status().is_none_or(|now| now.head.number <= at.number && now.head != at);
        match prepare_failure(error, at) {
            PrepareFailure::Reverted { text, .. } if orphaned => PrepareFailure::Unavailable(text),
            failure => failure,
        }
    }

    async fn quote(&self, head: BlockRef) -> Result<FeeQuote, ChainError> {
        let mut cached = self.cached_quote.lock().await;
        let asked_at = self.driver.now();
        if let Some(CachedQuote { quote, head: cached_head, asked_at: cached_at }) = *cached
            && (cached_head == head.hash || asked_at.saturating_since(cached_at) < self.options.price_for)
        {
            return Ok(quote);
        }
        let quote = self.pricer.quote().await?;
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
