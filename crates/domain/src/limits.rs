//! Limits on the input of callers.

/// Limits on one intent. The defaults are the config's defaults. Stored rows are not checked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub request_id_bytes: usize,
    /// Calldata or init code. Nodes reject transactions over 128 KiB.
    pub data_bytes: usize,
    pub metadata_bytes: usize,
    pub access_list_items: usize,
    pub access_list_keys: usize,
    pub authorizations: usize,
    pub gas_limit: u64,
    /// Longest time for which a nonce may be reserved. A strict lane binds nothing else during that time.
    pub hold_ms: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_id_bytes: 128,
            data_bytes: 120 * 1024,
            metadata_bytes: 4 * 1024,
            access_list_items: 256,
            access_list_keys: 2048,
            authorizations: 16,
            gas_limit: 1 << 32,
            hold_ms: 10 * 60 * 1000,
        }
    }
}
