//! The transaction format of EVM chains, for signing.

use alloy_primitives::{U256, keccak256};
use gapless_domain::{ChainId, SignedTx, TxPlan};
use gapless_signer::{KeyLocation, Signature, Signer, SignerError, SigningInput, TxEncoder};

use crate::options::ConnectError;
use crate::signer::evm_address;
use crate::transaction::{self, UnsignedTx};

/// Encodes the transactions of one EVM chain.
#[derive(Clone, Debug)]
pub struct EvmEncoder {
    id: ChainId,
    number: u64,
}

impl EvmEncoder {
    pub fn new(id: ChainId) -> Result<Self, ConnectError> {
        let number = id.evm_number().ok_or_else(|| ConnectError::NotEvm(id.clone()))?;
        Ok(EvmEncoder { id, number })
    }

    fn build(&self, plan: &TxPlan) -> Result<UnsignedTx, SignerError> {
        if *plan.submitter.chain() != self.id {
            return Err(SignerError::Mismatch("chain"));
        }
        transaction::build(plan, self.number)
    }
}

impl TxEncoder for EvmEncoder {
    fn signing_input(&self, plan: &TxPlan) -> Result<SigningInput, SignerError> {
        let bytes = transaction::signing_bytes(&self.build(plan)?);
        let digest = keccak256(&bytes);
        Ok(SigningInput { bytes, digest })
    }

    fn signed_tx(&self, plan: &TxPlan, signature: Signature, signer: &dyn Signer) -> Result<SignedTx, SignerError> {
        let unsigned = self.build(plan)?;
        let Signature::Secp256k1 { r, s, y_is_odd } = signature;
        let (r, s) = (U256::from_be_bytes(r), U256::from_be_bytes(s));
        let raw = transaction::with_signature(&unsigned, alloy_primitives::Signature::new(r, s, y_is_odd));
        match signer.location() {
            KeyLocation::Memory => transaction::verify_own(plan, &unsigned, raw, evm_address(&signer.public_key())),
            KeyLocation::Service(_) => transaction::verify(plan, &unsigned, raw),
        }
    }
}
