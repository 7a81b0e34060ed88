//! The transaction format of the simulator, for signing.

use std::fmt;
use std::sync::Arc;

use gapless_domain::{Action, SignedTx, TxPlan};
use gapless_signer::{Signature, Signer, SignerError, SigningInput, TxEncoder};

use super::{ChainWorld, signed};

/// Encodes transactions of a test. The signature is not part of the bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextEncoder;

impl TxEncoder for TextEncoder {
    fn signing_input(&self, plan: &TxPlan) -> Result<SigningInput, SignerError> {
        let SignedTx { hash: digest, raw: bytes } = signed::sign(plan);
        Ok(SigningInput { bytes, digest })
    }

    fn signed_tx(&self, plan: &TxPlan, _: Signature, _: &dyn Signer) -> Result<SignedTx, SignerError> {
        Ok(signed::sign(plan))
    }
}

/// Encodes transactions of a world. The world decodes every signed transaction once.
pub(super) struct WorldEncoder(pub(super) Arc<ChainWorld>);

impl TxEncoder for WorldEncoder {
    fn signing_input(&self, plan: &TxPlan) -> Result<SigningInput, SignerError> {
        let Action::Evm(call) = &plan.action;
        if !call.access_list.is_empty() || !call.authorizations.is_empty() {
            let text = "the simulator supports no access lists and no authorizations";
            return Err(SignerError::Refused(text.to_owned()));
        }
        TextEncoder.signing_input(plan)
    }

    fn signed_tx(&self, plan: &TxPlan, signature: Signature, signer: &dyn Signer) -> Result<SignedTx, SignerError> {
        let signed = TextEncoder.signed_tx(plan, signature, signer)?;
        let known = self.0.enter(|state, _| state.learn(&signed.raw));
        known.map(|_| signed).ok_or(SignerError::Mismatch("submitter"))
    }
}

impl fmt::Debug for WorldEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorldEncoder").finish_non_exhaustive()
    }
}
