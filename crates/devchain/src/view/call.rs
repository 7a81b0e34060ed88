//! Calls and gas estimates, as in geth.

use alloy_primitives::{Address, Bytes, TxKind, U256};
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, HaltReason, InvalidTransaction};
use revm::context_interface::either::Either;

use super::ChainRead;
use super::revert_reason::revert_reason;
use crate::block::Block;
use crate::error::{CallError, ReadError};
use crate::execute::{BlockContext, Executor, InvalidExecution, Ledger};
use crate::query::{BlockSelector, CallRequest};

const PLAIN_TRANSFER_GAS: u64 = 21_000;
/// The free gas that the EVM adds to a call with value.
const CALL_STIPEND: u64 = 2_300;
/// Allowed error of an estimate in thousandths, as in geth.
const ESTIMATE_ERROR_PERMILLE: u64 = 15;

pub(super) fn call(read: &ChainRead<'_>, request: &CallRequest, at: BlockSelector) -> Result<Bytes, CallError> {
    let mut prepared = PreparedCall::new(read, request, at)?;
    let gas = request.gas.unwrap_or(u64::MAX).min(read.core.limits().call_gas);
    prepared.check_fee_cap()?;
    match prepared.run(gas) {
        Ok(ExecutionResult::Success { output, .. }) => Ok(output.into_data()),
        Ok(ExecutionResult::Revert { output, .. }) => Err(reverted(output)),
        Ok(ExecutionResult::Halt { reason, .. }) => Err(CallError::Halted(halt_text(&reason))),
        Err(invalid) => {
            Err(CallError::Refused(format!("err: {} (supplied gas {gas})", invalid_text(&invalid, prepared.from))))
        }
    }
}

pub(super) fn estimate_gas(read: &ChainRead<'_>, request: &CallRequest, at: BlockSelector) -> Result<u64, CallError> {
    let mut prepared = PreparedCall::new(read, request, at)?;
    prepared.check_fee_cap()?;
    let mut high = match request.gas {
        Some(gas) if gas >= PLAIN_TRANSFER_GAS => gas,
        _ => prepared.context.gas_limit,
    };
    if prepared.fee_cap != 0 {
        let balance = read.with_state(at, |state| state.account(prepared.from).unwrap_or_default().balance)?;
        if request.value >= balance {
            return Err(CallError::InsufficientFundsForTransfer);
        }
        let available = balance.saturating_sub(request.value);
        let affordable = available / U256::from(prepared.fee_cap);
        high = high.min(u64::try_from(affordable).unwrap_or(u64::MAX));
    }
    high = high.min(read.core.limits().call_gas);
    let is_plain = match request.to {
        Some(to) if request.data.is_empty() => read.with_state(at, |state| state.code(to).is_empty())?,
        _ => false,
    };
    // An error here is ignored: the run with the full gas fails too, and geth reports that error.
    if is_plain && matches!(prepared.succeeds(PLAIN_TRANSFER_GAS), Ok(Some(()))) {
        return Ok(PLAIN_TRANSFER_GAS);
    }
    let (used, refunded) = match prepared.run(high) {
        Ok(ExecutionResult::Success { gas, .. }) => (gas.tx_gas_used(), gas.inner_refunded()),
        Ok(ExecutionResult::Revert { output, .. }) => return Err(reverted(output)),
        Ok(ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. }) => {
            return Err(CallError::GasAllowance { allowance: high });
        }
        Ok(ExecutionResult::Halt { reason, .. }) => return Err(CallError::Halted(halt_text(&reason))),
        Err(invalid) if is_too_little_gas(&invalid) => return Err(CallError::GasAllowance { allowance: high }),
        Err(invalid) => return Err(prepared.refused(high, &invalid)),
    };
    prepared.search(used, refunded, high)
}

/// A prepared call that can run with any gas limit.
struct PreparedCall<'a> {
    executor: Executor<'a>,
    context: BlockContext,
    from: Address,
    fee_cap: u128,
    tx: TxEnv,
}

impl<'a> PreparedCall<'a> {
    fn new(read: &'a ChainRead<'_>, request: &CallRequest, at: BlockSelector) -> Result<Self, CallError> {
        let is_dynamic = request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
        if request.gas_price.is_some() && is_dynamic {
            return Err(CallError::TwoKindsOfFees);
        }
        let fee_cap = request.gas_price.or(request.max_fee_per_gas).unwrap_or_default();
        let mut context = context(read, at)?;
        if fee_cap == 0 {
            // A call without a fee sees a base fee of 0.
            context.base_fee = 0;
        }
        let from = request.from.unwrap_or_default();
        Ok(Self {
            executor: Executor::lenient(ledger(read, at)?, context),
            context,
            from,
            fee_cap,
            tx: tx_env(request, from, fee_cap, is_dynamic),
        })
    }

    fn check_fee_cap(&self) -> Result<(), CallError> {
        if self.fee_cap == 0 || self.fee_cap >= u128::from(self.context.base_fee) {
            return Ok(());
        }
        let (from, fee_cap, base_fee) = (self.from, self.fee_cap, self.context.base_fee);
        let why = format!("address {from}, maxFeePerGas: {fee_cap}, baseFee: {base_fee}");
        Err(CallError::Refused(format!("err: max fee per gas less than block base fee: {why}")))
    }

    fn run(&mut self, gas: u64) -> Result<ExecutionResult, InvalidExecution> {
        self.executor.attempt(TxEnv { gas_limit: gas, ..self.tx.clone() })
    }

    /// `None` if the call fails with this gas.
    fn succeeds(&mut self, gas: u64) -> Result<Option<()>, CallError> {
        match self.run(gas) {
            Ok(result) => Ok(result.is_success().then_some(())),
            Err(invalid) if is_too_little_gas(&invalid) => Ok(None),
            Err(invalid) => Err(self.refused(gas, &invalid)),
        }
    }

    /// Bisects between a gas limit that fails and one that succeeds, until the error is small enough.
    fn search(&mut self, used: u64, refunded: u64, mut high: u64) -> Result<u64, CallError> {
        let mut low = used.saturating_sub(1);
        let likely = (used + refunded + CALL_STIPEND).saturating_mul(64) / 63;
        if likely < high {
            match self.succeeds(likely)? {
                Some(()) => high = likely,
                None => low = likely,
            }
        }
        while low + 1 < high {
            if (high - low).saturating_mul(1_000) < high.saturating_mul(ESTIMATE_ERROR_PERMILLE) {
                break;
            }
            // Most calls need little more than they use.
            let middle = low.midpoint(high).min(low.saturating_mul(2));
            match self.succeeds(middle)? {
                Some(()) => high = middle,
                None => low = middle,
            }
        }
        Ok(high)
    }

    fn refused(&self, gas: u64, invalid: &InvalidExecution) -> CallError {
        CallError::Refused(format!("failed with {gas} gas: {}", invalid_text(invalid, self.from)))
    }
}

/// The block fields that the call sees.
fn context(read: &ChainRead<'_>, at: BlockSelector) -> Result<BlockContext, ReadError> {
    let block = read.block(at).ok_or(ReadError::UnknownBlock)?;
    Ok(block_context(read, &block))
}

/// The block fields that code in this block sees.
pub(super) fn block_context(read: &ChainRead<'_>, block: &Block) -> BlockContext {
    BlockContext {
        chain_id: read.core.chain_id(),
        number: block.number(),
        timestamp: block.timestamp(),
        gas_limit: block.header.gas_limit,
        base_fee: block.base_fee(),
        coinbase: block.header.beneficiary,
        prevrandao: block.header.mix_hash,
    }
}

fn ledger<'a>(read: &'a ChainRead<'_>, at: BlockSelector) -> Result<Ledger<'a>, ReadError> {
    // Fails if the state of the block cannot be read.
    read.with_state(at, |_| ())?;
    let core = &read.core;
    if at == BlockSelector::Pending && !read.lags() {
        let changes = core.pending().changes.clone();
        return Ok(Ledger::on(core.state(), core.head().number(), core.blocks()).with(changes));
    }
    let number = read.number(at).ok_or(ReadError::UnknownBlock)?;
    Ok(read.ledger(number))
}

fn tx_env(request: &CallRequest, from: Address, fee_cap: u128, is_dynamic: bool) -> TxEnv {
    let tx_type = match (request.authorizations.is_empty(), is_dynamic, request.access_list.is_empty()) {
        (false, ..) => 4,
        (_, true, _) => 2,
        (_, _, false) => 1,
        _ => 0,
    };
    TxEnv {
        tx_type,
        caller: from,
        gas_limit: 0,
        gas_price: fee_cap,
        kind: request.to.map_or(TxKind::Create, TxKind::Call),
        value: request.value,
        data: request.data.clone(),
        nonce: request.nonce.unwrap_or_default(),
        chain_id: None,
        access_list: request.access_list.clone(),
        gas_priority_fee: is_dynamic.then(|| request.max_priority_fee_per_gas.unwrap_or_default().min(fee_cap)),
        blob_hashes: Vec::new(),
        max_fee_per_blob_gas: 0,
        authorization_list: request.authorizations.iter().cloned().map(Either::Left).collect(),
    }
}

fn reverted(data: Bytes) -> CallError {
    CallError::Reverted { reason: revert_reason(&data), data }
}

fn is_too_little_gas(invalid: &InvalidExecution) -> bool {
    use InvalidTransaction::{CallGasCostMoreThanGasLimit, GasFloorMoreThanGasLimit};
    matches!(invalid.0, CallGasCostMoreThanGasLimit { .. } | GasFloorMoreThanGasLimit { .. })
}

fn invalid_text(invalid: &InvalidExecution, from: Address) -> String {
    match &invalid.0 {
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => {
            format!("insufficient funds for gas * price + value: address {from} have {balance} want {fee}")
        }
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        other => other.to_string(),
    }
}

/// geth's text for a halt of the EVM.
pub(super) fn halt_text(reason: &HaltReason) -> String {
    let text = match reason {
        HaltReason::OutOfGas(_) => "out of gas",
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID",
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode",
        HaltReason::InvalidJump => "invalid jump destination",
        HaltReason::StackUnderflow => "stack underflow",
        HaltReason::StackOverflow => "stack limit reached 1024 (1023)",
        HaltReason::OutOfOffset => "return data out of bounds",
        HaltReason::CreateCollision => "contract address collision",
        HaltReason::NonceOverflow => "nonce uint64 overflow",
        HaltReason::CreateContractSizeLimit => "max code size exceeded",
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded",
        HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef",
        HaltReason::StateChangeDuringStaticCall | HaltReason::CallNotAllowedInsideStatic => "write protection",
        HaltReason::OutOfFunds => "insufficient balance for transfer",
        HaltReason::CallTooDeep => "max call depth exceeded",
        other => return format!("execution failed: {other:?}"),
    };
    text.to_owned()
}
