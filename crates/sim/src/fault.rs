//! What can go wrong, each by its name, with its own odds and its own count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dice::Dice;

gapless_domain::names! {
    /// Everything that the world does to a node, the database, the network or the chain. People (callers who cancel, operators who
    /// pause) are no faults.
    Fault {
        // --- Processes and their clocks ---
        CrashAtPoint = "crash_at_point",
        CrashAnywhere = "crash_anywhere",
        Drain = "drain",
        Pause = "pause",
        NodeClockJump = "node_clock_jump",
        DatabaseClockJump = "database_clock_jump",
        // --- The store ---
        WakeupLost = "wakeup_lost",
        WakeupDoubled = "wakeup_doubled",
        AnswerLost = "answer_lost",
        CommitRefused = "commit_refused",
        StatementTimeout = "statement_timeout",
        StoreSlow = "store_slow",
        Failover = "failover",
        // --- Between a node and the chain's endpoints ---
        RpcTimeoutBefore = "rpc_timeout_before",
        RpcTimeoutAfter = "rpc_timeout_after",
        RpcSlow = "rpc_slow",
        SendDropped = "send_dropped",
        SendDoubled = "send_doubled",
        SendDelayed = "send_delayed",
        SendsReordered = "sends_reordered",
        NullReceipt = "null_receipt",
        WrongText = "wrong_text",
        UnknownText = "unknown_text",
        EndpointLags = "endpoint_lags",
        EndpointForked = "endpoint_forked",
        EndpointDown = "endpoint_down",
        PoolForgets = "pool_forgets",
        // --- The chain ---
        Reorg = "reorg",
        DeepReorg = "deep_reorg",
        FeeSpike = "fee_spike",
        BalanceDrained = "balance_drained",
        Stranger = "stranger",
        ChainHalt = "chain_halt",
        ChainReset = "chain_reset",
    }
}

/// How often each fault strikes, of a thousand chances that it has. What a chance is, is said where it is rolled for.
pub type Odds = BTreeMap<Fault, u32>;

/// Rolls for faults, and counts them. Clones share one count.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    odds: Odds,
    dice: BTreeMap<Fault, Dice>,
    struck: BTreeMap<Fault, u64>,
    /// Faults of a script, and the one of them that strikes at its next chance.
    scripted: BTreeSet<Fault>,
    armed: Option<Fault>,
    calm: bool,
}

impl Faults {
    pub fn new(seed: u64, odds: &Odds) -> Self {
        let dice = odds.keys().map(|fault| (*fault, Dice::new(seed, fault.as_str()))).collect();
        Faults(Arc::new(Mutex::new(State {
            odds: odds.clone(),
            dice,
            struck: BTreeMap::new(),
            scripted: BTreeSet::new(),
            armed: None,
            calm: false,
        })))
    }

    /// Does it strike now? If so it is counted: whoever asks then does it.
    pub fn strikes(&self, fault: Fault) -> bool {
        self.rolls(fault) && {
            self.count(fault);
            true
        }
    }

    /// The same, for a fault that may turn out to be impossible: whoever does it says so by [`Faults::count`].
    pub fn rolls(&self, fault: Fault) -> bool {
        let mut state = self.state();
        if state.armed == Some(fault) && !state.calm {
            return true;
        }
        let State { odds, dice, calm, .. } = &mut *state;
        let (false, Some(odds), Some(dice)) = (*calm, odds.get(&fault), dice.get_mut(&fault)) else { return false };
        dice.permille(*odds)
    }

    pub fn count(&self, fault: Fault) {
        let mut state = self.state();
        *state.struck.entry(fault).or_default() += 1;
        state.armed = state.armed.filter(|armed| *armed != fault);
    }

    /// A script has this fault.
    pub(crate) fn expect(&self, fault: Fault) {
        self.state().scripted.insert(fault);
    }

    /// The fault strikes at its next chance.
    pub(crate) fn arm(&self, fault: Fault) {
        self.state().armed = Some(fault);
    }

    /// Is it part of this world at all?
    pub fn has(&self, fault: Fault) -> bool {
        let state = self.state();
        state.scripted.contains(&fault) || state.odds.get(&fault).is_some_and(|odds| *odds > 0)
    }

    /// The storm is over: nothing strikes any more.
    pub fn calm_down(&self) {
        self.state().calm = true;
    }

    pub fn is_calm(&self) -> bool {
        self.state().calm
    }

    pub fn struck(&self) -> BTreeMap<Fault, u64> {
        self.state().struck.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
