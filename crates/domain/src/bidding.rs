//! Fee arithmetic: the price of an attempt, from the market's price, the prices of earlier attempts at the same nonce,
//! and the cap of the policy.
//!
//! The functions are pure, so the same facts give the same price on every node and at any time (F07).

use crate::action::{Fees, times};
use crate::policy::{BumpPolicy, FeePolicy};

/// Prices that the chain asks for at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Market {
    pub(crate) asks: Fees,
    /// Base fee of the next block; zero on chains whose blocks have no base fee.
    pub(crate) base_fee: u128,
    /// Smallest factor of a replacing price, in thousandths, by the rules of the chain.
    pub(crate) replace_step: u32,
}

/// A price that is needed, and the cap below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CapExceeded {
    pub(crate) needed: u128,
    pub(crate) cap: u128,
}

/// Result of pricing one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    At(Fees),
    /// The lowest price that helps is above the cap.
    AboveCap(CapExceeded),
}

impl Market {
    /// The lowest price that the next block accepts.
    fn least(self) -> u128 {
        self.asks.least_at(self.base_fee)
    }

    /// Price of the first attempt at a nonce.
    pub(crate) fn first_offer(self, fees: &FeePolicy) -> Offer {
        let (needed, cap) = (self.least(), fees.cap());
        if needed > cap { Offer::AboveCap(CapExceeded { needed, cap }) } else { Offer::At(self.asks.at_most(cap)) }
    }

    /// Price of a later attempt at a nonce: above every earlier attempt, by the step of the policy or, near the cap, by
    /// the smallest step that nodes accept (F01, F02).
    pub(crate) fn bump_offer(
        self,
        sent: impl Iterator<Item = Fees> + Clone,
        fees: &FeePolicy,
        bump: &BumpPolicy,
    ) -> Offer {
        let of_market = times(self.asks.highest_price(), bump.max_market_permille);
        let cap = fees.cap().min(of_market);
        let least = self.least_above(sent.clone());
        let needed = least.highest_price().max(self.least());
        if needed > cap {
            return Offer::AboveCap(CapExceeded { needed, cap });
        }
        let wanted = sent.fold(self.asks, |offer, sent| offer.to_replace(sent, bump.multiplier_permille));
        Offer::At(wanted.at_most(cap).at_least(least))
    }

    /// Price of a filler. A filler may go above the cap by one step, because the nonces behind it wait for it.
    pub(crate) fn filler_offer(self, sent: impl Iterator<Item = Fees>, fees: &FeePolicy) -> Fees {
        let least = self.least_above(sent);
        self.asks.at_most(fees.cap()).at_least(least)
    }

    /// The lowest price that nodes accept in place of all attempts in `sent`.
    fn least_above(self, sent: impl Iterator<Item = Fees>) -> Fees {
        sent.fold(self.asks.at_most(0), |offer, sent| offer.to_replace(sent, self.replace_step))
    }
}

/// Checks that a price set by the caller replaces all attempts in `sent`, by this smallest factor. The error is the
/// lowest price that would.
pub(crate) fn check_replaces(named: Fees, sent: impl Iterator<Item = Fees>, replace_step: u32) -> Result<(), Fees> {
    let least = Market { asks: named, base_fee: 0, replace_step }.least_above(sent);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An eighth, as on most chains.
    const STEP: u32 = 1125;

    fn tipped(highest: u128, tip: u128) -> Fees {
        Fees::with_tip(highest, tip)
    }

    fn market(max_fee: u128, tip: u128, base_fee: u128) -> Market {
        Market { asks: tipped(max_fee, tip), base_fee, replace_step: STEP }
    }

    fn capped(max_price: u128) -> FeePolicy {
        FeePolicy { max_price }
    }

    fn bumps() -> BumpPolicy {
        BumpPolicy { enabled: true, multiplier_permille: 1250, max_market_permille: 3000, ..BumpPolicy::default() }
    }

    #[test]
    fn bump_price_raises_every_field_and_rounds_up() {
        let offer = market(100, 2, 40).bump_offer([tipped(101, 1)].into_iter(), &capped(0), &bumps());
        assert_eq!(offer, Offer::At(tipped(127, 2)));
        let flat = Market { asks: Fees::flat(1), base_fee: 0, replace_step: STEP };
        let offer = flat.bump_offer([Fees::flat(1)].into_iter(), &capped(0), &bumps());
        assert_eq!(offer, Offer::At(Fees::flat(2)), "the smallest step is one");
    }

    /// proves F02
    #[test]
    fn bump_price_near_cap_takes_smallest_step() {
        let sent = [tipped(100, 10)];
        let at = |cap| market(100, 10, 40).bump_offer(sent.into_iter(), &capped(cap), &bumps());
        assert_eq!(at(0), Offer::At(tipped(125, 13)));
        assert_eq!(at(120), Offer::At(tipped(120, 13)));
        assert_eq!(at(113), Offer::At(tipped(113, 13)));
        assert_eq!(at(112), Offer::AboveCap(CapExceeded { needed: 113, cap: 112 }));
        // The policy allows at most three times the market's price.
        let offer = market(30, 3, 10).bump_offer(sent.into_iter(), &capped(0), &bumps());
        assert_eq!(offer, Offer::AboveCap(CapExceeded { needed: 113, cap: 90 }));
        // The next block asks for more than the cap, so a bump up to the cap would not help.
        let offer = market(1000, 10, 490).bump_offer(sent.into_iter(), &capped(400), &bumps());
        assert_eq!(offer, Offer::AboveCap(CapExceeded { needed: 500, cap: 400 }));
    }

    /// proves F06
    #[test]
    fn first_price_above_cap_is_not_offered() {
        assert_eq!(market(210, 10, 100).first_offer(&capped(150)), Offer::At(tipped(150, 10)));
        assert_eq!(
            market(2010, 10, 1000).first_offer(&capped(150)),
            Offer::AboveCap(CapExceeded { needed: 1010, cap: 150 })
        );
        assert_eq!(market(2010, 10, 1000).first_offer(&capped(0)), Offer::At(tipped(2010, 10)));
    }

    #[test]
    fn filler_price_may_exceed_cap_by_one_step() {
        let fees = market(2010, 10, 1000).filler_offer([tipped(150, 10)].into_iter(), &capped(150));
        assert_eq!(fees, tipped(169, 12));
        assert_eq!(market(2010, 10, 1000).filler_offer(std::iter::empty(), &capped(150)), tipped(150, 10));
    }

    #[test]
    fn named_price_too_low_returns_lowest_accepted_price() {
        let sent = [tipped(100, 10), tipped(80, 20)];
        assert_eq!(check_replaces(tipped(113, 23), sent.into_iter(), STEP), Ok(()));
        assert_eq!(check_replaces(tipped(113, 22), sent.into_iter(), STEP), Err(tipped(113, 23)));
        assert_eq!(check_replaces(tipped(1, 1), std::iter::empty(), STEP), Ok(()));
    }

    fn any_fees() -> impl Strategy<Value = Fees> {
        let price = || prop_oneof![0..1000_u128, any::<u128>()];
        prop_oneof![price().prop_map(Fees::flat), (price(), price()).prop_map(|(a, b)| tipped(a.max(b), a.min(b))),]
    }

    proptest! {
        /// proves F01, F02, F07
        #[test]
        fn bump_price_exceeds_all_attempts_and_respects_cap(
            asks in any_fees(),
                base_fee in 0..2000_u128,
                max_price in prop_oneof![Just(0), 1..5000_u128, any::<u128>()],
                sent in proptest::collection::vec(any_fees(), 0..5),
                multiplier in 1100..3000_u32,
                max_market in 1000..10_000_u32,
        ) {
            let bump = BumpPolicy { multiplier_permille: multiplier, max_market_permille: max_market, ..bumps() };
            let (market, fees) = (Market { asks, base_fee, replace_step: STEP }, capped(max_price));
            let offer = market.bump_offer(sent.iter().copied(), &fees, &bump);
            prop_assert_eq!(offer, market.bump_offer(sent.iter().copied(), &fees, &bump));
            if let Offer::At(offer) = offer {
                prop_assert!(offer.highest_price() <= fees.cap());
                prop_assert!(offer.tip() <= offer.highest_price());
                for sent in &sent {
                    for (new, old) in [(offer.highest_price(), sent.highest_price()), (offer.tip(), sent.tip())] {
                        prop_assert!(new > old || old == u128::MAX);
                        // Every node accepts a replacement that offers a tenth more.
                        prop_assert!(new >= old.saturating_add(old.div_ceil(10)) || new == u128::MAX);
                    }
                }
            }
        }

        #[test]
        fn filler_price_exceeds_all_attempts(
            asks in any_fees(), sent in proptest::collection::vec(any_fees(), 1..5), max_price in any::<u128>(),
        ) {
            let market = Market { asks, base_fee: 0, replace_step: STEP };
            let offer = market.filler_offer(sent.iter().copied(), &capped(max_price));
            let is_above =
                |sent: &Fees| offer.highest_price() > sent.highest_price() || sent.highest_price() == u128::MAX;
            prop_assert!(sent.iter().all(is_above));
        }

        #[test]
        fn lowest_accepted_price_is_accepted(named in any_fees(), sent in proptest::collection::vec(any_fees(), 0..5)) {
            if let Err(least) = check_replaces(named, sent.iter().copied(), STEP) {
                prop_assert_eq!(check_replaces(named.at_least(least), sent.iter().copied(), STEP), Ok(()));
            }
        }
    }
}
