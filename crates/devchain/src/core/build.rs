//! Building of blocks.

use std::sync::Arc;

use alloy_consensus::constants::{EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH};
use alloy_consensus::proofs::{calculate_receipt_root, calculate_transaction_root};
use alloy_consensus::{Eip658Value, Header, ReceiptEnvelope, ReceiptWithBloom, TxType};
use alloy_eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{B64, B256, Bloom, Bytes, U256, keccak256, logs_bloom};
use alloy_rlp::Encodable;
use revm::context::result::ExecutionResult;

use super::{Core, PendingBlock};
use crate::block::{Block, Receipt};
use crate::execute::{BlockContext, Executor, Ledger};
use crate::genesis::Genesis;
use crate::state::{Account, StateAt, StateChanges};
use crate::tx::Tx;

/// The `extraData` of every block.
const EXTRA_DATA: &[u8] = b"gapless devchain";
/// The gas of the cheapest transaction. A block with less gas left is full.
const LEAST_TX_GAS: u64 = 21_000;

/// The inputs of a block.
#[derive(Debug)]
pub(super) struct BlockPlan {
    pub(super) timestamp: u64,
    pub(super) base_fee: u64,
    pub(super) txs: TxSource,
}

#[derive(Debug)]
pub(super) enum TxSource {
    /// The best transactions of the pool.
    Best,
    /// These transactions of the pool, in this order. Transactions that cannot be executed are left out.
    Listed(Vec<B256>),
}

impl Core {
    /// The base fee of the next block.
    pub(crate) fn next_base_fee(&self) -> u64 {
        let head = &self.blocks[self.blocks.len() - 1];
        self.next_base_fee.unwrap_or_else(|| base_fee_after(&head.header))
    }

    /// The block fields of a block on top of the head.
    pub(crate) fn next_context(&self, timestamp: u64, base_fee: u64) -> BlockContext {
        let parent = self.head();
        BlockContext {
            chain_id: self.genesis.chain_id,
            number: parent.number() + 1,
            timestamp,
            gas_limit: self.gas_limit,
            base_fee,
            coinbase: self.coinbase,
            prevrandao: self.prevrandao(parent.hash),
        }
    }

    /// The block that would be mined now.
    pub(crate) fn pending_block(&self) -> Option<Arc<Block>> {
        Some(self.pending().block.clone())
    }

    /// Reads the state after the pending block.
    pub(crate) fn with_pending_state<T>(&self, ask: impl FnOnce(&StateAt<'_>) -> T) -> T {
        let pending = self.pending();
        ask(&self.state.with(self.state.newest(), &pending.changes))
    }

    /// The pending block and its changes. Built on first use, and cached until the chain or the pool changes.
    pub(crate) fn pending(&self) -> Arc<PendingBlock> {
        if let Some(pending) = self.pending.borrow().as_ref() {
            return pending.clone();
        }
        let timestamp = self.now().max(self.head().timestamp() + 1);
        let (block, changes) =
            self.build(&BlockPlan { timestamp, base_fee: self.next_base_fee(), txs: TxSource::Best });
        let pending = Arc::new(PendingBlock { block: Arc::new(block), changes });
        self.pending.replace(Some(pending.clone()));
        pending
    }

    pub(super) fn build(&self, plan: &BlockPlan) -> (Block, StateChanges) {
        let context = self.next_context(plan.timestamp, plan.base_fee);
        let ledger = Ledger::on(&self.state, self.state.newest(), &self.blocks);
        let mut builder = BlockBuilder {
            executor: Executor::strict(ledger, context),
            base_fee: plan.base_fee,
            gas_left: context.gas_limit,
            gas_used: 0,
            log_count: 0,
            txs: Vec::new(),
            receipts: Vec::new(),
        };
        match &plan.txs {
            TxSource::Best => {
                let mut selection = self.pool.select(plan.base_fee);
                while let Some(tx) = selection.best() {
                    if builder.gas_left < LEAST_TX_GAS {
                        break;
                    }
                    // A transaction that does not fit or cannot be paid for only blocks the rest of its account.
                    match builder.put(tx) {
                        true => selection.pop_best(),
                        false => selection.skip_account(),
                    }
                }
            }
            TxSource::Listed(hashes) => {
                for tx in hashes.iter().filter_map(|hash| self.pool.get(*hash)) {
                    builder.put(tx.clone());
                }
            }
        }
        self.seal(context, builder)
    }

    fn seal(&self, context: BlockContext, builder: BlockBuilder<'_>) -> (Block, StateChanges) {
        let changes = builder.executor.into_changes();
        let (txs, receipts) = (builder.txs, builder.receipts);
        let envelopes: Vec<_> = txs.iter().map(|tx| &tx.envelope).collect();
        let sealed: Vec<_> = txs.iter().zip(&receipts).map(|(tx, receipt)| consensus_receipt(tx, receipt)).collect();
        let mut bloom = Bloom::ZERO;
        for receipt in &receipts {
            bloom.accrue_bloom(&receipt.bloom);
        }
        let header = Header {
            parent_hash: self.head().hash,
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: context.coinbase,
            state_root: changes.root(self.root),
            transactions_root: calculate_transaction_root(&envelopes),
            receipts_root: calculate_receipt_root(&sealed),
            logs_bloom: bloom,
            number: context.number,
            gas_limit: context.gas_limit,
            gas_used: builder.gas_used,
            timestamp: context.timestamp,
            mix_hash: context.prevrandao,
            ..header_of_no_block(context.base_fee)
        };
        (finish(header, txs, receipts), changes)
    }

    /// Pseudo-random for contracts, and different on every branch. Replacement blocks get other hashes by it.
    fn prevrandao(&self, parent: B256) -> B256 {
        let mut bytes = parent.to_vec();
        bytes.extend_from_slice(&self.genesis.seed.to_be_bytes());
        bytes.extend_from_slice(&self.branch.to_be_bytes());
        keccak256(bytes)
    }
}

/// A block under construction.
struct BlockBuilder<'a> {
    executor: Executor<'a>,
    base_fee: u64,
    gas_left: u64,
    gas_used: u64,
    log_count: u64,
    txs: Vec<Arc<Tx>>,
    receipts: Vec<Receipt>,
}

impl BlockBuilder<'_> {
    /// Executes a transaction and adds it to the block. False if it does not fit or cannot be executed.
    fn put(&mut self, tx: Arc<Tx>) -> bool {
        if tx.gas_limit() > self.gas_left {
            return false;
        }
        let Ok(result) = self.executor.execute(&tx) else { return false };
        let gas_used = result.tx_gas_used();
        self.gas_left -= gas_used;
        self.gas_used += gas_used;
        let success = result.is_success();
        let logs = match result {
            ExecutionResult::Success { logs, .. } => logs,
            ExecutionResult::Revert { .. } | ExecutionResult::Halt { .. } => Vec::new(),
        };
        let receipt = Receipt {
            success,
            gas_used,
            cumulative_gas_used: self.gas_used,
            effective_gas_price: u128::from(self.base_fee) + tx.effective_tip(self.base_fee).unwrap_or_default(),
            contract_address: tx.created_contract(),
            bloom: logs_bloom(&logs),
            first_log_index: self.log_count,
            logs,
        };
        self.log_count += receipt.logs.len() as u64;
        self.txs.push(tx);
        self.receipts.push(receipt);
        true
    }
}

/// The base fee of the block after this one (EIP-1559).
pub(crate) fn base_fee_after(header: &Header) -> u64 {
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    calc_next_block_base_fee(header.gas_used, header.gas_limit, base_fee, BaseFeeParams::ethereum())
}

/// Block 0 and the state in it.
pub(super) fn genesis_block(genesis: &Genesis) -> (Block, StateChanges) {
    let mut changes = StateChanges::default();
    for account in &genesis.accounts {
        let code_hash = keccak256(&account.code);
        if !account.code.is_empty() {
            changes.codes.insert(code_hash, account.code.clone());
        }
        let kept = Account { balance: account.balance, nonce: account.nonce, code_hash };
        changes.accounts.insert(account.address, Some(kept));
        for (slot, value) in &account.storage {
            changes.slots.insert((account.address, *slot), *value);
        }
    }
    let header = Header {
        state_root: changes.root(genesis.identity()),
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        beneficiary: genesis.coinbase,
        gas_limit: genesis.gas_limit,
        timestamp: genesis.timestamp,
        ..header_of_no_block(genesis.base_fee)
    };
    (finish(header, Vec::new(), Vec::new()), changes)
}

/// The fields that all headers share.
fn header_of_no_block(base_fee: u64) -> Header {
    Header {
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        difficulty: U256::ZERO,
        extra_data: Bytes::from_static(EXTRA_DATA),
        nonce: B64::ZERO,
        base_fee_per_gas: Some(base_fee),
        withdrawals_root: Some(EMPTY_ROOT_HASH),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        requests_hash: Some(EMPTY_REQUESTS_HASH),
        ..Header::default()
    }
}

/// Computes hash and size of a block from its valid parts.
pub(crate) fn finish(header: Header, txs: Vec<Arc<Tx>>, receipts: Vec<Receipt>) -> Block {
    let hash = header.hash_slow();
    let listed: usize = txs.iter().map(|tx| tx.envelope.network_len()).sum();
    // Ommers and withdrawals are empty lists of one byte each.
    let payload = header.length() + list_len(listed) + 2;
    Block { hash, size: list_len(payload) as u64, header, txs, receipts }
}

/// The length of an RLP list with a payload of this length.
fn list_len(payload: usize) -> usize {
    alloy_rlp::Header { list: true, payload_length: payload }.length_with_payload()
}

/// The receipt in the form that the receipts root covers.
fn consensus_receipt(tx: &Tx, receipt: &Receipt) -> ReceiptEnvelope {
    let inner = alloy_consensus::Receipt {
        status: Eip658Value::Eip658(receipt.success),
        cumulative_gas_used: receipt.cumulative_gas_used,
        logs: receipt.logs.clone(),
    };
    let with_bloom = ReceiptWithBloom { receipt: inner, logs_bloom: receipt.bloom };
    match tx.envelope.tx_type() {
        TxType::Legacy => ReceiptEnvelope::Legacy(with_bloom),
        TxType::Eip2930 => ReceiptEnvelope::Eip2930(with_bloom),
        TxType::Eip1559 => ReceiptEnvelope::Eip1559(with_bloom),
        TxType::Eip4844 => ReceiptEnvelope::Eip4844(with_bloom),
        TxType::Eip7702 => ReceiptEnvelope::Eip7702(with_bloom),
    }
}
