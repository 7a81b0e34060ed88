//! Events are read in the order of commits, although transactions do not end in the order in which they began.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::sync::Arc;

use gapless_domain::{Event, EventBody, EventPosition, TxId};
use gapless_store::Outbox;
use gapless_store::conformance::fixtures as f;
use support::Database;

/// proves W07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_that_commits_late_is_not_skipped() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let node: f::Node = Arc::clone(&store) as f::Node;
    let lane = f::lane(&node, 1).await;
    let late = db.raw().await;
    late.batch_execute("BEGIN").await.unwrap();
    let insert = "INSERT INTO tx_event (submitter, seq, kind, text) VALUES ($1, 1, 'paused', 'late')";
    late.execute(insert, &[&lane.as_str()]).await.unwrap();
    let early = f::accept(&node, &lane, &["early"]).await[0];

    // A reader of all visible events would take the early one now, and skip the late one.
    let seen = store.read_events(EventPosition::default(), 10).await.unwrap();
    assert_eq!(seen, []);
    late.batch_execute("COMMIT").await.unwrap();

    let mut seen: Vec<Event> = Vec::new();
    while seen.len() < 2 {
        let after = seen.last().map_or(EventPosition::default(), |event| event.position);
        seen.extend(store.read_events(after, 1).await.unwrap());
        f::pause().await;
    }
    assert!(matches!(seen[0].body, EventBody::Lane { seq: 1, .. }), "{seen:?}");
    assert_eq!(f::intent_of(&seen[1]), Some(early));
    assert!(seen[0].position < seen[1].position);
}

/// The state after a logical restore: the ledger was written on a server with high transaction ids, and the ids of this
/// server are low.
async fn restore_from_another_server(db: &Database) {
    db.raw()
        .await
        .batch_execute(
            "UPDATE store_epoch SET system_identifier = 'the old server';
             UPDATE tx_event SET xid = '9000000000000';
             INSERT INTO event_consumer
             SELECT 'webhooks', xid, id, 'gone', '-infinity' FROM tx_event ORDER BY xid, id LIMIT 1;
             INSERT INTO event_consumer VALUES ('ahead', '9000000000999', 7, 'gone', '-infinity')",
        )
        .await
        .unwrap();
}

/// The intents of the next events of a consumer, once there are `count` of them.
async fn next(node: &f::Node, consumer: &str, count: usize) -> Vec<TxId> {
    loop {
        // Another process may still hold the claim.
        let events = node.claim_events(consumer, 10).await.unwrap().unwrap_or_default();
        if events.len() >= count {
            return events.iter().filter_map(f::intent_of).collect();
        }
        f::pause().await;
    }
}

/// Transaction ids start again on another server. No event moves, no consumer gets an event twice, and no consumer
/// misses a new one, not even a consumer that had handled events which were lost with the old server.
///
/// proves W07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_continue_at_their_positions_on_another_server() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let mut ids = f::accept(&node, &lane, &["one", "two"]).await;
    restore_from_another_server(&db).await;
    let node: f::Node = db.open("b").await;
    f::declare_reconciled(&node, "nothing was lost").await;
    for (number, request) in ["three", "four"].into_iter().enumerate() {
        let lane = f::lane(&node, 2 + number as u64).await;
        ids.extend(f::accept(&node, &lane, &[request]).await);
    }
    assert_eq!(next(&node, "webhooks", 3).await, ids[1..]);
    assert_eq!(next(&node, "ahead", 2).await, ids[2..]);
    let all: Vec<TxId> = f::events(&node).await.iter().filter_map(f::intent_of).collect();
    assert_eq!(all, ids);

    // Another server again: the positions of the server before are still below those of the next one.
    db.raw().await.batch_execute("UPDATE store_epoch SET system_identifier = 'the one before'").await.unwrap();
    let node: f::Node = db.open("c").await;
    f::declare_reconciled(&node, "nothing was lost").await;
    let lane = f::lane(&node, 4).await;
    ids.extend(f::accept(&node, &lane, &["five"]).await);
    assert_eq!(next(&node, "ahead", 3).await, ids[2..]);
}

/// The cost of another server does not depend on the number of events: no row of their table is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_is_noticed_without_writing_events() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    f::accept(&node, &lane, &["one", "two"]).await;
    restore_from_another_server(&db).await;
    let gate = db.raw().await;
    gate.batch_execute("BEGIN; LOCK TABLE tx_event, event_consumer IN SHARE MODE").await.unwrap();
    f::soon("a start beside locked events", db.open("b")).await;
    gate.batch_execute("COMMIT").await.unwrap();
    let kept = gate.query_one("SELECT count(*) FROM tx_event WHERE xid = '9000000000000'", &[]).await.unwrap();
    assert_eq!(kept.get::<_, i64>(0), 2);
}
