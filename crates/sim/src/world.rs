//! One running world: sets it up, runs it until all lanes are at rest, and shows every moment to the checks.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_domain::{B256, Cursor, LaneState, Nonce, OwnerId, ProtectCode, SlotKind, SubmitterId};
use gapless_store::{LaneStatus, NewSubmitter, SlotStatus, Store, StoreError};

use crate::chain::{ChainWorld, account};
use crate::check::{self, Check, CheckFailure, EndState, Violation, WorldView, read_end_state};
use crate::dice::Dice;
use crate::fault::{Fault, Faults};
use crate::history::{History, Moment};
use crate::net::Net;
use crate::outcome::{Figures, Outcome};
use crate::people;
use crate::planted::DatabaseBug;
use crate::process::{RunningProcess, WorldParts};
use crate::process_faults;
use crate::script::Progress;
use crate::stage::{Stage, Stepped, TaskOwner};
use crate::store::{Database, wait_for};
use crate::world_spec::WorldSpec;

/// The time that intents have to end in after the storm. The time that the chain itself needs comes on top.
const CALM: Duration = Duration::from_secs(300);
/// The greatest number of polls without any time passing. More of them mean a task that never stops.
const BUSY: u64 = 200_000;

/// The state that the tasks of a world share.
#[derive(Debug)]
pub(crate) struct SharedWorld {
    pub(crate) parts: WorldParts,
    /// The process of each node, while one runs there.
    nodes: Mutex<Vec<Option<RunningProcess>>>,
    /// The number of processes that were ever started.
    born: AtomicU32,
    /// The number of callers that are not done.
    callers: AtomicU32,
    /// A direct connection to the database, for checks from outside of the world.
    inspector: Arc<dyn Store>,
}

impl SharedWorld {
    pub(crate) fn stage(&self) -> &Stage {
        &self.parts.stage
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.parts.faults
    }

    pub(crate) fn tell(&self, moment: Moment) {
        self.parts.history.tell(moment);
    }

    pub(crate) fn strike(&self, fault: Fault, what: impl Into<String>) {
        self.tell(Moment::Struck { fault, what: what.into() });
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes().len()
    }

    /// Calls `look` with the process of a node, if one runs there.
    pub(crate) fn with_process<T>(&self, node: usize, look: impl FnOnce(&mut RunningProcess) -> T) -> Option<T> {
        self.nodes().get_mut(node).and_then(Option::as_mut).map(look)
    }

    /// The intake and the store of a random process that runs, for a caller.
    pub(crate) fn random_node(&self, dice: &mut Dice) -> Option<(gapless_engine::Intake, Arc<dyn Store>)> {
        let nodes = self.nodes();
        let open: Vec<&RunningProcess> = nodes.iter().flatten().collect();
        let process = open.get(dice.index(open.len()))?;
        Some((process.intake.clone(), Arc::clone(&process.store)))
    }

    /// The finality violation that some process shows, if any.
    pub(crate) fn finality_violation(&self) -> Option<ProtectCode> {
        let chain = self.parts.chain.id();
        let nodes = self.nodes();
        let mut shown = nodes.iter().flatten().filter_map(|process| process.view.chain_status(chain));
        shown.find_map(|status| status.broken().map(|violation| violation.code))
    }

    pub(crate) fn start(&self, node: usize) {
        let born = self.born.fetch_add(1, Ordering::Relaxed);
        // The start cannot fail: every lane is on the only chain.
        if let Ok(process) = self.parts.start(node as u32, born)
            && let Some(place) = self.nodes().get_mut(node)
        {
            *place = Some(process);
        }
    }

    /// Ends the process of a node at once.
    pub(crate) fn end(&self, node: usize, how: &'static str) {
        let process = self.nodes().get_mut(node).and_then(Option::take);
        if let Some(process) = process {
            self.stage().kill(process.task_owner);
            self.tell(Moment::Ended { owner: process.owner.clone(), how });
            drop(process);
        }
    }

    /// The node on which this process runs.
    fn node_of(&self, task_owner: TaskOwner) -> Option<usize> {
        self.nodes().iter().position(|process| process.as_ref().is_some_and(|process| process.task_owner == task_owner))
    }

    /// True if the lane is paused, read from the database.
    pub(crate) fn is_paused(&self, lane: &SubmitterId) -> bool {
        let status = wait_for(self.inspector.lane_status(std::slice::from_ref(lane)));
        let is_paused = |status: LaneStatus| status.cursor.is_some_and(|cursor| cursor.paused);
        status.is_ok_and(|lanes| lanes.into_iter().flatten().any(is_paused))
    }

    /// True if a pool has a transaction of this lane that the ledger does not know. The nonces of open intents do not
    /// count: a resync waits for them without an operator.
    pub(crate) fn has_unknown_pending(&self, lane: &SubmitterId) -> bool {
        let slots = wait_for(self.inspector.open_slots(lane, None, u32::MAX)).unwrap_or_default();
        let known: BTreeSet<B256> =
            slots.iter().flat_map(|slot| slot.attempts.iter().map(|attempt| attempt.hash)).collect();
        let is_of_intent = |status: &&SlotStatus| {
            let is_open = status.tx.as_ref().is_some_and(|tx| tx.state.bound().is_some());
            is_open && matches!(status.slot.kind, SlotKind::Intent(_))
        };
        let waited_for: BTreeSet<Nonce> = slots.iter().filter(is_of_intent).map(|status| status.slot.nonce).collect();
        let waiting = self.parts.chain.waiting(lane);
        waiting.iter().any(|(hash, nonce)| !known.contains(hash) && !waited_for.contains(nonce))
    }

    /// True if the newest transaction of the lane is in a block that is final for the nodes. A node shows a block as
    /// final after it has saved the block.
    pub(crate) fn is_newest_tx_final(&self, lane: &SubmitterId) -> bool {
        let saved = wait_for(self.inspector.head(self.parts.chain.id())).ok().flatten();
        let finalized = saved.and_then(|head| head.finalized).map(|block| block.number);
        self.parts.chain.newest_block_of(lane).is_none_or(|newest| finalized >= Some(newest.number))
    }

    pub(crate) fn is_empty(&self, node: usize) -> bool {
        self.nodes().get(node).is_some_and(Option::is_none)
    }

    pub(crate) fn caller_begins(&self) {
        self.callers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn caller_ends(&self) {
        self.callers.fetch_sub(1, Ordering::Relaxed);
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Option<RunningProcess>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A world with its checks.
pub(crate) struct World<'a> {
    shared: Arc<SharedWorld>,
    view: WorldView,
    checks: Vec<Box<dyn Check>>,
    seen: usize,
    steps: u64,
    /// Polls since time last passed.
    busy: u64,
    dice: Dice,
    script: Progress,
    trace: &'a mut dyn FnMut(Duration, &Moment),
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &WorldSpec, trace: &'a mut dyn FnMut(Duration, &Moment)) -> Result<World<'a>, StoreError> {
        let stage = Stage::default();
        let history = History::new(stage.clone());
        let faults = Faults::new(plan.seed, &plan.odds);
        plan.script.iter().for_each(|cue| faults.expect(cue.fault));
        let lanes = lanes(plan.lanes);
        let database = Database::new(plan.store, DatabaseBug::of(plan.mistake), WorldParts::terms(), &stage, &history)?;
        let inspector = database.open(OwnerId::new("inspector", 0));
        let submitters: Vec<_> = lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None }).collect();
        wait_for(inspector.register_submitters(&submitters))?;
        let chain = ChainWorld::new(plan, &lanes, stage.clone(), history.clone());
        let net = |name, millis| Net::new(stage.clone(), Dice::new(plan.seed, name), Duration::from_millis(millis));
        let view = WorldView::new(&lanes, plan);
        let parts = WorldParts {
            plan: plan.clone(),
            lanes,
            to_database: net("way to the database", 2),
            to_chain: net("way to the chain", 20),
            to_people: net("way to people", 2000),
            to_signers: net("way to signers", 2000),
            stage,
            history,
            faults,
            database,
            chain,
            ids: Arc::default(),
        };
        let nodes = (0..plan.nodes).map(|_| None).collect();
        let (born, callers) = (AtomicU32::new(0), AtomicU32::new(0));
        let shared = Arc::new(SharedWorld { parts, nodes: Mutex::new(nodes), born, callers, inspector });
        let (checks, dice) = (check::all(plan), Dice::new(plan.seed, "order"));
        let script = Progress::new(&plan.script);
        Ok(World { shared, view, checks, seen: 0, steps: 0, busy: 0, dice, script, trace })
    }

    /// Runs until all lanes are at rest, or until a check fails.
    pub(crate) fn run(mut self) -> Outcome {
        let violation = self.run_until_rest().err();
        let shared = &self.shared;
        let plan = shared.parts.plan.clone();
        let tail = violation.as_ref().map(|violation| self.tail(violation)).unwrap_or_default();
        let outcome = Outcome {
            simulated: shared.stage().now(),
            steps: self.steps,
            struck: shared.faults().struck(),
            figures: Figures::of(&shared.parts.history),
            history: shared.parts.history.clone(),
            plan,
            violation,
            tail,
        };
        // Tasks hold the stage and the stage holds the tasks, so they are dropped explicitly.
        self.shared.stage().clear();
        outcome
    }

    fn run_until_rest(&mut self) -> Result<(), Violation> {
        let plan = self.shared.parts.plan.clone();
        for node in 0..self.shared.node_count() {
            self.shared.start(node);
        }
        self.shared.parts.chain.run(self.shared.faults());
        process_faults::spawn_all(&self.shared);
        people::spawn_all(&self.shared);
        while self.now() < plan.storm {
            self.step()?;
        }
        self.calm_down();
        // In the worst case the intents become final one after the other.
        let one = plan.block_time * (plan.confirmations + 5);
        let deadline = self.now() + CALM + one * plan.intents;
        let mut next_look = self.now();
        while self.now() < deadline {
            self.step()?;
            if self.now() >= next_look {
                next_look = self.now() + Duration::from_secs(1);
                if self.is_at_rest(plan.storm) {
                    break;
                }
            }
        }
        self.end()
    }

    fn now(&self) -> Duration {
        self.shared.stage().now()
    }

    fn calm_down(&mut self) {
        self.shared.faults().calm_down();
        self.shared.tell(Moment::Calm);
        for node in 0..self.shared.node_count() {
            match self.shared.with_process(node, |process| process.task_owner) {
                Some(task_owner) => self.shared.stage().resume(task_owner),
                None => self.shared.start(node),
            }
        }
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        self.busy += 1;
        match self.shared.stage().step(&mut self.dice) {
            Stepped::Polled => {}
            Stepped::TimePassed => self.busy = 0,
            Stepped::Crashed(task_owner) => {
                if let Some(node) = self.shared.node_of(task_owner) {
                    self.shared.end(node, "crash");
                    process_faults::restart_later(&self.shared, node);
                }
            }
            Stepped::Panicked(task_owner, text) => {
                return Err(self.defect(format!("a task of {task_owner:?} panicked: {text}")));
            }
            Stepped::Over => return Err(self.defect("no task and no timer is left".to_owned())),
        }
        if self.busy > BUSY {
            return Err(self.defect("a task runs without end, and no time passes".to_owned()));
        }
        self.run_checks()
    }

    /// Shows the newest moments to the checks.
    fn run_checks(&mut self) -> Result<(), Violation> {
        let news = self.shared.parts.history.since(self.seen);
        for (at, moment) in news {
            (self.trace)(at, &moment);
            self.script.see(&moment, self.shared.faults());
            self.view.apply(self.seen, at, &moment);
            if matches!(moment, Moment::Mined { .. } | Moment::Orphaned { .. } | Moment::Struck { .. }) {
                for lane in &self.shared.parts.lanes {
                    self.view.record_balance(lane, self.shared.parts.chain.balance(lane));
                }
            }
            self.seen += 1;
            for check in &mut self.checks {
                if let Err(failure) = check.see(&moment, &self.view) {
                    return Err(violation(check.promise(), failure, at));
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Violation> {
        let (at, view) = (self.now(), &mut self.view);
        let reading =
            read_end_state(&*self.shared.inspector, &self.shared.parts.lanes, view.demanded(), view.excused());
        match wait_for(reading) {
            Ok(state) => {
                let (repeated, without_old_lane_events) = (view.repeated(), view.plan.retention.is_some());
                view.close(EndState { repeated, without_old_lane_events, ..state });
            }
            Err(error) => return Err(self.defect(format!("the store cannot be read: {error}"))),
        }
        for check in &mut self.checks {
            if let Err(failure) = check.end(&self.view) {
                return Err(violation(check.promise(), failure, at));
            }
        }
        Ok(())
    }

    fn defect(&self, what: String) -> Violation {
        Violation { promise: "defect", lane: None, what, at: self.now() }
    }

    /// True if all callers are done and no lane has work left. Excused lanes wait for a decision that is never made, so
    /// they do not count, but they get some time.
    fn is_at_rest(&self, storm: Duration) -> bool {
        let excused = self.view.excused();
        if !excused.is_empty() && self.now() < storm + Duration::from_secs(90) {
            return false;
        }
        let waits_for = |lane: &&SubmitterId| !excused.contains(lane);
        let lanes: Vec<SubmitterId> = self.shared.parts.lanes.iter().filter(waits_for).cloned().collect();
        let has_callers = self.shared.callers.load(Ordering::Relaxed) > 0 && !lanes.is_empty();
        !has_callers && self.all_at_rest(&lanes)
    }

    fn all_at_rest(&self, lanes: &[SubmitterId]) -> bool {
        let is_open = |cursor: &Cursor| {
            let stopped = cursor.paused || matches!(cursor.state, LaneState::Protect(_));
            stopped || cursor.open_nonce < cursor.next_nonce
        };
        let rests = |status: &LaneStatus| {
            status.queued == 0 && status.open == 0 && !status.cursor.as_ref().is_some_and(is_open)
        };
        let status = wait_for(self.shared.inspector.lane_status(lanes));
        status.is_ok_and(|lanes| lanes.iter().flatten().all(rests))
    }

    /// The last moments before a violation, of its lane and of the world, as text.
    fn tail(&self, violation: &Violation) -> Vec<String> {
        const STEPS: usize = 60;
        let all = self.shared.parts.history.since(0);
        let concerns = |moment: &Moment| match (&violation.lane, moment.lane()) {
            (Some(ours), Some(its)) => ours == its,
            _ => !matches!(moment, Moment::Final { .. }),
        };
        let mut tail: Vec<String> = all
            .iter()
            .rev()
            .filter(|(_, moment)| concerns(moment))
            .take(STEPS)
            .map(|(at, moment)| line(*at, moment))
            .collect();
        tail.reverse();
        tail
    }
}

/// One line of a trace.
pub(crate) fn line(at: Duration, moment: &Moment) -> String {
    format!("{:>9.3} s  {moment}", at.as_secs_f64())
}

fn violation(promise: &'static str, failure: CheckFailure, at: Duration) -> Violation {
    Violation { promise, lane: failure.lane, what: failure.what, at }
}

fn lanes(count: u32) -> Vec<SubmitterId> {
    (1..=count).filter_map(account).collect()
}
