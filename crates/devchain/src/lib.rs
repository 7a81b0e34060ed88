//! An EVM dev chain: a txpool with geth's rules, blocks, reorgs and faults; in process or as a JSON-RPC server.
//!
//! - [`DevChain`] is the chain: send, mine, reorg, edit. [`View`] reads it. Both are cheap handles onto one locked core.
//! - [`Endpoint`] is one node's face of it, with [`Faults`] of its own: several endpoints onto one chain can disagree.
//! - [`null::NullChain`] is another chain altogether, without an EVM, for measuring what sends.
//! - [`Genesis`] is what it begins with; [`DEV_ACCOUNTS`] are the accounts that everybody knows.
//!
//! The core is a machine that is told what happens: the same genesis and the same calls in the same order give the same blocks,
//! hash by hash. That is also how it is kept on disk (`journal/`): what it was told is written down, and told again.
//!
//! Architecture invariant: nothing in the core waits, spawns, reads a clock or rolls a die. Time is an argument, randomness comes from the
//! genesis's seed. Nothing in here knows what a lane or an intent is.

mod accounts;
mod block;
mod calls;
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
pub use block::{Block, ChainEvent, LogEntry, Mined, Receipt};
pub use calls::MAX_COUNTED_METHODS;
pub use chain::{DevChain, OpenOptions, Remine, Sync};
pub use endpoint::{Admitted, Endpoint, Refusal};
pub use error::{CallError, ChainError, INVALID_PARAMS_CODE, REVERT_CODE, ReadError, RpcError, SERVER_ERROR_CODE};
pub use faults::{Fault, Faults, MAX_FAULT_RULES, On};
pub use genesis::{
    DEFAULT_BASE_FEE, DEFAULT_GAS_LIMIT, DEV_BALANCE_ETHER, DEV_CHAIN_ID, GWEI, Genesis, GenesisAccount, Limits, ether,
};
pub use pool::{POOL_ERROR_CODE, PoolError, PoolLimits, Shortage};
pub use query::{
    At, CallRequest, FeeHistory, Finality, FoundTx, LogBlocks, LogFilter, PoolContent, PoolStatus, TopCall,
};
pub use tx::{Envelope, Tx};
pub use view::{CLIENT_VERSION, View};
