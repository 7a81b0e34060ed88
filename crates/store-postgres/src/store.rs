//! The handle of one node. Each verb of the contract calls the module that has its SQL.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{
    Attempt, AuditEntry, ChainId, Command, CommandId, CommandStatus, Event, EventPosition, Head, IntentRecord,
    LaneCommit, Lease, NewCommand, NodeText, Nonce, OwnerId, RequestId, SubmitterId, Timestamp, TxId,
};
use gapless_store::{
    Accepted, Acquired, AuditFilter, AuditRow, CancelVerdict, Census, Committed, HeadVerdict, Heads, IntentIntake,
    LaneStatus, Lanes, Leases, Loaded, NewIntent, NewSubmitter, Outbox, Renewal, RetentionKind, SlotStatus, StoreError,
    TxFilter, Upkeep, Views, Wakeups, changed_lanes, has_visible_change,
};
use tokio::sync::Mutex;
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

use crate::canary::{Canary, declare_lost};
use crate::commit::Writer;
use crate::error::unavailable;
use crate::identity::Identity;
use crate::notify::Notifier;
use crate::options::PgOptions;
use crate::session::{Pool, PooledSession, Session, within};
use crate::{accept, audit, events, heads, lease, load, read, retention, schema, slots, status, sweep};

/// Sessions for leases: one for a renewal, one for a concurrent acquisition, and one spare.
const LEASE_SESSIONS: usize = 3;

/// The handle of one node on a PostgreSQL database.
#[derive(Debug)]
pub struct PgStore {
    pub(crate) owner: OwnerId,
    pub(crate) options: PgOptions,
    pub(crate) pool: Pool,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) notifier: Notifier,
    pub(crate) canary: Canary,
    /// Sessions for leases only, because a renewal must not wait behind a long read.
    pub(crate) lease_pool: Pool,
}

impl PgStore {
    /// Connects, migrates the schema, and registers the node. `owner` must be new: no earlier process may have used it.
    pub async fn open(url: &str, owner: OwnerId, options: PgOptions) -> Result<Self, StoreError> {
        let config = configure(url, &options)?;
        let session = Session::open(&config, &options).await?;
        let ask = within(options.call_timeout, "asking for the identity of the server", Identity::of(session.client()));
        let identity = ask.await?;
        // Migrations have no time limit; every other statement has one.
        schema::ensure(session.client(), options.migrate).await?;
        within(options.call_timeout, "registering the process", async {
            identity.ensure_known(session.client()).await?;
            let insert = "INSERT INTO node (owner_node) VALUES ($1)";
            session.client().execute(insert, &[&owner.as_str()]).await.map_err(unavailable)
        })
        .await?;
        let notifier = Notifier::start(config.clone(), options.clone());
        Ok(PgStore {
            owner,
            pool: Pool::new(config.clone(), options.clone(), options.pool_size),
            lease_pool: Pool::new(config.clone(), options.clone(), LEASE_SESSIONS),
            writer: Mutex::new(Writer::new(config)),
            notifier,
            options,
            canary: Canary::default(),
        })
    }

    /// Runs `work` on a session of the pool. The session returns to the pool only if `work` succeeded.
    pub(crate) async fn with_session<T>(
        &self,
        what: &'static str,
        work: impl AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.with_session_of(&self.pool, what, work).await
    }

    pub(crate) async fn with_session_of<T>(
        &self,
        pool: &Pool,
        what: &'static str,
        work: impl AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        within(self.options.call_timeout, what, async {
            let session: PooledSession<'_> = pool.get().await?;
            match work(&session).await {
                Ok(value) => {
                    session.put_back();
                    Ok(value)
                }
                Err(error) => Err(unavailable(error)),
            }
        })
        .await
    }
}

fn configure(url: &str, options: &PgOptions) -> Result<Config, StoreError> {
    if !options.lease.are_sound() {
        return Err(StoreError::Setup(
            "lease.renew_interval must fit twice into lease.duration minus lease.clock_skew".to_owned(),
        ));
    }
    // The error message must not repeat an invalid URL, which may contain a password.
    let mut config: Config =
        url.parse().map_err(|_| StoreError::Setup("store.url is not a PostgreSQL URL".to_owned()))?;
    config.connect_timeout(options.connect_timeout);
    config.tcp_user_timeout(options.call_timeout);
    config.keepalives_idle(options.call_timeout);
    if config.get_hosts().len() > 1 {
        // Reads must be authoritative, so they never go to a replica.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_application_name().is_none() {
        config.application_name("gapless");
    }
    Ok(config)
}

#[async_trait]
impl IntentIntake for PgStore {
    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        accept::register(self, submitters).await
    }

    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        accept::accept(self, intents).await
    }

    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
        accept::cancel_queued(self, ids).await
    }

    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
        accept::put_commands(self, commands).await
    }
}

#[async_trait]
impl Leases for PgStore {
    fn owner(&self) -> &OwnerId {
        &self.owner
    }

    fn wakeups(&self) -> Wakeups {
        self.notifier.wakeups()
    }

    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        lease::acquire(self, lanes).await
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        lease::renew(self).await
    }

    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        lease::release(self, leases).await
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
        sweep::lanes_with_work(self, after, limit).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        status::census(self).await
    }
}

#[async_trait]
impl Lanes for PgStore {
    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
        load::load_lanes(self, leases).await
    }

    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let committed = self.writer.lock().await.commit(self, commits).await;
        let changed: BTreeSet<SubmitterId> = match &committed {
            Ok(committed) => changed_lanes(commits, &committed.verdicts).cloned().collect(),
            // The commits may have been applied.
            Err(StoreError::OutcomeUnknown(_)) => commits
                .iter()
                .filter(|commit| has_visible_change(commit))
                .map(|commit| commit.lease().submitter().clone())
                .collect(),
            Err(_) => BTreeSet::new(),
        };
        self.notifier.tell(changed);
        committed
    }

    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
        sweep::peek_queues(self, lanes, without).await
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        sweep::open_commands(self, lanes).await
    }
}

#[async_trait]
impl Outbox for PgStore {
    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        events::read(self, after, limit).await
    }

    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
        events::claim(self, consumer, limit).await
    }

    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
        events::ack(self, consumer, upto).await
    }
}

#[async_trait]
impl Views for PgStore {
    fn changes(&self) -> Wakeups {
        self.notifier.changes()
    }

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError> {
        read::submitters(self).await
    }

    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
        status::lane_status(self, lanes).await
    }

    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError> {
        slots::open_slots(self, lane, from, limit).await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        audit::log(self, filter).await
    }

    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
        read::get(self, ids).await
    }

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError> {
        read::find_request(self, submitter, request).await
    }

    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
        read::used_for(self, lane, nonce).await
    }

    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
        read::list(self, filter).await
    }

    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
        read::commands(self, ids).await
    }

    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        read::attempts(self, id).await
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        events::read_one(self, id, limit).await
    }
}

#[async_trait]
impl Heads for PgStore {
    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
        heads::save(self, chain, head).await
    }

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError> {
        heads::load(self, chain).await
    }

    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError> {
        heads::forget(self, chain, &AuditRow::accept_chain(chain, by, why)).await
    }
}

#[async_trait]
impl Upkeep for PgStore {
    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError> {
        retention::claim(self).await
    }

    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
        retention::apply(self, kind, age, limit).await
    }

    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        within(self.options.call_timeout, "declaring lost commits", async {
            let session = self.pool.get().await?;
            declare_lost(session.client(), by, why).await?;
            session.put_back();
            Ok(())
        })
        .await
    }

    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let reconcile = format!(
            "WITH reconciled AS (
                 UPDATE store_epoch SET reconciled_at = clock_timestamp(), why = why || '; ' || $5
                 WHERE reconciled_at IS NULL
             ) {}",
            audit::WRITE
        );
        let audited = AuditRow::declare_reconciled(by, why);
        self.with_session("reconciling", async |session| {
            audit::write(session.client(), &reconcile, &audited, &[&why]).await
        })
        .await
    }
}
