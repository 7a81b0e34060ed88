//! The pool's limits. The defaults are geth's.

use crate::genesis::GWEI;

/// Sizes are counted in slots of this many bytes: a transaction takes one, and one more for every slot that it is longer.
pub(crate) const SLOT_BYTES: usize = 32 * 1024;
/// The longest transaction.
pub(crate) const MAX_TX_BYTES: usize = 4 * SLOT_BYTES;
/// EIP-3860.
pub(crate) const MAX_INIT_CODE_BYTES: usize = 49_152;
const WEI_PER_ETHER: u128 = GWEI * GWEI;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// The least tip that is accepted, in wei.
    pub min_tip: u128,
    /// By how many percent both fees of a replacement have to be above the old ones.
    pub price_bump_percent: u128,
    /// Pending slots that an account keeps when there are too many of them.
    pub account_slots: usize,
    /// Pending slots of all accounts.
    pub global_slots: usize,
    /// Transactions of one account that may wait for a nonce before them.
    pub account_queue: usize,
    /// The same for all accounts.
    pub global_queue: usize,
    /// The most that a transaction may pay for its gas, in wei; 0 for any.
    pub tx_fee_cap: u128,
    /// Whether transactions without a chain id are taken.
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
    /// For benchmarks: the rules stay geth's, the pool is large enough for everything.
    pub fn roomy() -> Self {
        Self {
            account_slots: 65_536,
            global_slots: 1 << 20,
            account_queue: 65_536,
            global_queue: 1 << 20,
            ..Self::default()
        }
    }
}
