//! A file that was restored, rolled back or exchanged is noticed before anything is sent. All on real files.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::fs;
use std::path::Path;

use gapless_store::{CommitVerdict, Store, StoreError};
use support::{Folder, accept, is_there, load, open, register, take_notice, try_open, with_a_lane, write_lane};

/// The places of the two records in the sidecar.
const PLACES: [usize; 2] = [0, 4096];

fn spoil(sidecar: &Path, place: usize) {
    let mut bytes = fs::read(sidecar).unwrap();
    bytes[place + 30] ^= 0xff;
    fs::write(sidecar, bytes).unwrap();
}

/// Where the newest of the two records is: its count is the greater number, big-endian.
fn newest_place(sidecar: &Path) -> usize {
    let bytes = fs::read(sidecar).unwrap();
    let count = |place: usize| bytes[place + 24..place + 32].to_vec();
    if count(PLACES[0]) > count(PLACES[1]) { PLACES[0] } else { PLACES[1] }
}

/// proves O09
#[tokio::test]
async fn a_restored_copy_is_noticed_before_the_lane_writes_anything() {
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
    assert!(load(&store).await.regressed, "it was refused, so it is still to be noticed");

    assert_eq!(take_notice(&store).await, CommitVerdict::Done);
    assert!(!load(&store).await.regressed);
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    // Whoever reads events has seen positions that this file has forgotten. New ones come after all of them.
    let protected = store.read_events(newest, 100).await.unwrap();
    assert!(!protected.is_empty());
    drop(store);
    assert!(!load(&open(&folder.database())).await.regressed, "it is told once");
}

/// A copy from before the lane's first write holds no cursor that could be behind.
///
/// proves O09
#[tokio::test]
async fn a_copy_from_before_the_first_cursor_is_noticed_too() {
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
async fn a_restart_before_the_lane_took_notice_forgets_nothing() {
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
async fn a_file_without_its_sidecar_counts_as_restored() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    fs::remove_file(folder.sidecar()).unwrap();
    assert!(load(&open(&folder.database())).await.regressed);
}

/// proves O09
#[tokio::test]
async fn another_database_in_its_place_is_noticed_however_far_it_has_come() {
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
async fn a_database_that_is_gone_is_not_begun_anew() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    fs::remove_file(folder.database()).unwrap();
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Regressed(_))));
    // And says so again, rather than taking the empty file for what it was.
    assert!(matches!(try_open(&folder.database()), Err(StoreError::Regressed(_))));
    fs::remove_file(folder.sidecar()).unwrap();
    register(&open(&folder.database())).await;
}

/// A power cut tears the record that was being written. The write that it belonged to was not acknowledged.
#[tokio::test]
async fn a_torn_record_raises_no_false_alarm() {
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
    assert!(load(&open(&folder.database())).await.regressed, "a sidecar without a whole record is no sidecar");
}

/// A crash after a COMMIT and before its record leaves the sidecar behind. That is no loss.
#[tokio::test]
async fn a_sidecar_that_is_behind_raises_no_false_alarm() {
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let old = fs::read(folder.sidecar()).unwrap();
    accept(&open(&folder.database()), "after").await;
    fs::write(folder.sidecar(), old).unwrap();
    assert!(!load(&open(&folder.database())).await.regressed);
}

#[tokio::test]
async fn opening_and_closing_raises_no_false_alarm() {
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
