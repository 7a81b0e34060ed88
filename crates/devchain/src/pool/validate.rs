//! Validation of transactions: geth's checks in geth's order.

use alloy_consensus::Transaction;
use alloy_primitives::U256;

use super::error::PoolError;
use super::limits::{MAX_INIT_CODE_BYTES, MAX_TX_BYTES, PoolLimits};
use crate::genesis::GWEI;
use crate::tx::Tx;

const TX_GAS: u64 = 21_000;
const CREATE_GAS: u64 = 32_000;
const ZERO_BYTE_GAS: u64 = 4;
const NONZERO_BYTE_GAS: u64 = 16;
const INIT_CODE_WORD_GAS: u64 = 2;
const WORD_BYTES: u64 = 32;
const ACCESS_ADDRESS_GAS: u64 = 2_400;
const ACCESS_KEY_GAS: u64 = 1_900;
const AUTHORIZATION_GAS: u64 = 25_000;
const FLOOR_GAS_PER_TOKEN: u64 = 10;
const TOKENS_PER_NONZERO_BYTE: u64 = 4;

/// The checks of geth's RPC layer, before the pool (`internal/ethapi`).
pub(super) fn check_rpc_rules(tx: &Tx, limits: &PoolLimits) -> Result<(), PoolError> {
    let fee = U256::from(tx.fee_cap()).saturating_mul(U256::from(tx.gas_limit()));
    if limits.tx_fee_cap != 0 && fee > U256::from(limits.tx_fee_cap) {
        let cap = in_ether(U256::from(limits.tx_fee_cap));
        return Err(PoolError::FeeAboveCap { fee: in_ether(fee), cap });
    }
    if !limits.allow_unprotected && tx.envelope.chain_id().is_none() {
        return Err(PoolError::Unprotected);
    }
    Ok(())
}

/// The checks that do not need the sender's account.
pub(super) fn check_basics(tx: &Tx, chain_id: u64, block_gas_limit: u64, limits: &PoolLimits) -> Result<(), PoolError> {
    let envelope = &tx.envelope;
    if tx.raw.len() > MAX_TX_BYTES {
        return Err(PoolError::Oversized { size: tx.raw.len(), limit: MAX_TX_BYTES });
    }
    let input = envelope.input();
    if envelope.is_create() && input.len() > MAX_INIT_CODE_BYTES {
        return Err(PoolError::InitCodeSize { size: input.len(), limit: MAX_INIT_CODE_BYTES });
    }
    if tx.gas_limit() > block_gas_limit {
        return Err(PoolError::ExceedsBlockGasLimit);
    }
    if tx.fee_cap() < tx.tip_cap() {
        return Err(PoolError::TipAboveFeeCap);
    }
    if let Some(have) = envelope.chain_id().filter(|have| *have != chain_id) {
        return Err(PoolError::WrongChainId { have, want: chain_id });
    }
    if tx.nonce() == u64::MAX {
        return Err(PoolError::NonceMax);
    }
    let needed = intrinsic_gas(tx);
    if tx.gas_limit() < needed {
        return Err(PoolError::IntrinsicGas { gas: tx.gas_limit(), needed });
    }
    let needed = floor_gas(input);
    if tx.gas_limit() < needed {
        return Err(PoolError::FloorDataGas { gas: tx.gas_limit(), needed });
    }
    if tx.tip_cap() < limits.min_tip {
        return Err(PoolError::TipBelowMinimum { tip: tx.tip_cap(), minimum: limits.min_tip });
    }
    if envelope.authorization_list().is_some_and(<[_]>::is_empty) {
        return Err(PoolError::NoAuthorizations);
    }
    Ok(())
}

/// The gas that a transaction costs before execution.
fn intrinsic_gas(tx: &Tx) -> u64 {
    let envelope = &tx.envelope;
    let input = envelope.input();
    let (zeros, others) = count_bytes(input);
    let mut gas = TX_GAS + zeros * ZERO_BYTE_GAS + others * NONZERO_BYTE_GAS;
    if envelope.is_create() {
        gas += CREATE_GAS + (input.len() as u64).div_ceil(WORD_BYTES) * INIT_CODE_WORD_GAS;
    }
    for item in envelope.access_list().into_iter().flat_map(|list| list.iter()) {
        gas += ACCESS_ADDRESS_GAS + item.storage_keys.len() as u64 * ACCESS_KEY_GAS;
    }
    gas + envelope.authorization_list().unwrap_or_default().len() as u64 * AUTHORIZATION_GAS
}

/// The minimum gas for call data, independent of the execution (EIP-7623).
fn floor_gas(input: &[u8]) -> u64 {
    let (zeros, others) = count_bytes(input);
    TX_GAS + (zeros + others * TOKENS_PER_NONZERO_BYTE) * FLOOR_GAS_PER_TOKEN
}

fn count_bytes(input: &[u8]) -> (u64, u64) {
    let zeros = input.iter().filter(|byte| **byte == 0).count() as u64;
    (zeros, input.len() as u64 - zeros)
}

/// Ether with two decimals, as geth prints it.
fn in_ether(wei: U256) -> String {
    let cents = (wei + U256::from(GWEI * GWEI / 200)) / U256::from(GWEI * GWEI / 100);
    let (whole, rest) = cents.div_rem(U256::from(100));
    format!("{whole}.{rest:02}")
}
