//! EVM chains for Gapless: endpoints, what they say, fees, transactions and the keys that sign them.
//!
//! - [`EvmChain`] implements the contract of `gapless-chain`. It is made from [`EvmChainOptions`] and a list of [`Signer`]s, and
//!   making it needs no node to be there.
//! - `rpc` carries JSON-RPC over HTTP and WebSocket: batches, time-outs, bounds. It judges nothing.
//! - `endpoint` knows one node: whether it is of this chain, how it is, which forks it shows, what it can do. `endpoints` chooses
//!   among them and decides who is believed. `read` has the questions.
//! - `broadcast` makes one answer of many, `mempool` one signal of many pools. `fees` makes a quote of a fee history, and
//!   `surcharge` keeps what a rollup takes beside gas. `transaction` encodes plans and checks what came back from a signer.
//! - [`authority`] tells whose nonce an EIP-7702 authorization uses.
//! - `signer` has the keys: [`LocalSigner`] from memory, the environment, a mnemonic or a [`Keystore`] file.
//!
//! Architecture invariant: nothing in here chooses a nonce, bumps a price or decides what an answer means for a lane. Every
//! failure of a node goes through the one classifier of `gapless-chain`. Keys and URLs are never shown.

mod authority;
mod broadcast;
mod chain;
mod endpoint;
mod endpoints;
mod family;
mod fees;
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
pub use fees::{FeeOptions, Rollup};
pub use gapless_secret::{Secret, SecretError, SecretUrl, UrlError};
pub use options::{ConnectError, EndpointOptions, EvmChainOptions, SendTo};
pub use signer::{KeyError, Keystore, KeystoreEntry, KeystoreError, LocalSigner, MnemonicOptions, Signer, SignerError};
pub use transaction::UnsignedTx;
