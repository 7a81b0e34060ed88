//! The methods that real nodes do not have: mining, reorgs, edits of the state, faults.
//!
//! The names are those of anvil and Hardhat, so that existing tools find them.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde::Deserialize;
use serde_json::Value;

use super::args::{Args, invalid};
use super::fault_request::FaultRequest;
use super::message::{Answer, METHOD_NOT_FOUND_CODE, answer};
use super::server::{DEFAULT_ENDPOINT, RpcServer};
use crate::chain::Remine;
use crate::endpoint::Endpoint;
use crate::error::{ChainError, RpcError, SERVER_ERROR_CODE};

const PREFIXES: [&str; 4] = ["evm_", "anvil_", "hardhat_", "gapless_"];
/// Maximum number of blocks that one call may make.
const MAX_BLOCKS_PER_CALL: u64 = 100_000;

pub(crate) fn is_control(method: &str) -> bool {
    PREFIXES.iter().any(|prefix| method.starts_with(prefix))
}

pub(crate) fn control(server: &RpcServer, method: &str, params: Value) -> Result<Answer, RpcError> {
    match method {
        "evm_mine" => evm_mine(server, params),
        "anvil_mine" | "hardhat_mine" => mine_many(server, params),
        "evm_setAutomine" => {
            server.chain().set_automine(Args::new(params, 1)?.required()?);
            answer(&true)
        }
        // Hardhat introduced this name with milliseconds. anvil uses it with seconds, and has a name of its own too.
        "evm_setIntervalMining" => set_interval(server, params, Duration::from_millis),
        "anvil_setIntervalMining" => set_interval(server, params, Duration::from_secs),
        "evm_setNextBlockTimestamp" => {
            let timestamp: U64 = Args::new(params, 1)?.required()?;
            server.chain().set_next_timestamp(timestamp.to()).map_err(refused)?;
            answer(&timestamp)
        }
        "evm_increaseTime" => {
            let seconds: U64 = Args::new(params, 1)?.required()?;
            answer(&U64::from(server.chain().increase_time(seconds.to())))
        }
        "anvil_setNextBlockBaseFeePerGas" | "hardhat_setNextBlockBaseFeePerGas" => {
            let fee: U64 = Args::new(params, 1)?.required()?;
            server.chain().set_next_base_fee(fee.to());
            answer(&Value::Null)
        }
        "evm_setBlockGasLimit" => {
            let limit: U64 = Args::new(params, 1)?.required()?;
            server.chain().set_gas_limit(limit.to()).map_err(refused)?;
            answer(&true)
        }
        "anvil_setCoinbase" | "hardhat_setCoinbase" => {
            server.chain().set_coinbase(Args::new(params, 1)?.required()?).map_err(refused)?;
            answer(&Value::Null)
        }
        "anvil_reorg" => anvil_reorg(server, params),
        "gapless_reorg" => gapless_reorg(server, params),
        "gapless_reset" => {
            Args::none(params)?;
            server.chain().reset().map_err(refused)?;
            answer(&Value::Null)
        }
        "gapless_mineEmpty" => {
            let blocks: U64 = Args::new(params, 1)?.optional()?.unwrap_or(U64::ONE);
            check_count(blocks.to())?;
            for _ in 0..blocks.to() {
                server.chain().mine_empty().map_err(refused)?;
            }
            answer(&Value::Null)
        }
        "gapless_setFinality" => set_finality(server, params),
        "gapless_calls" => {
            let name: Option<String> = Args::new(params, 1)?.optional()?;
            answer(&endpoint(server, name)?.calls())
        }
        "gapless_faults" => faults(server, params),
        _ => edit(server, method, params),
    }
}

/// The methods that edit the state at the head, or the pool.
fn edit(server: &RpcServer, method: &str, params: Value) -> Result<Answer, RpcError> {
    let chain = server.chain();
    let mut args = Args::new(params, 3)?;
    match method {
        "anvil_setBalance" | "hardhat_setBalance" => {
            let (account, balance): (Address, U256) = (args.required()?, args.required()?);
            chain.set_balance(account, balance).map_err(refused)?;
        }
        "anvil_setNonce" | "hardhat_setNonce" => {
            let (account, nonce): (Address, U64) = (args.required()?, args.required()?);
            chain.set_nonce(account, nonce.to()).map_err(refused)?;
        }
        "anvil_setCode" | "hardhat_setCode" => {
            let (account, code): (Address, Bytes) = (args.required()?, args.required()?);
            chain.set_code(account, code).map_err(refused)?;
        }
        "anvil_setStorageAt" | "hardhat_setStorageAt" => {
            let (account, slot, value): (Address, U256, U256) = (args.required()?, args.required()?, args.required()?);
            chain.set_storage(account, slot, value).map_err(refused)?;
            return answer(&true);
        }
        "anvil_dropTransaction" | "hardhat_dropTransaction" => {
            let hash: B256 = args.required()?;
            let dropped = chain.drop_tx(hash).map_err(refused)?;
            return answer(&Some(hash).filter(|_| dropped));
        }
        "anvil_dropAllTransactions" => {
            chain.drop_all_txs().map_err(refused)?;
        }
        _ => {
            let text = format!("the method {method} does not exist/is not available");
            return Err(RpcError::new(METHOD_NOT_FOUND_CODE, text));
        }
    }
    answer(&Value::Null)
}

/// The argument of `evm_mine`: a timestamp, or an object with one.
#[derive(Deserialize)]
#[serde(untagged)]
enum MineRequest {
    At(U64),
    Options { timestamp: Option<U64>, blocks: Option<U64> },
}

fn evm_mine(server: &RpcServer, params: Value) -> Result<Answer, RpcError> {
    let (timestamp, blocks) = match Args::new(params, 1)?.optional()? {
        None => (None, U64::ONE),
        Some(MineRequest::At(timestamp)) => (Some(timestamp), U64::ONE),
        Some(MineRequest::Options { timestamp, blocks }) => (timestamp, blocks.unwrap_or(U64::ONE)),
    };
    if let Some(timestamp) = timestamp {
        server.chain().set_next_timestamp(timestamp.to()).map_err(refused)?;
    }
    mine(server, blocks.to(), 0)?;
    answer(&"0x0")
}

fn mine_many(server: &RpcServer, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let blocks: U64 = args.optional()?.unwrap_or(U64::ONE);
    let interval_secs: U64 = args.optional()?.unwrap_or(U64::ONE);
    mine(server, blocks.to(), interval_secs.to())?;
    answer(&Value::Null)
}

fn mine(server: &RpcServer, blocks: u64, interval_secs: u64) -> Result<(), RpcError> {
    check_count(blocks)?;
    if blocks > 0 {
        server.chain().mine_many(blocks, interval_secs).map_err(refused)?;
    }
    Ok(())
}

fn check_count(blocks: u64) -> Result<(), RpcError> {
    if blocks > MAX_BLOCKS_PER_CALL {
        return Err(invalid(format!("invalid argument 0: at most {MAX_BLOCKS_PER_CALL} blocks at once")));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinalityRequest {
    safe: Option<u64>,
    finalized: Option<u64>,
}

/// Missing fields keep their values. The answer has the new values.
fn set_finality(server: &RpcServer, params: Value) -> Result<Answer, RpcError> {
    let request: FinalityRequest = Args::new(params, 1)?.required()?;
    let mut depths = server.chain().finality();
    depths.safe = request.safe.unwrap_or(depths.safe);
    depths.finalized = request.finalized.unwrap_or(depths.finalized);
    server.chain().set_finality(depths).map_err(refused)?;
    answer(&serde_json::json!({ "safe": depths.safe, "finalized": depths.finalized }))
}

fn set_interval(server: &RpcServer, params: Value, unit: fn(u64) -> Duration) -> Result<Answer, RpcError> {
    let interval: U64 = Args::new(params, 1)?.required()?;
    let no_producer = || {
        RpcError::new(SERVER_ERROR_CODE, "interval mining is not available: the server runs without a block producer")
    };
    server.switch().ok_or_else(no_producer)?.set_interval(Some(unit(interval.to())));
    answer(&true)
}

/// anvil's reorg: the new blocks have only the listed transactions. Here the list must be empty.
fn anvil_reorg(server: &RpcServer, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let depth: U64 = args.required()?;
    let listed: Vec<Value> = args.optional()?.unwrap_or_default();
    if !listed.is_empty() {
        return Err(invalid("invalid argument 1: transactions cannot be listed here; gapless_reorg has choices"));
    }
    server.chain().reorg(depth.to(), Remine::Drop).map_err(refused)?;
    answer(&Value::Null)
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RemineRequest {
    Same,
    ToPool,
    Shuffle,
    Drop,
}

fn gapless_reorg(server: &RpcServer, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let depth: U64 = args.required()?;
    let remine = match args.optional()?.unwrap_or(RemineRequest::Same) {
        RemineRequest::Same => Remine::Same,
        RemineRequest::ToPool => Remine::ToPool,
        RemineRequest::Shuffle => Remine::Shuffle,
        RemineRequest::Drop => Remine::Drop,
    };
    let head = server.chain().reorg(depth.to(), remine).map_err(refused)?;
    answer(&head.hash)
}

/// `[name, changes]`: changes the faults of an endpoint and returns their state. `changes` is optional.
fn faults(server: &RpcServer, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let name: Option<String> = args.optional()?;
    let changes: Option<FaultRequest> = args.optional()?;
    let endpoint = endpoint(server, name)?;
    if let Some(changes) = changes {
        changes.apply(&endpoint)?;
    }
    answer(&serde_json::json!({ "lag": endpoint.faults().lag(), "struck": endpoint.faults().fault_count() }))
}

/// The endpoint with this name, or the default endpoint.
fn endpoint(server: &RpcServer, name: Option<String>) -> Result<Endpoint, RpcError> {
    let name = name.as_deref().unwrap_or(DEFAULT_ENDPOINT);
    server.endpoint(name).map_err(|error| invalid(format!("invalid argument 0: {error}")))
}

fn refused(error: ChainError) -> RpcError {
    RpcError::new(SERVER_ERROR_CODE, error.to_string())
}
