//! A block of the null chain.

use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{B256, keccak256};

use super::render;
use super::tx::NullTx;

#[derive(Debug)]
pub(super) struct NullBlock {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) parent: B256,
    /// Time of creation, in µs since 1970. Latencies are measured from it; a block timestamp is only exact to a second.
    pub(super) made_at_micros: u64,
    pub(super) txs: Vec<NullTx>,
    pub(super) gas_used: u64,
    /// The JSON of all receipts. Cached from the first read until the block is old.
    receipts: Mutex<Option<Arc<str>>>,
}

impl NullBlock {
    pub(super) fn new(number: u64, parent: B256, made_at_micros: u64, txs: Vec<NullTx>) -> Self {
        let gas_used = txs.iter().map(|tx| tx.gas_used).sum();
        // The hash covers no transactions. It only has to be unique per block.
        let mut header = [0; 56];
        header[..32].copy_from_slice(parent.as_slice());
        header[32..40].copy_from_slice(&number.to_be_bytes());
        header[40..48].copy_from_slice(&made_at_micros.to_be_bytes());
        header[48..].copy_from_slice(&(txs.len() as u64).to_be_bytes());
        Self { number, hash: keccak256(header), parent, made_at_micros, txs, gas_used, receipts: Mutex::default() }
    }

    pub(super) fn timestamp(&self) -> u64 {
        self.made_at_micros / 1_000_000
    }

    pub(super) fn receipts(&self) -> Arc<str> {
        let mut kept = self.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| render::receipts(self).into()).clone()
    }

    /// Drops the cached receipts. A later read renders them again.
    pub(super) fn forget_receipts(&self) {
        *self.receipts.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Length of all transactions in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.txs.iter().map(|tx| tx.raw.len()).sum()
    }
}
