//! Tests of operators' commands to lanes and chains, and of the views of a lane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use gapless_domain::{
    AttemptKind, CancelReason, CommandKind, CommandReport, CommandResult, IntentRecord, LaneCommit, LostRule, NodeText,
    NoncePolicy, ReleaseRule, SendOutcome, Transition, TxId,
};
use gapless_store::conformance::fixtures::{self, soon};
use serde_json::{Value, json};
use support::{House, OneChain, authorization, house, request, treasury};

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

fn done(text: &str) -> CommandResult {
    CommandResult::Done(CommandReport::new(text))
}

fn refused(text: &str) -> CommandResult {
    CommandResult::Refused(CommandReport::new(text))
}

#[tokio::test]
async fn operator_commands_are_durable_for_the_lane() {
    let house = house().await;
    for (verb, body) in [
        ("unprotect", ""),
        ("resync", ""),
        ("resync", "{}"),
        ("resync", r#"{"lost":"fail"}"#),
        ("resync", r#"{"lost":"requeue","dryRun":true}"#),
        ("cancel-pending", ""),
    ] {
        let told = house.post(&format!("/api/v1/submitters/treasury/{verb}"), body).await;
        assert_eq!((told.status.as_u16(), &told.json()["state"]), (202, &"open".into()), "{}", told.text);
    }
    let resync = |lost, dry_run| CommandKind::Resync { lost, dry_run };
    let expected = [
        CommandKind::Unprotect,
        resync(LostRule::Requeue, false),
        resync(LostRule::Requeue, false),
        resync(LostRule::Fail, false),
        resync(LostRule::Requeue, true),
        CommandKind::CancelPending,
    ];
    assert_eq!(commands(&house).await, expected);
    for (body, pointer) in
        [(r#"{"lost":"keep"}"#, "/lost"), (r#"{"dryRun":1}"#, "/dryRun"), (r#"{"dry":true}"#, "/dry")]
    {
        let answer = house.post("/api/v1/submitters/treasury/resync", body).await;
        assert_eq!(answer.problem(422, "invalid_request"), [pointer]);
    }
    house.post("/api/v1/submitters/treasury/resync", "{").await.problem(400, "malformed_json");
    house.post("/api/v1/submitters/nobody/resync", "").await.problem(404, "unknown_submitter");
    assert_eq!(commands(&house).await.len(), expected.len(), "what is refused leaves nothing behind");
}

#[tokio::test]
async fn waiting_caller_gets_the_refusal_reason() {
    let house = house().await;
    for verb in ["unprotect", "resync", "cancel-pending"] {
        let target = format!("/api/v1/submitters/treasury/{verb}?wait=30s");
        let mut waiting = Box::pin(house.post(&target, ""));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        execute(&house, refused("the cause persists:\nnonce 7 is a stranger's")).await;
        let answer = soon("the refusal", waiting).await;
        answer.problem(409, "refused");
        assert!(answer.json()["detail"].as_str().unwrap().ends_with("the cause persists:\nnonce 7 is a stranger's"));
        let id = answer.json()["commandId"].as_str().unwrap().to_owned();
        let later = house.get(&format!("/api/v1/commands/{id}")).await;
        assert_eq!((later.status.as_u16(), &later.json()["state"]), (200, &"refused".into()));
        let mut waiting = Box::pin(house.post(&target, ""));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        execute(&house, done("one\ntwo")).await;
        let answer = soon("the end", waiting).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["result"]), (200, &"one\ntwo".into()));
    }
}

async fn cancel(house: &House, id: TxId) -> support::Answer {
    house.post(&format!("/api/v1/tx/{id}/cancel"), "").await
}

/// proves S13
#[tokio::test]
async fn cancel_is_immediate_in_queue_and_a_command_later() {
    let house = house().await;
    let queued = house.accept("a").await;
    for _ in 0..2 {
        let answer = cancel(&house, queued).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!((&answer.json()["state"], &answer.json()["requestId"]), (&"CANCELED".into(), &"a".into()));
        assert!(answer.json().get("commandId").is_none());
    }
    assert!(commands(&house).await.is_empty());

    let bound = house.accept("b").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    let answer = cancel(&house, bound).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let json = answer.json();
    assert_eq!((&json["state"], &json["subState"]), (&"ALLOCATED".into(), &"PENDING".into()));
    assert_eq!(json["commandState"], "open");
    assert!(json["commandId"].is_string() && json["note"].as_str().unwrap().contains("the chain decides"), "{json}");
    assert_eq!(commands(&house).await, [CommandKind::Cancel { tx_id: bound }]);

    let target = format!("/api/v1/tx/{bound}/cancel?wait=30s");
    let mut waiting = Box::pin(house.post(&target, ""));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    fixtures::change(&house.store, &treasury(), bound, Transition::WantCancel(CancelReason::User)).await;
    execute(&house, done("it is a race")).await;
    let begun = soon("the lane", waiting).await;
    assert_eq!((begun.status.as_u16(), &begun.json()["subState"]), (202, &"CANCELING".into()), "{}", begun.text);
    assert_eq!((&begun.json()["commandState"], &begun.json()["result"]), (&"done".into(), &"it is a race".into()));

    let mut waiting = Box::pin(house.post(&target, ""));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    execute(&house, refused("not this one")).await;
    soon("the refusal", waiting).await.problem(409, "refused");
}

#[tokio::test]
async fn ended_intent_is_not_canceled() {
    let house = house().await;
    let id = house.accept("a").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    fixtures::confirm(&house.store, &treasury(), id).await;
    let answer = cancel(&house, id).await;
    answer.problem(409, "already_final");
    assert_eq!(answer.json()["txId"], id.to_string());
    house.post(&format!("/api/v1/tx/{}/cancel", fixtures::fresh_id()), "").await.problem(404, "tx_not_found");
    assert_eq!(house.post("/api/v1/tx/17/cancel", "").await.problem(422, "invalid_request"), ["/txId"]);
    let queued = house.accept("b").await;
    house.store.declare_lost(&NodeText::new("operator"), "a restore").await.unwrap();
    for target in [format!("/api/v1/tx/{queued}/cancel"), "/api/v1/submitters/treasury/cancel-pending".to_owned()] {
        let answer = house.post(&target, "").await;
        answer.problem(409, "submitter_protected");
        assert!(answer.json()["detail"].as_str().unwrap().starts_with("store_regressed: "));
    }
}

#[tokio::test]
async fn cancel_pending_empties_queue_and_writes_command() {
    let house = house().await;
    let bound = house.accept("bound").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    let mut queued = Vec::new();
    for n in 0..1_203 {
        queued.push(fixtures::new_intent(&treasury(), &format!("order-{n}")));
    }
    house.store.accept(&queued).await.unwrap();
    let answer = house.post("/api/v1/submitters/treasury/cancel-pending", "").await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!((&answer.json()["canceledQueued"], &answer.json()["moreQueued"]), (&1_203.into(), &false.into()));
    let states = house.store.get(&queued.iter().map(|new| new.id).collect::<Vec<_>>()).await.unwrap();
    assert!(states.iter().flatten().all(|tx| tx.state.name() == gapless_domain::StateName::Canceled));
    assert_eq!(fixtures::record(&house.store, bound).await.state.name(), gapless_domain::StateName::Allocated);
    assert_eq!(commands(&house).await, [CommandKind::CancelPending]);
    let empty = house.post("/api/v1/submitters/treasury/cancel-pending", "").await;
    assert_eq!(empty.json()["canceledQueued"], 0);
}

#[tokio::test]
async fn audit_log_is_paged() {
    let house = house().await;
    for (verb, result) in [("pause", done("paused")), ("resync", refused("not now")), ("resume", done("goes on"))] {
        house.post(&format!("/api/v1/submitters/treasury/{verb}"), "").await;
        execute(&house, result).await;
    }
    let chain = format!("/api/v1/chains/{}/accept", support::CHAIN);
    let accepted = house.post(&chain, r#"{"reason":" the dev chain began anew "}"#).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text);
    assert_eq!(accepted.json(), json!({"chain": support::CHAIN, "reason": "the dev chain began anew"}));
    let mut seen = Vec::new();
    let mut target = "/api/v1/audit?limit=3".to_owned();
    loop {
        let page = house.get(&target).await.json();
        let items = page["items"].as_array().unwrap().clone();
        assert!(items.len() <= 3);
        seen.extend(items);
        match page["nextCursor"].as_str() {
            Some(cursor) => target = format!("/api/v1/audit?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    let told: Vec<(&str, &str, &str)> = seen
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap();
            assert_eq!((text("actor"), text("at")), ("api", "2026-01-01T00:00:00Z"));
            (text("subject"), text("action"), text("detail"))
        })
        .collect();
    let lane = treasury();
    let expected = [
        (support::CHAIN, "accept_chain", "the dev chain began anew"),
        (lane.as_str(), "resume", "goes on"),
        (lane.as_str(), "resync", "refused: not now"),
        (lane.as_str(), "pause", "paused"),
    ];
    assert_eq!(told, expected);
    let about = async |subject: &str| {
        let page = house.get(&format!("/api/v1/audit?subject={subject}")).await.json();
        page["items"].as_array().unwrap().len()
    };
    assert_eq!((about("treasury").await, about(lane.as_str()).await, about(support::CHAIN).await), (3, 3, 1));
    assert_eq!((about("eip155:1").await, about("store").await), (0, 0));
    house.get("/api/v1/audit?subject=nobody").await.problem(404, "unknown_submitter");
    for (query, pointer) in [("cursor=x", "/cursor"), ("cursor=a", "/cursor"), ("subject=a:b:c:d%20", "/subject")] {
        let answer = house.get(&format!("/api/v1/audit?{query}")).await;
        assert_eq!(answer.problem(422, "invalid_request"), [pointer], "{query}");
    }
}

#[tokio::test]
async fn chain_accept_needs_known_chain_and_reason() {
    let house = house().await;
    let chain = format!("/api/v1/chains/{}/accept", support::CHAIN);
    for body in [json!({"reason": "  "}), json!({"reason": "x".repeat(1001)}), json!({"reason": "a\u{0}"}), json!({})] {
        assert_eq!(house.post(&chain, &body.to_string()).await.problem(422, "invalid_request"), ["/reason"]);
    }
    house.post("/api/v1/chains/eip155:1/accept", r#"{"reason":"why not"}"#).await.problem(404, "unknown_chain");
    assert_eq!(house.get("/api/v1/audit").await.json()["items"], json!([]));
}

async fn see(house: &House, query: &str) -> Value {
    let answer = house.get(&format!("/api/v1/submitters/treasury{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

async fn sent(house: &House, tx: &IntentRecord, outcome: SendOutcome, said: &str) {
    let attempt = house.store.attempts(tx.id).await.unwrap()[0].clone();
    let report = gapless_domain::SendReport {
        nonce: attempt.nonce,
        hash: attempt.hash,
        outcome,
        text: NodeText::new(said),
        answers: Vec::new(),
    };
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.report(report.clone());
    })
    .await;
}

/// proves A03
#[tokio::test]
async fn submitter_view_shows_window_and_lowest_slot() {
    let plain = house().await;
    let idle = see(&plain, "").await;
    assert_eq!(idle["window"], json!({"max": 16, "inFlight": 0, "delegated": false}));
    assert_eq!((&idle["lowBalance"], &idle["awaitingFunds"]), (&false.into(), &false.into()));
    assert!(idle.get("lowestUnmined").is_none() && idle.get("slots").is_none());
    let fresh =
        OneChain::default().account.map(|facts| gapless_domain::AccountFacts { latest: fixtures::nonce(0), ..facts });
    let house = plain.on(OneChain { account: fresh, ..OneChain::default() });
    for name in ["a", "b", "c"] {
        house.accept(name).await;
    }
    let first = fixtures::bind_next(&house.store, &treasury()).await;
    let second = fixtures::bind_next(&house.store, &treasury()).await;
    sent(&house, &second, SendOutcome::NonceTooHigh, "nonce too high: 4711").await;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        let hash = fixtures::attempt(fixtures::nonce(0), 0, "bind").hash;
        let mined = Transition::Mine(fixtures::inclusion(hash, AttemptKind::Original, 118));
        commit.change(first.change(mined).unwrap());
    })
    .await;
    let view = see(&house, "").await;
    assert_eq!(view["window"]["inFlight"], 2);
    let lowest = &view["lowestUnmined"];
    assert_eq!((&lowest["txId"], &lowest["kind"]), (&second.id.to_string().into(), &"intent".into()), "{lowest}");
    assert_eq!((&lowest["state"], &lowest["subState"]), (&"ALLOCATED".into(), &"PENDING".into()));
    assert_eq!((&lowest["attempts"], &lowest["sends"], &lowest["sinceMs"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(lowest["lastOutcome"], "nonce_too_high");
    assert!(!view.to_string().contains("4711") && lowest.get("nonce").is_none(), "{view}");
    let asked = see(&house, "?expand=nonces").await;
    assert_eq!(
        (&asked["lowestUnmined"]["nonce"], &asked["lowestUnmined"]["lastOutcomeText"]),
        (&1.into(), &"nonce too high: 4711".into())
    );

    fixtures::change(&house.store, &treasury(), second.id, Transition::AwaitFunds).await;
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.set_low_balance(&cursor, true, NodeText::new("1 wei")).unwrap();
    })
    .await;
    let poor = see(&house, "").await;
    assert_eq!((&poor["lowBalance"], &poor["awaitingFunds"]), (&true.into(), &true.into()));
    let listed = house.get("/api/v1/submitters").await.json()["items"][0].clone();
    assert_eq!((&listed["window"], &listed["lowBalance"]), (&poor["window"], &true.into()));
    assert!(listed.get("lowestUnmined").is_none());
    house.get("/api/v1/submitters?expand=slots").await.problem(422, "invalid_request");
}

#[tokio::test]
async fn window_counts_by_release_policy() {
    let house = house().await;
    for name in ["a", "b"] {
        house.accept(name).await;
        fixtures::bind_next(&house.store, &treasury()).await;
    }
    let facts = OneChain::default().account.unwrap();
    let counted = |latest, finalized, delegated| gapless_domain::AccountFacts {
        latest: fixtures::nonce(latest),
        finalized: Some(fixtures::nonce(finalized)),
        narrow: delegated,
        ..facts
    };
    let policy = |release| NoncePolicy { max_in_flight: 8, narrow_max_in_flight: 2, release, ..NoncePolicy::default() };
    for (account, policy, window) in [
        (
            Some(counted(1, 0, false)),
            Some(policy(ReleaseRule::Mined)),
            json!({"max": 8, "inFlight": 1, "delegated": false}),
        ),
        (
            Some(counted(1, 0, false)),
            Some(policy(ReleaseRule::Final)),
            json!({"max": 8, "inFlight": 2, "delegated": false}),
        ),
        (
            Some(counted(9, 0, true)),
            Some(policy(ReleaseRule::Mined)),
            json!({"max": 2, "inFlight": 0, "delegated": true}),
        ),
        (None, None, json!({"inFlight": 2})),
    ] {
        let house = house.on(OneChain { account, policy, ..OneChain::default() });
        assert_eq!(see(&house, "").await["window"], window);
    }
}

#[tokio::test]
async fn slots_are_paged_on_request() {
    let house = house().await;
    let mut ids = Vec::new();
    for n in 0..103 {
        ids.push(house.accept(&format!("order-{n}")).await);
        fixtures::bind_next(&house.store, &treasury()).await;
    }
    let cursor = fixtures::view(&house.store, &treasury()).await.cursor;
    fixtures::commit_done(&house.store, &treasury(), |commit| {
        commit.adopt_foreign(&cursor, fixtures::nonce(103), NodeText::new("0xbb in block 5")).unwrap();
    })
    .await;
    let first = see(&house, "?expand=slots").await;
    let slots = first["slots"].as_array().unwrap();
    assert_eq!((slots.len(), &first["nextSlot"]), (100, &100.into()));
    let attempt = house.store.attempts(ids[0]).await.unwrap()[0].clone();
    assert_eq!((&slots[0]["nonce"], &slots[0]["kind"]), (&0.into(), &"intent".into()));
    assert_eq!((&slots[0]["txId"], &slots[0]["state"]), (&ids[0].to_string().into(), &"ALLOCATED".into()));
    assert_eq!(slots[0]["attempts"][0]["hash"], attempt.hash.to_string());
    let rest = see(&house, "?expand=slots&fromSlot=100").await;
    let shown: Vec<u64> =
        rest["slots"].as_array().unwrap().iter().map(|slot| slot["nonce"].as_u64().unwrap()).collect();
    assert_eq!((shown, rest.get("nextSlot")), (vec![100, 101, 102, 103], None));
    assert_eq!(
        (&rest["slots"][3]["kind"], &rest["slots"][3]["evidence"]),
        (&"foreign".into(), &"0xbb in block 5".into())
    );
    let bad = house.get("/api/v1/submitters/treasury?fromSlot=-1").await;
    assert_eq!(bad.problem(422, "invalid_request"), ["/fromSlot"]);
}

/// JavaScript numbers lose digits above 2^53 - 1.
#[tokio::test]
async fn nonce_above_2_53_is_a_string() {
    let exact = (1 << 53) - 1;
    let account = OneChain::default().account.map(|facts| gapless_domain::AccountFacts {
        latest: fixtures::nonce(exact),
        pending: fixtures::nonce(exact + 1),
        ..facts
    });
    let house = house().await.on(OneChain { account, ..OneChain::default() });
    let nonces = see(&house, "?expand=nonces").await["nonces"].clone();
    assert_eq!((&nonces["latest"], &nonces["final"]), (&exact.into(), &3.into()), "{nonces}");
    assert_eq!(nonces["preconfirmed"], "9007199254740992", "{nonces}");
    assert_eq!(house.get("/api/v1/submitters/treasury?fromSlot=9007199254740993").await.status, 200);
    let release = "/api/v1/submitters/treasury/nonces/9007199254740993/release";
    house.post(release, r#"{"lockOwner":"me"}"#).await.problem(409, "reservation_lost");
}

/// An authorization would use a submitter's nonce without a transaction.
#[tokio::test]
async fn authorization_of_submitter_is_refused() {
    let house = house().await;
    let ours = treasury().evm_address().unwrap();
    let strangers = gapless_domain::Address::repeat_byte(9);
    let with = |authorities: &[gapless_domain::Address], name: &str| {
        let mut body: Value = serde_json::from_str(&request(name)).unwrap();
        let list = authorities.iter().map(|authority| gapless_wire::Authorization::from(&authorization(*authority)));
        body["payload"]["authorizationList"] = json!(list.collect::<Vec<_>>());
        body.to_string()
    };
    let refused = house.post("/api/v1/tx", &with(&[strangers, ours], "a")).await;
    assert_eq!(refused.problem(422, "invalid_request"), ["/payload/authorizationList/1"]);
    let batch = format!(r#"{{"transactions":[{},{}]}}"#, with(&[ours], "b"), with(&[strangers], "c"));
    let batch = house.post("/api/v1/tx/batch", &batch).await.json();
    assert_eq!((&batch["results"][0]["status"], &batch["results"][1]["status"]), (&422.into(), &202.into()), "{batch}");
    assert_eq!(house.stored().await, 1);
}
