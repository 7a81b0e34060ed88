//! Signing: the contract of a signer, and the way from a plan to a signed transaction.
//!
//! - [`Signer`]: one key, in memory or at a service. It signs digests and knows no chain.
//! - [`TxEncoder`]: the transaction format of one chain: the bytes of a plan that are signed, and the transaction of a
//!   signature.
//! - [`sign_plans`]: encodes plans, asks the signer once, and verifies its answers.
//! - [`SigningBounds`]: gives every signer a time-out, and every service a bound of concurrent calls.
//! - `conformance` (feature): the suite that every signer passes.
//!
//! Architecture invariant: no chain protocol, no key material and no clock is in here. A signer chooses no nonce and
//! decides nothing for a lane.

mod bounds;
#[cfg(feature = "conformance")]
pub mod conformance;
mod encoder;
mod plans;
mod port;

pub use bounds::{SigningBounds, SigningLimits, Timer};
pub use encoder::TxEncoder;
pub use plans::sign_plans;
pub use port::{KeyLocation, PublicKey, Signature, Signer, SignerError, SigningInput};
