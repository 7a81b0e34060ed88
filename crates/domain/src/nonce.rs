//! Nonces of a lane.

use std::fmt;

/// An account nonce. Nonces stay below `i64::MAX`, so that both databases hold them in a plain BIGINT and `next` exists
/// for each of them. The limit of EIP-2681 is only a factor of two higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nonce {0} is beyond what an account can ever use")]
pub struct NonceError(pub u64);

impl Nonce {
    pub const ZERO: Nonce = Nonce(0);
    pub const MAX: Nonce = Nonce(i64::MAX as u64 - 1);

    pub fn new(value: u64) -> Result<Self, NonceError> {
        if value <= Self::MAX.0 { Ok(Nonce(value)) } else { Err(NonceError(value)) }
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The nonce after this one. The last nonce has no successor.
    pub fn next(self) -> Result<Self, NonceError> {
        Self::new(self.0.saturating_add(1))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_nonce_has_no_successor() {
        assert_eq!(Nonce::new(41).and_then(Nonce::next), Nonce::new(42));
        assert!(Nonce::MAX.next().is_err());
        assert!(Nonce::new(u64::MAX).is_err());
    }
}
