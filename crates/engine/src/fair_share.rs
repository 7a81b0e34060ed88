//! Decides how many lanes this node should run, and which lanes it hands over when it runs more.
//!
//! Lanes gather on the nodes that accept their intents or wake first; after a restart one node may hold all of them. A
//! node with more lanes than its share (lanes ÷ live nodes) releases some, and another node that wakes acquires them.
//! If no other node does, this node takes them back: the number of live nodes does not tell which keys they have.
//!
//! A node that has its share waits a little before it acquires another lane; otherwise the node nearest to the database
//! would take every lane that another node has just released.
//!
//! A node that cannot read a chain releases the lanes of that chain, because other nodes may be able to read it, and
//! waits before it acquires them again.
//!
//! A lane whose signer signs nothing here is handed over too (see `signing`).
//!
//! The lanes that have run here longest go first, so that each lane moves as seldom as possible: a lane that has just
//! arrived has just paid for its load.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use gapless_domain::{SubmitterId, Tick};
use gapless_store::Census;

/// The rules of handing lanes over, by their config names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareOptions {
    /// Interval of the check for more lanes than the share.
    pub interval: Duration,
    /// Tolerated excess over the share: this number, or `slack_percent` of the share if that is more. Exact shares are
    /// not worth a move.
    pub slack: usize,
    pub slack_percent: usize,
    /// Lanes that are handed over in one round.
    pub round_max: usize,
    /// After handing a lane over, this node does not acquire it for this long.
    pub pause: Duration,
    /// A node above its share waits this long before it acquires another lane.
    pub yield_pause: Duration,
    /// A lane is not handed over a second time within this period. After a round whose lanes have all come back, no
    /// lane is handed over for this long.
    pub returned_pause: Duration,
    /// A chain that could not be read for this long is unreachable: its lanes are handed over if there are other nodes,
    /// and not acquired again for as long.
    pub away_after: Duration,
}

impl Default for ShareOptions {
    fn default() -> Self {
        ShareOptions {
            interval: Duration::from_secs(10),
            slack: 2,
            slack_percent: 10,
            round_max: 32,
            pause: Duration::from_secs(3),
            yield_pause: Duration::from_millis(100),
            returned_pause: Duration::from_secs(3600),
            away_after: Duration::from_secs(30),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FairShare {
    options: ShareOptions,
    next_check: Tick,
    /// This node's share by the last check; `None` while there is no other node.
    share: Option<usize>,
    /// There were other live nodes at the last check.
    has_other_nodes: bool,
    /// Lanes that drain for a handover and have not ended yet.
    leaving: HashSet<SubmitterId>,
    handed_over: HashMap<SubmitterId, HandedOver>,
    /// The lanes of the last round.
    round: Vec<SubmitterId>,
}

/// The waiting times of a lane that was handed over.
#[derive(Clone, Copy, Debug)]
struct HandedOver {
    /// Until then only other nodes acquire the lane.
    not_before: Tick,
    /// Until then the lane is not handed over again.
    stays_until: Tick,
}

impl FairShare {
    pub(crate) fn new(options: ShareOptions, now: Tick) -> Self {
        let next_check = now.saturating_add(options.interval);
        let (leaving, handed_over, round) = (HashSet::new(), HashMap::new(), Vec::new());
        FairShare { options, next_check, share: None, has_other_nodes: false, leaving, handed_over, round }
    }

    pub(crate) fn next_check(&self) -> Tick {
        self.next_check
    }

    /// Begins a check. False if this node has too few lanes to ever exceed its share, so that no census is needed.
    pub(crate) fn begin_check(&mut self, running: usize, now: Tick) -> bool {
        self.next_check = now.saturating_add(self.options.interval);
        self.handed_over.retain(|_, handed_over| handed_over.stays_until > now);
        self.share = self.share.filter(|_| running > self.options.slack);
        running > self.options.slack
    }

    pub(crate) fn away_after(&self) -> Duration {
        self.options.away_after
    }

    /// Of the lanes whose chain is unreachable here, the ones to hand over now.
    pub(crate) fn choose_unreachable(&mut self, mut lanes: Vec<SubmitterId>, census: Census) -> Vec<SubmitterId> {
        self.has_other_nodes = census.nodes > 1;
        lanes.retain(|lane| self.has_other_nodes && !self.leaving.contains(lane));
        self.leaving.extend(lanes.iter().cloned());
        lanes
    }

    /// Of the running lanes, with their start times, the ones to hand over now.
    pub(crate) fn choose(
        &mut self,
        mut running: Vec<(SubmitterId, Tick)>,
        census: Census,
        now: Tick,
    ) -> Vec<SubmitterId> {
        // A round is judged only when all of its lanes have left.
        let is_leaving = self.round.iter().any(|lane| self.leaving.contains(lane));
        let round = if is_leaving { Vec::new() } else { std::mem::take(&mut self.round) };
        let is_here = |lane: &SubmitterId| running.iter().any(|(here, _)| here == lane);
        if !round.is_empty() && round.iter().all(is_here) {
            tracing::info!(lanes = round.len(), "no other node took the lanes; handover paused");
            self.next_check = now.saturating_add(self.options.returned_pause);
            self.share = None;
            return Vec::new();
        }
        let excess = self.excess(running.len().saturating_sub(self.leaving.len()), census);
        running.retain(|(lane, _)| !self.leaving.contains(lane) && !self.handed_over.contains_key(lane));
        running.sort_by(|(lane, since), (other, other_since)| (since, lane).cmp(&(other_since, other)));
        let chosen: Vec<SubmitterId> =
            running.into_iter().map(|(lane, _)| lane).take(excess.min(self.options.round_max)).collect();
        self.leaving.extend(chosen.iter().cloned());
        self.round.extend(chosen.iter().cloned());
        chosen
    }

    /// The number of lanes above the share; 0 if the slack tolerates it.
    fn excess(&mut self, running: usize, census: Census) -> usize {
        let nodes = usize::try_from(census.nodes).unwrap_or(usize::MAX).max(1);
        // The census may be older than the lanes that run here.
        let lanes = usize::try_from(census.lanes).unwrap_or(usize::MAX).max(running);
        let share = lanes.div_ceil(nodes);
        self.share = (nodes > 1).then_some(share);
        let slack = self.options.slack.max(share.saturating_mul(self.options.slack_percent) / 100);
        let excess = running.saturating_sub(share);
        if excess > slack { excess } else { 0 }
    }

    /// Leaves a lane that cannot sign here to other nodes first. The lane may be handed over again at any time.
    pub(crate) fn leave_to_other_nodes(&mut self, lane: &SubmitterId, now: Tick) {
        self.handed_over(lane, now, Duration::ZERO);
    }

    /// Records the end of a run. True if the lane was to be handed over.
    pub(crate) fn run_ended(&mut self, lane: &SubmitterId, now: Tick) -> bool {
        let was_leaving = self.leaving.remove(lane);
        if was_leaving {
            self.handed_over(lane, now, self.options.returned_pause);
        }
        was_leaving
    }

    /// Records a handover after which the lane is not handed over again for `stays`.
    fn handed_over(&mut self, lane: &SubmitterId, now: Tick, stays: Duration) {
        let not_before = now.saturating_add(self.options.pause);
        let stays_until = now.saturating_add(stays).max(not_before);
        let waiting = self.handed_over.entry(lane.clone()).or_insert(HandedOver { not_before, stays_until });
        waiting.not_before = waiting.not_before.max(not_before);
        waiting.stays_until = waiting.stays_until.max(stays_until);
    }

    /// The earliest time at which this node may acquire a lane, if it already runs `running` lanes.
    pub(crate) fn not_before(&self, lane: &SubmitterId, running: usize, is_unreachable: bool, now: Tick) -> Tick {
        let yields = self.share.is_some_and(|share| running > share);
        let earliest = match (is_unreachable && self.has_other_nodes, yields) {
            (true, _) => now.saturating_add(self.options.away_after),
            (false, true) => now.saturating_add(self.options.yield_pause),
            (false, false) => now,
        };
        self.handed_over.get(lane).map_or(earliest, |handed_over| earliest.max(handed_over.not_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::since_start(Duration::from_secs(seconds))
    }

    fn lane(number: usize) -> SubmitterId {
        format!("eip155:1:0x{number:040x}").parse().unwrap()
    }

    /// Lane 0 arrived last.
    fn lanes(count: usize) -> Vec<(SubmitterId, Tick)> {
        (0..count).map(|number| (lane(number), at((count - number) as u64))).collect()
    }

    fn census(nodes: u32, lanes: u32) -> Census {
        Census { nodes, lanes }
    }

    fn share() -> FairShare {
        FairShare::new(ShareOptions { round_max: 1000, ..ShareOptions::default() }, at(0))
    }

    #[test]
    fn node_keeps_its_share_plus_slack() {
        for (running, nodes, all, leaving) in [
            (100, 1, 100, 0),
            (100, 2, 100, 50),
            (52, 2, 100, 0),
            (55, 2, 100, 0),
            (56, 2, 100, 6),
            (5, 3, 5, 3),
            (3, 3, 3, 0),
            (4, 3, 6, 0),
            (0, 3, 6, 0),
            // The census is older than the lanes that run here.
            (100, 2, 0, 50),
            (100, 0, 100, 0),
        ] {
            let chosen = share().choose(lanes(running), census(nodes, all), at(1));
            assert_eq!(chosen.len(), leaving, "{running} of {all} on {nodes}");
        }
    }

    #[test]
    fn longest_running_lanes_leave_first_up_to_round_max() {
        let mut share = FairShare::new(ShareOptions { round_max: 3, ..ShareOptions::default() }, at(0));
        assert_eq!(share.choose(lanes(100), census(2, 100), at(1)), [lane(99), lane(98), lane(97)]);
        // Leaving lanes are not counted and not chosen again.
        assert_eq!(share.choose(lanes(53), census(2, 100), at(1)), []);
    }

    #[test]
    fn handed_over_lane_is_not_reacquired_or_moved_again_soon() {
        let mut share = share();
        let chosen = share.choose(lanes(100), census(2, 100), at(1));
        assert!(chosen.iter().all(|lane| share.run_ended(lane, at(2))));
        assert!(!share.run_ended(&chosen[0], at(2)), "only once");
        assert_eq!(share.not_before(&chosen[0], 50, false, at(2)), at(5));
        assert_eq!(share.not_before(&lane(0), 50, false, at(2)), at(2), "another lane");
        // Half of the lanes have come back.
        let back: Vec<_> = lanes(75);
        let again = share.choose(back, census(2, 100), at(20));
        assert!(!again.is_empty() && again.iter().all(|lane| !chosen.contains(lane)));
        share.begin_check(100, at(2 + 3600));
        assert_eq!(share.not_before(&chosen[0], 0, false, at(2 + 3600)), at(2 + 3600));
    }

    #[test]
    fn lane_that_cannot_sign_is_delayed_and_may_move_again() {
        let mut share = share();
        share.leave_to_other_nodes(&lane(99), at(1));
        assert_eq!(share.not_before(&lane(99), 50, false, at(1)), at(4));
        // The lane came back because no other node has its key, and this node has too many lanes.
        assert!(share.begin_check(100, at(20)));
        let chosen = share.choose(lanes(100), census(2, 100), at(20));
        assert!(chosen.contains(&lane(99)));
        assert!(share.run_ended(&lane(99), at(21)));
        // A lane that was handed over by its share stays, although its signer fails meanwhile.
        share.leave_to_other_nodes(&lane(99), at(30));
        assert_eq!(share.not_before(&lane(99), 50, false, at(30)), at(33));
        assert!(share.begin_check(100, at(40)));
        assert!(!share.choose(lanes(100), census(2, 100), at(40)).contains(&lane(99)));
    }

    #[test]
    fn node_with_its_share_delays_acquisition() {
        let mut share = share();
        let soon = at(10).saturating_add(Duration::from_millis(100));
        assert_eq!(share.not_before(&lane(200), 1000, false, at(10)), at(10), "no other node is known");
        share.choose(lanes(50), census(2, 100), at(10));
        assert_eq!(share.not_before(&lane(200), 50, false, at(10)), at(10));
        assert_eq!(share.not_before(&lane(200), 51, false, at(10)), soon);
        share.choose(lanes(50), census(1, 50), at(10));
        assert_eq!(share.not_before(&lane(200), 1000, false, at(10)), at(10), "no other node");
    }

    #[test]
    fn lanes_of_unreachable_chain_are_handed_over_and_delayed() {
        let mut share = share();
        assert_eq!(share.choose_unreachable(vec![lane(1)], census(1, 1)), [], "no other node: the lane stays");
        assert_eq!(share.not_before(&lane(1), 1, true, at(10)), at(10));
        assert_eq!(share.choose_unreachable(vec![lane(1)], census(2, 1)), [lane(1)]);
        assert_eq!(share.choose_unreachable(vec![lane(1)], census(2, 1)), [], "only once");
        assert_eq!(share.not_before(&lane(2), 1, true, at(10)), at(40));
        assert_eq!(share.not_before(&lane(2), 1, false, at(10)), at(10));
    }

    #[test]
    fn round_that_comes_back_pauses_handover() {
        let mut share = share();
        let chosen = share.choose(lanes(100), census(2, 100), at(10));
        chosen.iter().for_each(|lane| assert!(share.run_ended(lane, at(10))));
        assert!(share.begin_check(100, at(20)));
        assert_eq!(share.choose(lanes(100), census(2, 100), at(20)), []);
        assert_eq!(share.next_check(), at(20 + 3600));
    }

    #[test]
    fn leaving_lanes_do_not_count_as_come_back() {
        let mut share = share();
        assert_eq!(share.choose(lanes(100), census(2, 100), at(10)).len(), 50);
        assert!(share.begin_check(100, at(20)));
        assert_eq!(share.choose(lanes(100), census(2, 100), at(20)), []);
        assert_eq!(share.next_check(), at(30), "no other node could take them yet");
    }

    #[test]
    fn few_lanes_need_no_census() {
        let mut share = share();
        assert!(!share.begin_check(2, at(10)));
        assert_eq!(share.next_check(), at(20));
        assert!(share.begin_check(3, at(20)));
    }
}
