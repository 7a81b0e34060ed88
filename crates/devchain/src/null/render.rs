//! JSON of blocks and receipts, written by hand because the null chain spends most of its time here.

use std::fmt::Write as _;

use alloy_consensus::constants::EMPTY_ROOT_HASH;
use alloy_consensus::transaction::Recovered;
use alloy_eips::eip2718::Decodable2718 as _;
use alloy_primitives::{Address, B256, hex};
use alloy_rpc_types_eth::Transaction;

use super::block::NullBlock;
use super::core::LocatedTx;
use super::tx::{BASE_FEE, NullTx};
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::tx::Envelope;

/// More than all transactions of a block together use.
pub(super) const GAS_LIMIT: u64 = 120_000_000_000;
/// A bloom filter without logs. Clients ignore it, but must parse it, as with a real node.
const NO_BLOOM: &str = concat!(
    "0x",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
);
/// Approximate length of one receipt.
const RECEIPT_BYTES: usize = 1_100;

pub(super) fn quantity(number: u64) -> String {
    format!("{number:#x}")
}

/// Writes a number as a JSON-RPC quantity, with quotes.
pub(super) fn push_quantity(out: &mut String, number: impl std::fmt::LowerHex) {
    // Writing to a string does not fail.
    let _ = write!(out, "\"{number:#x}\"");
}

pub(super) fn push_hash(out: &mut String, hash: &B256) {
    out.push('"');
    out.push_str(hex::Buffer::<32, true>::new().format(hash));
    out.push('"');
}

fn push_address(out: &mut String, address: &Address) {
    out.push('"');
    out.push_str(hex::Buffer::<20, true>::new().format(address));
    out.push('"');
}

/// All receipts of a block, as a JSON array.
pub(super) fn receipts(block: &NullBlock) -> String {
    let mut out = String::with_capacity(block.txs.len() * RECEIPT_BYTES + 2);
    let prefix = receipt_prefix(block);
    let mut gas_used = 0;
    out.push('[');
    for (index, tx) in block.txs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        gas_used += tx.gas_used;
        push_receipt(&mut out, &prefix, tx, index, gas_used);
    }
    out.push(']');
    out
}

pub(super) fn receipt(out: &mut String, block: &NullBlock, index: usize) {
    let Some(tx) = block.txs.get(index) else { return out.push_str("null") };
    let gas_used = block.txs.iter().take(index + 1).map(|tx| tx.gas_used).sum();
    push_receipt(out, &receipt_prefix(block), tx, index, gas_used);
}

/// The beginning of a receipt, which all receipts of a block share.
fn receipt_prefix(block: &NullBlock) -> String {
    let mut prefix = String::from("{\"blockHash\":");
    push_hash(&mut prefix, &block.hash);
    prefix.push_str(",\"blockNumber\":");
    push_quantity(&mut prefix, block.number);
    prefix.push_str(",\"contractAddress\":null,\"logs\":[],\"logsBloom\":\"");
    prefix.push_str(NO_BLOOM);
    prefix.push_str("\",\"status\":\"0x1\",\"transactionHash\":");
    prefix
}

fn push_receipt(out: &mut String, prefix: &str, tx: &NullTx, index: usize, cumulative_gas: u64) {
    out.push_str(prefix);
    push_hash(out, &tx.hash);
    out.push_str(",\"transactionIndex\":");
    push_quantity(out, index);
    out.push_str(",\"from\":");
    push_address(out, &tx.from);
    out.push_str(",\"to\":");
    push_address(out, &tx.from);
    out.push_str(",\"gasUsed\":");
    push_quantity(out, tx.gas_used);
    out.push_str(",\"cumulativeGasUsed\":");
    push_quantity(out, cumulative_gas);
    out.push_str(",\"effectiveGasPrice\":");
    push_quantity(out, tx.gas_price());
    out.push_str(",\"type\":");
    push_quantity(out, tx.ty);
    out.push('}');
}

/// Writes a block with the hashes of its transactions, or with full transactions.
pub(super) fn block(out: &mut String, block: &NullBlock, full: bool) -> Result<(), RpcError> {
    push_header(out, block);
    out.push_str(",\"size\":\"0x0\",\"uncles\":[],\"withdrawals\":[],\"transactions\":[");
    for (index, tx) in block.txs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if full {
            push_transaction(out, &tx.raw, tx.from, Some((block, index)))?;
        } else {
            push_hash(out, &tx.hash);
        }
    }
    out.push_str("]}");
    Ok(())
}

/// The notification of a new head.
pub(super) fn new_head(subscription: u64, block: &NullBlock) -> String {
    let mut out = String::from(r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"#);
    push_quantity(&mut out, subscription);
    out.push_str(",\"result\":");
    push_header(&mut out, block);
    out.push_str("}}}");
    out
}

/// Writes the header fields of an object and leaves the object open. `madeAtMicros` is an extension for measurements:
/// the time from which on a client can know the block.
fn push_header(out: &mut String, block: &NullBlock) {
    let has_txs = !block.txs.is_empty();
    out.push_str("{\"hash\":");
    push_hash(out, &block.hash);
    out.push_str(",\"parentHash\":");
    push_hash(out, &block.parent);
    out.push_str(",\"number\":");
    push_quantity(out, block.number);
    out.push_str(",\"timestamp\":");
    push_quantity(out, block.timestamp());
    out.push_str(",\"madeAtMicros\":");
    let _ = write!(out, "{}", block.made_at_micros);
    out.push_str(",\"gasUsed\":");
    push_quantity(out, block.gas_used);
    out.push_str(",\"gasLimit\":");
    push_quantity(out, GAS_LIMIT);
    out.push_str(",\"baseFeePerGas\":");
    push_quantity(out, BASE_FEE);
    // The chain has no tries. A block without transactions has the empty root; any other block has some other root.
    for name in ["transactionsRoot", "receiptsRoot"] {
        let _ = write!(out, ",\"{name}\":");
        push_hash(out, if has_txs { &block.hash } else { &EMPTY_ROOT_HASH });
    }
    for name in ["stateRoot", "mixHash", "sha3Uncles"] {
        let _ = write!(out, ",\"{name}\":");
        push_hash(out, &B256::ZERO);
    }
    out.push_str(",\"miner\":");
    push_address(out, &Address::ZERO);
    out.push_str(",\"difficulty\":\"0x0\",\"extraData\":\"0x\",\"nonce\":\"0x0000000000000000\",\"logsBloom\":\"");
    out.push_str(NO_BLOOM);
    out.push('"');
}

pub(super) fn transaction(out: &mut String, found: &LocatedTx) -> Result<(), RpcError> {
    match found {
        LocatedTx::Waiting { raw, from } => push_transaction(out, raw, *from, None),
        LocatedTx::Mined { block, index } => match block.txs.get(*index) {
            Some(tx) => push_transaction(out, &tx.raw, tx.from, Some((block, *index))),
            None => {
                out.push_str("null");
                Ok(())
            }
        },
    }
}

/// Writes a full transaction. Rarely used, so alloy's serialisation is fast enough.
fn push_transaction(
    out: &mut String,
    mut raw: &[u8],
    from: Address,
    mined: Option<(&NullBlock, usize)>,
) -> Result<(), RpcError> {
    let broken = |error: String| RpcError::new(SERVER_ERROR_CODE, error);
    // The send only decoded the fields that a block needs.
    let envelope = Envelope::decode_2718(&mut raw).map_err(|error| broken(error.to_string()))?;
    let price = mined.and_then(|(block, index)| block.txs.get(index)).map(NullTx::gas_price);
    let shown = Transaction {
        inner: Recovered::new_unchecked(envelope, from),
        block_hash: mined.map(|(block, _)| block.hash),
        block_number: mined.map(|(block, _)| block.number),
        transaction_index: mined.map(|(_, index)| index as u64),
        effective_gas_price: price,
        block_timestamp: None,
    };
    out.push_str(&serde_json::to_string(&shown).map_err(|error| broken(error.to_string()))?);
    Ok(())
}
