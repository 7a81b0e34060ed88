//! Opens the signers of the submitters.

use std::collections::HashSet;
use std::sync::Arc;

use gapless_chain_evm::{KeyError, LocalSigner, MnemonicOptions, Secret, evm_address};
use gapless_domain::{Address, ChainId, SubmitterId, SubmitterPolicy};
use gapless_signer::Signer;

use super::ComposeError;
use crate::config::{Password, SignerConfig, SubmitterConfig};

/// A submitter with its open signer.
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
        let id = format!("{chain}:{}", evm_address(&signer.public_key())).parse()?;
        Ok(SubmitterAccount { id, alias, signer, policy })
    }
}

/// Opens every signer, before the node starts.
pub(crate) async fn accounts(submitters: Vec<SubmitterConfig>) -> Result<Vec<SubmitterAccount>, ComposeError> {
    let mut known = HashSet::new();
    let mut accounts = Vec::with_capacity(submitters.len());
    for (position, SubmitterConfig { alias, chain, address, signer, policy }) in submitters.into_iter().enumerate() {
        let name = alias.clone().unwrap_or_else(|| position.to_string());
        let signer = open(signer).await.map_err(|source| ComposeError::Key { name: name.clone(), source })?;
        check_address(name, address, evm_address(&signer.public_key()))?;
        let account = SubmitterAccount::new(&chain, alias, signer, policy)?;
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

/// Opens a signer. A signer with a service would ask it for the public key here.
async fn open(signer: SignerConfig) -> Result<Arc<dyn Signer>, KeyError> {
    let signer = match signer {
        SignerConfig::Env { var } => LocalSigner::from_env(&var)?,
        SignerConfig::Mnemonic { var, path } => {
            let phrase = Secret::from_env(&var)?;
            LocalSigner::from_mnemonic(&MnemonicOptions { phrase, passphrase: None, path })?
        }
        SignerConfig::Keystore { file, password } => {
            let password = match password {
                Password::Env { var } => Secret::from_env(&var)?,
                Password::File(path) => Secret::from_file(&path)?,
            };
            // The key derivation takes about a second on purpose.
            blocking(move || LocalSigner::from_keystore(&file, &password)).await?
        }
    };
    Ok(Arc::new(signer))
}

/// Runs work that blocks its thread on a thread for such work.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
