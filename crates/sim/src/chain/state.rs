//! The state of the chain: blocks, pools, endpoints, and the transactions on their way between pools.
//!
//! A transaction on its way is delivered at the next access to the state, in the order of due times. No other change of
//! the state happens between accesses.

mod scripted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{B256, BlockRef, Bytes, Nonce, SubmitterId, keccak256};

use super::block_tree::{BlockId, BlockParts, BlockTree};
use super::endpoint::{ChainEndpoint, EndpointCondition};
use super::pool::{PoolContext, PoolRefusal, TxPool};
use super::signed::DecodedTx;
use super::texts::ClientFamily;
use crate::dice::Dice;
use crate::history::{History, Moment};
use crate::world_spec::WorldSpec;

/// Wei per gas.
const BASE_FEE: u128 = 1_000_000_000;
const SPIKE: u128 = 20;

/// The travel time of gossip between pools, and the share that is lost during the storm, in a thousand.
const GOSSIP: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(1500));
const GOSSIP_LOST: u32 = 80;

/// The share of blocks that are built from the pool of an endpoint, in a thousand.
const OTHER_BUILDER: u32 = 120;
/// The share of empty blocks, in a thousand.
const EMPTY_BLOCK: u32 = 100;

/// The share of orphaned transactions that all pools lose, and the share that each pool loses, in a thousand.
const LOST_BY_REORG: u32 = 120;
const LOST_BY_POOL: u32 = 100;

#[derive(Debug)]
pub(super) struct ChainState {
    pub(super) lanes: Vec<SubmitterId>,
    pub(super) tree: BlockTree,
    /// Every head that the chain has had, and its time.
    tips: Vec<(Duration, BlockId)>,
    pub(super) endpoints: Vec<ChainEndpoint>,
    pub(super) miner: TxPool,
    /// Transactions on their way, by due time.
    pending_sends: BTreeMap<(Duration, u64), PendingSend>,
    posted: u64,
    /// All transactions that were signed or sent here.
    known: BTreeMap<B256, Arc<DecodedTx>>,
    pub(super) confirmations: u64,
    final_told: Option<u64>,
    /// The end of each account's drain, of a halt and of a fee spike.
    pub(super) drained: Vec<Duration>,
    pub(super) halted_until: Duration,
    pub(super) spike_until: Duration,
    pub(super) calm: bool,
    gossip: Dice,
    blocks: Dice,
    history: History,
}

#[derive(Clone, Debug)]
struct PendingSend {
    tx: Arc<DecodedTx>,
    to: PoolId,
}

/// The owner of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolId {
    Endpoint(usize),
    Miner,
}

impl ChainState {
    pub(super) fn new(plan: &WorldSpec, lanes: &[SubmitterId], now: Duration, history: History) -> Self {
        let mut dice = Dice::new(plan.seed, "endpoints");
        let tree = BlockTree::new(lanes.len(), now, BASE_FEE);
        let mut state = ChainState {
            lanes: lanes.to_vec(),
            tips: vec![(now, tree.head())],
            tree,
            endpoints: (0..plan.endpoints.max(1)).map(|_| ChainEndpoint::new(lanes.len(), &mut dice)).collect(),
            miner: TxPool::new(lanes.len(), usize::MAX, true),
            pending_sends: BTreeMap::new(),
            posted: 0,
            known: BTreeMap::new(),
            confirmations: u64::from(plan.confirmations.max(1)),
            final_told: None,
            drained: vec![Duration::ZERO; lanes.len()],
            halted_until: Duration::ZERO,
            spike_until: Duration::ZERO,
            calm: false,
            gossip: Dice::new(plan.seed, "gossip"),
            blocks: Dice::new(plan.seed, "blocks"),
            history,
        };
        state.tell_mined(state.tree.head());
        state.tell_final();
        state
    }

    pub(super) fn account(&self, lane: &SubmitterId) -> Option<usize> {
        self.lanes.iter().position(|known| known == lane)
    }

    /// The head that an endpoint shows.
    pub(super) fn view(&self, endpoint: usize, now: Duration) -> BlockId {
        let Some(endpoint) = self.endpoints.get(endpoint) else { return self.tree.head() };
        let (behind, delay) = match endpoint.condition(now) {
            EndpointCondition::Stuck { on, .. } => return on,
            EndpointCondition::Lags { blocks, .. } => (blocks, endpoint.delay),
            EndpointCondition::Healthy | EndpointCondition::Down { .. } => (0, endpoint.delay),
        };
        let come = |(at, _): &&(Duration, BlockId)| at.saturating_add(delay) <= now;
        let tips = self.tips.iter().rev().skip(behind);
        let first = self.tips.first().map(|(_, id)| *id);
        tips.clone().find(come).map(|(_, id)| *id).or(first).unwrap_or_else(|| self.tree.head())
    }

    pub(super) fn final_number(&self) -> Option<u64> {
        (self.tree.head_number() + 1).checked_sub(self.confirmations)
    }

    // --- Transactions on their way. ---

    pub(super) fn known(&self, hash: B256) -> Option<&Arc<DecodedTx>> {
        self.known.get(&hash)
    }

    pub(super) fn learn(&mut self, raw: &Bytes) -> Option<Arc<DecodedTx>> {
        if let Some(tx) = self.known.get(&keccak256(raw)) {
            return Some(Arc::clone(tx));
        }
        let tx = DecodedTx::read(raw, |lane| self.account(lane))?;
        Some(Arc::clone(self.known.entry(tx.hash()).or_insert_with(|| Arc::new(tx))))
    }

    /// Offers a transaction to a pool. A pool that has it gossips it to the others.
    pub(super) fn submit(&mut self, to: PoolId, raw: &Bytes, now: Duration) -> Result<B256, PoolRefusal> {
        let tx = self.learn(raw).ok_or(PoolRefusal::Unreadable)?;
        let taken = self.take(to, &tx, now);
        if matches!(taken, Ok(()) | Err(PoolRefusal::AlreadyKnown)) {
            for other in self.pool_ids().filter(|other| *other != to) {
                let is_lost = self.gossip.permille(GOSSIP_LOST) && !self.calm;
                let after = self.gossip.duration(GOSSIP.0, GOSSIP.1);
                if !is_lost {
                    self.post(&tx, other, now.saturating_add(after));
                }
            }
        }
        taken.map(|()| tx.hash())
    }

    /// Delivers the transaction to the endpoint at that time, and to the miner later.
    pub(super) fn post_late(&mut self, endpoint: usize, raw: &Bytes, at: Duration) {
        if let Some(tx) = self.learn(raw) {
            self.post(&tx, PoolId::Endpoint(endpoint), at);
            self.post(&tx, PoolId::Miner, at.saturating_add(GOSSIP.1));
        }
    }

    fn post(&mut self, tx: &Arc<DecodedTx>, to: PoolId, at: Duration) {
        self.posted += 1;
        self.pending_sends.insert((at, self.posted), PendingSend { tx: Arc::clone(tx), to });
    }

    /// Delivers all transactions that are due.
    pub(super) fn catch_up(&mut self, now: Duration) {
        while let Some(due) = self.pending_sends.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, _), PendingSend { tx, to }) = due.remove_entry();
            // A refusal of gossip reaches no process.
            let _ = self.take(to, &tx, at);
        }
    }

    fn take(&mut self, to: PoolId, tx: &Arc<DecodedTx>, now: Duration) -> Result<(), PoolRefusal> {
        let head = match to {
            PoolId::Endpoint(at) => self.view(at, now),
            PoolId::Miner => self.tree.head(),
        };
        let ChainState { tree, endpoints, miner, .. } = self;
        let pool = match to {
            PoolId::Miner => miner,
            PoolId::Endpoint(at) => &mut endpoints.get_mut(at).ok_or(PoolRefusal::Unreadable)?.pool,
        };
        pool.add(tx, context(tree, head, now))
    }

    fn pool_ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.endpoints.len()).map(PoolId::Endpoint).chain([PoolId::Miner])
    }

    pub(super) fn pools(&mut self) -> impl Iterator<Item = &mut TxPool> {
        let ChainState { endpoints, miner, .. } = self;
        endpoints.iter_mut().map(|endpoint| &mut endpoint.pool).chain([miner])
    }

    pub(super) fn family(&self, endpoint: usize) -> ClientFamily {
        self.endpoints.get(endpoint).map_or(ClientFamily::Geth, |endpoint| endpoint.family)
    }

    /// The account's transactions in any pool, or on their way, with their nonces.
    pub(super) fn waiting(&mut self, account: usize, now: Duration) -> BTreeMap<B256, Nonce> {
        self.settle_all(now);
        let entry = |tx: &Arc<DecodedTx>| (tx.hash(), tx.read.plan.nonce);
        let on_their_way = self.pending_sends.values().map(|send| &send.tx).filter(|tx| tx.account == account);
        let mut waiting: BTreeMap<B256, Nonce> = on_their_way.map(entry).collect();
        self.pools().for_each(|pool| waiting.extend(pool.of(account).map(entry)));
        waiting
    }

    fn settle_all(&mut self, now: Duration) {
        let views: Vec<BlockId> = (0..self.endpoints.len()).map(|at| self.view(at, now)).collect();
        let ChainState { tree, endpoints, miner, .. } = self;
        for (endpoint, view) in endpoints.iter_mut().zip(views) {
            endpoint.pool.settle(context(tree, view, now));
        }
        miner.settle(context(tree, tree.head(), now));
    }

    // --- Blocks. ---

    fn base_fee(&mut self, now: Duration) -> u128 {
        let wobble = u128::from(self.blocks.between(900, 1100));
        let factor = if now < self.spike_until { SPIKE } else { 1 };
        BASE_FEE * factor * wobble / 1000
    }

    pub(super) fn mine(&mut self, now: Duration) {
        let (is_empty, room) = (self.blocks.permille(EMPTY_BLOCK), self.blocks.between(2, 30));
        self.mine_some(if is_empty { 0 } else { room }, now);
    }

    fn mine_some(&mut self, room: u64, now: Duration) {
        let (parent, base_fee) = (self.tree.head(), self.base_fee(now));
        let (by_other, other) = (self.blocks.permille(OTHER_BUILDER), self.blocks.index(self.endpoints.len()));
        let other = self.endpoints.get(other).filter(|_| by_other && !self.calm);
        let pool = other.map_or(&self.miner, |endpoint| &endpoint.pool);
        let txs = pool.choose(PoolContext { base_fee, ..context(&self.tree, parent, now) }, room, &mut self.blocks);
        let drained = self.drained_now(now);
        let parts = BlockParts { at: now, base_fee, txs, drained: &drained, private_to: None };
        let id = self.tree.build(parent, parts);
        self.tree.extend(id);
        self.tips.push((now, id));
        self.miner.settle(context(&self.tree, id, now));
        self.tell_mined(id);
        self.tell_final();
    }

    fn drained_now(&self, now: Duration) -> Vec<bool> {
        self.drained.iter().map(|until| now < *until).collect()
    }

    /// Replaces the newest blocks by another branch that is longer by `more`.
    pub(super) fn reorg(&mut self, depth: u64, more: u64, dice: &mut Dice, now: Duration) {
        let ids = self.tree.cut(depth);
        let orphaned: Vec<BlockRef> = ids.iter().filter_map(|id| self.tree.header(*id)).map(|h| h.block).collect();
        orphaned.iter().for_each(|block| self.history.tell(Moment::Orphaned { block: *block }));
        if let Some(lowest) = orphaned.last() {
            self.final_told = self.final_told.map(|to_history| to_history.min(lowest.number.saturating_sub(1)));
        }
        let txs = |id: &BlockId| self.tree.block(*id).map(|block| block.txs.clone()).unwrap_or_default();
        for tx in ids.iter().rev().flat_map(txs).collect::<Vec<_>>() {
            let is_lost = dice.permille(LOST_BY_REORG);
            for pool in self.pools() {
                if is_lost {
                    pool.remove(&tx);
                } else if !dice.permille(LOST_BY_POOL) {
                    pool.put_back(&tx, now);
                }
            }
        }
        for _ in 0..orphaned.len() as u64 + more {
            let room = dice.below(5);
            self.mine_some(room, now);
        }
    }

    /// Builds private blocks of one endpoint at the heights of the newest `depth` blocks. Returns the last of them.
    pub(super) fn private_fork(
        &mut self,
        endpoint: usize,
        depth: u64,
        dice: &mut Dice,
        now: Duration,
    ) -> Option<BlockId> {
        let fork = self.tree.head_number().checked_sub(depth)?;
        let mut top = self.tree.canonical_at(fork)?;
        let mut pool = self.endpoints.get(endpoint)?.pool.clone();
        for number in fork + 1..=fork + depth {
            let block = self.tree.block(self.tree.canonical_at(number)?)?;
            block.txs.iter().for_each(|tx| pool.put_back(tx, now));
        }
        let drained = self.drained_now(now);
        for _ in 0..depth {
            let context = context(&self.tree, top, now);
            let (base_fee, room) = (context.base_fee, dice.below(5));
            let txs = pool.choose(context, room, dice);
            let parts = BlockParts { at: now, base_fee, txs, drained: &drained, private_to: Some(endpoint) };
            top = self.tree.build(top, parts);
            if let Some(block) = self.tree.block(top) {
                self.history.tell(Moment::MinedPrivately { block: block.to_history() });
            }
        }
        Some(top)
    }

    /// Replaces the chain by one with another genesis. All pools are empty.
    pub(super) fn reset(&mut self, now: Duration) {
        let genesis = self.tree.begin(self.lanes.len(), now, BASE_FEE);
        self.tips = vec![(now, genesis)];
        self.pending_sends.clear();
        self.pools().for_each(TxPool::clear);
        self.heal_endpoints();
        self.final_told = None;
        if let Some(header) = self.tree.header(genesis) {
            self.history.tell(Moment::ChainReset { genesis: header.block });
        }
        self.tell_final();
    }

    pub(super) fn heal_endpoints(&mut self) {
        self.endpoints.iter_mut().for_each(|endpoint| endpoint.put(EndpointCondition::Healthy));
    }

    /// Ends all faults: endpoints are healthy, and all pools get all transactions.
    pub(super) fn calm_down(&mut self, now: Duration) {
        self.calm = true;
        self.heal_endpoints();
        self.drained.iter_mut().for_each(|until| *until = Duration::ZERO);
        (self.halted_until, self.spike_until) = (Duration::ZERO, Duration::ZERO);
        self.share(now);
    }

    /// Offers every pooled transaction to every pool, but not those behind a gap, so that they still expire.
    pub(super) fn share(&mut self, now: Duration) {
        let counts: Vec<u64> = self.tree.accounts(self.tree.head()).iter().map(|account| account.count).collect();
        let pooled: Vec<Arc<DecodedTx>> = self
            .pools()
            .flat_map(|pool| {
                let next: Vec<u64> = counts.iter().enumerate().map(|(at, count)| pool.pending(at, *count)).collect();
                let is_ready = |tx: &&Arc<DecodedTx>| next.get(tx.account).is_some_and(|next| tx.nonce < *next);
                pool.all().filter(is_ready).cloned().collect::<Vec<_>>()
            })
            .collect();
        for tx in pooled {
            for pool_id in self.pool_ids() {
                let _ = self.take(pool_id, &tx, now);
            }
        }
    }

    fn tell_mined(&self, id: BlockId) {
        if let Some(block) = self.tree.block(id) {
            self.history.tell(Moment::Mined { block: block.to_history() });
        }
    }

    fn tell_final(&mut self) {
        let Some(number) =
            self.final_number().filter(|number| self.final_told.is_none_or(|to_history| *number > to_history))
        else {
            return;
        };
        self.final_told = Some(number);
        if let Some(header) = self.tree.canonical_at(number).and_then(|id| self.tree.header(id)) {
            self.history.tell(Moment::Final { block: header.block });
        }
    }
}

fn context(tree: &BlockTree, head: BlockId, now: Duration) -> PoolContext<'_> {
    PoolContext {
        now,
        accounts: tree.accounts(head),
        base_fee: tree.block(head).map(super::block_tree::BlockEntry::base_fee).unwrap_or_default(),
    }
}
