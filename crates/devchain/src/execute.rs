//! Execution of transactions. Only this module uses the EVM of revm.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use alloy_consensus::Transaction;
use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, U256};
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::context::{BlockEnv, CfgEnv, Context, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::context_interface::either::Either;
use revm::handler::{ExecuteEvm, MainBuilder, MainnetContext, MainnetEvm};
use revm::primitives::hardfork::SpecId;
use revm::state::{AccountInfo, Bytecode};
use revm::{Database, DatabaseCommit};

use crate::block::Block;
use crate::state::{Account, State, StateAt, StateChanges};
use crate::tx::Tx;

/// The hard fork whose rules apply.
const SPEC: SpecId = SpecId::PRAGUE;
/// The chain has no blobs, so the blob price stays at its minimum.
const NO_EXCESS_BLOB_GAS: u64 = 0;
const BLOB_BASE_FEE_UPDATE_FRACTION: u64 = 5_007_716;

/// The block fields that EVM code can read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockContext {
    pub(crate) chain_id: u64,
    pub(crate) number: u64,
    pub(crate) timestamp: u64,
    pub(crate) gas_limit: u64,
    pub(crate) base_fee: u64,
    pub(crate) coinbase: Address,
    pub(crate) prevrandao: B256,
}

/// A state for the execution of transactions: the state after a block, plus the changes of the transactions so far.
pub(crate) struct Ledger<'a> {
    state: &'a State,
    number: u64,
    blocks: &'a VecDeque<Arc<Block>>,
    changes: StateChanges,
}

impl<'a> Ledger<'a> {
    /// A ledger on top of the block `number`. `blocks` provides block hashes for EVM code.
    pub(crate) fn on(state: &'a State, number: u64, blocks: &'a VecDeque<Arc<Block>>) -> Self {
        Self { state, number, blocks, changes: StateChanges::default() }
    }

    /// Adds changes that belong to no block yet.
    pub(crate) fn with(mut self, changes: StateChanges) -> Self {
        self.changes = changes;
        self
    }

    fn now(&self) -> StateAt<'_> {
        self.state.with(self.number, &self.changes)
    }
}

impl Database for Ledger<'_> {
    type Error = Infallible;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.now().account(address).map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            // The code is loaded by hash, and only when it runs.
            code: if account.has_code() { None } else { Some(Bytecode::default()) },
            ..AccountInfo::default()
        }))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Infallible> {
        let code = self.now().code_by_hash(hash);
        // All stored code was created by the EVM or set by an edit. Edited code may not pass the check.
        Ok(Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code)))
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Infallible> {
        Ok(self.now().storage(address, slot))
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Infallible> {
        let oldest = self.blocks.front().map_or(0, |block| block.number());
        let index = number.checked_sub(oldest).and_then(|index| usize::try_from(index).ok());
        Ok(index.and_then(|index| self.blocks.get(index)).map(|block| block.hash).unwrap_or_default())
    }
}

impl DatabaseCommit for Ledger<'_> {
    fn commit(&mut self, changes: AddressMap<revm::state::Account>) {
        for (address, account) in changes {
            if !account.is_touched() {
                continue;
            }
            // Since Cancun a contract can only be destroyed in the transaction that created it, so no older storage
            // exists.
            if account.is_selfdestructed() || account.is_empty() {
                self.changes.accounts.insert(address, None);
                continue;
            }
            let info = account.info;
            if let Some(code) = info.code.filter(|code| !code.is_empty()) {
                self.changes.codes.entry(info.code_hash).or_insert_with(|| code.original_bytes());
            }
            let kept = Account { balance: info.balance, nonce: info.nonce, code_hash: info.code_hash };
            self.changes.accounts.insert(address, Some(kept));
            for (slot, value) in account.storage {
                if value.is_changed() {
                    self.changes.slots.insert((address, slot), value.present_value());
                }
            }
        }
    }
}

/// A transaction that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidExecution(pub(crate) InvalidTransaction);

/// Runs transactions within one block.
pub(crate) struct Executor<'a> {
    evm: MainnetEvm<MainnetContext<Ledger<'a>>>,
}

impl<'a> Executor<'a> {
    /// An executor for transactions of a block. All rules apply.
    pub(crate) fn strict(ledger: Ledger<'a>, block: BlockContext) -> Self {
        Self::new(ledger, block, |_| ())
    }

    /// An executor for calls. Calls may be free, come from contracts, and have any nonce.
    pub(crate) fn lenient(ledger: Ledger<'a>, block: BlockContext) -> Self {
        Self::new(ledger, block, |cfg| {
            cfg.disable_base_fee = true;
            cfg.disable_eip3607 = true;
            cfg.disable_nonce_check = true;
            cfg.disable_block_gas_limit = true;
        })
    }

    fn new(ledger: Ledger<'a>, block: BlockContext, relax: impl FnOnce(&mut CfgEnv)) -> Self {
        let mut cfg = CfgEnv::new_with_spec(SPEC);
        cfg.chain_id = block.chain_id;
        relax(&mut cfg);
        let blob_price = BlobExcessGasAndPrice::new(NO_EXCESS_BLOB_GAS, BLOB_BASE_FEE_UPDATE_FRACTION);
        let env = BlockEnv {
            number: U256::from(block.number),
            beneficiary: block.coinbase,
            timestamp: U256::from(block.timestamp),
            gas_limit: block.gas_limit,
            basefee: block.base_fee,
            difficulty: U256::ZERO,
            prevrandao: Some(block.prevrandao),
            blob_excess_gas_and_price: Some(blob_price),
            ..BlockEnv::default()
        };
        let context: MainnetContext<Ledger<'a>> = Context::new(ledger, SPEC);
        Self { evm: context.with_cfg(cfg).with_block(env).build_mainnet() }
    }

    /// Executes a transaction and keeps its changes.
    pub(crate) fn execute(&mut self, tx: &Tx) -> Result<ExecutionResult, InvalidExecution> {
        let done = self.evm.transact(tx_env(tx)).map_err(invalid)?;
        self.evm.ctx.journaled_state.database.commit(done.state);
        Ok(done.result)
    }

    /// Executes a transaction and discards its changes.
    pub(crate) fn attempt(&mut self, tx: TxEnv) -> Result<ExecutionResult, InvalidExecution> {
        self.evm.transact(tx).map(|done| done.result).map_err(invalid)
    }

    pub(crate) fn into_changes(self) -> StateChanges {
        self.evm.ctx.journaled_state.database.changes
    }
}

fn invalid(error: EVMError<Infallible>) -> InvalidExecution {
    match error {
        EVMError::Transaction(invalid) => InvalidExecution(invalid),
        EVMError::Database(never) => match never {},
        // The chain builds the header itself, so no transaction can make it invalid.
        other => InvalidExecution(InvalidTransaction::Str(other.to_string().into())),
    }
}

fn tx_env(tx: &Tx) -> TxEnv {
    let envelope = &tx.envelope;
    let authorizations = envelope.authorization_list().unwrap_or_default();
    TxEnv {
        tx_type: tx.ty(),
        caller: tx.from,
        gas_limit: tx.gas_limit(),
        gas_price: tx.fee_cap(),
        kind: envelope.kind(),
        value: envelope.value(),
        data: envelope.input().clone(),
        nonce: tx.nonce(),
        chain_id: envelope.chain_id(),
        access_list: envelope.access_list().cloned().unwrap_or_default(),
        gas_priority_fee: envelope.max_priority_fee_per_gas(),
        blob_hashes: Vec::new(),
        max_fee_per_blob_gas: 0,
        authorization_list: authorizations.iter().cloned().map(Either::Left).collect(),
    }
}
