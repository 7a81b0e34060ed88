//! One process that holds the lane, or believes to: what it has under way, and its watcher.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use gapless_domain::{
    Amount, B256, BlockLink, BlockRef, Bytes, ChainFacts, CommitOutcome, Effect, EvmCall, Fact, Lane, LaneSetup,
    LaneSnapshot, Lease, MinedTx, Outline, Sighting, Step, Tail, Tick, WatchRequest,
};
use gapless_store::ModelStore;

use crate::chain::{Chain, FINAL_DEPTH};
use crate::dice::Dice;

#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) store: ModelStore,
    pub(crate) lease: Lease,
    pub(crate) lane: Lane,
    /// It renews no more, and others may take the lane.
    pub(crate) stalled: bool,
    /// What was written or loaded last may not be on the standby.
    unreplicated: bool,
    pub(crate) under_way: Vec<Work>,
    pub(crate) inbox: VecDeque<Sighting>,
    pub(crate) wake_at: Option<Tick>,
    /// What the lane was told of each hash, as of now.
    pub(crate) told: BTreeMap<B256, Told>,
    watched: BTreeMap<B256, bool>,
    requests: BTreeMap<B256, Option<BlockRef>>,
    /// The chain as its watcher has linked it, with the hashes of ours in each block.
    view: Vec<(BlockRef, Vec<B256>)>,
    told_final: HashMap<B256, BlockRef>,
    /// What its watcher has published and the lane has not heard.
    pub(crate) news: Option<Arc<ChainFacts>>,
    /// Looks in a row that found nothing although it was there.
    blind: HashMap<B256, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) block: BlockRef,
    pub(crate) is_final: bool,
}

/// An effect that was begun. It is executed at one moment, and its answer arrives at a later one.
#[derive(Debug)]
pub(crate) enum Work {
    Begun(Effect),
    Answered(Answer),
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every answer is a fact")]
pub(crate) enum Answer {
    Fact(Fact),
    /// The lane has to be loaded anew.
    Reload,
    Lost,
}

/// Nothing costs anything here.
fn free(_: &Bytes) -> Option<Outline> {
    Some(Outline { call: EvmCall::default(), gas_limit: 21_000, cost: Amount::ZERO })
}

impl Owner {
    pub(crate) fn new(store: ModelStore, lease: Lease, snapshot: LaneSnapshot, setup: &LaneSetup, now: Tick) -> Self {
        let lane = Lane::restore(&lease, snapshot, setup.clone(), free, now);
        Owner {
            store,
            lease,
            lane,
            stalled: false,
            unreplicated: true,
            under_way: Vec::new(),
            inbox: VecDeque::new(),
            wake_at: Some(now),
            told: BTreeMap::new(),
            watched: BTreeMap::new(),
            requests: BTreeMap::new(),
            view: Vec::new(),
            told_final: HashMap::new(),
            news: None,
            blind: HashMap::new(),
        }
    }

    /// The same lease, but what was believed is forgotten. What was on its way to the lane still arrives.
    pub(crate) fn reload(&mut self, snapshot: LaneSnapshot, setup: &LaneSetup, now: Tick) {
        self.lane = Lane::restore(&self.lease, snapshot, setup.clone(), free, now);
        self.under_way.clear();
        self.unreplicated = true;
        self.watched.clear();
        self.requests.clear();
        self.told.clear();
        self.wake_at = Some(now);
    }

    pub(crate) fn handle(&mut self, fact: Fact, now: Tick) -> Step {
        if let Fact::Sightings(sightings) = &fact {
            for sighting in sightings {
                self.note(sighting);
            }
        }
        if let Fact::Committed(CommitOutcome::Done { replicated, .. }) = fact {
            self.unreplicated = !replicated;
        }
        self.lane.handle(fact, now)
    }

    fn note(&mut self, sighting: &Sighting) {
        match sighting {
            Sighting::Mined(MinedTx { hash, block, .. }) | Sighting::StillMined { hash, block } => {
                let is_final = self.told.get(hash).is_some_and(|told| told.is_final);
                self.told.insert(*hash, Told { block: *block, is_final });
            }
            Sighting::Unmined { hash, block } => {
                if self.told.get(hash).is_some_and(|told| told.block == *block) {
                    self.told.remove(hash);
                }
            }
            Sighting::Final { hash, block, .. } => {
                self.told.insert(*hash, Told { block: *block, is_final: true });
            }
            Sighting::NotFound { .. } => {}
        }
    }

    /// One commit, one send, one look at a time; and nothing is sent while the standby may not have what was written.
    pub(crate) fn check_alone(&self, effect: &Effect) {
        let kind = |effect: &Effect| match effect {
            Effect::Commit(_) => Some("commit"),
            Effect::Broadcast(_) => Some("send"),
            Effect::Sign(_) => Some("signature"),
            Effect::Peek { .. } => Some("peek"),
            _ => None,
        };
        let same = |work: &Work| match work {
            Work::Begun(other) => kind(effect).is_some() && kind(other) == kind(effect),
            Work::Answered(Answer::Fact(Fact::Committed(_))) => kind(effect) == Some("commit"),
            Work::Answered(Answer::Fact(Fact::Sent(_))) => kind(effect) == Some("send"),
            Work::Answered(_) => false,
        };
        assert!(!self.under_way.iter().any(same), "two of a kind under way: {effect:?}");
        assert!(!self.unreplicated || kind(effect) != Some("send"), "sent, and perhaps on one server only: {effect:?}");
    }

    pub(crate) fn watch(&mut self, watched: &[WatchRequest]) {
        for WatchRequest { hash, known_block: known, look_up } in watched {
            self.watched.insert(*hash, true);
            if *look_up || known.is_some() {
                self.requests.insert(*hash, *known);
            }
        }
    }

    pub(crate) fn unwatch(&mut self, hashes: &[B256]) {
        for hash in hashes {
            self.watched.remove(hash);
            self.requests.remove(hash);
        }
    }

    pub(crate) fn watches(&self, hash: B256) -> bool {
        self.watched.contains_key(&hash)
    }

    /// Does its watcher have this block on its chain?
    pub(crate) fn has_linked(&self, block: BlockRef) -> bool {
        self.view.get(block.number as usize).is_some_and(|(at, _)| *at == block)
    }

    fn tell(&mut self, hash: B256, sighting: Sighting) {
        if self.watches(hash) {
            self.inbox.push_back(sighting);
        }
    }

    /// One look at the chain, `behind` blocks short of its head. `blind`: a look-up finds nothing although it is there.
    pub(crate) fn look(&mut self, chain: &Chain, behind: u64, blind: u64, dice: &mut Dice) {
        let head = chain.head().saturating_sub(behind);
        let common = self.view.iter().zip(&chain.blocks).take_while(|((at, _), block)| *at == block.at).count();
        // A node that lags is not believed over what was linked already.
        if common == self.view.len() || self.view.len() <= head as usize {
            while self.view.len() > common {
                let (block, ours) = self.view.pop().unwrap();
                for hash in ours {
                    self.tell(hash, Sighting::Unmined { hash, block });
                }
            }
            for block in chain.blocks.iter().take(head as usize + 1).skip(common) {
                let watched = block.txs.iter().filter(|tx| self.watched.contains_key(&tx.hash));
                let ours = watched.clone().map(|tx| tx.hash).collect();
                self.inbox.extend(watched.map(|tx| Sighting::Mined(chain.mined(block.at.number, tx))));
                self.view.push((block.at, ours));
            }
        }
        self.answer_requests(chain, blind, dice);
        self.tell_final();
        let tail = Tail::of((0..self.view.len()).map(|number| self.link(number)));
        self.news = tail.map(|tail| Arc::new(ChainFacts { tail, finality_violation: None }));
    }

    fn link(&self, number: usize) -> BlockLink {
        let parent = number.checked_sub(1).map(|parent| self.view[parent].0.hash);
        BlockLink { block: self.view[number].0, parent_hash: parent.unwrap_or_default() }
    }

    fn answer_requests(&mut self, chain: &Chain, blind: u64, dice: &mut Dice) {
        for (hash, known) in self.requests.clone() {
            match known {
                Some(block) if self.has_linked(block) => {
                    self.requests.remove(&hash);
                    self.note_ours(block, hash);
                    self.tell(hash, Sighting::StillMined { hash, block });
                }
                Some(block) if (block.number as usize) < self.view.len() => {
                    self.requests.insert(hash, None);
                    self.tell(hash, Sighting::Unmined { hash, block });
                }
                // Not linked that far yet.
                Some(_) => {}
                None => match chain.find(hash).filter(|_| !self.is_blind(hash, blind, dice)) {
                    Some((block, tx)) if self.has_linked(block) => {
                        self.requests.remove(&hash);
                        self.blind.remove(&hash);
                        self.note_ours(block, hash);
                        self.tell(hash, Sighting::Mined(chain.mined(block.number, tx)));
                    }
                    Some(_) => {}
                    None => {
                        self.requests.remove(&hash);
                        self.tell(hash, Sighting::NotFound { hash });
                    }
                },
            }
        }
    }

    /// Not for ever: nobody would ever know.
    fn is_blind(&mut self, hash: B256, blind: u64, dice: &mut Dice) -> bool {
        let times = self.blind.entry(hash).or_default();
        let is_blind = *times < 3 && dice.percent(blind);
        *times += u32::from(is_blind);
        is_blind
    }

    fn note_ours(&mut self, block: BlockRef, hash: B256) {
        let ours = &mut self.view[block.number as usize].1;
        if !ours.contains(&hash) {
            ours.push(hash);
        }
        // Asked anew, told anew.
        self.told_final.remove(&hash);
    }

    fn tell_final(&mut self) {
        let end = (self.view.len()).saturating_sub(FINAL_DEPTH as usize - 1);
        let found: Vec<(B256, BlockRef)> = self.view[..end]
            .iter()
            .flat_map(|(block, ours)| ours.iter().map(|hash| (*hash, *block)))
            .filter(|(hash, block)| self.told_final.get(hash) != Some(block))
            .collect();
        for (hash, block) in found {
            self.told_final.insert(hash, block);
            let first = block.number as usize;
            let last = self.view.len().min(first + FINAL_DEPTH as usize);
            let list = (first..last).map(|number| self.link(number)).collect();
            self.tell(hash, Sighting::Final { hash, block, list });
        }
    }
}
