//! Random walks: callers cancel, borrow, use and let go, owners die, stores and nodes fail, blocks are orphaned. The bench refuses
//! what a store would refuse; and in the end everything has ended, as the chain says, and without a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, BlockRef, Cancellation, CommandKind, Effect, EvmCall, FinalFailure, LaneCommit,
    ReservationStatus, ReservationStep, SendOutcome, Sighting, SignRequest, StateName, TxPlan, TxState,
};

use crate::bench::{Bench, FEES, GAS, Hold, finalized, fork, mined, nonce, owner, sign, submitter, window};

struct Walk {
    bench: Bench,
    random: u64,
    /// What stands in blocks, by nonce.
    blocks: BTreeMap<u64, (B256, BlockRef)>,
    /// All below are final.
    finals: u64,
    /// Hashes that a node was given.
    given: BTreeSet<B256>,
    height: u64,
    names: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut walk = Walk {
            bench: Bench::new(window(1)),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            blocks: BTreeMap::new(),
            finals: 0,
            given: BTreeSet::new(),
            height: 10,
            names: 0,
        };
        walk.bench = Bench::new(window(1 + u16::try_from(walk.dice(5)).unwrap()));
        walk
    }

    fn dice(&mut self, sides: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % sides
    }

    fn step(&mut self) {
        match self.dice(24) {
            0 | 1 => self.bench.queue(1),
            2 => {
                let until = self.bench.ledger.now().saturating_add(Duration::from_secs(self.random >> 60));
                self.bench.queue_call(EvmCall { to: submitter().evm_address(), ..EvmCall::default() }, Some(until));
            }
            3 | 4 => {
                self.names += 1;
                let hold = Duration::from_secs(1 + self.dice(20));
                self.bench.queue_external(&format!("n{}", self.names), hold);
            }
            5..8 => self.borrower_acts(),
            8 if !self.bench.ledger.txs.is_empty() => {
                let seq = 1 + self.dice(self.bench.ledger.txs.len() as u64);
                self.bench.cancel(seq);
            }
            9 if self.dice(4) == 0 => self.bench.command(CommandKind::CancelPending),
            10 => {
                let pauses = self.dice(3) == 0;
                self.bench.command(if pauses { CommandKind::Pause } else { CommandKind::Resume });
            }
            11 if self.dice(3) == 0 => self.bench.crash(),
            12 => self.orphan(),
            13 => {
                let hold = [Hold::Commit, Hold::Prepare, Hold::Sign][usize::try_from(self.dice(3)).unwrap()];
                self.bench.hold.insert(hold);
            }
            14 => self.let_go(),
            15..18 => self.send(),
            18..20 => self.mine(),
            20 => self.finish(),
            _ => {
                let span = Duration::from_millis(self.dice(4_000));
                self.bench.pass(span);
            }
        }
        self.wake();
    }

    /// A lane that was let go is loaded again when there is something to do.
    fn wake(&mut self) {
        if self.bench.released {
            self.bench.crash();
        }
        self.bench.run();
    }

    fn borrower_acts(&mut self) {
        let next = self.bench.ledger.cursor.as_ref().map_or(0, |cursor| cursor.next_nonce.get());
        let (at, name) = (self.dice(next + 1), format!("n{}", 1 + self.dice(self.names + 1)));
        let lent = self.bench.ledger.reservations.get(&nonce(at)).cloned();
        let lock_owner = match lent {
            Some(ReservationStatus::Reserved { lock_owner, .. }) if self.dice(4) > 0 => lock_owner,
            _ => owner(&name),
        };
        let nonce = nonce(at);
        if self.dice(3) == 0 {
            return self.bench.command(CommandKind::ReleaseReserved { nonce, lock_owner });
        }
        let call = EvmCall { value: gapless_domain::Amount::from(self.dice(3)), ..EvmCall::default() };
        let plan = TxPlan { submitter: submitter(), nonce, call, gas_limit: GAS, fees: FEES };
        let cost = plan.worst_cost();
        let signed = sign(&SignRequest { kind: AttemptKind::Original, plan });
        self.bench.command(CommandKind::UseReserved { nonce, lock_owner, signed, fees: FEES, cost });
    }

    /// What was held goes on: written or not, signed, prepared.
    fn let_go(&mut self) {
        self.bench.hold.clear();
        while let Some(effect) = self.bench.held.pop() {
            match effect {
                // It was in time when the lane made it. The store refuses it, and the lane is loaded anew.
                Effect::Commit(commit) if self.is_late(&commit) => self.bench.crash(),
                Effect::Commit(_) => {
                    self.bench.held.push(effect);
                    if self.dice(2) == 0 { self.bench.commit_done(true) } else { self.bench.commit_not_written() }
                }
                Effect::Prepare(requests) => {
                    let answers = requests.iter().map(|request| (request.key, crate::bench::price())).collect();
                    self.bench.prepared(answers);
                }
                Effect::Sign(requests) => {
                    let answers = requests.iter().map(|request| Ok(sign(request))).collect();
                    self.bench.tell(gapless_domain::Fact::Signed(answers));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_late(&self, commit: &LaneCommit) -> bool {
        let ledger = &self.bench.ledger;
        commit.reservations().iter().any(|step| match (step, ledger.reservations.get(&step.nonce())) {
            (
                ReservationStep::Use { .. } | ReservationStep::Release { .. },
                Some(ReservationStatus::Reserved { locked_until, .. }),
            ) => *locked_until <= ledger.now(),
            _ => false,
        })
    }

    fn send(&mut self) {
        if self.bench.broadcasts.is_empty() {
            return;
        }
        let sent = self.bench.take_broadcast();
        let outcomes: Vec<SendOutcome> = sent
            .iter()
            .map(|out| match self.dice(8) {
                0 => SendOutcome::Unavailable,
                1 if self.bench.ledger.attempts[&(out.nonce, 0)].hash == out.tx.hash => SendOutcome::Rejected,
                _ => SendOutcome::Accepted,
            })
            .collect();
        // Whatever a node says, it may have taken it.
        self.given.extend(sent.iter().map(|out| out.tx.hash));
        // What cannot even be filled stops a lane, and needs an operator.
        let fills = |at| self.bench.ledger.attempts[&(at, 0)].kind == AttemptKind::Fill;
        let outcomes: Vec<SendOutcome> = sent
            .iter()
            .zip(outcomes)
            .map(|(out, outcome)| if fills(out.nonce) { SendOutcome::Accepted } else { outcome })
            .collect();
        self.bench.answer_each(&sent, &outcomes);
    }

    /// The chain takes the next nonce, by any attempt that a node has.
    fn mine(&mut self) {
        let next = self.blocks.len() as u64;
        let known = self.bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(next));
        let known: Vec<B256> = known.map(|attempt| attempt.hash).filter(|hash| self.given.contains(hash)).collect();
        if known.is_empty() {
            return;
        }
        let hash = known[usize::try_from(self.dice(known.len() as u64)).unwrap()];
        self.height += 1;
        let block = fork(self.height, &self.random.to_string());
        self.blocks.insert(next, (hash, block));
        self.bench.account = crate::bench::account(next + 1);
        self.bench.account.finalized = Some(nonce(self.finals));
        self.bench.see(mined(hash, block));
    }

    fn orphan(&mut self) {
        if let Some((at, (hash, block))) = self.blocks.pop_last() {
            if at < self.finals {
                self.blocks.insert(at, (hash, block));
                return;
            }
            self.bench.account = crate::bench::account(at);
            self.bench.account.finalized = Some(nonce(self.finals));
            self.bench.see(Sighting::Unmined { hash, block });
        }
    }

    fn finish(&mut self) {
        if let Some((hash, block)) = self.blocks.get(&self.finals).copied() {
            self.finals += 1;
            self.bench.account.finalized = Some(nonce(self.finals));
            self.bench.tell(gapless_domain::Fact::Seen(vec![mined(hash, block), finalized(hash, block)]));
        }
    }

    /// A loaded lane looks for all its hashes.
    fn look_up(&mut self) {
        for (at, (hash, block)) in self.blocks.clone() {
            let mut seen = vec![mined(hash, block)];
            if at < self.finals {
                seen.push(finalized(hash, block));
            }
            self.bench.tell(gapless_domain::Fact::Seen(seen));
        }
    }

    /// Nobody wants anything more, and nothing fails: then everything ends.
    fn settle(&mut self) {
        self.let_go();
        self.wake();
        self.bench.command(CommandKind::Resume);
        for _ in 0..1000 {
            self.let_go();
            self.wake();
            if self.is_settled() {
                return;
            }
            self.look_up();
            while !self.bench.broadcasts.is_empty() {
                let sent = self.bench.answer(SendOutcome::Accepted);
                self.given.extend(sent.iter().map(|out| out.tx.hash));
            }
            self.mine();
            self.finish();
            self.bench.pass_secs(1);
        }
    }

    fn is_settled(&self) -> bool {
        let ledger = &self.bench.ledger;
        let ended = ledger.txs.values().all(|tx| tx.state.name().is_terminal()) && ledger.commands.is_empty();
        ended && ledger.cursor.as_ref().is_some_and(|cursor| cursor.open_nonce == cursor.next_nonce)
    }

    fn check(&self, seed: u64) {
        let ledger = &self.bench.ledger;
        let cursor = ledger.cursor.as_ref().unwrap();
        assert_eq!(self.bench.protect_code(), None, "seed {seed}");
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
        assert!(self.bench.notices.is_empty(), "seed {seed}: {:?}", self.bench.notices);
    }
}

/// proves S15 S13 N18 S02
#[test]
fn whatever_callers_and_borrowers_do_everything_ends_as_the_chain_says() {
    let (mut ended, mut lent) = (BTreeSet::new(), 0);
    for seed in 0..60 {
        let mut walk = Walk::new(seed);
        (0..150).for_each(|_| walk.step());
        walk.settle();
        walk.check(seed);
        ended.extend(walk.bench.ledger.txs.values().map(|tx| tx.state.name()));
        lent += walk.bench.ledger.reservations.len();
    }
    assert_eq!(ended.len(), 3, "{ended:?}");
    assert!(lent > 60, "{lent}");
}
