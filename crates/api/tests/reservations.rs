//! Tests of reservations. The test plays the lane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::sync::Arc;

use gapless_api::ApiLimits;
use gapless_domain::{Bytes, CommandReport, CommandResult, NodeText, ProtectCode, Protection, TxId};
use gapless_store::FaultyStore;
use gapless_store::conformance::fixtures::{self, soon};
use serde_json::json;
use support::reservations::{NONCES, ask, execute, lend, lent};
use support::{House, OneChain, StoreOutage, house, house_limited, house_with, model, request, signed_by, treasury};

/// proves N18
#[tokio::test]
async fn reserved_nonce_is_submitted_once_for_same_bytes() {
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

    // Blocks may be faster than a caller who repeats a call.
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
async fn released_or_expired_reservation_is_lost() {
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

/// The lane decides, even if the reservation looked valid before.
#[tokio::test]
async fn submit_refused_by_lane_is_reservation_lost() {
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
            commit.command_done(command, CommandResult::Refused(CommandReport::new("too late")));
        }
    })
    .await;
    house.bell.ring(&lane);
    let answer = soon("the refusal", waiting).await;
    answer.problem(409, "reservation_lost");
    assert_eq!(answer.json()["detail"], "too late");
}

#[tokio::test]
async fn submit_without_timely_result_answers_202() {
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
async fn malformed_reservation_names_its_place() {
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
async fn protected_submitter_reserves_no_nonce() {
    let house = house().await;
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        let protection = Protection { code: ProtectCode::ExternalNonce, detail: NodeText::new("a stranger") };
        commit.protect(&cursor, protection).unwrap();
    })
    .await;
    house.post(NONCES, "{}").await.problem(409, "submitter_protected");
}

/// The lock owner is shown to no other caller.
#[tokio::test]
async fn lock_owner_is_never_shown() {
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

#[tokio::test]
async fn reservation_waits_in_queue_order() {
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

/// A caller who follows `Retry-After` must not leave a reservation behind each time.
#[tokio::test]
async fn reservation_refused_with_429_is_not_queued() {
    let house = house_limited(ApiLimits { waiters_max: 0, ..ApiLimits::default() }).await;
    for _ in 0..3 {
        house.post(NONCES, "{}").await.problem(429, "too_many_waiters");
    }
    assert_eq!(house.stored().await, 0, "loans that nobody knows of");
}

/// A call that was refused by the limit is not executed later.
#[tokio::test]
async fn submit_refused_with_429_writes_no_command() {
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

/// Confirms the submitted transaction and closes its nonce.
async fn settle(house: &House, tx_id: &str, next: u64) {
    fixtures::confirm(&house.store, &treasury(), tx_id.parse().unwrap()).await;
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.close_below(&cursor, fixtures::nonce(next)).unwrap();
    })
    .await;
}

/// Blocks may be faster than a caller who repeats a call, and other calls may come in between.
///
/// proves N18
#[tokio::test]
async fn repeated_submit_is_idempotent_on_busy_lane() {
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

/// The lane executes the first call between two reads of the second one.
///
/// proves N18
#[tokio::test]
async fn concurrent_submits_of_same_bytes_agree() {
    let store = Arc::new(FaultyStore::new(model(), StoreOutage::default()));
    let house = house_with(store.clone(), ApiLimits::default()).await;
    lent(&house, "a").await;
    let target = format!("{NONCES}/0/submit");
    let body = json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, "pay")}).to_string();
    let mut first = Box::pin(house.post(&target, &body));
    while fixtures::view(&house.store, &treasury()).await.lane.commands.is_empty() {
        assert!(futures_util::poll!(&mut first).is_pending());
    }
    store.faults().hold_slots();
    let mut second = Box::pin(house.post(&target, &body));
    tokio::select! {
        answer = &mut second => panic!("{answer:?}"),
        () = store.faults().slots_held() => {}
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
    store.faults().release_slots();
    let second = soon("the second", second).await;
    assert_eq!((second.status.as_u16(), second.json()), (200, first.json()));
}

/// A transaction that waits for ever would hold up everything behind it.
///
/// proves N18
#[tokio::test]
async fn unsendable_or_unpayable_submit_is_refused() {
    let house = house().await;
    lent(&house, "a").await;
    let submit = format!("{NONCES}/0/submit");
    let body = |what: &str| json!({"lockOwner": "me", "raw": signed_by(&treasury(), 0, what)});
    let most_gas = house.app.intent_limits.action.evm.gas_limit;
    for what in
        ["pays 7 8 21000".to_owned(), format!("pays 7 7 {}", most_gas + 1), "pays 1000000000000000 0 1001".to_owned()]
    {
        let answer = house.post(&submit, &body(&what).to_string()).await;
        assert_eq!(answer.problem(422, "invalid_request"), ["/raw"], "{what}");
    }
    assert!(fixtures::view(&house.store, &treasury()).await.lane.commands.is_empty());
    let taken = ask(&house, &submit, body("pays 1000000000000000 0 1000")).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    // The balance has fallen by the cost; the same bytes still get the same answer.
    let mut chain = OneChain::default();
    chain.account.as_mut().unwrap().balance = gapless_domain::Amount::ZERO;
    let again = house.on(chain).post(&submit, &body("pays 1000000000000000 0 1000").to_string()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, taken.json()));
}
