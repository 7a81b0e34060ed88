//! From plans to signed transactions.

use gapless_domain::{Permit, SignedTx, TxPlan};

use crate::bounds::count_failure;
use crate::encoder::TxEncoder;
use crate::port::{Signer, SignerError};

/// Signs plans of one account with one call of its signer, and answers each plan in order.
///
/// A plan that cannot be encoded, or whose signature is not valid, fails alone.
pub async fn sign_plans(
    permit: &Permit,
    encoder: &dyn TxEncoder,
    signer: &dyn Signer,
    plans: &[TxPlan],
) -> Vec<Result<SignedTx, SignerError>> {
    let mut inputs = Vec::with_capacity(plans.len());
    let mut encoded: Vec<Result<(), SignerError>> = Vec::with_capacity(plans.len());
    for plan in plans {
        let input = match permit.lease().submitter() == &plan.submitter {
            true => encoder.signing_input(plan),
            false => Err(SignerError::Mismatch("submitter than its permit")),
        };
        encoded.push(input.map(|input| inputs.push(input)));
    }
    let signatures = if inputs.is_empty() { Vec::new() } else { signer.sign_many(&inputs).await };
    if signatures.len() != inputs.len() {
        let text = format!("it gave {} answers to {} requests", signatures.len(), inputs.len());
        let unaligned = |encoded: Result<(), SignerError>| encoded.and(Err(SignerError::Unavailable(text.clone())));
        return encoded.into_iter().map(unaligned).collect();
    }
    let mut signatures = signatures.into_iter();
    let signed = |(plan, encoded): (&TxPlan, Result<(), SignerError>)| {
        encoded?;
        let missing = || Err(SignerError::Unavailable("it gave no answer".to_owned()));
        let signature = signatures.next().unwrap_or_else(missing)?;
        encoder.signed_tx(plan, signature, signer).inspect_err(count_failure)
    };
    plans.iter().zip(encoded).map(signed).collect()
}
