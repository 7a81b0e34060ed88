//! The faults of the simulator: their names, their odds and the count of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dice::Dice;

gapless_domain::names! {
    /// All faults that a world injects into a node, the database, the network or the chain. The actions of people (a
    /// caller cancels, an operator pauses a lane) are not faults.
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
        // --- The network between a node and the chain's endpoints ---
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
        // --- The signers ---
        SignerHangs = "signer_hangs",
        SignerSlow = "signer_slow",
        SignerFails = "signer_fails",
    }
}

/// The odds of each fault, in a thousand chances. `usual_odds` in `plan.rs` says when a fault has a chance.
pub type Odds = BTreeMap<Fault, u32>;

/// Rolls for faults and counts them. Clones share one count.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<FaultState>>);

#[derive(Debug)]
struct FaultState {
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
        Faults(Arc::new(Mutex::new(FaultState {
            odds: odds.clone(),
            dice,
            struck: BTreeMap::new(),
            scripted: BTreeSet::new(),
            armed: None,
            calm: false,
        })))
    }

    /// Rolls for a fault and counts it if it strikes. The caller then injects it.
    pub fn strikes(&self, fault: Fault) -> bool {
        self.rolls(fault) && {
            self.count(fault);
            true
        }
    }

    /// Rolls for a fault without counting it, for a fault that may be impossible at this moment. A caller that injects
    /// it calls [`Faults::count`].
    pub fn rolls(&self, fault: Fault) -> bool {
        let mut state = self.state();
        if state.armed == Some(fault) && !state.calm {
            return true;
        }
        let FaultState { odds, dice, calm, .. } = &mut *state;
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

    /// True if this world can have the fault.
    pub fn has(&self, fault: Fault) -> bool {
        let state = self.state();
        state.scripted.contains(&fault) || state.odds.get(&fault).is_some_and(|odds| *odds > 0)
    }

    /// Ends the storm: no fault strikes from now on.
    pub fn calm_down(&self) {
        self.state().calm = true;
    }

    pub fn is_calm(&self) -> bool {
        self.state().calm
    }

    pub fn struck(&self) -> BTreeMap<Fault, u64> {
        self.state().struck.clone()
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
