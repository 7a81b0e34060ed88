//! The schema: how it gets there, what it refuses, and what it does not let pass even if the code would.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, Claim, CommandKind, CommandStatus, ConfirmationNotice, Cursor, EventBody, Head, Inclusion,
    MempoolSignal, Mined, NewCommand, OwnerId, Progress, SendOutcome, SlotKind, Transition,
};
use gapless_store::conformance::fixtures as f;
use gapless_store::{Accepted, NewIntent, RetentionKind, Store, StoreError, Wakeup};
use gapless_store_postgres::{PgOptions, PgStore};
use support::{Database, Scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_may_start_on_an_empty_database_at_once() {
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
async fn a_schema_that_is_not_ours_is_refused_with_a_reason() {
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

/// proves O04
#[tokio::test]
async fn a_database_of_the_first_schema_is_brought_up_to_date_with_what_it_holds() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let start = Cursor::starting_at(f::nonce(0));
    f::commit_done(&node, &lane, |commit| {
        commit.bind_fill(&start, f::nonce(0)).unwrap();
    })
    .await;
    node.release(&[f::acquire(&node, &lane).await]).await.unwrap();
    drop(node);
    let back = format!(
        "{WITHOUT_RETENTION}; {WITHOUT_CONTROL}; {WITHOUT_RECONCILING}; {WITHOUT_CONFIRMATIONS};
         ALTER TABLE submitter_nonce_cursor DROP COLUMN has_open;
         DELETE FROM schema_migration WHERE version >= 2"
    );
    db.raw().await.batch_execute(&back).await.unwrap();

    let store = db.open("b").await;
    assert_eq!(store.lanes_with_work(None, 10).await.unwrap(), [lane]);
}

/// Back to where no event has a notice, no intent knows its block's parent or what was told of it, and no head has a tail.
const WITHOUT_CONFIRMATIONS: &str = "
    ALTER TABLE tx_event DROP COLUMN notice;
    ALTER TABLE archived_event DROP COLUMN notice;
    ALTER TABLE chain_head DROP COLUMN tail_first, DROP COLUMN tail, DROP COLUMN genesis;
    UPDATE managed_tx SET detail = (detail #- '{inclusion,parent_hash}') - 'told';
    UPDATE tx_event SET detail = (detail #- '{inclusion,parent_hash}') - 'told';
    UPDATE archived_event SET detail = (detail #- '{inclusion,parent_hash}') - 'told'";

/// proves O04
#[tokio::test]
async fn a_database_without_confirmations_is_brought_up_to_date_with_what_it_holds() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let (ended, open) = (f::bound(&node, &lane, "ended").await.id, f::bound(&node, &lane, "open").await.id);
    f::confirm(&node, &lane, ended).await;
    let hash = node.attempts(open).await.unwrap()[0].hash;
    let mined = f::inclusion(hash, AttemptKind::Original, 7);
    f::change(&node, &lane, open, Transition::Mine(mined.clone())).await;
    f::pause().await;
    assert_eq!(node.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    let chain = "eip155:31337".parse().unwrap();
    let saved = Head { tail: f::tail(3..=9), finalized: Some(f::block(4)), genesis: Some(B256::ZERO) };
    node.save_head(&chain, &saved).await.unwrap();
    node.release(&[f::acquire(&node, &lane).await]).await.unwrap();
    drop(node);
    let back = format!(
        "{WITHOUT_RETENTION}; {WITHOUT_CONTROL}; {WITHOUT_RECONCILING}; {WITHOUT_CONFIRMATIONS};
         DELETE FROM schema_migration WHERE version >= 3"
    );
    db.raw().await.batch_execute(&back).await.unwrap();

    let node: f::Node = db.open("b").await;
    let kept = Head { tail: f::tail(9..=9), finalized: Some(f::block(4)), genesis: None };
    assert_eq!(node.head(&chain).await.unwrap(), Some(kept));
    let inclusion = Inclusion { parent_hash: B256::ZERO, ..mined };
    let told = inclusion.block;
    let progress = f::record(&node, open).await.state.bound().unwrap().progress.clone();
    assert_eq!(progress, Progress::Mined(Mined { inclusion, told }));
    for id in [ended, open] {
        let events = node.events_of(id, 100).await.unwrap();
        assert!(events.len() >= 3, "{events:?}");
        assert!(events.iter().all(|event| matches!(&event.body, EventBody::Tx { notice: None, .. })), "{events:?}");
    }
    // And it goes on from there.
    f::change(&node, &lane, open, Transition::Confirm(f::notice(false, 8..=9))).await;
    f::change(&node, &lane, open, Transition::Settle(None)).await;
    f::pause().await;
    assert_eq!(node.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    let told = node.events_of(open, 100).await.unwrap();
    let notices: Vec<_> = told.iter().filter_map(|event| notice(&event.body)).collect();
    assert_eq!(notices, [f::notice(false, 8..=9)]);
}

/// Back to where slots have no evidence, nobody is audited, and what is done was not refused.
const WITHOUT_RECONCILING: &str = "
    DROP INDEX managed_tx_queue;
    DROP TABLE audit_log;
    ALTER TABLE slot DROP COLUMN above_hash, DROP COLUMN above_block, DROP COLUMN evidence;
    ALTER TABLE submitter_nonce_cursor DROP COLUMN low_balance;
    ALTER TABLE lane_command DROP COLUMN refused";

/// proves O04
#[tokio::test]
async fn a_database_without_an_audit_log_is_brought_up_to_date_with_what_it_holds() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let open = f::bound(&node, &lane, "open").await.id;
    let kinds = [CommandKind::Pause, CommandKind::Unprotect];
    let put = kinds.map(|kind| NewCommand { submitter: lane.clone(), kind, issued_by: f::text("op") });
    let ids = node.put_commands(&put).await.unwrap();
    let seen = f::view(&node, &lane).await;
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(7))).adopt_foreign(&seen.cursor, f::nonce(1), f::text("forgotten")).unwrap();
        commit.set_paused(&seen.cursor, true, f::text("asked")).unwrap();
        commit.command_done(&seen.lane.commands[0], f::done("paused"));
    })
    .await;
    node.release(&[f::acquire(&node, &lane).await]).await.unwrap();
    drop(node);
    let back = format!(
        "{WITHOUT_RETENTION}; {WITHOUT_CONTROL}; {WITHOUT_RECONCILING}; DELETE FROM schema_migration WHERE version >= 4"
    );
    db.raw().await.batch_execute(&back).await.unwrap();

    let node: f::Node = db.open("b").await;
    let seen = f::view(&node, &lane).await;
    assert_eq!((seen.cursor.next_nonce, seen.cursor.paused, seen.cursor.low_balance), (f::nonce(2), true, false));
    let slots = node.open_slots(&lane, None, 10).await.unwrap();
    assert_eq!(
        slots.iter().map(|status| status.slot.kind).collect::<Vec<_>>(),
        [SlotKind::Intent(open), SlotKind::Foreign]
    );
    assert!(slots.iter().all(|status| status.slot.above.is_none() && status.slot.evidence.is_none()));
    assert_eq!((slots[0].tx.as_ref().map(|tx| tx.id), slots[0].attempts.len()), (Some(open), 1));
    let status = [CommandStatus::Over(f::done("paused")), CommandStatus::Open].map(Some);
    assert_eq!(node.commands(&ids).await.unwrap(), status);
    assert_eq!(f::audits(&node, &lane).await, []);
    // And it goes on from there.
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(9))).adopt_foreign(&seen.cursor, f::nonce(2), f::text("0xabc")).unwrap();
        commit.set_low_balance(&seen.cursor, true, f::text("3 wei")).unwrap();
        commit.command_done(&seen.lane.commands[0], f::refused("the cause persists"));
    })
    .await;
    let newest = node.open_slots(&lane, Some(f::nonce(2)), 10).await.unwrap().remove(0).slot;
    assert_eq!((newest.above, newest.evidence), (Some(f::block(9)), Some(f::text("0xabc"))));
    assert!(f::view(&node, &lane).await.cursor.low_balance);
    let over = CommandStatus::Over(f::refused("the cause persists"));
    assert_eq!(node.commands(&ids).await.unwrap()[1], Some(over));
    assert_eq!(f::audits(&node, &lane).await.len(), 1);
}

/// A number without a hash cannot be checked, and is no floor.
///
/// proves O04
#[tokio::test]
async fn a_slot_that_knows_only_the_number_of_its_floor_has_none() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let start = Cursor::starting_at(f::nonce(0));
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(7))).bind_fill(&start, f::nonce(0)).unwrap();
    })
    .await;
    node.release(&[f::acquire(&node, &lane).await]).await.unwrap();
    drop(node);
    let back = format!(
        "{WITHOUT_RETENTION}; {WITHOUT_CONTROL};
         DROP INDEX managed_tx_queue; ALTER TABLE slot DROP COLUMN above_hash;
         DELETE FROM schema_migration WHERE version >= 5"
    );
    db.raw().await.batch_execute(&back).await.unwrap();

    let node: f::Node = db.open("b").await;
    let number = db.raw().await.query_one("SELECT above_block FROM slot", &[]).await.unwrap();
    assert_eq!(number.get::<_, Option<i64>>(0), Some(7));
    let seen = f::view(&node, &lane).await;
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(9))).bind_fill(&seen.cursor, f::nonce(1)).unwrap();
    })
    .await;
    let above: Vec<_> = f::view(&node, &lane).await.lane.slots.iter().map(|slot| slot.above).collect();
    assert_eq!(above, [None, Some(f::block(9))]);
}

/// Back to where nothing is replaced, no send is history, slots count no tries, and there are more indexes.
const WITHOUT_CONTROL: &str = "
    CREATE INDEX managed_tx_open ON managed_tx (submitter, seq) WHERE ended_at IS NULL;
    ALTER TABLE tx_attempt ADD UNIQUE (submitter, hash);
    ALTER TABLE managed_tx DROP COLUMN replacement;
    ALTER TABLE archived_tx DROP COLUMN replacement;
    ALTER TABLE tx_attempt DROP COLUMN history;
    ALTER TABLE archived_attempt DROP COLUMN history;
    ALTER TABLE slot DROP COLUMN tries, DROP COLUMN signal";

/// proves O04
#[tokio::test]
async fn a_database_without_replacements_and_history_is_brought_up_to_date_with_what_it_holds() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let (ended, open) = (f::bound(&node, &lane, "ended").await.id, f::bound(&node, &lane, "open").await.id);
    let queued = f::accept(&node, &lane, &["queued"]).await[0];
    let made = [0, 1].map(|at| f::attempt(f::nonce(at), 0, "bind"));
    let send = |at: usize| f::report(&made[at], SendOutcome::Accepted, "taken");
    f::commit_done(&node, &lane, |commit| {
        commit.report(send(0)).report(send(1)).claim_resubmit(f::claim(f::nonce(1), Duration::from_secs(60)));
    })
    .await;
    f::confirm(&node, &lane, ended).await;
    let cursor = f::view(&node, &lane).await.cursor;
    f::commit_done(&node, &lane, |commit| {
        commit.close_below(&cursor, f::nonce(1)).unwrap();
    })
    .await;
    f::pause().await;
    assert_eq!(node.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    let claimed = f::view(&node, &lane).await.lane.slots[0].next_resubmit_at;
    node.release(&[f::acquire(&node, &lane).await]).await.unwrap();
    drop(node);
    let back = format!("{WITHOUT_RETENTION}; {WITHOUT_CONTROL}; DELETE FROM schema_migration WHERE version >= 7");
    db.raw().await.batch_execute(&back).await.unwrap();
    let options = PgOptions { migrate: false, ..db.options.clone() };
    let older = PgStore::open(&db.url, OwnerId::new("b", 1), options).await;
    assert!(matches!(older, Err(StoreError::SchemaIsOlder { found: 6, known: 10 })));

    let node: f::Node = db.open("b").await;
    for id in [ended, open, queued] {
        assert_eq!(f::record(&node, id).await.replacement, None);
    }
    for id in [ended, open] {
        let attempt = node.attempts(id).await.unwrap().remove(0);
        assert_eq!((attempt.sends, attempt.history.len()), (1, 0), "that it was sent is known, and no more");
    }
    let slot = f::view(&node, &lane).await.lane.slots.remove(0);
    assert_eq!((slot.tries, slot.signal, slot.next_resubmit_at), (0, None, claimed));
    // And it goes on from there, up to what retention moves out beside what it moved before.
    let dropped = Some(MempoolSignal::LikelyDropped);
    f::commit_done(&node, &lane, |commit| {
        let claim = f::claim(f::nonce(1), Duration::from_secs(60));
        commit.report(send(1)).claim_resubmit(Claim { signal: dropped, ..claim });
    })
    .await;
    for id in [open, queued] {
        let tx = f::change(&node, &lane, id, Transition::WantReplace(f::transfer(7))).await;
        assert_eq!(tx.payload(), &f::transfer(7));
    }
    let status = node.open_slots(&lane, Some(f::nonce(1)), 10).await.unwrap().remove(0);
    assert_eq!((status.slot.tries, status.slot.signal), (1, dropped));
    assert_eq!((status.attempts[0].sends, status.attempts[0].history.len()), (2, 1));
    let before = f::confirm(&node, &lane, open).await;
    f::pause().await;
    assert_eq!(node.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    assert_eq!((f::record(&node, open).await, node.attempts(open).await.unwrap()), (before, status.attempts));
}

/// Back to the schema in which moved-out intents keep their events and attempts for ever, and events have plain
/// positions.
const WITHOUT_RETENTION: &str = "
    ALTER TABLE tx_event ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
    DROP FUNCTION event_xid();
    DROP TABLE event_origin;
    DROP TABLE retention_claim;
    ALTER TABLE node DROP COLUMN dead_seen_at, DROP COLUMN dead_marked_at;
    DROP INDEX tx_event_of_lanes;
    DROP INDEX lane_command_done;
    ALTER TABLE archived_tx DROP COLUMN has_events, DROP COLUMN has_attempts";

/// proves O04
#[tokio::test]
async fn database_without_retention_is_brought_up_to_date() {
    let db = Database::shared().await;
    let node: f::Node = db.open("a").await;
    let lane = f::lane(&node, 1).await;
    let ended = f::bound(&node, &lane, "ended").await.id;
    f::confirm(&node, &lane, ended).await;
    f::close_all(&node, &lane).await;
    let waiting = f::accept(&node, &lane, &["waiting"]).await[0];
    f::pause().await;
    assert_eq!(f::move_out(&node, 10).await, 1);
    let before = f::events(&node).await;
    node.release(&[f::acquire(&node, &lane).await]).await.unwrap();
    drop(node);
    let back = format!("{WITHOUT_RETENTION}; DELETE FROM schema_migration WHERE version >= 10");
    db.raw().await.batch_execute(&back).await.unwrap();

    let node: f::Node = db.open("b").await;
    assert_eq!((node.attempts(ended).await.unwrap().len(), node.events_of(ended, 9).await.unwrap().len()), (1, 4));
    let record = f::record(&node, ended).await;
    for kind in [RetentionKind::Attempts, RetentionKind::Events] {
        assert_eq!((f::retain(&node, kind, 10).await, f::retain(&node, kind, 10).await), (1, 0));
    }
    assert_eq!((node.attempts(ended).await.unwrap(), node.events_of(ended, 9).await.unwrap()), (vec![], vec![]));
    assert_eq!(f::record(&node, ended).await, record);
    node.cancel_queued(&[waiting]).await.unwrap();
    let after = f::events(&node).await;
    assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1), "positions go on");
}

/// While a release is rolled out, nodes of the one before write cursors, slots and results as they know them.
#[tokio::test]
async fn what_an_older_node_writes_is_no_damage() {
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
        INSERT INTO slot (submitter, nonce, kind, fencing_token, above_block) SELECT submitter, 0, 'foreign', 1, 7 FROM submitter;
        UPDATE submitter_nonce_cursor SET next_nonce = 1, version = version + 1;
        INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, fencing_token, sends, last_sent_at, last_outcome, last_text)
        SELECT submitter, 0, 0, 'fill', decode(repeat('00', 32), 'hex'), '', '{\"gas_price\":\"1\"}', 1, 1, clock_timestamp(), 'accepted', ''
        FROM submitter;
        UPDATE lane_command SET done_at = clock_timestamp(), result = 'paused'";
    db.raw().await.batch_execute(older).await.unwrap();
    let seen = f::view(&node, &lane).await;
    assert_eq!((seen.cursor.low_balance, seen.lane.slots.len(), &seen.lane.slots[0].evidence), (true, 1, &None));
    assert_eq!((seen.lane.slots[0].tries, seen.lane.slots[0].signal), (0, None));
    let attempts = node.open_slots(&lane, None, 10).await.unwrap().remove(0).attempts;
    assert_eq!((attempts[0].sends, attempts[0].history.len()), (1, 0));
    assert_eq!(seen.lane.slots[0].above, None, "by its number alone nobody can tell which block it was");
    assert_eq!(node.commands(&[id]).await.unwrap(), [Some(CommandStatus::Over(f::done("paused")))]);
}

fn notice(body: &EventBody) -> Option<ConfirmationNotice> {
    match body {
        EventBody::Tx { notice, .. } => notice.clone(),
        EventBody::Lane { .. } => None,
    }
}

/// While a release is rolled out, nodes of the one before write heads as they know them.
#[tokio::test]
async fn a_head_of_an_older_node_is_not_taken_for_the_tail_beside_it() {
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

/// Better no connection than one in the clear that was asked to be encrypted.
#[tokio::test]
async fn a_demand_for_tls_is_not_passed_over() {
    let db = Database::shared().await;
    let url = format!("{}?sslmode=require", db.url);
    let opened = PgStore::open(&url, OwnerId::new("a", 1), db.options.clone()).await;
    assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
}

#[tokio::test]
async fn an_url_that_cannot_be_read_is_not_repeated() {
    let opened = PgStore::open("postgres://me:secret@[", OwnerId::new("a", 1), PgOptions::default()).await;
    let error = opened.unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}

/// proves N08
#[tokio::test]
async fn the_database_refuses_what_the_code_would_never_write() {
    let db = Database::shared().await;
    let scene = Scene::on(db.open("a").await, &["one", "two"]).await;
    scene.write(scene.bind().await).await.unwrap().unwrap();
    let head = Head { tail: f::tail(3..=9), finalized: Some(f::block(4)), genesis: Some(B256::ZERO) };
    scene.store.save_head(&"eip155:31337".parse().unwrap(), &head).await.unwrap();
    let raw = db.raw().await;
    for wrong in [
        "INSERT INTO slot (submitter, nonce, kind, fencing_token) SELECT submitter, nonce, 'fill', 1 FROM slot",
        "INSERT INTO tx_attempt SELECT submitter, nonce, ordinal, tx_id, kind, hash, raw, fees, 0, NULL, NULL, NULL, 1 FROM tx_attempt",
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
        "INSERT INTO tx_event (submitter, tx_id, seq, kind, state, detail) SELECT submitter, tx_id, seq, kind, state, detail FROM tx_event",
    ] {
        let refused = raw.batch_execute(wrong).await;
        let code = refused.expect_err(wrong).code().unwrap().code().to_owned();
        assert!(code.starts_with("23"), "{wrong}: {code}");
    }
}

/// A NUL is refused long before it comes here. If one comes all the same, it fails alone.
///
/// proves W08
#[tokio::test]
async fn a_nul_in_one_row_fails_that_row_alone() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let lane = f::lane(&(Arc::clone(&store) as f::Node), 1).await;
    let plain = f::intent(&lane, "nul");
    let smuggled = gapless_domain::Intent::restore(
        lane.clone(),
        plain.request_id().clone(),
        plain.payload().clone(),
        plain.speed(),
        None,
        Some(gapless_domain::Metadata::restore("\"\0\"".to_owned())),
    );
    let bad = NewIntent { id: f::fresh_id(), intent: smuggled };
    let batch = [f::new_intent(&lane, "before"), bad, f::new_intent(&lane, "after")];
    let verdicts = store.accept(&batch).await.unwrap();
    assert!(matches!(verdicts[1], Accepted::Refused(_)), "{verdicts:?}");
    assert_eq!((&verdicts[0], &verdicts[2]), (&Accepted::New, &Accepted::New));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_wake_up_connection_comes_back_and_says_look_everywhere() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let (mut wakeups, mut changes) = (store.wakeups(), store.changes());
    assert_eq!(f::soon("the first look", wakeups.next()).await, Wakeup::Everywhere);
    assert_eq!(f::soon("the first look", changes.next()).await, Wakeup::Everywhere);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND query LIKE '%pg_backend_pid()%' AND pid <> pg_backend_pid()";
    assert_eq!(db.raw().await.execute(end, &[]).await.unwrap(), 1);
    assert_eq!(f::soon("the second look", wakeups.next()).await, Wakeup::Everywhere);
    assert_eq!(f::soon("the second look", changes.next()).await, Wakeup::Everywhere);
    // And it works again.
    let other = db.open("b").await;
    let lane = f::lane(&(Arc::clone(&other) as f::Node), 1).await;
    f::accept(&(Arc::clone(&other) as f::Node), &lane, &["r"]).await;
    while f::soon("the wake-up", wakeups.next()).await != Wakeup::Lane(lane.clone()) {}
    while f::soon("the change", changes.next()).await != Wakeup::Lane(lane.clone()) {}
}

/// A notification costs the server as much as a commit, so none is sent that nobody would hear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_alone_sends_nothing() {
    let db = Database::shared().await;
    let first = db.open("first").await;
    let mut wakeups = first.wakeups();
    let node: f::Node = Arc::clone(&first) as f::Node;
    let (before, after) = (f::lane(&node, 1).await, f::lane(&node, 2).await);
    // It has connected, and made its own announcement, before it finds that it is alone.
    f::soon("the first look", wakeups.next()).await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let listener = listen(&db.url, told).await;
    listener.batch_execute("LISTEN gapless_wake; LISTEN gapless_changed").await.unwrap();
    first.renew().await.unwrap();
    f::bound(&node, &before, "r").await;

    // Whatever had been sent by now would be heard before what comes after the newcomer.
    let _newcomer = db.open("newcomer").await;
    let mut all = Vec::new();
    for n in 0.. {
        f::accept(&node, &after, &[format!("heard-{n}").as_str()]).await;
        f::pause().await;
        all.extend(std::iter::from_fn(|| heard.try_recv().ok()));
        let told = |channel: &str| all.contains(&(channel.to_owned(), after.as_str().to_owned()));
        if told("gapless_wake") && told("gapless_changed") {
            break;
        }
        assert!(n < 500, "the newcomer is never told: {all:?}");
    }
    assert!(!all.iter().any(|(_, lane)| lane == before.as_str()), "{all:?}");
}

/// A connection that passes on the channel and the payload of every notification.
async fn listen(url: &str, told: tokio::sync::mpsc::UnboundedSender<(String, String)>) -> tokio_postgres::Client {
    let (client, mut connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let tokio_postgres::AsyncMessage::Notification(notification) = message {
                let _ = told.send((notification.channel().to_owned(), notification.payload().to_owned()));
            }
        }
    });
    client
}

/// Nobody is told while nobody is there; whoever comes is told from then on, without waiting for a renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_alone_notices_company() {
    let db = Database::shared().await;
    let first = db.open("first").await;
    let node: f::Node = Arc::clone(&first) as f::Node;
    let lane = f::lane(&node, 1).await;
    first.renew().await.unwrap();
    let newcomer = db.open("newcomer").await;
    let mut wakeups = newcomer.wakeups();
    for n in 0.. {
        f::accept(&node, &lane, &[format!("heard-{n}").as_str()]).await;
        f::pause().await;
        if std::iter::from_fn(|| wakeups.try_next()).any(|wakeup| wakeup == Wakeup::Lane(lane.clone())) {
            return;
        }
        assert!(n < 500, "the newcomer is never told");
    }
}
