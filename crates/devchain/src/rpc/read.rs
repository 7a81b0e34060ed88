//! The methods that read the chain.

use std::collections::BTreeMap;

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, U64, U128, U256};
use alloy_rpc_types_eth::TransactionRequest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::args::{Args, invalid};
use super::message::{Answer, METHOD_NOT_FOUND_CODE, answer};
use super::request::{self, FilterRequest};
use super::shape;
use super::trace::trace_transaction;
use crate::block::Block;
use crate::error::{CallError, ReadError, RpcError, SERVER_ERROR_CODE};
use crate::query::{BlockSelector, CallRequest};
use crate::view::View;

pub(crate) fn read(view: &View, method: &str, params: Value) -> Result<Answer, RpcError> {
    match method {
        "eth_getBlockByNumber" => block_by::<BlockNumberOrTag>(view, params, request::at_tag),
        "eth_getBlockByHash" => block_by::<B256>(view, params, BlockSelector::Hash),
        "eth_getBlockReceipts" => block_receipts(view, params),
        "eth_getBlockTransactionCountByNumber" => transaction_count(view, params),
        "eth_getBlockTransactionCountByHash" => transaction_count(view, params),
        "eth_getTransactionByHash" => {
            let hash = Args::new(params, 1)?.required()?;
            answer(&view.transaction(hash).map(|found| shape::transaction(&found)))
        }
        "eth_getTransactionReceipt" => {
            let hash = Args::new(params, 1)?.required()?;
            answer(&view.receipt(hash).and_then(|mined| shape::receipt(&mined)))
        }
        "eth_getTransactionCount" => account(view, params, |view, account, at| view.nonce(account, at).map(U64::from)),
        "eth_getBalance" => account(view, params, View::balance),
        "eth_getCode" => account(view, params, View::code),
        "eth_getStorageAt" => storage(view, params),
        "eth_call" => call(view, params, View::call),
        "eth_estimateGas" => call(view, params, |view, call, at| view.estimate_gas(call, at).map(U64::from)),
        "eth_feeHistory" => fee_history(view, params),
        "eth_getLogs" => {
            let filter: FilterRequest = Args::new(params, 1)?.required()?;
            let logs = view.logs(&filter.into_filter()?)?;
            answer(&logs.into_iter().map(shape::log).collect::<Vec<_>>())
        }
        "debug_traceTransaction" => trace_transaction(view, params),
        "txpool_contentFrom" => pool_content_from(view, params),
        _ => without_arguments(view, method, params),
    }
}

fn without_arguments(view: &View, method: &str, params: Value) -> Result<Answer, RpcError> {
    let answered = match method {
        "eth_chainId" => answer(&U64::from(view.chain_id())),
        "net_version" => answer(&view.chain_id().to_string()),
        "net_listening" => answer(&true),
        "net_peerCount" => answer(&U64::ZERO),
        "web3_clientVersion" => answer(&view.client_version()),
        "eth_blockNumber" => answer(&U64::from(view.head().number())),
        "eth_gasPrice" => answer(&U128::from(view.gas_price())),
        "eth_maxPriorityFeePerGas" => answer(&U128::from(view.max_priority_fee())),
        "eth_syncing" => answer(&false),
        "eth_accounts" => answer(&[(); 0]),
        "txpool_status" => {
            let status = view.pool_status();
            answer(&json!({ "pending": U64::from(status.pending), "queued": U64::from(status.queued) }))
        }
        "txpool_content" => {
            let content = view.pool_content();
            let [pending, queued] = [content.pending, content.queued].map(|accounts| {
                let shown = |(account, txs)| (Address::to_string(&account), by_nonce(txs));
                accounts.into_iter().map(shown).collect::<BTreeMap<_, _>>()
            });
            answer(&json!({ "pending": pending, "queued": queued }))
        }
        _ => {
            let text = format!("the method {method} does not exist/is not available");
            return Err(RpcError::new(METHOD_NOT_FOUND_CODE, text));
        }
    };
    Args::none(params).and(answered)
}

fn block_by<T: DeserializeOwned>(
    view: &View,
    params: Value,
    to_at: fn(T) -> BlockSelector,
) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let at = to_at(args.required()?);
    let full = args.required()?;
    match view.block(at) {
        None => answer(&Value::Null),
        Some(block) if at == BlockSelector::Pending => answer(&shape::pending_block(&block, full)?),
        Some(block) => answer(&shape::block(&block, full)),
    }
}

fn block_receipts(view: &View, params: Value) -> Result<Answer, RpcError> {
    let id: BlockId = Args::new(params, 1)?.required()?;
    let at = checked_at(view, id)?;
    // The pending block has no receipts, as in geth.
    let block = Some(at).filter(|at| *at != BlockSelector::Pending).and_then(|at| view.block(at));
    answer(&block.map(|block| shape::receipts(&block)))
}

fn transaction_count(view: &View, params: Value) -> Result<Answer, RpcError> {
    let id: BlockId = Args::new(params, 1)?.required()?;
    let at = checked_at(view, id)?;
    answer(&view.block(at).map(|block| U64::from(block.txs.len())))
}

fn account<T: serde::Serialize>(
    view: &View,
    params: Value,
    ask: impl FnOnce(&View, Address, BlockSelector) -> Result<T, ReadError>,
) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let account = args.required()?;
    let id = args.required()?;
    let at = checked_at(view, id)?;
    answer(&ask(view, account, at).map_err(|error| named(error, at))?)
}

fn storage(view: &View, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 3)?;
    let (account, slot) = (args.required()?, args.required::<U256>()?);
    let id = args.required()?;
    let at = checked_at(view, id)?;
    let value = view.storage(account, slot, at).map_err(|error| named(error, at))?;
    answer(&B256::from(value))
}

fn call<T: serde::Serialize>(
    view: &View,
    params: Value,
    ask: impl FnOnce(&View, &CallRequest, BlockSelector) -> Result<T, CallError>,
) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 4)?;
    let request: TransactionRequest = args.required()?;
    let id = args.optional()?;
    let at = id.map_or(Ok(BlockSelector::Latest), |id| checked_at(view, id))?;
    for what in ["state", "block"] {
        let overrides: Option<serde_json::Map<String, Value>> = args.optional()?;
        if overrides.is_some_and(|overrides| !overrides.is_empty()) {
            return Err(invalid(format!("{what} overrides are not supported by this chain")));
        }
    }
    answer(&ask(view, &request::call(request)?, at).map_err(|error| match error {
        CallError::Read(error) => named(error, at),
        error => error.into(),
    })?)
}

fn fee_history(view: &View, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 3)?;
    let (count, newest) = (args.required::<U64>()?, request::at_tag(args.required()?));
    let percentiles: Vec<f64> = args.optional()?.unwrap_or_default();
    answer(&shape::fee_history(view.fee_history(count.to(), newest, &percentiles)?))
}

fn pool_content_from(view: &View, params: Value) -> Result<Answer, RpcError> {
    let account: Address = Args::new(params, 1)?.required()?;
    let mut content = view.pool_content();
    let [pending, queued] = [&mut content.pending, &mut content.queued]
        .map(|accounts| by_nonce(accounts.remove(&account).unwrap_or_default()));
    answer(&json!({ "pending": pending, "queued": queued }))
}

fn by_nonce(txs: BTreeMap<u64, std::sync::Arc<crate::tx::Tx>>) -> BTreeMap<String, Value> {
    // A transaction can always be serialised, so the default (`null`) is never used.
    let shown = |(nonce, tx): (u64, std::sync::Arc<crate::tx::Tx>)| {
        (nonce.to_string(), serde_json::to_value(shape::pooled_transaction(&tx)).unwrap_or_default())
    };
    txs.into_iter().map(shown).collect()
}

/// The block of an id. With `requireCanonical`, a block that is not canonical is an error.
fn checked_at(view: &View, id: BlockId) -> Result<BlockSelector, RpcError> {
    if let BlockId::Hash(hash) = id
        && hash.require_canonical == Some(true)
        && let Some(block) = view.block(BlockSelector::Hash(hash.block_hash))
        && !is_canonical(view, &block)
    {
        return Err(RpcError::new(SERVER_ERROR_CODE, "hash is not currently canonical"));
    }
    Ok(request::at(id))
}

fn is_canonical(view: &View, block: &Block) -> bool {
    view.block(BlockSelector::Number(block.number())).is_some_and(|canonical| canonical.hash == block.hash)
}

/// geth has another text for an unknown block that was requested by hash.
fn named(error: ReadError, at: BlockSelector) -> RpcError {
    match (error, at) {
        (ReadError::UnknownBlock, BlockSelector::Hash(_)) => {
            RpcError::new(SERVER_ERROR_CODE, "header for hash not found")
        }
        (error, _) => error.into(),
    }
}
