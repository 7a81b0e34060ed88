//! Faults of an endpoint: scripted for exact calls, or random with a probability from the seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{B256, keccak256};

use crate::random::SeededRandom;

/// A fault of one call. Faults of sends have no effect on other calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    // --- For sends. ---
    /// The send is answered with its hash and dropped.
    Drop,
    /// The send is answered with its hash, and reaches the pool with the n-th block from now.
    DelayBlocks(u64),
    /// The send reaches the pool twice, and the caller gets the second answer ("already known").
    Duplicate,
    /// The send reaches the pool, and the caller gets no answer.
    TimeOutAfter,
    /// The send reaches the pool, and the caller gets this error instead of the hash.
    RefuseAfter { code: i64, message: String },
    /// The send reaches the pool, and the answer is another hash.
    WrongHash,
    // --- For all calls. ---
    /// The call is not executed, and the caller gets no answer.
    TimeOutBefore,
    /// The call is not executed, and the caller gets this error, for instance the text of another client.
    Refuse { code: i64, message: String },
    /// The call is not executed, and the answer is an HTTP response without JSON-RPC.
    Http { status: u16, retry_after_secs: Option<u32>, body: String },
    /// The call is not executed, and the connection breaks.
    Disconnect,
    // --- For reads. ---
    /// The answer is `null`.
    Null,
}

/// The calls that a fault applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFilter {
    Any,
    /// `eth_sendRawTransaction`.
    Sends,
    /// All other methods.
    Reads,
    Method(String),
}

pub(crate) const SEND_METHOD: &str = "eth_sendRawTransaction";

impl CallFilter {
    fn is_for(&self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Sends => method == SEND_METHOD,
            Self::Reads => method != SEND_METHOD,
            Self::Method(name) => name == method,
        }
    }
}

/// Maximum number of rules of one endpoint. Further rules are rejected.
pub const MAX_FAULT_RULES: usize = 1_024;

/// The faults of one endpoint. Clones are handles to the same faults.
#[derive(Clone, Debug)]
pub struct Faults {
    state: Arc<Mutex<FaultState>>,
}

#[derive(Debug)]
struct FaultState {
    rules: Vec<FaultRule>,
    random: SeededRandom,
    lag: u64,
    dead: bool,
    hide_receipts: bool,
    chain_id: Option<u64>,
    stuck_at: Option<B256>,
    flip: Option<BranchFlip>,
    preconfirms: bool,
    fault_count: u64,
}

/// The state of an endpoint that alternates between two branches.
#[derive(Clone, Copy, Debug)]
struct BranchFlip {
    /// Reads of `latest` before the endpoint switches branches.
    every: u32,
    reads: u32,
    shows_orphans: bool,
}

/// The branch that an endpoint shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisibleBranch {
    /// The canonical chain up to this many blocks before its head.
    Behind(u64),
    /// The chain up to this block, even if the block is orphaned.
    At(B256),
    /// The branch that the last reorg orphaned.
    Orphaned,
}

#[derive(Debug)]
struct FaultRule {
    on: CallFilter,
    fault: Fault,
    when: RuleTrigger,
}

#[derive(Debug)]
enum RuleTrigger {
    /// Number of calls without a fault first, and number of calls with a fault after them.
    Next {
        skip: u32,
        left: u32,
    },
    Always,
    /// Probability in thousandths.
    Permille(u32),
}

const PERMILLE: u32 = 1_000;

impl Faults {
    pub(crate) fn seeded(seed: u64, name: &str) -> Self {
        let salt = keccak256(name.as_bytes());
        let state = FaultState {
            rules: Vec::new(),
            random: SeededRandom::new(seed, salt.as_slice()),
            lag: 0,
            dead: false,
            hide_receipts: false,
            chain_id: None,
            stuck_at: None,
            flip: None,
            preconfirms: false,
            fault_count: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Adds a fault for the next `count` matching calls. Rules are checked in the order of their creation. The first
    /// rule that applies is used, and its count decreases by one.
    pub fn next(&self, on: CallFilter, count: u32, fault: Fault) -> bool {
        self.add(FaultRule { on, fault, when: RuleTrigger::Next { skip: 0, left: count } })
    }

    /// Adds a fault for `count` matching calls, after `skip` matching calls without one.
    pub fn after(&self, on: CallFilter, skip: u32, count: u32, fault: Fault) -> bool {
        self.add(FaultRule { on, fault, when: RuleTrigger::Next { skip, left: count } })
    }

    /// Adds a fault for every matching call, until [`Self::clear`].
    pub fn always(&self, on: CallFilter, fault: Fault) -> bool {
        self.add(FaultRule { on, fault, when: RuleTrigger::Always })
    }

    /// Adds a fault for matching calls with a probability of `permille` thousandths. The seed decides which calls.
    pub fn sometimes(&self, on: CallFilter, permille: u32, fault: Fault) -> bool {
        self.add(FaultRule { on, fault, when: RuleTrigger::Permille(permille) })
    }

    /// Sets the lag: all reads see the chain this many blocks before the head.
    pub fn set_lag(&self, blocks: u64) {
        self.lock().lag = blocks;
    }

    pub fn lag(&self) -> u64 {
        self.lock().lag
    }

    /// Makes the endpoint dead: it refuses every connection.
    pub fn set_dead(&self, dead: bool) {
        self.lock().dead = dead;
    }

    /// Hides receipts and transactions, like an endpoint whose index is behind.
    pub fn hide_receipts(&self, hide: bool) {
        self.lock().hide_receipts = hide;
    }

    /// Makes the endpoint report the chain id of another chain.
    pub fn set_wrong_chain_id(&self, chain_id: Option<u64>) {
        self.lock().chain_id = chain_id;
    }

    /// Fixes the endpoint's head at this block, whatever happens to the chain. `None` ends it.
    /// [`crate::Endpoint::freeze_head`] uses the current head.
    pub fn freeze_head_at(&self, head: Option<B256>) {
        self.lock().stuck_at = head;
    }

    /// Makes the endpoint alternate between the chain and the branch that the last reorg orphaned, like two disagreeing
    /// nodes behind one address. It switches after this many reads of `latest`, and begins with the chain. 0 ends it.
    pub fn flip_every(&self, reads: u32) {
        self.lock().flip =
            Some(BranchFlip { every: reads, reads: 0, shows_orphans: false }).filter(|flip| flip.every > 0);
    }

    /// Makes the endpoint show receipts of transactions that it expects in the next block, like endpoints with
    /// flashblocks. The preconfirmation is not binding: the next block may be empty ([`crate::DevChain::mine_empty`]),
    /// and a shown transaction may be dropped.
    pub fn preconfirm(&self, on: bool) {
        self.lock().preconfirms = on;
    }

    /// Removes all faults, including the lag.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.rules.clear();
        state.lag = 0;
        state.dead = false;
        state.hide_receipts = false;
        state.chain_id = None;
        state.stuck_at = None;
        state.flip = None;
        state.preconfirms = false;
    }

    /// Number of calls that a rule has made fail so far.
    pub fn fault_count(&self) -> u64 {
        self.lock().fault_count
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    pub(crate) fn hides_receipts(&self) -> bool {
        self.lock().hide_receipts
    }

    pub(crate) fn wrong_chain_id(&self) -> Option<u64> {
        self.lock().chain_id
    }

    pub(crate) fn preconfirms(&self) -> bool {
        self.lock().preconfirms
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.lock().stuck_at.is_some()
    }

    /// The branch that the endpoint shows now.
    pub(crate) fn visible_branch(&self) -> VisibleBranch {
        let state = self.lock();
        match (state.stuck_at, state.flip) {
            (Some(head), _) => VisibleBranch::At(head),
            (None, Some(BranchFlip { shows_orphans: true, .. })) => VisibleBranch::Orphaned,
            (None, _) => VisibleBranch::Behind(state.lag),
        }
    }

    /// Counts a read of `latest`, and switches branches when it is due.
    pub(crate) fn count_latest(&self) {
        if let Some(flip) = &mut self.lock().flip {
            if flip.reads == flip.every {
                flip.reads = 0;
                flip.shows_orphans = !flip.shows_orphans;
            }
            flip.reads += 1;
        }
    }

    /// The fault of this call, if a rule applies.
    pub(crate) fn fault_for(&self, method: &str) -> Option<Fault> {
        let mut state = self.lock();
        let FaultState { rules, random, fault_count, .. } = &mut *state;
        let position = rules.iter_mut().position(|rule| rule.on.is_for(method) && rule.when.applies(random))?;
        *fault_count += 1;
        let fault = rules[position].fault.clone();
        rules.retain(|rule| !matches!(rule.when, RuleTrigger::Next { left: 0, .. }));
        Some(fault)
    }

    fn add(&self, rule: FaultRule) -> bool {
        let mut state = self.lock();
        let has_room = state.rules.len() < MAX_FAULT_RULES;
        if has_room {
            state.rules.push(rule);
        }
        has_room
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuleTrigger {
    fn applies(&mut self, random: &mut SeededRandom) -> bool {
        match self {
            Self::Always => true,
            Self::Permille(permille) => random.below(u64::from(PERMILLE)) < u64::from(*permille),
            Self::Next { left: 0, .. } => false,
            Self::Next { skip: 0, left } => {
                *left -= 1;
                true
            }
            Self::Next { skip, .. } => {
                *skip -= 1;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripted_faults_apply_to_exact_calls() {
        let faults = Faults::seeded(1, "a");
        faults.after(CallFilter::Sends, 1, 2, Fault::Drop);
        let seen: Vec<_> = (0..5).map(|_| faults.fault_for(SEND_METHOD).is_some()).collect();
        assert_eq!(seen, [false, true, true, false, false]);
        assert_eq!(faults.fault_count(), 2);
        faults.next(CallFilter::Method("eth_call".to_owned()), 1, Fault::Null);
        assert_eq!(faults.fault_for(SEND_METHOD), None);
        assert_eq!(faults.fault_for("eth_call"), Some(Fault::Null));
        assert_eq!(faults.fault_for("eth_call"), None);
    }

    #[test]
    fn fault_probability_depends_on_seed_and_name() {
        let pattern = |seed, name| -> Vec<bool> {
            let faults = Faults::seeded(seed, name);
            faults.sometimes(CallFilter::Any, 300, Fault::Null);
            (0..1_000).map(|_| faults.fault_for("eth_call").is_some()).collect()
        };
        assert_eq!(pattern(7, "a"), pattern(7, "a"));
        assert_ne!(pattern(7, "a"), pattern(7, "b"));
        assert_ne!(pattern(7, "a"), pattern(8, "a"));
        let faulty = pattern(7, "a").iter().filter(|faulty| **faulty).count();
        assert!((200..400).contains(&faulty), "{faulty} of 1000 at 300 permille");
    }

    #[test]
    fn fault_rules_are_bounded() {
        let faults = Faults::seeded(1, "a");
        for _ in 0..MAX_FAULT_RULES {
            assert!(faults.always(CallFilter::Any, Fault::Null));
        }
        assert!(!faults.always(CallFilter::Any, Fault::Null));
    }
}
