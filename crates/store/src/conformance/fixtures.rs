//! Builders of submitters, intents and attempts, and the first steps of most cases. Tests of other crates use them too.

use std::ops::RangeInclusive;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_domain::{
    Amount, AttemptKind, AuditEntry, B256, BlockLink, BlockRef, Bytes, Claim, Command, CommandId, CommandReport,
    CommandResult, ConfirmationNotice, Cursor, Event, EventBody, EventPosition, Execution, Fees, Inclusion, Intent,
    IntentDraft, IntentRecord, LaneCommit, LaneEventKind, LaneSnapshot, Lease, Limits, NewAttempt, NewAudit, NodeText,
    Nonce, Payload, SendOutcome, SendReport, Speed, SubmitterId, Tail, Timestamp, Transition, TxId, keccak256, samples,
};
use uuid::Uuid;

use crate::retention::RetentionKind;
use crate::roles::{Accepted, Acquired, AuditFilter, CommitVerdict, Loaded, NewIntent, NewSubmitter, Store};

pub type Node = Arc<dyn Store>;

/// The number of tries of a call that a slow machine or another transaction may disturb.
const PATIENCE: u32 = 400;
const PAUSE: Duration = Duration::from_millis(10);

/// The message of a case that needs two calls within one lease and never got them.
pub const TOO_SLOW: &str = "the machine is too slow to hold any lease";

/// The n-th submitter. The addresses are not in the order of `n`, and have letters of both cases.
pub fn submitter(n: u64) -> SubmitterId {
    let hash = keccak256(format!("submitter {n}"));
    account(31337, hash)
}

/// The account of a chain whose address is the first part of a hash.
fn account(chain: u64, hash: B256) -> SubmitterId {
    format!("eip155:{chain}:{}", Bytes::copy_from_slice(&hash[..20])).parse().unwrap()
}

pub fn submitters(numbers: std::ops::Range<u64>) -> Vec<SubmitterId> {
    numbers.map(submitter).collect()
}

pub fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

pub fn text(text: &str) -> NodeText {
    NodeText::new(text)
}

pub fn done(said: &str) -> CommandResult {
    CommandResult::Done(CommandReport::new(said))
}

pub fn refused(said: &str) -> CommandResult {
    CommandResult::Refused(CommandReport::new(said))
}

pub fn audit(action: &'static str, detail: &str) -> NewAudit {
    NewAudit { actor: text("an operator"), action, detail: CommandReport::new(detail) }
}

/// An id that no other intent of this run has.
pub fn fresh_id() -> TxId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    TxId::from_uuid(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(number)))
}

pub fn transfer(amount: u64) -> Payload {
    samples::transfer(amount).into()
}

pub fn intent_with(submitter: &SubmitterId, request: &str, payload: Payload) -> Intent {
    let draft = IntentDraft {
        submitter: submitter.clone(),
        request_id: request.to_owned(),
        payload,
        speed: Speed::Standard,
        valid_until: None,
        metadata: None,
    };
    Intent::new(draft, &Limits::default()).unwrap()
}

pub fn intent(submitter: &SubmitterId, request: &str) -> Intent {
    intent_with(submitter, request, transfer(1))
}

pub fn new_intent(submitter: &SubmitterId, request: &str) -> NewIntent {
    NewIntent { id: fresh_id(), intent: intent(submitter, request) }
}

/// An attempt. Its hash depends on the seed, the nonce and the ordinal.
pub fn attempt(at: Nonce, ordinal: u16, seed: &str) -> NewAttempt {
    let kind = if ordinal == 0 { AttemptKind::Original } else { AttemptKind::Bump };
    let raw = format!("{seed}/{at}/{ordinal}").into_bytes();
    let fees = Fees::with_tip(u128::from(ordinal) + 10, 1);
    NewAttempt { nonce: at, ordinal, kind, hash: keccak256(&raw), raw: Bytes::from(raw), fees }
}

pub fn report(attempt: &NewAttempt, outcome: SendOutcome, said: &str) -> SendReport {
    SendReport { nonce: attempt.nonce, hash: attempt.hash, outcome, text: text(said), answers: Vec::new() }
}

pub fn claim(nonce: Nonce, pause: Duration) -> Claim {
    Claim { nonce, pause, tries: 1, signal: None }
}

pub fn block(number: u64) -> BlockRef {
    BlockRef { number, hash: keccak256(number.to_be_bytes()) }
}

/// The link of a [`block`] to its parent.
pub fn link(number: u64) -> BlockLink {
    let parent_hash = number.checked_sub(1).map_or(B256::ZERO, |parent| block(parent).hash);
    BlockLink { block: block(number), parent_hash }
}

pub fn notice(new_fork: bool, numbers: RangeInclusive<u64>) -> ConfirmationNotice {
    ConfirmationNotice { new_fork, links: numbers.map(link).collect() }
}

pub fn tail(numbers: RangeInclusive<u64>) -> Tail {
    Tail::of(numbers.map(link)).unwrap()
}

pub fn inclusion(hash: B256, kind: AttemptKind, number: u64) -> Inclusion {
    Inclusion {
        hash,
        kind,
        block: block(number),
        parent_hash: link(number).parent_hash,
        execution: Execution::Success,
        work_used: 21_000,
        unit_price: Amount::from(7_u64),
    }
}

/// The data that the owner of a lane reads before it writes.
#[derive(Clone, Debug)]
pub struct View {
    pub lane: LaneSnapshot,
    /// The lane's cursor, or the first cursor of a new lane.
    pub cursor: Cursor,
    pub queue: Vec<IntentRecord>,
}

impl View {
    /// The attempt for the bind of the first intent in the queue.
    pub fn next_attempt(&self) -> NewAttempt {
        attempt(self.cursor.next_nonce, 0, "bind")
    }
}

pub async fn register(node: &Node, lanes: &[SubmitterId]) {
    let new: Vec<_> = lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None }).collect();
    node.register_submitters(&new).await.unwrap();
}

/// A registered lane.
pub async fn lane(node: &Node, n: u64) -> SubmitterId {
    let lane = submitter(n);
    register(node, from_ref(&lane)).await;
    lane
}

/// Queues one new intent for each request.
pub async fn accept(node: &Node, lane: &SubmitterId, requests: &[&str]) -> Vec<TxId> {
    let new: Vec<_> = requests.iter().map(|request| new_intent(lane, request)).collect();
    let verdicts = node.accept(&new).await.unwrap();
    assert_eq!(verdicts, vec![Accepted::New; new.len()]);
    new.iter().map(|new| new.id).collect()
}

/// Acquires a lane, and repeats the call while the lease row is busy.
pub async fn try_acquire(node: &Node, lane: &SubmitterId) -> Acquired {
    for _ in 0..PATIENCE {
        match node.acquire(from_ref(lane)).await.unwrap().remove(0) {
            Acquired::Busy => pause().await,
            answer => return answer,
        }
    }
    panic!("the lease of {lane} stays busy")
}

pub async fn acquire(node: &Node, lane: &SubmitterId) -> Lease {
    match try_acquire(node, lane).await {
        Acquired::Held(lease) => lease,
        other => panic!("{} cannot acquire {lane}: {other:?}", node.owner()),
    }
}

/// Acquires a lane after the lease of its present owner has expired.
pub async fn take_over(h: &dyn super::Harness, node: &Node, lane: &SubmitterId) -> Lease {
    let terms = h.terms();
    for _ in 0..PATIENCE {
        match try_acquire(node, lane).await {
            Acquired::Held(lease) => return lease,
            _ => h.pass(terms.duration + terms.clock_skew + PAUSE).await,
        }
    }
    panic!("{} never gets {lane}", node.owner())
}

/// Acquires and loads the lane.
pub async fn view(node: &Node, lane: &SubmitterId) -> View {
    for _ in 0..PATIENCE {
        let lease = acquire(node, lane).await;
        if let Loaded::Lane(snapshot) = node.load_lanes(&[lease]).await.unwrap().remove(0) {
            let cursor = snapshot.cursor.clone().unwrap_or(Cursor::starting_at(Nonce::ZERO));
            let queue = node.peek_queues(&[(lane.clone(), 100)], &[]).await.unwrap().remove(0);
            return View { lane: snapshot, cursor, queue };
        }
    }
    panic!("{lane} can never be loaded")
}

/// Commits with a lease that is acquired right before. A fenced commit is repeated: only slowness fences the only node
/// of a lane.
pub async fn commit(node: &Node, lane: &SubmitterId, build: impl Fn(&mut LaneCommit)) -> CommitVerdict {
    for _ in 0..PATIENCE {
        let mut commit = LaneCommit::new(&acquire(node, lane).await);
        build(&mut commit);
        match node.commit(&[commit]).await.unwrap().verdicts.remove(0) {
            CommitVerdict::Fenced | CommitVerdict::Busy => pause().await,
            verdict => return verdict,
        }
    }
    panic!("{lane} can never be committed")
}

pub async fn commit_done(node: &Node, lane: &SubmitterId, build: impl Fn(&mut LaneCommit)) {
    assert_eq!(commit(node, lane, build).await, CommitVerdict::Done);
}

/// Binds the first intent of the queue to the next nonce, and returns the new record.
pub async fn bind_next(node: &Node, lane: &SubmitterId) -> IntentRecord {
    let view = view(node, lane).await;
    let first = &view.queue[0];
    commit_done(node, lane, |commit| {
        commit.bind(&view.cursor, first, view.next_attempt()).unwrap();
    })
    .await;
    record(node, first.id).await
}

/// Accepts one intent and binds it.
pub async fn bound(node: &Node, lane: &SubmitterId, request: &str) -> IntentRecord {
    accept(node, lane, &[request]).await;
    bind_next(node, lane).await
}

pub async fn record(node: &Node, id: TxId) -> IntentRecord {
    node.get(&[id]).await.unwrap().remove(0).unwrap()
}

/// Applies a transition to an intent, and returns the new record.
pub async fn change(node: &Node, lane: &SubmitterId, id: TxId, transition: Transition) -> IntentRecord {
    let tx = record(node, id).await;
    commit_done(node, lane, |commit| {
        commit.change(tx.change(transition.clone()).unwrap());
    })
    .await;
    record(node, id).await
}

/// Brings a bound intent to CONFIRMED.
pub async fn confirm(node: &Node, lane: &SubmitterId, id: TxId) -> IntentRecord {
    let hash = node.attempts(id).await.unwrap()[0].hash;
    change(node, lane, id, Transition::Mine(inclusion(hash, AttemptKind::Original, 7))).await;
    change(node, lane, id, Transition::Settle(None)).await
}

/// Closes every slot of a lane whose intents have all ended.
pub async fn close_all(node: &Node, lane: &SubmitterId) {
    let cursor = view(node, lane).await.cursor;
    commit_done(node, lane, |commit| {
        commit.close_below(&cursor, cursor.next_nonce).unwrap();
    })
    .await;
}

/// Applies one batch of retention to rows of any age.
pub async fn retain(node: &Node, kind: RetentionKind, limit: u32) -> u32 {
    node.apply_retention(kind, Duration::ZERO, limit).await.unwrap()
}

/// Moves ended intents of any age out.
pub async fn move_out(node: &Node, limit: u32) -> u32 {
    retain(node, RetentionKind::Intents, limit).await
}

pub async fn declare_lost(node: &Node, why: &str) {
    node.declare_lost(&text("operator"), why).await.unwrap();
}

pub async fn declare_reconciled(node: &Node, why: &str) {
    node.declare_reconciled(&text("operator"), why).await.unwrap();
}

/// An open command of a lane.
pub async fn waiting(node: &Node, lane: &SubmitterId, id: CommandId) -> Command {
    let open = node.open_commands(from_ref(lane)).await.unwrap().remove(0);
    open.into_iter().find(|command| command.id == id).unwrap()
}

/// The audit entries of a lane, newest first.
pub async fn audits(node: &Node, lane: &SubmitterId) -> Vec<AuditEntry> {
    let filter = AuditFilter { subject: Some(lane.to_string()), before: None, limit: 1000 };
    node.audit_log(&filter).await.unwrap()
}

/// The database's time. The call loads a lane that only this node uses.
pub async fn database_now(node: &Node) -> Timestamp {
    let hash = keccak256(node.owner().as_str());
    let clock = account(1, hash);
    view(node, &clock).await.lane.now
}

/// All events so far, in order. A database may show an event late, but never out of order. So the call writes a marker
/// event and waits until the marker is visible. Markers are left out of the answer. Each marker has its own lane,
/// which is not registered, so the marker can be written even after the store lost commits.
pub async fn events(node: &Node) -> Vec<Event> {
    let hash = keccak256(fresh_id().to_string());
    let marker = account(2, hash);
    let start = Cursor::starting_at(nonce(0));
    commit_done(node, &marker, |commit| {
        commit.lane_event(&start, LaneEventKind::LowBalance, text("marker")).unwrap();
    })
    .await;
    for _ in 0..PATIENCE {
        let mut all = read_all_events(node).await;
        if all.iter().any(|event| event.submitter == marker) {
            all.retain(|event| event.submitter.chain() != marker.chain());
            return all;
        }
        pause().await;
    }
    panic!("an event never becomes visible")
}

pub async fn read_all_events(node: &Node) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let after = all.last().map_or(EventPosition::default(), |event| event.position);
        let page = node.read_events(after, 50).await.unwrap();
        let Some(first) = page.first() else { return all };
        assert!(first.position > after, "an event was read twice");
        all.extend(page);
    }
}

/// The intent that an event is about.
pub fn intent_of(event: &Event) -> Option<TxId> {
    match event.body {
        EventBody::Tx { tx_id, .. } => Some(tx_id),
        EventBody::Lane { .. } => None,
    }
}

/// Waits for a short real time, for concurrent tasks. Only the harness moves the database's clock.
#[expect(clippy::disallowed_methods, reason = "the suite waits for a database that it does not control")]
pub async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Waits for a future that may take a while, and fails after a time-out.
#[expect(clippy::disallowed_methods, reason = "the suite waits for a database that it does not control")]
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen"),
    }
}

/// Runs a task concurrently with the test.
#[expect(clippy::disallowed_methods, reason = "the suite runs several nodes at once, and joins all tasks")]
pub fn beside<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

/// Pseudo-random numbers from a seed (splitmix64), equal in every run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number from 0 to `sides` - 1.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// The items in a random order.
    pub fn shuffled<T: Clone>(&mut self, things: &[T]) -> Vec<T> {
        let mut left = things.to_vec();
        let mut shuffled = Vec::with_capacity(left.len());
        while !left.is_empty() {
            shuffled.push(left.swap_remove(self.below(left.len() as u64) as usize));
        }
        shuffled
    }
}
