//! Rules of EVM chains.

use alloy_primitives::Address;

use super::{ChainRules, Words};
use crate::action::{Action, EvmCall, Fees, Work};
use crate::amount::Amount;
use crate::id::{ChainId, SubmitterId};
use crate::lane::AccountFacts;
use crate::policy::{NoncePolicy, SubmitterPolicy};

const NAMESPACE: &str = "eip155";
const REFERENCE: &str =
    "the reference of an eip155 chain is a decimal number without leading zeros, from 1 to 2^64 - 1";
const ADDRESS: &str = "an eip155 address is 0x and 40 hex digits";
const CHECKSUM: &str = "the letter case of the address does not match its EIP-55 checksum; check it for a typing error";

static WORDS: Words = Words {
    amount: "wei",
    price: "wei per gas",
    fee: "wei of gas",
    silent_use: "an EIP-7702 authorization, or delegated code of the account",
};

/// Rules of EVM chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvmRules;

impl ChainRules for EvmRules {
    fn namespace(&self) -> &'static str {
        NAMESPACE
    }

    fn check_reference(&self, reference: &str) -> Result<(), &'static str> {
        let number: u64 = reference.parse().map_err(|_| REFERENCE)?;
        if number == 0 || number.to_string() != reference { Err(REFERENCE) } else { Ok(()) }
    }

    /// The EIP-55 form. Mixed letter case is a checksum and must be correct; an address in one letter case is accepted
    /// as it is.
    fn canonical_address(&self, text: &str) -> Result<String, &'static str> {
        let digits = text.strip_prefix("0x").ok_or(ADDRESS)?;
        if digits.len() != 40 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ADDRESS);
        }
        let address: Address = text.parse().map_err(|_| ADDRESS)?;
        let checksummed = address.to_checksum(None);
        let mixed = digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
        if mixed && checksummed != text { Err(CHECKSUM) } else { Ok(checksummed) }
    }

    /// An account with delegated code (EIP-7702) is narrow: nodes accept few pending transactions of it, and its code
    /// can consume nonces by itself.
    fn window(&self, policy: &NoncePolicy, account: Option<&AccountFacts>) -> u16 {
        let is_narrow = account.is_some_and(|account| account.narrow);
        if is_narrow { policy.narrow_max_in_flight.min(policy.max_in_flight) } else { policy.max_in_flight }
    }

    /// A transfer of nothing to the account itself.
    fn filler(&self, account: &SubmitterId) -> Action {
        EvmCall { to: account.evm_address(), ..EvmCall::default() }.into()
    }

    /// Some nodes ask for a tenth more in every price field, some for an eighth; an eighth satisfies all of them.
    fn replace_step(&self) -> u32 {
        1125
    }

    /// The value, all of the gas at the highest price, and the surcharge.
    fn worst_cost(&self, action: &Action, work: Work, fees: Fees, surcharge: Amount) -> Amount {
        let transaction = action.outflow().get().saturating_add(fees.most_for(work).get());
        Amount::new(transaction.saturating_add(surcharge.get()))
    }

    fn defaults(&self) -> SubmitterPolicy {
        SubmitterPolicy::default()
    }

    fn words(&self) -> &'static Words {
        &WORDS
    }
}

impl ChainId {
    /// The EIP-155 chain number, for EVM chains.
    pub fn evm_number(&self) -> Option<u64> {
        if self.namespace() == NAMESPACE { self.reference().parse().ok() } else { None }
    }
}

impl SubmitterId {
    /// The 20 bytes of the address, on EVM chains.
    pub fn evm_address(&self) -> Option<Address> {
        if self.chain().namespace() == NAMESPACE { self.address().parse().ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::IdError;
    use proptest::prelude::*;

    const CHECKSUMMED: &str = "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    /// proves N23
    #[test]
    fn evm_address_in_any_letter_case_is_one_submitter() {
        let canonical: SubmitterId = CHECKSUMMED.parse().unwrap();
        let lower: SubmitterId = CHECKSUMMED.to_lowercase().parse().unwrap();
        let upper: SubmitterId =
            CHECKSUMMED.to_uppercase().replace("EIP155", "eip155").replace("0X", "0x").parse().unwrap();
        assert_eq!(lower, canonical);
        assert_eq!(upper, canonical);
        assert_eq!(lower.as_str(), CHECKSUMMED);
        assert_eq!(lower.address(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    }

    #[test]
    fn evm_address_with_wrong_checksum_is_rejected() {
        let typo = CHECKSUMMED.replace("0xf39F", "0xF39F");
        assert_eq!(typo.parse::<SubmitterId>(), Err(IdError::ByRules(CHECKSUM)));
    }

    #[test]
    fn other_chain_has_no_evm_address() {
        let id: SubmitterId = "stellar:testnet:GDLEWFXV".parse().unwrap();
        assert_eq!((id.evm_address(), id.chain().evm_number()), (None, None));
    }

    #[test]
    fn narrow_account_has_its_own_window() {
        let policy = NoncePolicy { max_in_flight: 5, narrow_max_in_flight: 2, ..NoncePolicy::default() };
        let window = |narrow| EvmRules.window(&policy, Some(&AccountFacts { narrow, ..AccountFacts::default() }));
        assert_eq!((window(false), window(true), EvmRules.window(&policy, None)), (5, 2, 5));
        let wide = NoncePolicy { narrow_max_in_flight: 9, ..policy };
        let account = AccountFacts { narrow: true, ..AccountFacts::default() };
        assert_eq!(EvmRules.window(&wide, Some(&account)), 5);
    }

    #[test]
    fn worst_cost_is_value_gas_and_surcharge() {
        let action = crate::action::samples::transfer(5_u64);
        let cost = EvmRules.worst_cost(&action, Work::new(10), Fees::with_tip(3, 1), Amount::from(7_u64));
        assert_eq!(cost, Amount::from(42_u64));
    }

    proptest! {
        #[test]
        fn canonical_form_is_a_fixed_point(bytes in any::<[u8; 20]>(), chain in 1_u64..) {
            let text = format!("eip155:{chain}:{}", Address::from(bytes));
            let id: SubmitterId = text.to_lowercase().parse().unwrap();
            prop_assert_eq!(id.as_str().parse::<SubmitterId>().unwrap(), id.clone());
            prop_assert_eq!(id.evm_address(), Some(Address::from(bytes)));
        }
    }
}
