//! Loads the keys of the submitters.

use std::collections::HashSet;
use std::sync::Arc;

use gapless_chain_evm::{KeyError, LocalSigner, MnemonicOptions, Secret, Signer};
use gapless_domain::{Address, ChainId, SubmitterId, SubmitterPolicy};

use super::ComposeError;
use crate::config::{Password, SignerConfig, SubmitterConfig};

/// A submitter with its loaded key.
#[derive(Debug)]
pub(crate) struct SubmitterAccount {
    pub(crate) id: SubmitterId,
    pub(crate) alias: Option<String>,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) policy: SubmitterPolicy,
}

impl SubmitterAccount {
    pub(crate) fn new(
        chain: &ChainId,
        alias: Option<String>,
        signer: Arc<dyn Signer>,
        policy: SubmitterPolicy,
    ) -> Result<Self, ComposeError> {
        let id = format!("{chain}:{}", signer.address()).parse()?;
        Ok(SubmitterAccount { id, alias, signer, policy })
    }
}

/// Loads every key, before the node starts: the decryption of a keystore file takes about a second on purpose.
pub(crate) fn accounts(submitters: Vec<SubmitterConfig>) -> Result<Vec<SubmitterAccount>, ComposeError> {
    let mut known = HashSet::new();
    let mut accounts = Vec::with_capacity(submitters.len());
    for (position, SubmitterConfig { alias, chain, address, signer, policy }) in submitters.into_iter().enumerate() {
        let name = alias.clone().unwrap_or_else(|| position.to_string());
        let signer = open(&signer).map_err(|source| ComposeError::Key { name: name.clone(), source })?;
        check_address(name, address, signer.address())?;
        let account = SubmitterAccount::new(&chain, alias, Arc::new(signer), policy)?;
        if !known.insert(account.id.clone()) {
            return Err(ComposeError::SameSubmitter(account.id));
        }
        accounts.push(account);
    }
    Ok(accounts)
}

fn check_address(name: String, wanted: Option<Address>, found: Address) -> Result<(), ComposeError> {
    match wanted {
        Some(wanted) if wanted != found => Err(ComposeError::OtherAddress { name, wanted, found }),
        _ => Ok(()),
    }
}

fn open(signer: &SignerConfig) -> Result<LocalSigner, KeyError> {
    match signer {
        SignerConfig::Env { var } => LocalSigner::from_env(var),
        SignerConfig::Mnemonic { var, path } => {
            let phrase = Secret::from_env(var)?;
            LocalSigner::from_mnemonic(&MnemonicOptions { phrase, passphrase: None, path: path.clone() })
        }
        SignerConfig::Keystore { file, password } => {
            let password = match password {
                Password::Env { var } => Secret::from_env(var)?,
                Password::File(path) => Secret::from_file(path)?,
            };
            LocalSigner::from_keystore(file, &password)
        }
    }
}
