//! The schema: concurrent migration, refused schemas and URLs, rows of older nodes, and rows that the tables refuse.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::sync::Arc;

use gapless_domain::{B256, CommandKind, CommandStatus, Cursor, Head, NewCommand, OwnerId};
use gapless_store::conformance::fixtures as f;
use gapless_store::{Accepted, Heads, IntentIntake, NewIntent, StoreError};
use gapless_store_postgres::{PgOptions, PgStore};
use support::{Database, Scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_migrate_an_empty_database_once() {
    let db = Arc::new(Database::shared().await);
    let starts: Vec<_> = (0..8)
        .map(|n| {
            let db = Arc::clone(&db);
            tokio::spawn(async move { db.open(&format!("node-{n}")).await })
        })
        .collect();
    for start in starts {
        start.await.unwrap();
    }
    let count = db.raw().await.query_one("SELECT count(*) FROM schema_migration", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 10);
}

#[tokio::test]
async fn older_newer_or_different_schema_is_refused() {
    let db = Database::shared().await;
    let open = |migrate| {
        let options = PgOptions { migrate, ..db.options.clone() };
        let url = db.url.clone();
        async move { PgStore::open(&url, OwnerId::new("a", uuid::Uuid::new_v4().as_u128()), options).await }
    };
    assert!(matches!(open(false).await, Err(StoreError::SchemaIsOlder { found: 0, known: 10 })));
    open(true).await.unwrap();
    open(false).await.unwrap();
    let raw = db.raw().await;
    raw.batch_execute("INSERT INTO schema_migration VALUES (11, 'from the future', 0)").await.unwrap();
    assert!(matches!(open(true).await, Err(StoreError::SchemaIsNewer { found: 11, known: 10 })));
    raw.batch_execute("DELETE FROM schema_migration WHERE version = 11; UPDATE schema_migration SET checksum = 0")
        .await
        .unwrap();
    assert!(matches!(open(true).await, Err(StoreError::MigrationDiffers { version: 1 })));
}

/// While a release is rolled out, nodes of the release before write cursors, slots and results without the new columns.
#[tokio::test]
async fn rows_of_an_older_node_load_beside_newer_ones() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let put = NewCommand { submitter: lane.clone(), kind: CommandKind::Pause, issued_by: f::text("op") };
    let id = node.put_commands(&[put]).await.unwrap()[0];
    let start = Cursor::starting_at(f::nonce(0));
    f::commit_done(&node, &lane, |commit| {
        commit.set_low_balance(&start, true, f::text("3 wei")).unwrap();
    })
    .await;
    let older = "
        INSERT INTO slot (submitter, nonce, kind, fencing_token, above_block)
        SELECT submitter, 0, 'foreign', 1, 7 FROM submitter;
        UPDATE submitter_nonce_cursor SET next_nonce = 1, version = version + 1;
        INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, fencing_token, sends, last_sent_at,
            last_outcome, last_text)
        SELECT submitter, 0, 0, 'fill', decode(repeat('00', 32), 'hex'), '', '{\"gas_price\":\"1\"}', 1, 1,
            clock_timestamp(), 'accepted', '' FROM submitter;
        UPDATE lane_command SET done_at = clock_timestamp(), result = 'paused'";
    db.raw().await.batch_execute(older).await.unwrap();
    let seen = f::view(&node, &lane).await;
    assert_eq!((seen.cursor.low_balance, seen.lane.slots.len(), &seen.lane.slots[0].evidence), (true, 1, &None));
    assert_eq!((seen.lane.slots[0].tries, seen.lane.slots[0].signal), (0, None));
    let attempts = node.open_slots(&lane, None, 10).await.unwrap().remove(0).attempts;
    assert_eq!((attempts[0].sends, attempts[0].history.len()), (1, 0));
    assert_eq!(seen.lane.slots[0].above, None, "a number without a hash names no block");
    assert_eq!(node.commands(&[id]).await.unwrap(), [Some(CommandStatus::Over(f::done("paused")))]);
}

/// While a release is rolled out, nodes of the release before write the newest block and leave the tail as it was.
#[tokio::test]
async fn head_of_an_older_node_replaces_the_stale_tail() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let chain = "eip155:31337".parse().unwrap();
    let saved = Head { tail: f::tail(3..=9), finalized: Some(f::block(4)), genesis: Some(B256::ZERO) };
    store.save_head(&chain, &saved).await.unwrap();
    let newer = f::link(10);
    let hashes = [newer.block.hash.to_vec(), newer.parent_hash.to_vec()];
    let older = "UPDATE chain_head SET number = 10, hash = $1, parent_hash = $2";
    db.raw().await.execute(older, &[&hashes[0], &hashes[1]]).await.unwrap();
    assert_eq!(store.head(&chain).await.unwrap(), Some(Head { tail: f::tail(10..=10), ..saved }));
}

/// The store has no TLS yet: a URL that demands it must not get a connection in the clear.
#[tokio::test]
async fn url_that_demands_tls_gets_no_connection() {
    let db = Database::shared().await;
    let url = format!("{}?sslmode=require", db.url);
    let opened = PgStore::open(&url, OwnerId::new("a", 1), db.options.clone()).await;
    assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
}

#[tokio::test]
async fn error_of_an_invalid_url_does_not_repeat_it() {
    let opened = PgStore::open("postgres://me:secret@[", OwnerId::new("a", 1), PgOptions::default()).await;
    let error = opened.unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}

/// proves N08
#[tokio::test]
async fn tables_refuse_rows_that_break_an_invariant() {
    let db = Database::shared().await;
    let scene = Scene::on(db.open("a").await, &["one", "two"]).await;
    scene.write(scene.bind().await).await.unwrap().unwrap();
    let head = Head { tail: f::tail(3..=9), finalized: Some(f::block(4)), genesis: Some(B256::ZERO) };
    scene.store.save_head(&"eip155:31337".parse().unwrap(), &head).await.unwrap();
    let raw = db.raw().await;
    for wrong in [
        "INSERT INTO slot (submitter, nonce, kind, fencing_token) SELECT submitter, nonce, 'fill', 1 FROM slot",
        "INSERT INTO tx_attempt
         SELECT submitter, nonce, ordinal, tx_id, kind, hash, raw, fees, 0, NULL, NULL, NULL, 1 FROM tx_attempt",
        "UPDATE managed_tx SET state = 'LOST'",
        "UPDATE managed_tx SET state = 'ALLOCATED', sub_state = 'PENDING', fencing_token = 1 WHERE nonce IS NULL",
        "UPDATE managed_tx SET nonce = 5 WHERE state = 'QUEUED'",
        "UPDATE managed_tx SET sub_state = NULL WHERE state = 'ALLOCATED'",
        "UPDATE managed_tx SET ended_at = now()",
        "UPDATE managed_tx SET state = 'CONFIRMED', sub_state = NULL WHERE state = 'ALLOCATED'",
        "UPDATE managed_tx SET fencing_token = 0 WHERE state = 'ALLOCATED'",
        "UPDATE submitter_nonce_cursor SET state = 'PROTECT'",
        "UPDATE submitter_nonce_cursor SET next_nonce = -1",
        "UPDATE submitter_nonce_cursor SET low_balance = NULL",
        "UPDATE slot SET above_block = -1",
        "UPDATE slot SET above_block = NULL, above_hash = decode(repeat('00', 32), 'hex')",
        "UPDATE slot SET above_block = 1, above_hash = '\\x00'",
        "UPDATE slot SET evidence = 'not foreign'",
        "UPDATE slot SET tries = -1",
        "UPDATE slot SET tries = 65536",
        "UPDATE slot SET tries = NULL",
        "UPDATE slot SET signal = 'lost'",
        "UPDATE tx_attempt SET history = NULL",
        "UPDATE tx_attempt SET history = '{}'",
        "INSERT INTO lane_command (submitter, kind, body, issued_by, refused) VALUES ('s', 'pause', '{}', 'me', TRUE)",
        "INSERT INTO audit_log (subject, actor, action) VALUES ('s', 'me', 'pause')",
        "UPDATE submitter_lease SET fencing_token = 0",
        "INSERT INTO tx_event (submitter, seq, kind, text, notice) VALUES ('s', 1, 'paused', '', '{}')",
        "UPDATE chain_head SET tail_first = NULL",
        "UPDATE chain_head SET tail = NULL",
        "UPDATE chain_head SET tail = substr(tail, 1, 32)",
        "UPDATE chain_head SET tail = substr(tail, 1, 65)",
        "UPDATE chain_head SET tail_first = -1",
        "UPDATE chain_head SET genesis = tail",
        "INSERT INTO tx_event (submitter, tx_id, seq, kind, state, detail)
         SELECT submitter, tx_id, seq, kind, state, detail FROM tx_event",
    ] {
        let refused = raw.batch_execute(wrong).await;
        let code = refused.expect_err(wrong).code().unwrap().code().to_owned();
        assert!(code.starts_with("23"), "{wrong}: {code}");
    }
}

/// The API refuses a NUL. If one gets to the store all the same, only its row fails.
///
/// proves W08
#[tokio::test]
async fn row_with_a_nul_fails_alone() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let lane = f::lane(&(Arc::clone(&store) as f::Node), 1).await;
    let plain = f::intent(&lane, "nul");
    let with_nul = gapless_domain::Intent::restore(
        lane.clone(),
        plain.request_id().clone(),
        plain.payload().clone(),
        plain.speed(),
        None,
        Some(gapless_domain::Metadata::restore("\"\0\"".to_owned())),
    );
    let bad = NewIntent { id: f::fresh_id(), intent: with_nul };
    let batch = [f::new_intent(&lane, "before"), bad, f::new_intent(&lane, "after")];
    let verdicts = store.accept(&batch).await.unwrap();
    assert!(matches!(verdicts[1], Accepted::Refused(_)), "{verdicts:?}");
    assert_eq!((&verdicts[0], &verdicts[2]), (&Accepted::New, &Accepted::New));
}
