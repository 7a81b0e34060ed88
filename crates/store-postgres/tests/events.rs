//! Events are read in the order of commits, although transactions do not end in the order in which they began.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::sync::Arc;

use gapless_domain::{Event, EventBody, EventPosition};
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

/// A logical restore: transaction ids start again, so the old events would sort behind all new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_delivered_again_on_another_server() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let node: f::Node = Arc::clone(&store) as f::Node;
    let lane = f::lane(&node, 1).await;
    let ids = f::accept(&node, &lane, &["one", "two"]).await;
    db.raw()
        .await
        .batch_execute(
            "UPDATE store_epoch SET system_identifier = 'the old server';
             UPDATE tx_event SET xid = '9000000000000';
             INSERT INTO event_consumer VALUES ('webhooks', '9000000000000', 1000000, 'gone', '-infinity')",
        )
        .await
        .unwrap();
    assert_eq!(
        store.claim_events("webhooks", 10).await.unwrap(),
        Some(vec![]),
        "before notice is taken of the new server"
    );
    db.open("b").await;
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        claimed = store.claim_events("webhooks", 10).await.unwrap().unwrap();
        f::pause().await;
    }
    assert_eq!(claimed.iter().filter_map(f::intent_of).collect::<Vec<_>>(), ids);
}
