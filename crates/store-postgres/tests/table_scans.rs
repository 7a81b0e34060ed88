//! No statement reads a growing table from end to end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use gapless_domain::{SendOutcome, SendReport, Transition};
use gapless_store::RetentionKind;
use gapless_store::conformance::fixtures as f;
use support::Database;
use tokio_postgres::Client;

/// The tables that grow with the work that was done.
const TABLES: &str = "'managed_tx', 'archived_tx', 'request_key', 'slot', 'tx_attempt', 'archived_attempt', \
    'submitter_nonce_allocation', 'tx_event', 'archived_event', 'lane_command', 'audit_log'";

/// A planner without statistics prefers to read a new table whole. Then the cost of one lane grows with the work of all
/// others.
#[tokio::test]
async fn steps_of_an_intent_scan_no_growing_table() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let raw = db.raw().await;
    let before = reads(&raw).await;
    let lane = f::lane(&node, 1).await;
    // More rounds than a server makes custom plans for a statement.
    for round in 0..8 {
        let requests: Vec<String> = (0..20).map(|n| format!("{round}-{n}")).collect();
        let ids = f::accept(&node, &lane, &requests.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let first = f::bind_next(&node, &lane).await;
        let sent = node.attempts(first.id).await.unwrap().remove(0);
        f::commit_done(&node, &lane, |commit| {
            let (nonce, hash, text) = (sent.nonce, sent.hash, f::text(""));
            commit.report(SendReport { nonce, hash, outcome: SendOutcome::Accepted, text, answers: Vec::new() });
        })
        .await;
        f::change(&node, &lane, first.id, Transition::Acknowledge).await;
        f::confirm(&node, &lane, first.id).await;
        let cursor = f::view(&node, &lane).await.cursor;
        f::commit_done(&node, &lane, |commit| {
            commit.close_below(&cursor, cursor.next_nonce).unwrap();
        })
        .await;
        node.get(&ids).await.unwrap();
        node.lanes_with_work(None, 10).await.unwrap();
        node.lane_status(std::slice::from_ref(&lane)).await.unwrap();
        node.cancel_queued(&ids[19..]).await.unwrap();
        f::pause().await;
        for kind in RetentionKind::ALL {
            node.apply_retention(*kind, Duration::ZERO, 1).await.unwrap();
        }
    }
    let written =
        |counts: &[(String, i64, i64)]| counts.iter().any(|(table, _, rows)| table == "managed_tx" && *rows >= 160);
    let all_reported = async {
        loop {
            let after = reads(&raw).await;
            if written(&after) {
                return after;
            }
            f::pause().await;
        }
    };
    let after = f::soon("the statistics of all sessions", all_reported).await;
    let scans = |counts: &[(String, i64, i64)]| {
        counts.iter().map(|(table, scans, _)| (table.clone(), *scans)).collect::<Vec<_>>()
    };
    assert_eq!(scans(&after), scans(&before));
}

/// Each table, how often it was read whole, and how many rows were inserted. Sessions report their statistics when they
/// are idle.
async fn reads(raw: &Client) -> Vec<(String, i64, i64)> {
    let sql = format!(
        "SELECT relname::text, coalesce(seq_scan, 0), n_tup_ins FROM pg_stat_user_tables
         WHERE relname IN ({TABLES}) ORDER BY 1"
    );
    raw.query(&sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}
