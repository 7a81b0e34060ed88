//! What one account has sent, by whole blocks.
//!
//! A block may hold transactions of kinds that only its own chain knows. Whose they are is read first; those of others need not
//! make sense. One of the account's that does is made into bytes again, and has to have the hash that the node names and the
//! account's own signature. One that does not fit fails the whole answer: a block without it would be taken as proof that the
//! account has not sent it.

use std::ops::RangeInclusive;

use alloy_consensus::constants::EMPTY_ROOT_HASH;
use alloy_primitives::{Address, B256, U64, U256};
use gapless_chain::{Classified, SentInBlock};
use gapless_domain::{BlockLink, BlockRef, SignedPlan};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::says_not_found;
use crate::endpoint::{Answer, Endpoint};
use crate::rpc::Call;
use crate::transaction::{quantity, read_mined};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockRow {
    number: U64,
    hash: B256,
    parent_hash: B256,
    #[serde(default)]
    transactions_root: Option<B256>,
    transactions: Vec<Box<RawValue>>,
}

/// Whose it is. Everything else about it may be of a kind that we do not know.
#[derive(Deserialize)]
struct SenderRow {
    from: Address,
    hash: B256,
}

/// The blocks at these heights, in their order, with what `sender` has sent in each.
pub(crate) async fn sent_by(
    endpoint: &Endpoint,
    sender: Address,
    numbers: RangeInclusive<u64>,
) -> Result<Vec<Option<SentInBlock>>, Classified> {
    let whole = |number| Call::new("eth_getBlockByNumber", json!([quantity(U256::from(number)), true]));
    let calls: Vec<Call> = numbers.clone().map(whole).collect();
    let read = |(number, answer): (u64, Answer)| {
        let row: Option<BlockRow> = match answer {
            Ok(raw) => endpoint.read(&raw)?,
            Err(classified) if says_not_found(&classified) => None,
            Err(classified) => return Err(classified),
        };
        let of_it = |row: BlockRow| sent_in(endpoint, sender, &row);
        row.filter(|row| row.number.to::<u64>() == number).map(of_it).transpose()
    };
    let answers = endpoint.ask_few(&calls, endpoint.blocks_max(), None).await;
    numbers.zip(answers).map(read).collect()
}

fn sent_in(endpoint: &Endpoint, sender: Address, row: &BlockRow) -> Result<SentInBlock, Classified> {
    // A node that has thrown the transactions away and only kept the header.
    let is_said_full = row.transactions_root.is_some_and(|root| root != EMPTY_ROOT_HASH && !root.is_zero());
    if row.transactions.is_empty() && is_said_full {
        return Err(endpoint.unreadable("a block without the transactions that its header tells of"));
    }
    let block = BlockRef { number: row.number.to(), hash: row.hash };
    let mut sent = Vec::new();
    for fields in &row.transactions {
        let named: SenderRow = endpoint.read(fields)?;
        if named.from == sender {
            sent.push(mined(endpoint, sender, named.hash, fields)?);
        }
    }
    Ok(SentInBlock { link: BlockLink { block, parent_hash: row.parent_hash }, sent })
}

fn mined(endpoint: &Endpoint, sender: Address, hash: B256, fields: &RawValue) -> Result<SignedPlan, Classified> {
    read_mined(fields.get(), hash, sender, endpoint.chain()).ok_or_else(|| endpoint.unreadable(fields.get()))
}
