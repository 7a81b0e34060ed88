//! Receipts of a block, and receipts by hash.

use alloy_primitives::{B256, U64, U256};
use gapless_chain::{Classified, Receipt, Wanted};
use gapless_domain::{Amount, BlockRef};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{is_missing, is_not_found};
use crate::endpoint::{CallResult, Endpoint};
use crate::rpc::RpcCall;

#[derive(Deserialize)]
struct BlockReceiptsRow {
    hash: B256,
    transactions: Vec<B256>,
}

/// The transaction and block of a receipt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptIdRow {
    transaction_hash: B256,
    block_hash: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptRow {
    transaction_hash: B256,
    block_number: U64,
    block_hash: B256,
    #[serde(default)]
    status: Option<U64>,
    gas_used: U64,
    #[serde(default)]
    effective_gas_price: Option<U256>,
}

impl From<ReceiptRow> for Receipt {
    fn from(row: ReceiptRow) -> Self {
        Receipt {
            hash: row.transaction_hash,
            block: BlockRef { number: row.block_number.to(), hash: row.block_hash },
            // Receipts before Byzantium have no status and do not show failures.
            succeeded: row.status.is_none_or(|status| !status.is_zero()),
            work_used: row.gas_used.to(),
            unit_price: Amount::new(row.effective_gas_price.unwrap_or_default()),
        }
    }
}

/// The wanted receipts of a block. They are read in one request where the endpoint supports it, else one by one. `None`
/// if the endpoint does not have the block or not all wanted receipts: an incomplete list, or one of another block, is
/// no answer.
pub(crate) async fn block_receipts(
    endpoint: &Endpoint,
    block: BlockRef,
    wanted: &Wanted<'_>,
) -> Result<Option<Vec<Receipt>>, Classified> {
    if !endpoint.capabilities().block_receipts {
        return receipts_one_by_one(endpoint, block, wanted).await;
    }
    let calls = [
        RpcCall::new("eth_getBlockReceipts", json!([block.hash])),
        RpcCall::new("eth_getBlockTransactionCountByHash", json!([block.hash])),
    ];
    let mut answers = endpoint.ask(&calls).await.into_iter();
    let (receipts, count) = (answers.next(), answers.next());
    let rows: Option<Vec<Box<RawValue>>> = match receipts.unwrap_or_else(|| Err(endpoint.unreadable(""))) {
        Ok(raw) => endpoint.read(&raw)?,
        Err(classified) if is_not_found(&classified) => return Ok(None),
        Err(classified) if is_missing(&classified) => {
            tracing::info!(
                endpoint = endpoint.name(),
                "endpoint has no eth_getBlockReceipts: receipts are read one by one"
            );
            endpoint.remove_capability(|capabilities| capabilities.block_receipts = false);
            return receipts_one_by_one(endpoint, block, wanted).await;
        }
        Err(classified) => return Err(classified),
    };
    let Some(rows) = rows else { return Ok(None) };
    let expected = match count.unwrap_or_else(|| Err(endpoint.unreadable(""))) {
        Ok(raw) => endpoint.read::<Option<U64>>(&raw)?.map(|count| count.to::<usize>()),
        Err(classified) if is_not_found(&classified) => None,
        // Without the count method the transactions of the block are counted.
        Err(classified) if is_missing(&classified) => transactions(endpoint, block).await?.map(|hashes| hashes.len()),
        Err(classified) => return Err(classified),
    };
    let Some(expected) = expected else { return Ok(None) };
    if expected == rows.len()
        && let Some(receipts) = wanted_receipts(&rows, block, wanted)
    {
        return Ok(receipts);
    }
    // Some chains have unreadable rows here, or a different number of receipts and transactions. The wanted receipts
    // may still be available.
    match receipts_one_by_one(endpoint, block, wanted).await {
        Ok(Some(receipts)) => {
            endpoint.remove_capability(|capabilities| capabilities.block_receipts = false);
            Ok(Some(receipts))
        }
        Err(classified) if is_missing(&classified) => Ok(None),
        other => other,
    }
}

/// The wanted receipts among those of a block, or `Some(None)` if one is of another block. `None` if a row that may be
/// wanted cannot be read. Other rows are foreign and need not be readable.
fn wanted_receipts(rows: &[Box<RawValue>], block: BlockRef, wanted: &Wanted<'_>) -> Option<Option<Vec<Receipt>>> {
    let mut receipts = Vec::new();
    for row in rows {
        let id: ReceiptIdRow = serde_json::from_str(row.get()).ok()?;
        if id.block_hash != block.hash {
            return Some(None);
        }
        if wanted(id.transaction_hash) {
            receipts.push(serde_json::from_str::<ReceiptRow>(row.get()).ok()?.into());
        }
    }
    Some(Some(receipts))
}

/// The hashes of a block's transactions.
async fn transactions(endpoint: &Endpoint, block: BlockRef) -> Result<Option<Vec<B256>>, Classified> {
    let call = RpcCall::new("eth_getBlockByHash", json!([block.hash, false]));
    let row: Option<BlockReceiptsRow> = match endpoint.ask_one(call).await {
        Err(classified) if is_not_found(&classified) => return Ok(None),
        answer => answer?,
    };
    Ok(row.filter(|row| row.hash == block.hash).map(|row| row.transactions))
}

async fn receipts_one_by_one(
    endpoint: &Endpoint,
    block: BlockRef,
    wanted: &Wanted<'_>,
) -> Result<Option<Vec<Receipt>>, Classified> {
    let Some(mut hashes) = transactions(endpoint, block).await? else { return Ok(None) };
    hashes.retain(|hash| wanted(*hash));
    let receipts: Vec<Option<Receipt>> = lookup(endpoint, &hashes).await.into_iter().collect::<Result<_, _>>()?;
    // A receipt that is missing, or was moved to another block meanwhile, makes the list incomplete.
    Ok(receipts.into_iter().map(|receipt| receipt.filter(|receipt| receipt.block.hash == block.hash)).collect())
}

/// Receipts by hash. A failed lookup does not affect the others (R02): its receipt is unknown, which proves nothing.
/// Only if all lookups failed, this fails.
pub(crate) async fn receipts(endpoint: &Endpoint, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, Classified> {
    let answers = lookup(endpoint, hashes).await;
    let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
    match failed.clone().next() {
        Some(failure) if failed.count() == answers.len() => Err(failure.clone()),
        _ => Ok(answers.into_iter().map(Result::unwrap_or_default).collect()),
    }
}

async fn lookup(endpoint: &Endpoint, hashes: &[B256]) -> Vec<Result<Option<Receipt>, Classified>> {
    let calls: Vec<RpcCall> = hashes.iter().map(by_hash).collect();
    let answers = endpoint.ask(&calls).await;
    let read = |(hash, answer): (&B256, CallResult)| {
        let row: Option<ReceiptRow> = match answer {
            Ok(raw) => endpoint.read(&raw)?,
            Err(classified) if is_not_found(&classified) => None,
            Err(classified) => return Err(classified),
        };
        Ok(row.filter(|row| row.transaction_hash == *hash).map(Receipt::from))
    };
    hashes.iter().zip(answers).map(read).collect()
}

pub(super) fn by_hash(hash: &B256) -> RpcCall {
    RpcCall::new("eth_getTransactionReceipt", json!([hash]))
}
