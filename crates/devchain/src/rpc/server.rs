//! What is served: a chain, its clock and its endpoints.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::clock::{Clock, MiningSwitch};
use crate::chain::DevChain;
use crate::endpoint::Endpoint;

/// The endpoint at `/`.
pub const DEFAULT_ENDPOINT: &str = "default";

/// How much one server does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcLimits {
    /// Bytes of one HTTP body or one WebSocket message. geth's.
    pub body_bytes: usize,
    /// Calls in one batch. geth's.
    pub batch_calls: usize,
    /// Connections that are open at the same time; the next ones wait to be accepted.
    pub connections: usize,
    /// Subscriptions of one WebSocket connection.
    pub subscriptions: usize,
    /// Named endpoints of one chain.
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

/// Why there is no endpoint of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("the chain has as many endpoints as it may have ({0})")]
    TooMany(usize),
    #[error("an endpoint's name has between 1 and {0} bytes")]
    NameLength(usize),
}

/// A chain with everything that serving it needs. Clones are handles onto the same one.
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
    /// Without a producer's switch, `evm_setIntervalMining` is refused.
    pub fn new(chain: DevChain, clock: Clock, switch: Option<MiningSwitch>, limits: RpcLimits) -> Self {
        let healthy = chain.endpoint(DEFAULT_ENDPOINT);
        let endpoints = Mutex::new(BTreeMap::from([(DEFAULT_ENDPOINT.to_owned(), healthy)]));
        let shared = Shared { chain, clock, switch, limits, endpoints, subscriptions: AtomicU64::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// The endpoint of a name: the one that `/endpoint/{name}` serves. It is made when it is first asked for.
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

    /// An id that no other subscription of this server has.
    pub(crate) fn next_subscription(&self) -> String {
        format!("{:#x}", self.shared.subscriptions.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
