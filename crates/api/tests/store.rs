//! The declarations of an operator about the database, and a moved-out intent over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::time::Duration;

use gapless_store::conformance::fixtures;
use gapless_store::{NewSubmitter, RetentionKind};
use serde_json::{Value, json};
use support::{House, house, request, treasury};

const LOST: &str = "/api/v1/store/declare-lost";
const RECONCILED: &str = "/api/v1/store/declare-reconciled";

/// Hands in a request of a submitter that is registered for the first time.
async fn first_request(house: &House, number: u64) -> support::Answer {
    let id = fixtures::submitter(number);
    house.store.register_submitters(&[NewSubmitter { id: id.clone(), alias: None }]).await.unwrap();
    house.post("/api/v1/tx", &request("first").replace(treasury().as_str(), id.as_str())).await
}

#[tokio::test]
async fn new_submitter_works_once_losses_are_declared_reconciled() {
    let house = house().await;
    assert_eq!(first_request(&house, 50).await.status, 202);
    let lost = house.post(LOST, r#"{"reason":" restored from the backup of Monday "}"#).await;
    assert_eq!(lost.status, 200, "{}", lost.text);
    assert_eq!(lost.json(), json!({"declared": "lost", "reason": "restored from the backup of Monday"}));
    let old = house.post("/api/v1/tx", &request("after the loss")).await;
    old.problem(409, "submitter_protected");
    first_request(&house, 51).await.problem(409, "submitter_protected");

    let reconciled = house.post(RECONCILED, r#"{"reason":"looked for"}"#).await;
    assert_eq!(reconciled.status, 200, "{}", reconciled.text);
    assert_eq!(reconciled.json(), json!({"declared": "reconciled", "reason": "looked for"}));
    assert_eq!(first_request(&house, 52).await.status, 202);
    house.post("/api/v1/tx", &request("before its resync")).await.problem(409, "submitter_protected");
    let submitter = house.get("/api/v1/submitters/treasury").await.json();
    assert_eq!((&submitter["state"], &submitter["protect"]["code"]), (&json!("PROTECT"), &json!("store_regressed")));

    let log = house.get("/api/v1/audit?subject=store").await.json();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let told: Vec<_> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (text(entry, "actor"), text(entry, "action"), text(entry, "detail")))
        .collect();
    let entry = |action: &str, detail: &str| ("api".to_owned(), action.to_owned(), detail.to_owned());
    let expected =
        [entry("declare_reconciled", "looked for"), entry("declare_lost", "restored from the backup of Monday")];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn declaration_without_a_reason_is_refused_and_changes_nothing() {
    let house = house().await;
    for target in [LOST, RECONCILED] {
        for body in
            [json!({"reason": "  "}), json!({"reason": "x".repeat(1001)}), json!({"reason": "a\u{0}"}), json!({})]
        {
            let answer = house.post(target, &body.to_string()).await;
            assert_eq!(answer.problem(422, "invalid_request"), ["/reason"], "{body}");
        }
        house.post(target, "").await.problem(400, "malformed_json");
        house.get(target).await.problem(405, "method_not_allowed");
    }
    assert_eq!(house.get("/api/v1/audit?subject=store").await.json()["items"], json!([]));
    assert_eq!(house.post("/api/v1/tx", &request("a")).await.status, 202);
}

/// proves S11
#[tokio::test]
async fn moved_out_intent_answers_without_attempts_and_events() {
    let clock = std::sync::Arc::new(gapless_store::ManualClock::starting_at(gapless_domain::Timestamp::EPOCH));
    let model = gapless_store::Model::new(gapless_domain::LeaseTerms::default(), clock.clone());
    let store = std::sync::Arc::new(model.node(gapless_domain::OwnerId::new("a", 1)));
    let house = support::house_with(store, gapless_api::ApiLimits::default()).await;
    let id = house.accept("a").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    fixtures::confirm(&house.store, &treasury(), id).await;
    fixtures::close_all(&house.store, &treasury()).await;
    clock.advance(Duration::from_secs(1));
    let target = format!("/api/v1/tx/{id}?expand=attempts,events");
    let plain = async || {
        let mut view = house.get(&format!("/api/v1/tx/{id}")).await.json();
        // How often it was bumped, and what that cost, is known by its attempts.
        let receipt = view["receipt"].as_object_mut().unwrap();
        let bumps = (receipt.remove("bumps"), receipt.remove("bumpCost"));
        (view, bumps.0.is_some() && bumps.1.is_some())
    };
    let (shown, true) = plain().await else { panic!("without bumps") };
    let before = house.get(&target).await.json();
    for kind in [RetentionKind::Intents, RetentionKind::Attempts, RetentionKind::Events] {
        assert_eq!(fixtures::retain(&house.store, kind, 10).await, 1, "{kind:?}");
    }
    let after = house.get(&target).await.json();
    let lengths = |view: &Value| ["attempts", "events"].map(|part| view[part].as_array().unwrap().len());
    assert_eq!((lengths(&before), lengths(&after)), ([1, 4], [0, 0]));
    assert_eq!(plain().await, (shown, false));
    let again = house.post("/api/v1/tx", &request("a")).await;
    assert_eq!((again.status.as_u16(), &again.json()["txId"]), (200, &json!(id.to_string())));
    let by_request = house.get("/api/v1/tx/by-request?submitter=treasury&requestId=a").await.json();
    assert_eq!(by_request["txId"], json!(id.to_string()));
}
