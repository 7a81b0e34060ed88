//! Rows of every kind in the form of the newest landed schema: they load, and work goes on.
//!
//! The JSON and the payload hashes are those that the code before the crate `store-sql` wrote.

use gapless_domain::{
    Amount, AttemptKind, B256, Bound, CancelReason, Cancellation, CommandId, CommandStatus, Execution, FailReason,
    FinalFailure, Goal, Head, Inclusion, LockOwner, MempoolSignal, Mined, NodeText, Payload, Progress,
    ReservationRequest, ReservationStatus, ReservationStep, Settled, SlotKind, StateName, StuckReason, SubmitterId,
    Tail, Transition, TxId, TxState, U256, samples,
};
use gapless_store::conformance::fixtures as f;
use gapless_store::{Accepted, HeadVerdict, NewIntent};

use super::harness::{FixtureRow, MigrationHarness};
use super::rows::{
    FAR_FUTURE, IntentFixture, TRANSFER, WRITTEN_AT, attempt, attempt_hash, command, cursor, event, head,
    inclusion_json, lane_event, migrated, number, sent, slot, submitter,
};

const CHAIN: &str = "eip155:31337";

/// A call with all fields, and a reservation.
const FULL_CALL: &str = concat!(
    r#"{"kind":"evm","to":"0xabababababababababababababababababababab","value":"5","data":"0x0102ff","#,
    r#""gas_limit":100000,"#,
    r#""fees":{"max_fee":"300000000000","max_priority_fee":"1"},"access_list":[{"#,
    r#""address":"0x0101010101010101010101010101010101010101","#,
    r#""keys":["0x0202020202020202020202020202020202020202020202020202020202020202"]}],"authorizations":[{"#,
    r#""chain_id":"1","address":"0x0303030303030303030303030303030303030303","nonce":7,"y_parity":true,"#,
    r#""r":"9","s":"5"}]}"#,
);
const RESERVATION: &str = r#"{"kind":"external","lock_owner":"me","hold_ms":300000}"#;

/// The answer of one endpoint, in the history of sends.
const HEARD: &str = r#"{"endpoint":"node-1","outcome":"accepted"}"#;

/// The payload hash of [`RESERVATION`].
const RESERVATION_HASH: &str = "0x1877281550df2e913293481798e4a627b6d6b6778d1582a18191d92b7b5a6882";

/// A transfer of one wei to 0x7099…, and its payload hash.
const HASHED_TRANSFER: &str =
    r#"{"kind":"evm","to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","value":"1","data":"0x"}"#;
const TRANSFER_HASH: &str = "0x8a94fb9eb1fa6263a39400979e24e2dd2f3d58b0c04d43be96362be72b002bce";

/// proves O04: from schema 7
pub(super) async fn schema_7_rows_of_every_kind_load_and_go_on(h: &dyn MigrationHarness) {
    rows_of_every_kind_load_and_go_on(h, 7).await;
}

/// proves O04: from schema 8
pub(super) async fn schema_8_rows_of_every_kind_load_and_go_on(h: &dyn MigrationHarness) {
    rows_of_every_kind_load_and_go_on(h, 8).await;
}

/// proves O04: from schema 9
pub(super) async fn schema_9_rows_of_every_kind_load_and_go_on(h: &dyn MigrationHarness) {
    rows_of_every_kind_load_and_go_on(h, 9).await;
}

/// proves O04: from schema 10
pub(super) async fn schema_10_rows_of_every_kind_load_and_go_on(h: &dyn MigrationHarness) {
    rows_of_every_kind_load_and_go_on(h, 10).await;
}

/// One intent, its row, and the state that the row stands for.
struct Stored {
    id: TxId,
    request_id: String,
    state: TxState,
}

/// The ledger of one lane.
struct Ledger {
    rows: Vec<FixtureRow>,
    stored: Vec<Stored>,
    next_nonce: i64,
    seq: i64,
}

impl Ledger {
    /// An intent in a state without a nonce.
    fn unbound(&mut self, lane: &SubmitterId, request_id: &str, detail: &str, state: TxState) -> TxId {
        self.add(lane, request_id, TRANSFER, None, detail, state)
    }

    /// An intent that holds, or held to its end, the next nonce: with its slot and its attempt, which was sent once.
    fn bound(&mut self, lane: &SubmitterId, request_id: &str, detail: &str, state: TxState) -> TxId {
        let nonce = self.next_nonce;
        let id = self.add(lane, request_id, TRANSFER, Some(nonce), detail, state);
        let bound = slot(lane, nonce, "intent", Some(id))
            .with("above_block", 7_i64)
            .with("above_hash", f::block(7).hash)
            .with("tries", 2_i64)
            .with("signal", "likely_dropped");
        let history =
            format!(r#"[{{"at":{},"outcome":"accepted","text":"taken","heard":[{HEARD}]}}]"#, WRITTEN_AT.as_micros());
        let tried = sent(attempt(lane, nonce, Some(id), "original")).with("history", history);
        self.rows.extend([bound, tried]);
        self.next_nonce += 1;
        id
    }

    fn add(
        &mut self,
        lane: &SubmitterId,
        request_id: &str,
        payload: &str,
        nonce: Option<i64>,
        detail: &str,
        state: TxState,
    ) -> TxId {
        self.seq += 1;
        let fixture = IntentFixture {
            payload,
            payload_hash: match payload {
                RESERVATION => RESERVATION_HASH.parse().unwrap(),
                HASHED_TRANSFER => TRANSFER_HASH.parse().unwrap(),
                _ => B256::ZERO,
            },
            state: state.name().as_str(),
            sub_state: state.sub_state().map(|sub_state| sub_state.as_str()),
            nonce,
            detail: detail.to_owned(),
            version: if state == TxState::Queued { 1 } else { 2 },
            ..IntentFixture::queued(request_id, self.seq)
        };
        // Keys and intents come before the slots: tables of SQLite refer to each other.
        self.rows.splice(0..0, [fixture.key(lane), fixture.row(lane)]);
        self.rows.push(event(lane, fixture.id, 1, "accepted", ("QUEUED", None, "{}")));
        self.stored.push(Stored { id: fixture.id, request_id: request_id.to_owned(), state });
        fixture.id
    }
}

fn bound_at(nonce: i64, goal: Goal, progress: Progress) -> Bound {
    Bound { nonce: number(nonce), goal, progress }
}

fn inclusion(nonce: i64, kind: AttemptKind, execution: Execution) -> Inclusion {
    Inclusion { execution, ..f::inclusion(attempt_hash(nonce), kind, 8) }
}

/// A state of each kind, with the JSON that stands for it.
fn states_of_each_kind(lane: &SubmitterId, ledger: &mut Ledger) {
    let parent = Some(f::link(8).parent_hash);
    let included = |nonce, kind, revert| inclusion_json(nonce, kind, 8, parent, revert);
    let pending = |nonce, goal| bound_at(nonce, goal, Progress::Pending);
    ledger.bound(lane, "allocated", "{}", TxState::Allocated(pending(0, Goal::Deliver)));
    let awaiting = bound_at(1, Goal::Deliver, Progress::AwaitingFunds);
    ledger.bound(lane, "awaiting funds", r#"{"awaiting_funds":true}"#, TxState::Tracking(awaiting));
    let detail = r#"{"goal":"cancel","cancel_reason":"expired"}"#;
    ledger.bound(lane, "canceling", detail, TxState::Tracking(pending(2, Goal::Cancel(CancelReason::Expired))));
    ledger.bound(lane, "replacing", r#"{"goal":"replace"}"#, TxState::Tracking(pending(3, Goal::Replace)));
    let stuck = TxState::Stuck(pending(4, Goal::Deliver), StuckReason::OutOfTries);
    ledger.bound(lane, "stuck", r#"{"reason":"out_of_tries"}"#, stuck);
    let mined = inclusion(5, AttemptKind::Original, Execution::Success);
    let told = f::block(9);
    let detail = format!(r#"{{{},"told":{{"number":9,"hash":"{}"}}}}"#, included(5, "original", ""), told.hash);
    let progress = Progress::Mined(Mined { inclusion: mined, notified: told });
    ledger.bound(lane, "mined", &detail, TxState::Tracking(bound_at(5, Goal::Deliver, progress)));
    let settled =
        |nonce, kind, execution| Settled { nonce: number(nonce), inclusion: inclusion(nonce, kind, execution) };
    let detail = format!("{{{}}}", included(6, "bump", ""));
    ledger.bound(lane, "confirmed", &detail, TxState::Confirmed(settled(6, AttemptKind::Bump, Execution::Success)));
    let reverted = Execution::Reverted { reason: Some(NodeText::new("no")), data: vec![8].into() };
    let detail = format!("{{{}}}", included(7, "original", r#","revert":{"reason":"no","data":"0x08"}"#));
    let failure = FinalFailure::Reverted(settled(7, AttemptKind::Original, reverted));
    ledger.bound(lane, "reverted", &detail, TxState::FailedFinal(failure));
    let detail = format!(r#"{{"cancel_reason":"user",{}}}"#, included(8, "cancel", ""));
    let on_chain = Cancellation::OnChain(CancelReason::User, settled(8, AttemptKind::Cancel, Execution::Success));
    ledger.bound(lane, "canceled on chain", &detail, TxState::Canceled(on_chain));

    let failure = FinalFailure::Unbound(FailReason::Expired, NodeText::new("late"));
    ledger.unbound(lane, "expired", r#"{"reason":"expired","text":"late"}"#, TxState::FailedFinal(failure));
    let in_queue = TxState::Canceled(Cancellation::InQueue(CancelReason::User));
    ledger.unbound(lane, "canceled in queue", r#"{"cancel_reason":"user"}"#, in_queue);
    ledger.unbound(lane, "released", r#"{"released":true}"#, TxState::Canceled(Cancellation::Released));
}

/// A reservation of each kind.
fn reservations_of_each_kind(lane: &SubmitterId, ledger: &mut Ledger) -> TxId {
    let [reserved, used, recyclable, filled] = [0, 1, 2, 3].map(|offset| ledger.next_nonce + offset);
    ledger.next_nonce += 4;
    for nonce in [reserved, used, recyclable, filled] {
        ledger.rows.push(slot(lane, nonce, "reservation", None));
    }
    let state = |nonce| bound_at(nonce, Goal::Deliver, Progress::Pending);
    let holder = TxState::Allocated(state(reserved));
    let holder = ledger.add(lane, "reserved", RESERVATION, Some(reserved), "{}", holder);
    let user = ledger.add(lane, "used", RESERVATION, Some(used), "{}", TxState::Tracking(state(used)));
    let allocation = |nonce, status| {
        FixtureRow::new("submitter_nonce_allocation")
            .with("submitter", lane.as_str())
            .with("nonce", nonce)
            .with("status", status)
            .with("fencing_token", 1_i64)
    };
    ledger.rows.extend([
        attempt(lane, used, Some(user), "original"),
        attempt(lane, filled, None, "fill"),
        allocation(reserved, "RESERVED")
            .with("tx_id", holder)
            .with("lock_owner", "me")
            .with("locked_until", FAR_FUTURE),
        allocation(used, "USED").with("tx_id", user),
        allocation(recyclable, "RECYCLABLE"),
        allocation(filled, "USED"),
    ]);
    holder
}

async fn rows_of_every_kind_load_and_go_on(h: &dyn MigrationHarness, version: i64) {
    let lane = f::submitter(1);
    let mut ledger = Ledger { rows: Vec::new(), stored: Vec::new(), next_nonce: 0, seq: 0 };
    states_of_each_kind(&lane, &mut ledger);
    let reserved = reservations_of_each_kind(&lane, &mut ledger);
    let first = ledger.add(&lane, "queued", FULL_CALL, None, "{}", TxState::Queued);
    let second = ledger.add(&lane, "queued transfer", HASHED_TRANSFER, None, "{}", TxState::Queued);
    let replacement =
        ledger.rows.iter_mut().find(|row| row.text("request_id") == Some("replacing") && row.table == "managed_tx");
    replacement.unwrap().columns.push(("replacement", FULL_CALL.into()));

    let foreign = slot(&lane, ledger.next_nonce, "foreign", None).with("evidence", "0xabc");
    let stored_head = head(CHAIN, 9, 8)
        .with("tail_first", 8_i64)
        .with("tail", [f::block(7).hash, f::block(8).hash, f::block(9).hash].concat());
    let audit = FixtureRow::new("audit_log")
        .with("at", WRITTEN_AT)
        .with("subject", lane.as_str())
        .with("actor", "op")
        .with("action", "pause")
        .with("detail", "done");
    let done = command(&lane, "pause", r#"{"kind":"pause"}"#, Some("done")).with("refused", false);
    let resync = r#"{"kind":"resync","lost":"requeue","dry_run":true}"#;
    let rows = [
        foreign,
        cursor(&lane, ledger.next_nonce + 1, 20, 1, true).with("low_balance", true),
        stored_head.with("genesis", f::block(0).hash),
        audit,
        done,
        command(&lane, "resync", resync, None),
        lane_event(&lane, 1, "paused", "asked"),
    ];
    h.create_at(version).await;
    h.insert(&[submitter(&lane)]).await;
    h.insert(&ledger.rows).await;
    h.insert(&rows).await;

    let node = migrated(h, version).await;
    assert_rows_loaded(&node, &lane, &ledger).await;
    work_goes_on(h, &node, &lane, &ledger, [first, second, reserved]).await;
}

fn full_call() -> Payload {
    samples::full(Amount::from(5_u64), 300_000_000_000, (7, U256::from(9))).into()
}

fn reservation_request() -> Payload {
    Payload::Reservation(ReservationRequest { lock_owner: LockOwner::new("me").unwrap(), hold_ms: 300_000 })
}

async fn assert_rows_loaded(node: &f::Node, lane: &SubmitterId, ledger: &Ledger) {
    for stored in &ledger.stored {
        let record = f::record(node, stored.id).await;
        assert_eq!(record.state, stored.state, "{}", stored.request_id);
        assert_eq!(record.intent.request_id().as_str(), stored.request_id);
        let events = node.events_of(stored.id, 10).await.unwrap();
        assert_eq!(events.len(), 1, "{}", stored.request_id);
        let payload = match stored.request_id.as_str() {
            "queued" => full_call(),
            "reserved" | "used" => reservation_request(),
            "queued transfer" => hashed_transfer(),
            _ => f::transfer(1),
        };
        assert_eq!(record.intent.payload(), &payload, "{}", stored.request_id);
        let replacement = (stored.request_id == "replacing").then(full_call);
        assert_eq!(record.replacement, replacement, "{}", stored.request_id);
    }
    let seen = f::view(node, lane).await;
    assert_eq!((seen.cursor.version, seen.cursor.paused, seen.cursor.low_balance), (20, true, true));
    assert_eq!(i64::try_from(seen.lane.slots.len()), Ok(ledger.next_nonce + 1));
    let first = &seen.lane.slots[0];
    assert_eq!((first.above, first.tries, first.signal), (Some(f::block(7)), 2, Some(MempoolSignal::LikelyDropped)));
    let last = seen.lane.slots.last().unwrap();
    assert_eq!((last.kind, last.evidence.clone()), (SlotKind::Foreign, Some(f::text("0xabc"))));
    let statuses: Vec<_> = seen.lane.reservations.iter().map(|reservation| &reservation.status).collect();
    assert!(
        matches!(statuses[..], [ReservationStatus::Reserved { .. }, ReservationStatus::Recyclable]),
        "{statuses:?}"
    );
    let history = node.attempts(ledger.stored[0].id).await.unwrap().remove(0).history;
    assert_eq!((history.len(), history[0].at, history[0].answers.len()), (1, WRITTEN_AT, 1));
    let head = Head { tail: f::tail(8..=9), finalized: Some(f::block(8)), genesis: Some(f::block(0).hash) };
    assert_eq!(node.head(&CHAIN.parse().unwrap()).await.unwrap(), Some(head));
    assert_eq!(f::audits(node, lane).await.len(), 1);
    let over = [CommandStatus::Over(f::done("done")), CommandStatus::Open].map(Some);
    assert_eq!(node.commands(&[CommandId(1), CommandId(2)]).await.unwrap(), over);
}

fn hashed_transfer() -> Payload {
    samples::transfer_to("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", 1_u64).unwrap().into()
}

async fn work_goes_on(
    h: &dyn MigrationHarness,
    node: &f::Node,
    lane: &SubmitterId,
    ledger: &Ledger,
    [first, second, reserved]: [TxId; 3],
) {
    // Requests are known by the hashes of their payloads.
    let repeat = |request, payload| NewIntent { id: f::fresh_id(), intent: f::intent_with(lane, request, payload) };
    let verdicts = node
        .accept(&[
            repeat("queued transfer", hashed_transfer()),
            repeat("queued transfer", f::transfer(2)),
            repeat("reserved", reservation_request()),
            repeat("new", f::transfer(3)),
        ])
        .await
        .unwrap();
    let known = [Accepted::Existing(second), Accepted::Conflict(second), Accepted::Existing(reserved), Accepted::New];
    assert_eq!(verdicts, known);
    let seen = f::view(node, lane).await;
    let queue: Vec<_> = seen.queue.iter().map(|tx| tx.id).collect();
    assert_eq!((queue.len(), &queue[..2]), (3, &[first, second][..]));

    // The lane is resumed, the first intent of the queue is bound, the reserved nonce is released, the mined intent
    // ends, the command too.
    f::commit_done(node, lane, |commit| {
        commit.set_paused(&seen.cursor, false, f::text("asked")).unwrap();
    })
    .await;
    assert_eq!(f::bind_next(node, lane).await.state.nonce(), Some(number(ledger.next_nonce + 1)));
    let holder = f::record(node, reserved).await;
    let nonce = holder.state.nonce().unwrap();
    let release = ReservationStep::Release { nonce, lock_owner: LockOwner::new("me").unwrap() };
    f::commit_done(node, lane, |commit| {
        commit.end_reservation(&holder, release.clone()).unwrap();
        commit.command_done(&seen.lane.commands[0], f::done("seen"));
    })
    .await;
    assert_eq!(f::record(node, reserved).await.state, TxState::Canceled(Cancellation::Released));
    let over = Some(CommandStatus::Over(f::done("seen")));
    assert_eq!(node.commands(&[CommandId(2)]).await.unwrap(), [over]);
    let mined = ledger.stored.iter().find(|stored| stored.request_id == "mined").unwrap();
    let ended = f::change(node, lane, mined.id, Transition::Settle(None)).await;
    assert_eq!(ended.state.name(), StateName::Confirmed);
    let longer = Head { tail: tail_to(10), finalized: Some(f::block(9)), genesis: Some(f::block(0).hash) };
    assert_eq!(node.save_head(&CHAIN.parse().unwrap(), &longer).await.unwrap(), HeadVerdict::Saved);

    // Retention moves out all intents that have ended.
    let terminal = ledger.stored.iter().filter(|stored| stored.state.name().is_terminal()).count() + 2;
    h.pass_a_moment().await;
    assert_eq!(f::move_out(node, 100).await as usize, terminal);
    for stored in ledger.stored.iter().filter(|stored| stored.state.name().is_terminal()) {
        assert_eq!(f::record(node, stored.id).await.state, stored.state, "{}", stored.request_id);
    }
}

fn tail_to(last: u64) -> Tail {
    f::tail(8..=last)
}
