//! Made-up actions, for tests and for the conformance suites of other crates.

use alloy_primitives::{Address, B256, Bytes, U256};

use super::evm::{AccessListItem, Authorization, EvmCall};
use super::fees::Fees;
use super::{Action, Work};
use crate::amount::Amount;

/// A transfer to an account without code.
pub fn transfer(amount: impl Into<Amount>) -> Action {
    transfer_with(amount, Bytes::new())
}

/// A transfer that carries bytes for the recipient.
pub fn transfer_with(amount: impl Into<Amount>, data: Bytes) -> Action {
    let to = Some(Address::repeat_byte(0x11));
    EvmCall { to, value: amount.into(), data, ..EvmCall::default() }.into()
}

/// An action without a recipient: its bytes are the code of a new contract.
pub fn creation(code: Bytes) -> Action {
    EvmCall { data: code, ..EvmCall::default() }.into()
}

/// An action with an amount alone, as the shortest row has it.
pub fn bare(amount: impl Into<Amount>) -> Action {
    EvmCall { value: amount.into(), ..EvmCall::default() }.into()
}

/// A transfer to this address; `None` if the text is no address.
pub fn transfer_to(address: &str, amount: impl Into<Amount>) -> Option<Action> {
    let to = Some(address.parse().ok()?);
    Some(EvmCall { to, value: amount.into(), ..EvmCall::default() }.into())
}

/// An action with a value in every field, at this highest price. `signed` are numbers that another account has signed.
pub fn full(amount: Amount, highest_price: u128, signed: (u64, U256)) -> Action {
    EvmCall {
        to: Some(Address::repeat_byte(0xab)),
        value: amount,
        data: Bytes::from_static(&[1, 2, 255]),
        gas_limit: Some(100_000),
        fees: Some(Fees::with_tip(highest_price, 1)),
        access_list: vec![AccessListItem {
            address: Address::repeat_byte(1),
            storage_keys: vec![B256::repeat_byte(2)],
        }],
        authorizations: vec![Authorization {
            chain_id: U256::from(1),
            address: Address::repeat_byte(3),
            nonce: signed.0,
            y_parity: true,
            r: signed.1,
            s: U256::from(5),
        }],
    }
    .into()
}

/// Work that is enough for every action of this module.
pub const ENOUGH_WORK: Work = Work::new(100_000);
