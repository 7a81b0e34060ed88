//! PostgreSQL: the primary that the nodes work on, and a standby that follows it without being waited for.

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

use crate::support::{Database, Roads, within};

#[derive(Debug)]
pub(crate) struct Servers {
    /// Whoever has it decides what happens to them.
    pair: Mutex<Pair>,
    /// Of the database on the primary.
    url: RwLock<String>,
}

#[derive(Debug)]
struct Pair {
    primary: Arc<Postgres>,
    standby: Option<Standby>,
}

#[derive(Debug)]
struct Standby {
    server: Postgres,
    /// To the primary. What the standby has not heard when this is cut, it will never hear.
    road: FaultProxy,
}

/// A primary that is no more, with commits that nobody else has.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Commits of nodes.
    pub(crate) commits: i64,
    /// Where the lanes stood on the standby when it was promoted, before a node had reached it.
    pub(crate) stood: BTreeMap<String, Standing>,
}

/// How far a lane is. None of this may move while it is in PROTECT for lost commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    next_nonce: Option<i64>,
    slots: i64,
    intents: i64,
    ended: i64,
}

/// How many commits nodes have made, by their own count.
const COMMITS: &str = "SELECT coalesce(sum(canary), 0)::bigint FROM node";
const STANDING: &str = "
    SELECT s.alias, c.next_nonce,
           (SELECT count(*) FROM slot o WHERE o.submitter = s.submitter),
           (SELECT count(*) FROM managed_tx t WHERE t.submitter = s.submitter),
           (SELECT count(*) FROM managed_tx t WHERE t.submitter = s.submitter AND t.ended_at IS NOT NULL)
    FROM submitter s LEFT JOIN submitter_nonce_cursor c USING (submitter)";
const REQUESTS: &str = "SELECT request_id FROM managed_tx JOIN submitter USING (submitter) WHERE alias = $1";
const HELD_BACK: &str = "SELECT count(*) FROM tx_event WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())";
const NOW: &str = "SELECT clock_timestamp()";
/// A process writes this down whenever it has found its own commits where they were.
const LOOKED_SINCE: &str = "SELECT count(DISTINCT split_part(owner_node, '/', 1)) FROM node WHERE seen_at > $1";
/// There is always a node that is well, and callers do not rest.
const A_COMMIT: Duration = Duration::from_secs(20);

impl Servers {
    pub(crate) fn new(database: Database) -> Self {
        let Database { url, server } = database;
        let pair = Pair { primary: Arc::new(server.unwrap()), standby: None };
        Servers { pair: Mutex::new(pair), url: RwLock::new(url) }
    }

    /// A standby for the next time. False if this machine cannot make one.
    pub(crate) async fn make_standby(&self) -> bool {
        let mut pair = self.pair.lock().await;
        let primary = Arc::clone(&pair.primary);
        let made = tokio::task::spawn_blocking(move || {
            let road = FaultProxy::start(primary.port())?;
            let server = Postgres::standby_through(&primary, road.port())?;
            Ok(Standby { server, road })
        });
        pair.standby = match made.await.unwrap() {
            Err(Error::MissingTool { .. }) => None,
            made => Some(made.unwrap()),
        };
        pair.standby.is_some()
    }

    /// A hard restart.
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

    /// The standby hears nothing any more, the primary goes on for so long and until there is something to lose, and crashes; the standby
    /// takes its place, and all roads lead to it.
    pub(crate) async fn fail_over(&self, behind: Duration, roads: &[Roads]) -> Loss {
        let mut pair = self.pair.lock().await;
        let Standby { server, road } = pair.standby.take().expect("a standby was made after the last time");
        let before = self.count(COMMITS).await;
        road.cut();
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
        let loss = Loss { commits: made.unwrap_or(before) - kept, stood: self.standings().await };
        for roads in roads {
            roads.database.lead_to(new.port());
        }
        // This ends what is left of the old one.
        pair.primary = new;
        loss
    }

    pub(crate) async fn standings(&self) -> BTreeMap<String, Standing> {
        let rows = self.raw().await.query(STANDING, &[]).await.unwrap();
        let standing = |row: &tokio_postgres::Row| Standing {
            next_nonce: row.get(1),
            slots: row.get(2),
            intents: row.get(3),
            ended: row.get(4),
        };
        rows.iter().map(|row| (row.get(0), standing(row))).collect()
    }

    /// What the database's clock says.
    pub(crate) async fn now(&self) -> SystemTime {
        self.raw().await.query_one(NOW, &[]).await.unwrap().get(0)
    }

    /// How many nodes have looked since then whether the database holds all that they have written.
    pub(crate) async fn looked_since(&self, then: SystemTime) -> usize {
        let nodes: i64 = self.raw().await.query_one(LOOKED_SINCE, &[&then]).await.unwrap().get(0);
        usize::try_from(nodes).unwrap()
    }

    /// The ids of all requests of a submitter that the database knows.
    pub(crate) async fn requests(&self, submitter: &str) -> BTreeSet<String> {
        let rows = self.raw().await.query(REQUESTS, &[&submitter]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// A connection that knows nothing of Gapless.
    pub(crate) async fn raw(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// The store as a process sees it that owns no lane.
    pub(crate) async fn store(&self) -> Result<PgStore, StoreError> {
        let owner = OwnerId::new("verdict", Uuid::new_v4().as_u128());
        PgStore::open(&self.url(), owner, PgOptions { migrate: false, ..PgOptions::default() }).await
    }

    /// Readers of the stream stop below the oldest transaction that is under way, whoever has it: they may be late, but never wrong.
    pub(crate) async fn stream_is_whole(&self) -> bool {
        self.count(HELD_BACK).await == 0
    }

    async fn count(&self, query: &str) -> i64 {
        self.raw().await.query_one(query, &[]).await.unwrap().get(0)
    }

    fn url(&self) -> String {
        self.url.read().unwrap().clone()
    }
}
