//! Random walks: callers cancel, reserve, submit and release; owners crash; stores and nodes fail; blocks are orphaned.
//! The ledger of the harness rejects everything that a store would reject. In the end every intent has ended as the
//! chain says, and no nonce is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, BlockRef, Cancellation, CommandKind, Effect, EvmCall, EvmRules, FinalFailure, LaneCommit,
    ReservationStatus, ReservationStep, SendOutcome, Sighting, SignRequest, StateName, TxPlan, TxState, Work,
};

use crate::harness::{FEES, GAS, Hold, LaneHarness, finalized, fork, mined, nonce, owner, sign, submitter, window};

struct Walk {
    harness: LaneHarness,
    random: u64,
    /// Mined transactions, by nonce.
    blocks: BTreeMap<u64, (B256, BlockRef)>,
    /// All nonces below are final.
    finals: u64,
    /// Hashes that some node has.
    given: BTreeSet<B256>,
    height: u64,
    names: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut walk = Walk {
            harness: LaneHarness::new(window(1)),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            blocks: BTreeMap::new(),
            finals: 0,
            given: BTreeSet::new(),
            height: 10,
            names: 0,
        };
        walk.harness = LaneHarness::new(window(1 + u16::try_from(walk.dice(5)).unwrap()));
        walk
    }

    fn dice(&mut self, sides: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % sides
    }

    fn step(&mut self) {
        match self.dice(24) {
            0 | 1 => self.harness.queue(1),
            2 => {
                let until = self.harness.ledger.now().saturating_add(Duration::from_secs(self.random >> 60));
                self.harness.queue_call(EvmCall { to: submitter().evm_address(), ..EvmCall::default() }, Some(until));
            }
            3 | 4 => {
                self.names += 1;
                let hold = Duration::from_secs(1 + self.dice(20));
                self.harness.queue_reservation(&format!("n{}", self.names), hold);
            }
            5..8 => self.act_as_reservation_holder(),
            8 if !self.harness.ledger.txs.is_empty() => {
                let seq = 1 + self.dice(self.harness.ledger.txs.len() as u64);
                self.harness.cancel(seq);
            }
            9 if self.dice(4) == 0 => self.harness.command(CommandKind::CancelPending),
            10 => {
                let pauses = self.dice(3) == 0;
                self.harness.command(if pauses { CommandKind::Pause } else { CommandKind::Resume });
            }
            11 if self.dice(3) == 0 => self.harness.crash(),
            12 => self.orphan(),
            13 => {
                let hold = [Hold::Commit, Hold::Prepare, Hold::Sign][usize::try_from(self.dice(3)).unwrap()];
                self.harness.hold.insert(hold);
            }
            14 => self.answer_held(),
            15..18 => self.send(),
            18..20 => self.mine(),
            20 => self.finish(),
            _ => {
                let span = Duration::from_millis(self.dice(4_000));
                self.harness.advance(span);
            }
        }
        self.wake();
    }

    /// Loads the lane again if it was released, and runs it.
    fn wake(&mut self) {
        if self.harness.released {
            self.harness.crash();
        }
        self.harness.run();
    }

    fn act_as_reservation_holder(&mut self) {
        let next = self.harness.ledger.cursor.as_ref().map_or(0, |cursor| cursor.next_nonce.get());
        let (at, name) = (self.dice(next + 1), format!("n{}", 1 + self.dice(self.names + 1)));
        let reserved = self.harness.ledger.reservations.get(&nonce(at)).cloned();
        let lock_owner = match reserved {
            Some(ReservationStatus::Reserved { lock_owner, .. }) if self.dice(4) > 0 => lock_owner,
            _ => owner(&name),
        };
        let nonce = nonce(at);
        if self.dice(3) == 0 {
            return self.harness.command(CommandKind::ReleaseReserved { nonce, lock_owner });
        }
        let call = EvmCall { value: gapless_domain::Amount::from(self.dice(3)), ..EvmCall::default() };
        let plan = TxPlan { submitter: submitter(), nonce, action: call.into(), work: Work::new(GAS), fees: FEES };
        let cost = plan.worst_cost(&EvmRules);
        let signed = sign(&SignRequest { kind: AttemptKind::Original, plan });
        self.harness.command(CommandKind::UseReserved { nonce, lock_owner, signed, fees: FEES, cost });
    }

    /// Answers all held effects: commits are written or fail, the rest succeeds.
    fn answer_held(&mut self) {
        self.harness.hold.clear();
        while let Some(effect) = self.harness.unanswered.pop() {
            match effect {
                // The reservation ended since the lane made the commit. A store refuses it, and the lane is loaded
                // again.
                Effect::Commit(commit) if self.is_late(&commit) => self.harness.crash(),
                Effect::Commit(_) => {
                    self.harness.unanswered.push(effect);
                    if self.dice(2) == 0 { self.harness.commit_done(true) } else { self.harness.commit_not_written() }
                }
                Effect::Prepare(requests) => {
                    let answers = requests.iter().map(|request| (request.key, crate::harness::price())).collect();
                    self.harness.prepared(answers);
                }
                Effect::Sign(requests) => {
                    let answers = requests.iter().map(|request| Ok(sign(request))).collect();
                    self.harness.give(gapless_domain::Fact::Signed(answers));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_late(&self, commit: &LaneCommit) -> bool {
        let ledger = &self.harness.ledger;
        commit.reservations().iter().any(|step| match (step, ledger.reservations.get(&step.nonce())) {
            (
                ReservationStep::Use { .. } | ReservationStep::Release { .. },
                Some(ReservationStatus::Reserved { locked_until, .. }),
            ) => *locked_until <= ledger.now(),
            _ => false,
        })
    }

    fn send(&mut self) {
        if self.harness.broadcasts.is_empty() {
            return;
        }
        let sent = self.harness.take_broadcast();
        let outcomes: Vec<SendOutcome> = sent
            .iter()
            .map(|out| match self.dice(8) {
                0 => SendOutcome::Unavailable,
                1 if self.harness.ledger.attempts[&(out.nonce, 0)].hash == out.tx.hash => SendOutcome::Rejected,
                _ => SendOutcome::Accepted,
            })
            .collect();
        // A node may have the transaction, whatever it answers.
        self.given.extend(sent.iter().map(|out| out.tx.hash));
        // A rejected filler puts the lane into PROTECT, which needs an operator.
        let fills = |at| self.harness.ledger.attempts[&(at, 0)].kind == AttemptKind::Fill;
        let outcomes: Vec<SendOutcome> = sent
            .iter()
            .zip(outcomes)
            .map(|(out, outcome)| if fills(out.nonce) { SendOutcome::Accepted } else { outcome })
            .collect();
        self.harness.answer_each(&sent, &outcomes);
    }

    /// Mines the next nonce, by any attempt that some node has.
    fn mine(&mut self) {
        let next = self.blocks.len() as u64;
        let known = self.harness.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(next));
        let known: Vec<B256> = known.map(|attempt| attempt.hash).filter(|hash| self.given.contains(hash)).collect();
        if known.is_empty() {
            return;
        }
        let hash = known[usize::try_from(self.dice(known.len() as u64)).unwrap()];
        self.height += 1;
        let block = fork(self.height, &self.random.to_string());
        self.blocks.insert(next, (hash, block));
        self.harness.account = crate::harness::account(next + 1);
        self.harness.account.finalized = Some(nonce(self.finals));
        self.harness.sight(mined(hash, block));
    }

    fn orphan(&mut self) {
        if let Some((at, (hash, block))) = self.blocks.pop_last() {
            if at < self.finals {
                self.blocks.insert(at, (hash, block));
                return;
            }
            self.harness.account = crate::harness::account(at);
            self.harness.account.finalized = Some(nonce(self.finals));
            self.harness.sight(Sighting::Unmined { hash, block });
        }
    }

    fn finish(&mut self) {
        if let Some((hash, block)) = self.blocks.get(&self.finals).copied() {
            self.finals += 1;
            self.harness.account.finalized = Some(nonce(self.finals));
            self.harness.give(gapless_domain::Fact::Sightings(vec![mined(hash, block), finalized(hash, block)]));
        }
    }

    /// Answers the lookups of a loaded lane.
    fn look_up(&mut self) {
        for (at, (hash, block)) in self.blocks.clone() {
            let mut sightings = vec![mined(hash, block)];
            if at < self.finals {
                sightings.push(finalized(hash, block));
            }
            self.harness.give(gapless_domain::Fact::Sightings(sightings));
        }
    }

    /// Ends the walk: nothing new is requested and nothing fails, so every intent must end.
    fn settle(&mut self) {
        self.answer_held();
        self.wake();
        self.harness.command(CommandKind::Resume);
        for _ in 0..1000 {
            self.answer_held();
            self.wake();
            if self.is_settled() {
                return;
            }
            self.look_up();
            while !self.harness.broadcasts.is_empty() {
                let sent = self.harness.answer(SendOutcome::Accepted);
                self.given.extend(sent.iter().map(|out| out.tx.hash));
            }
            self.mine();
            self.finish();
            self.harness.advance_secs(1);
        }
    }

    fn is_settled(&self) -> bool {
        let ledger = &self.harness.ledger;
        let ended = ledger.txs.values().all(|tx| tx.state.name().is_terminal()) && ledger.commands.is_empty();
        ended && ledger.cursor.as_ref().is_some_and(|cursor| cursor.open_nonce == cursor.next_nonce)
    }

    fn check(&self, seed: u64) {
        let ledger = &self.harness.ledger;
        let cursor = ledger.cursor.as_ref().unwrap();
        assert_eq!(self.harness.protect_code(), None, "seed {seed}");
        let open: Vec<_> = ledger.txs.values().filter(|tx| !tx.state.name().is_terminal()).collect();
        assert!(open.is_empty(), "seed {seed}: {open:#?}");
        assert_eq!(cursor.open_nonce, cursor.next_nonce, "seed {seed}");
        assert_eq!(self.blocks.len() as u64, cursor.next_nonce.get(), "seed {seed}: every bound nonce is consumed");
        for tx in ledger.txs.values() {
            let settled = match &tx.state {
                TxState::Confirmed(settled) | TxState::Canceled(Cancellation::OnChain(_, settled)) => settled,
                TxState::Canceled(Cancellation::InQueue(_) | Cancellation::Released) => continue,
                TxState::FailedFinal(FinalFailure::Unbound(..)) => continue,
                other => panic!("seed {seed}: {other:?}"),
            };
            assert_eq!(settled.inclusion.hash, self.blocks[&settled.nonce.get()].0, "seed {seed}");
            let confirmed = tx.state.name() == StateName::Confirmed;
            assert_eq!(settled.inclusion.kind.carries_payload(), confirmed, "seed {seed}");
        }
        assert!(ledger.commands.is_empty(), "seed {seed}");
        assert!(self.harness.notices.is_empty(), "seed {seed}: {:?}", self.harness.notices);
    }
}

/// proves S15 S13 N18 S02
#[test]
fn random_walks_end_every_intent_as_the_chain_says() {
    let (mut ended, mut reservations) = (BTreeSet::new(), 0);
    for seed in 0..60 {
        let mut walk = Walk::new(seed);
        (0..150).for_each(|_| walk.step());
        walk.settle();
        walk.check(seed);
        ended.extend(walk.harness.ledger.txs.values().map(|tx| tx.state.name()));
        reservations += walk.harness.ledger.reservations.len();
    }
    assert_eq!(ended.len(), 3, "{ended:?}");
    assert!(reservations > 60, "{reservations}");
}
