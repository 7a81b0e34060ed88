//! Chains by their adapter.

use std::sync::Arc;

use gapless_chain::{OverrideRule, Overrides};
use gapless_chain_evm::{EndpointOptions, EvmChain, EvmChainOptions};
use gapless_engine::ChainSetup;

use super::ComposeError;
use super::accounts::Account;
use crate::config::{ChainConfig, EndpointConfig, SendTo};

/// Makes a chain. No node has to be there.
pub(crate) fn chain(
    config: &ChainConfig,
    classify: &[OverrideRule],
    accounts: &[Account],
) -> Result<ChainSetup, ComposeError> {
    let endpoint = |endpoint: &EndpointConfig| EndpointOptions { url: endpoint.url.clone(), weight: endpoint.weight };
    let rpc = config.endpoints.iter().map(endpoint).collect();
    let options = EvmChainOptions {
        id: config.id.clone(),
        rpc,
        rpc_timeout: config.rpc.timeout,
        rpc_max_in_flight: config.rpc.max_in_flight,
        batch_max: config.rpc.batch_max,
        blocks_max: config.rpc.blocks_max,
        send_to: match config.rpc.send_to {
            SendTo::All => gapless_chain_evm::SendTo::All,
            SendTo::AtMost(count) => gapless_chain_evm::SendTo::Best(count),
        },
        lag_max: config.rpc.lag_max,
        head_age_max: config.rpc.head_age_max,
        fees: config.oracle,
        overrides: Overrides::new(classify)?,
    };
    let ours = accounts.iter().filter(|account| *account.id.chain() == config.id);
    let signers = ours.map(|account| Arc::clone(&account.signer)).collect();
    let chain = EvmChain::connect(options, signers)
        .map_err(|source| ComposeError::Connect { chain: config.id.clone(), source })?;
    Ok(ChainSetup { chain: Arc::new(chain), watcher: config.watcher.clone(), gas: config.gas })
}
