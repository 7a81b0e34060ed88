//! The wrapper between the engine and a lane. A bug changes facts on their way in, or effects on their way out.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use gapless_domain::{
    B256, BlockRef, CommitOutcome, Effect, Fact, IntentRecord, Lane, LaneCommit, LaneSetup, LaneSnapshot, Lease,
    MinedTx, NewAttempt, Nonce, Progress, Sighting, Step, Tick, TxId,
};
use gapless_engine::{DomainLanes, LaneFactory, LaneMachine, OutlineOf};

use super::{Mistake, answers, durability, nonces};

/// A planted bug between the engine and one lane.
pub(super) trait LaneBug: fmt::Debug + Send {
    /// Changes a fact. The lane handles the returned facts in order.
    fn alter_fact(&mut self, fact: Fact, known: &KnownLane, lane: &Lane) -> Vec<Fact> {
        let _ = (known, lane);
        vec![fact]
    }

    /// Changes the effects of one step. The lane handles the returned facts next: they answer effects that the bug
    /// keeps from the engine.
    fn alter_effects(&mut self, effects: &mut Vec<Effect>, known: &KnownLane, lane: &Lane) -> Vec<Fact> {
        let _ = (effects, known, lane);
        Vec::new()
    }
}

/// The lanes of a world. Only a bug that changes facts or effects has a wrapper.
pub(crate) fn lanes(mistake: Option<Mistake>) -> Arc<dyn LaneFactory> {
    match mistake {
        Some(mistake) => Arc::new(PlantedLanes { mistake }),
        None => Arc::new(DomainLanes),
    }
}

fn bug(mistake: Mistake, setup: &LaneSetup) -> Option<Box<dyn LaneBug>> {
    Some(match mistake {
        Mistake::RecycleAfterTimeout => Box::new(nonces::FreedNonces::after_timeout()),
        Mistake::RequeueOnNullReceipt => Box::new(nonces::FreedNonces::after_null_receipt()),
        Mistake::RejectedFreesNonce => Box::new(nonces::FreedNonces::after_refusal()),
        Mistake::NoFillForHole => Box::<nonces::NoFiller>::default(),
        Mistake::JumpToChain => Box::<nonces::JumpToChain>::default(),
        Mistake::OnlyLastHash => Box::new(answers::OnlyLastHash),
        Mistake::NonceTooLowIsSuccess => Box::<answers::NonceTooLowIsSuccess>::default(),
        Mistake::UnderpricedIsSuccess => Box::<answers::UnderpricedIsSuccess>::default(),
        Mistake::MinedIsFinal => Box::new(answers::MinedIsFinal),
        Mistake::ReorgIgnored => Box::new(answers::ReorgIgnored { required: setup.policy.confirmations.required }),
        Mistake::ForkContinues => Box::<answers::ForkContinues>::default(),
        Mistake::SendBeforeCommit => Box::new(durability::SendBeforeCommit),
        _ => return None,
    })
}

#[derive(Debug)]
struct PlantedLanes {
    mistake: Mistake,
}

impl LaneFactory for PlantedLanes {
    fn restore(
        &self,
        lease: &Lease,
        snapshot: LaneSnapshot,
        setup: LaneSetup,
        outline_of: &OutlineOf<'_>,
        now: Tick,
    ) -> Box<dyn LaneMachine> {
        let known = KnownLane::new(&snapshot);
        let bug = bug(self.mistake, &setup);
        let lane = Lane::restore(lease, snapshot, setup, outline_of, now);
        match bug {
            Some(bug) => Box::new(PlantedLane { lane, known, bug }),
            None => Box::new(lane),
        }
    }
}

/// A lane with a planted bug.
#[derive(Debug)]
struct PlantedLane {
    lane: Lane,
    known: KnownLane,
    bug: Box<dyn LaneBug>,
}

impl LaneMachine for PlantedLane {
    fn handle(&mut self, fact: Fact, now: Tick) -> Step {
        let mut facts = VecDeque::from(self.bug.alter_fact(fact, &self.known, &self.lane));
        let mut all = Step::default();
        while let Some(fact) = facts.pop_front() {
            self.known.note_fact(&fact);
            let Step { mut effects, wake_at } = self.lane.handle(fact, now);
            facts.extend(self.bug.alter_effects(&mut effects, &self.known, &self.lane));
            self.known.note_effects(&effects);
            all.effects.append(&mut effects);
            // The lane looks at its whole state at each fact, so its last answer counts.
            all.wake_at = wake_at;
        }
        all
    }

    fn follows_heads(&self) -> bool {
        self.lane.follows_heads()
    }

    fn limit_signing(&mut self, batch_max: Option<usize>) {
        self.lane.limit_signing(batch_max);
    }
}

/// The part of a lane's state that passes the wrapper as facts and effects.
#[derive(Debug)]
pub(super) struct KnownLane {
    /// The intents of the lane, as far as they are known to be stored.
    intents: BTreeMap<TxId, IntentRecord>,
    /// The hashes of each nonce, oldest first.
    hashes: BTreeMap<Nonce, Vec<B256>>,
    /// The canonical blocks of hashes, as the watcher reported them.
    pub(super) mined: BTreeMap<B256, BlockRef>,
    /// The last blocks that consumers were notified of, at the time of loading.
    pub(super) notified: Vec<BlockRef>,
    in_flight: VecDeque<LaneCommit>,
}

impl KnownLane {
    fn new(snapshot: &LaneSnapshot) -> Self {
        let mut known = KnownLane {
            intents: snapshot.bound.iter().map(|tx| (tx.id, tx.clone())).collect(),
            hashes: BTreeMap::new(),
            mined: BTreeMap::new(),
            notified: Vec::new(),
            in_flight: VecDeque::new(),
        };
        for attempt in &snapshot.attempts {
            known.hashes.entry(attempt.nonce).or_default().push(attempt.hash);
        }
        for tx in &snapshot.bound {
            if let Some(Progress::Mined(mined)) = tx.state.bound().map(|bound| &bound.progress) {
                known.notified.push(mined.notified);
            }
        }
        known
    }

    /// True while the lane waits for the result of a commit.
    pub(super) fn commits(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(super) fn nonce_of(&self, hash: &B256) -> Option<Nonce> {
        self.hashes.iter().find(|(_, hashes)| hashes.contains(hash)).map(|(nonce, _)| *nonce)
    }

    pub(super) fn newest_hash(&self, nonce: Nonce) -> Option<&B256> {
        self.hashes.get(&nonce)?.last()
    }

    pub(super) fn is_mined(&self, nonce: Nonce) -> bool {
        self.hashes.get(&nonce).into_iter().flatten().any(|hash| self.mined.contains_key(hash))
    }

    /// The intent that holds the nonce, as this commit leaves it.
    pub(super) fn holder_after(&self, nonce: Nonce, commit: &LaneCommit) -> Option<IntentRecord> {
        let holds = |tx: &&IntentRecord| tx.state.bound().is_some_and(|bound| bound.nonce == nonce);
        let mut tx = self.intents.values().find(holds)?.clone();
        let (id, at) = (tx.id, tx.updated_at);
        for change in commit.changes().iter().filter(|change| change.tx_id() == id) {
            tx.apply(change, at);
        }
        Some(tx).filter(|tx| holds(&tx))
    }

    fn note_fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Peeked(Some(peeked)) => {
                for tx in &peeked.queue {
                    let is_newer = self.intents.get(&tx.id).is_none_or(|known| known.version < tx.version);
                    if is_newer {
                        self.intents.insert(tx.id, tx.clone());
                    }
                }
            }
            Fact::Committed(outcome) => {
                let commit = self.in_flight.pop_front();
                if let (CommitOutcome::Done { at, .. }, Some(commit)) = (outcome, commit) {
                    for NewAttempt { nonce, hash, .. } in commit.attempts() {
                        self.hashes.entry(*nonce).or_default().push(*hash);
                    }
                    for change in commit.changes() {
                        if let Some(tx) = self.intents.get_mut(&change.tx_id()) {
                            tx.apply(change, *at);
                        }
                    }
                }
            }
            Fact::Sightings(sightings) => sightings.iter().for_each(|sighting| self.note_sighting(sighting)),
            _ => {}
        }
    }

    fn note_sighting(&mut self, sighting: &Sighting) {
        match sighting {
            Sighting::Mined(MinedTx { hash, block, .. }) | Sighting::StillMined { hash, block } => {
                self.mined.insert(*hash, *block);
            }
            Sighting::Unmined { hash, .. } => {
                self.mined.remove(hash);
            }
            Sighting::Final { .. } | Sighting::NotFound { .. } => {}
        }
    }

    fn note_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Commit(commit) => self.in_flight.push_back(LaneCommit::clone(commit)),
                Effect::Unwatch(hashes) => self.mined.retain(|hash, _| !hashes.contains(hash)),
                _ => {}
            }
        }
    }
}
