//! Tests of the views: what callers see, and what stays hidden.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_api::ApiLimits;
use gapless_domain::{
    AttemptKind, Bytes, CancelReason, Execution, FailReason, IntentRecord, LeaseTerms, NodeText, OwnerId, ProtectCode,
    Protection, Timestamp, Transition, TxId,
};
use gapless_store::conformance::fixtures;
use gapless_store::{FaultyStore, ManualClock, Model, RetentionKind};
use gapless_wire::TxView;
use serde_json::Value;
use support::{Answer, House, StoreOutage, house, house_with, model, request, treasury};

async fn tx(house: &House, id: TxId) -> Value {
    let answer = house.get(&format!("/api/v1/tx/{id}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

async fn mine(house: &House, id: TxId, execution: Execution) -> IntentRecord {
    let hash = house.store.attempts(id).await.unwrap()[0].hash;
    let mut inclusion = fixtures::inclusion(hash, AttemptKind::Original, 118);
    inclusion.execution = execution;
    fixtures::change(&house.store, &treasury(), id, Transition::Mine(inclusion)).await
}

#[tokio::test]
async fn intent_view_covers_every_state() {
    let house = house().await;
    let id = house.accept("a").await;
    let queued = tx(&house, id).await;
    assert_eq!(queued["state"], "QUEUED");
    assert_eq!(queued["payload"]["value"], "1");
    assert_eq!(queued["version"], 1);
    assert_eq!(queued["createdAt"], "2026-01-01T00:00:00Z");
    assert!(queued.get("subState").is_none() && queued.get("hash").is_none());

    fixtures::bind_next(&house.store, &treasury()).await;
    let bound = tx(&house, id).await;
    let hash = house.store.attempts(id).await.unwrap()[0].hash.to_string();
    assert_eq!((&bound["state"], &bound["subState"]), (&"ALLOCATED".into(), &"PENDING".into()));
    assert_eq!(bound["hash"], hash.as_str());

    let reverted = Execution::Reverted { reason: Some(NodeText::new("no funds")), data: Bytes::from_static(&[1, 2]) };
    mine(&house, id, reverted).await;
    let mined = tx(&house, id).await;
    assert_eq!(mined["subState"], "MINED");
    assert_eq!(mined["confirmations"], 3);
    assert_eq!(mined["receipt"]["blockNumber"], 118);
    assert_eq!(mined["receipt"]["effectiveGasPrice"], "7");
    assert_eq!((&mined["receipt"]["status"], &mined["receipt"]["gasUsed"]), (&"reverted".into(), &21_000.into()));
    assert_eq!(mined["receipt"]["revert"], serde_json::json!({"reason": "no funds", "data": "0x0102"}));

    fixtures::change(&house.store, &treasury(), id, Transition::Settle(None)).await;
    let failed = tx(&house, id).await;
    assert_eq!(failed["state"], "FAILED_FINAL");
    assert_eq!(failed["reason"], serde_json::json!({"code": "reverted", "text": "no funds"}));
    let by_request = house.get("/api/v1/tx/by-request?submitter=treasury&requestId=a").await;
    assert_eq!(by_request.json(), failed);

    let id = house.accept("b").await;
    let expired = Transition::FailInQueue(FailReason::Expired, NodeText::new("too late"));
    fixtures::change(&house.store, &treasury(), id, expired).await;
    assert_eq!(tx(&house, id).await["reason"]["code"], "expired");
    let id = house.accept("c").await;
    fixtures::change(&house.store, &treasury(), id, Transition::CancelInQueue(CancelReason::User)).await;
    assert_eq!(tx(&house, id).await["reason"], serde_json::json!({"code": "user"}));
}

/// Every key of a JSON document, at any depth.
fn keys(json: &Value, into: &mut Vec<String>) {
    match json {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            into.push(key.to_lowercase());
            keys(value, into);
        }),
        Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

/// proves A03
#[tokio::test]
async fn default_answer_hides_nonce_and_owner() {
    let house = house().await;
    let mut answers = vec![house.post("/api/v1/tx", &request("a")).await];
    let id: TxId = answers[0].json()["txId"].as_str().unwrap().parse().unwrap();
    let targets = [
        format!("/api/v1/tx/{id}"),
        "/api/v1/tx/by-request?submitter=treasury&requestId=a".to_owned(),
        "/api/v1/tx".to_owned(),
        "/api/v1/submitters".to_owned(),
        "/api/v1/submitters/treasury".to_owned(),
    ];
    let lane = treasury();
    let steps: [&str; 4] = ["queued", "bound", "mined", "final"];
    for step in steps {
        match step {
            "bound" => drop(fixtures::bind_next(&house.store, &lane).await),
            "mined" => drop(mine(&house, id, Execution::Success).await),
            "final" => drop(fixtures::change(&house.store, &lane, id, Transition::Settle(None)).await),
            _ => {}
        }
        for target in &targets {
            answers.push(house.get(target).await);
        }
        answers.push(house.post("/api/v1/tx", &request("a")).await);
        answers.push(house.post("/api/v1/tx/batch", &format!(r#"{{"transactions":[{}]}}"#, request("a"))).await);
        if matches!(step, "bound" | "mined") {
            answers.push(house.post(&format!("/api/v1/tx/{id}/cancel"), "").await);
            answers.push(house.post("/api/v1/submitters/treasury/cancel-pending", "").await);
        }
    }
    assert_eq!(tx(&house, id).await["state"], "CONFIRMED");
    for answer in answers {
        assert!(answer.status.is_success(), "{}", answer.text);
        let mut found = Vec::new();
        keys(&answer.json(), &mut found);
        assert!(!found.iter().any(|key| key.contains("nonce") || key == "lease" || key == "owner"), "{}", answer.text);
        assert!(!answer.text.contains(house.store.owner().as_str()), "{}", answer.text);
    }
    let expanded = house.get(&format!("/api/v1/tx/{id}?expand=attempts")).await.json();
    assert_eq!(expanded["nonce"], 0);
    assert_eq!(expanded["attempts"][0]["kind"], "original");
    let submitter = house.get("/api/v1/submitters/treasury?expand=lease,nonces").await.json();
    assert_eq!(submitter["nonces"]["next"], 1);
    assert_eq!(submitter["lease"]["owner"], house.store.owner().as_str());
}

#[tokio::test]
async fn events_are_shown_on_request() {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_767_225_600_000_000)));
    let model = Model::new(LeaseTerms::default(), Arc::clone(&clock) as _);
    let house = house_with(Arc::new(model.node(OwnerId::new("test", 1))), ApiLimits::default()).await;
    let id = house.accept("a").await;
    clock.advance(Duration::from_secs(1));
    house.accept("b").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    mine(&house, id, Execution::Success).await;
    fixtures::change(&house.store, &treasury(), id, Transition::Settle(None)).await;
    let at = "2026-01-01T00:00:01Z";
    let expected = serde_json::json!([
        {"seq": 1, "event": "accepted", "state": "QUEUED", "at": "2026-01-01T00:00:00Z"},
        {"seq": 2, "event": "bind", "state": "ALLOCATED", "subState": "PENDING", "at": at},
        {"seq": 3, "event": "mine", "state": "TRACKING", "subState": "MINED", "at": at,
            "confirmations": {"newFork": true, "blocks": [support::block(118)]}},
        {"seq": 4, "event": "settle", "state": "CONFIRMED", "at": at},
    ]);
    let plain = tx(&house, id).await;
    assert!(plain.get("events").is_none());
    let target = format!("/api/v1/tx/{id}");
    for moved_out in [false, true] {
        if moved_out {
            clock.advance(Duration::from_secs(1));
            assert_eq!(house.store.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
        }
        for target in [
            format!("{target}?expand=events"),
            format!("{target}?expand=events,events"),
            "/api/v1/tx/by-request?submitter=treasury&requestId=a&expand=events".to_owned(),
        ] {
            let mut expanded = house.get(&target).await.json();
            let events = expanded.as_object_mut().unwrap().remove("events");
            assert_eq!(events.as_ref(), Some(&expected), "{target}");
            assert_eq!(expanded, plain, "nothing else was asked for: {target}");
        }
        let both = house.get(&format!("{target}?expand=attempts,events")).await.json();
        assert_eq!((&both["events"], &both["nonce"]), (&expected, &0.into()));
        assert_eq!(both["attempts"].as_array().unwrap().len(), 1);
    }
    let faults = house.get(&format!("{target}?expand=events,nonce")).await;
    assert_eq!(faults.problem(422, "invalid_request"), ["/expand"]);
}

/// The row is read before the events; later events must not contradict the row.
#[tokio::test]
async fn last_event_matches_shown_state() {
    let house = house().await;
    let id = house.accept("a").await;
    let before = fixtures::record(&house.store, id).await;
    fixtures::bind_next(&house.store, &treasury()).await;
    let events = house.store.events_of(id, 10).await.unwrap();
    assert_eq!(events.len(), 2);
    let view = TxView::whole(&before).with_events(&events);
    let shown: Vec<_> = view.events.unwrap().iter().map(|event| (event.seq, event.state)).collect();
    assert_eq!(shown, [(view.version, view.state)]);
}

#[tokio::test]
async fn events_are_shown_up_to_a_limit() {
    let house = house().await;
    let id = house.accept("a").await;
    let mut tx = fixtures::bind_next(&house.store, &treasury()).await;
    while tx.version <= 1000 {
        fixtures::change(&house.store, &treasury(), id, Transition::AwaitFunds).await;
        tx = fixtures::change(&house.store, &treasury(), id, Transition::Funded).await;
    }
    let view = house.get(&format!("/api/v1/tx/{id}?expand=events")).await.json();
    let shown: Vec<u64> =
        view["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(shown, (1..=1000).collect::<Vec<u64>>());
    assert_eq!(view["version"], 1002);
}

#[tokio::test]
async fn pages_cover_the_list_without_gap() {
    let house = house().await;
    for n in 0..7 {
        house.accept(&format!("order-{n}")).await;
    }
    let mut seen = Vec::new();
    let mut target = "/api/v1/tx?limit=3&submitter=treasury&state=QUEUED".to_owned();
    loop {
        let page = house.get(&target).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 3 && items.iter().all(|item| item.get("payload").is_none()));
        seen.extend(items.iter().map(|item| item["requestId"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(cursor) => target = format!("/api/v1/tx?limit=3&submitter=treasury&state=QUEUED&cursor={cursor}"),
            None => break,
        }
    }
    let expected: Vec<String> = (0..7).rev().map(|n| format!("order-{n}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(house.get("/api/v1/tx?state=CONFIRMED").await.json()["items"], serde_json::json!([]));
    let nobody = format!("/api/v1/tx?submitter={}", fixtures::submitter(5));
    assert_eq!(house.get(&nobody).await.json()["items"], serde_json::json!([]));
}

#[tokio::test]
async fn submitters_are_listed_in_pages() {
    let house = house().await;
    fixtures::register(&house.store, &fixtures::submitters(1..6)).await;
    let mut seen = Vec::new();
    let mut target = "/api/v1/submitters?limit=4".to_owned();
    loop {
        let page = house.get(&target).await.json();
        let items = page["items"].as_array().cloned().unwrap();
        seen.extend(items.iter().map(|item| item["submitter"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(cursor) => target = format!("/api/v1/submitters?limit=4&cursor={cursor}"),
            None => break,
        }
    }
    let mut expected: Vec<String> = fixtures::submitters(0..6).iter().map(ToString::to_string).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

/// proves A03
#[tokio::test]
async fn submitter_view_shows_lane_state() {
    let house = house().await;
    let lane = treasury();
    house.accept("a").await;
    house.accept("b").await;
    fixtures::bind_next(&house.store, &lane).await;
    let view = house.get(&format!("/api/v1/submitters/{lane}")).await.json();
    assert_eq!((&view["queued"], &view["open"]), (&1.into(), &1.into()));
    assert_eq!((&view["state"], &view["paused"]), (&"IN_FLIGHT".into(), &false.into()));
    assert_eq!((&view["alias"], &view["chain"]), (&"treasury".into(), &support::CHAIN.into()));
    assert_eq!((&view["balance"], &view["chainHead"]), (&"1000000000000000000".into(), &120.into()));

    let cursor = fixtures::view(&house.store, &lane).await.cursor;
    let protection =
        Protection { code: ProtectCode::ExternalNonce, detail: NodeText::new("nonce 4711 is somebody else's") };
    fixtures::commit_done(&house.store, &lane, |commit| {
        commit.protect(&cursor, protection.clone()).unwrap();
    })
    .await;
    let view = house.get("/api/v1/submitters/treasury").await.json();
    assert_eq!(view["state"], "PROTECT");
    let message = "the chain has more transactions of this account than the ledger explains";
    assert_eq!(view["protect"], serde_json::json!({"code": "external_nonce", "message": message}));
    let page = house.get("/api/v1/submitters?expand=lease").await;
    assert!(page.text.contains(message) && !page.text.contains("4711"), "{}", page.text);
    let asked = house.get("/api/v1/submitters/treasury?expand=nonces").await.json();
    assert_eq!(asked["protect"]["detail"], "nonce 4711 is somebody else's");
    let batch = house.post("/api/v1/tx/batch", &format!(r#"{{"transactions":[{}]}}"#, request("d"))).await;
    assert!(batch.text.contains("submitter_protected") && !batch.text.contains("4711"), "{}", batch.text);
    let refused = house.post("/api/v1/tx", &request("c")).await;
    refused.problem(409, "submitter_protected");
    assert_eq!(refused.json()["detail"], format!("external_nonce: {message}"));
    assert_eq!(house.post("/api/v1/tx", &request("a")).await.status, 200);
}

async fn every_answer(house: &House, id: TxId) -> Vec<Answer> {
    let mut answers = vec![
        house.post("/api/v1/tx", &request("b")).await,
        house.post("/api/v1/tx", &request("b").replace(treasury().as_str(), "treasury")).await,
        house.post("/api/v1/tx/batch", &format!(r#"{{"transactions":[{}]}}"#, request("b"))).await,
        house.post("/api/v1/submitters/treasury/pause", "").await,
        house.post("/api/v1/submitters/treasury/resync", "").await,
        house.post("/api/v1/submitters/treasury/cancel-pending", "").await,
        house.post("/api/v1/submitters/treasury/nonces", "{}").await,
        house.post("/api/v1/submitters/treasury/nonces/0/release", r#"{"lockOwner":"me"}"#).await,
        house.post(&format!("/api/v1/tx/{id}/cancel"), "").await,
        house.post(&format!("/api/v1/chains/{}/accept", support::CHAIN), r#"{"reason":"why"}"#).await,
        house.post("/api/v1/store/declare-lost", r#"{"reason":"why"}"#).await,
        house.post("/api/v1/store/declare-reconciled", r#"{"reason":"why"}"#).await,
    ];
    for target in [
        &format!("/api/v1/tx/{id}"),
        "/api/v1/tx/by-request?submitter=treasury&requestId=a",
        "/api/v1/tx",
        "/api/v1/submitters",
        "/api/v1/submitters/treasury",
        "/api/v1/commands/1",
        "/api/v1/audit",
        "/readyz",
    ] {
        answers.push(house.get(target).await);
    }
    answers
}

/// proves O01
#[tokio::test]
async fn unavailable_store_answers_503_and_loses_nothing() {
    let store = Arc::new(FaultyStore::new(model(), StoreOutage::default()));
    let limits = ApiLimits { alias_age: Duration::ZERO, ..ApiLimits::default() };
    let house = house_with(Arc::clone(&store) as Arc<_>, limits).await;
    let id = house.accept("a").await;
    store.faults().set_down(true);
    for answer in every_answer(&house, id).await {
        answer.problem(503, "store_unavailable");
        assert_eq!(answer.header("retry-after"), "1");
        assert!(!answer.text.contains("secret"), "{}", answer.text);
    }
    assert_eq!(house.get("/healthz").await.status, 200);
    store.faults().set_down(false);
    assert_eq!(house.get("/readyz").await.status, 200);
    assert_eq!(tx(&house, id).await["state"], "QUEUED");
    assert_eq!(house.post("/api/v1/tx", &request("a")).await.status, 200);
    assert_eq!(house.post("/api/v1/tx", &request("b")).await.status, 202);
}

#[tokio::test]
async fn health_and_metrics() {
    let house = house().await;
    assert_eq!(house.get("/healthz").await.json()["status"], "ok");
    assert_eq!(house.get("/readyz").await.status, 200);
    let metrics = house.get("/metrics").await;
    assert_eq!(
        (metrics.text.as_str(), metrics.header("content-type")),
        ("# nothing\n", "text/plain; version=0.0.4; charset=utf-8")
    );
    house.drain.begin();
    house.get("/readyz").await.problem(503, "shutting_down");
    assert_eq!(house.get("/healthz").await.status, 200);
}
