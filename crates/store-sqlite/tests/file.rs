//! What can be wrong with a file: its schema, its contents, its room.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, Claim, CommandKind, CommandStatus, Cursor, Event, EventBody, EventPosition, Head, Inclusion,
    MempoolSignal, Mined, NewCommand, OwnerId, Progress, SendOutcome, SlotKind, Timestamp, Transition,
};
use gapless_store::conformance::fixtures as f;
use gapless_store::{Accepted, Acquired, CommitVerdict, ManualClock, NewSubmitter, RetentionKind, Store, StoreError};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use support::{
    Folder, accept, intent, is_there, lane, load, open, options, register, try_open, with_a_lane, write_lane,
};

/// Changes the database behind the store's back.
fn tamper(folder: &Folder, sql: &str) {
    Connection::open(folder.database()).unwrap().execute_batch(sql).unwrap();
}

fn open_without_migrating(folder: &Folder) -> Result<SqliteStore, StoreError> {
    let options = SqliteOptions { migrate: false, ..options() };
    SqliteStore::open(Location::File(folder.database()), OwnerId::new("test", 1), options)
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    tamper(&folder, "INSERT INTO schema_migration VALUES (11, 'from the future', 0, 0)");
    assert!(matches!(try_open(&folder.database()), Err(StoreError::SchemaIsNewer { found: 11, known: 10 })));
    tamper(&folder, "DELETE FROM schema_migration WHERE version = 11");
    assert!(is_there(&open(&folder.database()), "before").await);
}

#[tokio::test]
async fn a_migration_that_differs_is_refused() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    tamper(&folder, "UPDATE schema_migration SET checksum = checksum + 1");
    assert!(matches!(try_open(&folder.database()), Err(StoreError::MigrationDiffers { version: 1 })));
}

/// proves O04
#[tokio::test]
async fn a_database_of_the_first_schema_is_brought_up_to_date_with_what_it_holds() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let back = format!(
        "{WITHOUT_RETENTION} {WITHOUT_CONTROL} {WITHOUT_RECONCILING} {WITHOUT_CONFIRMATIONS}
         DROP INDEX submitter_nonce_cursor_open; DELETE FROM schema_migration WHERE version >= 2"
    );
    tamper(&folder, &back);
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 1, known: 10 })));

    let store = open(&folder.database());
    assert!(is_there(&store, "before").await);
    store.lanes_with_work(None, 10).await.unwrap();
}

/// Back to where no event has a notice, no intent knows its block's parent or what was told of it, and no head has a tail.
const WITHOUT_CONFIRMATIONS: &str = "
    ALTER TABLE tx_event DROP COLUMN notice;
    ALTER TABLE chain_head DROP COLUMN tail;
    ALTER TABLE chain_head DROP COLUMN tail_first;
    ALTER TABLE chain_head DROP COLUMN genesis;
    UPDATE managed_tx SET detail = json_remove(detail, '$.inclusion.parent_hash', '$.told');
    UPDATE tx_event SET detail = json_remove(detail, '$.inclusion.parent_hash', '$.told');
    UPDATE archived_tx SET doc = json_remove(doc, '$.events[0].notice', '$.events[1].notice', '$.events[2].notice',
        '$.events[3].notice');";

/// proves O04
#[tokio::test]
async fn a_database_without_confirmations_is_brought_up_to_date_with_what_it_holds() {
    let folder = Folder::new();
    let node = || Arc::new(open(&folder.database())) as f::Node;
    let first = node();
    let lane = f::lane(&first, 1).await;
    let (ended, waiting) = (f::bound(&first, &lane, "ended").await.id, f::bound(&first, &lane, "open").await.id);
    f::confirm(&first, &lane, ended).await;
    let hash = first.attempts(waiting).await.unwrap()[0].hash;
    let mined = f::inclusion(hash, AttemptKind::Original, 7);
    f::change(&first, &lane, waiting, Transition::Mine(mined.clone())).await;
    let chain = "eip155:31337".parse().unwrap();
    let saved = Head { tail: f::tail(3..=9), finalized: Some(f::block(4)), genesis: Some(B256::ZERO) };
    first.save_head(&chain, &saved).await.unwrap();
    drop(first);
    tamper(&folder, "UPDATE managed_tx SET updated_at = 0");
    assert_eq!(node().apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    let back = format!(
        "{WITHOUT_RETENTION} {WITHOUT_CONTROL} {WITHOUT_RECONCILING} {WITHOUT_CONFIRMATIONS}
         DELETE FROM schema_migration WHERE version >= 3"
    );
    tamper(&folder, &back);
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 2, known: 10 })));

    let node = node();
    let kept = Head { tail: f::tail(9..=9), finalized: Some(f::block(4)), genesis: None };
    assert_eq!(node.head(&chain).await.unwrap(), Some(kept));
    let inclusion = Inclusion { parent_hash: B256::ZERO, ..mined };
    let told = inclusion.block;
    let progress = f::record(&node, waiting).await.state.bound().unwrap().progress.clone();
    assert_eq!(progress, Progress::Mined(Mined { inclusion, told }));
    for (id, count) in [(ended, 4), (waiting, 3)] {
        let events = node.events_of(id, 100).await.unwrap();
        assert_eq!(events.len(), count);
        assert!(events.iter().all(|event| matches!(&event.body, EventBody::Tx { notice: None, .. })), "{events:?}");
    }
    // And it goes on from there.
    f::change(&node, &lane, waiting, Transition::Confirm(f::notice(false, 8..=9))).await;
    let newest = node.events_of(waiting, 100).await.unwrap().pop().unwrap();
    assert!(matches!(newest.body, EventBody::Tx { notice: Some(told), .. } if told == f::notice(false, 8..=9)));
}

/// Back to where slots have no evidence, nobody is audited, and what is done was not refused.
const WITHOUT_RECONCILING: &str = "
    DROP TABLE audit_log;
    ALTER TABLE slot DROP COLUMN above_hash;
    ALTER TABLE slot DROP COLUMN above_block;
    ALTER TABLE slot DROP COLUMN evidence;
    ALTER TABLE submitter_nonce_cursor DROP COLUMN low_balance;
    ALTER TABLE lane_command DROP COLUMN refused;";

/// proves O04
#[tokio::test]
async fn a_database_without_an_audit_log_is_brought_up_to_date_with_what_it_holds() {
    let folder = Folder::new();
    let node = || Arc::new(open(&folder.database())) as f::Node;
    let first = node();
    let lane = f::lane(&first, 1).await;
    let bound = f::bound(&first, &lane, "open").await.id;
    let kinds = [CommandKind::Pause, CommandKind::Unprotect];
    let put = kinds.map(|kind| NewCommand { submitter: lane.clone(), kind, issued_by: f::text("op") });
    let ids = first.put_commands(&put).await.unwrap();
    let seen = f::view(&first, &lane).await;
    f::commit_done(&first, &lane, |commit| {
        commit.bind_above(Some(f::block(7))).adopt_foreign(&seen.cursor, f::nonce(1), f::text("forgotten")).unwrap();
        commit.set_paused(&seen.cursor, true, f::text("asked")).unwrap();
        commit.command_done(&seen.lane.commands[0], f::done("paused"));
    })
    .await;
    drop(first);
    tamper(
        &folder,
        &format!(
            "{WITHOUT_RETENTION} {WITHOUT_CONTROL}
             {WITHOUT_RECONCILING} DELETE FROM schema_migration WHERE version >= 4"
        ),
    );
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 3, known: 10 })));

    let node = node();
    let seen = f::view(&node, &lane).await;
    assert_eq!((seen.cursor.next_nonce, seen.cursor.paused, seen.cursor.low_balance), (f::nonce(2), true, false));
    let slots = node.open_slots(&lane, None, 10).await.unwrap();
    assert_eq!(
        slots.iter().map(|status| status.slot.kind).collect::<Vec<_>>(),
        [SlotKind::Intent(bound), SlotKind::Foreign]
    );
    assert!(slots.iter().all(|status| status.slot.above.is_none() && status.slot.evidence.is_none()));
    assert_eq!((slots[0].tx.as_ref().map(|tx| tx.id), slots[0].attempts.len()), (Some(bound), 1));
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
    let folder = Folder::new();
    let node = || Arc::new(open(&folder.database())) as f::Node;
    let first = node();
    let lane = f::lane(&first, 1).await;
    let start = Cursor::starting_at(f::nonce(0));
    f::commit_done(&first, &lane, |commit| {
        commit.bind_above(Some(f::block(7))).bind_fill(&start, f::nonce(0)).unwrap();
    })
    .await;
    drop(first);
    let back = format!(
        "{WITHOUT_RETENTION} {WITHOUT_CONTROL}
         ALTER TABLE slot DROP COLUMN above_hash; DELETE FROM schema_migration WHERE version >= 5;
         UPDATE slot SET above_block = above_block + 1"
    );
    tamper(&folder, &back);
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 4, known: 10 })));

    let node = node();
    let seen = f::view(&node, &lane).await;
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(9))).bind_fill(&seen.cursor, f::nonce(1)).unwrap();
    })
    .await;
    let above: Vec<_> = f::view(&node, &lane).await.lane.slots.iter().map(|slot| slot.above).collect();
    assert_eq!(above, [None, Some(f::block(9))]);
}

/// Back to where nothing is replaced, no send is history, and slots count no tries.
const WITHOUT_CONTROL: &str = "
    ALTER TABLE managed_tx DROP COLUMN replacement;
    ALTER TABLE tx_attempt DROP COLUMN history;
    ALTER TABLE slot DROP COLUMN tries;
    ALTER TABLE slot DROP COLUMN signal;
    UPDATE archived_tx SET doc = json_remove(doc, '$.tx.replacement', '$.attempts[0].history');";

/// proves O04
#[tokio::test]
async fn a_database_without_replacements_and_history_is_brought_up_to_date_with_what_it_holds() {
    let folder = Folder::new();
    let node = || Arc::new(open(&folder.database())) as f::Node;
    let first = node();
    let lane = f::lane(&first, 1).await;
    let (ended, waiting) = (f::bound(&first, &lane, "ended").await.id, f::bound(&first, &lane, "open").await.id);
    let queued = f::accept(&first, &lane, &["queued"]).await[0];
    let made = [0, 1].map(|at| f::attempt(f::nonce(at), 0, "bind"));
    let send = |at: usize| f::report(&made[at], SendOutcome::Accepted, "taken");
    f::commit_done(&first, &lane, |commit| {
        commit.report(send(0)).report(send(1)).claim_resubmit(f::claim(f::nonce(1), Duration::from_secs(60)));
    })
    .await;
    f::confirm(&first, &lane, ended).await;
    let cursor = f::view(&first, &lane).await.cursor;
    f::commit_done(&first, &lane, |commit| {
        commit.close_below(&cursor, f::nonce(1)).unwrap();
    })
    .await;
    let claimed = f::view(&first, &lane).await.lane.slots[0].next_resubmit_at;
    drop(first);
    tamper(&folder, &format!("UPDATE managed_tx SET updated_at = 0 WHERE tx_id = '{ended}'"));
    assert_eq!(node().apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    tamper(&folder, &format!("{WITHOUT_RETENTION} {WITHOUT_CONTROL} DELETE FROM schema_migration WHERE version >= 7"));
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 5, known: 10 })));

    let node = node();
    for id in [ended, waiting, queued] {
        assert_eq!(f::record(&node, id).await.replacement, None);
    }
    for id in [ended, waiting] {
        let attempt = node.attempts(id).await.unwrap().remove(0);
        assert_eq!((attempt.sends, attempt.history.len()), (1, 0), "that it was sent is known, and no more");
    }
    let slot = f::view(&node, &lane).await.lane.slots.remove(0);
    assert_eq!((slot.tries, slot.signal, slot.next_resubmit_at), (0, None, claimed));
    // And it goes on from there.
    let dropped = Some(MempoolSignal::LikelyDropped);
    f::commit_done(&node, &lane, |commit| {
        let claim = f::claim(f::nonce(1), Duration::from_secs(60));
        commit.report(send(1)).claim_resubmit(Claim { signal: dropped, ..claim });
    })
    .await;
    for id in [waiting, queued] {
        let tx = f::change(&node, &lane, id, Transition::WantReplace(f::transfer(7))).await;
        assert_eq!(tx.payload(), &f::transfer(7));
    }
    let status = node.open_slots(&lane, Some(f::nonce(1)), 10).await.unwrap().remove(0);
    assert_eq!((status.slot.tries, status.slot.signal), (1, dropped));
    assert_eq!((status.attempts[0].sends, status.attempts[0].history.len()), (2, 1));
}

#[tokio::test]
async fn without_leave_to_migrate_nothing_is_made() {
    let folder = Folder::new();
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 0, known: 10 })));
    assert!(!folder.database().exists() && !folder.sidecar().exists());
    fs::write(folder.database(), "").unwrap();
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 0, known: 10 })));

    with_a_lane(&folder).await;
    assert!(is_there(&open_without_migrating(&folder).unwrap(), "before").await);
}

#[tokio::test]
async fn garbage_and_strangers_are_told_apart() {
    let folder = Folder::new();
    fs::write(folder.database(), "this is not a database, whatever its name says".repeat(100)).unwrap();
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Damaged(_))));
    fs::remove_file(folder.database()).unwrap();
    tamper(&folder, "CREATE TABLE bookmarks (url TEXT)");
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Setup(_))));
    assert!(matches!(try_open(&folder.path().join("nowhere/ledger.db")), Err(StoreError::Setup(_))));
}

#[tokio::test]
async fn a_damaged_page_is_an_error_and_not_an_answer() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    // The schema on the first pages stays readable; everything after it is noise.
    let mut bytes = fs::read(folder.database()).unwrap();
    bytes[16 * 4096..].fill(0x5a);
    fs::write(folder.database(), bytes).unwrap();
    let damaged = match try_open(&folder.database()) {
        Ok(store) => store.submitters().await.err().or(store.list(&Default::default()).await.err()),
        Err(error) => Some(error),
    };
    assert!(matches!(damaged, Some(StoreError::Damaged(_))), "{damaged:?}");
}

/// The first start through a link to a file that is not there yet, as on a freshly mounted disk.
#[cfg(unix)]
#[tokio::test]
async fn a_link_to_nowhere_has_its_sidecar_where_it_leads() {
    let (folder, data) = (Folder::new(), Folder::new());
    std::os::unix::fs::symlink(data.database(), folder.database()).unwrap();
    with_a_lane(&folder).await;
    assert!(data.sidecar().exists() && !folder.sidecar().exists());
    assert!(!load(&open(&folder.database())).await.regressed);
    assert!(!load(&open(&data.database())).await.regressed);
}

/// SQLite's own "database or disk is full", brought about by a quota.
#[tokio::test]
async fn a_full_disk_loses_nothing_and_goes_on_when_there_is_room() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let store = open(&folder.database());
    store.limit_pages(1).await.unwrap();
    let mut accepted = Vec::new();
    let refused = loop {
        let request = format!("request {}", accepted.len());
        match store.accept(&[intent(&request)]).await {
            Ok(verdicts) => assert_eq!(verdicts, [Accepted::New]),
            Err(StoreError::Full(_)) => break request,
            Err(other) => panic!("{other}"),
        }
        accepted.push(request);
        assert!(accepted.len() < 10_000);
    };
    assert!(!is_there(&store, &refused).await);
    for request in &accepted {
        assert!(is_there(&store, request).await, "{request}");
    }
    store.limit_pages(100_000).await.unwrap();
    accept(&store, &refused).await;
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    drop(store);
    let store = open(&folder.database());
    assert!(!load(&store).await.regressed);
    for request in accepted.iter().chain([&refused]) {
        assert!(is_there(&store, request).await, "{request}");
    }
}

/// What retention moved out is one readable document, with its history.
#[tokio::test]
async fn an_archived_intent_keeps_its_history() {
    let folder = Folder::new();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let options = SqliteOptions { clock: Arc::clone(&clock) as _, ..options() };
    let store = SqliteStore::open(Location::File(folder.database()), OwnerId::new("test", 1), options).unwrap();
    register(&store).await;
    accept(&store, "canceled").await;
    store.cancel_queued(&[intent("canceled").id]).await.unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(store.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    assert!(is_there(&store, "canceled").await);
    drop(store);
    let sql = Connection::open(folder.database()).unwrap();
    let kinds: (String, String, String) = sql
        .query_one(
            "SELECT doc ->> '$.events[0].kind', doc ->> '$.events[1].kind', end_state
             FROM archived_tx JOIN request_key USING (tx_id)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(kinds, ("accepted".to_owned(), "cancel_in_queue".to_owned(), "CANCELED".to_owned()));
}

/// Back to the schema in which moved-out intents keep their events and attempts for ever.
const WITHOUT_RETENTION: &str = "
    DROP INDEX archived_tx_events;
    DROP INDEX archived_tx_attempts;
    DROP INDEX tx_event_of_lanes;
    DROP INDEX lane_command_done;
    DROP TABLE retention_claim;
    ALTER TABLE node DROP COLUMN dead_seen_at;
    ALTER TABLE node DROP COLUMN dead_marked_at;
    ALTER TABLE archived_tx DROP COLUMN ended_at;
    ALTER TABLE archived_tx DROP COLUMN has_events;
    ALTER TABLE archived_tx DROP COLUMN has_attempts;";

/// proves O04
#[tokio::test]
async fn database_without_retention_is_brought_up_to_date() {
    let folder = Folder::new();
    let node = || Arc::new(open(&folder.database())) as f::Node;
    let first = node();
    let lane = f::lane(&first, 1).await;
    let ended = f::bound(&first, &lane, "ended").await.id;
    f::confirm(&first, &lane, ended).await;
    f::close_all(&first, &lane).await;
    drop(first);
    tamper(&folder, "UPDATE managed_tx SET updated_at = 1000");
    assert_eq!(f::move_out(&node(), 10).await, 1);
    tamper(&folder, &format!("{WITHOUT_RETENTION} DELETE FROM schema_migration WHERE version >= 10"));

    let node = node();
    assert_eq!((node.attempts(ended).await.unwrap().len(), node.events_of(ended, 9).await.unwrap().len()), (1, 4));
    let record = f::record(&node, ended).await;
    for kind in [RetentionKind::Attempts, RetentionKind::Events] {
        assert_eq!((f::retain(&node, kind, 10).await, f::retain(&node, kind, 10).await), (1, 0));
    }
    assert_eq!((node.attempts(ended).await.unwrap(), node.events_of(ended, 9).await.unwrap()), (vec![], vec![]));
    assert_eq!(f::record(&node, ended).await, record);
}

/// The first documents of retention have no positions of their events.
///
/// proves O04
#[tokio::test]
async fn history_that_was_moved_out_before_positions_were_kept_is_still_read() {
    let folder = Folder::new();
    let store = open(&folder.database());
    let id = intent("canceled").id;
    register(&store).await;
    accept(&store, "canceled").await;
    store.cancel_queued(&[id]).await.unwrap();
    let written = store.events_of(id, 10).await.unwrap();
    drop(store);
    tamper(&folder, "UPDATE managed_tx SET updated_at = 0");
    let store = open(&folder.database());
    assert_eq!(store.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 1);
    assert_eq!(store.events_of(id, 10).await.unwrap(), written);
    drop(store);
    let strip = "'$.events[0].commit_no', '$.events[0].idx', '$.events[1].commit_no', '$.events[1].idx'";
    tamper(&folder, &format!("UPDATE archived_tx SET doc = json_remove(doc, {strip})"));

    let found = open(&folder.database()).events_of(id, 10).await.unwrap();
    let expected: Vec<Event> =
        written.into_iter().map(|event| Event { position: EventPosition::default(), ..event }).collect();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn an_alias_is_not_taken_from_another_submitter() {
    let store = SqliteStore::open(Location::Memory, OwnerId::new("test", 1), options()).unwrap();
    let other = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
    let alias = || Some("treasury".to_owned());
    store.register_submitters(&[NewSubmitter { id: lane(), alias: alias() }]).await.unwrap();
    let taken = store.register_submitters(&[NewSubmitter { id: other, alias: alias() }]).await;
    assert!(matches!(taken, Err(StoreError::Setup(_))), "{taken:?}");
    assert_eq!(store.submitters().await.unwrap(), [NewSubmitter { id: lane(), alias: alias() }]);
    register(&store).await;
    assert_eq!(store.submitters().await.unwrap(), [NewSubmitter { id: lane(), alias: alias() }], "no alias, no change");
}

/// Whoever held the lane died with its lock on the file, so nobody waits for its lease to run out.
#[tokio::test]
async fn a_restarted_process_takes_its_lanes_at_once() {
    let folder = Folder::new();
    let first = open(&folder.database());
    register(&first).await;
    let old = acquire(&first, 1).await;
    drop(first);
    let second = open(&folder.database());
    let new = acquire(&second, 2).await;
    assert!(new.token() > old.token());
}

#[tokio::test]
async fn a_process_that_is_gone_is_not_counted() {
    let folder = Folder::new();
    let first = open(&folder.database());
    for process in 1..=3 {
        first.for_owner(OwnerId::new("test", process)).renew().await.unwrap();
    }
    register(&first).await;
    acquire(&first, 1).await;
    let counted = first.for_owner(OwnerId::new("test", 1)).census().await.unwrap();
    assert_eq!((counted.nodes, counted.lanes), (3, 1));
    drop(first);
    let counted = open(&folder.database()).for_owner(OwnerId::new("test", 4)).census().await.unwrap();
    assert_eq!((counted.nodes, counted.lanes), (1, 0));
}

/// The lease of the lane for a process of its own.
async fn acquire(store: &SqliteStore, process: u128) -> gapless_domain::Lease {
    let store = store.for_owner(OwnerId::new("test", process));
    let answer = store.acquire(&[lane()]).await.unwrap().remove(0);
    let held = if let Acquired::Held(lease) = &answer { Some(lease.clone()) } else { None };
    held.ok_or(answer).unwrap()
}
