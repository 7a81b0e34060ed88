//! The contract of a signer.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use gapless_domain::{B256, Bytes};

/// One key. The key may be in the memory of this process or at a service.
///
/// A signer may assume:
/// - Every input is an unsigned transaction of the account of its key. The caller holds the lease of the account.
/// - A call has at least one input, and at most `signing.batch_max`.
/// - The caller binds an answer only after it has verified it, and sends it only after it is durable. So a signer may
///   sign an input whose transaction is never sent, and may sign the same input twice.
///
/// A signer must:
/// - answer each input by itself, in the order of the inputs: a failure of one input fails no other input;
/// - sign the digest as it is, without hashing it again;
/// - sign as chains accept it: an ECDSA signature has its `s` in the lower half of the curve's order (EIP-2);
/// - wait without blocking its thread, and stay usable when a call is dropped before its end. The caller drops a call
///   at its time-out, and never reads a later answer;
/// - show nothing of the key in `Debug`, errors or logs (X03).
#[async_trait]
pub trait Signer: Send + Sync + fmt::Debug {
    /// The public key, known since the signer was opened.
    fn public_key(&self) -> PublicKey;

    fn location(&self) -> KeyLocation;

    /// Signs all inputs in one call, and answers each of them.
    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>>;
}

/// The content of one signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningInput {
    /// The encoded unsigned transaction, for a signer that inspects it.
    pub bytes: Bytes,
    /// The hash of `bytes` by the rules of the chain. The signature is for this digest.
    pub digest: B256,
}

/// A public key, by the curve that it is on. A chain adapter knows the account that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PublicKey {
    /// An uncompressed point: 0x04, x and y.
    Secp256k1([u8; 65]),
}

/// A signature, by the curve of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// ECDSA. `y_is_odd` is the parity of the point of `r`, from which the public key is recovered.
    Secp256k1 { r: [u8; 32], s: [u8; 32], y_is_odd: bool },
}

/// The place of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyLocation {
    /// The memory of this process. The public key was derived from the key, so the signer of its signatures is not
    /// recovered, and its calls are not bounded.
    Memory,
    /// A service with this name. Signers of one service share one bound of concurrent calls.
    Service(Arc<str>),
}

/// The reason why an input has no signature. The texts come from the signer and must not contain a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// A later try may succeed: the signer is down.
    #[error("the signer is not available: {0}")]
    Unavailable(String),
    /// This number of other calls of this node kept the service busy until the time-out of the call. Only
    /// [`SigningBounds`](crate::SigningBounds) returns it.
    #[error("the signer is not available: {0} calls to it are in use")]
    Busy(usize),
    /// A later try fails too: the signer does not sign this transaction, or no transaction expresses the plan. An
    /// operator has to change a rule or a request.
    #[error("the signer refused: {0}")]
    Refused(String),
    /// The signer gave no answer within `signing.timeout`. Only [`SigningBounds`](crate::SigningBounds) returns it.
    #[error("the signer gave no answer in time")]
    Timeout,
    /// The signature does not belong to the plan or to the key. It is dropped (S09).
    #[error("the signer returned a transaction with a different {0}")]
    Mismatch(&'static str),
}

impl SignerError {
    /// The reason as metrics show it.
    pub fn reason(&self) -> &'static str {
        match self {
            SignerError::Unavailable(_) | SignerError::Busy(_) => "unavailable",
            SignerError::Refused(_) => "refused",
            SignerError::Timeout => "timeout",
            SignerError::Mismatch(_) => "mismatch",
        }
    }
}
