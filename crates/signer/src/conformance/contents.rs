//! Cases about the content of one signature.

use gapless_domain::{B256, keccak256};

use super::{Harness, input, verify};
use crate::port::{Signature, Signer, SigningInput};

async fn sign(signer: &dyn Signer, input: &SigningInput) -> Signature {
    let answers = signer.sign_many(std::slice::from_ref(input)).await;
    assert_eq!(answers.len(), 1, "one answer for one input");
    answers.into_iter().next().unwrap().unwrap()
}

pub(super) async fn signature_is_of_digest_and_public_key(harness: &dyn Harness) {
    let signer = harness.open().await;
    let (one, other) = (input("one"), input("other"));
    let signature = sign(signer.as_ref(), &one).await;
    assert!(verify(signer.public_key(), &one, &signature));
    assert!(!verify(signer.public_key(), &other, &signature), "the suite detects a signature of another digest");
}

/// Half of all signatures without the rule have a high `s`, so a signer without it passes with the odds 2⁻³².
pub(super) async fn signature_has_low_s(harness: &dyn Harness) {
    let signer = harness.open().await;
    let inputs: Vec<SigningInput> = (0..32).map(|number| input(&format!("low s {number}"))).collect();
    for (input, answer) in inputs.iter().zip(signer.sign_many(&inputs).await) {
        assert!(verify(signer.public_key(), input, &answer.unwrap()));
    }
}

pub(super) async fn digest_is_not_hashed_again(harness: &dyn Harness) {
    let signer = harness.open().await;
    // The digest does not belong to the bytes: only the digest counts.
    let odd = SigningInput { digest: B256::repeat_byte(7), ..input("bytes") };
    let signature = sign(signer.as_ref(), &odd).await;
    assert!(verify(signer.public_key(), &odd, &signature));
    let hashed = SigningInput { digest: keccak256(odd.digest), ..odd };
    assert!(!verify(signer.public_key(), &hashed, &signature));
}

pub(super) async fn public_key_of_reopened_signer_is_equal(harness: &dyn Harness) {
    let (first, second) = (harness.open().await, harness.open().await);
    assert_eq!(first.public_key(), second.public_key());
    assert_eq!(first.location(), second.location());
}

pub(super) async fn debug_shows_no_key(harness: &dyn Harness) {
    let signer = harness.open().await;
    let shown = format!("{signer:?} {signer:#?}").to_lowercase();
    for secret in harness.secrets() {
        let secret = secret.trim_start_matches("0x").to_lowercase();
        assert!(!shown.contains(&secret), "the signer shows a secret");
    }
}
