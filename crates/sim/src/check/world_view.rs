//! The state that the moments add up to, kept once for all checks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gapless_domain::{Amount, B256, Bytes, RequestId, SubmitterId, TxId};

use crate::chain::payload_data;
use crate::history::{ChainBlock, Moment, effect_of};
use crate::world_spec::WorldSpec;

use super::CheckFailure;
use super::blocks::Blocks;
use super::end_state::{self, EndState};
use super::ledger::{Ledger, LedgerBefore, mined_at};

/// The time for which balances are kept: a node may spend by a balance that it read some time before.
const BALANCE_MEMORY: Duration = Duration::from_secs(200);

#[derive(Debug)]
pub struct WorldView {
    pub plan: WorldSpec,
    /// The simulated time of the newest moment.
    pub now: Duration,
    pub ledger: Ledger,
    pub blocks: Blocks,
    /// The rows before the newest moment, as far as it changed them.
    pub before: LedgerBefore,
    /// The acknowledged requests, the oldest first.
    pub acknowledged: Vec<(SubmitterId, RequestId, TxId)>,
    /// The end of the storm.
    pub calm_since: Option<Duration>,
    /// The number of times that commits were lost.
    pub losses: u32,
    /// The final block that the newest moment has orphaned.
    pub final_orphaned: Option<ChainBlock>,
    /// The transactions that became final with the newest moment.
    pub newly_final: Vec<B256>,
    /// Lanes that lost commits with the newest moment.
    pub losing_lanes: BTreeSet<SubmitterId>,
    /// Every attempt that was ever durable, lost ones too.
    durable: BTreeMap<B256, (SubmitterId, Bytes)>,
    /// Intents that were accepted, and then lost with a loss of commits.
    gone: BTreeSet<TxId>,
    /// Intents whose effect was on the chain before they were accepted: the caller has repeated a request that a loss
    /// of commits had removed. An operator cancels them.
    repeated: BTreeSet<TxId>,
    /// Nonces that some node has written as mined, also by a private block.
    seen_mined: BTreeSet<(SubmitterId, u64)>,
    /// The recent balances of the accounts.
    balances: BTreeMap<SubmitterId, VecDeque<(Duration, Amount)>>,
    /// The writes of the store, which are applied again up to the moment of a loss.
    written: Vec<(usize, Moment)>,
    lanes: Vec<SubmitterId>,
    end: Option<End>,
}

#[derive(Debug)]
struct End {
    state: EndState,
    findings: Vec<(&'static str, CheckFailure)>,
}

impl WorldView {
    pub fn new(lanes: &[SubmitterId], plan: &WorldSpec) -> Self {
        WorldView {
            plan: plan.clone(),
            now: Duration::ZERO,
            ledger: Ledger::new(lanes),
            blocks: Blocks::default(),
            before: LedgerBefore::default(),
            acknowledged: Vec::new(),
            calm_since: None,
            losses: 0,
            final_orphaned: None,
            newly_final: Vec::new(),
            losing_lanes: BTreeSet::new(),
            durable: BTreeMap::new(),
            gone: BTreeSet::new(),
            repeated: BTreeSet::new(),
            seen_mined: BTreeSet::new(),
            balances: BTreeMap::new(),
            written: Vec::new(),
            lanes: lanes.to_vec(),
            end: None,
        }
    }

    /// Applies every moment, in order, with its index in the history.
    pub fn apply(&mut self, index: usize, at: Duration, moment: &Moment) {
        self.now = at;
        self.before = LedgerBefore::default();
        self.final_orphaned = None;
        self.newly_final.clear();
        self.losing_lanes.clear();
        match moment {
            Moment::Accepted { .. }
            | Moment::Leased { .. }
            | Moment::Released { .. }
            | Moment::Committed { .. }
            | Moment::CanceledInQueue { .. } => {
                self.before = self.ledger.apply(moment);
                if let Moment::Accepted { id, intent } = moment
                    && let Some(data) = payload_data(intent.payload())
                    && effect_of(data).is_some_and(|effect| self.blocks.carriers(effect).next().is_some())
                {
                    self.repeated.insert(*id);
                }
                self.written.push((index, moment.clone()));
                self.remember(moment);
            }
            Moment::StoreLost { since } => self.lose(*since),
            Moment::Acknowledged { id, lane, request } => {
                self.acknowledged.push((lane.clone(), request.clone(), *id));
            }
            Moment::Mined { block } => self.blocks.mine(block),
            Moment::MinedPrivately { block } => self.blocks.mine_private(block),
            Moment::Orphaned { block } => self.final_orphaned = self.blocks.orphan(*block),
            Moment::Final { block } => self.newly_final = self.blocks.finalize(*block),
            Moment::ChainReset { genesis } => self.blocks.reset(*genesis),
            Moment::Calm => self.calm_since = Some(at),
            Moment::NotCommitted { .. }
            | Moment::CommandPut { .. }
            | Moment::FinalKept { .. }
            | Moment::GaveUp { .. }
            | Moment::HeadForgotten { .. }
            | Moment::Retained { .. }
            | Moment::Operator { .. }
            | Moment::Sent { .. }
            | Moment::Started { .. }
            | Moment::Ended { .. }
            | Moment::Struck { .. } => {}
        }
    }

    /// Keeps the facts that a loss of commits does not remove.
    fn remember(&mut self, moment: &Moment) {
        let Moment::Committed { commit, .. } = moment else { return };
        let lane = commit.lease().submitter();
        for attempt in commit.attempts() {
            self.durable.insert(attempt.hash, (lane.clone(), attempt.raw.clone()));
        }
        let mined = commit.changes().iter().filter_map(|change| mined_at(change.to()));
        self.seen_mined.extend(mined.map(|(nonce, _)| (lane.clone(), nonce)));
    }

    /// Resets the ledger to its state at that index.
    fn lose(&mut self, since: usize) {
        let kept = self.written.partition_point(|(index, _)| *index < since);
        for (_, moment) in self.written.split_off(kept) {
            match &moment {
                Moment::Accepted { id, .. } => drop(self.gone.insert(*id)),
                Moment::Committed { commit, .. } => drop(self.losing_lanes.insert(commit.lease().submitter().clone())),
                _ => {}
            }
        }
        self.ledger = Ledger::new(&self.lanes);
        for (_, moment) in &self.written {
            self.ledger.apply(moment);
        }
        self.losses += 1;
    }

    /// Intents whose effect was on the chain before they were accepted.
    pub fn repeated(&self) -> BTreeSet<TxId> {
        self.repeated.clone()
    }

    /// The bytes with this hash, if they were ever durable.
    pub fn durable(&self, hash: &B256) -> Option<&Bytes> {
        self.durable.get(hash).map(|(_, raw)| raw)
    }

    /// The lane of this transaction, if it was ever durable.
    pub fn lane_of(&self, hash: &B256) -> Option<&SubmitterId> {
        self.durable.get(hash).map(|(lane, _)| lane)
    }

    /// True if the intent was accepted, and then lost with a reported loss of commits.
    pub fn is_gone(&self, id: TxId) -> bool {
        self.gone.contains(&id)
    }

    /// True if some node has written this nonce as mined.
    pub fn is_seen_mined(&self, lane: &SubmitterId, nonce: u64) -> bool {
        self.seen_mined.contains(&(lane.clone(), nonce))
    }

    /// Records the balance of an account. The caller does so whenever it may have changed: moments show neither the
    /// cost of work nor a drained account.
    pub fn record_balance(&mut self, lane: &SubmitterId, balance: Amount) {
        let seen = self.balances.entry(lane.clone()).or_default();
        if seen.back().is_none_or(|(_, last)| *last != balance) {
            seen.push_back((self.now, balance));
        }
        // The newest balance before the window was still valid at its beginning.
        let Some(from) = self.now.checked_sub(BALANCE_MEMORY) else { return };
        while seen.get(1).is_some_and(|(at, _)| *at <= from) {
            seen.pop_front();
        }
    }

    /// The highest recent balance of the account. None if no balance was recorded.
    pub fn highest_balance(&self, lane: &SubmitterId) -> Option<Amount> {
        self.balances.get(lane)?.iter().map(|(_, balance)| *balance).max()
    }

    pub fn lanes(&self) -> &[SubmitterId] {
        &self.lanes
    }

    /// The acknowledged intents that were not lost.
    pub fn demanded(&self) -> Vec<(SubmitterId, RequestId, TxId)> {
        self.acknowledged.iter().filter(|(_, _, id)| !self.is_gone(*id)).cloned().collect()
    }

    /// Lanes whose ledger cannot be compared with the chain at the end: the chain has another genesis, or it orphaned
    /// final blocks with transactions of the lane.
    pub fn excused(&self) -> Vec<SubmitterId> {
        self.lanes.iter().filter(|lane| self.is_excused(lane)).cloned().collect()
    }

    pub fn is_excused(&self, lane: &SubmitterId) -> bool {
        self.blocks.resets > 0 || self.blocks.lanes_with_orphaned_finals.contains(lane)
    }

    /// Sets the state of the store at the end of the world. Called before [`Check::end`].
    pub fn close(&mut self, state: EndState) {
        let findings = end_state::check_end_state(&state, &self.blocks.scan());
        self.end = Some(End { state, findings });
    }

    pub fn end(&self) -> Option<&EndState> {
        self.end.as_ref().map(|end| &end.state)
    }

    /// The violation of a promise that the end state shows.
    pub(super) fn finding(&self, promise: &str) -> Result<(), CheckFailure> {
        let mut findings = self.end.iter().flat_map(|end| &end.findings);
        findings.find(|(name, _)| *name == promise).map_or(Ok(()), |(_, failure)| Err(failure.clone()))
    }
}
