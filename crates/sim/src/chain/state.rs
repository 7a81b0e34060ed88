//! The state of the chain: blocks, pools, endpoints, and the transactions on their way between pools.
//!
//! A transaction on its way is delivered at the next access to the state, in the order of due times. No other change of
//! the state happens between accesses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::Family;
use gapless_domain::{B256, BlockRef, Bytes, SubmitterId, keccak256};

use super::endpoint::{Endpoint, Stand};
use super::ledger::{BlockId, Ledger, Making};
use super::pool::{Ground, Pool, Refusal};
use super::signed::Tx;
use crate::dice::Dice;
use crate::history::{History, Moment};
use crate::plan::Plan;

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
pub(super) struct State {
    pub(super) lanes: Vec<SubmitterId>,
    pub(super) ledger: Ledger,
    /// Every head that the chain has had, and its time.
    tips: Vec<(Duration, BlockId)>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) miner: Pool,
    /// Transactions on their way, by due time.
    parcels: BTreeMap<(Duration, u64), Parcel>,
    posted: u64,
    /// All transactions that were signed or sent here.
    known: BTreeMap<B256, Arc<Tx>>,
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
struct Parcel {
    tx: Arc<Tx>,
    to: Place,
}

/// The owner of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Endpoint(usize),
    Miner,
}

impl State {
    pub(super) fn new(plan: &Plan, lanes: &[SubmitterId], now: Duration, history: History) -> Self {
        let mut dice = Dice::new(plan.seed, "endpoints");
        let ledger = Ledger::new(lanes.len(), now, BASE_FEE);
        let mut state = State {
            lanes: lanes.to_vec(),
            tips: vec![(now, ledger.head())],
            ledger,
            endpoints: (0..plan.endpoints.max(1)).map(|_| Endpoint::new(lanes.len(), &mut dice)).collect(),
            miner: Pool::new(lanes.len(), usize::MAX, true),
            parcels: BTreeMap::new(),
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
        state.tell_mined(state.ledger.head());
        state.tell_final();
        state
    }

    pub(super) fn account(&self, lane: &SubmitterId) -> Option<usize> {
        self.lanes.iter().position(|known| known == lane)
    }

    /// The head that an endpoint shows.
    pub(super) fn view(&self, endpoint: usize, now: Duration) -> BlockId {
        let Some(endpoint) = self.endpoints.get(endpoint) else { return self.ledger.head() };
        let (behind, delay) = match endpoint.stand(now) {
            Stand::Stuck { on, .. } => return on,
            Stand::Lags { blocks, .. } => (blocks, endpoint.delay),
            Stand::Healthy | Stand::Down { .. } => (0, endpoint.delay),
        };
        let come = |(at, _): &&(Duration, BlockId)| at.saturating_add(delay) <= now;
        let tips = self.tips.iter().rev().skip(behind);
        let first = self.tips.first().map(|(_, id)| *id);
        tips.clone().find(come).map(|(_, id)| *id).or(first).unwrap_or_else(|| self.ledger.head())
    }

    pub(super) fn final_number(&self) -> Option<u64> {
        (self.ledger.head_number() + 1).checked_sub(self.confirmations)
    }

    // --- Transactions on their way. ---

    pub(super) fn known(&self, hash: B256) -> Option<&Arc<Tx>> {
        self.known.get(&hash)
    }

    pub(super) fn learn(&mut self, raw: &Bytes) -> Option<Arc<Tx>> {
        if let Some(tx) = self.known.get(&keccak256(raw)) {
            return Some(Arc::clone(tx));
        }
        let tx = Tx::read(raw, |lane| self.account(lane))?;
        Some(Arc::clone(self.known.entry(tx.hash()).or_insert_with(|| Arc::new(tx))))
    }

    /// Offers a transaction to a pool. A pool that has it gossips it to the others.
    pub(super) fn submit(&mut self, to: Place, raw: &Bytes, now: Duration) -> Result<B256, Refusal> {
        let tx = self.learn(raw).ok_or(Refusal::Unreadable)?;
        let taken = self.take(to, &tx, now);
        if matches!(taken, Ok(()) | Err(Refusal::AlreadyKnown)) {
            for other in self.places().filter(|other| *other != to) {
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
            self.post(&tx, Place::Endpoint(endpoint), at);
            self.post(&tx, Place::Miner, at.saturating_add(GOSSIP.1));
        }
    }

    fn post(&mut self, tx: &Arc<Tx>, to: Place, at: Duration) {
        self.posted += 1;
        self.parcels.insert((at, self.posted), Parcel { tx: Arc::clone(tx), to });
    }

    /// Delivers all transactions that are due.
    pub(super) fn catch_up(&mut self, now: Duration) {
        while let Some(due) = self.parcels.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, _), Parcel { tx, to }) = due.remove_entry();
            // A refusal of gossip reaches no process.
            let _ = self.take(to, &tx, at);
        }
    }

    fn take(&mut self, to: Place, tx: &Arc<Tx>, now: Duration) -> Result<(), Refusal> {
        let head = match to {
            Place::Endpoint(at) => self.view(at, now),
            Place::Miner => self.ledger.head(),
        };
        let State { ledger, endpoints, miner, .. } = self;
        let pool = match to {
            Place::Miner => miner,
            Place::Endpoint(at) => &mut endpoints.get_mut(at).ok_or(Refusal::Unreadable)?.pool,
        };
        pool.add(tx, ground(ledger, head, now))
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..self.endpoints.len()).map(Place::Endpoint).chain([Place::Miner])
    }

    pub(super) fn pools(&mut self) -> impl Iterator<Item = &mut Pool> {
        let State { endpoints, miner, .. } = self;
        endpoints.iter_mut().map(|endpoint| &mut endpoint.pool).chain([miner])
    }

    pub(super) fn family(&self, endpoint: usize) -> Family {
        self.endpoints.get(endpoint).map_or(Family::Geth, |endpoint| endpoint.family)
    }

    /// The account's transactions in any pool, or on their way.
    pub(super) fn waiting(&mut self, account: usize, now: Duration) -> BTreeSet<B256> {
        self.settle_all(now);
        let on_their_way: Vec<B256> = self
            .parcels
            .values()
            .filter(|parcel| parcel.tx.account == account)
            .map(|parcel| parcel.tx.hash())
            .collect();
        let pooled = self.pools().flat_map(|pool| pool.of(account).map(|tx| tx.hash()).collect::<Vec<_>>());
        pooled.chain(on_their_way).collect()
    }

    fn settle_all(&mut self, now: Duration) {
        let views: Vec<BlockId> = (0..self.endpoints.len()).map(|at| self.view(at, now)).collect();
        let State { ledger, endpoints, miner, .. } = self;
        for (endpoint, view) in endpoints.iter_mut().zip(views) {
            endpoint.pool.settle(ground(ledger, view, now));
        }
        miner.settle(ground(ledger, ledger.head(), now));
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
        let (parent, base_fee) = (self.ledger.head(), self.base_fee(now));
        let (by_other, other) = (self.blocks.permille(OTHER_BUILDER), self.blocks.index(self.endpoints.len()));
        let other = self.endpoints.get(other).filter(|_| by_other && !self.calm);
        let pool = other.map_or(&self.miner, |endpoint| &endpoint.pool);
        let txs = pool.choose(Ground { base_fee, ..ground(&self.ledger, parent, now) }, room, &mut self.blocks);
        let drained = self.drained_now(now);
        let making = Making { at: now, base_fee, txs, drained: &drained, private_to: None };
        let id = self.ledger.build(parent, making);
        self.ledger.extend(id);
        self.tips.push((now, id));
        self.miner.settle(ground(&self.ledger, id, now));
        self.tell_mined(id);
        self.tell_final();
    }

    fn drained_now(&self, now: Duration) -> Vec<bool> {
        self.drained.iter().map(|until| now < *until).collect()
    }

    /// Replaces the newest blocks by another branch that is longer by `more`.
    pub(super) fn reorg(&mut self, depth: u64, more: u64, dice: &mut Dice, now: Duration) {
        let ids = self.ledger.cut(depth);
        let orphaned: Vec<BlockRef> = ids.iter().filter_map(|id| self.ledger.header(*id)).map(|h| h.block).collect();
        orphaned.iter().for_each(|block| self.history.tell(Moment::Orphaned { block: *block }));
        if let Some(lowest) = orphaned.last() {
            self.final_told = self.final_told.map(|told| told.min(lowest.number.saturating_sub(1)));
        }
        let txs = |id: &BlockId| self.ledger.block(*id).map(|block| block.txs.clone()).unwrap_or_default();
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
        let fork = self.ledger.head_number().checked_sub(depth)?;
        let mut top = self.ledger.canonical_at(fork)?;
        let mut pool = self.endpoints.get(endpoint)?.pool.clone();
        for number in fork + 1..=fork + depth {
            let block = self.ledger.block(self.ledger.canonical_at(number)?)?;
            block.txs.iter().for_each(|tx| pool.put_back(tx, now));
        }
        let drained = self.drained_now(now);
        for _ in 0..depth {
            let ground = ground(&self.ledger, top, now);
            let (base_fee, room) = (ground.base_fee, dice.below(5));
            let txs = pool.choose(ground, room, dice);
            let making = Making { at: now, base_fee, txs, drained: &drained, private_to: Some(endpoint) };
            top = self.ledger.build(top, making);
            if let Some(block) = self.ledger.block(top) {
                self.history.tell(Moment::MinedAside { block: block.told() });
            }
        }
        Some(top)
    }

    /// Replaces the chain by one with another genesis. All pools are empty.
    pub(super) fn reset(&mut self, now: Duration) {
        let genesis = self.ledger.begin(self.lanes.len(), now, BASE_FEE);
        self.tips = vec![(now, genesis)];
        self.parcels.clear();
        self.pools().for_each(Pool::clear);
        self.heal_endpoints();
        self.final_told = None;
        if let Some(header) = self.ledger.header(genesis) {
            self.history.tell(Moment::ChainReset { genesis: header.block });
        }
        self.tell_final();
    }

    pub(super) fn heal_endpoints(&mut self) {
        self.endpoints.iter_mut().for_each(|endpoint| endpoint.put(Stand::Healthy));
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
        let counts: Vec<u64> = self.ledger.accounts(self.ledger.head()).iter().map(|account| account.count).collect();
        let pooled: Vec<Arc<Tx>> = self
            .pools()
            .flat_map(|pool| {
                let next: Vec<u64> = counts.iter().enumerate().map(|(at, count)| pool.pending(at, *count)).collect();
                let is_ready = |tx: &&Arc<Tx>| next.get(tx.account).is_some_and(|next| tx.nonce < *next);
                pool.all().filter(is_ready).cloned().collect::<Vec<_>>()
            })
            .collect();
        for tx in pooled {
            for place in self.places() {
                let _ = self.take(place, &tx, now);
            }
        }
    }

    fn tell_mined(&self, id: BlockId) {
        if let Some(block) = self.ledger.block(id) {
            self.history.tell(Moment::Mined { block: block.told() });
        }
    }

    fn tell_final(&mut self) {
        let Some(number) = self.final_number().filter(|number| self.final_told.is_none_or(|told| *number > told))
        else {
            return;
        };
        self.final_told = Some(number);
        if let Some(header) = self.ledger.canonical_at(number).and_then(|id| self.ledger.header(id)) {
            self.history.tell(Moment::Final { block: header.block });
        }
    }
}

fn ground(ledger: &Ledger, head: BlockId, now: Duration) -> Ground<'_> {
    Ground {
        now,
        accounts: ledger.accounts(head),
        base_fee: ledger.block(head).map(super::ledger::Block::base_fee).unwrap_or_default(),
    }
}
