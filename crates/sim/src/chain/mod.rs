//! The chain of a world: blocks, reorgs, pools and endpoints, without an EVM.
//!
//! - `signed`: signed bytes of a made-up kind
//! - `ledger`: all blocks, and what every account has after each of them
//! - `pool`: one node's pool, by geth's rules
//! - `endpoint`, `texts`: what a node shows of the chain, and in which words it refuses
//! - `state`: all of it together, and what travels between pools
//! - `mischief`: reorgs, strangers, spikes and whatever else the world does by itself
//! - `scripted`: the `Chain` of a test, without a network, with blocks and answers as the test says
//! - `gate`, `sends`, `diagnose`: the `Chain` of one process, with everything that can happen to a request
//!
//! Architecture invariant: the state is looked at under one lock, which nobody holds while waiting.

mod diagnose;
mod endpoint;
mod gate;
mod ledger;
mod mischief;
mod pool;
mod scripted;
mod sends;
mod signed;
mod state;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_chain::Chain;
use gapless_domain::{Amount, B256, BlockRef, Bytes, ChainId, OwnerId, SignedTx, SubmitterId};
use tokio::sync::Notify;

use crate::dice::Dice;
use crate::fault::Faults;
use crate::history::History;
use crate::net::Net;
use crate::plan::Plan;
use crate::stage::{Home, Stage};

pub use scripted::{Script, ScriptedChain, ScriptedSend};
pub use signed::{read_signed, sign, sign_as_stranger};

use gate::Gate;
use mischief::Mischief;
use state::{Place, State};

/// How often the world thinks of mischief.
const TICK: Duration = Duration::from_secs(1);

/// The chain that all processes of a world use.
pub struct ChainWorld {
    id: ChainId,
    seed: u64,
    block_time: Duration,
    stage: Stage,
    history: History,
    state: Mutex<State>,
    /// To whom outsiders send.
    outside: Mutex<Dice>,
    /// Rung at every new head.
    bell: Notify,
}

impl ChainWorld {
    /// Every lane has an account with a lot of money. There is a genesis, and no block follows before [`ChainWorld::run`].
    pub fn new(plan: &Plan, lanes: &[SubmitterId], stage: Stage, history: History) -> Arc<Self> {
        let Some(first) = lanes.first() else { unreachable!("a world has at least one lane") };
        let state = State::new(plan, lanes, stage.now(), history.clone());
        Arc::new(ChainWorld {
            id: first.chain().clone(),
            seed: plan.seed,
            block_time: plan.block_time,
            stage,
            history,
            state: Mutex::new(state),
            outside: Mutex::new(Dice::new(plan.seed, "outsiders")),
            bell: Notify::new(),
        })
    }

    /// From here on there are blocks, and whatever goes wrong with them.
    pub fn run(self: &Arc<Self>, faults: &Faults) {
        let mischief = Arc::new(Mutex::new(Mischief::new(self.seed, faults.clone(), self.history.clone())));
        let (world, shared) = (Arc::clone(self), Arc::clone(&mischief));
        let mut dice = Dice::new(self.seed, "block times");
        self.stage.spawn(Home::World, async move {
            loop {
                let span = dice.duration(world.block_time * 7 / 10, world.block_time * 13 / 10);
                world.stage.sleep(span).await;
                if world.enter(|state, now| lock(&shared).block_due(state, now)) {
                    world.bell.notify_waiters();
                }
            }
        });
        let world = Arc::clone(self);
        self.stage.spawn(Home::World, async move {
            loop {
                world.stage.sleep(TICK).await;
                world.enter(|state, now| lock(&mischief).second_passed(state, now));
            }
        });
    }

    /// The chain as one process reaches it. `owner` is who sends by it.
    pub fn gate(self: &Arc<Self>, net: Net, faults: Faults, history: History, owner: OwnerId) -> Arc<dyn Chain> {
        Arc::new(Gate::new(Arc::clone(self), net, faults, history, owner))
    }

    /// Somebody who is none of our processes sends bytes, to some endpoint. Was it taken?
    pub fn submit_outside(&self, raw: &Bytes) -> bool {
        self.enter(|state, now| {
            let endpoint = lock(&self.outside).index(state.endpoints.len());
            state.submit(Place::Endpoint(endpoint), raw, now).is_ok()
        })
    }

    // --- The truth, for checkers and people. ---

    pub fn id(&self) -> &ChainId {
        &self.id
    }

    pub fn head(&self) -> BlockRef {
        self.enter(|state, _| {
            let header = state.ledger.header(state.ledger.head());
            header.map_or(BlockRef { number: 0, hash: B256::ZERO }, |header| header.block)
        })
    }

    /// The account's count at the head.
    pub fn count(&self, lane: &SubmitterId) -> u64 {
        self.enter(|state, _| {
            let account = state.account(lane).and_then(|at| state.ledger.accounts(state.ledger.head()).get(at));
            account.map_or(0, |account| account.count)
        })
    }

    /// The account's count at the newest final block.
    pub fn final_count(&self, lane: &SubmitterId) -> u64 {
        self.enter(|state, _| {
            let block = state.final_number().and_then(|number| state.ledger.canonical_at(number));
            let account = block.zip(state.account(lane)).and_then(|(id, at)| state.ledger.accounts(id).get(at));
            account.map_or(0, |account| account.count)
        })
    }

    pub fn balance(&self, lane: &SubmitterId) -> Amount {
        self.enter(|state, _| {
            let account = state.account(lane).and_then(|at| state.ledger.accounts(state.ledger.head()).get(at));
            Amount::from(account.map_or(0, |account| account.balance))
        })
    }

    /// What of the lane is in any pool, or on its way to one.
    pub fn waiting(&self, lane: &SubmitterId) -> BTreeSet<B256> {
        self.enter(|state, now| state.account(lane).map(|account| state.waiting(account, now)).unwrap_or_default())
    }

    /// Is the effect of the intent with this number in a canonical block?
    pub fn has_effect(&self, number: u64) -> bool {
        self.enter(|state, _| {
            let blocks =
                (0..=state.ledger.head_number()).filter_map(|at| state.ledger.block(state.ledger.canonical_at(at)?));
            blocks.flat_map(|block| block.told().txs).any(|tx| tx.effect() == Some(number))
        })
    }

    /// What a hash is the hash of, if it was ever signed by a gate here or sent to an endpoint.
    pub fn known_raw(&self, hash: B256) -> Option<SignedTx> {
        self.enter(|state, _| state.known(hash).map(|tx| tx.read.signed.clone()))
    }

    fn enter<T>(&self, look: impl FnOnce(&mut State, Duration) -> T) -> T {
        let now = self.stage.now();
        let mut state = lock(&self.state);
        state.catch_up(now);
        look(&mut state, now)
    }
}

impl fmt::Debug for ChainWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainWorld").field("id", &self.id).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
