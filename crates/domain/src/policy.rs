//! Policies: the settings of one submitter. The defaults are the config's defaults.

use std::time::Duration;

use crate::amount::Amount;
use crate::nonce::Nonce;

/// All policies of a submitter.
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
    /// Largest number of bound nonces that are not consumed; 1 is the strict mode.
    pub max_in_flight: u16,
    /// `max_in_flight` for a narrow account (`delegated_max_in_flight` in the config): nodes accept few pending
    /// transactions of such an account, or its nonces can be consumed without a transaction.
    pub narrow_max_in_flight: u16,
    pub release: ReleaseRule,
    pub start_from: StartFrom,
    pub on_external_nonce: ExternalNoncePolicy,
}

/// The event that counts as consumption of a nonce, so that the window moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseRule {
    Mined,
    Final,
}

/// First nonce of a lane that never bound one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// This nonce. The lane enters PROTECT if the account's nonce is another one.
    Nonce(Nonce),
    /// The account's nonce on chain, once it is final.
    Chain,
}

/// Reaction to a nonce that was consumed outside of Gapless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalNoncePolicy {
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
    /// Factor in thousandths: 1125 is a factor of 1.125. Prices are not multiplied with floating point numbers.
    pub multiplier_permille: u32,
    /// Number of blocks since the last attempt was sent that a bump waits for. A higher price does not help on a chain
    /// that makes no blocks.
    pub min_blocks: u32,
    /// Highest price, in thousandths of the market's price.
    pub max_market_permille: u32,
    /// Bump only the lowest unmined nonce; the others wait for it anyway.
    pub only_lowest: bool,
}

/// Price limits. They do not apply to fees that the caller sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeePolicy {
    /// Highest price of one unit of work; zero is no limit. A filler may exceed it by one step.
    pub max_price: u128,
}

/// When an intent is stuck, and how often a decision is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckRule {
    /// Number of tries after which an intent needs a decision.
    pub after_tries: u16,
    /// Time until a new decision is requested after the decision "wait".
    pub ask_interval: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MempoolPolicy {
    /// Diagnose the mempools of the nodes before anything is sent again.
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
    /// Consumers are notified when the balance falls below this amount; zero disables the event.
    pub low_balance: Amount,
}

/// Reaction to queued intents that the account cannot pay for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnShortage {
    #[default]
    Wait,
    Fail,
}

/// A policy that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("max_in_flight is at least 1")]
    EmptyWindow,
    #[error("gas_bump.multiplier is at least 1.1; nodes reject a smaller replacement")]
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
            narrow_max_in_flight: 1,
            release: ReleaseRule::Mined,
            start_from: StartFrom::Nonce(Nonce::ZERO),
            on_external_nonce: ExternalNoncePolicy::Protect,
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
        if self.nonce.max_in_flight == 0 || self.nonce.narrow_max_in_flight == 0 {
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
    fn default_policy_is_valid_and_strict() {
        let policy = SubmitterPolicy::default();
        assert_eq!(policy.validate(), Ok(()));
        assert_eq!(policy.nonce.max_in_flight, 1);
        assert!(!policy.bump.enabled);
    }

    #[test]
    fn invalid_policies_are_rejected() {
        let nonce = NoncePolicy { max_in_flight: 0, ..NoncePolicy::default() };
        assert_eq!(SubmitterPolicy { nonce, ..SubmitterPolicy::default() }.validate(), Err(PolicyError::EmptyWindow));
        let bump = BumpPolicy { multiplier_permille: 1099, ..BumpPolicy::default() };
        assert_eq!(
            SubmitterPolicy { bump, ..SubmitterPolicy::default() }.validate(),
            Err(PolicyError::SmallMultiplier)
        );
    }
}
