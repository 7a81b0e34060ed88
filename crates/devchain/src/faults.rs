//! The switchboard for faults: what an endpoint does wrong, exactly when it is told to, or with a probability from the seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{B256, keccak256};

use crate::random::Random;

/// What goes wrong with a call. Faults of sends do nothing to other calls, except for those that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    // --- Of sends. ---
    /// The send is answered with its hash, and thrown away.
    Drop,
    /// The send is answered with its hash, and reaches the pool with the n-th block from now.
    DelayBlocks(u64),
    /// The send reaches the pool twice, and the caller hears the second answer ("already known").
    Duplicate,
    /// The send reaches the pool, and the caller hears nothing.
    TimeOutAfter,
    /// The send reaches the pool, and the caller hears this error instead of its hash.
    RefuseAfter { code: i64, message: String },
    /// The send reaches the pool, and the answer is another hash.
    WrongHash,
    // --- Of any call. ---
    /// Nothing is done, and the caller hears nothing.
    TimeOutBefore,
    /// Nothing is done, and the caller hears this error, for instance in another client's words.
    Refuse { code: i64, message: String },
    /// Nothing is done, and the answer is no JSON-RPC at all.
    Http { status: u16, retry_after_secs: Option<u32>, body: String },
    /// Nothing is done, and the connection breaks.
    Disconnect,
    // --- Of reads. ---
    /// The answer is `null`.
    Null,
}

/// Which calls a fault is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    Any,
    /// `eth_sendRawTransaction`.
    Sends,
    /// Everything else.
    Reads,
    Method(String),
}

pub(crate) const SEND_METHOD: &str = "eth_sendRawTransaction";

impl On {
    fn is_for(&self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Sends => method == SEND_METHOD,
            Self::Reads => method != SEND_METHOD,
            Self::Method(name) => name == method,
        }
    }
}

/// The most rules of one endpoint; what is added beyond it is not taken.
pub const MAX_FAULT_RULES: usize = 1_024;

/// The faults of one endpoint. Clones are handles onto the same switchboard.
#[derive(Clone, Debug)]
pub struct Faults {
    board: Arc<Mutex<Board>>,
}

#[derive(Debug)]
struct Board {
    rules: Vec<Rule>,
    random: Random,
    lag: u64,
    dead: bool,
    hide_receipts: bool,
    chain_id: Option<u64>,
    stuck_at: Option<B256>,
    flip: Option<Flip>,
    preconfirms: bool,
    struck: u64,
}

/// An endpoint that goes to and fro between two branches.
#[derive(Clone, Copy, Debug)]
struct Flip {
    /// Reads of what is newest before it changes over.
    every: u32,
    reads: u32,
    shows_orphans: bool,
}

/// What an endpoint takes for the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The chain up to so many blocks before its head.
    Behind(u64),
    /// The chain up to this block, be it orphaned by now or not.
    At(B256),
    /// The branch that the last reorg orphaned.
    Orphaned,
}

#[derive(Debug)]
struct Rule {
    on: On,
    fault: Fault,
    when: When,
}

#[derive(Debug)]
enum When {
    /// Calls to let pass first, and calls to strike after them.
    Next {
        skip: u32,
        left: u32,
    },
    Always,
    /// Of a thousand.
    Permille(u32),
}

const PERMILLE: u32 = 1_000;

impl Faults {
    pub(crate) fn seeded(seed: u64, name: &str) -> Self {
        let salt = keccak256(name.as_bytes());
        let board = Board {
            rules: Vec::new(),
            random: Random::new(seed, salt.as_slice()),
            lag: 0,
            dead: false,
            hide_receipts: false,
            chain_id: None,
            stuck_at: None,
            flip: None,
            preconfirms: false,
            struck: 0,
        };
        Self { board: Arc::new(Mutex::new(board)) }
    }

    /// The next `count` calls of this kind go wrong. Rules are asked in the order in which they were made, and the first that
    /// strikes is used up by one.
    pub fn next(&self, on: On, count: u32, fault: Fault) -> bool {
        self.add(Rule { on, fault, when: When::Next { skip: 0, left: count } })
    }

    /// The same, after letting `skip` calls of this kind pass.
    pub fn after(&self, on: On, skip: u32, count: u32, fault: Fault) -> bool {
        self.add(Rule { on, fault, when: When::Next { skip, left: count } })
    }

    /// Every call of this kind goes wrong, until [`Self::clear`].
    pub fn always(&self, on: On, fault: Fault) -> bool {
        self.add(Rule { on, fault, when: When::Always })
    }

    /// So many of a thousand calls of this kind go wrong; which ones, the seed says.
    pub fn sometimes(&self, on: On, permille: u32, fault: Fault) -> bool {
        self.add(Rule { on, fault, when: When::Permille(permille) })
    }

    /// All reads answer as of so many blocks before the head.
    pub fn set_lag(&self, blocks: u64) {
        self.lock().lag = blocks;
    }

    pub fn lag(&self) -> u64 {
        self.lock().lag
    }

    /// A dead endpoint refuses every connection.
    pub fn set_dead(&self, dead: bool) {
        self.lock().dead = dead;
    }

    /// The endpoint has no receipts and no transactions, as one whose index is behind.
    pub fn hide_receipts(&self, hide: bool) {
        self.lock().hide_receipts = hide;
    }

    /// The endpoint says that it is of another chain.
    pub fn lie_about_chain_id(&self, chain_id: Option<u64>) {
        self.lock().chain_id = chain_id;
    }

    /// For the endpoint this block is the head, whatever happens to the chain; `None` lets it go on. [`crate::Endpoint::stick`] knows
    /// which block that is now.
    pub fn stick_at(&self, head: Option<B256>) {
        self.lock().stuck_at = head;
    }

    /// The endpoint goes to and fro between the chain and the branch that the last reorg orphaned, as two nodes behind one address do
    /// that do not agree. It changes over after every so many reads of `latest`, and begins with the chain. 0 ends it.
    pub fn flip_every(&self, reads: u32) {
        self.lock().flip = Some(Flip { every: reads, reads: 0, shows_orphans: false }).filter(|flip| flip.every > 0);
    }

    /// The endpoint shows the receipts of transactions that it expects to be in the next block, as those with flashblocks do. Nothing
    /// makes it keep its word: the next block may be empty ([`crate::DevChain::mine_empty`]), and what was shown may be dropped.
    pub fn preconfirm(&self, on: bool) {
        self.lock().preconfirms = on;
    }

    /// No faults any more, and no lag.
    pub fn clear(&self) {
        let mut board = self.lock();
        board.rules.clear();
        board.lag = 0;
        board.dead = false;
        board.hide_receipts = false;
        board.chain_id = None;
        board.stuck_at = None;
        board.flip = None;
        board.preconfirms = false;
    }

    /// How many calls went wrong so far by a rule.
    pub fn struck(&self) -> u64 {
        self.lock().struck
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    pub(crate) fn hides_receipts(&self) -> bool {
        self.lock().hide_receipts
    }

    pub(crate) fn chain_id_lie(&self) -> Option<u64> {
        self.lock().chain_id
    }

    pub(crate) fn preconfirms(&self) -> bool {
        self.lock().preconfirms
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.lock().stuck_at.is_some()
    }

    /// What the endpoint shows now.
    pub(crate) fn sight(&self) -> Sight {
        let board = self.lock();
        match (board.stuck_at, board.flip) {
            (Some(head), _) => Sight::At(head),
            (None, Some(Flip { shows_orphans: true, .. })) => Sight::Orphaned,
            (None, _) => Sight::Behind(board.lag),
        }
    }

    /// Somebody is about to read what is newest.
    pub(crate) fn count_latest(&self) {
        if let Some(flip) = &mut self.lock().flip {
            if flip.reads == flip.every {
                flip.reads = 0;
                flip.shows_orphans = !flip.shows_orphans;
            }
            flip.reads += 1;
        }
    }

    /// What goes wrong with this call, if anything.
    pub(crate) fn strike(&self, method: &str) -> Option<Fault> {
        let mut board = self.lock();
        let Board { rules, random, struck, .. } = &mut *board;
        let position = rules.iter_mut().position(|rule| rule.on.is_for(method) && rule.when.strikes(random))?;
        *struck += 1;
        let fault = rules[position].fault.clone();
        rules.retain(|rule| !matches!(rule.when, When::Next { left: 0, .. }));
        Some(fault)
    }

    fn add(&self, rule: Rule) -> bool {
        let mut board = self.lock();
        let has_room = board.rules.len() < MAX_FAULT_RULES;
        if has_room {
            board.rules.push(rule);
        }
        has_room
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl When {
    fn strikes(&mut self, random: &mut Random) -> bool {
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
    fn scripted_faults_strike_exactly_the_calls_that_they_are_for() {
        let faults = Faults::seeded(1, "a");
        faults.after(On::Sends, 1, 2, Fault::Drop);
        let seen: Vec<_> = (0..5).map(|_| faults.strike(SEND_METHOD).is_some()).collect();
        assert_eq!(seen, [false, true, true, false, false]);
        assert_eq!(faults.struck(), 2);
        faults.next(On::Method("eth_call".to_owned()), 1, Fault::Null);
        assert_eq!(faults.strike(SEND_METHOD), None);
        assert_eq!(faults.strike("eth_call"), Some(Fault::Null));
        assert_eq!(faults.strike("eth_call"), None);
    }

    #[test]
    fn probabilities_come_from_the_seed_and_the_name() {
        let pattern = |seed, name| -> Vec<bool> {
            let faults = Faults::seeded(seed, name);
            faults.sometimes(On::Any, 300, Fault::Null);
            (0..1_000).map(|_| faults.strike("eth_call").is_some()).collect()
        };
        assert_eq!(pattern(7, "a"), pattern(7, "a"));
        assert_ne!(pattern(7, "a"), pattern(7, "b"));
        assert_ne!(pattern(7, "a"), pattern(8, "a"));
        let struck = pattern(7, "a").iter().filter(|struck| **struck).count();
        assert!((200..400).contains(&struck), "{struck} of 1000 at 300 permille");
    }

    #[test]
    fn the_number_of_rules_is_bounded() {
        let faults = Faults::seeded(1, "a");
        for _ in 0..MAX_FAULT_RULES {
            assert!(faults.always(On::Any, Fault::Null));
        }
        assert!(!faults.always(On::Any, Fault::Null));
    }
}
