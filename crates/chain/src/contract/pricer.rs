//! The prices of a chain: fee quotes, gas estimates and surcharges.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{Amount, BlockRef, EvmCall, Fees, Speed, SubmitterId};

use super::ChainError;

/// Prices of one chain. Failures here happen before a nonce is bound.
#[async_trait]
pub trait ChainPricer: Send + Sync + fmt::Debug {
    /// The gas of each call, executed on top of `at`, independently of the other calls. The verdict `Reverted` is about
    /// the call. Any other verdict means that the gas is unknown.
    async fn estimate_gas(&self, from: &SubmitterId, calls: &[&EvmCall], at: BlockRef) -> Vec<Result<u64, ChainError>>;

    /// The price of inclusion at the newest block. It is read once for each head and shared by all lanes.
    async fn quote(&self) -> Result<FeeQuote, ChainError>;

    /// The maximum cost of a transaction besides its gas: the data fee of a rollup that charges it separately.
    async fn surcharge(&self, _call: &EvmCall) -> Result<Amount, ChainError> {
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
