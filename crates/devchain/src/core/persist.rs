//! Restoring the chain from a snapshot and a journal.

use std::sync::Arc;

use alloy_primitives::{Address, B256};

use super::build::TxSource;
use super::op::{Op, SentTx};
use super::{Core, DelayedSend};
use crate::block::Block;
use crate::error::ChainError;
use crate::genesis::Genesis;
use crate::journal::Journal;
use crate::state::State;
use crate::tx::Tx;

/// The content of a snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotContent {
    pub(crate) state: State,
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) pool: Vec<Arc<Tx>>,
    pub(crate) delayed: Vec<DelayedSend>,
    pub(crate) root: B256,
    pub(crate) branch: u64,
    pub(crate) gas_limit: u64,
    pub(crate) coinbase: Address,
}

impl Core {
    /// Creates a chain in replay mode, which applies recorded operations without checks.
    pub(crate) fn replaying(genesis: Genesis, restored: Option<SnapshotContent>) -> Self {
        let mut core = Self::new(genesis);
        core.pool.set_replaying(true);
        let Some(restored) = restored else { return core };
        core.state = restored.state;
        core.root = restored.root;
        core.branch = restored.branch;
        core.gas_limit = restored.gas_limit;
        core.coinbase = restored.coinbase;
        core.delayed = restored.delayed;
        core.by_hash = restored.blocks.iter().map(|block| (block.hash, block.clone())).collect();
        for block in &restored.blocks {
            for (index, tx) in block.txs.iter().enumerate() {
                core.mined.insert(tx.hash, (block.number(), index));
            }
        }
        core.blocks = restored.blocks.into();
        core.tags.follow(core.head().number());
        for tx in restored.pool {
            let (pool, context) = core.pool_and_head_context();
            pool.replay(tx, context);
        }
        core
    }

    /// Ends the replay mode. From now on the chain checks and records its operations.
    pub(crate) fn start_recording(mut self, journal: Journal) -> Self {
        self.pool.set_replaying(false);
        self.clock = self.head().timestamp();
        self.journal = Some(journal);
        self
    }

    /// Applies a recorded operation again.
    pub(crate) fn replay(&mut self, op: Op) -> Result<(), ChainError> {
        match op {
            Op::Send(tx) => {
                let tx = known(&tx)?;
                let (pool, context) = self.pool_and_head_context();
                pool.replay(tx, context);
            }
            Op::Delay { until, tx } => self.delayed.push(DelayedSend { until, tx: known(&tx)? }),
            Op::Release(hash) => self.delayed.retain(|delayed| delayed.tx.hash != hash),
            Op::Drop(hash) => drop(self.pool.remove(hash)),
            Op::DropAll => drop(self.pool.clear()),
            Op::Mine(mined) => {
                let (block, _) = self.produce(mined.timestamp, Some(mined.base_fee), TxSource::Listed(mined.txs));
                if block.hash != mined.hash {
                    let (number, recorded, computed) = (block.number(), mined.hash, block.hash);
                    return Err(ChainError::NotReproducible { number, recorded, computed });
                }
            }
            Op::Rewind { depth, to_pool } => drop(self.rewind(depth, to_pool)),
            Op::Edit(edit) => drop(self.apply_edit(&edit)),
            Op::SetGasLimit(gas_limit) => self.gas_limit = gas_limit,
            Op::SetCoinbase(coinbase) => self.coinbase = coinbase,
            Op::Reset => {
                self.apply_reset();
                self.pool.set_replaying(true);
            }
        }
        Ok(())
    }

    pub(super) fn snapshot_if_due(&mut self) -> Result<(), ChainError> {
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        let result = journal.snapshot_if_due(self);
        self.journal = Some(journal);
        if let Err(error) = &result {
            self.journal_error = Some(error.to_string());
        }
        result
    }

    pub(crate) fn pool_by_arrival(&self) -> Vec<Arc<Tx>> {
        self.pool.by_arrival()
    }

    pub(crate) fn delayed(&self) -> &[DelayedSend] {
        &self.delayed
    }

    pub(crate) fn root(&self) -> B256 {
        self.root
    }

    pub(crate) fn branch(&self) -> u64 {
        self.branch
    }

    pub(crate) fn gas_limit(&self) -> u64 {
        self.gas_limit
    }

    pub(crate) fn coinbase(&self) -> Address {
        self.coinbase
    }
}

fn known(tx: &SentTx) -> Result<Arc<Tx>, ChainError> {
    Ok(Arc::new(Tx::decode_known(&tx.raw, tx.from)?))
}
