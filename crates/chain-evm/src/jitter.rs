//! Random numbers for the jitter of pauses.

/// A random number from the system, or 0 (no jitter) if the system has none.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}
