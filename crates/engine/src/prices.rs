//! The prices of transactions of one chain, before a nonce is bound: gas limit, fees and surcharge.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{ChainError, ChainPricer, FeeQuote, Verdict};
use gapless_domain::{
    B256, BlockRef, NodeText, PrepareFailure, PrepareKey, PrepareRequest, Prepared, SubmitterId, Tick,
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
                let estimate = self.pricer.estimate_gas(submitter, &request.call, head).await;
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
