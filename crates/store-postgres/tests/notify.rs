//! Wake-ups between nodes: LISTEN and NOTIFY.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::sync::Arc;

use gapless_store::conformance::fixtures as f;
use gapless_store::{Leases, Views, Wakeup};
use support::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_wake_up_connection_returns_and_wakes_everything() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let (mut wakeups, mut changes) = (store.wakeups(), store.changes());
    assert_eq!(f::soon("the first wake-up", wakeups.next()).await, Wakeup::Everywhere);
    assert_eq!(f::soon("the first wake-up", changes.next()).await, Wakeup::Everywhere);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND query LIKE '%pg_backend_pid()%' AND pid <> pg_backend_pid()";
    assert_eq!(db.raw().await.execute(end, &[]).await.unwrap(), 1);
    assert_eq!(f::soon("the wake-up after the reconnect", wakeups.next()).await, Wakeup::Everywhere);
    assert_eq!(f::soon("the wake-up after the reconnect", changes.next()).await, Wakeup::Everywhere);
    // The new connection receives notifications.
    let other = db.open("b").await;
    // The other node announces itself. Until this is read, the report of a single lane would be merged with it.
    assert_eq!(f::soon("the announcement", wakeups.next()).await, Wakeup::Everywhere);
    let lane = f::lane(&(Arc::clone(&other) as f::Node), 1).await;
    f::accept(&(Arc::clone(&other) as f::Node), &lane, &["r"]).await;
    while f::soon("the wake-up", wakeups.next()).await != Wakeup::Lane(lane.clone()) {}
    while f::soon("the change", changes.next()).await != Wakeup::Lane(lane.clone()) {}
}

/// A notification costs the server as much as a commit, so a node that is alone sends none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_is_alone_sends_no_notification() {
    let db = Database::shared().await;
    let first = db.open("first").await;
    let mut wakeups = first.wakeups();
    let node: f::Node = Arc::clone(&first) as f::Node;
    let (before, after) = (f::lane(&node, 1).await, f::lane(&node, 2).await);
    // The node has connected, and announced itself, before it finds that it is alone.
    f::soon("the first wake-up", wakeups.next()).await;
    let (sender, mut notifications) = tokio::sync::mpsc::unbounded_channel();
    let listener = listen(&db.url, sender).await;
    listener.batch_execute("LISTEN gapless_wake; LISTEN gapless_changed").await.unwrap();
    first.renew().await.unwrap();
    f::bound(&node, &before, "r").await;

    // A notification that was sent before would arrive before those that follow the newcomer.
    let _newcomer = db.open("newcomer").await;
    let mut all = Vec::new();
    for n in 0.. {
        f::accept(&node, &after, &[format!("after-{n}").as_str()]).await;
        f::pause().await;
        all.extend(std::iter::from_fn(|| notifications.try_recv().ok()));
        let notified = |channel: &str| all.contains(&(channel.to_owned(), after.as_str().to_owned()));
        if notified("gapless_wake") && notified("gapless_changed") {
            break;
        }
        assert!(n < 500, "the node sends no notification after the newcomer: {all:?}");
    }
    assert!(!all.iter().any(|(_, lane)| lane == before.as_str()), "{all:?}");
}

/// A connection that forwards the channel and the payload of every notification.
async fn listen(url: &str, sender: tokio::sync::mpsc::UnboundedSender<(String, String)>) -> tokio_postgres::Client {
    let (client, mut connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let tokio_postgres::AsyncMessage::Notification(notification) = message {
                let _ = sender.send((notification.channel().to_owned(), notification.payload().to_owned()));
            }
        }
    });
    client
}

/// A node that starts announces itself, so that the first node notifies it without waiting for a renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_was_alone_notifies_a_newcomer() {
    let db = Database::shared().await;
    let first = db.open("first").await;
    let node: f::Node = Arc::clone(&first) as f::Node;
    let lane = f::lane(&node, 1).await;
    first.renew().await.unwrap();
    let newcomer = db.open("newcomer").await;
    let mut wakeups = newcomer.wakeups();
    for n in 0.. {
        f::accept(&node, &lane, &[format!("after-{n}").as_str()]).await;
        f::pause().await;
        if std::iter::from_fn(|| wakeups.try_next()).any(|wakeup| wakeup == Wakeup::Lane(lane.clone())) {
            return;
        }
        assert!(n < 500, "the newcomer receives no wake-up");
    }
}
