//! What all lanes of one chain share on this node: prices, sends, account reads, the watcher's book.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;
use gapless_chain::{Chain, ChainError, FeeQuote, Verdict};
use gapless_domain::{
    AccountFacts, Amount, B256, BlockRef, NodeText, PrepareFailure, PrepareKey, PrepareRequest, Prepared, SubmitterId,
};
use tokio::sync::{Mutex, watch};

use crate::gathered::{AccountReader, Sender};
use crate::watcher::{ChainStatus, WatchBook};

/// Gas limit = estimate × factor + constant (F05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GasPolicy {
    pub factor_permille: u32,
    pub constant: u64,
}

impl Default for GasPolicy {
    fn default() -> Self {
        GasPolicy { factor_permille: 1200, constant: 0 }
    }
}

impl GasPolicy {
    fn limit(&self, estimate: u64) -> u64 {
        let scaled = u128::from(estimate) * u128::from(self.factor_permille) / 1000;
        u64::try_from(scaled).unwrap_or(u64::MAX).saturating_add(self.constant)
    }
}

#[derive(Debug)]
pub(crate) struct ChainDesk {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) book: Arc<WatchBook>,
    pub(crate) sender: Sender,
    pub(crate) status: watch::Receiver<Option<ChainStatus>>,
    accounts: AccountReader,
    gas: GasPolicy,
    /// One quote a head, for everybody. Whoever is first asks; the others wait for the answer.
    quote: Mutex<Option<(B256, FeeQuote)>>,
    /// As last read, of lanes that run or ran here.
    balances: std::sync::Mutex<HashMap<SubmitterId, Amount>>,
}

impl ChainDesk {
    pub(crate) fn new(
        chain: Arc<dyn Chain>,
        book: Arc<WatchBook>,
        sender: Sender,
        accounts: AccountReader,
        status: watch::Receiver<Option<ChainStatus>>,
        gas: GasPolicy,
    ) -> Self {
        ChainDesk {
            chain,
            book,
            sender,
            status,
            accounts,
            gas,
            quote: Mutex::new(None),
            balances: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn status(&self) -> Option<ChainStatus> {
        *self.status.borrow()
    }

    pub(crate) async fn account(&self, submitter: &SubmitterId) -> Option<AccountFacts> {
        let status = self.status()?;
        let view = self.accounts.read(submitter.clone(), status.final_block).await?;
        self.balances.lock().unwrap_or_else(PoisonError::into_inner).insert(submitter.clone(), view.balance);
        Some(AccountFacts {
            latest: view.latest,
            pending: view.pending,
            finalized: view.finalized,
            balance: view.balance,
        })
    }

    pub(crate) fn balance(&self, submitter: &SubmitterId) -> Option<Amount> {
        self.balances.lock().unwrap_or_else(PoisonError::into_inner).get(submitter).copied()
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
            return Err(PrepareFailure::Unavailable(NodeText::new("the chain has not been read yet")));
        };
        let head = status.head.block;
        let gas_limit = match request.call.gas_limit {
            Some(limit) => limit,
            None => {
                let estimate = self.chain.estimate_gas(submitter, &request.call, head).await;
                self.gas.limit(estimate.map_err(|error| self.estimate_failure(error, head))?)
            }
        };
        let fees = match request.call.fees {
            Some(fees) => fees,
            None => self.quote(head).await.map_err(|error| prepare_failure(error, head))?.at(request.speed),
        };
        Ok(Prepared { gas_limit, fees })
    }

    /// A revert on top of a block that was orphaned meanwhile says nothing.
    fn estimate_failure(&self, error: ChainError, at: BlockRef) -> PrepareFailure {
        let orphaned = self.status().is_none_or(|now| now.head.block.number <= at.number && now.head.block != at);
        match prepare_failure(error, at) {
            PrepareFailure::Reverted { text, .. } if orphaned => PrepareFailure::Unavailable(text),
            failure => failure,
        }
    }

    async fn quote(&self, head: BlockRef) -> Result<FeeQuote, ChainError> {
        let mut kept = self.quote.lock().await;
        if let Some((at, quote)) = *kept
            && at == head.hash
        {
            return Ok(quote);
        }
        let quote = self.chain.quote().await?;
        *kept = Some((head.hash, quote));
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
    fn the_gas_limit_is_the_estimate_times_a_factor_plus_a_constant() {
        let policy = GasPolicy { factor_permille: 1500, constant: 1000 };
        assert_eq!(policy.limit(100_000), 151_000);
        assert_eq!(policy.limit(u64::MAX), u64::MAX);
    }
}
