//! Fresh accounts: every measurement has its own, so that each begins at nonce 0 on any chain.

use alloy_primitives::{Address, B256, keccak256};
use gapless_chain_evm::LocalSigner;
use uuid::Uuid;

use crate::LoadError;

#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) address: Address,
    key: B256,
}

impl Account {
    /// Creates so many new accounts.
    pub(crate) fn fresh(count: u32) -> Result<Vec<Self>, LoadError> {
        let seed = Uuid::new_v4();
        (0..count).map(|index| Self::derive(seed, index)).collect()
    }

    fn derive(seed: Uuid, index: u32) -> Result<Self, LoadError> {
        // A hash that is no valid key is too rare to handle.
        let key = keccak256(format!("gapless bench {seed} {index}"));
        Ok(Account { address: LocalSigner::from_key(&key.0)?.address(), key })
    }

    pub(crate) fn signer(&self) -> Result<LocalSigner, LoadError> {
        Ok(LocalSigner::from_key(&self.key.0)?)
    }

    /// The private key, for a node's environment.
    pub(crate) fn key_text(&self) -> String {
        self.key.to_string()
    }

    /// The CAIP-10 id.
    pub(crate) fn submitter(&self, chain_id: u64) -> String {
        format!("eip155:{chain_id}:{}", self.address)
    }
}
