//! The options of an EVM chain.

use std::time::Duration;

use gapless_domain::ChainId;
use gapless_secret::{SecretUrl, UrlError};

use crate::classify::Overrides;
use crate::fees::FeeOptions;
use crate::gas_margin::GasMargin;

/// The endpoints of a chain and the options of its quotes. Caps and bumps are policies of the lane.
#[derive(Clone, Debug)]
pub struct EvmChainOptions {
    pub id: ChainId,
    /// At least one endpoint.
    pub rpc: Vec<EndpointOptions>,
    /// The time limit of one request, including the wait for its turn.
    pub rpc_timeout: Duration,
    /// The limit of requests in flight for each endpoint. A batch is one request.
    pub rpc_max_in_flight: usize,
    /// The limit of calls in one JSON-RPC batch. An endpoint that refuses a batch gets smaller ones.
    pub batch_max: usize,
    /// The limit of whole blocks in one batch. A block may have megabytes.
    pub blocks_max: usize,
    pub send_to: SendTo,
    /// An endpoint that is behind the newest head by more blocks than this is lagging.
    pub lag_max: u64,
    /// An endpoint whose head has not changed for this long, while the head of another rose, is lagging.
    pub head_age_max: Duration,
    pub fees: FeeOptions,
    pub gas_margin: GasMargin,
    /// The operator's patterns for error texts.
    pub overrides: Overrides,
}

/// One endpoint of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointOptions {
    /// A URL of [`EvmChainOptions::SCHEMES`]. A WebSocket endpoint also notifies of new heads.
    pub url: SecretUrl,
    /// The share of reads among endpoints that are equally up to date, and the preference when sends go to the best
    /// few. An endpoint of weight 0 is only used while no other is good.
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

/// The number of endpoints that a transaction is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendTo {
    #[default]
    All,
    /// The best endpoints, up to this number.
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
    /// Most chains have at least two blocks in this time.
    pub const DEFAULT_HEAD_AGE: Duration = Duration::from_secs(30);
    pub const MAX_HEAD_AGE: Duration = Duration::from_secs(24 * 3600);

    /// The default options for a chain and its endpoints.
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
            gas_margin: GasMargin::default(),
            overrides: Overrides::default(),
        }
    }

    /// Checks that an [`EvmChain`](crate::EvmChain) can be created from these options.
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
            return Err(ConnectError::NoSendTarget);
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

/// The reason why a chain cannot be created. An endpoint that is down is no reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("{0} is not an EVM chain")]
    NotEvm(ChainId),
    #[error("a chain needs 1 to {max} endpoints, not {0}", max = EvmChainOptions::MAX_ENDPOINTS)]
    Endpoints(usize),
    #[error("rpc_timeout must be above zero and at most 10 minutes")]
    Timeout,
    #[error("rpc_max_in_flight must be from 1 to {}", EvmChainOptions::MAX_IN_FLIGHT)]
    InFlight,
    #[error("batch_max must be from 1 to {}", EvmChainOptions::MAX_BATCH)]
    Batch,
    #[error("blocks_max must be from 1 to {}", EvmChainOptions::MAX_BATCH)]
    Blocks,
    #[error("the weight of an endpoint must be from 0 to {}", EndpointOptions::MAX_WEIGHT)]
    Weight,
    #[error("lag_max must be from 0 to {}", EvmChainOptions::MAX_LAG)]
    Lag,
    #[error("head_age_max must be above zero and at most a day")]
    HeadAge,
    #[error("send_to must be at least 1")]
    NoSendTarget,
    #[error("base_fee_factor must be from {} to {} thousandths", FeeOptions::MIN_FACTOR, FeeOptions::MAX_FACTOR)]
    FeeFactor,
    #[error("min_fee and min_priority_fee must be at most {} wei per gas", FeeOptions::MAX_FLOOR)]
    FeeFloor,
    /// An `https` or `wss` endpoint is configured, and the system has no CA certificates.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    #[error("the URL of an endpoint: {0}")]
    Url(#[from] UrlError),
    #[error("the tables of the classifier are invalid: {0}")]
    Classifier(#[from] crate::classify::PatternError),
    #[error("a chain with a WebSocket endpoint must be created inside a tokio runtime")]
    NoRuntime,
}
