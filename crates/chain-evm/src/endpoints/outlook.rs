//! Who is asked and who is believed, from what is seen of each endpoint at one moment. Nothing in here asks anybody.

use std::cmp::Reverse;
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::EndpointHealth;
use tokio::time::Instant;

use crate::endpoint::{HeadClaim, Sight, Standing};

/// So long the word of an endpoint stands that is not well any more.
const CLAIM_STANDS: Duration = Duration::from_secs(30);
/// The same for one that is well: it is asked far more often than this, so one that old is no word of the present.
const GOOD_CLAIM_STANDS: Duration = Duration::from_secs(5 * 60);
/// Blocks that a head may be above all others without being shown. Endpoints that are up to date are never so far apart.
const MAX_LEAP: u64 = 1_000;
/// Two whose heads are no further apart than this bear each other out. Two that are still syncing rarely are so close.
const AGREEING: u64 = 16;

/// When an endpoint counts as lagging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LagTerms {
    /// Behind by more blocks than this.
    pub(crate) lag_max: u64,
    /// Its head has stood still for so long while another's moved.
    pub(crate) head_age_max: Duration,
}

/// One endpoint, with what only others tell about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) sight: Sight,
    /// When another's head first moved since its own did.
    pub(super) overtaken_at: Option<Instant>,
    /// It has not been given a pause from transactions.
    pub(super) takes_sends: bool,
}

/// All of them, in the order of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Outlook {
    pub(super) now: Instant,
    pub(super) terms: LagTerms,
    pub(super) all: Vec<Seen>,
    /// The head that was told last: among equals, whoever shows the same block is on our fork.
    pub(super) told: Option<B256>,
}

impl Outlook {
    /// What we think of an endpoint.
    pub(super) fn standing(&self, place: usize) -> EndpointHealth {
        let Some(seen) = self.all.get(place) else { return EndpointHealth::Unchecked };
        match seen.sight.standing {
            Standing::WrongChain => EndpointHealth::WrongChain,
            _ if seen.sight.is_limited => EndpointHealth::RateLimited,
            Standing::Unchecked => EndpointHealth::Unchecked,
            Standing::Down => EndpointHealth::Down,
            Standing::Good if seen.sight.is_flipping => EndpointHealth::Flipping,
            Standing::Good if self.is_lagging(place) => EndpointHealth::Lagging,
            Standing::Good => EndpointHealth::Good,
        }
    }

    /// Blocks behind the newest head that anybody credibly tells of; unknown if it was not heard of for a while.
    pub(super) fn lag(&self, place: usize) -> Option<u64> {
        let own = self.claim(place).filter(|own| self.now.duration_since(own.heard_at) < CLAIM_STANDS)?;
        Some(self.newest_of(|_| true)?.saturating_sub(own.number))
    }

    /// The newest head that somebody credibly tells of who counts.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest_of(|place| !self.is_spared(place))
    }

    /// Is what it says of the present?
    pub(super) fn is_believed(&self, place: usize) -> bool {
        let own = self.claim(place).map(|own| own.number);
        self.is_plausible(place) && own >= self.newest_of(|other| other != place && !self.is_spared(other))
    }

    /// Its head is not out of all reason.
    pub(super) fn is_plausible(&self, place: usize) -> bool {
        self.claim(place).is_none_or(|own| self.is_credible(place, own))
    }

    /// Whom to ask for what has to be of the present, the best first.
    pub(super) fn for_reading(&self) -> Vec<usize> {
        let moving = self.ranked(|place| self.is_usable(place) && !self.is_stuck(place));
        // Whoever made the others seem stuck may be gone since, and may have been wrong.
        if moving.is_empty() { self.for_finding() } else { moving }
    }

    /// Whom to ask for what is named by its hash: those that lag too, last.
    pub(super) fn for_finding(&self) -> Vec<usize> {
        self.ranked(|place| self.is_usable(place))
    }

    /// Whom to ask where its head is.
    pub(super) fn for_heads(&self, spare_age: Duration) -> Vec<usize> {
        self.ranked(|place| {
            let claim = self.claim(place);
            let is_known = claim.is_some_and(|claim| self.now.duration_since(claim.heard_at) < spare_age);
            self.is_askable(place) && (!self.is_spared(place) || !is_known)
        })
    }

    /// Those of a ranked list that are as good as its first, by weight.
    pub(super) fn equals(&self, ranked: &[usize]) -> Vec<(usize, u32)> {
        let Some(first) = ranked.first() else { return Vec::new() };
        let rank = self.rank(*first);
        let equals = ranked.iter().take_while(|place| self.rank(**place) == rank);
        equals.filter_map(|place| Some((*place, self.all.get(*place)?.sight.weight))).collect()
    }

    /// Whom a transaction is given to, the best first, and whom it should be given to but cannot be now.
    pub(super) fn for_sending(&self) -> (Vec<usize>, Vec<usize>) {
        let of_chain = |place: &usize| self.is(*place, |sight| sight.standing != Standing::WrongChain);
        let all = self.ranked(|place| of_chain(&place) && !self.is_spared(place));
        let is_barred = |place: usize| self.is(place, |sight| sight.is_barred);
        let is_well = |place: usize| self.is(place, |sight| sight.standing == Standing::Good);
        let is_due = |place: usize| self.all.get(place).is_some_and(|seen| seen.sight.is_due && seen.takes_sends);
        let any_well = all.iter().any(|place| is_due(*place) && is_well(*place));
        let any_due = all.iter().any(|place| is_due(*place));
        // One that is well and was only given a pause by us is better than one that may be back, and one that was away a
        // moment ago is better than none; but whoever asked to be left alone is left alone.
        let is_needed = |place| !is_barred(place) && ((!any_well && is_well(place)) || !any_due);
        all.into_iter().partition(|place| is_due(*place) || is_needed(*place))
    }

    /// It is well, and may be asked.
    pub(super) fn is_askable(&self, place: usize) -> bool {
        self.is(place, |sight| sight.standing == Standing::Good && !sight.is_barred)
    }

    /// Askable, and of one mind. An endpoint that flips between forks is better than none, and worse than any other.
    pub(super) fn is_usable(&self, place: usize) -> bool {
        self.is_askable(place) && !self.is_spared(place) && self.is_of_one_mind(place)
    }

    /// One that flips gives way only to one that is as new, or nearly so: what either fork says is closer to the truth than
    /// what one says that is still syncing.
    fn is_of_one_mind(&self, place: usize) -> bool {
        let is_flipping = |place| self.is(place, |sight| sight.is_flipping);
        let number = |place| self.claim(place).map(|claim| claim.number);
        let is_as_new = |other| number(other).map(|number| number.saturating_add(self.terms.lag_max)) >= number(place);
        let is_better =
            |other| self.is_askable(other) && !is_flipping(other) && !self.is_stuck(other) && is_as_new(other);
        !is_flipping(place) || !(0..self.all.len()).any(is_better)
    }

    /// What it says of its head stands, and is to be believed of it.
    pub(super) fn is_heeded(&self, place: usize) -> bool {
        self.claims().any(|(other, claim)| other == place && self.is_credible(place, claim))
    }

    /// Without a weight, and there is somebody with one who is well.
    fn is_spared(&self, place: usize) -> bool {
        let is_spare = |place| self.is(place, |sight| sight.weight == 0);
        let is_well = |place| self.standing(place) == EndpointHealth::Good;
        is_spare(place) && (0..self.all.len()).any(|other| !is_spare(other) && is_well(other))
    }

    /// Behind, or stuck.
    fn is_lagging(&self, place: usize) -> bool {
        self.is_stuck(place) || self.lag(place).is_some_and(|lag| lag > self.terms.lag_max)
    }

    /// Its head stood still for too long while another's moved: whatever its number is, it is of the past.
    fn is_stuck(&self, place: usize) -> bool {
        let since = self.all.get(place).and_then(|seen| seen.overtaken_at);
        let heard = self.claim(place).map(|claim| claim.heard_at);
        heard.zip(since).is_some_and(|(heard, since)| heard.saturating_duration_since(since) > self.terms.head_age_max)
    }

    fn newest_of(&self, who: impl Fn(usize) -> bool) -> Option<u64> {
        let credible = self.claims().filter(|(place, claim)| who(*place) && self.is_credible(*place, *claim));
        credible.map(|(_, claim)| claim.number).max()
    }

    /// A head far above all others counts only if it was shown, and not against two that bear each other out: one endpoint
    /// that makes up heads would put all others into the past. Between one and one nobody can tell who is right; there the
    /// newer one counts, since one that is still syncing is far more common than one that lies.
    fn is_credible(&self, place: usize, claim: HeadClaim) -> bool {
        let mut others: Vec<u64> =
            self.claims().filter(|(other, _)| *other != place).map(|(_, claim)| claim.number).collect();
        others.sort_unstable();
        let is_far_above = others.last().is_some_and(|newest| claim.number > newest.saturating_add(MAX_LEAP));
        let agreeing = |pair: &[u64]| matches!(pair, [first, second] if second - first <= AGREEING);
        !is_far_above || (claim.shown && !others.windows(2).any(agreeing))
    }

    /// Who tells of which head, as far as it stands.
    fn claims(&self) -> impl Iterator<Item = (usize, HeadClaim)> {
        (0..self.all.len()).filter_map(|place| {
            let claim = self.claim(place)?;
            let stands_for = match self.all.get(place)?.sight.standing {
                Standing::Good if self.is_askable(place) => GOOD_CLAIM_STANDS,
                Standing::Good | Standing::Unchecked | Standing::Down => CLAIM_STANDS,
                // What it says is of elsewhere.
                Standing::WrongChain => Duration::ZERO,
            };
            let stands = self.now.duration_since(claim.heard_at) < stands_for;
            (stands && !self.is_stuck(place) && self.is_of_one_mind(place)).then_some((place, claim))
        })
    }

    fn ranked(&self, who: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.all.len()).filter(|place| who(*place)).collect();
        let weight = |place: usize| self.all.get(place).map(|seen| seen.sight.weight);
        places.sort_by_key(|place| (self.rank(*place), Reverse(weight(*place)), *place));
        places
    }

    /// The less, the better.
    fn rank(&self, place: usize) -> impl Ord + use<> {
        let claim = self.claim(place);
        let of_our_fork = self.told.is_some() && claim.and_then(|claim| claim.hash) == self.told;
        (
            !self.is_askable(place),
            self.is(place, |sight| sight.is_limited),
            self.is(place, |sight| sight.weight == 0),
            self.is_stuck(place),
            self.is(place, |sight| sight.is_flipping),
            self.is(place, |sight| sight.is_doubtful),
            // One that has only named a number is asked to show it.
            claim.is_some_and(|claim| claim.shown) && !self.is_plausible(place),
            Reverse(claim.map(|claim| claim.number)),
            !of_our_fork,
        )
    }

    fn claim(&self, place: usize) -> Option<HeadClaim> {
        self.all.get(place)?.sight.head
    }

    fn is(&self, place: usize, what: impl Fn(&Sight) -> bool) -> bool {
        self.all.get(place).is_some_and(|seen| what(&seen.sight))
    }
}

#[cfg(test)]
mod tests;
