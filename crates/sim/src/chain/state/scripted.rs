//! Changes of the state that a test makes by hand: no dice, no loss, no delay.

use super::{BASE_FEE, ChainState, context};
use crate::chain::block_tree::{BlockId, BlockParts};
use crate::chain::endpoint::ChainEndpoint;
use crate::chain::pool::{PoolRefusal, TxPool};
use crate::chain::signed::DecodedTx;
use crate::chain::state::PoolId;
use crate::history::History;
use crate::world_spec::WorldSpec;
use gapless_domain::{B256, Bytes, SubmitterId};
use std::sync::Arc;
use std::time::Duration;

impl ChainState {
    /// One endpoint and one miner, both with pools without limits.
    pub(in crate::chain) fn scripted(lanes: &[SubmitterId], now: Duration, history: History) -> ChainState {
        let plan = WorldSpec { endpoints: 1, confirmations: 1, ..WorldSpec::of(0) };
        let mut state = ChainState::new(&plan, lanes, now, history);
        state.endpoints = vec![ChainEndpoint::unlimited(lanes.len())];
        state.miner = TxPool::unlimited(lanes.len());
        state.calm = true;
        state
    }

    /// The endpoint and the miner get the transaction at once. The answer is the endpoint's.
    pub(in crate::chain) fn accept(&mut self, raw: &Bytes, now: Duration) -> Result<B256, PoolRefusal> {
        let tx = self.learn(raw).ok_or(PoolRefusal::Unreadable)?;
        let taken = self.take(PoolId::Endpoint(0), &tx, now);
        let _ = self.take(PoolId::Miner, &tx, now);
        taken.map(|()| tx.hash())
    }

    /// One block with everything that the miner can take, or with nothing.
    pub(in crate::chain) fn mine_block(&mut self, is_empty: bool, now: Duration) {
        let room = if is_empty { 0 } else { u64::MAX };
        let txs = self.miner.choose(context(&self.tree, self.tree.head(), now), room, &mut self.blocks);
        self.put_block(txs, now);
    }

    /// A block with these transactions becomes the head.
    pub(in crate::chain) fn put_block(&mut self, txs: Vec<Arc<DecodedTx>>, now: Duration) {
        let id = self.build(txs, now);
        self.tree.extend(id);
        self.tips.push((now, id));
        self.settle_all(now);
        self.tell_mined(id);
        self.tell_final();
    }

    /// Takes the newest blocks off the chain. Gives their transactions, the oldest first, which no pool has any more.
    pub(in crate::chain) fn cut(&mut self, depth: u64, now: Duration) -> Vec<Arc<DecodedTx>> {
        let ids = self.tree.cut(depth);
        let txs = |id: &BlockId| self.tree.block(*id).map(|block| block.txs.clone()).unwrap_or_default();
        let txs: Vec<Arc<DecodedTx>> = ids.iter().rev().flat_map(txs).collect();
        for pool in self.pools() {
            txs.iter().for_each(|tx| pool.remove(tx));
        }
        self.tips.push((now, self.tree.head()));
        self.final_told = None;
        txs
    }

    /// Every pool has these transactions again.
    pub(in crate::chain) fn put_back(&mut self, txs: &[Arc<DecodedTx>], now: Duration) {
        for pool in self.pools() {
            txs.iter().for_each(|tx| pool.put_back(tx, now));
        }
    }

    /// Blocks from now on differ from the blocks of another chain with the same history.
    pub(in crate::chain) fn diverge(&mut self, now: Duration) {
        self.build(Vec::new(), now);
    }

    fn build(&mut self, txs: Vec<Arc<DecodedTx>>, now: Duration) -> BlockId {
        let drained = vec![false; self.lanes.len()];
        let parts = BlockParts { at: now, base_fee: BASE_FEE, txs, drained: &drained, private_to: None };
        self.tree.build(self.tree.head(), parts)
    }
}
