//! Builds the chain adapters from the config.

use std::sync::Arc;

use gapless_chain_evm::{EndpointOptions, EvmChain, EvmChainOptions, EvmEncoder, OverrideRule, Overrides};
use gapless_engine::ChainSetup;

use super::ComposeError;
use crate::config::{ChainConfig, EndpointConfig};

/// Builds a chain. Its endpoints need not be reachable yet.
pub(crate) fn chain(config: &ChainConfig, classify: &[OverrideRule]) -> Result<ChainSetup, ComposeError> {
    let endpoint = |endpoint: &EndpointConfig| EndpointOptions { url: endpoint.url.clone(), weight: endpoint.weight };
    let rpc = config.endpoints.iter().map(endpoint).collect();
    let options = EvmChainOptions {
        id: config.id.clone(),
        rpc,
        rpc_timeout: config.rpc.timeout,
        rpc_max_in_flight: config.rpc.max_in_flight,
        batch_max: config.rpc.batch_max,
        blocks_max: config.rpc.blocks_max,
        send_to: config.rpc.send_to,
        lag_max: config.rpc.lag_max,
        head_age_max: config.rpc.head_age_max,
        fees: config.oracle,
        gas_margin: config.gas.margin,
        overrides: Overrides::new(classify)?,
    };
    let refused = |source| ComposeError::Connect { chain: config.id.clone(), source };
    let encoder = EvmEncoder::new(config.id.clone()).map_err(refused)?;
    let chain = EvmChain::connect(options).map_err(refused)?;
    Ok(ChainSetup {
        chain: Arc::new(chain),
        encoder: Arc::new(encoder),
        watcher: config.watcher.clone(),
        prices: config.gas.prices,
    })
}
