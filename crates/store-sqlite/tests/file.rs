//! Database files: refused schemas, foreign and damaged files, a full disk, retention, restarts.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{Event, EventPosition, OwnerId, Timestamp};
use gapless_store::{
    Accepted, Acquired, CommitVerdict, IntentIntake, Leases, ManualClock, NewSubmitter, RetentionKind, StoreError,
    Upkeep, Views,
};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use support::{
    Folder, accept, intent, is_there, lane, load, open, options, register, try_open, with_a_lane, write_lane,
};

/// Changes the database past the store.
fn tamper(folder: &Folder, sql: &str) {
    Connection::open(folder.database()).unwrap().execute_batch(sql).unwrap();
}

fn open_without_migrating(folder: &Folder) -> Result<SqliteStore, StoreError> {
    let options = SqliteOptions { migrate: false, ..options() };
    SqliteStore::open(Location::File(folder.database()), OwnerId::new("test", 1), options)
}

#[tokio::test]
async fn newer_schema_is_refused_and_not_changed() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    tamper(&folder, "INSERT INTO schema_migration VALUES (11, 'from the future', 0, 0)");
    assert!(matches!(try_open(&folder.database()), Err(StoreError::SchemaIsNewer { found: 11, known: 10 })));
    tamper(&folder, "DELETE FROM schema_migration WHERE version = 11");
    assert!(is_there(&open(&folder.database()), "before").await);
}

#[tokio::test]
async fn different_migration_is_refused() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    tamper(&folder, "UPDATE schema_migration SET checksum = checksum + 1");
    assert!(matches!(try_open(&folder.database()), Err(StoreError::MigrationDiffers { version: 1 })));
}

#[tokio::test]
async fn open_without_leave_to_migrate_creates_no_file() {
    let folder = Folder::new();
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 0, known: 10 })));
    assert!(!folder.database().exists() && !folder.sidecar().exists());
    fs::write(folder.database(), "").unwrap();
    assert!(matches!(open_without_migrating(&folder), Err(StoreError::SchemaIsOlder { found: 0, known: 10 })));

    with_a_lane(&folder).await;
    assert!(is_there(&open_without_migrating(&folder).unwrap(), "before").await);
}

#[tokio::test]
async fn garbage_and_foreign_databases_are_different_errors() {
    let folder = Folder::new();
    fs::write(folder.database(), "this is not a database, whatever its name says".repeat(100)).unwrap();
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Damaged(_))));
    fs::remove_file(folder.database()).unwrap();
    tamper(&folder, "CREATE TABLE bookmarks (url TEXT)");
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Setup(_))));
    assert!(matches!(try_open(&folder.path().join("nowhere/ledger.db")), Err(StoreError::Setup(_))));
}

#[tokio::test]
async fn damaged_page_is_an_error() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    // The schema on the first pages stays readable. All later pages are overwritten.
    let mut bytes = fs::read(folder.database()).unwrap();
    bytes[16 * 4096..].fill(0x5a);
    fs::write(folder.database(), bytes).unwrap();
    let damaged = match try_open(&folder.database()) {
        Ok(store) => store.submitters().await.err().or(store.list(&Default::default()).await.err()),
        Err(error) => Some(error),
    };
    assert!(matches!(damaged, Some(StoreError::Damaged(_))), "{damaged:?}");
}

/// The first start through a link to a file that does not exist yet, as on a new disk.
#[cfg(unix)]
#[tokio::test]
async fn dangling_link_gets_its_sidecar_beside_its_target() {
    let (folder, data) = (Folder::new(), Folder::new());
    std::os::unix::fs::symlink(data.database(), folder.database()).unwrap();
    with_a_lane(&folder).await;
    assert!(data.sidecar().exists() && !folder.sidecar().exists());
    assert!(!load(&open(&folder.database())).await.regressed);
    assert!(!load(&open(&data.database())).await.regressed);
}

/// A quota brings about SQLite's own error "database or disk is full".
#[tokio::test]
async fn full_disk_loses_no_row_and_writes_resume_with_room() {
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

/// Retention moves an intent into one readable document with its events.
#[tokio::test]
async fn archived_intent_keeps_its_events() {
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

/// The first documents of retention hold no positions of events.
///
/// proves O04
#[tokio::test]
async fn archived_events_without_positions_are_read() {
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
async fn alias_of_another_submitter_is_refused() {
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

/// The lock of the file shows that the former process has ended, so its leases need not expire first.
#[tokio::test]
async fn restarted_process_acquires_its_lanes_at_once() {
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
async fn census_does_not_count_an_ended_process() {
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

/// Acquires the lane for a process of its own.
async fn acquire(store: &SqliteStore, process: u128) -> gapless_domain::Lease {
    let store = store.for_owner(OwnerId::new("test", process));
    let answer = store.acquire(&[lane()]).await.unwrap().remove(0);
    let held = if let Acquired::Held(lease) = &answer { Some(lease.clone()) } else { None };
    held.ok_or(answer).unwrap()
}
