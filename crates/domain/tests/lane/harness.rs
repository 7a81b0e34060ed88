//! The harness of the lane tests: one lane with a small ledger behind it.
//!
//! A lane takes facts and returns effects. The harness executes the effects, and feeds the answers back as facts, until
//! the lane has nothing more to do. A test controls the rest:
//!
//! 1. Create a harness: [`LaneHarness::new`] for an empty lane, or [`LaneHarness::with_intents`] for a lane with queued
//!    intents that has run until its first send. [`window`] makes the usual setup.
//! 2. Change the world by setting fields: `account` (nonces and balance), `market` (prices), `blocks` (result of a
//!    scan), `signal` (mempool), `decision` (about stuck intents), `ledger` (durable state).
//! 3. Give the lane its inputs: [`LaneHarness::queue`] and its variants accept intents, [`LaneHarness::command`] issues
//!    a command, [`LaneHarness::sight`] and [`LaneHarness::finish`] report the chain, [`LaneHarness::advance_secs`]
//!    lets time pass, [`LaneHarness::crash`] replaces the owner, and [`LaneHarness::give`] delivers any other fact.
//! 4. Sends are never answered by the harness. They wait in `broadcasts`; answer them with [`LaneHarness::answer`] or
//!    [`LaneHarness::answer_each`], or take them with [`LaneHarness::take_broadcast`].
//! 5. Other effects are answered at once, unless their kind is in `hold`. Then they wait in `unanswered`, and the test
//!    answers them itself ([`LaneHarness::commit_done`], [`LaneHarness::commit_not_written`],
//!    [`LaneHarness::take_prepare`] with [`LaneHarness::prepared`], …).
//! 6. Check the ledger ([`LaneHarness::states`], [`LaneHarness::nonces`], [`LaneHarness::result`], …) and the recorded
//!    effects (`commits`, `watched`, `scans`, `notices`, `released`).
//!
//! Intents are numbered by their queue position, from 1. The harness itself checks that nothing is sent before it is
//! durable and watched, that one broadcast is in flight at a time, and that the ledger accepts every commit.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    AccountFacts, Action, Address, Amount, AttemptKind, B256, BlockLink, BlockRef, Bytes, Command, CommandId,
    CommandKind, CommandResult, CommitOutcome, Decision, Effect, EvmCall, EvmRules, Execution, Fact, Fees,
    FencingToken, Intent, IntentRecord, Lane, LaneCommit, LaneSetup, Lease, LockOwner, MempoolSignal, MinedTx,
    NodeText, Nonce, NoncePolicy, Outgoing, Outline, OwnerId, Payload, Peeked, PrepareFailure, PrepareKey,
    PrepareRequest, Prepared, ReleaseRule, RequestId, ReservationRequest, ScanRequest, ScanResult, ScannedTx,
    SendOutcome, SentTx, Sighting, SignRequest, SignedPlan, SignedTx, Speed, StateName, StuckCase, SubmitterId,
    SubmitterPolicy, Tick, Timestamp, TxId, TxPlan, TxState, WatchRequest, Work, keccak256,
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

/// An account whose nonce is final and has no pending transactions.
pub(crate) fn account(count: u64) -> AccountFacts {
    let count = nonce(count);
    AccountFacts {
        head: 10,
        latest: count,
        pending: count,
        finalized: Some(count),
        final_block: Some(block(1)),
        lags: false,
        balance: Amount::from(u64::MAX),
        narrow: false,
    }
}

/// The inclusion of a hash in a block.
pub(crate) fn mined(hash: B256, block: BlockRef) -> Sighting {
    let (work_used, unit_price) = (GAS, Amount::from(50_u64));
    Sighting::Mined(MinedTx {
        hash,
        block,
        parent_hash: B256::ZERO,
        execution: Execution::Success,
        work_used,
        unit_price,
    })
}

/// Finality of a hash, with its first confirmation only.
pub(crate) fn finalized(hash: B256, block: BlockRef) -> Sighting {
    let link = BlockLink { block, parent_hash: B256::ZERO };
    Sighting::Final { hash, block, list: Arc::new([link]) }
}

/// A setup with this window, otherwise the defaults.
pub(crate) fn window(max_in_flight: u16) -> LaneSetup {
    let nonce = NoncePolicy { max_in_flight, ..NoncePolicy::default() };
    LaneSetup { policy: SubmitterPolicy { nonce, ..SubmitterPolicy::default() }, ..LaneSetup::new(&EvmRules) }
}

/// A setup whose window counts nonces until they are final.
pub(crate) fn final_window(max_in_flight: u16) -> LaneSetup {
    let mut setup = window(max_in_flight);
    setup.policy.nonce.release = ReleaseRule::Final;
    setup
}

/// Kinds of effects that the test answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    Peek,
    Prepare,
    Sign,
    Commit,
    Account,
    Scan,
    Diagnose,
    Decide,
}

/// A lane with its ledger and its world. See the module documentation.
#[derive(Debug)]
pub(crate) struct LaneHarness {
    pub(crate) lane: Lane,
    pub(crate) ledger: Ledger,
    pub(crate) now: Tick,
    setup: LaneSetup,
    pub(crate) account: AccountFacts,
    /// Result of a scan: the oldest block that can be read, and the account's transactions. `None`: the scan fails.
    pub(crate) blocks: Option<(u64, Vec<ScannedTx>)>,
    /// Reason of a failed scan.
    pub(crate) scan_failure: NodeText,
    /// Scan requests of the lane.
    pub(crate) scans: Vec<ScanRequest>,
    pub(crate) hold: BTreeSet<Hold>,
    /// Effects without an answer, except sends.
    pub(crate) unanswered: Vec<Effect>,
    /// Sends without an answer, in order.
    pub(crate) broadcasts: Vec<Vec<Outgoing>>,
    pub(crate) commits: Vec<LaneCommit>,
    pub(crate) watched: Vec<WatchRequest>,
    pub(crate) unwatched: Vec<B256>,
    pub(crate) notices: Vec<NodeText>,
    pub(crate) released: bool,
    pub(crate) wake_at: Option<Tick>,
    /// Market price, and base fee of the next block.
    pub(crate) market: (Fees, u128),
    /// Mempool signal of every diagnosis.
    pub(crate) signal: MempoolSignal,
    /// Decision about every stuck intent.
    pub(crate) decision: Decision,
    /// Stuck intents that the lane asked about.
    pub(crate) stuck_cases: Vec<StuckCase>,
}

impl LaneHarness {
    pub(crate) fn new(setup: LaneSetup) -> Self {
        Self::with(setup, Ledger { now_micros: 1_000_000_000, ..Ledger::default() })
    }

    pub(crate) fn with(setup: LaneSetup, ledger: Ledger) -> Self {
        let now = Tick::since_start(Duration::from_secs(100));
        let lane = Lane::restore(&lease(), ledger.snapshot(), setup.clone(), outline_of, now);
        LaneHarness {
            lane,
            ledger,
            now,
            setup,
            account: account(0),
            blocks: None,
            scan_failure: text("no endpoint answers"),
            scans: Vec::new(),
            hold: BTreeSet::new(),
            unanswered: Vec::new(),
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
            stuck_cases: Vec::new(),
        }
    }

    /// Answer to a prepare request: the caller's price, or the market's.
    fn price_of(&self, request: &PrepareRequest) -> Result<Prepared, PrepareFailure> {
        let (asks, base_fee) = self.market;
        let fees = request.action.own_price().unwrap_or(asks);
        let work = request.action.own_work().unwrap_or(Work::new(GAS));
        Ok(Prepared { base_fee, ..Prepared::new(work, fees) })
    }

    /// Advances the chain by some blocks during some seconds. The lane reads its account meanwhile.
    pub(crate) fn advance_blocks(&mut self, blocks: u64, seconds: u64) {
        self.account.head += blocks;
        self.advance_secs(seconds / 2);
        self.advance_secs(seconds - seconds / 2);
    }

    /// A lane with queued intents that has run until its first send.
    pub(crate) fn with_intents(setup: LaneSetup, intents: u64) -> Self {
        let mut harness = LaneHarness::new(setup);
        harness.queue(intents);
        harness.run();
        harness
    }

    /// Replaces the owner: the lane is loaded again from the ledger.
    pub(crate) fn crash(&mut self) {
        self.lane = Lane::restore(&lease(), self.ledger.snapshot(), self.setup.clone(), outline_of, self.now);
        self.unanswered.clear();
        self.broadcasts.clear();
        self.watched.clear();
        self.unwatched.clear();
        self.hold.clear();
        self.released = false;
    }

    /// Accepts intents with a simple transfer.
    pub(crate) fn queue(&mut self, intents: u64) {
        for _ in 0..intents {
            let call = EvmCall { to: Some(Address::repeat_byte(1)), ..EvmCall::default() };
            self.queue_call(call, None);
        }
    }

    /// Accepts an intent with this call.
    pub(crate) fn queue_call(&mut self, call: EvmCall, valid_until: Option<Timestamp>) {
        self.queue_payload(Payload::from(call), valid_until);
    }

    /// Accepts a reservation request.
    pub(crate) fn queue_reservation(&mut self, name: &str, hold: Duration) {
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

    /// Issues a command and wakes the lane.
    pub(crate) fn command(&mut self, kind: CommandKind) {
        let id = CommandId((self.ledger.commands.len() + self.ledger.results.len()) as u64 + 1);
        let (issued_by, issued_at) = (text("test"), self.ledger.now());
        self.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by, issued_at });
        self.give(Fact::Woken);
    }

    /// Gives the lane a fact, and executes the effects that follow from it.
    pub(crate) fn give(&mut self, fact: Fact) {
        let mut facts = VecDeque::from([fact]);
        while let Some(fact) = facts.pop_front() {
            let step = self.lane.handle(fact, self.now);
            self.wake_at = step.wake_at;
            for effect in step.effects {
                facts.extend(self.execute(effect));
            }
        }
    }

    /// Runs the lane without a new fact.
    pub(crate) fn run(&mut self) {
        self.give(Fact::Tick);
    }

    pub(crate) fn advance(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        self.ledger.now_micros += i64::try_from(span.as_micros()).unwrap();
        self.run();
    }

    pub(crate) fn advance_secs(&mut self, seconds: u64) {
        self.advance(Duration::from_secs(seconds));
    }

    /// Executes an effect and returns its answer, if there is one now.
    fn execute(&mut self, effect: Effect) -> Option<Fact> {
        let kind = match &effect {
            Effect::Peek { .. } => Hold::Peek,
            Effect::Prepare(_) => Hold::Prepare,
            Effect::Sign(_) => Hold::Sign,
            Effect::Commit(_) => Hold::Commit,
            Effect::ReadAccount => Hold::Account,
            Effect::Scan(_) => Hold::Scan,
            Effect::Diagnose(_) => Hold::Diagnose,
            Effect::Decide(_) => Hold::Decide,
            Effect::Broadcast(_) | Effect::Watch(_) | Effect::Unwatch(_) | Effect::Notice { .. } | Effect::Release => {
                self.record(effect);
                return None;
            }
        };
        if self.hold.contains(&kind) {
            let is_single = matches!(effect, Effect::Commit(_) | Effect::Sign(_) | Effect::Peek { .. });
            let is_same = |other: &Effect| std::mem::discriminant(other) == std::mem::discriminant(&effect);
            assert!(!is_single || !self.unanswered.iter().any(is_same), "two of a kind in flight: {effect:?}");
            self.unanswered.push(effect);
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
                self.stuck_cases.push(*case);
                answer
            }
            Effect::Scan(request) => {
                self.scans.push(request);
                Fact::Scanned(self.scan(request).ok_or_else(|| self.scan_failure.clone()))
            }
            _ => Fact::Account(Some(self.account)),
        })
    }

    fn scan(&self, request: ScanRequest) -> Option<ScanResult> {
        let (oldest, sent) = self.blocks.clone()?;
        let asked = |sent: &ScannedTx| sent.tx.plan.nonce >= request.from;
        let sent = sent.into_iter().filter(asked).collect();
        // All results of `block` belong to one chain.
        let is_reached = |above: BlockRef| above == block(above.number) && oldest <= above.number + 1;
        let is_whole = oldest == 0 || request.above.is_some_and(is_reached);
        Some(ScanResult { account: self.account, head: block(100), oldest, is_whole, sent })
    }

    fn record(&mut self, effect: Effect) {
        match effect {
            Effect::Broadcast(outgoing) => {
                let most = self.setup.limits.broadcasts;
                assert!(self.broadcasts.len() < most, "more broadcasts are in flight than the limit");
                let in_flight: BTreeSet<_> = self.sending().into_iter().collect();
                let is_in_flight = |out: &Outgoing| in_flight.contains(&out.nonce.get());
                assert!(!outgoing.iter().any(is_in_flight), "a nonce is sent while a send of it is in flight");
                assert!(outgoing.is_sorted_by_key(|out| out.nonce), "the lowest nonce is sent first");
                for out in &outgoing {
                    let held = self.ledger.attempts.values().find(|attempt| attempt.hash == out.tx.hash);
                    assert_eq!(held.map(|held| &held.raw), Some(&out.tx.raw), "sent before it was durable");
                    assert!(
                        self.watched.iter().any(|watched| watched.hash == out.tx.hash),
                        "the attempt was sent before it was watched"
                    );
                }
                self.broadcasts.push(outgoing);
            }
            Effect::Watch(watched) => self.watched.extend(watched),
            Effect::Unwatch(hashes) => self.unwatched.extend(hashes),
            Effect::Notice { text, .. } => self.notices.push(text),
            Effect::Release => self.released = true,
            _ => panic!("not a recorded effect: {effect:?}"),
        }
    }

    /// The answer to a peek.
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

    /// The unanswered commit.
    pub(crate) fn pending_commit(&self) -> &LaneCommit {
        let commit = self
            .unanswered
            .iter()
            .find_map(|effect| if let Effect::Commit(commit) = effect { Some(commit) } else { None });
        commit.unwrap()
    }

    fn take_pending_commit(&mut self) -> LaneCommit {
        let at = self.unanswered.iter().position(|effect| matches!(effect, Effect::Commit(_))).unwrap();
        match self.unanswered.remove(at) {
            Effect::Commit(commit) => *commit,
            other => panic!("{other:?}"),
        }
    }

    /// Writes the unanswered commit.
    pub(crate) fn commit_done(&mut self, replicated: bool) {
        let commit = self.take_pending_commit();
        let done = self.write(commit, replicated);
        self.give(done);
    }

    /// Fails the unanswered commit.
    pub(crate) fn commit_not_written(&mut self) {
        self.take_pending_commit();
        self.give(Fact::Committed(CommitOutcome::NotWritten));
    }

    /// Takes the unanswered peek and returns its limit.
    pub(crate) fn take_peek(&mut self) -> u32 {
        let at = self.unanswered.iter().position(|effect| matches!(effect, Effect::Peek { .. })).unwrap();
        match self.unanswered.remove(at) {
            Effect::Peek { limit, .. } => limit,
            _ => unreachable!(),
        }
    }

    /// Takes the unanswered prepare requests.
    pub(crate) fn take_prepare(&mut self) -> Vec<PrepareRequest> {
        let at = self.unanswered.iter().position(|effect| matches!(effect, Effect::Prepare(_))).unwrap();
        match self.unanswered.remove(at) {
            Effect::Prepare(requests) => requests,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn prepared(&mut self, answers: Vec<(PrepareKey, Result<Prepared, PrepareFailure>)>) {
        self.give(Fact::Prepared(answers));
    }

    /// The nonces that are being sent.
    pub(crate) fn sending(&self) -> Vec<u64> {
        self.broadcasts.iter().flatten().map(|out| out.nonce.get()).collect()
    }

    /// Takes the oldest unanswered send.
    pub(crate) fn take_broadcast(&mut self) -> Vec<Outgoing> {
        assert!(!self.broadcasts.is_empty(), "no send is in flight");
        self.broadcasts.remove(0)
    }

    /// Answers the oldest send with one outcome for all of its transactions.
    pub(crate) fn answer(&mut self, outcome: SendOutcome) -> Vec<Outgoing> {
        let sent = self.take_broadcast();
        self.answer_each(&sent, &vec![outcome; sent.len()]);
        sent
    }

    /// Answers a send that was taken before, with one outcome per transaction.
    pub(crate) fn answer_each(&mut self, sent: &[Outgoing], outcomes: &[SendOutcome]) {
        let answers = sent.iter().zip(outcomes).map(|(out, outcome)| SentTx {
            nonce: out.nonce,
            hash: out.tx.hash,
            outcome: *outcome,
            text: text("answer of the node"),
            answers: Vec::new(),
        });
        self.give(Fact::Sent(answers.collect()));
    }

    /// Reports a sighting.
    pub(crate) fn sight(&mut self, sighting: Sighting) {
        self.give(Fact::Sightings(vec![sighting]));
    }

    /// Reports that a transaction is mined and final.
    pub(crate) fn finish(&mut self, hash: B256, block: BlockRef) {
        self.give(Fact::Sightings(vec![mined(hash, block), finalized(hash, block)]));
    }

    /// The hash of a durable attempt.
    pub(crate) fn hash(&self, at: u64, ordinal: u16) -> B256 {
        self.ledger.attempts[&(nonce(at), ordinal)].hash
    }

    /// Result of the newest command: whether it was done, and its text.
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

    /// The nonces of the intents, in queue order.
    pub(crate) fn nonces(&self) -> Vec<Option<u64>> {
        self.ledger.txs.values().map(|tx| tx.state.nonce().map(Nonce::get)).collect()
    }

    pub(crate) fn protect_code(&self) -> Option<&'static str> {
        match &self.ledger.cursor.as_ref()?.state {
            gapless_domain::LaneState::Protect(protection) => Some(protection.code.as_str()),
            _ => None,
        }
    }

    /// The hashes that the lane wants to be looked up.
    pub(crate) fn looked_up(&self) -> Vec<B256> {
        self.watched.iter().filter(|watched| watched.look_up).map(|watched| watched.hash).collect()
    }
}

/// A foreign transaction of the account, in this block.
pub(crate) fn foreign_tx(at: u64, to: u8, number: u64) -> ScannedTx {
    let call = EvmCall { to: Some(Address::repeat_byte(to)), ..EvmCall::default() };
    let plan =
        TxPlan { submitter: submitter(), nonce: nonce(at), action: call.into(), work: Work::new(GAS), fees: FEES };
    let raw = format!("foreign {at} {to} 0");
    let signed = SignedTx { hash: keccak256(&raw), raw: Bytes::from(raw.into_bytes()) };
    ScannedTx { tx: SignedPlan { plan, signed }, block: block(number), parent_hash: block(number - 1).hash }
}

/// The default price.
pub(crate) fn price() -> Result<Prepared, PrepareFailure> {
    Ok(Prepared::new(Work::new(GAS), FEES))
}

/// Signed bytes with a readable content, which [`outline_of`] decodes.
pub(crate) fn sign(request: &SignRequest) -> SignedTx {
    let plan = &request.plan;
    let cost = plan.worst_cost(&EvmRules);
    let Action::Evm(call) = &plan.action;
    let to = call.to.map(|to| to.to_string()).unwrap_or_default();
    let raw = format!(
        "{} {} {:?}|{to}|{}|{}|{}|{cost}",
        plan.nonce,
        request.kind.as_str(),
        plan.fees,
        call.value,
        call.data,
        plan.work.units,
    );
    SignedTx { hash: keccak256(&raw), raw: Bytes::from(raw.into_bytes()) }
}

/// Decodes the bytes of [`sign`].
fn outline_of(raw: &Bytes) -> Option<Outline> {
    let text = std::str::from_utf8(raw).unwrap();
    let [_, to, value, data, gas_limit, cost] = text.split('|').collect::<Vec<_>>().try_into().ok()?;
    let (value, data) = (value.parse().unwrap(), data.parse().unwrap());
    let call = EvmCall { to: to.parse().ok(), value, data, ..EvmCall::default() };
    let work = Work::new(gas_limit.parse().unwrap());
    Some(Outline { action: call.into(), work, cost: cost.parse().unwrap() })
}

fn lease() -> Lease {
    Lease::granted(submitter(), OwnerId::new("a", 1), FencingToken::new(1))
}

/// The kinds of a slot's attempts, oldest first.
pub(crate) fn kinds(harness: &LaneHarness, at: u64) -> Vec<AttemptKind> {
    harness.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at)).map(|attempt| attempt.kind).collect()
}
