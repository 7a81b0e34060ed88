//! A lane on a bench: a small ledger behind it, answers for whatever the test does not care about, and everything else held
//! in the hand.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    AccountFacts, Address, Amount, AttemptKind, B256, BlockLink, BlockRef, Bytes, Command, CommandId, CommandKind,
    CommandResult, CommitOutcome, Decision, Effect, EvmCall, Execution, Fact, Fees, FencingToken, Intent, IntentRecord,
    Lane, LaneCommit, LaneSetup, Lease, LockOwner, MempoolSignal, MinedTx, NodeText, Nonce, NoncePolicy, OnChain,
    Outgoing, Outline, OwnerId, Payload, Peeked, PrepareFailure, PrepareKey, PrepareRequest, Prepared, ReleaseRule,
    RequestId, ReservationRequest, ScanRequest, ScanResult, SendOutcome, SentTx, Sighting, SignRequest, SignedPlan,
    SignedTx, Speed, StateName, StuckCase, SubmitterId, SubmitterPolicy, Tick, Timestamp, TxId, TxPlan, TxState,
    Watched, keccak256,
};
use uuid::Uuid;

use crate::ledger::Ledger;

pub(crate) const FEES: Fees = Fees::Eip1559 { max_fee: 100, max_priority_fee: 10 };
pub(crate) const GAS: u64 = 21_000;

pub(crate) fn submitter() -> SubmitterId {
    "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap()
}

pub(crate) fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

pub(crate) fn owner(name: &str) -> LockOwner {
    LockOwner::new(name).unwrap()
}

pub(crate) fn text(text: &str) -> NodeText {
    NodeText::new(text)
}

pub(crate) fn block(number: u64) -> BlockRef {
    fork(number, "")
}

/// A block of another branch.
pub(crate) fn fork(number: u64, branch: &str) -> BlockRef {
    BlockRef { number, hash: keccak256(format!("{number}{branch}")) }
}

pub(crate) fn account(count: u64) -> AccountFacts {
    let count = nonce(count);
    AccountFacts {
        head: 10,
        latest: count,
        pending: count,
        finalized: Some(count),
        final_block: Some(block(1)),
        balance: Amount::from(u64::MAX),
        delegated: false,
    }
}

pub(crate) fn mined(hash: B256, block: BlockRef) -> Sighting {
    let (gas_used, effective_gas_price) = (GAS, Amount::from(50_u64));
    Sighting::Mined(MinedTx {
        hash,
        block,
        parent_hash: B256::ZERO,
        execution: Execution::Success,
        gas_used,
        effective_gas_price,
    })
}

/// Final, with no other confirmation than the first.
pub(crate) fn finalized(hash: B256, block: BlockRef) -> Sighting {
    let link = BlockLink { block, parent_hash: B256::ZERO };
    Sighting::Final { hash, block, list: Arc::new([link]) }
}

pub(crate) fn window(max_in_flight: u16) -> LaneSetup {
    let nonce = NoncePolicy { max_in_flight, ..NoncePolicy::default() };
    LaneSetup { policy: SubmitterPolicy { nonce, ..SubmitterPolicy::default() }, ..LaneSetup::default() }
}

pub(crate) fn final_window(max_in_flight: u16) -> LaneSetup {
    let mut setup = window(max_in_flight);
    setup.policy.nonce.release = ReleaseRule::Final;
    setup
}

/// What the test answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    Peek,
    Prepare,
    Sign,
    Commit,
    Account,
    ScanResult,
    Diagnose,
    Decide,
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) lane: Lane,
    pub(crate) ledger: Ledger,
    pub(crate) now: Tick,
    setup: LaneSetup,
    pub(crate) account: AccountFacts,
    /// What blocks show if they are read: from which one on, and what the account has sent in them. `None`: nobody can tell.
    pub(crate) blocks: Option<(u64, Vec<OnChain>)>,
    /// What was asked of the blocks.
    pub(crate) surveys: Vec<ScanRequest>,
    pub(crate) hold: BTreeSet<Hold>,
    /// Effects that nobody has answered, but for sends.
    pub(crate) held: Vec<Effect>,
    /// Sends that nobody has answered, in order.
    pub(crate) broadcasts: Vec<Vec<Outgoing>>,
    pub(crate) commits: Vec<LaneCommit>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) unwatched: Vec<B256>,
    pub(crate) notices: Vec<NodeText>,
    pub(crate) released: bool,
    pub(crate) wake_at: Option<Tick>,
    /// What the market asks, and the base fee of the next block.
    pub(crate) market: (Fees, u128),
    /// What pools show.
    pub(crate) signal: MempoolSignal,
    /// What is decided about whatever is stuck, and what was asked.
    pub(crate) decision: Decision,
    pub(crate) cases: Vec<StuckCase>,
}

impl Bench {
    pub(crate) fn new(setup: LaneSetup) -> Self {
        Self::with(setup, Ledger { now_micros: 1_000_000_000, ..Ledger::default() })
    }

    pub(crate) fn with(setup: LaneSetup, ledger: Ledger) -> Self {
        let now = Tick::since_start(Duration::from_secs(100));
        let lane = Lane::restore(&lease(), ledger.snapshot(), setup.clone(), outline_of, now);
        Bench {
            lane,
            ledger,
            now,
            setup,
            account: account(0),
            blocks: None,
            surveys: Vec::new(),
            hold: BTreeSet::new(),
            held: Vec::new(),
            broadcasts: Vec::new(),
            commits: Vec::new(),
            watched: Vec::new(),
            unwatched: Vec::new(),
            notices: Vec::new(),
            released: false,
            wake_at: None,
            market: (FEES, 0),
            signal: MempoolSignal::Unknown,
            decision: Decision::Wait,
            cases: Vec::new(),
        }
    }

    fn price_of(&self, request: &PrepareRequest) -> Result<Prepared, PrepareFailure> {
        let (asks, base_fee) = self.market;
        let fees = request.call.fees.unwrap_or(asks);
        Ok(Prepared { base_fee, ..Prepared::new(request.call.gas_limit.unwrap_or(GAS), fees) })
    }

    /// So many blocks, and the time that they take; the lane looks at its account meanwhile.
    pub(crate) fn pass_blocks(&mut self, blocks: u64, seconds: u64) {
        self.account.head += blocks;
        self.pass_secs(seconds / 2);
        self.pass_secs(seconds - seconds / 2);
    }

    /// A lane with so many intents in its queue, run as far as it goes.
    pub(crate) fn busy(setup: LaneSetup, intents: u64) -> Self {
        let mut bench = Bench::new(setup);
        bench.queue(intents);
        bench.run();
        bench
    }

    /// The owner dies, and another one goes on from the ledger.
    pub(crate) fn crash(&mut self) {
        self.lane = Lane::restore(&lease(), self.ledger.snapshot(), self.setup.clone(), outline_of, self.now);
        self.held.clear();
        self.broadcasts.clear();
        self.watched.clear();
        self.unwatched.clear();
        self.hold.clear();
        self.released = false;
    }

    pub(crate) fn queue(&mut self, intents: u64) {
        for _ in 0..intents {
            let call = EvmCall { to: Some(Address::repeat_byte(1)), ..EvmCall::default() };
            self.queue_call(call, None);
        }
    }

    pub(crate) fn queue_call(&mut self, call: EvmCall, valid_until: Option<Timestamp>) {
        self.queue_payload(Payload::Evm(call), valid_until);
    }

    /// A caller who signs by itself asks for a nonce.
    pub(crate) fn queue_external(&mut self, name: &str, hold: Duration) {
        let hold_ms = u32::try_from(hold.as_millis()).unwrap();
        self.queue_payload(Payload::Reservation(ReservationRequest { lock_owner: owner(name), hold_ms }), None);
    }

    fn queue_payload(&mut self, payload: Payload, valid_until: Option<Timestamp>) {
        let seq = self.ledger.txs.len() as u64 + 1;
        let request = RequestId::restore(&format!("r{seq}"));
        let intent = Intent::restore(submitter(), request, payload, Speed::Standard, valid_until, None);
        let at = self.ledger.now();
        let id = TxId::from_uuid(Uuid::from_u128(u128::from(seq)));
        let tx = IntentRecord {
            id,
            seq,
            intent,
            replacement: None,
            state: TxState::Queued,
            version: 1,
            created_at: at,
            updated_at: at,
        };
        self.ledger.txs.insert(seq, tx);
    }

    pub(crate) fn command(&mut self, kind: CommandKind) {
        let id = CommandId((self.ledger.commands.len() + self.ledger.results.len()) as u64 + 1);
        let (issued_by, issued_at) = (text("test"), self.ledger.now());
        self.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by, issued_at });
        self.tell(Fact::Woken);
    }

    /// A fact, and whatever follows from it that is not held.
    pub(crate) fn tell(&mut self, fact: Fact) {
        let mut facts = VecDeque::from([fact]);
        while let Some(fact) = facts.pop_front() {
            let step = self.lane.handle(fact, self.now);
            self.wake_at = step.wake_at;
            for effect in step.effects {
                facts.extend(self.execute(effect));
            }
        }
    }

    pub(crate) fn run(&mut self) {
        self.tell(Fact::Tick);
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        self.ledger.now_micros += i64::try_from(span.as_micros()).unwrap();
        self.run();
    }

    pub(crate) fn pass_secs(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    fn execute(&mut self, effect: Effect) -> Option<Fact> {
        let kind = match &effect {
            Effect::Peek { .. } => Hold::Peek,
            Effect::Prepare(_) => Hold::Prepare,
            Effect::Sign(_) => Hold::Sign,
            Effect::Commit(_) => Hold::Commit,
            Effect::ReadAccount => Hold::Account,
            Effect::Scan(_) => Hold::ScanResult,
            Effect::Diagnose(_) => Hold::Diagnose,
            Effect::Decide(_) => Hold::Decide,
            Effect::Broadcast(_) | Effect::Watch(_) | Effect::Unwatch(_) | Effect::Notice { .. } | Effect::Release => {
                self.take_note(effect);
                return None;
            }
        };
        if self.hold.contains(&kind) {
            let is_single = matches!(effect, Effect::Commit(_) | Effect::Sign(_) | Effect::Peek { .. });
            let is_same = |held: &Effect| std::mem::discriminant(held) == std::mem::discriminant(&effect);
            assert!(!is_single || !self.held.iter().any(is_same), "two of a kind at a time: {effect:?}");
            self.held.push(effect);
            return None;
        }
        Some(match effect {
            Effect::Prepare(requests) => {
                Fact::Prepared(requests.iter().map(|request| (request.key, self.price_of(request))).collect())
            }
            Effect::Sign(requests) => Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()),
            Effect::Commit(commit) => self.write(*commit, true),
            Effect::Peek { limit, without } => self.peek(limit, &without),
            Effect::Diagnose(asked) => Fact::Diagnosed(asked.iter().map(|asked| (asked.nonce, self.signal)).collect()),
            Effect::Decide(case) => {
                let answer = Fact::Decided(case.nonce, self.decision);
                self.cases.push(*case);
                answer
            }
            Effect::Scan(request) => {
                self.surveys.push(request);
                Fact::Scanned(self.survey(request))
            }
            _ => Fact::Account(Some(self.account)),
        })
    }

    fn survey(&self, request: ScanRequest) -> Option<ScanResult> {
        let (oldest, sent) = self.blocks.clone()?;
        let asked = |sent: &OnChain| sent.tx.plan.nonce >= request.from;
        let sent = sent.into_iter().filter(asked).collect();
        // The chain is the one that all of `block` belong to.
        let is_reached = |above: BlockRef| above == block(above.number) && oldest <= above.number + 1;
        let is_whole = oldest == 0 || request.above.is_some_and(is_reached);
        Some(ScanResult { account: self.account, head: block(100), oldest, is_whole, sent })
    }

    fn take_note(&mut self, effect: Effect) {
        match effect {
            Effect::Broadcast(outgoing) => {
                assert!(self.broadcasts.is_empty(), "one send at a time");
                assert!(outgoing.is_sorted_by_key(|out| out.nonce), "the lowest nonce is sent first");
                for out in &outgoing {
                    let held = self.ledger.attempts.values().find(|attempt| attempt.hash == out.tx.hash);
                    assert_eq!(held.map(|held| &held.raw), Some(&out.tx.raw), "sent before it was durable");
                    assert!(
                        self.watched.iter().any(|watched| watched.hash == out.tx.hash),
                        "sent before it was watched"
                    );
                }
                self.broadcasts.push(outgoing);
            }
            Effect::Watch(watched) => self.watched.extend(watched),
            Effect::Unwatch(hashes) => self.unwatched.extend(hashes),
            Effect::Notice { text, .. } => self.notices.push(text),
            Effect::Release => self.released = true,
            _ => panic!("not a note: {effect:?}"),
        }
    }

    pub(crate) fn peek(&self, limit: u32, without: &[TxId]) -> Fact {
        let queued = self.ledger.txs.values().filter(|tx| tx.state == TxState::Queued && !without.contains(&tx.id));
        let queue = queued.take(limit as usize).cloned().collect();
        Fact::Peeked(Some(Peeked { queue, commands: self.ledger.commands.clone() }))
    }

    fn write(&mut self, commit: LaneCommit, replicated: bool) -> Fact {
        self.ledger.apply(&commit);
        self.commits.push(commit);
        Fact::Committed(CommitOutcome::Done { at: self.ledger.now(), replicated })
    }

    /// The commit that is held, not yet written.
    pub(crate) fn held_commit(&self) -> &LaneCommit {
        let commit =
            self.held.iter().find_map(|effect| if let Effect::Commit(commit) = effect { Some(commit) } else { None });
        commit.unwrap()
    }

    fn take_held_commit(&mut self) -> LaneCommit {
        let at = self.held.iter().position(|effect| matches!(effect, Effect::Commit(_))).unwrap();
        match self.held.remove(at) {
            Effect::Commit(commit) => *commit,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn commit_done(&mut self, replicated: bool) {
        let commit = self.take_held_commit();
        let done = self.write(commit, replicated);
        self.tell(done);
    }

    pub(crate) fn commit_not_written(&mut self) {
        self.take_held_commit();
        self.tell(Fact::Committed(CommitOutcome::NotWritten));
    }

    /// How many it wants to read.
    pub(crate) fn take_peek(&mut self) -> u32 {
        let at = self.held.iter().position(|effect| matches!(effect, Effect::Peek { .. })).unwrap();
        match self.held.remove(at) {
            Effect::Peek { limit, .. } => limit,
            _ => unreachable!(),
        }
    }

    /// What is asked to be prepared, and not answered.
    pub(crate) fn take_prepare(&mut self) -> Vec<PrepareRequest> {
        let at = self.held.iter().position(|effect| matches!(effect, Effect::Prepare(_))).unwrap();
        match self.held.remove(at) {
            Effect::Prepare(requests) => requests,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn prepared(&mut self, answers: Vec<(PrepareKey, Result<Prepared, PrepareFailure>)>) {
        self.tell(Fact::Prepared(answers));
    }

    /// The nonces that are being sent now.
    pub(crate) fn sending(&self) -> Vec<u64> {
        self.broadcasts.iter().flatten().map(|out| out.nonce.get()).collect()
    }

    pub(crate) fn take_broadcast(&mut self) -> Vec<Outgoing> {
        assert!(!self.broadcasts.is_empty(), "nothing is being sent");
        self.broadcasts.remove(0)
    }

    /// The same answer to everything that is being sent.
    pub(crate) fn answer(&mut self, outcome: SendOutcome) -> Vec<Outgoing> {
        let sent = self.take_broadcast();
        self.answer_each(&sent, &vec![outcome; sent.len()]);
        sent
    }

    pub(crate) fn answer_each(&mut self, sent: &[Outgoing], outcomes: &[SendOutcome]) {
        let answers = sent.iter().zip(outcomes).map(|(out, outcome)| SentTx {
            nonce: out.nonce,
            hash: out.tx.hash,
            outcome: *outcome,
            text: text("said so"),
            heard: Vec::new(),
        });
        self.tell(Fact::Sent(answers.collect()));
    }

    pub(crate) fn see(&mut self, sighting: Sighting) {
        self.tell(Fact::Seen(vec![sighting]));
    }

    /// Mined, and final.
    pub(crate) fn finish(&mut self, hash: B256, block: BlockRef) {
        self.tell(Fact::Seen(vec![mined(hash, block), finalized(hash, block)]));
    }

    /// The hash of a durable attempt.
    pub(crate) fn hash(&self, at: u64, ordinal: u16) -> B256 {
        self.ledger.attempts[&(nonce(at), ordinal)].hash
    }

    /// What came of the newest command: done or not, and its words.
    pub(crate) fn result(&self) -> (bool, &str) {
        let result = self.ledger.results.last().unwrap();
        (matches!(result, CommandResult::Done(_)), result.report().as_str())
    }

    pub(crate) fn id(&self, seq: u64) -> TxId {
        self.ledger.txs[&seq].id
    }

    pub(crate) fn cancel(&mut self, seq: u64) {
        self.command(CommandKind::Cancel { tx_id: self.id(seq) });
    }

    pub(crate) fn state(&self, seq: u64) -> StateName {
        self.ledger.txs[&seq].state.name()
    }

    pub(crate) fn states(&self) -> Vec<StateName> {
        self.ledger.txs.values().map(|tx| tx.state.name()).collect()
    }

    /// The nonces that intents hold, in the order of acceptance.
    pub(crate) fn nonces(&self) -> Vec<Option<u64>> {
        self.ledger.txs.values().map(|tx| tx.state.nonce().map(Nonce::get)).collect()
    }

    pub(crate) fn protect_code(&self) -> Option<&'static str> {
        match &self.ledger.cursor.as_ref()?.state {
            gapless_domain::LaneState::Protect(protection) => Some(protection.code.as_str()),
            _ => None,
        }
    }

    pub(crate) fn looked_up(&self) -> Vec<B256> {
        self.watched.iter().filter(|watched| watched.look_up).map(|watched| watched.hash).collect()
    }
}

/// A transaction of the account that is none of ours, in this block.
pub(crate) fn stranger(at: u64, to: u8, number: u64) -> OnChain {
    let call = EvmCall { to: Some(Address::repeat_byte(to)), ..EvmCall::default() };
    let plan = TxPlan { submitter: submitter(), nonce: nonce(at), call, gas_limit: GAS, fees: FEES };
    let raw = format!("stranger {at} {to} 0");
    let signed = SignedTx { hash: keccak256(&raw), raw: Bytes::from(raw.into_bytes()) };
    OnChain { tx: SignedPlan { plan, signed }, block: block(number), parent_hash: block(number - 1).hash }
}

pub(crate) fn price() -> Result<Prepared, PrepareFailure> {
    Ok(Prepared::new(GAS, FEES))
}

/// Signed bytes that say what they are, and end with what they can cost.
pub(crate) fn sign(request: &SignRequest) -> SignedTx {
    let plan = &request.plan;
    let cost = plan.worst_cost();
    let to = plan.call.to.map(|to| to.to_string()).unwrap_or_default();
    let raw = format!(
        "{} {} {:?}|{to}|{}|{}|{}|{cost}",
        plan.nonce,
        request.kind.as_str(),
        plan.fees,
        plan.call.value,
        plan.call.data,
        plan.gas_limit,
    );
    SignedTx { hash: keccak256(&raw), raw: Bytes::from(raw.into_bytes()) }
}

fn outline_of(raw: &Bytes) -> Option<Outline> {
    let text = std::str::from_utf8(raw).unwrap();
    let [_, to, value, data, gas_limit, cost] = text.split('|').collect::<Vec<_>>().try_into().ok()?;
    let (value, data) = (value.parse().unwrap(), data.parse().unwrap());
    let call = EvmCall { to: to.parse().ok(), value, data, ..EvmCall::default() };
    Some(Outline { call, gas_limit: gas_limit.parse().unwrap(), cost: cost.parse().unwrap() })
}

fn lease() -> Lease {
    Lease::granted(submitter(), OwnerId::new("a", 1), FencingToken::new(1))
}

/// The kinds of a slot's attempts.
pub(crate) fn kinds(bench: &Bench, at: u64) -> Vec<AttemptKind> {
    bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at)).map(|attempt| attempt.kind).collect()
}
