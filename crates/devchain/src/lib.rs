//! An EVM dev chain for tests: a txpool with geth's rules, blocks, reorgs and faults. It runs in process or as a
//! JSON-RPC server.
//!
//! - [`DevChain`] is the chain: send, mine, reorg, edit. [`View`] reads it. Both are cheap handles to one locked core.
//! - [`Endpoint`] is one RPC endpoint of the chain with its own [`Faults`]. Several endpoints of one chain can
//!   disagree.
//! - [`null::NullChain`] is a separate chain without an EVM, for load measurements.
//! - [`Genesis`] is the initial state and configuration. [`DEV_ACCOUNTS`] are the accounts with well-known keys.
//!
//! The core is deterministic: the same genesis and the same calls in the same order give the same blocks, hash by hash.
//! Persistence (`journal/`) uses this: the calls are recorded, and replayed when the chain is opened.
//!
//! Architecture invariant: the core does not wait, spawn tasks, read a clock or use a random source. Time is an
//! argument, and randomness comes from the genesis seed. The crate does not depend on the engine: lanes and intents are
//! unknown here.

mod accounts;
mod block;
mod call_counter;
mod chain;
mod core;
mod endpoint;
mod error;
mod execute;
mod faults;
mod genesis;
mod journal;
pub mod null;
mod pool;
mod query;
mod random;
pub mod rpc;
mod state;
mod tx;
mod view;

pub use accounts::{AccountError, DEV_ACCOUNTS, DevAccount, dev_account};
pub use block::{Block, ChainEvent, LogEntry, MinedPosition, Receipt};
pub use call_counter::MAX_COUNTED_METHODS;
pub use chain::{DevChain, JournalSync, OpenOptions, Remine};
pub use endpoint::{Admission, CallRefusal, Endpoint};
pub use error::{CallError, ChainError, INVALID_PARAMS_CODE, REVERT_CODE, ReadError, RpcError, SERVER_ERROR_CODE};
pub use faults::{CallFilter, Fault, Faults, MAX_FAULT_RULES};
pub use genesis::{
    DEFAULT_BASE_FEE, DEFAULT_GAS_LIMIT, DEV_BALANCE_ETHER, DEV_CHAIN_ID, GWEI, Genesis, GenesisAccount, Limits, ether,
};
pub use pool::{POOL_ERROR_CODE, PoolError, PoolLimits, Shortage};
pub use query::{
    BlockSelector, CallRequest, FeeHistory, Finality, FoundTx, LogBlocks, LogFilter, PoolContent, PoolStatus, TopCall,
};
pub use tx::{Envelope, Tx};
pub use view::{CLIENT_VERSION, View};
