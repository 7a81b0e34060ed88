//! Receipts, of a block or by hash.

use alloy_primitives::{Address, B256, U64, U256};
use gapless_chain::{Classified, Receipt, Wanted};
use gapless_domain::{Amount, BlockRef};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{is_missing, says_not_found};
use crate::endpoint::{Answer, Endpoint};
use crate::rpc::Call;

#[derive(Deserialize)]
struct BlockRow {
    hash: B256,
    transactions: Vec<B256>,
}

/// Which receipt it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NameRow {
    transaction_hash: B256,
    block_hash: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptRow {
    transaction_hash: B256,
    block_number: U64,
    block_hash: B256,
    from: Address,
    #[serde(default)]
    status: Option<U64>,
    gas_used: U64,
    #[serde(default)]
    effective_gas_price: Option<U256>,
    #[serde(default)]
    contract_address: Option<Address>,
}

impl From<ReceiptRow> for Receipt {
    fn from(row: ReceiptRow) -> Self {
        Receipt {
            hash: row.transaction_hash,
            block: BlockRef { number: row.block_number.to(), hash: row.block_hash },
            from: row.from,
            // Before Byzantium there was no status, and nothing that says that a call failed.
            succeeded: row.status.is_none_or(|status| !status.is_zero()),
            gas_used: row.gas_used.to(),
            effective_gas_price: Amount::new(row.effective_gas_price.unwrap_or_default()),
            contract_address: row.contract_address,
        }
    }
}

/// The receipts of a block, by its hash: all in one request where the endpoint can, else those that are wanted. `None` when
/// the endpoint does not know the block, or does not have all of these receipts: what is not whole, or of another block, is no
/// answer.
pub(crate) async fn block_receipts(
    endpoint: &Endpoint,
    block: BlockRef,
    wanted: &Wanted<'_>,
) -> Result<Option<Vec<Receipt>>, Classified> {
    if !endpoint.skills().block_receipts {
        return receipts_one_by_one(endpoint, block, wanted).await;
    }
    let calls = [
        Call::new("eth_getBlockReceipts", json!([block.hash])),
        Call::new("eth_getBlockTransactionCountByHash", json!([block.hash])),
    ];
    let mut answers = endpoint.ask(&calls).await.into_iter();
    let (receipts, count) = (answers.next(), answers.next());
    let rows: Option<Vec<Box<RawValue>>> = match receipts.unwrap_or_else(|| Err(endpoint.unreadable(""))) {
        Ok(raw) => endpoint.read(&raw)?,
        Err(classified) if says_not_found(&classified) => return Ok(None),
        Err(classified) if is_missing(&classified) => {
            tracing::info!(
                endpoint = endpoint.name(),
                "no eth_getBlockReceipts here: receipts are asked for one by one"
            );
            endpoint.unlearn(|skills| skills.block_receipts = false);
            return receipts_one_by_one(endpoint, block, wanted).await;
        }
        Err(classified) => return Err(classified),
    };
    let Some(rows) = rows else { return Ok(None) };
    let expected = match count.unwrap_or_else(|| Err(endpoint.unreadable(""))) {
        Ok(raw) => endpoint.read::<Option<U64>>(&raw)?.map(|count| count.to::<usize>()),
        Err(classified) if says_not_found(&classified) => None,
        // A node that cannot count can still say what is in the block.
        Err(classified) if is_missing(&classified) => transactions(endpoint, block).await?.map(|hashes| hashes.len()),
        Err(classified) => return Err(classified),
    };
    let Some(expected) = expected else { return Ok(None) };
    if expected == rows.len()
        && let Some(receipts) = of_rows(&rows, block, wanted)
    {
        return Ok(receipts);
    }
    // Some chains have rows of a kind of their own here, or do not count the same on both sides. What is wanted may be had
    // all the same.
    match receipts_one_by_one(endpoint, block, wanted).await {
        Ok(Some(receipts)) => {
            endpoint.unlearn(|skills| skills.block_receipts = false);
            Ok(Some(receipts))
        }
        Err(classified) if is_missing(&classified) => Ok(None),
        other => other,
    }
}

/// The wanted ones of a block's receipts; no receipts if some are of another block. `None` if a row cannot be read that is wanted
/// or may be: the others are strangers' and need not make sense.
fn of_rows(rows: &[Box<RawValue>], block: BlockRef, wanted: &Wanted<'_>) -> Option<Option<Vec<Receipt>>> {
    let mut receipts = Vec::new();
    for row in rows {
        let named: NameRow = serde_json::from_str(row.get()).ok()?;
        if named.block_hash != block.hash {
            return Some(None);
        }
        if wanted(named.transaction_hash) {
            receipts.push(serde_json::from_str::<ReceiptRow>(row.get()).ok()?.into());
        }
    }
    Some(Some(receipts))
}

/// The hashes of a block's transactions.
async fn transactions(endpoint: &Endpoint, block: BlockRef) -> Result<Option<Vec<B256>>, Classified> {
    let call = Call::new("eth_getBlockByHash", json!([block.hash, false]));
    let row: Option<BlockRow> = match endpoint.ask_one(call).await {
        Err(classified) if says_not_found(&classified) => return Ok(None),
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
    let receipts: Vec<Option<Receipt>> = each(endpoint, &hashes).await.into_iter().collect::<Result<_, _>>()?;
    // A receipt that is missing, or that moved to another block meanwhile, leaves a hole.
    Ok(receipts.into_iter().map(|receipt| receipt.filter(|receipt| receipt.block.hash == block.hash)).collect())
}

/// Receipts by hash. One that cannot be had hides no other (R02): it is not known, which proves nothing. Only if none could be
/// asked for, this fails.
pub(crate) async fn receipts(endpoint: &Endpoint, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, Classified> {
    let answers = each(endpoint, hashes).await;
    let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
    match failed.clone().next() {
        Some(failure) if failed.count() == answers.len() => Err(failure.clone()),
        _ => Ok(answers.into_iter().map(Result::unwrap_or_default).collect()),
    }
}

async fn each(endpoint: &Endpoint, hashes: &[B256]) -> Vec<Result<Option<Receipt>, Classified>> {
    let calls: Vec<Call> = hashes.iter().map(by_hash).collect();
    let answers = endpoint.ask(&calls).await;
    let read = |(hash, answer): (&B256, Answer)| {
        let row: Option<ReceiptRow> = match answer {
            Ok(raw) => endpoint.read(&raw)?,
            Err(classified) if says_not_found(&classified) => None,
            Err(classified) => return Err(classified),
        };
        Ok(row.filter(|row| row.transaction_hash == *hash).map(Receipt::from))
    };
    hashes.iter().zip(answers).map(read).collect()
}

pub(super) fn by_hash(hash: &B256) -> Call {
    Call::new("eth_getTransactionReceipt", json!([hash]))
}
