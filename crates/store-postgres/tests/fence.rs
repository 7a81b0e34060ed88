//! The fence (N05): four ways in which a simpler fence fails, and that the fence of the store does not.
//!
//! The simpler fence is that of the design documents ("seeds"): `UPDATE … AND EXISTS (SELECT … FROM submitter_lease
//! …)`. It is kept here, and only here, because its faults are not visible in its text.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_store::{Acquired, CommitVerdict, Leases};
use gapless_store_postgres::{PgOptions, PgStore};
use support::proxy::{Action, Proxy};
use support::{Database, Scene, TERMS, take_over};
use tokio_postgres::Client;

/// Longer than the lease and the skew.
const EXPIRED: Duration = Duration::from_millis(1_900);

/// Raw sessions on the tables of the simpler fence: an old owner with token 1, a new owner, and a third session.
struct SeedFence {
    old: Client,
    new: Client,
    other: Client,
}

impl SeedFence {
    async fn new() -> Self {
        let db = Database::shared().await;
        let old = db.raw().await;
        old.batch_execute(
            "CREATE TABLE submitter_lease (
                 submitter TEXT PRIMARY KEY, owner_node TEXT, fencing_token BIGINT, expires_at TIMESTAMPTZ);
             CREATE TABLE managed_tx (
                 tx_id INT PRIMARY KEY, submitter TEXT, state TEXT, fencing_token BIGINT, note INT DEFAULT 0);
             INSERT INTO submitter_lease VALUES ('s', 'old', 1, clock_timestamp() + interval '0.3 s');
             INSERT INTO managed_tx VALUES (1, 's', 'ALLOCATED', 1)",
        )
        .await
        .unwrap();
        SeedFence { old, new: db.raw().await, other: db.raw().await }
    }

    /// The takeover of seed 003 §4.2, under the row lock.
    async fn take_over(&self) -> u64 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        self.new
            .execute(
                "UPDATE submitter_lease
                 SET owner_node = 'new', fencing_token = fencing_token + 1, expires_at = now() + interval '10 s'
                 WHERE submitter = 's' AND expires_at <= now()",
                &[],
            )
            .await
            .unwrap()
    }

    async fn state(&self) -> String {
        self.new.query_one("SELECT state FROM managed_tx", &[]).await.unwrap().get(0)
    }
}

/// The fenced write of seed 003 §4.3, with literals for its parameters.
const SEED_WRITE: &str = "
    UPDATE managed_tx SET state = 'TRACKING', fencing_token = 1
    WHERE tx_id = 1 AND submitter = 's'
      AND EXISTS (SELECT 1 FROM submitter_lease sl
                  WHERE sl.submitter = 's' AND sl.owner_node = 'old' AND sl.expires_at > now()
                    AND sl.fencing_token = 1)";

#[tokio::test]
async fn seed_fence_by_now_lets_an_expired_owner_write() {
    let fence = SeedFence::new().await;
    fence.old.batch_execute("BEGIN").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let valid = "SELECT expires_at > clock_timestamp() FROM submitter_lease";
    assert!(!fence.new.query_one(valid, &[]).await.unwrap().get::<_, bool>(0), "the lease has expired");
    assert_eq!(fence.old.execute(SEED_WRITE, &[]).await.unwrap(), 1, "the write passes all the same");
    fence.old.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn seed_fence_lets_an_update_pass_that_waited_for_a_row() {
    let fence = Arc::new(SeedFence::new().await);
    fence.other.batch_execute("BEGIN; UPDATE managed_tx SET note = 1 WHERE tx_id = 1").await.unwrap();
    let writer = Arc::clone(&fence);
    let write = tokio::spawn(async move { writer.old.execute(SEED_WRITE, &[]).await.unwrap() });
    assert_eq!(fence.take_over().await, 1);
    fence.other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(write.await.unwrap(), 1, "the old owner's write passes after the takeover");
    assert_eq!(fence.state().await, "TRACKING");
}

#[tokio::test]
async fn seed_fence_lets_a_repeatable_read_snapshot_pass() {
    let fence = SeedFence::new().await;
    fence.old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM submitter_lease").await.unwrap();
    assert_eq!(fence.take_over().await, 1);
    assert_eq!(fence.old.execute(SEED_WRITE, &[]).await.unwrap(), 1, "the snapshot still shows the old lease");
    fence.old.batch_execute("COMMIT").await.unwrap();
    assert_eq!(fence.state().await, "TRACKING");
}

#[tokio::test]
async fn seed_fence_lets_a_write_commit_after_the_takeover() {
    let fence = SeedFence::new().await;
    fence.old.batch_execute("BEGIN").await.unwrap();
    assert_eq!(fence.old.execute(SEED_WRITE, &[]).await.unwrap(), 1);
    assert_eq!(fence.take_over().await, 1, "nothing stops the takeover");
    assert_eq!(fence.state().await, "ALLOCATED", "the new owner loads this state");
    fence.old.batch_execute("COMMIT").await.unwrap();
    assert_eq!(fence.state().await, "TRACKING", "the write of the old owner changes it afterwards");
}

/// An old owner behind a proxy, a new owner, and one lane with one queued intent.
struct TwoOwners {
    db: Database,
    proxy: Proxy,
    old: Scene,
    new: Arc<PgStore>,
}

impl TwoOwners {
    async fn start() -> Self {
        Self::on(Database::shared().await).await
    }

    async fn on(mut db: Database) -> Self {
        // These tests are about order, not about time-outs: the server must not end a transaction meanwhile.
        db.options = PgOptions {
            lock_timeout: Duration::from_secs(8),
            idle_in_transaction_timeout: Duration::from_secs(9),
            ..db.options
        };
        let (proxy, url) = db.proxied().await;
        let old = Scene::on(db.open_at(&url, "old").await, &["order-1"]).await;
        let new = db.open("new").await;
        TwoOwners { db, proxy, old, new }
    }

    async fn try_take_over(&self) -> Acquired {
        self.new.acquire(std::slice::from_ref(&self.old.lane)).await.unwrap().remove(0)
    }
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_of_an_expired_owner_is_fenced() {
    let owners = TwoOwners::start().await;
    let commit = owners.old.bind().await;
    let token = commit.lease().token();
    let rule = owners.proxy.arm(b"BEGIN\0", Action::HoldAfter);
    let write = owners.old.write(commit);
    rule.wait_until_seen().await;
    tokio::time::sleep(TERMS.duration).await;
    rule.release();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Fenced]);
    assert!(take_over(&owners.new, &owners.old.lane).await.token() > token);
    assert_eq!(owners.old.bound_seen_by(&owners.new).await, 0);
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeover_waits_for_a_write_that_waits_for_a_row() {
    let owners = TwoOwners::start().await;
    let commit = owners.old.bind().await;
    let other = owners.db.raw().await;
    other.batch_execute("BEGIN; SELECT FROM managed_tx FOR UPDATE").await.unwrap();
    let write = owners.old.write(commit);
    tokio::time::sleep(EXPIRED).await;
    assert_eq!(owners.try_take_over().await, Acquired::Busy, "the write holds the lease row");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    take_over(&owners.new, &owners.old.lane).await;
    assert_eq!(owners.old.bound_seen_by(&owners.new).await, 1, "the new owner loads the write of the old one");
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fence_holds_when_the_default_is_repeatable_read() {
    let db = Database::shared().await;
    let set_default = "DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$";
    db.raw().await.batch_execute(set_default).await.unwrap();
    let owners = TwoOwners::on(db).await;
    let commit = owners.old.bind().await;
    let token = commit.lease().token();
    let rule = owners.proxy.arm(b"BEGIN\0", Action::HoldAfter);
    let write = owners.old.write(commit);
    rule.wait_until_seen().await;
    assert!(take_over(&owners.new, &owners.old.lane).await.token() > token);
    rule.release();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Fenced]);
    assert_eq!(owners.old.bound_seen_by(&owners.new).await, 0);
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeover_waits_for_a_write_that_is_not_committed() {
    let owners = TwoOwners::start().await;
    let commit = owners.old.bind().await;
    let rule = owners.proxy.arm(b"COMMIT\0", Action::HoldBefore);
    let write = owners.old.write(commit);
    rule.wait_until_seen().await;
    tokio::time::sleep(EXPIRED).await;
    assert_eq!(owners.try_take_over().await, Acquired::Busy);
    rule.release();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    take_over(&owners.new, &owners.old.lane).await;
    assert_eq!(owners.old.bound_seen_by(&owners.new).await, 1);
}
