//! Tests of the views of a chain: confirmations, finality, endpoints, counts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_api::ApiLimits;
use gapless_domain::{
    AttemptKind, B256, BlockLink, BlockRef, Bytes, ConfirmationNotice, Execution, LeaseTerms, NodeText, OwnerId,
    ProtectCode, Protection, Timestamp, Transition, TxId,
};
use gapless_store::conformance::fixtures;
use gapless_store::{ManualClock, Model, RetentionKind};
use gapless_wire::TxView;
use serde_json::{Value, json};
use support::{House, OneChain, block, house, house_with, shown, treasury};

/// A block that is not on the fixtures' chain but builds on it.
fn other(number: u64) -> BlockLink {
    let block = BlockRef { number, hash: B256::repeat_byte(0xee) };
    BlockLink { block, parent_hash: fixtures::block(number - 1).hash }
}

async fn change(house: &House, id: TxId, transition: Transition) {
    fixtures::change(&house.store, &treasury(), id, transition).await;
}

async fn mine(house: &House, id: TxId, number: u64) {
    let hash = house.store.attempts(id).await.unwrap()[0].hash;
    change(house, id, Transition::Mine(fixtures::inclusion(hash, AttemptKind::Original, number))).await;
}

async fn revert(house: &House, id: TxId, number: u64) {
    let hash = house.store.attempts(id).await.unwrap()[0].hash;
    let mut inclusion = fixtures::inclusion(hash, AttemptKind::Original, number);
    let data = Bytes::from_static(&[8]);
    inclusion.execution = Execution::Reverted { reason: Some(NodeText::new("too poor")), data };
    change(house, id, Transition::Mine(inclusion)).await;
}

async fn bound(house: &House) -> TxId {
    let id = house.accept("a").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    id
}

/// The list of a consumer that follows the protocol from the first event.
fn followed(events: &Value) -> Value {
    let mut list = Vec::new();
    for event in events.as_array().unwrap() {
        let notice = &event["confirmations"];
        if event["event"] == "unmine" || notice["newFork"] == true {
            list.clear();
        }
        list.extend(notice["blocks"].as_array().cloned().unwrap_or_default());
    }
    Value::Array(list)
}

#[tokio::test]
async fn confirmations_equal_those_of_event_consumer() {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_767_225_600_000_000)));
    let model = Model::new(LeaseTerms::default(), Arc::clone(&clock) as _);
    let house = house_with(Arc::new(model.node(OwnerId::new("test", 1))), ApiLimits::default()).await;
    let id = bound(&house).await;
    let fork = ConfirmationNotice { new_fork: true, links: vec![fixtures::link(118), other(119)] };
    assert_list(&house, id, &json!([])).await;
    mine(&house, id, 118).await;
    assert_list(&house, id, &json!([block(118)])).await;
    for (step, expected) in [
        (Transition::Confirm(fixtures::notice(false, 119..=120)), json!([block(118), block(119), block(120)])),
        (Transition::Confirm(fork), json!([block(118), shown(other(119))])),
        (Transition::Unmine, json!([])),
    ] {
        change(&house, id, step).await;
        assert_list(&house, id, &expected).await;
    }
    mine(&house, id, 119).await;
    change(&house, id, Transition::Settle(Some(fixtures::notice(false, 120..=121)))).await;
    let whole = json!([block(119), block(120), block(121)]);
    assert_list(&house, id, &whole).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(house.store.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    assert_list(&house, id, &whole).await;
}

async fn assert_list(house: &House, id: TxId, expected: &Value) {
    let target = format!("/api/v1/tx/{id}");
    let plain = house.get(&target).await.json();
    assert!(plain.get("confirmationList").is_none() && plain.get("events").is_none(), "{plain}");
    for target in [
        format!("{target}?expand=confirmations"),
        "/api/v1/tx/by-request?submitter=treasury&requestId=a&expand=confirmations".to_owned(),
    ] {
        let mut expanded = house.get(&target).await.json();
        assert_eq!(expanded.as_object_mut().unwrap().remove("confirmationList").as_ref(), Some(expected));
        assert_eq!(expanded, plain, "nothing else was asked for");
    }
    let all = house.get(&format!("{target}?expand=attempts,confirmations,events")).await.json();
    assert_eq!((&all["confirmationList"], all["attempts"].is_array()), (expected, true));
    assert_eq!(&followed(&all["events"]), expected);
}

#[tokio::test]
async fn confirmation_is_its_own_event() {
    let house = house().await;
    let id = bound(&house).await;
    mine(&house, id, 118).await;
    change(&house, id, Transition::Confirm(fixtures::notice(false, 119..=120))).await;
    let view = house.get(&format!("/api/v1/tx/{id}?expand=events")).await.json();
    let last = json!({
        "seq": 4, "event": "confirm", "state": "TRACKING", "subState": "MINED", "at": "2026-01-01T00:00:00Z",
        "confirmations": {"newFork": false, "blocks": [block(119), block(120)]},
    });
    assert_eq!((&view["events"][3], &view["confirmations"]), (&last, &3.into()));
}

/// The row is read before the events; a later block is for the next read.
#[tokio::test]
async fn confirmations_match_shown_version() {
    let house = house().await;
    let id = bound(&house).await;
    mine(&house, id, 118).await;
    let before = fixtures::record(&house.store, id).await;
    change(&house, id, Transition::Confirm(fixtures::notice(false, 119..=119))).await;
    change(&house, id, Transition::Unmine).await;
    let events = house.store.events_of(id, 10).await.unwrap();
    let view = TxView::whole(&before).with_confirmations(&events);
    assert_eq!(json!(view.confirmation_list), json!([block(118)]));
    let view = TxView::whole(&fixtures::record(&house.store, id).await).with_confirmations(&events[..4]);
    assert_eq!(view.confirmation_list, None, "better none than an old one");
}

/// proves R08
#[tokio::test]
async fn revert_shows_in_receipt_first_and_reason_when_final() {
    let house = house().await;
    let id = bound(&house).await;
    let target = format!("/api/v1/tx/{id}");
    revert(&house, id, 118).await;
    let mined = house.get(&target).await.json();
    let receipt = json!({
        "blockNumber": 118, "blockHash": fixtures::block(118).hash.to_string(), "status": "reverted", "gasUsed": 21_000,
        "effectiveGasPrice": "7", "feePaid": "147000", "attemptKind": "original", "bumps": 0, "bumpCost": "0",
        "revert": {"reason": "too poor", "data": "0x08"},
    });
    assert_eq!((&mined["state"], &mined["receipt"], mined.get("reason")), (&"TRACKING".into(), &receipt, None));
    change(&house, id, Transition::Unmine).await;
    let pending = house.get(&target).await.json();
    assert_eq!((pending.get("receipt"), pending.get("confirmations")), (None, None));

    // The transaction succeeded in another block, which became final.
    mine(&house, id, 119).await;
    change(&house, id, Transition::Settle(None)).await;
    let confirmed = house.get(&target).await.json();
    assert_eq!((&confirmed["state"], &confirmed["receipt"]["status"]), (&"CONFIRMED".into(), &"success".into()));
    assert!(confirmed.get("reason").is_none() && confirmed["receipt"].get("revert").is_none());

    let id = house.accept("b").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    revert(&house, id, 118).await;
    change(&house, id, Transition::Settle(None)).await;
    let failed = house.get(&format!("/api/v1/tx/{id}")).await.json();
    assert_eq!((&failed["state"], &failed["receipt"]), (&"FAILED_FINAL".into(), &receipt));
    assert_eq!(failed["reason"], json!({"code": "reverted", "text": "too poor"}));
}

fn expected_chain() -> Value {
    json!({
        "chain": support::CHAIN,
        "head": {"blockNumber": 120, "blockHash": fixtures::block(120).hash.to_string(), "ageMs": 5},
        "finalBlock": {"blockNumber": 119, "blockHash": fixtures::block(119).hash.to_string()},
        "finality": "depth",
        "requiredConfirmations": 2,
        "blockTimeMs": 12_000,
        "openTransactions": 11,
        "lanes": 3,
        "endpoints": [
            {
                "name": "first:8545", "weight": 2, "standing": "good", "healthy": true, "blockNumber": 120,
                "headAgeMs": 1500, "lagBlocks": 0, "errorsPermille": 4, "latencyMs": 30, "inFlight": 7,
            },
            {
                "name": "second:8545", "weight": 2, "standing": "lagging", "healthy": false, "blockNumber": 118,
                "headAgeMs": 1500, "lagBlocks": 2, "errorsPermille": 4, "latencyMs": 30, "inFlight": 7,
                "trouble": "it is behind",
            },
            {"name": "third:8545", "weight": 1, "standing": "unchecked", "healthy": false, "inFlight": 0},
        ],
    })
}

#[tokio::test]
async fn chain_view_shows_head_finality_and_endpoints() {
    let house = house().await;
    let target = format!("/api/v1/chains/{}", support::CHAIN);
    assert_eq!(house.get(&target).await.json(), expected_chain());
    assert_eq!(house.get("/api/v1/chains").await.json(), json!([expected_chain()]));
    let nothing_yet = house.on(OneChain { head: None, ..OneChain::default() }).get(&target).await.json();
    assert!(nothing_yet.get("head").is_none() && nothing_yet.get("finalBlock").is_none(), "{nothing_yet}");
    house.get("/api/v1/chains/eip155:1").await.problem(404, "unknown_chain");
    assert_eq!(house.get("/api/v1/chains/mainnet").await.problem(422, "invalid_request"), ["/chain"]);
    assert_eq!(house.get(&format!("{target}?expand=x")).await.problem(422, "invalid_request"), ["/expand"]);
}

#[tokio::test]
async fn chain_view_shows_finality_violation() {
    let trouble =
        Protection { code: ProtectCode::OtherChain, detail: NodeText::new("genesis 0x01 was 0x02 when it was pinned") };
    let house = house().await;
    let target = format!("/api/v1/chains/{}", support::CHAIN);
    let calm = house.get("/api/v1/submitters/treasury").await.json();
    assert!(calm.get("chainTrouble").is_none());
    let house = house.on(OneChain { trouble: Some(trouble), ..OneChain::default() });
    let mut expected = expected_chain();
    expected["trouble"] = json!({
        "code": "other_chain",
        "message": "the endpoints show another chain than before",
        "detail": "genesis 0x01 was 0x02 when it was pinned",
    });
    assert_eq!(house.get(&target).await.json(), expected);
    for target in ["/api/v1/submitters/treasury", "/api/v1/submitters/treasury?expand=lease,nonces"] {
        assert_eq!(house.get(target).await.json()["chainTrouble"], "other_chain");
    }
    assert_eq!(house.get("/api/v1/submitters").await.json()["items"][0]["chainTrouble"], "other_chain");
}

/// proves R10
#[tokio::test]
async fn nonce_counts_are_shown_separately() {
    let house = house().await;
    let target = "/api/v1/submitters/treasury?expand=nonces";
    let counts = json!({"latest": 5, "preconfirmed": 9, "final": 3});
    let view = house.get(target).await.json();
    assert_eq!(view["nonces"], counts, "the lane has not begun, so the ledger has no count");
    bound(&house).await;
    let mut with_next = counts.clone();
    with_next["next"] = json!(1);
    let view = house.get(target).await.json();
    assert_eq!((&view["nonces"], &view["balance"]), (&with_next, &"1000000000000000000".into()));
    assert_eq!((&view["chainHead"], &view["chainHeadAgeMs"]), (&120.into(), &5.into()));
    assert_eq!(house.get("/api/v1/submitters?expand=nonces").await.json()["items"][0]["nonces"], with_next);
    let plain = house.get("/api/v1/submitters/treasury").await;
    assert!(plain.json().get("nonces").is_none() && !plain.text.contains("preconfirmed"), "{}", plain.text);

    // An unknown count is absent and not replaced by another.
    let mut account = OneChain::default().account.unwrap();
    account.finalized = None;
    let not_final = house.on(OneChain { account: Some(account), ..OneChain::default() });
    assert_eq!(
        not_final.get(target).await.json()["nonces"],
        json!({"next": 1, "latest": 5, "preconfirmed": 9}),
        "nothing is final yet"
    );
    let silent = house.on(OneChain { account: None, ..OneChain::default() });
    let view = silent.get(target).await.json();
    assert_eq!((&view["nonces"], view.get("balance")), (&json!({"next": 1}), None));
    assert_eq!(silent.get("/api/v1/submitters").await.status, 200);
}
