//! The served chain, with its clock and endpoints.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::clock::{Clock, MiningSwitch};
use crate::chain::DevChain;
use crate::endpoint::Endpoint;

/// The name of the endpoint at `/`.
pub const DEFAULT_ENDPOINT: &str = "default";

/// Limits of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcLimits {
    /// Maximum bytes of one HTTP body or WebSocket message, as in geth.
    pub body_bytes: usize,
    /// Maximum calls in one batch, as in geth.
    pub batch_calls: usize,
    /// Maximum open connections. Further ones wait to be accepted.
    pub connections: usize,
    /// Maximum subscriptions of one WebSocket connection.
    pub subscriptions: usize,
    /// Maximum named endpoints of one chain.
    pub endpoints: usize,
    pub endpoint_name_bytes: usize,
}

impl Default for RpcLimits {
    fn default() -> Self {
        Self {
            body_bytes: 5 * 1024 * 1024,
            batch_calls: 1_000,
            connections: 1_024,
            subscriptions: 128,
            endpoints: 64,
            endpoint_name_bytes: 64,
        }
    }
}

/// The reason why an endpoint name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("too many endpoints (limit {0})")]
    TooMany(usize),
    #[error("the name of an endpoint must have between 1 and {0} bytes")]
    NameLength(usize),
}

/// A chain with everything that serving needs. Clones are handles to the same server.
#[derive(Clone, Debug)]
pub struct RpcServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    chain: DevChain,
    clock: Clock,
    switch: Option<MiningSwitch>,
    limits: RpcLimits,
    endpoints: Mutex<BTreeMap<String, Endpoint>>,
    subscriptions: AtomicU64,
}

impl RpcServer {
    /// Creates a server. Without the switch of a producer, `evm_setIntervalMining` is refused.
    pub fn new(chain: DevChain, clock: Clock, switch: Option<MiningSwitch>, limits: RpcLimits) -> Self {
        let healthy = chain.endpoint(DEFAULT_ENDPOINT);
        let endpoints = Mutex::new(BTreeMap::from([(DEFAULT_ENDPOINT.to_owned(), healthy)]));
        let shared = Shared { chain, clock, switch, limits, endpoints, subscriptions: AtomicU64::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// The endpoint that `/endpoint/{name}` serves. The first use creates it.
    pub fn endpoint(&self, name: &str) -> Result<Endpoint, EndpointError> {
        let RpcLimits { endpoints: most, endpoint_name_bytes, .. } = self.shared.limits;
        if name.is_empty() || name.len() > endpoint_name_bytes {
            return Err(EndpointError::NameLength(endpoint_name_bytes));
        }
        let mut endpoints = self.shared.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = endpoints.get(name) {
            return Ok(known.clone());
        }
        if endpoints.len() >= most {
            return Err(EndpointError::TooMany(most));
        }
        let new = self.shared.chain.endpoint(name);
        endpoints.insert(name.to_owned(), new.clone());
        Ok(new)
    }

    pub fn chain(&self) -> &DevChain {
        &self.shared.chain
    }

    pub fn limits(&self) -> &RpcLimits {
        &self.shared.limits
    }

    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    pub(crate) fn switch(&self) -> Option<&MiningSwitch> {
        self.shared.switch.as_ref()
    }

    /// A subscription id that is unique in this server.
    pub(crate) fn next_subscription(&self) -> String {
        format!("{:#x}", self.shared.subscriptions.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
