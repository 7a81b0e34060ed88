//! Limits on the input of callers.

use crate::action::ActionLimits;

/// Limits on one intent. The defaults are the config's defaults. Stored rows are not checked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub request_id_bytes: usize,
    pub metadata_bytes: usize,
    /// Longest time for which a nonce may be reserved. A strict lane binds nothing else during that time.
    pub hold_ms: u32,
    pub action: ActionLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_id_bytes: 128,
            metadata_bytes: 4 * 1024,
            hold_ms: 10 * 60 * 1000,
            action: ActionLimits::default(),
        }
    }
}
