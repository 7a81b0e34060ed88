//! Helpers for tests on real files: a temporary folder, and a lane with rows.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]
#![allow(dead_code, reason = "every test program uses some of these")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gapless_domain::{
    Address, Cursor, EvmCall, Intent, IntentDraft, LaneCommit, Lease, LeaseTerms, Limits, NodeText, Nonce, OwnerId,
    ProtectCode, Protection, RequestId, Speed, SubmitterId, Timestamp, TxId,
};
use gapless_store::{
    Accepted, Acquired, CommitVerdict, IntentIntake, LaneSnapshot, Lanes, Leases, Loaded, ManualClock, NewIntent,
    NewSubmitter, StoreError, Views,
};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};

static LAST: AtomicU64 = AtomicU64::new(0);

fn number() -> u64 {
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// A folder of one test, removed when the value is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("gapless-sqlite-{}-{}", std::process::id(), number()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("ledger.db")
    }

    pub(crate) fn sidecar(&self) -> PathBuf {
        self.0.join("ledger.db.canary")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Options with a clock that stands still at a plausible time, also after a restart.
pub(crate) fn options() -> SqliteOptions {
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000));
    SqliteOptions { lease: LeaseTerms::default(), clock: Arc::new(clock), migrate: true, checkpoint_pages: 1000 }
}

pub(crate) fn try_open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(Location::File(path.to_owned()), OwnerId::new("test", 1), options())
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    try_open(path).unwrap()
}

pub(crate) fn lane() -> SubmitterId {
    "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap()
}

pub(crate) async fn register(store: &SqliteStore) {
    store.register_submitters(&[NewSubmitter { id: lane(), alias: None }]).await.unwrap();
}

/// An intent whose id follows from its request, so that every process makes the same intent.
pub(crate) fn intent(request: &str) -> NewIntent {
    let hash = gapless_domain::keccak256(request);
    let id = TxId::from_uuid(uuid::Uuid::from_slice(&hash[..16]).unwrap());
    let call = EvmCall { to: Some(Address::repeat_byte(0x11)), data: vec![7; 200].into(), ..EvmCall::default() };
    let draft = IntentDraft {
        submitter: lane(),
        request_id: request.to_owned(),
        payload: call.into(),
        speed: Speed::Standard,
        valid_until: None,
        metadata: None,
    };
    NewIntent { id, intent: Intent::new(draft, &Limits::default()).unwrap() }
}

pub(crate) async fn accept(store: &SqliteStore, request: &str) {
    assert_eq!(store.accept(&[intent(request)]).await.unwrap(), [Accepted::New]);
}

pub(crate) async fn is_there(store: &SqliteStore, request: &str) -> bool {
    let expected = intent(request);
    let found = store.find_request(&lane(), &RequestId::restore(request)).await.unwrap();
    assert!(found.is_none_or(|id| id == expected.id));
    let row = store.get(&[expected.id]).await.unwrap().remove(0);
    assert_eq!(row.as_ref().map(|tx| &tx.intent), found.map(|_| &expected.intent));
    found.is_some()
}

pub(crate) async fn acquire(store: &SqliteStore) -> Lease {
    match store.acquire(&[lane()]).await.unwrap().remove(0) {
        Acquired::Held(lease) => lease,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn load(store: &SqliteStore) -> LaneSnapshot {
    match store.load_lanes(&[acquire(store).await]).await.unwrap().remove(0) {
        Loaded::Lane(snapshot) => snapshot,
        Loaded::Fenced => panic!("fenced"),
    }
}

/// Writes the cursor of the lane once more.
pub(crate) async fn write_lane(store: &SqliteStore) -> CommitVerdict {
    let cursor = load(store).await.cursor.unwrap_or(Cursor::starting_at(Nonce::ZERO));
    let mut commit = LaneCommit::new(&acquire(store).await);
    commit.set_in_flight(&cursor, true).unwrap();
    store.commit(&[commit]).await.unwrap().verdicts.remove(0)
}

/// Takes notice of lost commits: the only write that a regressed lane may make.
pub(crate) async fn take_notice(store: &SqliteStore) -> CommitVerdict {
    let cursor = load(store).await.cursor.unwrap_or(Cursor::starting_at(Nonce::ZERO));
    let mut commit = LaneCommit::new(&acquire(store).await);
    let protection = Protection { code: ProtectCode::StoreRegressed, detail: NodeText::new("restored") };
    commit.protect(&cursor, protection).unwrap();
    store.commit(&[commit]).await.unwrap().verdicts.remove(0)
}

/// Creates a database whose lane has written something, and closes it.
pub(crate) async fn with_a_lane(folder: &Folder) {
    let store = open(&folder.database());
    register(&store).await;
    accept(&store, "before").await;
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
}
