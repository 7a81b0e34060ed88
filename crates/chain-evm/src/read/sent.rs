//! The transactions of one account, read from whole blocks.
//!
//! A block may hold transactions of types that only its own chain knows. The sender is read first, and foreign
//! transactions need not be readable. A transaction of the account is encoded again, and has to have the hash that the
//! node returned and the signature of the account. One mismatch fails the whole answer: a block without the transaction
//! would be taken as proof that the account has not sent it.

use std::ops::RangeInclusive;

use alloy_consensus::constants::EMPTY_ROOT_HASH;
use alloy_primitives::{Address, B256, U64, U256};
use gapless_chain::{Classified, SentInBlock};
use gapless_domain::{BlockLink, BlockRef, SignedPlan};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::is_not_found;
use crate::endpoint::{CallResult, Endpoint};
use crate::rpc::RpcCall;
use crate::transaction::{quantity, read_mined};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FullBlockRow {
    number: U64,
    hash: B256,
    parent_hash: B256,
    #[serde(default)]
    transactions_root: Option<B256>,
    transactions: Vec<Box<RawValue>>,
}

/// Sender and hash of a transaction. Its type may be unknown.
#[derive(Deserialize)]
struct SenderRow {
    from: Address,
    hash: B256,
}

/// The blocks at these heights, in order, with the transactions of `sender` in each.
pub(crate) async fn sent_by(
    endpoint: &Endpoint,
    sender: Address,
    numbers: RangeInclusive<u64>,
) -> Result<Vec<Option<SentInBlock>>, Classified> {
    let whole = |number| RpcCall::new("eth_getBlockByNumber", json!([quantity(U256::from(number)), true]));
    let calls: Vec<RpcCall> = numbers.clone().map(whole).collect();
    let read = |(number, answer): (u64, CallResult)| {
        let row: Option<FullBlockRow> = match answer {
            Ok(raw) => endpoint.read(&raw)?,
            Err(classified) if is_not_found(&classified) => None,
            Err(classified) => return Err(classified),
        };
        let sent = |row: FullBlockRow| sent_in(endpoint, sender, &row);
        row.filter(|row| row.number.to::<u64>() == number).map(sent).transpose()
    };
    let answers = endpoint.ask_limited(&calls, endpoint.blocks_max(), None).await;
    numbers.zip(answers).map(read).collect()
}

fn sent_in(endpoint: &Endpoint, sender: Address, row: &FullBlockRow) -> Result<SentInBlock, Classified> {
    // A node may have pruned the transactions and kept the header.
    let has_transactions = row.transactions_root.is_some_and(|root| root != EMPTY_ROOT_HASH && !root.is_zero());
    if row.transactions.is_empty() && has_transactions {
        return Err(endpoint.unreadable("the block lacks the transactions of its header"));
    }
    let block = BlockRef { number: row.number.to(), hash: row.hash };
    let mut sent = Vec::new();
    for fields in &row.transactions {
        let row: SenderRow = endpoint.read(fields)?;
        if row.from == sender {
            sent.push(mined(endpoint, sender, row.hash, fields)?);
        }
    }
    Ok(SentInBlock { link: BlockLink { block, parent_hash: row.parent_hash }, sent })
}

fn mined(endpoint: &Endpoint, sender: Address, hash: B256, fields: &RawValue) -> Result<SignedPlan, Classified> {
    read_mined(fields.get(), hash, sender, endpoint.chain()).ok_or_else(|| endpoint.unreadable(fields.get()))
}
