//! The four holes of the seeds' fence, each shown open with the seeds' SQL and shut with ours (N05).
//!
//! The seeds' form is `UPDATE … AND EXISTS (SELECT … FROM submitter_lease …)`. It is kept here, and only here, because what
//! is wrong with it is not visible by reading it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_store::{Acquired, CommitVerdict, Leases};
use gapless_store_postgres::{PgOptions, PgStore};
use support::proxy::{Action, Proxy};
use support::{Database, Scene, TERMS, take_over};
use tokio_postgres::Client;

/// Past the lease and the skew.
const EXPIRED: Duration = Duration::from_millis(1_900);

/// Two raw sessions on the seeds' tables: an old owner with token 1, and a new one.
struct Seeds {
    old: Client,
    new: Client,
    other: Client,
}

impl Seeds {
    async fn new() -> Self {
        let db = Database::shared().await;
        let old = db.raw().await;
        old.batch_execute(
            "CREATE TABLE submitter_lease (submitter TEXT PRIMARY KEY, owner_node TEXT, fencing_token BIGINT, expires_at TIMESTAMPTZ);
             CREATE TABLE managed_tx (tx_id INT PRIMARY KEY, submitter TEXT, state TEXT, fencing_token BIGINT, note INT DEFAULT 0);
             INSERT INTO submitter_lease VALUES ('s', 'old', 1, clock_timestamp() + interval '0.3 s');
             INSERT INTO managed_tx VALUES (1, 's', 'ALLOCATED', 1)",
        )
        .await
        .unwrap();
        Seeds { old, new: db.raw().await, other: db.raw().await }
    }

    /// Seed 003 §4.2: take over under the row lock.
    async fn take_over(&self) -> u64 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        self.new
            .execute(
                "UPDATE submitter_lease SET owner_node = 'new', fencing_token = fencing_token + 1, expires_at = now() + interval '10 s'
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

/// Seed 003 §4.3, word for word but for the parameters.
const SEED_WRITE: &str = "
    UPDATE managed_tx SET state = 'TRACKING', fencing_token = 1
    WHERE tx_id = 1 AND submitter = 's'
      AND EXISTS (SELECT 1 FROM submitter_lease sl
                  WHERE sl.submitter = 's' AND sl.owner_node = 'old' AND sl.expires_at > now() AND sl.fencing_token = 1)";

#[tokio::test]
async fn the_seeds_fence_lets_an_expired_owner_write_because_now_stands_still() {
    let seeds = Seeds::new().await;
    seeds.old.batch_execute("BEGIN").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let valid = "SELECT expires_at > clock_timestamp() FROM submitter_lease";
    assert!(!seeds.new.query_one(valid, &[]).await.unwrap().get::<_, bool>(0), "the lease has expired");
    assert_eq!(seeds.old.execute(SEED_WRITE, &[]).await.unwrap(), 1, "and yet the write passes");
    seeds.old.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn the_seeds_fence_lets_an_update_through_that_waited_during_the_takeover() {
    let seeds = Arc::new(Seeds::new().await);
    seeds.other.batch_execute("BEGIN; UPDATE managed_tx SET note = 1 WHERE tx_id = 1").await.unwrap();
    let writer = Arc::clone(&seeds);
    let write = tokio::spawn(async move { writer.old.execute(SEED_WRITE, &[]).await.unwrap() });
    assert_eq!(seeds.take_over().await, 1);
    seeds.other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(write.await.unwrap(), 1, "the old owner's write passes after the takeover");
    assert_eq!(seeds.state().await, "TRACKING");
}

#[tokio::test]
async fn the_seeds_fence_lets_a_repeatable_read_snapshot_pass() {
    let seeds = Seeds::new().await;
    seeds.old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM submitter_lease").await.unwrap();
    assert_eq!(seeds.take_over().await, 1);
    assert_eq!(seeds.old.execute(SEED_WRITE, &[]).await.unwrap(), 1, "the snapshot still shows the old lease");
    seeds.old.batch_execute("COMMIT").await.unwrap();
    assert_eq!(seeds.state().await, "TRACKING");
}

#[tokio::test]
async fn the_seeds_fence_lets_an_uncommitted_write_land_after_the_takeover() {
    let seeds = Seeds::new().await;
    seeds.old.batch_execute("BEGIN").await.unwrap();
    assert_eq!(seeds.old.execute(SEED_WRITE, &[]).await.unwrap(), 1);
    assert_eq!(seeds.take_over().await, 1, "nothing stops the takeover");
    assert_eq!(seeds.state().await, "ALLOCATED", "this is what the new owner loads");
    seeds.old.batch_execute("COMMIT").await.unwrap();
    assert_eq!(seeds.state().await, "TRACKING", "and this is what it becomes under its hands");
}

/// An old owner behind a proxy, a new one beside it, one lane with one queued intent.
struct Stage {
    db: Database,
    proxy: Proxy,
    old: Scene,
    new: Arc<PgStore>,
}

impl Stage {
    async fn set() -> Self {
        Self::on(Database::shared().await).await
    }

    async fn on(mut db: Database) -> Self {
        // The holes are about order, not about time-outs: nothing may be ended by the server while the stage is set.
        db.options = PgOptions {
            lock_timeout: Duration::from_secs(8),
            idle_in_transaction_timeout: Duration::from_secs(9),
            ..db.options
        };
        let (proxy, url) = db.proxied().await;
        let old = Scene::on(db.open_at(&url, "old").await, &["order-1"]).await;
        let new = db.open("new").await;
        Stage { db, proxy, old, new }
    }

    async fn try_take_over(&self) -> Acquired {
        self.new.acquire(std::slice::from_ref(&self.old.lane)).await.unwrap().remove(0)
    }
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_owner_does_not_pass_though_its_transaction_began_before() {
    let stage = Stage::set().await;
    let commit = stage.old.bind().await;
    let token = commit.lease().token();
    let rule = stage.proxy.arm(b"BEGIN\0", Action::HoldAfter);
    let write = stage.old.write(commit);
    rule.wait_until_seen().await;
    tokio::time::sleep(TERMS.duration).await;
    rule.release();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Fenced]);
    assert!(take_over(&stage.new, &stage.old.lane).await.token() > token);
    assert_eq!(stage.old.bound_seen_by(&stage.new).await, 0);
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_waits_for_a_write_that_waits_for_a_row() {
    let stage = Stage::set().await;
    let commit = stage.old.bind().await;
    let other = stage.db.raw().await;
    other.batch_execute("BEGIN; SELECT FROM managed_tx FOR UPDATE").await.unwrap();
    let write = stage.old.write(commit);
    tokio::time::sleep(EXPIRED).await;
    assert_eq!(stage.try_take_over().await, Acquired::Busy, "the write holds the lease row");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    take_over(&stage.new, &stage.old.lane).await;
    assert_eq!(stage.old.bound_seen_by(&stage.new).await, 1, "the new owner loads what the old one wrote");
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_defaults_to_repeatable_read_changes_nothing() {
    let db = Database::shared().await;
    let set_default = "DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$";
    db.raw().await.batch_execute(set_default).await.unwrap();
    let stage = Stage::on(db).await;
    let commit = stage.old.bind().await;
    let token = commit.lease().token();
    let rule = stage.proxy.arm(b"BEGIN\0", Action::HoldAfter);
    let write = stage.old.write(commit);
    rule.wait_until_seen().await;
    assert!(take_over(&stage.new, &stage.old.lane).await.token() > token);
    rule.release();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Fenced]);
    assert_eq!(stage.old.bound_seen_by(&stage.new).await, 0);
}

/// proves N05
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_waits_for_a_write_that_is_not_committed_yet() {
    let stage = Stage::set().await;
    let commit = stage.old.bind().await;
    let rule = stage.proxy.arm(b"COMMIT\0", Action::HoldBefore);
    let write = stage.old.write(commit);
    rule.wait_until_seen().await;
    tokio::time::sleep(EXPIRED).await;
    assert_eq!(stage.try_take_over().await, Acquired::Busy);
    rule.release();
    assert_eq!(write.await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    take_over(&stage.new, &stage.old.lane).await;
    assert_eq!(stage.old.bound_seen_by(&stage.new).await, 1);
}
