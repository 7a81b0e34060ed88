//! Chooses the lanes that this node runs: acquires lanes that have work and no owner, and releases idle ones.
//!
//! The dispatcher acts on wake-ups and on a periodic sweep. A wake-up says "look there" and carries no data, so a
//! duplicate is harmless.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::mistakes::{self, Mistake};
use gapless_domain::{LaneSetup, Lease, LeaseTerms, SubmitterId, Tick};
use gapless_store::{Acquired, Loaded, Store, StoreError, Wakeup, Wakeups};
use tokio::sync::mpsc;

use crate::chain_desk::ChainDesk;
use crate::driver::Crew;
use crate::fair_share::{FairShare, ShareOptions};
use crate::fault_points::FaultPoint;
use crate::lane_inbox::LaneInbox;
use crate::lane_runner::{Ending, LaneRunner, Tools};
use crate::published::Follower;
use crate::roster::{Roster, Running};

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
}

#[derive(Debug)]
pub(crate) struct Dispatcher {
    store: Arc<dyn Store>,
    tools: Tools,
    crew: Crew,
    terms: LeaseTerms,
    options: DispatchOptions,
    servable: BTreeMap<SubmitterId, Servable>,
    roster: Arc<Roster>,
    /// Lanes to acquire, with the earliest time for each.
    wanted: BTreeMap<SubmitterId, Tick>,
    /// Lanes that another node held at the last request, with the earliest time for the next one.
    elsewhere: BTreeMap<SubmitterId, Tick>,
    report_ending: mpsc::Sender<(Lease, Ending)>,
    endings: mpsc::Receiver<(Lease, Ending)>,
    wakeups: Wakeups,
    draining: Follower<bool>,
    /// Lanes that were woken because their chain has a finality violation.
    alarmed: BTreeSet<SubmitterId>,
    share: FairShare,
    started_at: Tick,
}

/// Reports the end of a run when dropped, so that a panic is reported too.
struct EndOfRun {
    lease: Lease,
    ending: Ending,
    report: mpsc::Sender<(Lease, Ending)>,
}

impl Drop for EndOfRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(submitter = %self.lease.submitter(), node_id = %self.lease.owner(), fencing_token = %self.lease.token(), "a defect ended the run of a lane; it is loaded anew");
        }
        // The channel has room for one report of each lane that may run.
        let _ = self.report.try_send((self.lease.clone(), self.ending));
    }
}

impl Dispatcher {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        tools: Tools,
        crew: Crew,
        terms: LeaseTerms,
        options: DispatchOptions,
        servable: BTreeMap<SubmitterId, Servable>,
        draining: Follower<bool>,
    ) -> Self {
        let wakeups = store.wakeups();
        let (report_ending, endings) = mpsc::channel(options.lanes_max.max(1));
        let (roster, wanted, elsewhere) = (Arc::default(), BTreeMap::new(), BTreeMap::new());
        let started_at = tools.driver.now();
        let share = FairShare::new(options.share.clone(), started_at);
        Dispatcher {
            store,
            tools,
            crew,
            terms,
            options,
            servable,
            roster,
            wanted,
            elsewhere,
            report_ending,
            endings,
            wakeups,
            draining,
            alarmed: BTreeSet::new(),
            share,
            started_at,
        }
    }

    /// Runs until the node drains and every lease is released.
    pub(crate) async fn run(mut self) {
        let (keeper, driver) = (Arc::clone(&self.tools.keeper), Arc::clone(&self.tools.driver));
        self.crew.spawn(Arc::clone(&self.roster).keep_leases(keeper, driver, self.terms, self.draining.clone()));
        let mut sweep_at = self.now();
        loop {
            if self.draining.read(|draining| *draining) {
                return self.drain().await;
            }
            let now = self.now();
            if now >= sweep_at {
                sweep_at = now.saturating_add(self.options.sweep_interval);
                self.sweep().await;
                self.alarm();
            }
            if now >= self.share.next_look() {
                self.hand_over().await;
            }
            self.take_wanted().await;
            // At full capacity only the end of a run makes room.
            let due = self.wanted.values().copied().min().filter(|_| self.room() > 0);
            let wake_at = due.unwrap_or(sweep_at).min(sweep_at).min(self.share.next_look());
            let sleep = self.tools.driver.sleep_until(wake_at);
            tokio::select! {
                // A drain and the ends of runs come before wake-ups, however many there are. Deadlines need no branch
                // of their own: the loop checks them each time.
                biased;
                _ = self.draining.find(|draining| draining.then_some(())) => return self.drain().await,
                Some((lease, ending)) = self.endings.recv() => self.ended(lease, ending).await,
                wakeup = self.wakeups.next() => self.woken(wakeup, &mut sweep_at),
                () = sleep => {}
            }
        }
    }

    fn now(&self) -> Tick {
        self.tools.driver.now()
    }

    /// Handles this wake-up together with all others that have arrived.
    fn woken(&mut self, wakeup: Wakeup, sweep_at: &mut Tick) {
        let mut next = Some(wakeup);
        while let Some(wakeup) = next {
            match wakeup {
                Wakeup::Lane(lane) => self.want(lane),
                Wakeup::Everywhere => {
                    *sweep_at = self.now();
                    self.roster.wake_all();
                }
            }
            next = self.wakeups.try_next();
        }
    }

    /// Plans to acquire a lane that has work, or wakes it if it runs here.
    fn want(&mut self, lane: SubmitterId) {
        if !self.roster.wake(&lane) && self.servable.contains_key(&lane) {
            let now = self.now();
            let here = self.roster.len() + self.wanted.len();
            let not_before = self.share.not_before(&lane, here, self.is_away(&lane, now), now);
            let not_before = self.elsewhere.get(&lane).map_or(not_before, |until| not_before.max(*until));
            let at = self.wanted.entry(lane).or_insert(not_before);
            *at = (*at).min(not_before);
        }
    }

    async fn sweep(&mut self) {
        if mistakes::made(Mistake::LostWakeup) {
            return;
        }
        let now = self.now();
        self.elsewhere.retain(|_, until| *until > now);
        let mut after = None;
        loop {
            let found = self.store.lanes_with_work(after.as_ref(), self.options.sweep_limit).await;
            let lanes = match found {
                Ok(lanes) => lanes,
                Err(error) => return tracing::warn!("cannot look for lanes with work: {error}"),
            };
            let whole = lanes.len() >= self.options.sweep_limit as usize;
            after = lanes.last().cloned();
            for lane in lanes {
                // The sweep returns lanes without an owner, so an older "held by another node" is outdated.
                self.elsewhere.remove(&lane);
                self.want(lane);
            }
            if !whole {
                return;
            }
        }
    }

    /// Wakes idle lanes too when their chain has a finality violation: an intent that they ended may be undone.
    fn alarm(&mut self) {
        let is_broken = |desk: &ChainDesk| desk.status().is_some_and(|status| status.broken().is_some());
        // Once an operator has resolved a violation, the next one wakes the lane again.
        let servable = &self.servable;
        self.alarmed.retain(|lane| servable.get(lane).is_some_and(|servable| is_broken(&servable.desk)));
        let lanes = self.servable.iter().filter(|(lane, _)| !self.alarmed.contains(*lane));
        let lanes: Vec<SubmitterId> =
            lanes.filter(|(_, servable)| is_broken(&servable.desk)).map(|(lane, _)| lane.clone()).collect();
        for lane in lanes {
            self.alarmed.insert(lane.clone());
            self.want(lane);
        }
    }

    /// Drains the lanes above this node's share, so that their leases are released.
    async fn hand_over(&mut self) {
        let now = self.now();
        let running = self.roster.lanes();
        let away = running.iter().map(|(lane, _)| lane).filter(|lane| self.is_away(lane, now)).cloned();
        let away: Vec<SubmitterId> = away.collect();
        if !self.share.look(running.len(), now) && away.is_empty() {
            return;
        }
        let census = match self.store.census().await {
            Ok(census) => census,
            Err(error) => return tracing::warn!("cannot find out who shares the work: {error}"),
        };
        let away = self.share.choose_away(away, census);
        if !away.is_empty() {
            tracing::warn!(lanes = away.len(), nodes = census.nodes, "their chain cannot be read here; others may");
        }
        away.iter().for_each(|lane| self.roster.drain(lane));
        let leaving = self.share.choose(running, census, now);
        if !leaving.is_empty() {
            let (lanes, nodes) = (census.lanes, census.nodes);
            tracing::info!(
                here = self.roster.len(),
                lanes,
                nodes,
                handed_over = leaving.len(),
                "more than a fair share"
            );
        }
        leaving.iter().for_each(|lane| self.roster.drain(lane));
    }

    /// Has the lane's chain been unreadable for long?
    fn is_away(&self, lane: &SubmitterId, now: Tick) -> bool {
        let status = self.servable.get(lane).and_then(|servable| servable.desk.status());
        let read_at = status.map_or(self.started_at, |status| status.read_at.max(self.started_at));
        now.saturating_since(read_at) > self.share.away_after()
    }

    /// The number of lanes that may still start here.
    fn room(&self) -> usize {
        self.options.lanes_max.saturating_sub(self.roster.len())
    }

    /// Acquires, loads and starts every lane that is due, in two round trips.
    async fn take_wanted(&mut self) {
        let now = self.now();
        let due = self.wanted.iter().filter(|(lane, at)| **at <= now && !self.roster.contains(lane));
        // The longest-waiting lanes come first if there is no room for all.
        let due: BTreeSet<(Tick, &SubmitterId)> = due.map(|(lane, at)| (*at, lane)).collect();
        let lanes: BTreeSet<&SubmitterId> = due.into_iter().take(self.room()).map(|(_, lane)| lane).collect();
        let lanes: Vec<SubmitterId> = lanes.into_iter().cloned().collect();
        if lanes.is_empty() {
            return;
        }
        let answers = match self.tools.keeper.acquire(&lanes).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(lanes = lanes.len(), "cannot acquire leases: {error}");
                let later = self.now().saturating_add(self.options.held_pause);
                self.wanted.extend(lanes.into_iter().map(|lane| (lane, later)));
                return;
            }
        };
        let mut held = Vec::new();
        for (lane, answer) in lanes.into_iter().zip(answers) {
            let later = self.now().saturating_add(self.options.held_pause);
            let result = match answer {
                Acquired::Held(lease) => {
                    self.wanted.remove(&lane);
                    held.push(lease);
                    "held"
                }
                Acquired::HeldByOther => {
                    self.wanted.remove(&lane);
                    self.elsewhere.insert(lane, later);
                    "held_by_other"
                }
                Acquired::Busy => {
                    self.wanted.insert(lane, now.saturating_add(self.options.reload_pause));
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
        match self.store.load_lanes(&leases).await {
            Ok(loaded) => {
                for (lease, loaded) in leases.into_iter().zip(loaded) {
                    match loaded {
                        Loaded::Lane(snapshot) => self.start(lease, snapshot),
                        Loaded::Fenced => {
                            self.tools.keeper.drop_lease(&lease);
                        }
                    }
                }
            }
            // A row that cannot be decoded must stop only its own lane, so each lane is loaded alone.
            Err(StoreError::Row(error)) if leases.len() > 1 => {
                tracing::warn!("loading lanes one by one: {error}");
                for lease in leases {
                    Box::pin(self.load(vec![lease])).await;
                }
            }
            Err(error) => {
                tracing::warn!(lanes = leases.len(), "cannot load lanes: {error}");
                let later = self.now().saturating_add(self.options.held_pause);
                for lease in leases {
                    self.wanted.insert(lease.submitter().clone(), later);
                }
            }
        }
    }

    fn start(&mut self, lease: Lease, snapshot: gapless_domain::LaneSnapshot) {
        let Some(Servable { setup, desk }) = self.servable.get(lease.submitter()).cloned() else { return };
        tracing::debug!(submitter = %lease.submitter(), node_id = %lease.owner(), fencing_token = %lease.token(), open = snapshot.slots.len(), "runs here");
        let inbox = Arc::new(LaneInbox::default());
        let runner = LaneRunner::new(self.tools.clone(), desk, lease.clone(), Arc::clone(&inbox));
        let report = self.report_ending.clone();
        self.roster.insert(Running { lease: lease.clone(), inbox, since: self.now() });
        metrics::gauge!("gapless_lanes_running").set(self.roster.len() as f64);
        self.crew.spawn(async move {
            let mut end = EndOfRun { lease, ending: Ending::Refused, report };
            end.ending = runner.run(snapshot, LaneSetup::clone(&setup)).await;
        });
    }

    async fn ended(&mut self, lease: Lease, ending: Ending) {
        let mut release = Vec::new();
        self.settle(lease, ending, &mut release);
        while let Ok((lease, ending)) = self.endings.try_recv() {
            self.settle(lease, ending, &mut release);
        }
        metrics::gauge!("gapless_lanes_running").set(self.roster.len() as f64);
        if !release.is_empty() {
            self.release(release).await;
        }
    }

    async fn release(&self, leases: Vec<Lease>) {
        self.tools.faults.reach(FaultPoint::BeforeRelease);
        if let Err(error) = self.tools.keeper.release(&leases).await {
            tracing::warn!(lanes = leases.len(), "cannot give leases back; they will expire: {error}");
        }
        self.tools.faults.reach(FaultPoint::AfterRelease);
    }

    fn settle(&mut self, lease: Lease, ending: Ending, release: &mut Vec<Lease>) {
        let lane = lease.submitter().clone();
        let ended = self.roster.remove(&lane);
        let now = self.now();
        let handed_over = self.share.has_left(&lane, now);
        match ending {
            // A lane that was handed over is not reloaded here. If no other node takes it, this node acquires it again
            // later.
            Ending::Released | Ending::Reload | Ending::Refused if handed_over => {
                metrics::counter!("gapless_lanes_handed_over_total").increment(1);
                release.push(lease);
            }
            Ending::Released => {
                release.push(lease);
                // A wake-up arrived after the lane had decided to end.
                if ended.is_some_and(|run| run.inbox.is_woken()) {
                    self.wanted.insert(lane, now);
                }
            }
            Ending::Reload => {
                self.wanted.insert(lane, now.saturating_add(self.options.reload_pause));
            }
            Ending::Refused => {
                self.wanted.insert(lane, now.saturating_add(self.options.refused_pause));
            }
            // If there is work left, the sweep finds the lane once its lease has expired. Counted here, where every
            // kind of loss ends: not renewed, fenced, no longer trusted.
            Ending::Lost => metrics::counter!("gapless_lease_lost_total").increment(1),
        }
    }

    /// Lets every lane finish its work in flight, and releases all leases. Leases are no longer renewed: work that does
    /// not finish while its lease is trusted is dropped, so a drain ends even if the database is down.
    async fn drain(mut self) {
        self.roster.drain_all();
        let mut idle = self.tools.keeper.held();
        idle.retain(|lease| !self.roster.contains(lease.submitter()));
        if !idle.is_empty() {
            self.release(idle).await;
        }
        while !self.roster.is_empty() {
            let look_again = self.tools.driver.sleep_until(self.now().saturating_add(self.terms.renew_interval));
            tokio::select! {
                biased;
                Some((lease, ending)) = self.endings.recv() => self.drained(lease, ending).await,
                () = look_again => self.roster.lose_lapsed(&self.tools.keeper),
            }
        }
    }

    async fn drained(&mut self, lease: Lease, ending: Ending) {
        let mut release = Vec::new();
        let mut take = |this: &mut Self, lease: Lease, ending: Ending| {
            this.roster.remove(lease.submitter());
            // No lane is loaded here any more, so a lane that would be reloaded is released too.
            if ending != Ending::Lost {
                release.push(lease);
            }
        };
        take(self, lease, ending);
        while let Ok((lease, ending)) = self.endings.try_recv() {
            take(self, lease, ending);
        }
        if !release.is_empty() {
            self.release(release).await;
        }
    }
}
