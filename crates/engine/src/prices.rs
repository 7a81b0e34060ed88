//! The prices of transactions of one chain, before a nonce is bound: gas limit, fees and surcharge.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{ChainError, ChainPricer, FeeQuote, Verdict};
use gapless_domain::{
    B256, BlockRef, EvmCall, NodeText, PrepareFailure, PrepareKey, PrepareRequest, Prepared, SubmitterId, Tick,
};
use tokio::sync::Mutex;

use crate::driver::Driver;
use crate::published::Follower;
use crate::watcher::ChainStatus;

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

/// Prices for all lanes of one chain.
#[derive(Debug)]
pub(crate) struct Prices {
    pricer: Arc<dyn ChainPricer>,
    status: Follower<Option<ChainStatus>>,
    driver: Arc<dyn Driver>,
    gas: GasPolicy,
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
        gas: GasPolicy,
    ) -> Self {
        Prices { pricer, status, driver, gas, cached_quote: Mutex::new(None) }
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
        let limits = self.gas_limits(submitter, &requests, head).await;
        let all = requests.iter().zip(limits).map(async |(request, limit)| {
            let prepared = match limit {
                Ok(gas_limit) => self.priced(request, gas_limit, head).await,
                Err(failure) => Err(failure),
            };
            (request.key, prepared)
        });
        join_all(all).await
    }

    /// The gas limit of each request: the caller's own, or by an estimate. All estimates are asked for at once.
    async fn gas_limits(
        &self,
        submitter: &SubmitterId,
        requests: &[PrepareRequest],
        head: BlockRef,
    ) -> Vec<Result<u64, PrepareFailure>> {
        let unlimited = requests.iter().map(|request| &request.call).filter(|call| call.gas_limit.is_none());
        let unlimited: Vec<&EvmCall> = unlimited.collect();
        let mut estimates = match unlimited.is_empty() {
            true => Vec::new(),
            false => self.pricer.estimate_gas(submitter, &unlimited, head).await,
        }
        .into_iter();
        let missing = || PrepareFailure::Unavailable(NodeText::new("the chain returned no estimate"));
        let limit = |request: &PrepareRequest| match request.call.gas_limit {
            Some(limit) => Ok(limit),
            None => match estimates.next() {
                Some(Ok(estimate)) => Ok(self.gas.limit(estimate)),
                Some(Err(error)) => Err(self.estimate_failure(error, head)),
                None => Err(missing()),
            },
        };
        requests.iter().map(limit).collect()
    }

    async fn priced(
        &self,
        request: &PrepareRequest,
        gas_limit: u64,
        head: BlockRef,
    ) -> Result<Prepared, PrepareFailure> {
        let failed = |error| prepare_failure(error, head);
        let (fees, base_fee) = match request.call.fees {
            Some(fees) => (fees, 0),
            None => {
                let quote = self.quote(head).await.map_err(failed)?;
                (quote.at(request.speed), quote.base_fee)
            }
        };
        let surcharge = self.pricer.surcharge(&request.call).await.map_err(failed)?;
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
        let mut cached = self.cached_quote.lock().await;
        let asked_at = self.driver.now();
        if let Some(CachedQuote { quote, head: cached_head, asked_at: cached_at }) = *cached
            && (cached_head == head.hash || asked_at.saturating_since(cached_at) < self.gas.price_for)
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
