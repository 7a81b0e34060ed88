//! The JSON-RPC methods that a transaction manager needs. A result is written directly into the text of the answer.

use std::borrow::Cow;
use std::fmt::Write as _;

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, hex};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::connection::HeadSubscriptions;
use super::core::LocatedTx;
use super::render::{self, push_hash, push_quantity};
use super::tx::{BASE_FEE, NullTx, gas_of};
use super::{LIMITS, NullChain, clock};
use crate::error::{ReadError, RpcError};
use crate::faults::SEND_METHOD;
use crate::rpc::{
    Args, Incoming, InvalidRequest, METHOD_NOT_FOUND_CODE, Request, begin_success, end_success, failure, invalid,
    invalid_request, read_params,
};
use crate::view::CLIENT_VERSION;

/// The balance of every account at any time: a million ether.
const BALANCE: u128 = 1_000_000_000_000_000_000_000_000;
/// The suggested tip, in wei.
const TIP: u64 = 1_000_000_000;
/// Maximum blocks of one fee history, as in geth.
const MAX_FEE_HISTORY: u64 = 1_024;
const MAX_PERCENTILES: usize = 100;

impl NullChain {
    /// The answer to a request text. `None` if it contains only notifications.
    pub(super) fn answer(&self, text: &[u8], mut heads: Option<&mut HeadSubscriptions>) -> Option<String> {
        let mut out = String::new();
        match Incoming::parse(text, LIMITS.batch_calls) {
            Err(error) => return Some(error.to_text()),
            Ok(Incoming::Single(request)) => {
                let now = clock::now_micros();
                self.answer_request(request, now, &mut heads, &mut out);
            }
            Ok(Incoming::Batch(requests)) => {
                let now = clock::now_micros();
                out.push('[');
                for request in requests {
                    if self.answer_request(request, now, &mut heads, &mut out) {
                        out.push(',');
                    }
                }
                // The last comma becomes the bracket. Without a comma, the batch had only notifications.
                out.pop().filter(|last| *last == ',')?;
                out.push(']');
            }
        }
        Some(out).filter(|out| !out.is_empty())
    }

    /// Writes the answer to one request. False if the request is a notification, which gets no answer.
    fn answer_request(
        &self,
        request: Result<Request<'_>, InvalidRequest<'_>>,
        now_micros: u64,
        heads: &mut Option<&mut HeadSubscriptions>,
        out: &mut String,
    ) -> bool {
        let Request { id, method, params } = match request {
            Ok(request) => request,
            Err(invalid) => {
                out.push_str(&invalid_request(&invalid));
                return true;
            }
        };
        let start = out.len();
        begin_success(out, id.unwrap_or(RawValue::NULL));
        let result = self.call(&method, params, now_micros, heads, out);
        match (id, result) {
            (None, _) => out.truncate(start),
            (Some(_), Ok(())) => end_success(out),
            (Some(id), Err(error)) => {
                out.truncate(start);
                out.push_str(&failure(id, &error));
            }
        }
        id.is_some()
    }

    fn call(
        &self,
        method: &str,
        params: Option<&RawValue>,
        now_micros: u64,
        heads: &mut Option<&mut HeadSubscriptions>,
        out: &mut String,
    ) -> Result<(), RpcError> {
        if method == SEND_METHOD {
            self.shared.calls.count(method);
            return self.send(params, now_micros, out);
        }
        let params = read_params(params)?;
        if let Some(what) = method.strip_prefix("null_") {
            return self.control(what, params, out);
        }
        self.shared.calls.count(method);
        match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                let mut args = Args::new(params, 2)?;
                let (at, full): (BlockId, bool) = (args.required()?, args.required()?);
                let block = self.core().block(at).cloned();
                match block {
                    Some(block) => render::block(out, &block, full),
                    None => null(out),
                }
            }
            "eth_getBlockReceipts" => {
                let at: BlockId = Args::new(params, 1)?.required()?;
                let block = self.core().block(at).cloned();
                out.push_str(block.map(|block| block.receipts()).as_deref().unwrap_or("null"));
                Ok(())
            }
            "eth_getBlockTransactionCountByHash" | "eth_getBlockTransactionCountByNumber" => {
                let at: BlockId = Args::new(params, 1)?.required()?;
                let block = self.core().block(at).cloned();
                match block {
                    Some(block) => quantity(out, block.txs.len()),
                    None => null(out),
                }
            }
            "eth_getTransactionReceipt" => {
                let hash: B256 = Args::new(params, 1)?.required()?;
                let found = self.core().find(hash);
                match found {
                    Some(LocatedTx::Mined { block, index }) => {
                        render::receipt(out, &block, index);
                        Ok(())
                    }
                    Some(LocatedTx::Waiting { .. }) | None => null(out),
                }
            }
            "eth_getTransactionByHash" => {
                let hash: B256 = Args::new(params, 1)?.required()?;
                let found = self.core().find(hash);
                match found {
                    Some(found) => render::transaction(out, &found),
                    None => null(out),
                }
            }
            "eth_getTransactionCount" => {
                let mut args = Args::new(params, 2)?;
                let (account, at): (Address, BlockId) = (args.required()?, args.required()?);
                quantity(out, self.core().count(account, at).ok_or(ReadError::UnknownBlock)?)
            }
            "eth_estimateGas" => estimate(params, out),
            "eth_feeHistory" => self.fee_history(params, out),
            "eth_subscribe" => match heads {
                Some(heads) => {
                    let name: String = Args::new(params, 1)?.required()?;
                    quantity(out, heads.open(self, &name)?)
                }
                None => Err(RpcError::new(METHOD_NOT_FOUND_CODE, "notifications not supported")),
            },
            "eth_unsubscribe" => {
                let id: String = Args::new(params, 1)?.required()?;
                heads.as_mut().map_or_else(|| HeadSubscriptions::default().close(&id), |heads| heads.close(&id))?;
                out.push_str("true");
                Ok(())
            }
            _ => self.constant(method, out),
        }
    }

    fn send(&self, params: Option<&RawValue>, now_micros: u64, out: &mut String) -> Result<(), RpcError> {
        /// A list of one string. Serde borrows a string without escapes.
        #[derive(Deserialize)]
        struct OneText<'a>(#[serde(borrow)] [Cow<'a, str>; 1]);
        let params = params.ok_or_else(|| invalid("missing value for required argument 0"))?;
        let OneText([text]) = serde_json::from_str(params.get()).map_err(|error| invalid(error.to_string()))?;
        let raw = hex::decode(&*text).map_err(|error| invalid(format!("invalid argument 0: {error}")))?;
        let tx = NullTx::read(raw.into_boxed_slice(), self.shared.options.chain_id)?;
        let accepted = self.core().send(tx, now_micros)?;
        if accepted.is_first_work {
            self.shared.work.notify_one();
        }
        push_hash(out, &accepted.hash);
        Ok(())
    }

    /// Methods without arguments that matter.
    fn constant(&self, method: &str, out: &mut String) -> Result<(), RpcError> {
        match method {
            "eth_chainId" => quantity(out, self.shared.options.chain_id),
            "eth_blockNumber" => quantity(out, self.core().head().number),
            "eth_getBalance" => quantity(out, BALANCE),
            "eth_gasPrice" => quantity(out, BASE_FEE + TIP),
            "eth_maxPriorityFeePerGas" => quantity(out, TIP),
            "eth_getCode" | "eth_call" => text(out, "\"0x\""),
            "eth_syncing" => text(out, "false"),
            "net_version" => text(out, &json!(self.shared.options.chain_id.to_string()).to_string()),
            "web3_clientVersion" => text(out, &json!(CLIENT_VERSION).to_string()),
            _ => {
                let text = format!("the method {method} does not exist/is not available");
                Err(RpcError::new(METHOD_NOT_FOUND_CODE, text))
            }
        }
    }

    fn fee_history(&self, params: Value, out: &mut String) -> Result<(), RpcError> {
        let mut args = Args::new(params, 3)?;
        let (count, newest): (U64, BlockNumberOrTag) = (args.required()?, args.required()?);
        let percentiles: Vec<f64> = args.optional()?.unwrap_or_default();
        if percentiles.len() > MAX_PERCENTILES {
            return Err(invalid("too many percentiles"));
        }
        let newest = self.core().block(newest.into()).ok_or(ReadError::UnknownBlock)?.number;
        let count = count.to::<u64>().min(newest + 1).min(MAX_FEE_HISTORY);
        let blocks = usize::try_from(count).unwrap_or_default();
        let history = json!({
            "oldestBlock": U64::from(newest + 1 - count),
            "baseFeePerGas": vec![U64::from(BASE_FEE); blocks + 1],
            // The gas limit is so high that the ratio is always about 0.
            "gasUsedRatio": vec![0.0; blocks],
            "reward": vec![vec![U64::from(TIP); percentiles.len()]; blocks],
        });
        text(out, &history.to_string())
    }

    /// The `null_` methods for benchmarks, which real nodes do not have.
    fn control(&self, what: &str, params: Value, out: &mut String) -> Result<(), RpcError> {
        match what {
            "stats" => {
                Args::none(params)?;
                let totals = self.core().totals();
                let stats = json!({
                    "calls": self.shared.calls.by_method(),
                    "head": totals.head,
                    "accepted": totals.accepted,
                    "mined": totals.mined,
                    "waiting": totals.waiting,
                    "accounts": totals.accounts,
                });
                text(out, &stats.to_string())
            }
            "arrivals" => {
                let most: Option<usize> = Args::new(params, 1)?.optional()?;
                let arrivals = self.core().arrivals(most.unwrap_or(usize::MAX));
                out.push('[');
                for (index, arrival) in arrivals.iter().enumerate() {
                    out.push_str(if index > 0 { ",[" } else { "[" });
                    push_hash(out, &arrival.hash);
                    let _ = write!(out, ",{}]", arrival.at_micros);
                }
                out.push(']');
                Ok(())
            }
            _ => {
                let text = format!("the method null_{what} does not exist/is not available");
                Err(RpcError::new(METHOD_NOT_FOUND_CODE, text))
            }
        }
    }
}

fn estimate(params: Value, out: &mut String) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct CallData {
        data: Option<Bytes>,
        input: Option<Bytes>,
    }
    let CallData { data, input } = Args::new(params, 4)?.required()?;
    quantity(out, gas_of(input.or(data).unwrap_or_default().len()))
}

fn quantity(out: &mut String, number: impl std::fmt::LowerHex) -> Result<(), RpcError> {
    push_quantity(out, number);
    Ok(())
}

fn text(out: &mut String, text: &str) -> Result<(), RpcError> {
    out.push_str(text);
    Ok(())
}

fn null(out: &mut String) -> Result<(), RpcError> {
    text(out, "null")
}
