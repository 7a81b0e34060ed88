//! Questions to one endpoint, and their answers as the contract has them.
//!
//! Only the fields that are needed are read: chains add fields and transaction types of their own, and none of that is a
//! reason not to see a receipt.

mod oracle;
mod pool;
mod receipts;
mod reverts;
mod sent;

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
pub(crate) use reverts::{Way, reverts};
pub(crate) use sent::sent_by;

use crate::endpoint::{Answer, Endpoint};
use crate::fees::{self, FeeHistory, Market, narrow};
use crate::rpc::Call;
use crate::transaction::{call_object, quantity};

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

/// The endpoint's newest block; it is also noted where its head is.
pub(crate) async fn head(endpoint: &Endpoint) -> Result<Header, Classified> {
    let row: HeaderRow = endpoint.ask_one(block_by_tag("latest")).await?;
    let head = Header::from(row);
    endpoint.set_head(&head);
    Ok(head)
}

pub(crate) async fn header(endpoint: &Endpoint, at: HeaderAt) -> Result<Option<Header>, Classified> {
    let call = match at {
        HeaderAt::Number(number) => block_by_number(number),
        HeaderAt::Hash(hash) => Call::new("eth_getBlockByHash", json!([hash, false])),
        HeaderAt::Safe => block_by_tag("safe"),
        HeaderAt::Finalized => block_by_tag("finalized"),
    };
    let header = match endpoint.ask_one::<Option<HeaderRow>>(call).await {
        Ok(row) => row.map(Header::from),
        // Chains without finality do not know the word, and say so in many ways.
        Err(classified) if matches!(at, HeaderAt::Safe | HeaderAt::Finalized) && is_the_nodes_word(&classified) => None,
        Err(classified) if says_not_found(&classified) => None,
        Err(classified) => return Err(classified),
    };
    let header = header.filter(|header| match at {
        HeaderAt::Number(number) => header.block.number == number,
        HeaderAt::Hash(hash) => header.block.hash == hash,
        HeaderAt::Safe | HeaderAt::Finalized => true,
    });
    if !matches!(at, HeaderAt::Hash(_)) {
        endpoint.saw(header.as_slice());
    }
    Ok(header)
}

/// The headers at these heights, in their order. One that the node has not is `None`; one that it did not answer for fails all,
/// since a list with holes that are none would be taken for the end of the chain.
pub(crate) async fn headers(
    endpoint: &Endpoint,
    numbers: RangeInclusive<u64>,
) -> Result<Vec<Option<Header>>, Classified> {
    let calls: Vec<Call> = numbers.clone().map(block_by_number).collect();
    let read = |(number, answer): (u64, Answer)| {
        let row: Option<HeaderRow> = match answer {
            Ok(raw) => endpoint.read(&raw)?,
            Err(classified) if says_not_found(&classified) => None,
            Err(classified) => return Err(classified),
        };
        Ok(row.map(Header::from).filter(|header| header.block.number == number))
    };
    let headers: Vec<Option<Header>> =
        numbers.zip(endpoint.ask(&calls).await).map(read).collect::<Result<_, Classified>>()?;
    endpoint.saw(&headers.iter().flatten().copied().collect::<Vec<_>>());
    Ok(headers)
}

fn block_by_number(number: u64) -> Call {
    block_by_tag(&quantity(U256::from(number)))
}

fn block_by_tag(tag: &str) -> Call {
    Call::new("eth_getBlockByNumber", json!([tag, false]))
}

/// Counts, balance and code of each account, in as few requests as they fit into.
pub(crate) async fn accounts(
    endpoint: &Endpoint,
    accounts: &[Address],
    final_at: Option<BlockRef>,
) -> Result<Vec<AccountView>, Classified> {
    let has_code = endpoint.skills().code;
    let code = |account: &Address| Call::new("eth_getCode", json!([account, "latest"]));
    let calls: Vec<Call> = accounts
        .iter()
        .flat_map(|account| {
            [
                count(account, json!("latest")),
                count(account, json!("pending")),
                Call::new("eth_getBalance", json!([account, "latest"])),
            ]
        })
        .chain(accounts.iter().filter(|_| has_code).map(code))
        .chain(accounts.iter().filter_map(|account| Some(count(account, block_param(endpoint, final_at?)))))
        .collect();
    let mut answers = endpoint.ask(&calls).await;
    let mut codes = answers.split_off((accounts.len() * 3).min(answers.len()));
    let mut finals = codes.split_off(if has_code { accounts.len().min(codes.len()) } else { 0 });
    if let Some(block) = final_at
        && endpoint.skills().count_by_hash
        && finals.iter().any(|answer| answer.as_ref().is_err_and(does_not_know_the_form))
    {
        // Not every node takes a block by its hash here; a final block is the same by its number. A node that understood, and
        // does not have this block in its chain, must not be asked so: by its number it would tell of another block.
        endpoint.unlearn(|skills| skills.count_by_hash = false);
        let calls: Vec<Call> = accounts.iter().map(|account| count(account, block_param(endpoint, block))).collect();
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
            // Some chains have no pool to look into.
            let pending = match pending {
                Err(classified) if is_the_nodes_word(&classified) => latest,
                answer => nonce(endpoint, answer)?,
            };
            let finalized = match finals.next() {
                None => None,
                // The state of that block may be gone: then nothing is known, which is no error.
                Some(Err(classified)) if is_the_nodes_word(&classified) => None,
                Some(answer) => Some(nonce(endpoint, answer)?),
            };
            let balance = Amount::new(endpoint.read(&balance?)?);
            let delegated = codes.next().map_or(Ok(false), |answer| is_delegated(endpoint, answer))?;
            Ok(AccountView { latest, pending, finalized, balance, delegated })
        })
        .collect()
}

/// Is the code a pointer to somebody else's (EIP-7702)? Where nodes cannot tell of code there is none of this kind either.
fn is_delegated(endpoint: &Endpoint, answer: Answer) -> Result<bool, Classified> {
    let raw = match answer {
        Err(classified) if is_the_nodes_word(&classified) => {
            tracing::info!(endpoint = endpoint.name(), "no eth_getCode here: no account counts as delegated");
            endpoint.unlearn(|skills| skills.code = false);
            return Ok(false);
        }
        answer => answer?,
    };
    let code: Bytes = endpoint.read(&raw)?;
    Ok(code.len() == EIP7702_DELEGATION_DESIGNATOR.len() + Address::len_bytes()
        && code.starts_with(&EIP7702_DELEGATION_DESIGNATOR))
}

fn count(account: &Address, at: Value) -> Call {
    Call::new("eth_getTransactionCount", json!([account, at]))
}

fn block_param(endpoint: &Endpoint, block: BlockRef) -> Value {
    if endpoint.skills().count_by_hash {
        json!({ "blockHash": block.hash, "requireCanonical": true })
    } else {
        json!(quantity(U256::from(block.number)))
    }
}

fn nonce(endpoint: &Endpoint, answer: Answer) -> Result<Nonce, Classified> {
    let raw = answer?;
    let count: U64 = endpoint.read(&raw)?;
    Nonce::new(count.to()).map_err(|_| endpoint.unreadable(raw.get()))
}

pub(crate) async fn estimate_gas(
    endpoint: &Endpoint,
    from: Address,
    call: &EvmCall,
    at: BlockRef,
) -> Result<u64, Classified> {
    let params = json!([call_object(from, call), quantity(U256::from(at.number))]);
    let gas: U64 = endpoint.ask_one(Call::new("eth_estimateGas", params)).await?;
    Ok(gas.to())
}

/// Everything that a price is made from, in one request.
pub(crate) async fn market(endpoint: &Endpoint) -> Result<Market, Classified> {
    let blocks = quantity(U256::from(fees::BLOCKS));
    let calls = [
        block_by_tag("latest"),
        Call::new("eth_feeHistory", json!([blocks, "latest", fees::PERCENTILES])),
        Call::new("eth_maxPriorityFeePerGas", json!([])),
        Call::new("eth_gasPrice", json!([])),
    ];
    let mut answers = endpoint.ask(&calls).await.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Err(endpoint.unreadable("")));
    let (head, history, tip, price) = (next(), next(), next(), next());
    let head: HeaderRow = endpoint.read(&head?)?;
    // What a chain does not have is not there; what did not come back for another reason is a failure.
    let optional = |answer: Answer| match answer {
        Ok(raw) => Ok(Some(raw)),
        Err(classified) if is_the_nodes_word(&classified) => Ok(None),
        Err(classified) => Err(classified),
    };
    let number = |answer: Answer| -> Result<Option<u128>, Classified> {
        optional(answer)?.map(|raw| endpoint.read(&raw).map(narrow)).transpose()
    };
    let history: FeeHistory = match optional(history)? {
        Some(raw) => endpoint.read::<Option<FeeHistory>>(&raw)?.unwrap_or_default(),
        None => FeeHistory::default(),
    };
    Ok(Market {
        base_fee: head.base_fee_per_gas.map(narrow),
        history,
        suggested_tip: number(tip)?,
        gas_price: number(price)?,
    })
}

/// The node itself said that it cannot, as against a road that broke or a limit that was met.
fn is_the_nodes_word(classified: &Classified) -> bool {
    is_missing(classified) || !matches!(classified.verdict, Verdict::Unavailable | Verdict::RateLimited)
}

fn is_missing(classified: &Classified) -> bool {
    let text = classified.text.as_str().to_ascii_lowercase();
    // A parameter that is a hash, where the node wants a number, leaves the same way out. The words may also be those of a road
    // that broke.
    classified.reason == Reason::MethodMissing
        || classified.verdict != Verdict::Unavailable
            && (text.contains("invalid argument") || text.contains("invalid params"))
}

/// The node could not read the question, as against one that read it and does not have the block.
fn does_not_know_the_form(classified: &Classified) -> bool {
    let text = classified.text.as_str().to_ascii_lowercase();
    let unread = ["invalid param", "cannot unmarshal", "unable to parse", "failed to parse", "invalid type"];
    let about_the_block = text.contains("canonical") || says_not_found(classified);
    let of_the_form =
        is_missing(classified) || is_the_nodes_word(classified) && unread.iter().any(|words| text.contains(words));
    of_the_form && !about_the_block
}

fn says_not_found(classified: &Classified) -> bool {
    let text = classified.text.as_str().to_ascii_lowercase();
    is_the_nodes_word(classified)
        && classified.reason != Reason::MethodMissing
        && ["not found", "unknown block", "unknown transaction", "not exist"].iter().any(|words| text.contains(words))
}
