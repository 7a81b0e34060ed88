//! Errors of the pool, with geth's texts.

use std::fmt;

use alloy_primitives::U256;

/// geth's code for all errors of its pool.
pub const POOL_ERROR_CODE: i64 = -32000;

/// A refusal of the pool. `Display` is geth's text, because clients recognise errors by their texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("already known")]
    AlreadyKnown,
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow { next: u64, nonce: u64 },
    #[error("nonce has max value")]
    NonceMax,
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    #[error("transaction underpriced")]
    Underpriced,
    #[error("transaction gas price below minimum: gas tip cap {tip}, minimum needed {minimum}")]
    TipBelowMinimum { tip: u128, minimum: u128 },
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    #[error("insufficient funds for gas * price + value: {0}")]
    InsufficientFunds(Box<Shortage>),
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas { gas: u64, needed: u64 },
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {needed}")]
    FloorDataGas { gas: u64, needed: u64 },
    #[error("exceeds block gas limit")]
    ExceedsBlockGasLimit,
    #[error("oversized data: transaction size {size}, limit {limit}")]
    Oversized { size: usize, limit: usize },
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCodeSize { size: usize, limit: usize },
    #[error("invalid sender: {why}")]
    InvalidSender { why: String },
    #[error("invalid sender: invalid chain id for signer: have {have} want {want}")]
    WrongChainId { have: u64, want: u64 },
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    #[error("tx fee ({fee} ether) exceeds the configured cap ({cap} ether)")]
    FeeAboveCap { fee: String, cap: String },
    #[error("txpool is full")]
    Full,
    #[error("future transaction tries to replace pending")]
    FutureReplacesPending,
    #[error("in-flight transaction limit reached for delegated accounts")]
    DelegatedLimit,
    #[error("gapped-nonce tx from delegated accounts")]
    DelegatedGap,
    #[error("authority already reserved")]
    AuthorityReserved,
    #[error("set code tx must have at least one authorization tuple")]
    NoAuthorizations,
    #[error("transaction type not supported")]
    TypeNotSupported,
    #[error("transaction type not supported: tx type {ty} not supported by this pool")]
    TypeNotInPool { ty: u8 },
    #[error("typed transaction too short")]
    TypedTxTooShort,
    #[error("rlp: input contains more than one value")]
    TrailingBytes,
    #[error("rlp: {why}")]
    Undecodable { why: String },
    /// The journal cannot be written, so the transaction was not accepted.
    #[error("internal error: {why}")]
    Storage { why: String },
}

impl PoolError {
    /// The JSON-RPC error code.
    pub fn code(&self) -> i64 {
        POOL_ERROR_CODE
    }
}

/// An account's balance and the higher amount that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// For the transaction alone.
    ForTx { balance: U256, cost: U256 },
    /// For the transaction together with the pending ones.
    WithPending { balance: U256, queued: U256, cost: U256 },
    /// For the additional cost of a replacement.
    ForBump { balance: U256, queued: U256, bump: U256 },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForTx { balance, cost } => {
                write!(f, "balance {balance}, tx cost {cost}, overshot {}", cost.saturating_sub(*balance))
            }
            Self::WithPending { balance, queued, cost } => {
                let overshot = queued.saturating_add(*cost).saturating_sub(*balance);
                write!(f, "balance {balance}, queued cost {queued}, tx cost {cost}, overshot {overshot}")
            }
            Self::ForBump { balance, queued, bump } => {
                let overshot = queued.saturating_add(*bump).saturating_sub(*balance);
                write!(f, "balance {balance}, queued cost {queued}, tx bumped {bump}, overshot {overshot}")
            }
        }
    }
}
