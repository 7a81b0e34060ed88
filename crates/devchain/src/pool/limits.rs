//! The pool's limits. The defaults are geth's.

use crate::genesis::GWEI;

/// Bytes of one slot. A transaction takes one slot per started 32 KiB.
pub(crate) const SLOT_BYTES: usize = 32 * 1024;
/// Maximum length of a transaction.
pub(crate) const MAX_TX_BYTES: usize = 4 * SLOT_BYTES;
/// Maximum length of init code (EIP-3860).
pub(crate) const MAX_INIT_CODE_BYTES: usize = 49_152;
const WEI_PER_ETHER: u128 = GWEI * GWEI;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Minimum tip, in wei.
    pub min_tip: u128,
    /// Minimum increase of both fees for a replacement, in percent.
    pub price_bump_percent: u128,
    /// Pending slots that every account keeps when the pool is over its global limit.
    pub account_slots: usize,
    /// Pending slots of all accounts.
    pub global_slots: usize,
    /// Queued transactions of one account (behind a nonce gap).
    pub account_queue: usize,
    /// Queued transactions of all accounts.
    pub global_queue: usize,
    /// Maximum fee of a transaction, in wei. 0 means no limit.
    pub tx_fee_cap: u128,
    /// Accepts transactions without a chain id.
    pub allow_unprotected: bool,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            min_tip: 1,
            price_bump_percent: 10,
            account_slots: 16,
            global_slots: 5_120,
            account_queue: 64,
            global_queue: 1_024,
            tx_fee_cap: WEI_PER_ETHER,
            allow_unprotected: false,
        }
    }
}

impl PoolLimits {
    /// Limits for benchmarks: geth's rules with a very large pool.
    pub fn for_benchmarks() -> Self {
        Self {
            account_slots: 65_536,
            global_slots: 1 << 20,
            account_queue: 65_536,
            global_queue: 1 << 20,
            ..Self::default()
        }
    }
}
