//! Reads from one endpoint, as types of the contract.
//!
//! Only the needed fields are read. Chains add fields and transaction types of their own, and these must not make a
//! receipt unreadable.

mod oracle;
mod pool;
mod receipts;
mod revert_reason;
mod reverts;
mod sent;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use alloy_eips::eip7702::constants::EIP7702_DELEGATION_DESIGNATOR;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use gapless_chain::{AccountView, Classified, Header, HeaderAt, Reason, Verdict};
use gapless_domain::{Amount, BlockRef, EvmCall, Nonce};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use oracle::data_fee;
pub(crate) use pool::{PoolAnswers, pool};
pub(crate) use receipts::{block_receipts, receipts};
pub(crate) use reverts::{RevertSource, reverts};
pub(crate) use sent::sent_by;

use crate::endpoint::{CallResult, ESTIMATE, Endpoint};
use crate::fees::{self, FeeHistory, FeeMarket, narrow};
use crate::rpc::RpcCall;
use crate::transaction::{call_object, quantity};

/// The number of estimates in one request. A node executes them one after the other, within the time-out of a request.
const MAX_ESTIMATES: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderRow {
    number: U64,
    hash: B256,
    parent_hash: B256,
    timestamp: U64,
    #[serde(default)]
    base_fee_per_gas: Option<U256>,
}

impl From<HeaderRow> for Header {
    fn from(row: HeaderRow) -> Self {
        Header {
            block: BlockRef { number: row.number.to(), hash: row.hash },
            parent_hash: row.parent_hash,
            timestamp: row.timestamp.to(),
            base_fee: row.base_fee_per_gas.map(narrow),
        }
    }
}

/// The newest block of the endpoint. It is also noted as the head of the endpoint.
pub(crate) async fn head(endpoint: &Endpoint) -> Result<Header, Classified> {
    let row: HeaderRow = endpoint.ask_one(block_by_tag("latest")).await?;
    let head = Header::from(row);
    endpoint.note_head(&head);
    Ok(head)
}

pub(crate) async fn header(endpoint: &Endpoint, at: HeaderAt) -> Result<Option<Header>, Classified> {
    let call = match at {
        HeaderAt::Number(number) => block_by_number(number),
        HeaderAt::Hash(hash) => RpcCall::new("eth_getBlockByHash", json!([hash, false])),
        HeaderAt::Safe => block_by_tag("safe"),
        HeaderAt::Finalized => block_by_tag("finalized"),
    };
    let header = match endpoint.ask_one::<Option<HeaderRow>>(call).await {
        Ok(row) => row.map(Header::from),
        // Chains without finality do not know the tag, and refuse it in many ways.
        Err(classified) if matches!(at, HeaderAt::Safe | HeaderAt::Finalized) && is_node_refusal(&classified) => None,
        Err(classified) if is_not_found(&classified) => None,
        Err(classified) => return Err(classified),
    };
    let header = header.filter(|header| match at {
        HeaderAt::Number(number) => header.block.number == number,
        HeaderAt::Hash(hash) => header.block.hash == hash,
        HeaderAt::Safe | HeaderAt::Finalized => true,
    });
    if !matches!(at, HeaderAt::Hash(_)) {
        endpoint.note_headers(header.as_slice());
    }
    Ok(header)
}

/// The headers at these heights, in order. A header that the node does not have is `None`. A failed call fails the
/// whole list: a hole would be read as the end of the chain.
pub(crate) async fn headers(
    endpoint: &Endpoint,
    numbers: RangeInclusive<u64>,
) -> Result<Vec<Option<Header>>, Classified> {
    let calls: Vec<RpcCall> = numbers.clone().map(block_by_number).collect();
    let read = |(number, answer): (u64, CallResult)| {
        let row: Option<HeaderRow> = match answer {
            Ok(raw) => endpoint.read(&raw)?,
            Err(classified) if is_not_found(&classified) => None,
            Err(classified) => return Err(classified),
        };
        Ok(row.map(Header::from).filter(|header| header.block.number == number))
    };
    let headers: Vec<Option<Header>> =
        numbers.zip(endpoint.ask(&calls).await).map(read).collect::<Result<_, Classified>>()?;
    endpoint.note_headers(&headers.iter().flatten().copied().collect::<Vec<_>>());
    Ok(headers)
}

fn block_by_number(number: u64) -> RpcCall {
    block_by_tag(&quantity(U256::from(number)))
}

fn block_by_tag(tag: &str) -> RpcCall {
    RpcCall::new("eth_getBlockByNumber", json!([tag, false]))
}

/// Counts, balance and code of each account, in as few requests as possible.
pub(crate) async fn accounts(
    endpoint: &Endpoint,
    accounts: &[Address],
    final_at: Option<BlockRef>,
) -> Result<Vec<AccountView>, Classified> {
    let has_code = endpoint.capabilities().code;
    let code = |account: &Address| RpcCall::new("eth_getCode", json!([account, "latest"]));
    let calls: Vec<RpcCall> = accounts
        .iter()
        .flat_map(|account| {
            [
                count(account, json!("latest")),
                count(account, json!("pending")),
                RpcCall::new("eth_getBalance", json!([account, "latest"])),
            ]
        })
        .chain(accounts.iter().filter(|_| has_code).map(code))
        .chain(accounts.iter().filter_map(|account| Some(count(account, block_param(endpoint, final_at?)))))
        .collect();
    let mut answers = endpoint.ask(&calls).await;
    let mut codes = answers.split_off((accounts.len() * 3).min(answers.len()));
    let mut finals = codes.split_off(if has_code { accounts.len().min(codes.len()) } else { 0 });
    if let Some(block) = final_at
        && endpoint.capabilities().count_by_hash
        && finals.iter().any(|answer| answer.as_ref().is_err_and(rejects_block_parameter))
    {
        // Not every node takes a block hash here, and a final block can be named by its number. A node that understood
        // the hash and does not have the block must not be asked by number: it would answer for another block.
        endpoint.remove_capability(|capabilities| capabilities.count_by_hash = false);
        let calls: Vec<RpcCall> = accounts.iter().map(|account| count(account, block_param(endpoint, block))).collect();
        finals = endpoint.ask(&calls).await;
    }
    let mut finals = finals.into_iter();
    let mut codes = codes.into_iter();
    let mut answers = answers.into_iter();
    accounts
        .iter()
        .map(|_| {
            let mut next = || answers.next().unwrap_or_else(|| Err(endpoint.unreadable("")));
            let (latest, pending, balance) = (next(), next(), next());
            let latest = nonce(endpoint, latest)?;
            // Some chains have no mempool.
            let pending = match pending {
                Err(classified) if is_node_refusal(&classified) => latest,
                answer => nonce(endpoint, answer)?,
            };
            let finalized = match finals.next() {
                None => None,
                // The state of the block may be pruned. The count is then unknown, which is no error.
                Some(Err(classified)) if is_node_refusal(&classified) => None,
                Some(answer) => Some(nonce(endpoint, answer)?),
            };
            let balance = Amount::new(endpoint.read(&balance?)?);
            let delegated = codes.next().map_or(Ok(false), |answer| is_delegated(endpoint, answer))?;
            Ok(AccountView { latest, pending, finalized, balance, narrow: delegated })
        })
        .collect()
}

/// Whether the code of an account is a delegation (EIP-7702). An endpoint without `eth_getCode` has no delegations
/// either.
fn is_delegated(endpoint: &Endpoint, answer: CallResult) -> Result<bool, Classified> {
    let raw = match answer {
        Err(classified) if is_node_refusal(&classified) => {
            tracing::info!(endpoint = endpoint.name(), "endpoint has no eth_getCode: accounts count as not delegated");
            endpoint.remove_capability(|capabilities| capabilities.code = false);
            return Ok(false);
        }
        answer => answer?,
    };
    let code: Bytes = endpoint.read(&raw)?;
    Ok(code.len() == EIP7702_DELEGATION_DESIGNATOR.len() + Address::len_bytes()
        && code.starts_with(&EIP7702_DELEGATION_DESIGNATOR))
}

fn count(account: &Address, at: Value) -> RpcCall {
    RpcCall::new("eth_getTransactionCount", json!([account, at]))
}

fn block_param(endpoint: &Endpoint, block: BlockRef) -> Value {
    if endpoint.capabilities().count_by_hash {
        json!({ "blockHash": block.hash, "requireCanonical": true })
    } else {
        json!(quantity(U256::from(block.number)))
    }
}

fn nonce(endpoint: &Endpoint, answer: CallResult) -> Result<Nonce, Classified> {
    let raw = answer?;
    let count: U64 = endpoint.read(&raw)?;
    Nonce::new(count.to()).map_err(|_| endpoint.unreadable(raw.get()))
}

/// Whether each account has code at a block, and the gas of each call on top of it, in as few requests as possible.
pub(crate) async fn codes_and_estimates(
    endpoint: &Endpoint,
    accounts: &[Address],
    from: Address,
    calls: &[&EvmCall],
    at: BlockRef,
) -> (BTreeMap<Address, Result<bool, Classified>>, Vec<Result<u64, Classified>>) {
    let block = quantity(U256::from(at.number));
    let code = |account: &Address| RpcCall::new("eth_getCode", json!([account, block]));
    let estimate = |call: &&EvmCall| RpcCall::new(ESTIMATE, json!([call_object(from, call), block]));
    let asked: Vec<RpcCall> = accounts.iter().map(code).chain(calls.iter().map(estimate)).collect();
    let max = endpoint.estimates_max().map_or(MAX_ESTIMATES, |max| max.min(MAX_ESTIMATES));
    let mut codes = endpoint.ask_limited(&asked, max, None).await;
    let estimates = codes.split_off(accounts.len().min(codes.len()));
    let read = |answer: CallResult| endpoint.read::<U64>(&answer?).map(|gas| gas.to());
    let codes = accounts.iter().copied().zip(codes.into_iter().map(|answer| has_code(endpoint, answer)));
    (codes.collect(), estimates.into_iter().map(read).collect())
}

/// Whether an account has any code: a contract, or a delegation. An account whose code an endpoint refuses to read
/// counts as one with code.
fn has_code(endpoint: &Endpoint, answer: CallResult) -> Result<bool, Classified> {
    match answer {
        Ok(raw) => endpoint.read::<Bytes>(&raw).map(|code| !code.is_empty()),
        Err(classified) if is_node_refusal(&classified) => Ok(true),
        Err(classified) => Err(classified),
    }
}

/// The data for a fee quote, in one request.
pub(crate) async fn market(endpoint: &Endpoint) -> Result<FeeMarket, Classified> {
    let blocks = quantity(U256::from(fees::BLOCKS));
    let calls = [
        block_by_tag("latest"),
        RpcCall::new("eth_feeHistory", json!([blocks, "latest", fees::PERCENTILES])),
        RpcCall::new("eth_maxPriorityFeePerGas", json!([])),
        RpcCall::new("eth_gasPrice", json!([])),
    ];
    let mut answers = endpoint.ask(&calls).await.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Err(endpoint.unreadable("")));
    let (head, history, tip, price) = (next(), next(), next(), next());
    let head: HeaderRow = endpoint.read(&head?)?;
    // A method that the chain lacks leaves its value out. Any other failure fails the read.
    let optional = |answer: CallResult| match answer {
        Ok(raw) => Ok(Some(raw)),
        Err(classified) if is_node_refusal(&classified) => Ok(None),
        Err(classified) => Err(classified),
    };
    let number = |answer: CallResult| -> Result<Option<u128>, Classified> {
        optional(answer)?.map(|raw| endpoint.read(&raw).map(narrow)).transpose()
    };
    let history: FeeHistory = match optional(history)? {
        Some(raw) => endpoint.read::<Option<FeeHistory>>(&raw)?.unwrap_or_default(),
        None => FeeHistory::default(),
    };
    Ok(FeeMarket {
        base_fee: head.base_fee_per_gas.map(narrow),
        history,
        suggested_tip: number(tip)?,
        gas_price: number(price)?,
    })
}

/// The node itself refused the call. Transport failures and rate limits are no refusals.
fn is_node_refusal(classified: &Classified) -> bool {
    is_missing(classified) || !matches!(classified.verdict, Verdict::Unavailable | Verdict::RateLimited)
}

fn is_missing(classified: &Classified) -> bool {
    let text = classified.text.as_str().to_ascii_lowercase();
    // A refused parameter (a hash instead of a number) has the same remedy as a missing method. The words may also be
    // those of a transport failure.
    classified.reason == Reason::MethodMissing
        || classified.verdict != Verdict::Unavailable
            && (text.contains("invalid argument") || text.contains("invalid params"))
}

/// The node could not read the block parameter. A node that read it and does not have the block is not meant.
fn rejects_block_parameter(classified: &Classified) -> bool {
    let text = classified.text.as_str().to_ascii_lowercase();
    let unread = ["invalid param", "cannot unmarshal", "unable to parse", "failed to parse", "invalid type"];
    let about_the_block = text.contains("canonical") || is_not_found(classified);
    let of_the_form =
        is_missing(classified) || is_node_refusal(classified) && unread.iter().any(|words| text.contains(words));
    of_the_form && !about_the_block
}

fn is_not_found(classified: &Classified) -> bool {
    let text = classified.text.as_str().to_ascii_lowercase();
    is_node_refusal(classified)
        && classified.reason != Reason::MethodMissing
        && ["not found", "unknown block", "unknown transaction", "not exist"].iter().any(|words| text.contains(words))
}
