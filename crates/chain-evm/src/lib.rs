//! EVM chains for Gapless: endpoints, fees, transactions and signers.
//!
//! - [`EvmChain`] implements the contract of `gapless-chain`. It is created from [`EvmChainOptions`]; no endpoint has
//!   to be up.
//! - `classify` is the classifier of node errors: [`Classifier`] turns a [`NodeFailure`] into a verdict. Its tables
//!   have the error texts of the clients, one table for each [`Family`].
//! - `rpc` carries JSON-RPC over HTTP and WebSocket: batches, time-outs, bounds. It judges nothing.
//! - `endpoint` is one endpoint: chain id, health, shown blocks, capabilities. `endpoints` chooses among several.
//!   `read` has the reads.
//! - `broadcast` combines the answers of several endpoints to a send, `mempool` the states of several mempools. `fees`
//!   makes a quote of a fee history, `estimates` has the gas of calls, and `surcharge` caches the data fees of rollups.
//!   `transaction` encodes plans and verifies the output of signers; [`EvmEncoder`] offers that to the crate of the
//!   signer contract.
//! - [`authority`] recovers the account of an EIP-7702 authorization.
//! - `signer` has the keys: [`LocalSigner`] from memory, the environment, a mnemonic or a [`Keystore`] file.
//!
//! Architecture invariant: nothing in here chooses a nonce, bumps a price or decides the consequence of an answer for a
//! lane. Every failure of an endpoint passes the one [`Classifier`]. Keys and URLs are never shown.

mod authority;
mod broadcast;
mod chain;
mod classify;
mod encoder;
mod endpoint;
mod endpoints;
mod estimates;
mod fees;
mod gas_margin;
mod jitter;
mod mempool;
mod meter;
mod options;
mod read;
mod rpc;
mod signer;
mod surcharge;
mod transaction;

pub use authority::authority;
pub use chain::EvmChain;
pub use classify::{
    Classifier, Family, Method, NodeFailure, OverrideError, OverrideRule, Overrides, PatternError, UnknownTexts,
};
pub use encoder::EvmEncoder;
pub use fees::{FeeOptions, Rollup};
pub use gapless_secret::{Secret, SecretError, SecretUrl, UrlError};
pub use gas_margin::GasMargin;
pub use options::{ConnectError, EndpointOptions, EvmChainOptions, SendTo};
pub use signer::{KeyError, Keystore, KeystoreEntry, KeystoreError, LocalSigner, MnemonicOptions, evm_address};
pub use transaction::UnsignedTx;
