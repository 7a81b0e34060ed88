//! Errors of reads and of control operations.

use alloy_primitives::{B256, Bytes};

use crate::pool::PoolError;

/// geth's code for most errors.
pub const SERVER_ERROR_CODE: i64 = -32000;
/// geth's code for a call that reverts.
pub const REVERT_CODE: i64 = 3;
pub const INVALID_PARAMS_CODE: i64 = -32602;

/// An error of a JSON-RPC answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Bytes>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// The reason why a read has no result. `Display` is geth's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("header not found")]
    UnknownBlock,
    #[error("historical state of block {number} is not available: only blocks from {oldest} on are kept")]
    StateGone { number: u64, oldest: u64 },
    #[error("state of orphaned block {hash} is not available")]
    StateOrphaned { hash: B256 },
    #[error("required historical state unavailable")]
    NoStateToTrace,
    #[error("transaction not found")]
    UnknownTx,
    #[error("invalid block range params")]
    InvalidRange,
    #[error("query exceeds max results {limit}")]
    TooManyLogs { limit: usize },
    #[error("unknown block")]
    UnknownLogBlock,
    #[error("request beyond head block: requested {requested}, head {head}")]
    BeyondHead { requested: u64, head: u64 },
    #[error("invalid reward percentile: {0}")]
    InvalidPercentile(String),
}

/// The reason why a call or an estimate has no result. `Display` is geth's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("execution reverted{}", with_reason(reason))]
    Reverted { reason: Option<String>, data: Bytes },
    /// The EVM halted: out of gas, invalid jump, …
    #[error("{0}")]
    Halted(String),
    #[error("gas required exceeds allowance ({allowance})")]
    GasAllowance { allowance: u64 },
    /// The call cannot be executed, for instance because the sender cannot pay for it.
    #[error("{0}")]
    Refused(String),
    #[error("insufficient funds for transfer")]
    InsufficientFundsForTransfer,
    #[error("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")]
    TwoKindsOfFees,
}

fn with_reason(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}

impl ReadError {
    pub fn code(&self) -> i64 {
        match self {
            Self::InvalidRange => INVALID_PARAMS_CODE,
            _ => SERVER_ERROR_CODE,
        }
    }
}

impl CallError {
    pub fn code(&self) -> i64 {
        match self {
            Self::Reverted { .. } => REVERT_CODE,
            Self::Read(error) => error.code(),
            _ => SERVER_ERROR_CODE,
        }
    }
}

impl From<PoolError> for RpcError {
    fn from(error: PoolError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<ReadError> for RpcError {
    fn from(error: ReadError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<CallError> for RpcError {
    fn from(error: CallError) -> Self {
        let mut answer = Self::new(error.code(), error.to_string());
        if let CallError::Reverted { data, .. } = error {
            answer.data = Some(data);
        }
        answer
    }
}

/// Errors of opening or controlling a chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("the directory has a chain with another genesis: found {found}, wanted {wanted}")]
    OtherGenesis { found: B256, wanted: B256 },
    #[error("the directory has no chain that this version can read: use another directory or delete it")]
    OtherFormat,
    #[error("{file} is damaged before its end, at byte {offset}: {why}")]
    Damaged { file: String, offset: u64, why: String },
    #[error("the journal cannot be replayed: block {number} was recorded as {recorded}, but is {computed} now")]
    NotReproducible { number: u64, recorded: B256, computed: B256 },
    #[error("another process has this chain open")]
    InUse,
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: std::io::Error },
    #[error("the chain accepts no more changes, because its journal could not be written: {0}")]
    JournalLost(String),
    #[error("a reorg of {depth} blocks is not possible: at most {possible} blocks are kept behind the head")]
    TooDeep { depth: u64, possible: u64 },
    #[error("block {0} is not part of the chain")]
    NoSuchBlock(u64),
    #[error("timestamp {timestamp} is not after the timestamp of the head, {head}")]
    TimestampNotAfterHead { timestamp: u64, head: u64 },
    #[error("`safe` cannot be behind `finalized`: {safe} blocks are more than {finalized}")]
    SafeBehindFinalized { safe: u64, finalized: u64 },
    #[error("too many delayed sends (limit {0})")]
    TooManyDelayed(usize),
    #[error(transparent)]
    Pool(#[from] PoolError),
}
