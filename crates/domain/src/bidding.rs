//! What an attempt offers: from what the market asks, what was sent before, and the most that may be offered.
//!
//! Plain arithmetic, so that the same facts lead to the same price, whoever computes it and when (F07).

use crate::payload::Fees;
use crate::policy::{BumpPolicy, FeePolicy};

/// Every node takes a replacement that offers an eighth more in every field; some want only a tenth.
pub const NODE_STEP_PERMILLE: u32 = 1125;

/// What the chain asks now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Market {
    pub asks: Fees,
    /// Of the next block; zero where blocks have none.
    pub base_fee: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    At(Fees),
    /// More would be needed than may be offered, which is this for one unit of gas.
    AboveCap(u128),
}

impl Market {
    /// The least that the next block takes.
    fn least(self) -> u128 {
        match self.asks {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Eip1559 { max_fee, max_priority_fee } => self.base_fee.saturating_add(max_priority_fee).min(max_fee),
        }
    }

    /// For what was never sent.
    pub fn first_offer(self, fees: &FeePolicy) -> Offer {
        let cap = fees.cap();
        if self.least() > cap { Offer::AboveCap(cap) } else { Offer::At(self.asks.at_most(cap)) }
    }

    /// For the same once more, or for something else in its place: above everything that was sent, by the step of the policy or, near
    /// the cap, by what nodes want at the least (F01, F02).
    pub fn raised_offer(self, sent: impl Iterator<Item = Fees> + Clone, fees: &FeePolicy, bump: &BumpPolicy) -> Offer {
        let of_market = times(self.asks.highest_price(), bump.max_market_permille);
        let cap = fees.cap().min(of_market);
        let least = self.least_above(sent.clone());
        if least.highest_price() > cap || self.least() > cap {
            return Offer::AboveCap(cap);
        }
        let wanted = sent.fold(self.asks, |offer, sent| offer.to_replace(sent, bump.multiplier_permille));
        Offer::At(wanted.at_most(cap).at_least(least))
    }

    /// For what consumes a nonce without effect, which may pass the cap by one step: somebody waits for the nonces behind it.
    pub fn filler_offer(self, sent: impl Iterator<Item = Fees>, fees: &FeePolicy) -> Fees {
        let least = self.least_above(sent);
        self.asks.at_most(fees.cap()).at_least(least)
    }

    /// What nodes take in the place of everything that was sent.
    fn least_above(self, sent: impl Iterator<Item = Fees>) -> Fees {
        sent.fold(self.asks.at_most(0), |offer, sent| offer.to_replace(sent, NODE_STEP_PERMILLE))
    }
}

/// Is a price that somebody named enough to take the place of everything that was sent? If not, this would be.
pub fn enough(named: Fees, sent: impl Iterator<Item = Fees>) -> Result<(), Fees> {
    let least = Market { asks: named, base_fee: 0 }.least_above(sent);
    if named.at_least(least) == named { Ok(()) } else { Err(least) }
}

impl FeePolicy {
    fn cap(&self) -> u128 {
        if self.max_price == 0 { u128::MAX } else { self.max_price }
    }
}

impl Fees {
    /// At least this, and above `sent` by a factor in every field, rounded up, and by one wei at the least. The kind of price stays
    /// the same.
    pub fn to_replace(self, sent: Fees, step_permille: u32) -> Fees {
        let above = |price: u128| times(price, step_permille).max(price.saturating_add(1));
        self.at_least(match self {
            Fees::Legacy { .. } => Fees::Legacy { gas_price: above(sent.highest_price()) },
            Fees::Eip1559 { .. } => {
                Fees::Eip1559 { max_fee: above(sent.highest_price()), max_priority_fee: above(sent.tip()) }
            }
        })
    }

    fn at_most(self, cap: u128) -> Fees {
        match self {
            Fees::Legacy { gas_price } => Fees::Legacy { gas_price: gas_price.min(cap) },
            Fees::Eip1559 { max_fee, max_priority_fee } => {
                Fees::Eip1559 { max_fee: max_fee.min(cap), max_priority_fee: max_priority_fee.min(cap) }
            }
        }
    }

    /// In every field; a tip is never above the whole.
    fn at_least(self, other: Fees) -> Fees {
        match self {
            Fees::Legacy { gas_price } => Fees::Legacy { gas_price: gas_price.max(other.highest_price()) },
            Fees::Eip1559 { max_fee, max_priority_fee } => {
                let max_priority_fee = max_priority_fee.max(other.tip());
                let max_fee = max_fee.max(other.highest_price()).max(max_priority_fee);
                Fees::Eip1559 { max_fee, max_priority_fee }
            }
        }
    }
}

/// Rounded up. A price that does not fit is the highest that there is.
fn times(price: u128, permille: u32) -> u128 {
    let (whole, rest) = (price / 1000, price % 1000);
    let part = rest.saturating_mul(u128::from(permille)).div_ceil(1000);
    whole.checked_mul(u128::from(permille)).map_or(u128::MAX, |whole| whole.saturating_add(part))
}
