//! The margin of gas limits over estimates.

use gapless_domain::Work;

/// Gas limit = estimate × factor + constant (F05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GasMargin {
    pub factor_permille: u32,
    pub constant: u64,
}

impl Default for GasMargin {
    fn default() -> Self {
        GasMargin { factor_permille: 1200, constant: 0 }
    }
}

impl GasMargin {
    pub(crate) fn limit(&self, estimate: u64) -> Work {
        let scaled = u128::from(estimate) * u128::from(self.factor_permille) / 1000;
        Work::new(u64::try_from(scaled).unwrap_or(u64::MAX).saturating_add(self.constant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves F05
    #[test]
    fn gas_limit_is_estimate_times_factor_plus_constant() {
        let margin = GasMargin { factor_permille: 1500, constant: 1000 };
        assert_eq!(margin.limit(100_000), Work::new(151_000));
        assert_eq!(margin.limit(u64::MAX), Work::new(u64::MAX));
    }
}
