//! Transactions and small contracts for the tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]
#![allow(dead_code, reason = "each test file uses only a part")]

use alloy_consensus::{TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::eip2930::AccessList;
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use gapless_devchain::{DEV_ACCOUNTS, DEV_CHAIN_ID, DevAccount, DevChain, GWEI, Genesis};

pub(crate) const TRANSFER_GAS: u64 = 21_000;

pub(crate) fn chain() -> DevChain {
    DevChain::new(Genesis::dev())
}

pub(crate) fn alice() -> DevAccount {
    DEV_ACCOUNTS[0]
}

pub(crate) fn bob() -> DevAccount {
    DEV_ACCOUNTS[1]
}

pub(crate) fn carol() -> DevAccount {
    DEV_ACCOUNTS[2]
}

/// An account without funds.
pub(crate) fn unfunded_account() -> Address {
    Address::repeat_byte(0x77)
}

/// A transfer of one wei with high fees. Tests change the fields that they need.
pub(crate) fn transfer(nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: DEV_CHAIN_ID,
        nonce,
        gas_limit: TRANSFER_GAS,
        max_fee_per_gas: 20 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(unfunded_account()),
        value: U256::from(1),
        access_list: AccessList::default(),
        input: Bytes::new(),
    }
}

pub(crate) fn legacy(nonce: u64) -> TxLegacy {
    TxLegacy {
        chain_id: Some(DEV_CHAIN_ID),
        nonce,
        gas_price: 20 * GWEI,
        gas_limit: TRANSFER_GAS,
        to: TxKind::Call(unfunded_account()),
        value: U256::from(1),
        input: Bytes::new(),
    }
}

pub(crate) fn with_access_list(nonce: u64, access_list: AccessList) -> TxEip2930 {
    TxEip2930 {
        chain_id: DEV_CHAIN_ID,
        nonce,
        gas_price: 20 * GWEI,
        gas_limit: 100_000,
        to: TxKind::Call(unfunded_account()),
        value: U256::from(1),
        access_list,
        input: Bytes::new(),
    }
}

pub(crate) fn set_code(nonce: u64, to: Address, authorization_list: Vec<SignedAuthorization>) -> TxEip7702 {
    TxEip7702 {
        chain_id: DEV_CHAIN_ID,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 20 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to,
        value: U256::ZERO,
        access_list: AccessList::default(),
        authorization_list,
        input: Bytes::new(),
    }
}

pub(crate) fn authorization(of: DevAccount, to: Address, nonce: u64) -> SignedAuthorization {
    of.authorize(Authorization { chain_id: U256::from(DEV_CHAIN_ID), address: to, nonce }).unwrap()
}

/// A call of a contract, or its creation.
pub(crate) fn invoke(nonce: u64, to: TxKind, input: Bytes) -> TxEip1559 {
    TxEip1559 { to, input, gas_limit: 1_000_000, value: U256::ZERO, ..transfer(nonce) }
}

/// Init code that deploys this code.
pub(crate) fn deployer(code: &[u8]) -> Bytes {
    // PUSH1 len, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 len, PUSH1 0, RETURN
    let length = u8::try_from(code.len()).unwrap();
    let mut all = vec![0x60, length, 0x60, 12, 0x60, 0, 0x39, 0x60, length, 0x60, 0, 0xf3];
    all.extend_from_slice(code);
    all.into()
}

/// Adds one to slot 0, logs the new count under topic 7, and returns it.
pub(crate) fn counter() -> Vec<u8> {
    // SLOAD(0)+1; DUP1; SSTORE(0); MSTORE(0); LOG1(0,32,7); RETURN(0,32)
    hex!("600054600101" "80600055" "600052" "600760206000a1" "60206000f3").to_vec()
}

/// Reverts with Error("nope").
pub(crate) fn reverter() -> Vec<u8> {
    let mut code = Vec::new();
    // The selector, then offset, length and text, each at its ABI position.
    code.extend(hex!("7f08c379a000000000000000000000000000000000000000000000000000000000" "600052"));
    code.extend(hex!("6020600452" "6004602452"));
    code.extend(hex!("7f6e6f706500000000000000000000000000000000000000000000000000000000" "604452"));
    code.extend(hex!("60646000fd"));
    code
}

/// Deploys code and returns its address.
pub(crate) fn deploy(chain: &DevChain, from: DevAccount, nonce: u64, code: &[u8]) -> Address {
    let raw = from.sign(invoke(nonce, TxKind::Create, deployer(code))).unwrap();
    let hash = chain.send_raw(&raw).unwrap();
    chain.mine(0).unwrap();
    let mined = chain.view().receipt(hash).unwrap();
    let receipt = mined.receipt().unwrap();
    assert!(receipt.success);
    receipt.contract_address.unwrap()
}

/// Sends a transaction that must be accepted.
pub(crate) fn send(chain: &DevChain, raw: &[u8]) -> B256 {
    chain.send_raw(raw).unwrap()
}

/// The error text of a refused send.
pub(crate) fn refusal(chain: &DevChain, raw: &[u8]) -> String {
    chain.send_raw(raw).unwrap_err().to_string()
}
