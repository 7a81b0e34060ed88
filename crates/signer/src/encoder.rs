//! The transaction format of a chain, as far as signing needs it.

use std::fmt;

use gapless_domain::{SignedTx, TxPlan};

use crate::port::{Signature, Signer, SignerError, SigningInput};

/// Encodes the transactions of one chain. No verb waits.
pub trait TxEncoder: Send + Sync + fmt::Debug {
    /// The bytes of a plan that are signed. Fails with [`SignerError::Refused`] if no transaction expresses the plan.
    fn signing_input(&self, plan: &TxPlan) -> Result<SigningInput, SignerError>;

    /// The transaction of a plan with this signature. The result is verified: it carries exactly this plan, and the
    /// account of the plan signed it (S09). The account is recovered from the signature, or, for a key in the memory of
    /// this process, derived from the public key.
    fn signed_tx(&self, plan: &TxPlan, signature: Signature, signer: &dyn Signer) -> Result<SignedTx, SignerError>;
}
