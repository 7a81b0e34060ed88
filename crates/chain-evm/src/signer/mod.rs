//! Signers with a key of an EVM account. All of them implement the contract of `gapless-signer`.

mod keystore;
mod local;
mod mnemonic;

use alloy_primitives::{Address, keccak256};
use gapless_signer::PublicKey;

pub use keystore::{Keystore, KeystoreEntry, KeystoreError};
pub use local::{KeyError, LocalSigner};
pub use mnemonic::MnemonicOptions;

/// The account of a public key: the last 20 bytes of the hash of its point.
pub fn evm_address(key: &PublicKey) -> Address {
    let PublicKey::Secp256k1(point) = key;
    Address::from_slice(keccak256(point.get(1..).unwrap_or_default()).get(12..).unwrap_or_default())
}
