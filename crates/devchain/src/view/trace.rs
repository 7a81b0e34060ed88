//! Traces of mined transactions, by executing them again.

use alloy_consensus::Transaction;
use alloy_primitives::B256;
use revm::context::result::ExecutionResult;

use super::ChainRead;
use super::call::{block_context, halt_text};
use super::revert_reason::revert_reason;
use crate::error::ReadError;
use crate::execute::Executor;
use crate::query::TopCall;
use crate::tx::Tx;

const REVERTED: &str = "execution reverted";

/// Executes the transactions of the block up to this one again, on the state before the block. The result is the same
/// as when the block was built.
pub(super) fn top_call(read: &ChainRead<'_>, hash: B256) -> Result<TopCall, ReadError> {
    let mined = read.mined(hash).ok_or(ReadError::UnknownTx)?;
    let parent = mined.block.number().checked_sub(1).filter(|parent| *parent >= read.core.oldest());
    let ledger = read.ledger(parent.ok_or(ReadError::NoStateToTrace)?);
    let mut executor = Executor::strict(ledger, block_context(read, &mined.block));
    let mut last = None;
    for tx in mined.block.txs.iter().take(mined.index + 1) {
        // The transaction is in a block, so its execution is possible.
        let result = executor.execute(tx).map_err(|_| ReadError::NoStateToTrace)?;
        last = Some((tx, result));
    }
    last.map(|(tx, result)| shown(tx, result)).ok_or(ReadError::UnknownTx)
}

fn shown(tx: &Tx, result: ExecutionResult) -> TopCall {
    let gas_used = result.tx_gas_used();
    let (output, error, revert_reason) = match result {
        ExecutionResult::Success { output, .. } => (output.into_data(), None, None),
        ExecutionResult::Revert { output, .. } => {
            let reason = revert_reason(&output);
            (output, Some(REVERTED.to_owned()), reason)
        }
        ExecutionResult::Halt { reason, .. } => (Default::default(), Some(halt_text(&reason)), None),
    };
    let made = tx.created_contract().filter(|_| error.is_none());
    TopCall {
        from: tx.from,
        to: tx.envelope.to().or(made),
        creates: tx.envelope.is_create(),
        value: tx.envelope.value(),
        gas: tx.gas_limit(),
        gas_used,
        input: tx.envelope.input().clone(),
        output,
        error,
        revert_reason,
    }
}
