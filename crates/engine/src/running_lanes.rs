//! The lanes that run on this node, and the renewal of their leases.
//!
//! The dispatcher and the renewal loop share this map: a renewal must not wait for the dispatcher, whose store calls
//! may take longer than a lease lasts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_domain::{Lease, LeaseTerms, SubmitterId, Tick};

use crate::driver::Driver;
use crate::lane_inbox::LaneInbox;
use crate::lease_keeper::LeaseKeeper;
use crate::published::Follower;

#[derive(Debug, Default)]
pub(crate) struct RunningLanes {
    running: Mutex<BTreeMap<SubmitterId, RunningLane>>,
}

#[derive(Debug)]
pub(crate) struct RunningLane {
    pub(crate) lease: Lease,
    pub(crate) inbox: Arc<LaneInbox>,
    pub(crate) since: Tick,
}

impl RunningLanes {
    pub(crate) fn insert(&self, running: RunningLane) {
        self.running().insert(running.lease.submitter().clone(), running);
    }

    pub(crate) fn remove(&self, lane: &SubmitterId) -> Option<RunningLane> {
        self.running().remove(lane)
    }

    pub(crate) fn contains(&self, lane: &SubmitterId) -> bool {
        self.running().contains_key(lane)
    }

    pub(crate) fn len(&self) -> usize {
        self.running().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running().is_empty()
    }

    /// False if the lane does not run here.
    pub(crate) fn wake(&self, lane: &SubmitterId) -> bool {
        self.running().get(lane).map(|running| running.inbox.wake()).is_some()
    }

    /// Tells the lane, if it runs here, that a queued intent was changed without it.
    pub(crate) fn queue_changed(&self, lane: &SubmitterId) {
        if let Some(running) = self.running().get(lane) {
            running.inbox.queue_changed();
        }
    }

    /// Wakes all lanes after wake-ups were lost. A lost one may have been about a canceled intent, so the lanes also
    /// read their queues.
    pub(crate) fn wake_all(&self) {
        for running in self.running().values() {
            running.inbox.wake();
            running.inbox.queue_changed();
        }
    }

    /// All running lanes with their start times.
    pub(crate) fn lanes(&self) -> Vec<(SubmitterId, Tick)> {
        self.running().iter().map(|(lane, running)| (lane.clone(), running.since)).collect()
    }

    /// Lets one lane finish its work in flight.
    pub(crate) fn drain(&self, lane: &SubmitterId) {
        if let Some(running) = self.running().get(lane) {
            running.inbox.drain();
        }
    }

    pub(crate) fn drain_all(&self) {
        self.running().values().for_each(|running| running.inbox.drain());
    }

    /// Renews all leases periodically until the node drains.
    pub(crate) async fn keep_leases(
        self: Arc<Self>,
        keeper: Arc<LeaseKeeper>,
        driver: Arc<dyn Driver>,
        terms: LeaseTerms,
        draining: Follower<bool>,
    ) {
        let renewing = async {
            let mut at = driver.now().saturating_add(terms.renew_interval);
            loop {
                driver.sleep_until(at).await;
                // Counted from before the request, as the lease is.
                at = driver.now().saturating_add(terms.renew_interval);
                self.renew(&keeper).await;
            }
        };
        tokio::select! {
            biased;
            _ = draining.find(|draining| draining.then_some(())) => {}
            () = renewing => {}
        }
    }

    async fn renew(&self, keeper: &LeaseKeeper) {
        // Runs with a lapsed lease are ended first, because the renewal releases the leases of dropped lanes.
        self.end_lapsed_runs(keeper);
        match keeper.renew().await {
            Ok(lost) => lost.iter().for_each(|lease| self.signal_lease_lost(lease)),
            Err(error) => tracing::warn!("leases could not be renewed: {error}"),
        }
        self.end_lapsed_runs(keeper);
    }

    /// Ends runs whose lease is no longer trusted, whether or not the database answers.
    pub(crate) fn end_lapsed_runs(&self, keeper: &LeaseKeeper) {
        let is_lapsed = |running: &&RunningLane| keeper.permit(running.lease.submitter()).is_err();
        let lapsed: Vec<Lease> =
            self.running().values().filter(is_lapsed).map(|running| running.lease.clone()).collect();
        for lease in lapsed {
            keeper.drop_lease(&lease);
            self.signal_lease_lost(&lease);
        }
    }

    fn signal_lease_lost(&self, lease: &Lease) {
        if let Some(running) = self.running().get(lease.submitter())
            && running.lease == *lease
        {
            running.inbox.lose_lease();
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<SubmitterId, RunningLane>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gapless_domain::{Fact, FencingToken, OwnerId};

    use super::*;
    use crate::lane_inbox::InboxMessage;

    #[tokio::test]
    async fn lanes_read_their_queues_after_lost_wakeups() {
        let lanes = RunningLanes::default();
        let inboxes = [1, 2].map(|number| {
            let lane = format!("eip155:1:0x{number:040x}").parse().unwrap();
            let lease = Lease::granted(lane, OwnerId::new("a", 1), FencingToken::new(1));
            let inbox = Arc::new(LaneInbox::default());
            lanes.insert(RunningLane { lease, inbox: Arc::clone(&inbox), since: Tick::since_start(Duration::ZERO) });
            inbox
        });
        lanes.wake_all();
        for inbox in inboxes {
            assert!(matches!(inbox.next().await, InboxMessage::Fact(Fact::QueueChanged)));
            assert!(matches!(inbox.next().await, InboxMessage::Fact(Fact::Woken)));
        }
    }
}
