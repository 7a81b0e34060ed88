//! Amounts in the smallest unit of the chain.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::U256;

/// A non-negative amount of at most 256 bits, written as a decimal string or 0x-hex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(U256);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("an amount is a decimal number or 0x followed by hex digits")]
    Malformed,
    #[error("an amount has at most 256 bits")]
    TooLarge,
}

impl Amount {
    pub const ZERO: Amount = Amount(U256::ZERO);

    pub const fn new(value: U256) -> Self {
        Amount(value)
    }

    pub const fn get(self) -> U256 {
        self.0
    }

    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        self.0.checked_add(other.0).map(Amount)
    }

    pub fn checked_mul(self, factor: u64) -> Option<Amount> {
        self.0.checked_mul(U256::from(factor)).map(Amount)
    }
}

impl From<u64> for Amount {
    fn from(value: u64) -> Self {
        Amount(U256::from(value))
    }
}

impl From<u128> for Amount {
    fn from(value: u128) -> Self {
        Amount(U256::from(value))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (digits, radix) = match text.strip_prefix("0x") {
            Some(hex) => (hex, 16),
            None => (text, 10),
        };
        // The number parser below also accepts signs and underscores; an amount must not contain them.
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return Err(AmountError::Malformed);
        }
        U256::from_str_radix(digits, u64::from(radix)).map(Amount).map_err(|_| AmountError::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimal_and_hex_text_parse_to_equal_amounts() {
        assert_eq!("255".parse::<Amount>(), Ok(Amount::from(255_u64)));
        assert_eq!("0xff".parse::<Amount>(), Ok(Amount::from(255_u64)));
        assert_eq!("0xFF".parse::<Amount>(), Ok(Amount::from(255_u64)));
    }

    #[test]
    fn malformed_amount_is_rejected() {
        for text in ["", "0x", "-1", "+1", "1_000", "1.5", "1e18", " 1", "0xgg", "0X1", "١"] {
            assert_eq!(text.parse::<Amount>(), Err(AmountError::Malformed), "{text:?}");
        }
        let over = format!("0x1{}", "0".repeat(64));
        assert_eq!(over.parse::<Amount>(), Err(AmountError::TooLarge));
    }

    proptest! {
        #[test]
        fn amount_text_round_trips(limbs in any::<[u64; 4]>()) {
            let amount = Amount::new(U256::from_limbs(limbs));
            prop_assert_eq!(amount.to_string().parse::<Amount>(), Ok(amount));
            prop_assert_eq!(format!("{:#x}", amount.get()).parse::<Amount>(), Ok(amount));
        }
    }
}
