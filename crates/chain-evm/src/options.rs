//! What an EVM chain is made from.

use std::time::Duration;

use gapless_chain::Overrides;
use gapless_domain::{Address, ChainId};
use gapless_secret::{SecretUrl, UrlError};

use crate::fees::FeeOptions;

/// How to reach a chain, and how its prices are read. Caps, bumps and gas factors are policies and stand elsewhere.
#[derive(Clone, Debug)]
pub struct EvmChainOptions {
    pub id: ChainId,
    /// At least one.
    pub rpc: Vec<EndpointOptions>,
    /// For one request, from asking for its place to the end of its answer.
    pub rpc_timeout: Duration,
    /// HTTP requests under way at once, for each endpoint. A batch is one request.
    pub rpc_max_in_flight: usize,
    /// Calls in one JSON-RPC batch. Endpoints that refuse so many get fewer.
    pub batch_max: usize,
    /// Whole blocks in one batch: each may be megabytes.
    pub blocks_max: usize,
    pub send_to: SendTo,
    /// An endpoint that is behind the newest head by more blocks than this is lagging.
    pub lag_max: u64,
    /// And so is one whose head has not moved for so long while another's has.
    pub head_age_max: Duration,
    pub fees: FeeOptions,
    /// The operator's own patterns for error texts.
    pub overrides: Overrides,
}

/// One endpoint of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointOptions {
    /// `http`, `https`, `ws` or `wss`; a WebSocket endpoint also tells of new heads.
    pub url: SecretUrl,
    /// Its share of the reads among endpoints that are equally up to date, and its place among them when sends go to the best
    /// few. One of weight 0 is only used when no other is good.
    pub weight: u32,
}

impl EndpointOptions {
    pub const DEFAULT_WEIGHT: u32 = 1;
    pub const MAX_WEIGHT: u32 = 1_000;
}

impl From<SecretUrl> for EndpointOptions {
    fn from(url: SecretUrl) -> Self {
        EndpointOptions { url, weight: Self::DEFAULT_WEIGHT }
    }
}

/// How many endpoints a transaction is given to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendTo {
    #[default]
    All,
    /// The best so many.
    Best(usize),
}

impl EvmChainOptions {
    /// The schemes of an endpoint's URL.
    pub const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
    pub const MAX_ENDPOINTS: usize = 32;
    pub const MAX_IN_FLIGHT: usize = 10_000;
    pub const MAX_BATCH: usize = 1_000;
    pub const DEFAULT_BLOCKS: usize = 8;
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);
    pub const DEFAULT_LAG: u64 = 3;
    pub const MAX_LAG: u64 = 1_000_000;
    /// Longer than two blocks of most chains.
    pub const DEFAULT_HEAD_AGE: Duration = Duration::from_secs(30);
    pub const MAX_HEAD_AGE: Duration = Duration::from_secs(24 * 3600);

    /// The defaults, for one chain and its endpoints.
    pub fn new(id: ChainId, rpc: Vec<SecretUrl>) -> Self {
        EvmChainOptions {
            id,
            rpc: rpc.into_iter().map(EndpointOptions::from).collect(),
            lag_max: Self::DEFAULT_LAG,
            head_age_max: Self::DEFAULT_HEAD_AGE,
            rpc_timeout: Duration::from_secs(10),
            rpc_max_in_flight: 100,
            batch_max: 100,
            blocks_max: Self::DEFAULT_BLOCKS,
            send_to: SendTo::All,
            fees: FeeOptions::default(),
            overrides: Overrides::default(),
        }
    }

    /// Whether an [`EvmChain`](crate::EvmChain) can be made from these.
    pub fn validate(&self) -> Result<(), ConnectError> {
        if self.id.evm_number().is_none() {
            return Err(ConnectError::NotEvm(self.id.clone()));
        }
        if self.rpc.is_empty() || self.rpc.len() > Self::MAX_ENDPOINTS {
            return Err(ConnectError::Endpoints(self.rpc.len()));
        }
        if self.rpc.iter().any(|endpoint| !Self::SCHEMES.contains(&endpoint.url.scheme())) {
            return Err(ConnectError::Url(UrlError::Scheme));
        }
        if self.rpc_timeout.is_zero() || self.rpc_timeout > Self::MAX_TIMEOUT {
            return Err(ConnectError::Timeout);
        }
        if !(1..=Self::MAX_IN_FLIGHT).contains(&self.rpc_max_in_flight) {
            return Err(ConnectError::InFlight);
        }
        if !(1..=Self::MAX_BATCH).contains(&self.batch_max) {
            return Err(ConnectError::Batch);
        }
        if !(1..=Self::MAX_BATCH).contains(&self.blocks_max) {
            return Err(ConnectError::Blocks);
        }
        if self.rpc.iter().any(|endpoint| endpoint.weight > EndpointOptions::MAX_WEIGHT) {
            return Err(ConnectError::Weight);
        }
        if self.lag_max > Self::MAX_LAG {
            return Err(ConnectError::Lag);
        }
        if self.head_age_max.is_zero() || self.head_age_max > Self::MAX_HEAD_AGE {
            return Err(ConnectError::HeadAge);
        }
        if self.send_to == SendTo::Best(0) {
            return Err(ConnectError::SendToNobody);
        }
        if !(FeeOptions::MIN_FACTOR..=FeeOptions::MAX_FACTOR).contains(&self.fees.base_fee_factor) {
            return Err(ConnectError::FeeFactor);
        }
        if self.fees.min_fee.max(self.fees.min_priority_fee) > FeeOptions::MAX_FLOOR {
            return Err(ConnectError::FeeFloor);
        }
        Ok(())
    }
}

/// Why a chain cannot be made. Nodes that are away are no reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("{0} is no EVM chain")]
    NotEvm(ChainId),
    #[error("a chain has 1 to {max} endpoints, not {0}", max = EvmChainOptions::MAX_ENDPOINTS)]
    Endpoints(usize),
    #[error("rpc_timeout is more than zero and at most 10 minutes")]
    Timeout,
    #[error("rpc_max_in_flight is from 1 to {}", EvmChainOptions::MAX_IN_FLIGHT)]
    InFlight,
    #[error("batch_max is from 1 to {}", EvmChainOptions::MAX_BATCH)]
    Batch,
    #[error("blocks_max is from 1 to {}", EvmChainOptions::MAX_BATCH)]
    Blocks,
    #[error("an endpoint's weight is from 0 to {}", EndpointOptions::MAX_WEIGHT)]
    Weight,
    #[error("lag_max is from 0 to {}", EvmChainOptions::MAX_LAG)]
    Lag,
    #[error("head_age_max is more than zero and at most a day")]
    HeadAge,
    #[error("send_to names at least one endpoint")]
    SendToNobody,
    #[error("base_fee_factor is from {} to {} thousandths", FeeOptions::MIN_FACTOR, FeeOptions::MAX_FACTOR)]
    FeeFactor,
    #[error("min_fee and min_priority_fee are at most {} wei for one gas", FeeOptions::MAX_FLOOR)]
    FeeFloor,
    #[error("two signers have the key of {0}")]
    TwoSigners(Address),
    /// An `https` or `wss` endpoint is configured, and this system has no certificates to check it by.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    #[error("an endpoint's URL: {0}")]
    Url(#[from] UrlError),
    #[error("the classifier's tables are broken: {0}")]
    Classifier(#[from] gapless_chain::PatternError),
    #[error("a chain with a WebSocket endpoint is made inside a tokio runtime")]
    NoRuntime,
}
