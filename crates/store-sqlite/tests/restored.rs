//! A file that was restored, rolled back or exchanged is noticed when it is opened. All tests use real files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use gapless_domain::{B256, BlockLink, BlockRef, Head, NodeText, Tail};
use gapless_store::{CommitVerdict, Heads, Outbox, StoreError, Upkeep};
use gapless_store_sqlite::SqliteStore;
use support::{Folder, accept, is_there, load, open, register, take_notice, try_open, with_a_lane, write_lane};

/// The positions of the two records in the sidecar.
const PLACES: [usize; 2] = [0, 4096];

fn spoil(sidecar: &Path, place: usize) {
    let mut bytes = fs::read(sidecar).unwrap();
    bytes[place + 30] ^= 0xff;
    fs::write(sidecar, bytes).unwrap();
}

/// The position of the newest record, which has the greater count (big-endian).
fn newest_place(sidecar: &Path) -> usize {
    let bytes = fs::read(sidecar).unwrap();
    let count = |place: usize| bytes[place + 24..place + 32].to_vec();
    if count(PLACES[0]) > count(PLACES[1]) { PLACES[0] } else { PLACES[1] }
}

fn log_of(folder: &Folder) -> PathBuf {
    folder.path().join("ledger.db-wal")
}

/// The number of logs that were set aside.
fn strange_logs(folder: &Folder) -> usize {
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("ledger.db-wal.strange-")).count()
}

/// Makes writes that touch no lane, until a checkpoint has written the log into the file.
async fn past_a_checkpoint(store: &SqliteStore, folder: &Folder) {
    let chain = "eip155:31337".parse().unwrap();
    let in_file = fs::metadata(folder.database()).unwrap().modified().unwrap();
    let mut since = 0;
    for number in 0..5000 {
        let latest = BlockRef { number, hash: B256::ZERO };
        let tail = Tail::new(BlockLink { block: latest, parent_hash: B256::ZERO });
        store.save_head(&chain, &Head { tail, finalized: None, genesis: None }).await.unwrap();
        if fs::metadata(folder.database()).unwrap().modified().unwrap() != in_file {
            since += 1;
        }
        if since == 3 {
            return;
        }
    }
    panic!("no checkpoint");
}

/// Copies the files of a running store into another folder: the state after a power cut.
fn after_a_power_cut(folder: &Folder) -> Folder {
    let after = Folder::new();
    for name in ["ledger.db", "ledger.db-wal", "ledger.db.canary"] {
        fs::copy(folder.path().join(name), after.path().join(name)).unwrap();
    }
    after
}

/// The operator restores the file and leaves the log. The newest pages of the log would make the old file look
/// complete.
///
/// proves O09
#[tokio::test]
async fn restored_file_beside_a_leftover_log_is_noticed() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    // One copy from before the start, and one of the running file, which the first log belongs to.
    let backups = [folder.path().join("stopped.db"), folder.path().join("running.db")];
    fs::copy(folder.database(), &backups[0]).unwrap();
    let store = open(&folder.database());
    fs::copy(folder.database(), &backups[1]).unwrap();
    accept(&store, "after").await;
    past_a_checkpoint(&store, &folder).await;
    for backup in backups {
        let after = after_a_power_cut(&folder);
        let log = fs::read(log_of(&after)).unwrap();
        fs::copy(&backup, after.database()).unwrap();

        let store = open(&after.database());
        assert!(load(&store).await.regressed, "{backup:?}");
        assert!(is_there(&store, "before").await && !is_there(&store, "after").await);
        assert_eq!(write_lane(&store).await, CommitVerdict::Regressed);
        assert_eq!(strange_logs(&after), 1);
        assert_eq!(fs::read(after.path().join("ledger.db-wal.strange-1")).unwrap(), log, "the log is kept");
        assert_eq!(take_notice(&store).await, CommitVerdict::Done);
        drop(store);
        assert!(!load(&open(&after.database())).await.regressed, "the loss is reported once");
        assert_eq!(strange_logs(&after), 1);
    }
}

/// A copy with the same count as the running file at its start is still another file: VACUUM INTO may have made it,
/// with every page in another place.
///
/// proves O09
#[tokio::test]
async fn copy_made_before_the_start_does_not_get_the_log() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let backup = folder.path().join("backup.db");
    fs::copy(folder.database(), &backup).unwrap();
    let store = open(&folder.database());
    accept(&store, "after").await;
    let after = after_a_power_cut(&folder);
    fs::copy(&backup, after.database()).unwrap();
    assert!(load(&open(&after.database())).await.regressed);
    assert_eq!(strange_logs(&after), 1);
}

#[tokio::test]
async fn power_cut_around_a_checkpoint_is_no_loss() {
    // A name with characters that mean something else in a URI.
    let folder = Folder::new();
    let odd = folder.path().join("50% ?of#all ü.db");
    with_a_lane(&folder).await;
    let store = open(&folder.database());
    accept(&store, "first").await;
    let early = after_a_power_cut(&folder);
    past_a_checkpoint(&store, &folder).await;
    accept(&store, "second").await;
    let late = after_a_power_cut(&folder);
    for suffix in ["", "-wal", ".canary"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        fs::copy(name(&late.database()), name(&odd)).unwrap();
    }
    for (path, requests) in [
        (early.database(), &["before", "first"][..]),
        (late.database(), &["before", "first", "second"]),
        (odd, &["before", "first", "second"]),
    ] {
        let store = open(&path);
        assert!(!load(&store).await.regressed);
        for request in requests {
            assert!(is_there(&store, request).await, "{request}");
        }
        assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    }
    assert_eq!((strange_logs(&early), strange_logs(&late), strange_logs(&folder)), (0, 0, 0));
}

/// A database is moved, with its sidecar, to a path where the log of another database still is. No row is lost or
/// mixed.
///
/// proves O09
#[tokio::test]
async fn log_of_another_database_is_set_aside() {
    let (other, folder) = (Folder::new(), Folder::new());
    with_a_lane(&other).await;
    let store = open(&other.database());
    accept(&store, "of the other").await;
    past_a_checkpoint(&store, &other).await;
    let strange = fs::read(log_of(&other)).unwrap();
    with_a_lane(&folder).await;
    fs::write(log_of(&folder), &strange).unwrap();
    let store = open(&folder.database());
    assert!(!load(&store).await.regressed);
    assert!(is_there(&store, "before").await && !is_there(&store, "of the other").await);
    drop(store);
    assert_eq!(strange_logs(&folder), 1);

    // A new database: SQLite would remove the log of an empty file.
    let new = Folder::new();
    fs::write(log_of(&new), &strange).unwrap();
    with_a_lane(&new).await;
    assert_eq!(strange_logs(&new), 1);
}

/// proves O09
#[tokio::test]
async fn log_without_file_or_sidecar_is_left_to_the_operator() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let store = open(&folder.database());
    accept(&store, "after").await;
    let (without_sidecar, without_file) = (after_a_power_cut(&folder), after_a_power_cut(&folder));
    fs::remove_file(without_sidecar.sidecar()).unwrap();
    fs::remove_file(without_file.database()).unwrap();
    for after in [&without_sidecar, &without_file] {
        let log = fs::read(log_of(after)).unwrap();
        for _ in 0..2 {
            assert!(matches!(try_open(&after.database()), Err(StoreError::Regressed(_))));
            assert_eq!(fs::read(log_of(after)).unwrap(), log);
        }
    }
    // docs/sqlite.md describes this checkpoint with SQLite's shell.
    let sql = rusqlite::Connection::open(without_sidecar.database()).unwrap();
    sql.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(sql);
    let store = open(&without_sidecar.database());
    assert!(load(&store).await.regressed && is_there(&store, "after").await);
}

/// Without the sidecar the number of used positions is unknown. No position is used again all the same.
///
/// proves O09
#[tokio::test]
async fn event_positions_are_not_reused_after_an_unknown_loss() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let copy = folder.path().join("backup.db");
    fs::copy(folder.database(), &copy).unwrap();
    let copy_of_sidecar = fs::read(folder.sidecar()).unwrap();
    let store = open(&folder.database());
    for n in 0..20 {
        accept(&store, &format!("after {n}")).await;
    }
    let newest = store.read_events(Default::default(), 100).await.unwrap().last().unwrap().position;
    drop(store);

    fs::copy(&copy, folder.database()).unwrap();
    fs::remove_file(folder.sidecar()).unwrap();
    let store = open(&folder.database());
    assert_eq!(take_notice(&store).await, CommitVerdict::Done);
    assert!(!store.read_events(newest, 100).await.unwrap().is_empty());
    drop(store);

    // The file was restored together with its sidecar, which only the operator can know.
    fs::copy(&copy, folder.database()).unwrap();
    fs::write(folder.sidecar(), copy_of_sidecar).unwrap();
    let store = open(&folder.database());
    assert!(!load(&store).await.regressed);
    store.declare_lost(&NodeText::new("operator"), "restored with its sidecar").await.unwrap();
    assert_eq!(take_notice(&store).await, CommitVerdict::Done);
    assert!(!store.read_events(newest, 100).await.unwrap().is_empty());
    drop(store);
    assert!(!load(&open(&folder.database())).await.regressed);
}

/// proves O09
#[tokio::test]
async fn restored_copy_stops_the_lane_before_it_writes() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let copy = folder.path().join("backup.db");
    fs::copy(folder.database(), &copy).unwrap();

    let store = open(&folder.database());
    assert!(!load(&store).await.regressed);
    for n in 0..20 {
        accept(&store, &format!("after {n}")).await;
    }
    let newest = store.read_events(Default::default(), 100).await.unwrap().last().unwrap().position;
    drop(store);
    fs::copy(&copy, folder.database()).unwrap();

    let store = open(&folder.database());
    assert!(is_there(&store, "before").await && !is_there(&store, "after 0").await);
    assert!(load(&store).await.regressed);
    assert_eq!(write_lane(&store).await, CommitVerdict::Regressed);
    assert!(load(&store).await.regressed, "the refused write is no notice");

    assert_eq!(take_notice(&store).await, CommitVerdict::Done);
    assert!(!load(&store).await.regressed);
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    // Readers of events have seen positions that this file does not have. New positions come after all of them.
    let protected = store.read_events(newest, 100).await.unwrap();
    assert!(!protected.is_empty());
    drop(store);
    assert!(!load(&open(&folder.database())).await.regressed, "the loss is reported once");
}

/// A copy from before the first write of the lane holds no cursor whose epoch could be compared.
///
/// proves O09
#[tokio::test]
async fn copy_from_before_the_first_cursor_is_noticed() {
    let folder = Folder::new();
    let store = open(&folder.database());
    register(&store).await;
    accept(&store, "before").await;
    drop(store);
    let copy = folder.path().join("backup.db");
    fs::copy(folder.database(), &copy).unwrap();
    assert_eq!(write_lane(&open(&folder.database())).await, CommitVerdict::Done);
    fs::copy(&copy, folder.database()).unwrap();

    let store = open(&folder.database());
    register(&store).await;
    let seen = load(&store).await;
    assert!(seen.cursor.is_none() && seen.regressed);
    assert_eq!(write_lane(&store).await, CommitVerdict::Regressed);
    assert_eq!(take_notice(&store).await, CommitVerdict::Done);
    assert!(!load(&store).await.regressed);
}

/// proves O09
#[tokio::test]
async fn restart_before_notice_keeps_the_lane_regressed() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let copy = folder.path().join("backup.db");
    fs::copy(folder.database(), &copy).unwrap();
    accept(&open(&folder.database()), "after").await;
    fs::copy(&copy, folder.database()).unwrap();

    drop(open(&folder.database()));
    let store = open(&folder.database());
    assert!(load(&store).await.regressed);
    assert_eq!(write_lane(&store).await, CommitVerdict::Regressed);
}

/// proves O09
#[tokio::test]
async fn file_without_its_sidecar_counts_as_restored() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    fs::remove_file(folder.sidecar()).unwrap();
    assert!(load(&open(&folder.database())).await.regressed);
}

/// proves O09
#[tokio::test]
async fn other_database_with_a_higher_count_is_noticed() {
    let (folder, other) = (Folder::new(), Folder::new());
    with_a_lane(&folder).await;
    with_a_lane(&other).await;
    let store = open(&other.database());
    for n in 0..20 {
        accept(&store, &format!("more {n}")).await;
    }
    drop(store);
    fs::copy(other.database(), folder.database()).unwrap();
    assert!(load(&open(&folder.database())).await.regressed);
}

/// proves O09
#[tokio::test]
async fn deleted_database_is_not_created_again() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    fs::remove_file(folder.database()).unwrap();
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Regressed(_))));
    // The second try gives the same error, and does not take the empty file for a new database.
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Regressed(_))));
    fs::remove_file(folder.sidecar()).unwrap();
    register(&open(&folder.database())).await;
}

/// A power cut tears the record that was being written. The write that it belonged to was not acknowledged.
#[tokio::test]
async fn torn_record_is_no_loss() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    spoil(&folder.sidecar(), newest_place(&folder.sidecar()));
    let store = open(&folder.database());
    assert!(!load(&store).await.regressed);
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    drop(store);
    assert!(!load(&open(&folder.database())).await.regressed);

    // The other record is only one write older, so even with a torn one a restored file does not pass.
    let copy = folder.path().join("backup.db");
    fs::copy(folder.database(), &copy).unwrap();
    let store = open(&folder.database());
    for n in 0..2 {
        accept(&store, &format!("after {n}")).await;
    }
    drop(store);
    spoil(&folder.sidecar(), newest_place(&folder.sidecar()));
    fs::copy(&copy, folder.database()).unwrap();
    let store = open(&folder.database());
    assert!(load(&store).await.regressed);
    assert_eq!(take_notice(&store).await, CommitVerdict::Done);
    drop(store);
    assert!(!load(&open(&folder.database())).await.regressed);

    for place in PLACES {
        spoil(&folder.sidecar(), place);
    }
    assert!(load(&open(&folder.database())).await.regressed, "a sidecar without a whole record counts as missing");
}

/// A crash after a COMMIT and before its record leaves the sidecar behind the database, which is no loss.
#[tokio::test]
async fn sidecar_behind_the_database_is_no_loss() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let old = fs::read(folder.sidecar()).unwrap();
    accept(&open(&folder.database()), "after").await;
    fs::write(folder.sidecar(), old).unwrap();
    assert!(!load(&open(&folder.database())).await.regressed);
}

#[tokio::test]
async fn opening_and_closing_is_no_loss() {
    let folder = Folder::new();
    for _ in 0..3 {
        drop(open(&folder.database()));
    }
    with_a_lane(&folder).await;
    for _ in 0..4 {
        let store = open(&folder.database());
        assert!(!load(&store).await.regressed);
        assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    }
}
