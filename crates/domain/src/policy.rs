//! Policies: the choices a submitter is run by. The defaults are the seeds' settings.

use std::time::Duration;

use crate::amount::Amount;
use crate::nonce::Nonce;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmitterPolicy {
    pub nonce: NoncePolicy,
    pub resubmit: ResubmitPolicy,
    pub bump: BumpPolicy,
    pub confirmations: ConfirmationPolicy,
    pub funds: FundsPolicy,
    pub fees: FeePolicy,
    pub stuck: StuckRule,
    pub mempool: MempoolPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoncePolicy {
    /// How many bound nonces may be unconsumed at once; 1 is the strict mode.
    pub max_in_flight: u16,
    /// The same for an account with delegated code (EIP-7702): nodes take few pending transactions of such an account, and its
    /// code can use nonces by itself.
    pub delegated_max_in_flight: u16,
    pub release: ReleaseRule,
    pub start_from: StartFrom,
    pub on_external_nonce: ReservationPolicy,
}

/// When a nonce counts as consumed, so that the window moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseRule {
    Mined,
    Final,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    Nonce(Nonce),
    Chain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationPolicy {
    Protect,
    Adopt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResubmitPolicy {
    pub enabled: bool,
    pub interval: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BumpPolicy {
    pub enabled: bool,
    pub min_interval: Duration,
    pub max_attempts: u16,
    /// In thousandths: 1125 is a factor of 1.125. Money is not multiplied with floating point numbers.
    pub multiplier_permille: u32,
    /// Blocks that must have come since the last attempt went out: a chain that stands still is no matter of price.
    pub min_blocks: u32,
    /// The most that is offered, in thousandths of what the market asks.
    pub max_market_permille: u32,
    /// Only the lowest unmined nonce is raised; the others wait for it anyway.
    pub only_lowest: bool,
}

/// What may be offered. A caller's own fees are the caller's to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeePolicy {
    /// The most for one unit of gas, in wei; zero is no limit. What consumes a nonce without effect may pass it by one step.
    pub max_price: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckRule {
    /// Tries after which a decision is needed.
    pub after_tries: u16,
    /// How long it is before whoever said "wait" is asked again.
    pub ask_interval: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MempoolPolicy {
    /// Nodes' pools are looked into before anything is sent again.
    pub diagnose: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmationPolicy {
    pub required: u32,
    pub stale_receipt_timeout: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FundsPolicy {
    pub on_shortage: OnShortage,
    /// Consumers are told when the balance falls below this; zero tells nobody.
    pub low_balance: Amount,
}

/// What becomes of queued intents that the account cannot pay for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnShortage {
    #[default]
    Wait,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("max_in_flight is at least 1")]
    EmptyWindow,
    #[error("a bump multiplies by at least 1.1, or nodes refuse the replacement")]
    SmallMultiplier,
    #[error("confirmations.required is at least 1")]
    NoConfirmations,
    #[error("resubmit.interval is at least a second")]
    BusyResubmit,
    #[error("gas_bump.max_market is at least 1")]
    BelowMarket,
    #[error("stuck.after_tries is at least 1")]
    StuckAtOnce,
    #[error("stuck.ask_interval is at least a second")]
    BusyAsking,
}

impl Default for NoncePolicy {
    fn default() -> Self {
        NoncePolicy {
            max_in_flight: 1,
            delegated_max_in_flight: 1,
            release: ReleaseRule::Mined,
            start_from: StartFrom::Nonce(Nonce::ZERO),
            on_external_nonce: ReservationPolicy::Protect,
        }
    }
}

impl Default for ResubmitPolicy {
    fn default() -> Self {
        ResubmitPolicy { enabled: true, interval: Duration::from_secs(60) }
    }
}

impl Default for BumpPolicy {
    fn default() -> Self {
        BumpPolicy {
            enabled: false,
            min_interval: Duration::from_secs(60),
            max_attempts: 10,
            multiplier_permille: 1125,
            min_blocks: 2,
            max_market_permille: 3000,
            only_lowest: true,
        }
    }
}

impl Default for StuckRule {
    fn default() -> Self {
        StuckRule { after_tries: 10, ask_interval: Duration::from_secs(300) }
    }
}

impl Default for ConfirmationPolicy {
    fn default() -> Self {
        ConfirmationPolicy { required: 20, stale_receipt_timeout: Duration::from_secs(60) }
    }
}

impl SubmitterPolicy {
    pub fn validate(&self) -> Result<(), PolicyError> {
        if self.nonce.max_in_flight == 0 || self.nonce.delegated_max_in_flight == 0 {
            return Err(PolicyError::EmptyWindow);
        }
        if self.bump.multiplier_permille < 1100 {
            return Err(PolicyError::SmallMultiplier);
        }
        if self.confirmations.required == 0 {
            return Err(PolicyError::NoConfirmations);
        }
        if self.resubmit.interval < Duration::from_secs(1) {
            return Err(PolicyError::BusyResubmit);
        }
        if self.bump.max_market_permille < 1000 {
            return Err(PolicyError::BelowMarket);
        }
        if self.stuck.after_tries == 0 {
            return Err(PolicyError::StuckAtOnce);
        }
        if self.stuck.ask_interval < Duration::from_secs(1) {
            return Err(PolicyError::BusyAsking);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound_and_strict() {
        let policy = SubmitterPolicy::default();
        assert_eq!(policy.validate(), Ok(()));
        assert_eq!(policy.nonce.max_in_flight, 1);
        assert!(!policy.bump.enabled);
    }

    #[test]
    fn unsound_policies_are_told() {
        let nonce = NoncePolicy { max_in_flight: 0, ..NoncePolicy::default() };
        assert_eq!(SubmitterPolicy { nonce, ..SubmitterPolicy::default() }.validate(), Err(PolicyError::EmptyWindow));
        let bump = BumpPolicy { multiplier_permille: 1099, ..BumpPolicy::default() };
        assert_eq!(
            SubmitterPolicy { bump, ..SubmitterPolicy::default() }.validate(),
            Err(PolicyError::SmallMultiplier)
        );
    }
}
