//! Conversion of the chain's types to the JSON that clients expect.

use alloy_consensus::transaction::Recovered;
use alloy_consensus::{Eip658Value, Receipt as ConsensusReceipt, ReceiptEnvelope, ReceiptWithBloom, TxType};
use alloy_primitives::{TxKind, U256};
use alloy_rpc_types_eth::{
    Block as RpcBlock, BlockTransactions, FeeHistory as RpcFeeHistory, Header, Log as RpcLog, Transaction,
    TransactionReceipt, Withdrawals,
};
use serde_json::Value;

use crate::block::{Block, LogEntry, MinedPosition};
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::query::{FeeHistory, FoundTx};
use crate::tx::{Envelope, Tx};

/// Fields that are `null` in the pending block.
const UNKNOWN_WHILE_PENDING: [&str; 3] = ["hash", "nonce", "miner"];

/// A header in the form of `newHeads`.
pub(crate) fn header(block: &Block) -> Header {
    Header { hash: block.hash, inner: block.header.clone(), total_difficulty: None, size: None }
}

pub(crate) fn block(block: &Block, full: bool) -> RpcBlock<Transaction<Envelope>> {
    let transactions = if full {
        BlockTransactions::Full((0..block.txs.len()).filter_map(|index| mined_transaction(block, index)).collect())
    } else {
        BlockTransactions::Hashes(block.txs.iter().map(|tx| tx.hash).collect())
    };
    RpcBlock {
        header: Header { size: Some(U256::from(block.size)), ..header(block) },
        uncles: Vec::new(),
        transactions,
        withdrawals: block.header.withdrawals_root.map(|_| Withdrawals::default()),
    }
}

/// The pending block. It has no hash, and its transactions have no block.
pub(crate) fn pending_block(block: &Block, full: bool) -> Result<Value, RpcError> {
    let mut shape = self::block(block, false);
    if full {
        shape.transactions =
            BlockTransactions::Full(block.txs.iter().map(|tx| pooled_transaction(tx)).collect::<Vec<_>>());
    }
    let mut value = serde_json::to_value(shape).map_err(|error| RpcError::new(SERVER_ERROR_CODE, error.to_string()))?;
    for field in UNKNOWN_WHILE_PENDING {
        value[field] = Value::Null;
    }
    Ok(value)
}

pub(crate) fn transaction(found: &FoundTx) -> Transaction<Envelope> {
    match &found.mined {
        Some(mined) => mined_transaction(&mined.block, mined.index),
        None => None,
    }
    .unwrap_or_else(|| pooled_transaction(&found.tx))
}

/// A transaction of the pool. As in geth, its gas price is its fee cap.
pub(crate) fn pooled_transaction(tx: &Tx) -> Transaction<Envelope> {
    Transaction {
        inner: Recovered::new_unchecked(tx.envelope.clone(), tx.from),
        block_hash: None,
        block_number: None,
        transaction_index: None,
        effective_gas_price: Some(tx.fee_cap()),
        block_timestamp: None,
    }
}

fn mined_transaction(block: &Block, index: usize) -> Option<Transaction<Envelope>> {
    let tx = block.txs.get(index)?;
    Some(Transaction {
        inner: Recovered::new_unchecked(tx.envelope.clone(), tx.from),
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        transaction_index: Some(index as u64),
        effective_gas_price: block.receipts.get(index).map(|receipt| receipt.effective_gas_price),
        block_timestamp: None,
    })
}

/// All receipts of a block, in the order of its transactions.
pub(crate) fn receipts(block: &std::sync::Arc<Block>) -> Vec<TransactionReceipt> {
    let mined = (0..block.txs.len()).map(|index| MinedPosition { block: block.clone(), index });
    mined.filter_map(|mined| receipt(&mined)).collect()
}

pub(crate) fn receipt(mined: &MinedPosition) -> Option<TransactionReceipt> {
    let (tx, receipt, block) = (mined.tx()?, mined.receipt()?, &mined.block);
    let logs = receipt.logs.iter().zip(receipt.first_log_index..).map(|(inner, log_index)| RpcLog {
        inner: inner.clone(),
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        block_timestamp: Some(block.timestamp()),
        transaction_hash: Some(tx.hash),
        transaction_index: Some(mined.index as u64),
        log_index: Some(log_index),
        removed: false,
    });
    let inner = ReceiptWithBloom {
        receipt: ConsensusReceipt {
            status: Eip658Value::Eip658(receipt.success),
            cumulative_gas_used: receipt.cumulative_gas_used,
            logs: logs.collect(),
        },
        logs_bloom: receipt.bloom,
    };
    Some(TransactionReceipt {
        inner: ReceiptEnvelope::from_typed(TxType::try_from(tx.ty()).ok()?, inner),
        transaction_hash: tx.hash,
        transaction_index: Some(mined.index as u64),
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        gas_used: receipt.gas_used,
        effective_gas_price: receipt.effective_gas_price,
        blob_gas_used: None,
        blob_gas_price: None,
        from: tx.from,
        to: match alloy_consensus::Transaction::kind(&tx.envelope) {
            TxKind::Call(to) => Some(to),
            TxKind::Create => None,
        },
        contract_address: receipt.contract_address,
    })
}

pub(crate) fn log(entry: LogEntry) -> RpcLog {
    RpcLog {
        inner: entry.log,
        block_hash: Some(entry.block_hash),
        block_number: Some(entry.block_number),
        block_timestamp: Some(entry.block_timestamp),
        transaction_hash: Some(entry.tx_hash),
        transaction_index: Some(entry.tx_index),
        log_index: Some(entry.log_index),
        removed: entry.removed,
    }
}

pub(crate) fn fee_history(history: FeeHistory) -> RpcFeeHistory {
    let blocks = history.gas_used_ratio.len();
    // The chain has no blobs, so the blob fee is the minimum and no blob gas is used.
    let base_fee_per_blob_gas = if blocks == 0 { Vec::new() } else { vec![1; blocks + 1] };
    RpcFeeHistory {
        base_fee_per_gas: history.base_fee_per_gas,
        gas_used_ratio: history.gas_used_ratio,
        base_fee_per_blob_gas,
        blob_gas_used_ratio: vec![0.0; blocks],
        oldest_block: history.oldest_block,
        reward: Some(history.reward).filter(|reward| !reward.is_empty()),
    }
}
