//! The interface between the suite and a signer under test.

use std::sync::Arc;

use async_trait::async_trait;
use gapless_domain::{Bytes, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

use crate::port::{PublicKey, Signature, Signer, SigningInput};

/// One key, and the way to open a signer for it.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Opens a signer. Every call opens the same key.
    async fn open(&self) -> Arc<dyn Signer>;

    /// The secrets that the signer must not show: the key, its words, its password. Empty for a key that never leaves
    /// its service.
    fn secrets(&self) -> Vec<String>;
}

/// An input whose bytes are this text.
pub fn input(text: &str) -> SigningInput {
    SigningInput { bytes: Bytes::copy_from_slice(text.as_bytes()), digest: keccak256(text) }
}

/// True if the key signed the digest, and the signature is one that chains accept.
pub fn verify(key: PublicKey, input: &SigningInput, signature: &Signature) -> bool {
    let PublicKey::Secp256k1(point) = key;
    let Signature::Secp256k1 { r, s, y_is_odd } = signature;
    let compact = [r.as_slice(), s.as_slice()].concat().try_into().unwrap_or([0; 64]);
    let parity = if *y_is_odd { RecoveryId::One } else { RecoveryId::Zero };
    let Ok(signature) = RecoverableSignature::from_compact(&compact, parity) else { return false };
    let mut normalized = signature.to_standard();
    normalized.normalize_s();
    let recovered = SECP256K1.recover_ecdsa(Message::from_digest(input.digest.0), &signature);
    normalized == signature.to_standard() && recovered.is_ok_and(|found| found.serialize_uncompressed() == point)
}
