//! Signers. A [`Signer`] has one key, in memory or elsewhere. `transaction` verifies its output.

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

/// One key. Implementations show nothing of the key in `Debug`, errors or logs (X03).
#[async_trait]
pub trait Signer: Send + Sync + fmt::Debug {
    fn address(&self) -> Address;

    /// Whether the key is in the memory of this process and the address was derived from it. The sender of its
    /// transactions is then not recovered.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Signs a hash without further hashing.
    async fn sign_hash(&self, hash: B256) -> Result<Signature, SignerError>;

    /// Signs a transaction and returns its raw bytes. A signer that inspects transactions overrides this; for others
    /// the hash is enough.
    async fn sign_transaction(&self, unsigned: &UnsignedTx) -> Result<Bytes, SignerError> {
        let signature = self.sign_hash(transaction::signing_hash(unsigned)).await?;
        Ok(transaction::with_signature(unsigned, signature))
    }
}

/// The reason why there is no signature. The texts come from the signer and must not contain a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// A later try may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// A later try fails too.
    #[error("{0}")]
    Refused(String),
}
