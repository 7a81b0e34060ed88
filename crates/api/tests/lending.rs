//! Nonces for callers who sign by themselves. The lane's part is played by the test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_api::ApiLimits;
use gapless_domain::{
    Bytes, Command, CommandKind, CommandResult, LaneCommit, LockOwner, NewAttempt, NodeText, Payload, ProtectCode,
    Protection, Report, ReservationStep, SubmitterId, TxId,
};
use gapless_store::Store;
use gapless_store::conformance::fixtures::{self, beside, soon};
use gapless_wire::{Client, CommandState, NonceFate, NonceOptions, ProblemCode, TxQuery, TxStateName, WithNonceError};
use serde_json::{Value, json};
use support::{
    Answer, House, OneChain, Unplugged, house, house_limited, house_with, model, request, signed_by, treasury,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const NONCES: &str = "/api/v1/submitters/treasury/nonces";

/// Lends the next nonce to the first in line, which wants one.
async fn lend(store: &Arc<dyn Store>, lane: &SubmitterId) -> TxId {
    let view = fixtures::view(store, lane).await;
    let tx = &view.queue[0];
    let Payload::External(external) = tx.intent.payload() else { panic!("{tx:?} wants no nonce") };
    let step = ReservationStep::Reserve {
        nonce: view.cursor.next_nonce,
        tx_id: tx.id,
        lock_owner: external.lock_owner.clone(),
        hold: Duration::from_millis(external.hold_ms.into()),
    };
    fixtures::commit_done(store, lane, |commit: &mut LaneCommit| {
        commit.bind_reserved(&view.cursor, tx, step.clone()).unwrap();
    })
    .await;
    tx.id
}

/// Executes the open commands about lent nonces, each as the store allows.
async fn execute(store: &Arc<dyn Store>, lane: &SubmitterId) {
    for command in fixtures::view(store, lane).await.lane.commands {
        let verdict = fixtures::commit(store, lane, |commit| step(commit, &command)).await;
        if verdict != gapless_store::CommitVerdict::Done {
            fixtures::commit_done(store, lane, |commit| {
                commit.command_done(&command, CommandResult::Refused(Report::new("its time is over")));
            })
            .await;
        }
    }
}

fn step(commit: &mut LaneCommit, command: &Command) {
    match &command.kind {
        CommandKind::UseReserved { nonce, lock_owner, signed, fees, .. } => {
            let (hash, raw) = (signed.hash, signed.raw.clone());
            let kind = gapless_domain::AttemptKind::Original;
            commit.reservation(ReservationStep::Use { nonce: *nonce, lock_owner: lock_owner.clone() });
            commit.attempt(NewAttempt { nonce: *nonce, ordinal: 0, kind, hash, raw, fees: *fees });
        }
        CommandKind::ReleaseReserved { nonce, lock_owner } => {
            commit.reservation(ReservationStep::Release { nonce: *nonce, lock_owner: lock_owner.clone() });
        }
        other => panic!("{other:?} is not about a nonce"),
    }
    commit.command_done(command, CommandResult::Done(Report::new("done")));
}

async fn ask(house: &House, target: &str, body: Value) -> Answer {
    let body = body.to_string();
    let mut waiting = Box::pin(house.post(target, &body));
    let answer = async {
        loop {
            tokio::select! {
                answer = &mut waiting => return answer,
                () = house.bell.listened.notified() => work(house).await,
            }
        }
    };
    soon("the answer", answer).await
}

/// What the lane does when it is woken.
async fn work(house: &House) {
    let lane = treasury();
    if !fixtures::view(&house.store, &lane).await.queue.is_empty() {
        lend(&house.store, &lane).await;
    }
    execute(&house.store, &lane).await;
    house.bell.ring(&lane);
}

async fn lent(house: &House, request_id: &str) -> Value {
    let answer = ask(house, NONCES, json!({"requestId": request_id, "lockOwner": "me", "hold": "30s"})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()
}

/// proves N18
#[tokio::test]
async fn a_nonce_is_lent_used_by_its_owner_and_the_same_bytes_again_are_the_same() {
    let house = house().await;
    let loan = lent(&house, "a").await;
    assert_eq!((&loan["nonce"], &loan["lockedUntil"]), (&0.into(), &"2026-01-01T00:00:30Z".into()));
    assert_eq!(lent(&house, "a").await, loan, "the same request is the same loan");
    let other = house.post(NONCES, &json!({"requestId": "a", "lockOwner": "you"}).to_string()).await;
    other.problem(409, "request_id_conflict");

    let submit = format!("{NONCES}/0/submit");
    let raw = signed_by(&treasury(), 0, "hello");
    let thief = ask(&house, &submit, json!({"lockOwner": "thief", "raw": raw})).await;
    thief.problem(409, "reservation_lost");
    assert!(fixtures::view(&house.store, &treasury()).await.lane.commands.is_empty(), "the lane was not bothered");
    let taken = ask(&house, &submit, json!({"lockOwner": "me", "raw": raw})).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let bytes: Bytes = raw.parse().unwrap();
    let hash = gapless_domain::keccak256(&bytes).to_string();
    assert_eq!(taken.json(), json!({"txId": loan["txId"], "hash": hash, "state": "done"}));

    let tx = house.get(&format!("/api/v1/tx/{}", loan["txId"].as_str().unwrap())).await.json();
    assert_eq!((&tx["state"], &tx["hash"]), (&"ALLOCATED".into(), &hash.as_str().into()), "{tx}");
    let again = house.post(&submit, &json!({"lockOwner": "me", "raw": raw}).to_string()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, taken.json()));
    let late = json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, "other")}).to_string();
    house.post(&submit, &late).await.problem(409, "reservation_lost");
    house
        .post(NONCES, &json!({"requestId": "a", "lockOwner": "me"}).to_string())
        .await
        .problem(409, "reservation_lost");
    let released = house.post(&format!("{NONCES}/0/release"), r#"{"lockOwner":"me"}"#).await;
    released.problem(409, "reservation_lost");

    // Blocks may be quicker than a caller who asks again.
    let id: TxId = loan["txId"].as_str().unwrap().parse().unwrap();
    fixtures::confirm(&house.store, &treasury(), id).await;
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.close_below(&cursor, fixtures::nonce(1)).unwrap();
    })
    .await;
    let closed = house.post(&submit, &json!({"lockOwner": "me", "raw": raw}).to_string()).await;
    assert_eq!((closed.status.as_u16(), closed.json()), (200, taken.json()));
}

/// proves N18
#[tokio::test]
async fn a_nonce_that_was_let_go_or_is_over_is_lost() {
    let house = house().await;
    let loan = lent(&house, "a").await;
    let release = format!("{NONCES}/0/release");
    let back = ask(&house, &release, json!({"lockOwner": "me"})).await;
    assert_eq!((back.status.as_u16(), back.json()), (200, json!({"txId": loan["txId"], "state": "done"})));
    house.post(&release, r#"{"lockOwner":"me"}"#).await.problem(409, "reservation_lost");
    let raw = signed_by(&treasury(), 0, "late");
    let late = house.post(&format!("{NONCES}/0/submit"), &json!({"lockOwner": "me", "raw": raw}).to_string()).await;
    late.problem(409, "reservation_lost");
}

/// The lane's word counts, also where the loan looked fine before.
#[tokio::test]
async fn what_the_lane_refuses_is_lost() {
    let house = house().await;
    lent(&house, "a").await;
    let raw = signed_by(&treasury(), 0, "late");
    let (target, body) = (format!("{NONCES}/0/submit"), json!({"lockOwner": "me", "raw": raw}).to_string());
    let mut waiting = Box::pin(house.post(&target, &body));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let lane = treasury();
    let view = fixtures::view(&house.store, &lane).await;
    fixtures::commit_done(&house.store, &lane, |commit| {
        for command in &view.lane.commands {
            commit.command_done(command, CommandResult::Refused(Report::new("too late")));
        }
    })
    .await;
    house.bell.ring(&lane);
    let answer = soon("the refusal", waiting).await;
    answer.problem(409, "reservation_lost");
    assert_eq!(answer.json()["detail"], "too late");
}

#[tokio::test]
async fn what_is_not_decided_in_time_is_written_down() {
    let house = house().await;
    house.time.all_over();
    let waits = house.post(NONCES, "{}").await;
    assert_eq!(waits.status, 202, "{}", waits.text);
    let json = waits.json();
    assert!(json.get("nonce").is_none() && json["requestId"].is_string(), "{json}");
    lend(&house.store, &treasury()).await;
    let again = json!({"requestId": json["requestId"], "lockOwner": json["lockOwner"]});
    let loan = house.post(NONCES, &again.to_string()).await;
    assert_eq!(
        (loan.status.as_u16(), &loan.json()["lockedUntil"]),
        (201, &"2026-01-01T00:01:00Z".into()),
        "{}",
        loan.text
    );
    let other = house.post(NONCES, "{}").await.json();
    assert!(other["lockOwner"] != json["lockOwner"] && other["txId"] != json["txId"]);
    let raw = signed_by(&treasury(), 0, "x");
    let body = json!({"lockOwner": json["lockOwner"], "raw": raw}).to_string();
    let submitted = house.post(&format!("{NONCES}/0/submit"), &body).await;
    assert_eq!((submitted.status.as_u16(), &submitted.json()["state"]), (202, &"open".into()), "{}", submitted.text);
    execute(&house.store, &treasury()).await;
    assert_eq!(house.post(&format!("{NONCES}/0/submit"), &body).await.status, 200);
}

/// proves A01
#[tokio::test]
async fn what_cannot_be_meant_is_told_where_it_is_wrong() {
    let house = house().await;
    for (body, pointer) in [
        (json!({"hold": "1h"}), "/hold"),
        (json!({"hold": "0s"}), "/hold"),
        (json!({"hold": "11m"}), "/hold"),
        (json!({"lockOwner": ""}), "/lockOwner"),
        (json!({"requestId": "a"}), "/lockOwner"),
        (json!({"requestId": " a", "lockOwner": "me"}), "/requestId"),
        (json!({"nonce": 7}), "/nonce"),
    ] {
        let answer = house.post(NONCES, &body.to_string()).await;
        assert_eq!(answer.problem(422, "invalid_request"), [pointer], "{body}");
    }
    house.post("/api/v1/submitters/nobody/nonces", "{}").await.problem(404, "unknown_submitter");
    assert_eq!(house.stored().await, 0);
    lent(&house, "a").await;
    let ours = treasury().evm_address().unwrap();
    for raw in [
        "0x".to_owned(),
        "0x1".to_owned(),
        signed_by(&fixtures::submitter(1), 0, "another's"),
        signed_by(&treasury(), 1, "another nonce"),
        signed_by(&"eip155:1:0x1111111111111111111111111111111111111111".parse().unwrap(), 0, "another chain"),
        signed_by(&treasury(), 0, &format!("authorizes {ours}")),
    ] {
        let answer =
            house.post(&format!("{NONCES}/0/submit"), &json!({"lockOwner": "me", "raw": raw}).to_string()).await;
        assert_eq!(answer.problem(422, "invalid_request"), ["/raw"], "{raw}");
    }
    let never = json!({"lockOwner": "me", "raw": signed_by(&treasury(), 7, "x")}).to_string();
    house.post(&format!("{NONCES}/7/submit"), &never).await.problem(409, "reservation_lost");
    for nonce in ["x", "-1", "18446744073709551615"] {
        let answer = house.post(&format!("{NONCES}/{nonce}/release"), r#"{"lockOwner":"me"}"#).await;
        assert_eq!(answer.problem(422, "invalid_request"), ["/nonce"]);
    }
    assert!(fixtures::view(&house.store, &treasury()).await.lane.commands.is_empty());
}

#[tokio::test]
async fn nothing_is_lent_by_a_submitter_in_protect() {
    let house = house().await;
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        let protection = Protection { code: ProtectCode::ExternalNonce, detail: NodeText::new("a stranger") };
        commit.protect(&cursor, protection).unwrap();
    })
    .await;
    house.post(NONCES, "{}").await.problem(409, "submitter_protected");
}

/// To whom a nonce is lent is shown to nobody else.
#[tokio::test]
async fn the_owner_of_a_loan_is_not_shown() {
    let house = house().await;
    let answer = ask(&house, NONCES, json!({"requestId": "a", "lockOwner": "s3cret"})).await;
    let id = answer.json()["txId"].as_str().unwrap().to_owned();
    for target in
        ["/api/v1/submitters/treasury?expand=slots,nonces,lease", &format!("/api/v1/tx/{id}?expand=attempts,events")]
    {
        let answer = house.get(target).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text.contains("s3cret"), "{}", answer.text);
    }
    let slots = house.get("/api/v1/submitters/treasury?expand=slots").await.json()["slots"].clone();
    let reservation = json!({"status": "reserved", "lockedUntil": "2026-01-01T00:01:00Z"});
    assert_eq!((&slots[0]["kind"], &slots[0]["reservation"]), (&"reservation".into(), &reservation));
}

/// A server, and somebody who does what lanes do.
async fn serve(house: &House) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    let house = house.on(OneChain::default());
    beside(async move {
        loop {
            house.bell.listened.notified().await;
            work(&house).await;
        }
    });
    client
}

fn raw(nonce: u64, what: &str) -> Vec<u8> {
    signed_by(&treasury(), nonce, what).parse::<Bytes>().unwrap().to_vec()
}

async fn is_back(house: &House, tx_id: &str) {
    let id: TxId = tx_id.parse().unwrap();
    let came_back = async {
        while !fixtures::view(&house.store, &treasury())
            .await
            .lane
            .reservations
            .iter()
            .any(|reservation| matches!(reservation.status, gapless_domain::ReservationStatus::Recyclable))
        {
            tokio::task::yield_now().await;
        }
    };
    soon("the release", came_back).await;
    assert!(house.store.attempts(id).await.unwrap().is_empty());
}

/// proves N18
#[tokio::test]
async fn with_a_nonce_what_was_signed_is_handed_in_once() {
    let house = house().await;
    let client = serve(&house).await;
    let options = NonceOptions::default();
    let work = |nonce: gapless_wire::NonceContext| async move {
        assert_eq!((nonce.nonce(), nonce.submitter()), (0, treasury().as_str()));
        assert_eq!(nonce.locked_until(), "2026-01-01T00:01:00Z");
        Ok::<_, String>(raw(nonce.nonce(), "mine"))
    };
    let given = soon("the hand-in", client.with_nonce("treasury", &options, work)).await.unwrap();
    assert_eq!(given.state, CommandState::Done);
    let view = client.tx(&given.tx_id, &TxQuery::default()).await.unwrap();
    assert_eq!((view.state, view.hash, view.payload), (TxStateName::Allocated, given.hash, None));

    // Handed in by the closure itself, and then once more by its return: it is one transaction.
    let work = |nonce: gapless_wire::NonceContext| async move {
        let bytes = raw(nonce.nonce(), "by itself");
        nonce.submit(&bytes).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(bytes)
    };
    let given = soon("the hand-in", client.with_nonce("treasury", &options, work)).await.unwrap();
    assert_eq!(house.store.attempts(given.tx_id.parse().unwrap()).await.unwrap().len(), 1);
    let work = |nonce: gapless_wire::NonceContext| async move {
        nonce.submit(&raw(nonce.nonce(), "and then")).await.map_err(|error| error.to_string())?;
        Err::<Vec<u8>, _>("something else".to_owned())
    };
    match soon("the failure", client.with_nonce("treasury", &options, work)).await.unwrap_err() {
        WithNonceError::Work { error, nonce: 2, fate: NonceFate::Used(_) } => assert_eq!(error, "something else"),
        other => panic!("{other:?}"),
    }
}

/// proves N18
#[tokio::test]
async fn with_a_nonce_that_is_not_used_it_comes_back_however_that_came() {
    for way in ["fails", "panics", "is dropped", "signs nonsense"] {
        let house = house().await;
        let client = serve(&house).await;
        let options = NonceOptions::default();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = move |nonce: gapless_wire::NonceContext| async move {
            tell.send(nonce.tx_id().to_owned()).unwrap();
            match way {
                "fails" => Err("no key".to_owned()),
                "panics" => panic!("a bug of the caller's"),
                "signs nonsense" => Ok(vec![1, 2, 3]),
                _ => std::future::pending().await,
            }
        };
        let running = {
            let client = client.clone();
            beside(async move { client.with_nonce("treasury", &options, work).await })
        };
        let tx_id = soon("the loan", told).await.unwrap();
        if way == "is dropped" {
            running.abort();
        }
        let ended = soon("the end", running).await;
        match (way, ended) {
            ("fails", Ok(Err(WithNonceError::Work { fate: NonceFate::Released, .. }))) => {}
            ("signs nonsense", Ok(Err(WithNonceError::Refused(error)))) => {
                assert_eq!(error.problem().unwrap().known_code(), Some(ProblemCode::InvalidRequest));
            }
            ("panics" | "is dropped", Err(_)) => {}
            (_, other) => panic!("{way}: {other:?}"),
        }
        is_back(&house, &tx_id).await;
    }
}

/// Takes one call, says which it was, and answers; without an answer it hangs up.
async fn take_call(listener: &TcpListener, answer: Option<&str>) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut got = Vec::new();
    let is_whole = |got: &[u8]| {
        let text = String::from_utf8_lossy(got).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length =
            head.split_once("content-length: ").map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
        body.len() >= length
    };
    while !is_whole(&got) {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the call ended before its body");
        got.extend_from_slice(&part[..read]);
    }
    if let Some(answer) = answer {
        let head = "HTTP/1.1 200 Well\r\nConnection: close\r\nContent-Type: application/json\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{answer}", answer.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    String::from_utf8_lossy(&got).lines().next().unwrap().to_owned()
}

/// Whoever does not know whether a transaction is on its way keeps its nonce, and is told so.
///
/// proves N18
#[tokio::test]
async fn with_a_nonce_whose_hand_in_has_no_answer_nothing_is_released() {
    for fails in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let running = {
            let client = client.clone();
            let work = move |nonce: gapless_wire::NonceContext| async move {
                let bytes = raw(nonce.nonce(), "mine");
                match fails {
                    true => nonce.submit(&bytes).await.map(|_| Vec::new()).map_err(|error| error.to_string()),
                    false => Ok::<_, String>(bytes),
                }
            };
            beside(async move {
                let ended = client.with_nonce("treasury", &NonceOptions::default(), work).await;
                let after = client.healthz().await;
                (ended, after)
            })
        };
        let loan = json!({"txId": "t", "submitter": "s", "requestId": "r", "lockOwner": "me", "nonce": 4,
            "lockedUntil": "2026-01-01T00:00:00Z"});
        let reserve = soon("the request", take_call(&listener, Some(&loan.to_string()))).await;
        assert!(reserve.starts_with("POST /api/v1/submitters/treasury/nonces?wait=30000ms "), "{reserve}");
        let submit = soon("the hand-in", take_call(&listener, None)).await;
        assert!(submit.starts_with("POST /api/v1/submitters/s/nonces/4/submit "), "{submit}");
        let next = soon("the next call", take_call(&listener, Some(r#"{"status":"ok"}"#))).await;
        assert!(next.starts_with("GET /healthz "), "nobody gives the nonce back: {next}");
        match soon("the end", running).await.unwrap().0 {
            Err(WithNonceError::Unknown { nonce: 4, lock_owner, source: Some(_), .. }) if !fails => {
                assert!(LockOwner::new(&lock_owner).is_some());
            }
            Err(WithNonceError::Work { fate: NonceFate::Unknown, nonce: 4, .. }) if fails => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn who_gets_no_nonce_in_time_is_taken_out_of_the_line() {
    let house = house().await;
    house.time.all_over();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    let work = |_| async { Ok::<_, String>(Vec::new()) };
    let ended = soon("the end", client.with_nonce("treasury", &NonceOptions::default(), work)).await;
    let Err(WithNonceError::NotBound { tx_id }) = ended else { panic!("{ended:?}") };
    let view = client.tx(&tx_id, &TxQuery::default()).await.unwrap();
    assert_eq!(view.state, TxStateName::Canceled);
}

#[tokio::test]
async fn what_is_lent_waits_in_line_like_everything_else() {
    let house = house().await;
    house.accept("before").await;
    let body = json!({"requestId": "a", "lockOwner": "me"}).to_string();
    let mut waiting = Box::pin(house.post(NONCES, &body));
    tokio::select! {
        answer = &mut waiting => panic!("{answer:?}"),
        () = house.bell.listened.notified() => {}
    }
    let first = fixtures::bind_next(&house.store, &treasury()).await;
    assert_eq!(first.intent.request_id().as_str(), "before");
    house.bell.ring(&treasury());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    lend(&house.store, &treasury()).await;
    house.bell.ring(&treasury());
    assert_eq!(soon("the loan", waiting).await.json()["nonce"], 1);
    house.post("/api/v1/tx", &request("a")).await.problem(409, "request_id_conflict");
}

/// Whoever follows `Retry-After` must not leave a loan behind each time.
#[tokio::test]
async fn what_gets_429_is_not_in_line() {
    let house = house_limited(ApiLimits { waiters_max: 0, ..ApiLimits::default() }).await;
    for _ in 0..3 {
        house.post(NONCES, "{}").await.problem(429, "too_many_waiters");
    }
    assert_eq!(house.stored().await, 0, "loans that nobody knows of");
}

/// A call that failed for want of a place is not executed later.
#[tokio::test]
async fn a_hand_in_that_gets_429_is_not_written_down() {
    let house = house().await;
    lent(&house, "a").await;
    let full = House {
        router: gapless_api::router(gapless_api::App {
            limits: ApiLimits { waiters_max: 0, ..ApiLimits::default() },
            ..house.app.clone()
        }),
        ..house.on(OneChain::default())
    };
    let body = json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, "pay")}).to_string();
    full.post(&format!("{NONCES}/0/submit"), &body).await.problem(429, "too_many_waiters");
    full.post("/api/v1/submitters/treasury/pause?wait=1s", "").await.problem(429, "too_many_waiters");
    let commands = fixtures::view(&house.store, &treasury()).await.lane.commands;
    assert!(commands.is_empty(), "{:?}", commands.iter().map(|command| command.kind.as_str()).collect::<Vec<_>>());
}

/// Confirms what was handed in, and closes its nonce.
async fn settle(house: &House, tx_id: &str, next: u64) {
    fixtures::confirm(&house.store, &treasury(), tx_id.parse().unwrap()).await;
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.close_below(&cursor, fixtures::nonce(next)).unwrap();
    })
    .await;
}

/// Blocks may be quicker than a caller who asks again, and others may come in between; taken is taken.
///
/// proves N18
#[tokio::test]
async fn the_same_bytes_are_the_same_on_a_busy_lane_too() {
    let house = house().await;
    let loan = lent(&house, "a").await;
    let submit = format!("{NONCES}/0/submit");
    let body = json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, "pay")});
    let taken = ask(&house, &submit, body.clone()).await;
    assert_eq!(taken.status, 200);
    for number in 0..200 {
        house.accept(&format!("behind {number}")).await;
    }
    settle(&house, loan["txId"].as_str().unwrap(), 1).await;
    let again = house.post(&submit, &body.to_string()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, taken.json()));
    let thief = json!({"lockOwner": "thief", "raw": body["raw"]});
    house.post(&submit, &thief.to_string()).await.problem(409, "reservation_lost");
}

/// What was written down may have been done before the next call was refused.
///
/// proves N18
#[tokio::test]
async fn with_a_nonce_a_refusal_after_a_hand_in_that_was_written_down_proves_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let running = beside(async move {
        let work = |nonce: gapless_wire::NonceContext| async move { Ok::<_, String>(raw(nonce.nonce(), "pay")) };
        client.with_nonce("treasury", &NonceOptions::default(), work).await
    });
    let loan = json!({"txId": "t", "submitter": "s", "requestId": "r", "lockOwner": "me", "nonce": 4,
        "lockedUntil": "2026-01-01T00:00:00Z"});
    soon("the request", take_call(&listener, Some(&loan.to_string()))).await;
    let open = json!({"txId": "t", "hash": "0x00", "state": "open", "commandId": "1"});
    soon("the hand-in", take_call(&listener, Some(&open.to_string()))).await;
    let lost = json!({"type": "urn:gapless:problem:reservation_lost", "title": "lost", "status": 409,
        "code": "reservation_lost"})
    .to_string();
    let (mut stream, _) = soon("the second hand-in", listener.accept()).await.unwrap();
    let mut part = [0; 4096];
    let _ = stream.read(&mut part).await.unwrap();
    let head = "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Type: application/problem+json\r\n";
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{lost}", lost.len()).as_bytes()).await.unwrap();
    drop(stream);
    match soon("the end", running).await.unwrap() {
        Err(WithNonceError::Unknown { .. }) => {}
        other => panic!("whether it was taken is not known, but it says {other:?}"),
    }
}

/// The lane executes the first call between two reads of the second one.
///
/// proves N18
#[tokio::test]
async fn the_same_bytes_at_once_are_the_same() {
    let store = Arc::new(Unplugged::new(model()));
    let house = house_with(Arc::clone(&store) as Arc<dyn Store>, ApiLimits::default()).await;
    lent(&house, "a").await;
    let target = format!("{NONCES}/0/submit");
    let body = json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, "pay")}).to_string();
    let mut first = Box::pin(house.post(&target, &body));
    while fixtures::view(&house.store, &treasury()).await.lane.commands.is_empty() {
        assert!(futures_util::poll!(&mut first).is_pending());
    }
    store.slots_stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut second = Box::pin(house.post(&target, &body));
    tokio::select! {
        answer = &mut second => panic!("{answer:?}"),
        () = store.stopped.notified() => {}
    }
    execute(&house.store, &treasury()).await;
    let ringing = async {
        loop {
            house.bell.ring(&treasury());
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::select! {
        first = soon("the first", first) => first,
        () = ringing => unreachable!(),
    };
    assert_eq!(first.status, 200, "{}", first.text);
    store.go_on.notify_one();
    let second = soon("the second", second).await;
    assert_eq!((second.status.as_u16(), second.json()), (200, first.json()));
}

/// Nobody would be there to use the nonce.
#[tokio::test]
async fn who_gives_up_in_line_is_taken_out_of_it() {
    let house = house().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    let running = beside(async move {
        let work = |_: gapless_wire::NonceContext| async { Ok::<_, String>(Vec::new()) };
        client
            .with_nonce("treasury", &NonceOptions::default(), work)
            .await
            .map(|_| ())
            .map_err(|error| error.to_string())
    });
    soon("the wait", house.bell.listened.notified()).await;
    running.abort();
    let _ = running.await;
    // Whoever withdraws waits no longer than for an answer.
    house.time.all_over();
    let withdrawn = async {
        while !fixtures::view(&house.store, &treasury()).await.queue.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("the withdrawal of a request that nobody waits for", withdrawn).await;
}

/// A transaction that waits for ever holds up everything behind it.
///
/// proves N18
#[tokio::test]
async fn what_no_node_would_take_or_nobody_can_pay_is_refused() {
    let house = house().await;
    lent(&house, "a").await;
    let submit = format!("{NONCES}/0/submit");
    let body = |what: &str| json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, what)});
    let most_gas = house.app.intent_limits.gas_limit;
    for what in
        ["pays 7 8 21000".to_owned(), format!("pays 7 7 {}", most_gas + 1), "pays 1000000000000000 0 1001".to_owned()]
    {
        let answer = house.post(&submit, &body(&what).to_string()).await;
        assert_eq!(answer.problem(422, "invalid_request"), ["/raw"], "{what}");
    }
    assert!(fixtures::view(&house.store, &treasury()).await.lane.commands.is_empty());
    let taken = ask(&house, &submit, body("pays 1000000000000000 0 1000")).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    // By now it has cost what it may; the same bytes are still the same.
    let mut chain = OneChain::default();
    chain.account.as_mut().unwrap().balance = gapless_domain::Amount::ZERO;
    let again = house.on(chain).post(&submit, &body("pays 1000000000000000 0 1000").to_string()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, taken.json()));
}
