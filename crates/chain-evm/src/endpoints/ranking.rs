//! The choice among endpoints, from a view of each at one moment. This module does no I/O.

use std::cmp::Reverse;
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::EndpointHealth;
use tokio::time::Instant;

use crate::endpoint::{Connectivity, EndpointSnapshot, ReportedHead};

/// The head of an endpoint that cannot be asked counts for this long after its report.
const HEAD_COUNTS_FOR: Duration = Duration::from_secs(30);
/// The head of an endpoint that can be asked counts for this long. Such an endpoint is asked far more often.
const ASKABLE_HEAD_COUNTS_FOR: Duration = Duration::from_secs(5 * 60);
/// A head this many blocks above all others needs a header as proof. Endpoints that are up to date are never so far
/// apart.
const MAX_LEAP: u64 = 1_000;
/// Two heads that are at most this far apart support each other. Two endpoints that are still syncing rarely are so
/// close.
const AGREEING: u64 = 16;

/// The limits beyond which an endpoint is lagging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LagLimits {
    /// Blocks behind the newest head.
    pub(crate) lag_max: u64,
    /// The time for which a head stands still while the head of another endpoint rises.
    pub(crate) head_age_max: Duration,
}

/// The facts about one endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointFacts {
    pub(super) view: EndpointSnapshot,
    /// The time when the head of another endpoint rose for the first time since this head changed.
    pub(super) overtaken_at: Option<Instant>,
    /// The endpoint is not paused for transactions.
    pub(super) takes_sends: bool,
}

impl EndpointFacts {
    /// The endpoint is up and has not asked for a pause.
    fn is_askable(&self) -> bool {
        self.view.connectivity == Connectivity::Up && !self.view.has_retry_after
    }

    /// The head stood still for too long while another rose. Its number does not matter: it is of the past.
    fn is_stuck(&self, limits: LagLimits) -> bool {
        let reported_at = self.view.head.map(|head| head.reported_at);
        reported_at
            .zip(self.overtaken_at)
            .is_some_and(|(reported, overtaken)| reported.saturating_duration_since(overtaken) > limits.head_age_max)
    }

    fn is_spare(&self) -> bool {
        self.view.weight == 0
    }

    fn head_number(&self) -> Option<u64> {
        self.view.head.map(|head| head.number)
    }

    fn has_recent_head(&self, now: Instant, max_age: Duration) -> bool {
        self.view.head.is_some_and(|head| now.duration_since(head.reported_at) < max_age)
    }
}

/// The use that can be made of an endpoint, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// All reads.
    Current,
    /// Reads by hash, and other reads only if no endpoint is `Current`: its head stands still while others rise.
    Stuck,
    /// Reads of its head only: it flips between forks, or is a spare endpoint that is not needed.
    HeadOnly,
    /// No reads.
    None,
}

/// The assessment of one endpoint among the others.
#[derive(Clone, Copy, Debug)]
struct Assessment {
    trust: Trust,
    health: EndpointHealth,
    lag: Option<u64>,
    /// A spare endpoint (weight 0), while another endpoint is good.
    is_idle_spare: bool,
    /// The head is plausible next to the others.
    is_credible: bool,
    /// The head counts in the comparison of heads.
    counts: bool,
    /// The head is at least as new as every other one that counts.
    is_up_to_date: bool,
}

/// All endpoints of a chain, assessed at one moment. Indexes are positions in the configuration.
#[derive(Clone, Debug)]
pub(super) struct EndpointRanking {
    now: Instant,
    all: Vec<(EndpointFacts, Assessment)>,
    /// The newest head that counts, idle spares aside.
    newest: Option<u64>,
    /// The head that was returned last. Among equals an endpoint that shows the same block is preferred.
    last_head: Option<B256>,
    limits: LagLimits,
}

/// The place of an endpoint in the order of preference. The fields are compared from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_not_askable: bool,
    is_rate_limited: bool,
    is_spare: bool,
    is_stuck: bool,
    is_flipping: bool,
    has_last_request_failed: bool,
    /// Its header is not plausible. An endpoint that only reported a number is asked for the header first.
    is_implausible: bool,
    head: Reverse<Option<u64>>,
    is_on_other_fork: bool,
}

impl EndpointRanking {
    /// Assesses all endpoints. Each step uses only the results of the steps before.
    pub(super) fn new(
        now: Instant,
        limits: LagLimits,
        facts: Vec<EndpointFacts>,
        last_head: Option<B256>,
    ) -> EndpointRanking {
        let yields: Vec<bool> = facts.iter().map(|own| yields_to_other_fork(own, &facts, limits)).collect();
        let counted: Vec<Option<ReportedHead>> =
            facts.iter().zip(&yields).map(|(own, yields)| counted_head(own, now, limits, *yields)).collect();
        let credible: Vec<bool> = (0..facts.len())
            .map(|index| {
                facts.get(index).and_then(|own| own.view.head).is_none_or(|head| is_credible(index, head, &counted))
            })
            .collect();
        // The number of each head that counts and is credible.
        let numbers: Vec<Option<u64>> = counted
            .iter()
            .zip(&credible)
            .map(|(head, credible)| head.filter(|_| *credible).map(|head| head.number))
            .collect();
        let newest_of_all = numbers.iter().flatten().copied().max();
        let lag = |own: &EndpointFacts| {
            let number = own.head_number().filter(|_| own.has_recent_head(now, HEAD_COUNTS_FOR))?;
            Some(newest_of_all?.saturating_sub(number))
        };
        let healths: Vec<EndpointHealth> = facts.iter().map(|own| health(own, lag(own), limits)).collect();
        let is_any_good =
            facts.iter().zip(&healths).any(|(own, health)| !own.is_spare() && *health == EndpointHealth::Good);
        let is_idle_spare = |own: &EndpointFacts| own.is_spare() && is_any_good;
        let newest_except = |except: Option<usize>| {
            let others = facts.iter().zip(&numbers).enumerate().filter(|(index, _)| Some(*index) != except);
            others.filter(|(_, (own, _))| !is_idle_spare(own)).filter_map(|(_, (_, number))| *number).max()
        };
        let newest = newest_except(None);
        let assess = |(index, own): (usize, &EndpointFacts)| {
            let is_credible = credible.get(index).copied().unwrap_or_default();
            let yields = yields.get(index).copied().unwrap_or_default();
            let trust = match own.is_askable() {
                false => Trust::None,
                true if yields || is_idle_spare(own) => Trust::HeadOnly,
                true if own.is_stuck(limits) => Trust::Stuck,
                true => Trust::Current,
            };
            Assessment {
                trust,
                health: healths.get(index).copied().unwrap_or(EndpointHealth::Unchecked),
                lag: lag(own),
                is_idle_spare: is_idle_spare(own),
                is_credible,
                counts: counted.get(index).is_some_and(Option::is_some),
                is_up_to_date: is_credible && own.head_number() >= newest_except(Some(index)),
            }
        };
        let assessments: Vec<Assessment> = facts.iter().enumerate().map(assess).collect();
        let all = facts.into_iter().zip(assessments).collect();
        EndpointRanking { now, all, newest, last_head, limits }
    }

    pub(super) fn health(&self, index: usize) -> EndpointHealth {
        self.assessment(index).map_or(EndpointHealth::Unchecked, |own| own.health)
    }

    /// Blocks behind the newest credible head. `None` if the endpoint has not reported its head for a while.
    pub(super) fn lag(&self, index: usize) -> Option<u64> {
        self.assessment(index)?.lag
    }

    /// The newest credible head, idle spares aside.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Its head is at least as new as the credible head of every other endpoint, idle spares aside.
    pub(super) fn is_up_to_date(&self, index: usize) -> bool {
        self.assessment(index).is_some_and(|own| own.is_up_to_date)
    }

    /// Its head, if it has reported one, is credible next to the others.
    pub(super) fn is_plausible(&self, index: usize) -> bool {
        self.assessment(index).is_some_and(|own| own.is_credible)
    }

    /// Its head counts in the comparison of heads, and is credible.
    pub(super) fn has_credible_head(&self, index: usize) -> bool {
        self.assessment(index).is_some_and(|own| own.counts && own.is_credible)
    }

    /// The endpoint is up and has not asked for a pause.
    pub(super) fn is_askable(&self, index: usize) -> bool {
        self.assessment(index).is_some_and(|own| own.trust <= Trust::HeadOnly)
    }

    /// The endpoint can be used for reads.
    pub(super) fn is_usable(&self, index: usize) -> bool {
        self.assessment(index).is_some_and(|own| own.trust <= Trust::Stuck)
    }

    /// The endpoints for reads of the current state, the best first.
    pub(super) fn for_reading(&self) -> Vec<usize> {
        let current = self.ranked(|_, own| own.trust == Trust::Current);
        // The endpoint that overtook the others may be down since, or may have been wrong.
        if current.is_empty() { self.for_finding() } else { current }
    }

    /// The endpoints for reads by hash, the best first. Stuck endpoints are included, last.
    pub(super) fn for_finding(&self) -> Vec<usize> {
        self.ranked(|_, own| own.trust <= Trust::Stuck)
    }

    /// The endpoints to ask for their head. An idle spare is asked if its head is older than `spare_age`.
    pub(super) fn for_heads(&self, spare_age: Duration) -> Vec<usize> {
        self.ranked(|facts, own| {
            facts.is_askable() && (!own.is_idle_spare || !facts.has_recent_head(self.now, spare_age))
        })
    }

    /// The endpoints of a ranked list that are as good as its first one, with their weights.
    pub(super) fn equals(&self, ranked: &[usize]) -> Vec<(usize, u32)> {
        let rank_of = |index: usize| self.all.get(index).map(|(facts, own)| self.rank(facts, own));
        let Some(best) = ranked.first().map(|first| rank_of(*first)) else { return Vec::new() };
        let equals = ranked.iter().take_while(|index| rank_of(**index) == best);
        equals.filter_map(|index| Some((*index, self.all.get(*index)?.0.view.weight))).collect()
    }

    /// The endpoints that a transaction is sent to, the best first, and the endpoints that are skipped for now.
    pub(super) fn for_sending(&self) -> (Vec<usize>, Vec<usize>) {
        let all = self.ranked(|facts, own| facts.view.connectivity != Connectivity::WrongChain && !own.is_idle_spare);
        let is = |index: usize, what: fn(&EndpointFacts) -> bool| self.all.get(index).is_some_and(|(own, _)| what(own));
        let is_up = |index| is(index, |own| own.view.connectivity == Connectivity::Up);
        let is_due = |index| is(index, |own| own.view.is_retry_due && own.takes_sends);
        let any_up_is_due = all.iter().any(|index| is_due(*index) && is_up(*index));
        let any_is_due = all.iter().any(|index| is_due(*index));
        // An endpoint that is up and paused only by us is better than one that may be up again, and one that was down a
        // moment ago is better than none. An endpoint that asked for a pause gets it.
        let is_needed = |index| {
            let may_be_asked = !is(index, |own| own.view.has_retry_after);
            may_be_asked && ((!any_up_is_due && is_up(index)) || !any_is_due)
        };
        all.into_iter().partition(|index| is_due(*index) || is_needed(*index))
    }

    fn assessment(&self, index: usize) -> Option<&Assessment> {
        self.all.get(index).map(|(_, own)| own)
    }

    fn ranked(&self, is_chosen: impl Fn(&EndpointFacts, &Assessment) -> bool) -> Vec<usize> {
        let chosen = self.all.iter().enumerate().filter(|(_, (facts, own))| is_chosen(facts, own));
        let mut chosen: Vec<_> =
            chosen.map(|(index, (facts, own))| (self.rank(facts, own), Reverse(facts.view.weight), index)).collect();
        chosen.sort_unstable();
        chosen.into_iter().map(|(_, _, index)| index).collect()
    }

    fn rank(&self, facts: &EndpointFacts, own: &Assessment) -> Rank {
        let EndpointSnapshot { head, is_rate_limited, is_flipping, has_last_request_failed, .. } = facts.view;
        let is_on_our_fork = self.last_head.is_some() && head.and_then(|head| head.hash) == self.last_head;
        Rank {
            is_not_askable: !facts.is_askable(),
            is_rate_limited,
            is_spare: facts.is_spare(),
            is_stuck: facts.is_stuck(self.limits),
            is_flipping,
            has_last_request_failed,
            is_implausible: head.is_some_and(|head| head.has_header) && !own.is_credible,
            head: Reverse(facts.head_number()),
            is_on_other_fork: !is_on_our_fork,
        }
    }
}

/// An endpoint that flips between forks yields only to one that is as new, or nearly so: either fork is closer to the
/// truth than an endpoint that is still syncing.
fn yields_to_other_fork(own: &EndpointFacts, all: &[EndpointFacts], limits: LagLimits) -> bool {
    let is_as_new = |other: &EndpointFacts| {
        other.head_number().map(|number| number.saturating_add(limits.lag_max)) >= own.head_number()
    };
    let is_better = |other: &EndpointFacts| {
        other.is_askable() && !other.view.is_flipping && !other.is_stuck(limits) && is_as_new(other)
    };
    own.view.is_flipping && all.iter().any(is_better)
}

/// The head of an endpoint, if it is recent enough to be compared with others.
fn counted_head(own: &EndpointFacts, now: Instant, limits: LagLimits, yields: bool) -> Option<ReportedHead> {
    let counts_for = match own.view.connectivity {
        Connectivity::Up if own.is_askable() => ASKABLE_HEAD_COUNTS_FOR,
        Connectivity::Up | Connectivity::Unchecked | Connectivity::Down => HEAD_COUNTS_FOR,
        Connectivity::WrongChain => Duration::ZERO,
    };
    let counts = own.has_recent_head(now, counts_for) && !own.is_stuck(limits) && !yields;
    own.view.head.filter(|_| counts)
}

/// A head far above all others needs a header, and loses against two that support each other: otherwise one endpoint
/// with invented heads would make all others lag. Between one and one the newer head wins, because an endpoint that is
/// still syncing is far more common than one that lies.
fn is_credible(index: usize, head: ReportedHead, counted: &[Option<ReportedHead>]) -> bool {
    let others = counted.iter().enumerate().filter(|(other, _)| *other != index);
    let mut others: Vec<u64> = others.filter_map(|(_, head)| Some((*head)?.number)).collect();
    others.sort_unstable();
    let is_far_above = others.last().is_some_and(|newest| head.number > newest.saturating_add(MAX_LEAP));
    let agree = |pair: &[u64]| matches!(pair, [first, second] if second - first <= AGREEING);
    !is_far_above || (head.has_header && !others.windows(2).any(agree))
}

fn health(own: &EndpointFacts, lag: Option<u64>, limits: LagLimits) -> EndpointHealth {
    let is_lagging = || own.is_stuck(limits) || lag.is_some_and(|lag| lag > limits.lag_max);
    match own.view.connectivity {
        Connectivity::WrongChain => EndpointHealth::WrongChain,
        _ if own.view.is_rate_limited => EndpointHealth::RateLimited,
        Connectivity::Unchecked => EndpointHealth::Unchecked,
        Connectivity::Down => EndpointHealth::Down,
        Connectivity::Up if own.view.is_flipping => EndpointHealth::Flipping,
        Connectivity::Up if is_lagging() => EndpointHealth::Lagging,
        Connectivity::Up => EndpointHealth::Good,
    }
}

#[cfg(test)]
mod tests;
