//! Tests of replace and resubmit: the commands to the lane, the refusals, and the views. The test plays the lane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::time::Duration;

use gapless_domain::{
    Address, Amount, AttemptKind, CancelReason, Claim, CommandKind, CommandReport, CommandResult, EndpointAnswer,
    EvmCall, Fees, Inclusion, IntentRecord, LaneCommit, MempoolSignal, NewAttempt, NodeText, Payload, SendOutcome,
    SendReport, StuckReason, Transition, TxId, keccak256,
};
use gapless_store::conformance::fixtures::{self, soon};
use serde_json::{Value, json};
use support::reservations::{NONCES, lend};
use support::{Answer, House, authorization, house, signed_by, treasury};

const TO: &str = "0x2222222222222222222222222222222222222222";

async fn commands(house: &House) -> Vec<CommandKind> {
    fixtures::view(&house.store, &treasury()).await.lane.commands.into_iter().map(|command| command.kind).collect()
}

/// Plays the lane: ends every open command with this result.
async fn execute(house: &House, result: CommandResult) {
    let open = fixtures::view(&house.store, &treasury()).await.lane.commands;
    fixtures::commit_done(&house.store, &treasury(), |commit: &mut LaneCommit| {
        for command in &open {
            commit.command_done(command, result.clone());
        }
    })
    .await;
    house.bell.ring(&treasury());
}

async fn replace(house: &House, id: TxId, value: &str) -> Answer {
    house.post(&format!("/api/v1/tx/{id}/replace"), &payload(value).to_string()).await
}

fn payload(value: &str) -> Value {
    json!({"payload": {"to": TO, "value": value}})
}

fn call(value: u64) -> EvmCall {
    EvmCall { to: Some(TO.parse().unwrap()), value: Amount::from(value), ..EvmCall::default() }
}

/// The first payload, as `support::request` sends it.
fn first_call() -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(0x11)), value: Amount::from(1_u64), ..EvmCall::default() }
}

async fn bound(house: &House, name: &str) -> IntentRecord {
    house.accept(name).await;
    fixtures::bind_next(&house.store, &treasury()).await
}

#[tokio::test]
async fn replacement_is_durable_and_waiter_gets_result() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    let told = replace(&house, tx.id, "7").await;
    assert_eq!(told.status, 202, "{}", told.text);
    let json = told.json();
    assert_eq!((&json["command"], &json["commandState"]), (&"replace".into(), &"open".into()));
    assert_eq!((&json["txId"], &json["requestId"]), (&tx.id.to_string().into(), &"a".into()));
    assert_eq!((&json["state"], &json["subState"]), (&"ALLOCATED".into(), &"PENDING".into()));
    assert!(json["note"].as_str().unwrap().contains("the chain decides"), "{json}");
    assert_eq!(commands(&house).await, [CommandKind::Replace { tx_id: tx.id, payload: Payload::from(call(7)) }]);
    let later = house.get(&format!("/api/v1/commands/{}", json["commandId"].as_str().unwrap())).await;
    assert_eq!(later.json()["state"], "open");

    let (target, body) = (format!("/api/v1/tx/{}/replace?wait=30s", tx.id), payload("7").to_string());
    let mut waiting = Box::pin(house.post(&target, &body));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let wanted = Transition::WantReplace(Payload::from(call(7)));
    fixtures::change(&house.store, &treasury(), tx.id, wanted).await;
    execute(&house, fixtures::done("another one is signed")).await;
    let begun = soon("the lane", waiting).await;
    let json = begun.json();
    assert_eq!((begun.status.as_u16(), &json["subState"]), (200, &"REPLACING".into()), "{json}");
    assert_eq!((&json["commandState"], &json["result"]), (&"done".into(), &"another one is signed".into()));

    let mut waiting = Box::pin(house.post(&target, &body));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    execute(&house, fixtures::refused("it is mined already")).await;
    let refused = soon("the refusal", waiting).await;
    refused.problem(409, "refused");
    assert_eq!(refused.json()["detail"], "it is mined already");
    assert!(refused.json()["commandId"].is_string());

    // The intent ended while the caller waited for the lane.
    let mut waiting = Box::pin(house.post(&target, &body));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    fixtures::confirm(&house.store, &treasury(), tx.id).await;
    execute(&house, fixtures::refused("it is not open in this lane")).await;
    soon("the end", waiting).await.problem(409, "already_final");
}

#[tokio::test]
async fn resubmit_takes_given_price_or_config() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    let target = format!("/api/v1/tx/{}/resubmit", tx.id);
    let fees = json!({"maxFeePerGas": "20", "maxPriorityFeePerGas": "2"});
    let bodies = [
        String::new(),
        "{}".to_owned(),
        json!({"fees": fees}).to_string(),
        r#"{"fees":{"gasPrice":"0x9"}}"#.to_owned(),
    ];
    for body in &bodies {
        let told = house.post(&target, body).await;
        let json = told.json();
        assert_eq!((told.status.as_u16(), &json["command"]), (202, &"resubmit".into()), "{json}");
        assert!(json["note"].as_str().unwrap().contains("the chain decides"), "{json}");
    }
    let named =
        [None, None, Some(Fees::Eip1559 { max_fee: 20, max_priority_fee: 2 }), Some(Fees::Legacy { gas_price: 9 })];
    let expected = named.map(|fees| CommandKind::Resubmit { tx_id: tx.id, fees });
    assert_eq!(commands(&house).await, expected);

    let patient = format!("{target}?wait=30s");
    let mut waiting = Box::pin(house.post(&patient, ""));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    execute(&house, CommandResult::Done(CommandReport::new("the same bytes are sent again"))).await;
    let done = soon("the lane", waiting).await;
    assert_eq!((done.status.as_u16(), &done.json()["result"]), (200, &"the same bytes are sent again".into()));

    for (body, pointer) in [
        (json!({"fees": {"gasPrice": "1", "maxFeePerGas": "1"}}), "/fees"),
        (json!({"fees": {"maxFeePerGas": "1", "maxPriorityFeePerGas": "2"}}), "/fees"),
        (json!({"fees": {"gasPrice": "-1"}}), "/fees/gasPrice"),
        (json!({"price": "1"}), "/price"),
    ] {
        let refused = house.post(&target, &body.to_string()).await;
        assert_eq!(refused.problem(422, "invalid_request"), [pointer], "{body}");
    }
    house.post(&target, "{").await.problem(400, "malformed_json");
    assert_eq!(commands(&house).await, [], "what is refused leaves nothing behind");
}

/// A new payload passes the checks of a new request.
///
/// proves S14
#[tokio::test]
async fn replacement_passes_checks_of_new_request() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    let target = format!("/api/v1/tx/{}/replace", tx.id);
    let ours = gapless_wire::Authorization::from(&authorization(treasury().evm_address().unwrap()));
    for (body, pointer) in [
        (json!({}), "/payload"),
        (json!({"payload": {}}), "/payload/to"),
        (json!({"payload": {"to": "0x12"}}), "/payload/to"),
        (json!({"payload": {"to": TO, "value": "-1"}}), "/payload/value"),
        (json!({"payload": {"to": TO, "gasLimit": 3}}), "/payload/gasLimit"),
        (json!({"payload": {"to": TO, "data": format!("0x{}", "00".repeat(121 * 1024))}}), "/payload/data"),
        (json!({"payload": {"to": TO, "fees": {"maxFeePerGas": "1", "maxPriorityFeePerGas": "2"}}}), "/payload/fees"),
        (json!({"payload": {"to": TO, "authorizationList": [ours]}}), "/payload/authorizationList/0"),
        (json!({"payload": {"to": TO, "nonce": 1}}), "/payload/nonce"),
        (json!({"payload": {"to": TO}, "speed": "fast"}), "/speed"),
    ] {
        let refused = house.post(&target, &body.to_string()).await;
        assert_eq!(refused.problem(422, "invalid_request"), [pointer], "{pointer}");
    }
    house.post(&target, "").await.problem(400, "malformed_json");
    assert_eq!(commands(&house).await, []);
}

#[tokio::test]
async fn blob_payload_is_refused_with_its_own_code() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    let with = |field: &str| {
        let mut body: Value = serde_json::from_str(&support::request("b")).unwrap();
        body["payload"][field] = json!([]);
        body
    };
    for field in ["blobs", "blobVersionedHashes", "maxFeePerBlobGas", "sidecar"] {
        let pointer = format!("/payload/{field}");
        let body = with(field);
        let created = house.post("/api/v1/tx", &body.to_string()).await;
        assert_eq!(created.problem(422, "blobs_unsupported"), [pointer.as_str()]);
        let replaced = json!({"payload": body["payload"]}).to_string();
        let replaced = house.post(&format!("/api/v1/tx/{}/replace", tx.id), &replaced).await;
        assert_eq!(replaced.problem(422, "blobs_unsupported"), [pointer.as_str()]);
        let batch = house.post("/api/v1/tx/batch", &json!({"transactions": [body]}).to_string()).await.json();
        assert_eq!(batch["results"][0]["problem"]["code"], "blobs_unsupported", "{batch}");
    }
    assert_eq!((house.stored().await, commands(&house).await), (1, Vec::new()));
}

/// proves S14
#[tokio::test]
async fn ended_canceling_or_reserved_tx_is_not_replaced() {
    let house = house().await;
    let ended = bound(&house, "ended").await;
    fixtures::confirm(&house.store, &treasury(), ended.id).await;
    let canceling = bound(&house, "canceling").await;
    fixtures::change(&house.store, &treasury(), canceling.id, Transition::WantCancel(CancelReason::User)).await;
    fixtures::change(&house.store, &treasury(), canceling.id, Transition::AwaitFunds).await;
    let asked = house.post(NONCES, r#"{"requestId":"lent","lockOwner":"me"}"#);
    let (asked, ()) = tokio::join!(asked, async { house.time.all_over() });
    assert_eq!(asked.status, 202, "{}", asked.text);
    let lent = lend(&house.store, &treasury()).await;

    for (id, code) in [(ended.id, "already_final"), (canceling.id, "canceling"), (lent, "signed_by_borrower")] {
        let refused = replace(&house, id, "7").await;
        refused.problem(409, code);
        assert_eq!(refused.json()["txId"], id.to_string());
    }
    let resubmit = async |id: TxId, body: &str| house.post(&format!("/api/v1/tx/{id}/resubmit"), body).await;
    resubmit(ended.id, "").await.problem(409, "already_final");
    resubmit(lent, r#"{"fees":{"gasPrice":"9"}}"#).await.problem(409, "signed_by_borrower");
    assert_eq!(commands(&house).await, []);
    // The lane decides about the same bytes, and about a dearer cancel.
    for (id, body) in [(lent, ""), (canceling.id, r#"{"fees":{"gasPrice":"9"}}"#)] {
        let told = resubmit(id, body).await;
        assert_eq!(told.status, 202, "{}", told.text);
    }
    for verb in ["replace", "resubmit"] {
        let body = if verb == "replace" { payload("7").to_string() } else { String::new() };
        let unknown = house.post(&format!("/api/v1/tx/{}/{verb}", fixtures::fresh_id()), &body).await;
        unknown.problem(404, "tx_not_found");
        let bad = house.post(&format!("/api/v1/tx/17/{verb}"), &body).await;
        assert_eq!(bad.problem(422, "invalid_request"), ["/txId"]);
    }
}

#[tokio::test]
async fn resubmit_refuses_fees_of_other_kind() {
    let house = house().await;
    let mut body: Value = serde_json::from_str(&support::request("a")).unwrap();
    let theirs = gapless_wire::Authorization::from(&authorization(Address::repeat_byte(9)));
    body["payload"]["authorizationList"] = json!([theirs]);
    let id = house.post("/api/v1/tx", &body.to_string()).await.json()["txId"].as_str().unwrap().to_owned();
    let target = format!("/api/v1/tx/{id}/resubmit");
    let refused = house.post(&target, r#"{"fees":{"gasPrice":"9"}}"#).await;
    assert_eq!(refused.problem(422, "invalid_request"), ["/fees"]);
    let taken = house.post(&target, r#"{"fees":{"maxFeePerGas":"9","maxPriorityFeePerGas":"1"}}"#).await;
    assert_eq!(taken.status, 202, "{}", taken.text);
}

/// A signed transaction that the test chain can read.
fn attempt(tx: &IntentRecord, ordinal: u16, kind: AttemptKind, max_fee: u128, what: &str) -> NewAttempt {
    let nonce = tx.state.nonce().unwrap();
    let raw: gapless_domain::Bytes = signed_by(&treasury(), nonce.get(), what).parse().unwrap();
    let fees = Fees::Eip1559 { max_fee, max_priority_fee: 1 };
    NewAttempt { nonce, ordinal, kind, hash: keccak256(&raw), raw, fees }
}

async fn see(house: &House, id: TxId, query: &str) -> Value {
    let answer = house.get(&format!("/api/v1/tx/{id}{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

/// Every attempt is visible with its kind, worst cost, sends and the answer of each endpoint.
#[tokio::test]
async fn attempt_view_shows_each_endpoint_answer() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    let bump = attempt(&tx, 1, AttemptKind::Bump, 30, &format!("gives 5 {TO}"));
    let heard = |endpoint: &str, outcome, text: &str| EndpointAnswer {
        endpoint: NodeText::new(endpoint),
        outcome,
        text: NodeText::new(text),
    };
    let sent = |outcome, said: Vec<EndpointAnswer>| SendReport {
        nonce: bump.nonce,
        hash: bump.hash,
        outcome,
        text: NodeText::new(""),
        answers: said,
    };
    let claim = Claim {
        nonce: bump.nonce,
        pause: Duration::from_secs(60),
        tries: 3,
        signal: Some(MempoolSignal::LikelyDropped),
    };
    let reports = [
        sent(SendOutcome::Unknown, vec![heard("first:8545", SendOutcome::Unknown, "timed out")]),
        sent(
            SendOutcome::Accepted,
            vec![
                heard("first:8545", SendOutcome::Accepted, ""),
                heard("second:8545", SendOutcome::ReplacementUnderpriced, "replacement transaction underpriced"),
            ],
        ),
    ];
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.attempt(bump.clone()).claim_resubmit(claim);
    })
    .await;
    for report in &reports {
        fixtures::commit_done(&house.store, &treasury(), |commit| {
            commit.report(report.clone());
        })
        .await;
    }
    let plain = see(&house, tx.id, "").await;
    for hidden in ["attempts", "nonce", "tries", "signal"] {
        assert!(plain.get(hidden).is_none(), "{hidden}: {plain}");
    }
    assert_eq!(plain["hash"], bump.hash.to_string());

    let view = see(&house, tx.id, "?expand=attempts").await;
    assert_eq!((&view["tries"], &view["signal"]), (&3.into(), &"likely_dropped".into()), "{view}");
    let [first, second] = &view["attempts"].as_array().unwrap()[..] else { panic!("{view}") };
    assert_eq!((&first["kind"], &second["kind"]), (&"original".into(), &"bump".into()));
    // The test chain cannot read the fixture's own bytes.
    assert_eq!((first.get("maxCost"), first.get("history")), (None, None));
    assert_eq!(second["fees"], json!({"maxFeePerGas": "30", "maxPriorityFeePerGas": "1"}));
    assert_eq!((&second["maxCost"], &second["sends"]), (&"147005".into(), &2.into()));
    let at = "2026-01-01T00:00:00Z";
    let expected = json!([
        {"at": at, "outcome": "unknown", "heard": [
            {"endpoint": "first:8545", "outcome": "unknown", "text": "timed out"},
        ]},
        {"at": at, "outcome": "accepted", "heard": [
            {"endpoint": "first:8545", "outcome": "accepted"},
            {"endpoint": "second:8545", "outcome": "replacement_underpriced",
             "text": "replacement transaction underpriced"},
        ]},
    ]);
    assert_eq!((&second["history"], &second["createdAt"]), (&expected, &at.into()));

    let lane = house.get("/api/v1/submitters/treasury?expand=slots").await.json();
    let slot = &lane["slots"][0];
    assert_eq!((&slot["tries"], &slot["signal"]), (&3.into(), &"likely_dropped".into()), "{slot}");
    assert_eq!((&slot["attempts"][1]["maxCost"], &slot["attempts"][1]["kind"]), (&"147005".into(), &"bump".into()));
}

async fn mine(house: &House, tx: &IntentRecord, attempt: &NewAttempt, price: u64) -> Value {
    let inclusion = fixtures::inclusion(attempt.hash, attempt.kind, 118);
    let inclusion = Inclusion { unit_price: Amount::from(price), ..inclusion };
    fixtures::change(&house.store, &treasury(), tx.id, Transition::Mine(inclusion)).await;
    see(house, tx.id, "").await
}

/// The reported payload is the one that was mined.
///
/// proves S14
#[tokio::test]
async fn receipt_names_the_mined_payload() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    let original = attempt(&tx, 1, AttemptKind::Bump, 12, &format!("gives 1 {}", first_call().to.unwrap()));
    let between = attempt(&tx, 2, AttemptKind::Replace, 14, &format!("gives 6 {TO}"));
    let replaced = attempt(&tx, 3, AttemptKind::Replace, 16, &format!("gives 7 {TO}"));
    let canceled = attempt(&tx, 4, AttemptKind::Cancel, 18, &format!("gives 0 {}", treasury().evm_address().unwrap()));
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        for attempt in [&original, &between, &replaced, &canceled] {
            commit.attempt(attempt.clone());
        }
    })
    .await;
    let before = see(&house, tx.id, "").await;
    assert!(before.get("replacement").is_none() && before.get("receipt").is_none(), "{before}");
    fixtures::change(&house.store, &treasury(), tx.id, Transition::WantReplace(Payload::from(call(7)))).await;
    let wanted = see(&house, tx.id, "").await;
    assert_eq!((&wanted["payload"]["value"], &wanted["replacement"]["value"]), (&"1".into(), &"7".into()));
    assert_eq!((&wanted["replacement"]["to"], &wanted["subState"]), (&TO.into(), &"REPLACING".into()));
    let listed = house.get("/api/v1/tx").await.json()["items"][0].clone();
    assert!(listed.get("replacement").is_none(), "{listed}");

    for (mined, value) in [(&original, "1"), (&between, "6"), (&replaced, "7")] {
        let view = mine(&house, &tx, mined, 11).await;
        let receipt = &view["receipt"];
        assert_eq!(
            (&view["hash"], &receipt["attemptKind"]),
            (&mined.hash.to_string().into(), &mined.kind.as_str().into())
        );
        assert_eq!(receipt["minedPayload"]["value"], value, "{receipt}");
        assert_eq!(receipt["bumps"], 4);
        fixtures::change(&house.store, &treasury(), tx.id, Transition::Unmine).await;
    }
    let nothing = mine(&house, &tx, &canceled, 11).await;
    assert_eq!(nothing["receipt"]["attemptKind"], "cancel");
    assert!(nothing["receipt"].get("minedPayload").is_none(), "{nothing}");
}

/// The fee paid, and the part beyond the most that the first attempt could have cost.
#[tokio::test]
async fn receipt_shows_fee_paid_and_bump_cost() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    // The fixture's first attempt offers at most 10 per gas.
    let bump = attempt(&tx, 1, AttemptKind::Bump, 30, "more");
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.attempt(bump.clone());
    })
    .await;
    for (price, paid, beyond) in [(25, "525000", "315000"), (10, "210000", "0"), (9, "189000", "0")] {
        let receipt = mine(&house, &tx, &bump, price).await["receipt"].clone();
        assert_eq!(
            (&receipt["feePaid"], &receipt["bumpCost"], &receipt["bumps"]),
            (&paid.into(), &beyond.into(), &1.into())
        );
        assert!(receipt.get("minedPayload").is_none(), "nothing was replaced: {receipt}");
        fixtures::change(&house.store, &treasury(), tx.id, Transition::Unmine).await;
    }
    mine(&house, &tx, &bump, 25).await;
    fixtures::change(&house.store, &treasury(), tx.id, Transition::Settle(None)).await;
    let view = see(&house, tx.id, "").await;
    assert_eq!((&view["state"], &view["receipt"]["bumpCost"]), (&"CONFIRMED".into(), &"315000".into()));
    let listed = house.get("/api/v1/tx").await.json()["items"][0]["receipt"].clone();
    assert_eq!((&listed["feePaid"], listed.get("bumps")), (&"525000".into(), None));
}

#[tokio::test]
async fn stuck_intent_shows_reason() {
    let house = house().await;
    let tx = bound(&house, "a").await;
    for reason in StuckReason::ALL.iter().copied() {
        fixtures::change(&house.store, &treasury(), tx.id, Transition::GiveUp(reason)).await;
        let view = see(&house, tx.id, "").await;
        assert_eq!((&view["state"], &view["reason"]["code"]), (&"STUCK".into(), &reason.as_str().into()), "{view}");
        assert!(view["reason"]["text"].is_string());
        fixtures::change(&house.store, &treasury(), tx.id, Transition::Revive).await;
    }
}
