//! What an attempt offers: from what the market asks, what was sent before, and the most that may be offered.
//!
//! Plain arithmetic, so that the same facts lead to the same price, whoever computes it and when (F07).

use crate::payload::Fees;
use crate::policy::{BumpPolicy, FeePolicy};

/// Every node takes a replacement that offers an eighth more in every field; some want only a tenth.
pub(crate) const NODE_STEP_PERMILLE: u32 = 1125;

/// What the chain asks now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Market {
    pub(crate) asks: Fees,
    /// Of the next block; zero where blocks have none.
    pub(crate) base_fee: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
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
    pub(crate) fn first_offer(self, fees: &FeePolicy) -> Offer {
        let cap = fees.cap();
        if self.least() > cap { Offer::AboveCap(cap) } else { Offer::At(self.asks.at_most(cap)) }
    }

    /// For the same once more, or for something else in its place: above everything that was sent, by the step of the policy or, near
    /// the cap, by what nodes want at the least (F01, F02).
    pub(crate) fn raised_offer(
        self,
        sent: impl Iterator<Item = Fees> + Clone,
        fees: &FeePolicy,
        bump: &BumpPolicy,
    ) -> Offer {
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
    pub(crate) fn filler_offer(self, sent: impl Iterator<Item = Fees>, fees: &FeePolicy) -> Fees {
        let least = self.least_above(sent);
        self.asks.at_most(fees.cap()).at_least(least)
    }

    /// What nodes take in the place of everything that was sent.
    fn least_above(self, sent: impl Iterator<Item = Fees>) -> Fees {
        sent.fold(self.asks.at_most(0), |offer, sent| offer.to_replace(sent, NODE_STEP_PERMILLE))
    }
}

/// Is a price that somebody named enough to take the place of everything that was sent? If not, this would be.
pub(crate) fn enough(named: Fees, sent: impl Iterator<Item = Fees>) -> Result<(), Fees> {
    let least = Market { asks: named, base_fee: 0 }.least_above(sent);
    if named.at_least(least) == named { Ok(()) } else { Err(least) }
}

impl FeePolicy {
    pub(crate) fn is_above_cap(&self, fees: Fees) -> bool {
        fees.highest_price() > self.cap()
    }

    fn cap(&self) -> u128 {
        if self.max_price == 0 { u128::MAX } else { self.max_price }
    }
}

impl Fees {
    /// At least this, and above `sent` by a factor in every field, rounded up, and by one wei at the least. The kind of price stays
    /// the same.
    pub(crate) fn to_replace(self, sent: Fees, step_permille: u32) -> Fees {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eip1559(max_fee: u128, max_priority_fee: u128) -> Fees {
        Fees::Eip1559 { max_fee, max_priority_fee }
    }

    fn market(max_fee: u128, tip: u128, base_fee: u128) -> Market {
        Market { asks: eip1559(max_fee, tip), base_fee }
    }

    fn capped(max_price: u128) -> FeePolicy {
        FeePolicy { max_price }
    }

    fn bumps() -> BumpPolicy {
        BumpPolicy { enabled: true, multiplier_permille: 1250, max_market_permille: 3000, ..BumpPolicy::default() }
    }

    #[test]
    fn every_field_is_raised_and_rounded_up() {
        let offer = market(100, 2, 40).raised_offer([eip1559(101, 1)].into_iter(), &capped(0), &bumps());
        assert_eq!(offer, Offer::At(eip1559(127, 2)));
        let legacy = Market { asks: Fees::Legacy { gas_price: 1 }, base_fee: 0 };
        let offer = legacy.raised_offer([Fees::Legacy { gas_price: 1 }].into_iter(), &capped(0), &bumps());
        assert_eq!(offer, Offer::At(Fees::Legacy { gas_price: 2 }), "at least one wei more");
    }

    /// proves F02
    #[test]
    fn near_the_cap_it_is_the_smallest_step_and_above_it_nothing() {
        let sent = [eip1559(100, 10)];
        let at = |cap| market(100, 10, 40).raised_offer(sent.into_iter(), &capped(cap), &bumps());
        assert_eq!(at(0), Offer::At(eip1559(125, 13)));
        assert_eq!(at(120), Offer::At(eip1559(120, 13)));
        assert_eq!(at(113), Offer::At(eip1559(113, 13)));
        assert_eq!(at(112), Offer::AboveCap(112));
        // Three times what the market asks.
        let offer = market(30, 3, 10).raised_offer(sent.into_iter(), &capped(0), &bumps());
        assert_eq!(offer, Offer::AboveCap(90));
        // What the next block wants is above the cap, so more would not help.
        assert_eq!(market(1000, 10, 490).raised_offer(sent.into_iter(), &capped(400), &bumps()), Offer::AboveCap(400));
    }

    /// proves F06
    #[test]
    fn a_spike_above_the_cap_is_waited_out() {
        assert_eq!(market(210, 10, 100).first_offer(&capped(150)), Offer::At(eip1559(150, 10)));
        assert_eq!(market(2010, 10, 1000).first_offer(&capped(150)), Offer::AboveCap(150));
        assert_eq!(market(2010, 10, 1000).first_offer(&capped(0)), Offer::At(eip1559(2010, 10)));
    }

    #[test]
    fn what_fills_a_nonce_may_pass_the_cap_by_one_step() {
        let fees = market(2010, 10, 1000).filler_offer([eip1559(150, 10)].into_iter(), &capped(150));
        assert_eq!(fees, eip1559(169, 12));
        assert_eq!(market(2010, 10, 1000).filler_offer(std::iter::empty(), &capped(150)), eip1559(150, 10));
    }

    #[test]
    fn a_named_price_is_enough_or_says_what_would_be() {
        let sent = [eip1559(100, 10), eip1559(80, 20)];
        assert_eq!(enough(eip1559(113, 23), sent.into_iter()), Ok(()));
        assert_eq!(enough(eip1559(113, 22), sent.into_iter()), Err(eip1559(113, 23)));
        assert_eq!(enough(eip1559(1, 1), std::iter::empty()), Ok(()));
    }

    fn any_fees() -> impl Strategy<Value = Fees> {
        let price = || prop_oneof![0..1000_u128, any::<u128>()];
        prop_oneof![
            price().prop_map(|gas_price| Fees::Legacy { gas_price }),
            (price(), price()).prop_map(|(a, b)| eip1559(a.max(b), a.min(b))),
        ]
    }

    proptest! {
        /// proves F01, F02, F07
        #[test]
        fn a_raise_outbids_everything_and_stays_below_the_cap(
            asks in any_fees(), base_fee in 0..2000_u128, max_price in prop_oneof![Just(0), 1..5000_u128, any::<u128>()],
            sent in proptest::collection::vec(any_fees(), 0..5), multiplier in 1100..3000_u32, max_market in 1000..10_000_u32,
        ) {
            let bump = BumpPolicy { multiplier_permille: multiplier, max_market_permille: max_market, ..bumps() };
            let (market, fees) = (Market { asks, base_fee }, capped(max_price));
            let offer = market.raised_offer(sent.iter().copied(), &fees, &bump);
            prop_assert_eq!(offer, market.raised_offer(sent.iter().copied(), &fees, &bump));
            if let Offer::At(offer) = offer {
                prop_assert!(offer.highest_price() <= fees.cap());
                prop_assert!(offer.tip() <= offer.highest_price());
                for sent in &sent {
                    for (new, old) in [(offer.highest_price(), sent.highest_price()), (offer.tip(), sent.tip())] {
                        prop_assert!(new > old || old == u128::MAX);
                        // A tenth, and a bit: what every node takes.
                        prop_assert!(new >= old.saturating_add(old.div_ceil(10)) || new == u128::MAX);
                    }
                }
            }
        }

        #[test]
        fn a_filler_outbids_everything(
            asks in any_fees(), sent in proptest::collection::vec(any_fees(), 1..5), max_price in any::<u128>(),
        ) {
            let offer = Market { asks, base_fee: 0 }.filler_offer(sent.iter().copied(), &capped(max_price));
            let is_above = |sent: &Fees| offer.highest_price() > sent.highest_price() || sent.highest_price() == u128::MAX;
            prop_assert!(sent.iter().all(is_above));
        }

        #[test]
        fn what_is_named_as_enough_is_enough(named in any_fees(), sent in proptest::collection::vec(any_fees(), 0..5)) {
            if let Err(least) = enough(named, sent.iter().copied()) {
                prop_assert_eq!(enough(named.at_least(least), sent.iter().copied()), Ok(()));
            }
        }
    }
}
