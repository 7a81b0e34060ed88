//! Chooses the lanes that this node runs: acquires lanes that have work and no owner, and releases idle ones.
//!
//! The dispatcher acts on wake-ups and on a periodic sweep. A wake-up says "look there" and carries no data, so a
//! duplicate is harmless.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{LaneSetup, Lease, LeaseTerms, SubmitterId, Tick};
use gapless_store::{Acquired, Lanes, Leases, Loaded, StoreError, Wakeup, Wakeups};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::chain_desk::ChainDesk;
use crate::driver::TaskGroup;
use crate::fair_share::{FairShare, ShareOptions};
use crate::fault_points::FaultPoint;
use crate::lane_inbox::LaneInbox;
use crate::lane_runner::{LaneRunner, LaneServices, RunOutcome};
use crate::published::Follower;
use crate::running_lanes::{RunningLane, RunningLanes};
use crate::signing::LaneSigner;

/// The intervals and limits of a node, by their config names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchOptions {
    /// Interval of the sweep for lanes that no wake-up announced.
    pub sweep_interval: Duration,
    /// Lanes that one read of the sweep may return.
    pub sweep_limit: u32,
    /// Lanes that may run on this node at once.
    pub lanes_max: usize,
    /// Pause before the next request for a lane that another node holds.
    pub held_pause: Duration,
    /// Pause before a lane that could not continue is loaded again.
    pub reload_pause: Duration,
    pub refused_pause: Duration,
    /// When lanes are handed over to other nodes.
    pub share: ShareOptions,
}

impl Default for DispatchOptions {
    fn default() -> Self {
        DispatchOptions {
            sweep_interval: Duration::from_secs(2),
            sweep_limit: 1000,
            lanes_max: 20_000,
            held_pause: Duration::from_millis(500),
            reload_pause: Duration::from_millis(50),
            refused_pause: Duration::from_secs(10),
            share: ShareOptions::default(),
        }
    }
}

/// A lane that this node can run: its chain is configured, and its key is here.
#[derive(Clone, Debug)]
pub(crate) struct Servable {
    /// Shared: thousands of lanes may have the same setup.
    pub(crate) setup: Arc<LaneSetup>,
    pub(crate) desk: Arc<ChainDesk>,
    pub(crate) signer: LaneSigner,
}

#[derive(Debug)]
pub(crate) struct Dispatcher {
    leases: Arc<dyn Leases>,
    lanes: Arc<dyn Lanes>,
    services: LaneServices,
    tasks: TaskGroup,
    terms: LeaseTerms,
    options: DispatchOptions,
    servable: BTreeMap<SubmitterId, Servable>,
    running_lanes: Arc<RunningLanes>,
    /// Lanes to acquire, with the earliest time for each.
    to_acquire: BTreeMap<SubmitterId, Tick>,
    /// Lanes that another node held at the last request, with the earliest time for the next one.
    held_elsewhere: BTreeMap<SubmitterId, Tick>,
    report_outcome: mpsc::Sender<(Lease, RunOutcome)>,
    outcomes: mpsc::Receiver<(Lease, RunOutcome)>,
    wakeups: Wakeups,
    draining: Follower<bool>,
    /// Lanes that were woken because their chain has a finality violation.
    woken_for_violation: BTreeSet<SubmitterId>,
    share: FairShare,
    started_at: Tick,
}

/// Reports the end of a run when dropped, so that a panic is reported too.
struct RunReport {
    lease: Lease,
    outcome: RunOutcome,
    sender: mpsc::Sender<(Lease, RunOutcome)>,
}

impl Drop for RunReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("lane run panicked; lane is loaded again");
        }
        // The channel has room for one report of each lane that may run.
        let _ = self.sender.try_send((self.lease.clone(), self.outcome));
    }
}

impl Dispatcher {
    pub(crate) fn new(
        (leases, lanes): (Arc<dyn Leases>, Arc<dyn Lanes>),
        services: LaneServices,
        tasks: TaskGroup,
        terms: LeaseTerms,
        options: DispatchOptions,
        servable: BTreeMap<SubmitterId, Servable>,
        draining: Follower<bool>,
    ) -> Self {
        let wakeups = leases.wakeups();
        let (report_outcome, outcomes) = mpsc::channel(options.lanes_max.max(1));
        let (running_lanes, to_acquire, held_elsewhere) = (Arc::default(), BTreeMap::new(), BTreeMap::new());
        let started_at = services.driver.now();
        let share = FairShare::new(options.share.clone(), started_at);
        Dispatcher {
            leases,
            lanes,
            services,
            tasks,
            terms,
            options,
            servable,
            running_lanes,
            to_acquire,
            held_elsewhere,
            report_outcome,
            outcomes,
            wakeups,
            draining,
            woken_for_violation: BTreeSet::new(),
            share,
            started_at,
        }
    }

    /// Runs until the node drains and every lease is released.
    pub(crate) async fn run(mut self) {
        let (keeper, driver) = (Arc::clone(&self.services.keeper), Arc::clone(&self.services.driver));
        self.tasks.spawn(Arc::clone(&self.running_lanes).keep_leases(
            keeper,
            driver,
            self.terms,
            self.draining.clone(),
        ));
        let mut sweep_at = self.now();
        loop {
            if self.draining.read(|draining| *draining) {
                return self.drain().await;
            }
            let now = self.now();
            if now >= sweep_at {
                sweep_at = now.saturating_add(self.options.sweep_interval);
                self.sweep().await;
                self.wake_violated();
            }
            if now >= self.share.next_check() {
                self.hand_over().await;
            }
            self.acquire_due().await;
            // At full capacity only the end of a run makes room.
            let due = self.to_acquire.values().copied().min().filter(|_| self.free_capacity() > 0);
            let wake_at = due.unwrap_or(sweep_at).min(sweep_at).min(self.share.next_check());
            let sleep = self.services.driver.sleep_until(wake_at);
            tokio::select! {
                // A drain and the ends of runs come before wake-ups, however many there are. Deadlines need no branch
                // of their own: the loop checks them each time.
                biased;
                _ = self.draining.find(|draining| draining.then_some(())) => return self.drain().await,
                Some((lease, outcome)) = self.outcomes.recv() => self.handle_ended(lease, outcome).await,
                wakeup = self.wakeups.next() => self.handle_wakeups(wakeup, &mut sweep_at),
                () = sleep => {}
            }
        }
    }

    fn now(&self) -> Tick {
        self.services.driver.now()
    }

    /// Handles this wake-up together with all others that have arrived.
    fn handle_wakeups(&mut self, wakeup: Wakeup, sweep_at: &mut Tick) {
        let mut next = Some(wakeup);
        while let Some(wakeup) = next {
            match wakeup {
                Wakeup::Lane(lane) => self.plan_acquire(lane),
                // A lane that runs nowhere reads its queue when it starts.
                Wakeup::QueueChanged(lane) => self.running_lanes.queue_changed(&lane),
                Wakeup::Everywhere => {
                    *sweep_at = self.now();
                    self.running_lanes.wake_all();
                }
            }
            next = self.wakeups.try_next();
        }
    }

    /// Plans to acquire a lane that has work, or wakes it if it runs here.
    fn plan_acquire(&mut self, lane: SubmitterId) {
        if !self.running_lanes.wake(&lane) && self.servable.contains_key(&lane) {
            let now = self.now();
            let here = self.running_lanes.len() + self.to_acquire.len();
            let not_before = self.share.not_before(&lane, here, self.is_chain_unreachable(&lane, now), now);
            let not_before = self.held_elsewhere.get(&lane).map_or(not_before, |until| not_before.max(*until));
            let at = self.to_acquire.entry(lane).or_insert(not_before);
            *at = (*at).min(not_before);
        }
    }

    async fn sweep(&mut self) {
        let now = self.now();
        self.held_elsewhere.retain(|_, until| *until > now);
        let mut after = None;
        loop {
            let found = self.leases.lanes_with_work(after.as_ref(), self.options.sweep_limit).await;
            let lanes = match found {
                Ok(lanes) => lanes,
                Err(error) => return tracing::warn!("sweep failed: {error}"),
            };
            let is_full_page = lanes.len() >= self.options.sweep_limit as usize;
            after = lanes.last().cloned();
            for lane in lanes {
                // The sweep returns lanes without an owner, so an older "held by another node" is outdated.
                self.held_elsewhere.remove(&lane);
                self.plan_acquire(lane);
            }
            if !is_full_page {
                return;
            }
        }
    }

    /// Wakes idle lanes too when their chain has a finality violation: an intent that they ended may be undone.
    fn wake_violated(&mut self) {
        let is_violated = |desk: &ChainDesk| desk.status().is_some_and(|status| status.broken().is_some());
        // Once an operator has resolved a violation, the next one wakes the lane again.
        let servable = &self.servable;
        self.woken_for_violation.retain(|lane| servable.get(lane).is_some_and(|servable| is_violated(&servable.desk)));
        let lanes = self.servable.iter().filter(|(lane, _)| !self.woken_for_violation.contains(*lane));
        let lanes: Vec<SubmitterId> =
            lanes.filter(|(_, servable)| is_violated(&servable.desk)).map(|(lane, _)| lane.clone()).collect();
        for lane in lanes {
            self.woken_for_violation.insert(lane.clone());
            self.plan_acquire(lane);
        }
    }

    /// Drains the lanes above this node's share, so that their leases are released.
    async fn hand_over(&mut self) {
        let now = self.now();
        let running = self.running_lanes.lanes();
        let unreachable =
            running.iter().map(|(lane, _)| lane).filter(|lane| self.is_chain_unreachable(lane, now)).cloned();
        let unreachable: Vec<SubmitterId> = unreachable.collect();
        if !self.share.begin_check(running.len(), now) && unreachable.is_empty() {
            return;
        }
        let census = match self.leases.census().await {
            Ok(census) => census,
            Err(error) => return tracing::warn!("census of live nodes failed: {error}"),
        };
        let unreachable = self.share.choose_unreachable(unreachable, census);
        if !unreachable.is_empty() {
            tracing::warn!(
                lanes = unreachable.len(),
                nodes = census.nodes,
                "lanes handed over: their chain is unreachable from here"
            );
        }
        unreachable.iter().for_each(|lane| self.running_lanes.drain(lane));
        let leaving = self.share.choose(running, census, now);
        if !leaving.is_empty() {
            let (lanes, nodes) = (census.lanes, census.nodes);
            tracing::info!(
                here = self.running_lanes.len(),
                lanes,
                nodes,
                handed_over = leaving.len(),
                "lanes handed over: more than the fair share"
            );
        }
        leaving.iter().for_each(|lane| self.running_lanes.drain(lane));
    }

    /// Has the lane's chain been unreadable for long?
    fn is_chain_unreachable(&self, lane: &SubmitterId, now: Tick) -> bool {
        let status = self.servable.get(lane).and_then(|servable| servable.desk.status());
        let read_at = status.map_or(self.started_at, |status| status.read_at.max(self.started_at));
        now.saturating_since(read_at) > self.share.away_after()
    }

    /// The number of lanes that may still start here.
    fn free_capacity(&self) -> usize {
        self.options.lanes_max.saturating_sub(self.running_lanes.len())
    }

    /// Acquires, loads and starts every lane that is due, in two round trips.
    async fn acquire_due(&mut self) {
        let now = self.now();
        let due = self.to_acquire.iter().filter(|(lane, at)| **at <= now && !self.running_lanes.contains(lane));
        // The longest-waiting lanes come first if there is no room for all.
        let due: BTreeSet<(Tick, &SubmitterId)> = due.map(|(lane, at)| (*at, lane)).collect();
        let lanes: BTreeSet<&SubmitterId> = due.into_iter().take(self.free_capacity()).map(|(_, lane)| lane).collect();
        let lanes: Vec<SubmitterId> = lanes.into_iter().cloned().collect();
        if lanes.is_empty() {
            return;
        }
        let answers = match self.services.keeper.acquire(&lanes).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(lanes = lanes.len(), "leases could not be acquired: {error}");
                let later = self.now().saturating_add(self.options.held_pause);
                self.to_acquire.extend(lanes.into_iter().map(|lane| (lane, later)));
                return;
            }
        };
        let mut held = Vec::new();
        for (lane, answer) in lanes.into_iter().zip(answers) {
            let later = self.now().saturating_add(self.options.held_pause);
            let result = match answer {
                Acquired::Held(lease) => {
                    self.to_acquire.remove(&lane);
                    held.push(lease);
                    "held"
                }
                Acquired::HeldByOther => {
                    self.to_acquire.remove(&lane);
                    self.held_elsewhere.insert(lane, later);
                    "held_by_other"
                }
                Acquired::Busy => {
                    self.to_acquire.insert(lane, now.saturating_add(self.options.reload_pause));
                    "busy"
                }
            };
            metrics::counter!("gapless_lease_acquire_total", "result" => result).increment(1);
        }
        self.load(held).await;
    }

    async fn load(&mut self, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        match self.lanes.load_lanes(&leases).await {
            Ok(loaded) => {
                for (lease, loaded) in leases.into_iter().zip(loaded) {
                    match loaded {
                        Loaded::Lane(snapshot) => self.start(lease, snapshot),
                        Loaded::Fenced => {
                            self.services.keeper.drop_lease(&lease);
                        }
                    }
                }
            }
            // A row that cannot be decoded must stop only its own lane, so each lane is loaded alone.
            Err(StoreError::Row(error)) if leases.len() > 1 => {
                tracing::warn!("a lane row cannot be decoded; loading lanes one by one: {error}");
                for lease in leases {
                    Box::pin(self.load(vec![lease])).await;
                }
            }
            Err(error) => {
                tracing::warn!(lanes = leases.len(), "lanes could not be loaded: {error}");
                let later = self.now().saturating_add(self.options.held_pause);
                for lease in leases {
                    self.to_acquire.insert(lease.submitter().clone(), later);
                }
            }
        }
    }

    fn start(&mut self, lease: Lease, snapshot: gapless_domain::LaneSnapshot) {
        let Some(Servable { setup, desk, signer }) = self.servable.get(lease.submitter()).cloned() else { return };
        // Every log line of the run has these fields: its effects run inside the run's own future.
        let span = tracing::error_span!(
            "lane",
            submitter = %lease.submitter(),
            node_id = %lease.owner(),
            fencing_token = %lease.token()
        );
        span.in_scope(|| tracing::debug!(open = snapshot.slots.len(), "lane started"));
        let inbox = Arc::new(LaneInbox::default());
        let runner = LaneRunner::new(self.services.clone(), desk, signer, lease.clone(), Arc::clone(&inbox));
        let sender = self.report_outcome.clone();
        self.running_lanes.insert(RunningLane { lease: lease.clone(), inbox, since: self.now() });
        metrics::gauge!("gapless_lanes_running").set(self.running_lanes.len() as f64);
        let run = async move {
            let mut report = RunReport { lease, outcome: RunOutcome::Refused, sender };
            report.outcome = runner.run(snapshot, LaneSetup::clone(&setup)).await;
        };
        self.tasks.spawn(run.instrument(span));
    }

    async fn handle_ended(&mut self, lease: Lease, outcome: RunOutcome) {
        let mut release = Vec::new();
        self.after_run(lease, outcome, &mut release);
        while let Ok((lease, outcome)) = self.outcomes.try_recv() {
            self.after_run(lease, outcome, &mut release);
        }
        metrics::gauge!("gapless_lanes_running").set(self.running_lanes.len() as f64);
        if !release.is_empty() {
            self.release(release).await;
        }
    }

    async fn release(&self, leases: Vec<Lease>) {
        self.services.faults.reach(FaultPoint::BeforeRelease);
        if let Err(error) = self.services.keeper.release(&leases).await {
            tracing::warn!(lanes = leases.len(), "leases could not be released; they will expire: {error}");
        }
        self.services.faults.reach(FaultPoint::AfterRelease);
    }

    fn after_run(&mut self, lease: Lease, outcome: RunOutcome, release: &mut Vec<Lease>) {
        let lane = lease.submitter().clone();
        let ended = self.running_lanes.remove(&lane);
        let now = self.now();
        let was_leaving = self.share.run_ended(&lane, now);
        match outcome {
            RunOutcome::SignerFails => {
                self.share.leave_to_other_nodes(&lane, now);
                metrics::counter!("gapless_lanes_handed_over_total").increment(1);
                release.push(lease);
            }
            // A lane that was handed over is not reloaded here. If no other node takes it, this node acquires it again
            // later.
            RunOutcome::Released | RunOutcome::Reload | RunOutcome::Refused if was_leaving => {
                metrics::counter!("gapless_lanes_handed_over_total").increment(1);
                release.push(lease);
            }
            RunOutcome::Released => {
                release.push(lease);
                // A wake-up arrived after the lane had decided to end.
                if ended.is_some_and(|run| run.inbox.is_woken()) {
                    self.to_acquire.insert(lane, now);
                }
            }
            RunOutcome::Reload => {
                self.to_acquire.insert(lane, now.saturating_add(self.options.reload_pause));
            }
            RunOutcome::Refused => {
                self.to_acquire.insert(lane, now.saturating_add(self.options.refused_pause));
            }
            // If there is work left, the sweep finds the lane once its lease has expired. Counted here, where every
            // kind of loss ends: not renewed, fenced, no longer trusted.
            RunOutcome::Lost => metrics::counter!("gapless_lease_lost_total").increment(1),
        }
    }

    /// Lets every lane finish its work in flight, and releases all leases. Leases are no longer renewed: work that does
    /// not finish while its lease is trusted is dropped, so a drain ends even if the database is down.
    async fn drain(mut self) {
        self.running_lanes.drain_all();
        let mut idle = self.services.keeper.held();
        idle.retain(|lease| !self.running_lanes.contains(lease.submitter()));
        if !idle.is_empty() {
            self.release(idle).await;
        }
        while !self.running_lanes.is_empty() {
            let recheck = self.services.driver.sleep_until(self.now().saturating_add(self.terms.renew_interval));
            tokio::select! {
                biased;
                Some((lease, outcome)) = self.outcomes.recv() => self.handle_drained(lease, outcome).await,
                () = recheck => self.running_lanes.end_lapsed_runs(&self.services.keeper),
            }
        }
    }

    async fn handle_drained(&mut self, lease: Lease, outcome: RunOutcome) {
        let mut release = Vec::new();
        let mut take = |this: &mut Self, lease: Lease, outcome: RunOutcome| {
            this.running_lanes.remove(lease.submitter());
            // No lane is loaded here any more, so a lane that would be reloaded is released too.
            if outcome != RunOutcome::Lost {
                release.push(lease);
            }
        };
        take(self, lease, outcome);
        while let Ok((lease, outcome)) = self.outcomes.try_recv() {
            take(self, lease, outcome);
        }
        if !release.is_empty() {
            self.release(release).await;
        }
    }
}
