//! Who signs. A [`Signer`] has one key, wherever that is; what it gives back is checked by `transaction`, whoever it is.

mod keystore;
mod local;
mod mnemonic;

use std::fmt;

use alloy_primitives::{Address, B256, Bytes, Signature};
use async_trait::async_trait;

pub use keystore::{Keystore, KeystoreEntry, KeystoreError};
pub use local::{KeyError, LocalSigner};
pub use mnemonic::MnemonicOptions;

use crate::transaction::{self, UnsignedTx};

/// One key. Its implementations show nothing of it in `Debug`, errors or logs (X03).
#[async_trait]
pub trait Signer: Send + Sync + fmt::Debug {
    fn address(&self) -> Address;

    /// Is the key in this process's memory, and the address made of it? Then the sender of what it signs is not recovered again.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Signs the hash as it is.
    async fn sign_hash(&self, hash: B256) -> Result<Signature, SignerError>;

    /// Signs a whole transaction and gives back its raw bytes. Signers that take only whole transactions (to look at what they
    /// sign) have their own; for the others the hash is enough.
    async fn sign_transaction(&self, unsigned: &UnsignedTx) -> Result<Bytes, SignerError> {
        let signature = self.sign_hash(transaction::signing_hash(unsigned)).await?;
        Ok(transaction::with_signature(unsigned, signature))
    }
}

/// Why there is no signature. The texts are the signer's own and must not have a key in them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// May work later.
    #[error("{0}")]
    Unavailable(String),
    /// Will not work later either.
    #[error("{0}")]
    Refused(String),
}
