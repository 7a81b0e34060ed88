//! The initial state of a chain, and its limits.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use crate::accounts::DEV_ACCOUNTS;
use crate::pool::PoolLimits;

/// The chain id of dev chains.
pub const DEV_CHAIN_ID: u64 = 31337;
pub const DEFAULT_GAS_LIMIT: u64 = 30_000_000;
pub const GWEI: u128 = 1_000_000_000;
/// The default base fee of block 0.
pub const DEFAULT_BASE_FEE: u64 = 1_000_000_000;
/// The initial balance of every dev account, in ether.
pub const DEV_BALANCE_ETHER: u64 = 10_000;
const WEI_PER_ETHER: u64 = 1_000_000_000_000_000_000;
/// 2025-01-01, so that a seeded chain always has the same timestamps.
const DEV_TIMESTAMP: u64 = 1_735_689_600;

/// The initial state and configuration of a chain. Two chains with the same genesis and the same calls have the same
/// blocks, hash by hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    pub chain_id: u64,
    pub accounts: Vec<GenesisAccount>,
    /// Timestamp of block 0, in seconds since 1970.
    pub timestamp: u64,
    pub gas_limit: u64,
    /// The base fee of block 0. The base fee of block 1 follows from it by the EIP-1559 formula.
    pub base_fee: u64,
    /// The account that receives the tips.
    pub coinbase: Address,
    /// The source of all randomness: prevrandao, the replacements of reorged blocks, the probabilities of faults.
    pub seed: u64,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisAccount {
    pub address: Address,
    pub balance: U256,
    pub nonce: u64,
    pub code: Bytes,
    pub storage: Vec<(U256, U256)>,
}

impl GenesisAccount {
    pub fn with_balance(address: Address, balance: U256) -> Self {
        Self { address, balance, nonce: 0, code: Bytes::new(), storage: Vec::new() }
    }
}

/// Limits that are not part of the chain's identity. They may differ when a chain is reopened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub pool: PoolLimits,
    /// Blocks that are kept, with their state. Older blocks are dropped, and a reorg cannot be deeper.
    pub history_blocks: u64,
    /// Orphaned blocks that stay readable by hash.
    pub orphans: usize,
    /// Depth of `finalized` behind the head, in blocks.
    pub finalized_depth: u64,
    /// Depth of `safe` behind the head, in blocks.
    pub safe_depth: u64,
    /// The maximum gas of a call or an estimate.
    pub call_gas: u64,
    /// Maximum entries in one answer to a log query.
    pub logs_per_answer: usize,
    /// Maximum blocks in one fee history.
    pub fee_history_blocks: u64,
    /// Events that a slow subscriber may be behind before it misses some.
    pub events: usize,
    /// Sends that a delay fault may hold back at the same time.
    pub delayed_sends: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pool: PoolLimits::default(),
            history_blocks: 65_536,
            orphans: 1_024,
            finalized_depth: 64,
            safe_depth: 32,
            call_gas: 50_000_000,
            logs_per_answer: 10_000,
            fee_history_blocks: 1_024,
            events: 4_096,
            delayed_sends: 16_384,
        }
    }
}

impl Genesis {
    /// Chain 31337 with the ten well-known accounts, 10,000 ether each.
    pub fn dev() -> Self {
        let balance = ether(DEV_BALANCE_ETHER);
        Self {
            chain_id: DEV_CHAIN_ID,
            accounts: DEV_ACCOUNTS.iter().map(|dev| GenesisAccount::with_balance(dev.address, balance)).collect(),
            timestamp: DEV_TIMESTAMP,
            gas_limit: DEFAULT_GAS_LIMIT,
            base_fee: DEFAULT_BASE_FEE,
            coinbase: Address::ZERO,
            seed: 0,
            limits: Limits::default(),
        }
    }

    /// A hash that identifies this genesis. The limits are not part of it.
    pub fn identity(&self) -> B256 {
        let mut bytes = Vec::new();
        for number in [self.chain_id, self.timestamp, self.gas_limit, self.base_fee, self.seed] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(self.coinbase.as_slice());
        for account in &self.accounts {
            bytes.extend_from_slice(account.address.as_slice());
            bytes.extend_from_slice(&account.balance.to_be_bytes::<32>());
            bytes.extend_from_slice(&account.nonce.to_be_bytes());
            bytes.extend_from_slice(keccak256(&account.code).as_slice());
            bytes.extend_from_slice(&(account.storage.len() as u64).to_be_bytes());
            for (slot, value) in &account.storage {
                bytes.extend_from_slice(&slot.to_be_bytes::<32>());
                bytes.extend_from_slice(&value.to_be_bytes::<32>());
            }
        }
        keccak256(bytes)
    }
}

/// Whole ether in wei.
pub fn ether(amount: u64) -> U256 {
    U256::from(amount) * U256::from(WEI_PER_ETHER)
}
