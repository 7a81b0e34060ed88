//! Tests of `?wait=`: the answer comes at the change.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::sync::atomic::Ordering;

use gapless_api::ApiLimits;
use gapless_domain::{CancelReason, CommandReport, CommandResult, NodeText, Transition};
use gapless_store::conformance::fixtures;
use gapless_store::conformance::fixtures::soon;
use support::{house, house_limited, treasury};

/// Time does not move in this test, so only the change can cause the answer.
///
/// proves A04
#[tokio::test]
async fn wait_ends_at_change() {
    let house = house().await;
    let id = house.accept("a").await;
    let target = format!("/api/v1/tx/{id}?wait=30s");
    let mut waiting = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // A hint without a change does not end the wait.
    house.bell.ring(&treasury());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    fixtures::bind_next(&house.store, &treasury()).await;
    // A change without a hint is not seen: there is no polling.
    assert!(futures_util::poll!(&mut waiting).is_pending());
    house.bell.ring(&treasury());
    let answer = soon("the answer to a wait", waiting).await;
    assert_eq!(answer.json()["state"], "ALLOCATED");
}

/// proves A04
#[tokio::test]
async fn change_between_read_and_wait_is_seen() {
    let house = house().await;
    let id = house.accept("a").await;
    let seen = house.get(&format!("/api/v1/tx/{id}")).await.json()["version"].as_u64().unwrap();
    fixtures::bind_next(&house.store, &treasury()).await;
    let late = format!("/api/v1/tx/{id}?wait=30s&version={seen}");
    assert_eq!(soon("a wait from an old version", house.get(&late)).await.json()["state"], "ALLOCATED");
    let target = format!("/api/v1/tx/by-request?submitter=treasury&requestId=a&wait=30s&version={}", seen + 1);
    let mut waiting = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(waiting);
}

#[tokio::test]
async fn final_intent_is_answered_at_once() {
    let house = house().await;
    let id = house.accept("a").await;
    fixtures::change(&house.store, &treasury(), id, Transition::CancelInQueue(CancelReason::User)).await;
    let answer = soon("the answer for a final one", house.get(&format!("/api/v1/tx/{id}?wait=1m"))).await;
    assert_eq!(answer.json()["state"], "CANCELED");
}

#[tokio::test]
async fn wait_reads_again_at_deadline() {
    let house = house().await;
    let id = house.accept("a").await;
    let target = format!("/api/v1/tx/{id}?wait=30s");
    let mut waiting = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    fixtures::bind_next(&house.store, &treasury()).await;
    house.time.all_over();
    assert_eq!(soon("the deadline", waiting).await.json()["state"], "ALLOCATED");
    let quiet = soon("the next deadline", house.get(&target)).await;
    assert_eq!((quiet.status.as_u16(), &quiet.json()["version"]), (200, &2.into()));
}

#[tokio::test]
async fn drain_answers_all_waiting_callers() {
    let house = house().await;
    let id = house.accept("a").await;
    let target = format!("/api/v1/tx/{id}?wait=30s");
    let mut waiting = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    house.drain.begin();
    assert_eq!(soon("the end of a wait", waiting).await.json()["state"], "QUEUED");
}

/// proves A05
#[tokio::test]
async fn waiting_callers_are_limited() {
    let limits = ApiLimits { waiters_max: 2, in_flight_requests: 1, ..ApiLimits::default() };
    let house = house_limited(limits).await;
    let id = house.accept("a").await;
    let target = format!("/api/v1/tx/{id}?wait=30s");
    let mut first = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut first).is_pending());
    // Waiting callers do not count as concurrent requests.
    let mut second = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut second).is_pending());
    let third = house.get(&target).await;
    third.problem(429, "too_many_waiters");
    assert_eq!(third.header("retry-after"), "1");
    assert_eq!(house.get(&format!("/api/v1/tx/{id}")).await.status, 200);
    drop(first);
    let mut fourth = Box::pin(house.get(&target));
    assert!(futures_util::poll!(&mut fourth).is_pending());
}

/// On a busy lane most hints concern other intents. They neither end a wait nor keep the node busy.
///
/// proves A04
#[tokio::test]
async fn endless_hints_pace_a_wait() {
    let limits = ApiLimits { wait_rereads: 3, ..ApiLimits::default() };
    let pause = limits.wait_pause;
    let house = house_limited(limits).await;
    let id = house.accept("a").await;
    let wait = format!("/api/v1/tx/{id}?wait=30s");
    let mut waiting = Box::pin(house.get(&wait));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    for _ in 0..100 {
        house.bell.ring(&treasury());
        assert!(futures_util::poll!(&mut waiting).is_pending(), "a hint of another ended a wait");
    }
    // The first read, and one for each hint that is followed at once.
    assert_eq!(house.bell.listeners.load(Ordering::Relaxed), 4);
    house.time.pass(pause);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert_eq!(house.bell.listeners.load(Ordering::Relaxed), 5);
    fixtures::bind_next(&house.store, &treasury()).await;
    house.bell.ring(&treasury());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    house.time.pass(pause);
    assert_eq!(soon("the change", waiting).await.json()["state"], "ALLOCATED");

    let mut command = Box::pin(house.post("/api/v1/submitters/treasury/pause?wait=10s", ""));
    assert!(futures_util::poll!(&mut command).is_pending());
    for _ in 0..100 {
        house.bell.ring(&treasury());
        assert!(futures_util::poll!(&mut command).is_pending(), "a hint ended the wait for a command");
    }
    house.time.all_over();
    assert_eq!(soon("the deadline", command).await.json()["state"], "open");
}

#[tokio::test]
async fn command_is_durable_and_can_be_waited_for() {
    let house = house().await;
    let put = house.post("/api/v1/submitters/treasury/pause", "").await;
    assert_eq!((put.status.as_u16(), &put.json()["state"]), (202, &"open".into()));
    let mut waiting = Box::pin(house.post("/api/v1/submitters/treasury/resume?wait=10s", ""));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let lane = treasury();
    let view = fixtures::view(&house.store, &lane).await;
    let kinds: Vec<&str> = view.lane.commands.iter().map(|command| command.kind.as_str()).collect();
    assert_eq!(kinds, ["pause", "resume"]);
    fixtures::commit_done(&house.store, &lane, |commit| {
        commit.set_paused(&view.cursor, true, NodeText::new("api")).unwrap();
        for command in &view.lane.commands {
            commit.command_done(command, CommandResult::Done(CommandReport::new("done so\nby the lane")));
        }
    })
    .await;
    house.bell.ring(&lane);
    let done = soon("the command", waiting).await;
    assert_eq!((done.status.as_u16(), &done.json()["state"]), (200, &"done".into()));
    let id = put.json()["commandId"].as_str().unwrap().to_owned();
    let looked = house.get(&format!("/api/v1/commands/{id}")).await.json();
    assert_eq!(looked, serde_json::json!({"commandId": id, "state": "done", "result": "done so\nby the lane"}));
    assert_eq!(house.get("/api/v1/submitters/treasury").await.json()["paused"], true);
}
