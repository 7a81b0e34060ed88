//! The chain of a world: blocks, reorgs, pools and endpoints, without an EVM.
//!
//! - `signed`, `encoder`: signed transactions in a simple text format
//! - `calls`: the accounts, and the actions of the callers
//! - `block_tree`: all blocks, and the state of all accounts after each of them
//! - `pool`: the pool of one chain node, by geth's rules
//! - `endpoint`, `texts`: one endpoint, and the error texts of its client family
//! - `state`: blocks, pools and endpoints together, and the transactions that travel between pools
//! - `chain_faults`: reorgs, strangers, fee spikes and the other faults of the chain itself
//! - `scripted`: the `Chain` of a test, without a network, whose blocks and answers the test decides
//! - `client`, `sends`, `diagnose`: the `Chain` of one process, with the faults of its requests
//!
//! Architecture invariant: one lock guards the state, and no task holds it while it waits.

mod block_tree;
mod calls;
mod chain_faults;
mod client;
#[cfg(test)]
mod conformance;
mod diagnose;
mod encoder;
mod endpoint;
mod pool;
mod scripted;
mod sends;
mod signed;
mod state;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_chain::Chain;
use gapless_domain::{Amount, B256, BlockRef, Bytes, ChainId, Nonce, OwnerId, SignedTx, SubmitterId};
use gapless_signer::TxEncoder;
use tokio::sync::Notify;

use crate::dice::Dice;
use crate::fault::Faults;
use crate::history::{ChainBlock, History};
use crate::net::Net;
use crate::stage::{Stage, TaskOwner};
use crate::world_spec::WorldSpec;

pub(crate) use calls::{TOO_LITTLE_WORK, account, payload_data, rules, version_of};
pub use calls::{action, data_of};
pub use encoder::TextEncoder;
pub use scripted::{Script, ScriptedChain, ScriptedSend};
pub use signed::{read_signed, sign, sign_as_stranger};

use chain_faults::ChainFaults;
use client::ChainClient;
use encoder::WorldEncoder;
use state::{ChainState, PoolId};

/// The period in which faults that have a chance every second are rolled for.
const TICK: Duration = Duration::from_secs(1);

/// The chain that all processes of a world use.
pub struct ChainWorld {
    id: ChainId,
    seed: u64,
    block_time: Duration,
    stage: Stage,
    history: History,
    state: Mutex<ChainState>,
    /// Chooses the endpoint that gets a transaction from outside of the nodes.
    outside: Mutex<Dice>,
    /// Notified at every new head.
    new_head: Notify,
}

impl ChainWorld {
    /// Every lane has an account with a high balance. The chain has only its genesis until [`ChainWorld::run`].
    pub fn new(plan: &WorldSpec, lanes: &[SubmitterId], stage: Stage, history: History) -> Arc<Self> {
        let Some(first) = lanes.first() else { unreachable!("a world has at least one lane") };
        let state = ChainState::new(plan, lanes, stage.now(), history.clone());
        Arc::new(ChainWorld {
            id: first.chain().clone(),
            seed: plan.seed,
            block_time: plan.block_time,
            stage,
            history,
            state: Mutex::new(state),
            outside: Mutex::new(Dice::new(plan.seed, "outsiders")),
            new_head: Notify::new(),
        })
    }

    /// Starts the tasks that make blocks and inject the faults of the chain.
    pub fn run(self: &Arc<Self>, faults: &Faults) {
        let chain_faults = Arc::new(Mutex::new(ChainFaults::new(self.seed, faults.clone(), self.history.clone())));
        let (world, shared) = (Arc::clone(self), Arc::clone(&chain_faults));
        let mut dice = Dice::new(self.seed, "block times");
        self.stage.spawn(TaskOwner::World, async move {
            loop {
                let span = dice.duration(world.block_time * 7 / 10, world.block_time * 13 / 10);
                world.stage.sleep(span).await;
                if world.enter(|state, now| lock(&shared).block_due(state, now)) {
                    world.new_head.notify_waiters();
                }
            }
        });
        let world = Arc::clone(self);
        self.stage.spawn(TaskOwner::World, async move {
            loop {
                world.stage.sleep(TICK).await;
                world.enter(|state, now| lock(&chain_faults).second_passed(state, now));
            }
        });
    }

    /// The chain as one process reaches it. `owner` is that process.
    pub fn client(self: &Arc<Self>, net: Net, faults: Faults, history: History, owner: OwnerId) -> Arc<dyn Chain> {
        Arc::new(ChainClient::new(Arc::clone(self), net, faults, history, owner))
    }

    /// The chain as a process reaches it that reads from one endpoint only.
    pub(crate) fn client_of(
        self: &Arc<Self>,
        node: usize,
        net: Net,
        faults: Faults,
        history: History,
        owner: OwnerId,
    ) -> Arc<dyn Chain> {
        Arc::new(ChainClient::new(Arc::clone(self), net, faults, history, owner).reading_from_one(node))
    }

    /// The transaction format of the chain.
    pub fn encoder(self: &Arc<Self>) -> Arc<dyn TxEncoder> {
        Arc::new(WorldEncoder(Arc::clone(self)))
    }

    /// Sends a transaction to a random endpoint, from outside of the nodes. True if the pool accepted it.
    pub fn submit_outside(&self, raw: &Bytes) -> bool {
        self.enter(|state, now| {
            let endpoint = lock(&self.outside).index(state.endpoints.len());
            state.submit(PoolId::Endpoint(endpoint), raw, now).is_ok()
        })
    }

    // --- The true state of the chain, for checks and people. ---

    pub fn id(&self) -> &ChainId {
        &self.id
    }

    pub fn head(&self) -> BlockRef {
        self.enter(|state, _| {
            let header = state.tree.header(state.tree.head());
            header.map_or(BlockRef { number: 0, hash: B256::ZERO }, |header| header.block)
        })
    }

    /// The account's transaction count at the head.
    pub fn count(&self, lane: &SubmitterId) -> u64 {
        self.enter(|state, _| {
            let account = state.account(lane).and_then(|at| state.tree.accounts(state.tree.head()).get(at));
            account.map_or(0, |account| account.count)
        })
    }

    /// The account's transaction count at the newest final block.
    pub fn final_count(&self, lane: &SubmitterId) -> u64 {
        self.enter(|state, _| {
            let block = state.final_number().and_then(|number| state.tree.canonical_at(number));
            let account = block.zip(state.account(lane)).and_then(|(id, at)| state.tree.accounts(id).get(at));
            account.map_or(0, |account| account.count)
        })
    }

    pub fn balance(&self, lane: &SubmitterId) -> Amount {
        self.enter(|state, _| {
            let account = state.account(lane).and_then(|at| state.tree.accounts(state.tree.head()).get(at));
            Amount::from(account.map_or(0, |account| account.balance))
        })
    }

    /// The lane's transactions in any pool, or on their way to one, with their nonces.
    pub fn waiting(&self, lane: &SubmitterId) -> BTreeMap<B256, Nonce> {
        self.enter(|state, now| state.account(lane).map(|account| state.waiting(account, now)).unwrap_or_default())
    }

    /// The newest canonical block that contains a transaction of the lane.
    pub fn newest_block_of(&self, lane: &SubmitterId) -> Option<BlockRef> {
        self.enter(|state, _| {
            let blocks = (0..=state.tree.head_number()).filter_map(|at| state.tree.block(state.tree.canonical_at(at)?));
            let has_tx = |block: &ChainBlock| block.txs.iter().any(|tx| tx.read.plan.submitter == *lane);
            blocks.rev().map(|block| block.to_history()).find(has_tx).map(|block| block.block)
        })
    }

    /// True if a canonical block has the effect of the intent with this number.
    pub fn has_effect(&self, number: u64) -> bool {
        self.enter(|state, _| {
            let blocks = (0..=state.tree.head_number()).filter_map(|at| state.tree.block(state.tree.canonical_at(at)?));
            blocks.flat_map(|block| block.to_history().txs).any(|tx| tx.effect() == Some(number))
        })
    }

    /// The transaction with this hash, if a process has signed it here or sent it to an endpoint.
    pub fn known_raw(&self, hash: B256) -> Option<SignedTx> {
        self.enter(|state, _| state.known(hash).map(|tx| tx.read.signed.clone()))
    }

    fn enter<T>(&self, look: impl FnOnce(&mut ChainState, Duration) -> T) -> T {
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
