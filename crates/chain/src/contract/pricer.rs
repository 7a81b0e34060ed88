//! The prices of a chain: fee quotes, measures of work and surcharges.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{Action, Amount, BlockRef, Fees, Speed, SubmitterId, Work};

use super::ChainError;

/// Prices of one chain. Failures here happen before a nonce is bound.
#[async_trait]
pub trait ChainPricer: Send + Sync + fmt::Debug {
    /// The work that a transaction for each action needs at most, with the margin of the config. Each action is
    /// executed on top of `at`, independently of the others. The verdict `Reverted` is about the action. Any other
    /// verdict means that the work is unknown.
    async fn measure(&self, from: &SubmitterId, actions: &[&Action], at: BlockRef) -> Vec<Result<Work, ChainError>>;

    /// The price of inclusion at the newest block. It is read once for each head and shared by all lanes.
    async fn quote(&self) -> Result<FeeQuote, ChainError>;

    /// The maximum cost of a transaction besides its work: the data fee of a rollup that charges it separately.
    async fn surcharge(&self, _action: &Action, _work: Work) -> Result<Amount, ChainError> {
        Ok(Amount::ZERO)
    }
}

/// The fees for each speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeQuote {
    pub slow: Fees,
    pub standard: Fees,
    pub fast: Fees,
    pub instant: Fees,
    /// The base fee of the next block. Zero on a chain without base fee.
    pub base_fee: u128,
}

impl FeeQuote {
    pub fn at(&self, speed: Speed) -> Fees {
        match speed {
            Speed::Slow => self.slow,
            Speed::Standard => self.standard,
            Speed::Fast => self.fast,
            Speed::Instant => self.instant,
        }
    }
}
