//! PostgreSQL: the primary of the nodes, and an asynchronous standby.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use gapless_domain::OwnerId;
use gapless_store::StoreError;
use gapless_store_postgres::{PgOptions, PgStore};
use gapless_testbed::{Error, FaultProxy, Postgres};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::support::{NodeProxies, TestDatabase, within};

#[derive(Debug)]
pub(crate) struct PostgresServers {
    /// Locked by the fault that acts on the servers.
    pair: Mutex<PrimaryAndStandby>,
    /// The URL of the database on the primary.
    url: RwLock<String>,
}

#[derive(Debug)]
struct PrimaryAndStandby {
    primary: Arc<Postgres>,
    standby: Option<StandbyServer>,
}

#[derive(Debug)]
struct StandbyServer {
    server: Postgres,
    /// The connection to the primary. Commits that have not passed when it is cut never reach the standby.
    proxy: FaultProxy,
}

/// The commits that were lost with a primary.
#[derive(Debug)]
pub(crate) struct LostCommits {
    /// The number of lost commits of nodes.
    pub(crate) commits: i64,
    /// The progress of the lanes on the promoted standby, before a node reached it.
    pub(crate) progress: BTreeMap<String, LaneProgress>,
}

/// The progress of a lane, which must not change while the lane is in PROTECT because of lost commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneProgress {
    next_nonce: Option<i64>,
    slots: i64,
    intents: i64,
    ended: i64,
}

/// The number of commits of all nodes, by their own count.
const COMMITS: &str = "SELECT coalesce(sum(canary), 0)::bigint FROM node";
const PROGRESS: &str = "
    SELECT s.alias, c.next_nonce,
           (SELECT count(*) FROM slot o WHERE o.submitter = s.submitter),
           (SELECT count(*) FROM managed_tx t WHERE t.submitter = s.submitter),
           (SELECT count(*) FROM managed_tx t WHERE t.submitter = s.submitter AND t.ended_at IS NOT NULL)
    FROM submitter s LEFT JOIN submitter_nonce_cursor c USING (submitter)";
const REQUESTS: &str = "SELECT request_id FROM managed_tx JOIN submitter USING (submitter) WHERE alias = $1";
const HELD_BACK: &str = "SELECT count(*) FROM tx_event WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())";
const NOW: &str = "SELECT clock_timestamp()";
/// A node writes `seen_at` whenever it has checked that its own commits are in the database.
const CHECKED_SINCE: &str = "SELECT count(DISTINCT split_part(owner_node, '/', 1)) FROM node WHERE seen_at > $1";
/// The time limit for the next commit: one node is always healthy, and the callers always have requests.
const A_COMMIT: Duration = Duration::from_secs(20);

impl PostgresServers {
    pub(crate) fn new(database: TestDatabase) -> Self {
        let TestDatabase { url, server } = database;
        let pair = PrimaryAndStandby { primary: Arc::new(server.unwrap()), standby: None };
        PostgresServers { pair: Mutex::new(pair), url: RwLock::new(url) }
    }

    /// Creates a standby. Returns false if this machine has no tool for it.
    pub(crate) async fn make_standby(&self) -> bool {
        let mut pair = self.pair.lock().await;
        let primary = Arc::clone(&pair.primary);
        let made = tokio::task::spawn_blocking(move || {
            let proxy = FaultProxy::start(primary.port())?;
            let server = Postgres::standby_through(&primary, proxy.port())?;
            Ok(StandbyServer { server, proxy })
        });
        pair.standby = match made.await.unwrap() {
            Err(Error::MissingTool { .. }) => None,
            made => Some(made.unwrap()),
        };
        pair.standby.is_some()
    }

    /// Stops the primary at once, and starts it again after some time.
    pub(crate) async fn crash(&self, away: Duration) {
        let pair = self.pair.lock().await;
        let primary = Arc::clone(&pair.primary);
        let crash = move || {
            primary.stop_immediate().unwrap();
            std::thread::sleep(away);
            primary.start_again().unwrap();
        };
        tokio::task::spawn_blocking(crash).await.unwrap();
    }

    /// Cuts the standby from the primary, waits for some time and until there is a commit to lose, crashes the primary,
    /// promotes the standby, and redirects all proxies to it.
    pub(crate) async fn fail_over(&self, behind: Duration, proxies: &[NodeProxies]) -> LostCommits {
        let mut pair = self.pair.lock().await;
        let StandbyServer { server, proxy } = pair.standby.take().expect("there is no standby");
        let before = self.count(COMMITS).await;
        proxy.cut();
        tokio::time::sleep(behind).await;
        let made = within(A_COMMIT, async || Some(self.count(COMMITS).await).filter(|now| *now > before)).await;
        let (old, new) = (Arc::clone(&pair.primary), Arc::new(server));
        let promoted = Arc::clone(&new);
        let fail_over = move || {
            old.stop_immediate().unwrap();
            promoted.promote().unwrap();
        };
        tokio::task::spawn_blocking(fail_over).await.unwrap();
        let url = self.url();
        let from = format!(":{}/", pair.primary.port());
        *self.url.write().unwrap() = url.replace(&from, &format!(":{}/", new.port()));
        let kept = self.count(COMMITS).await;
        let loss = LostCommits { commits: made.unwrap_or(before) - kept, progress: self.lane_progress().await };
        for proxies in proxies {
            proxies.database.lead_to(new.port());
        }
        // Dropping the old primary removes its files.
        pair.primary = new;
        loss
    }

    pub(crate) async fn lane_progress(&self) -> BTreeMap<String, LaneProgress> {
        let rows = self.raw().await.query(PROGRESS, &[]).await.unwrap();
        let progress = |row: &tokio_postgres::Row| LaneProgress {
            next_nonce: row.get(1),
            slots: row.get(2),
            intents: row.get(3),
            ended: row.get(4),
        };
        rows.iter().map(|row| (row.get(0), progress(row))).collect()
    }

    /// The time of the database's clock.
    pub(crate) async fn now(&self) -> SystemTime {
        self.raw().await.query_one(NOW, &[]).await.unwrap().get(0)
    }

    /// The number of nodes that have checked since `then` that the database has all their commits.
    pub(crate) async fn checked_since(&self, then: SystemTime) -> usize {
        let nodes: i64 = self.raw().await.query_one(CHECKED_SINCE, &[&then]).await.unwrap().get(0);
        usize::try_from(nodes).unwrap()
    }

    /// The request ids of a submitter that the database has.
    pub(crate) async fn requests(&self, submitter: &str) -> BTreeSet<String> {
        let rows = self.raw().await.query(REQUESTS, &[&submitter]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// A plain PostgreSQL connection.
    pub(crate) async fn raw(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// The store as a process without a lane opens it.
    pub(crate) async fn store(&self) -> Result<PgStore, StoreError> {
        let owner = OwnerId::new("checker", Uuid::new_v4().as_u128());
        PgStore::open(&self.url(), owner, PgOptions { migrate: false, ..PgOptions::default() }).await
    }

    /// True if the whole event stream can be read. Readers stop below the oldest open database transaction, so that
    /// they may be late but never miss an event.
    pub(crate) async fn is_stream_complete(&self) -> bool {
        self.count(HELD_BACK).await == 0
    }

    async fn count(&self, query: &str) -> i64 {
        self.raw().await.query_one(query, &[]).await.unwrap().get(0)
    }

    fn url(&self) -> String {
        self.url.read().unwrap().clone()
    }
}
