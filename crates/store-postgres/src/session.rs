//! Connections, their settings, and the pool of them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::poll_fn;
use gapless_store::StoreError;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Config, NoTls, Notification, Row, Statement};

use crate::bulk::BulkStatement;
use crate::counted::Counted;
use crate::error::{timed_out, unavailable};
use crate::identity::Identity;
use crate::options::PgOptions;

/// One connection with its settings. Statements are prepared when they are first used.
#[derive(Debug)]
pub(crate) struct Session {
    client: Counted,
    driver: JoinHandle<()>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    warned: Arc<AtomicBool>,
}

impl Session {
    pub(crate) async fn open(config: &Config, options: &PgOptions) -> Result<Self, StoreError> {
        Self::open_listening(config, options).await.map(|(session, _)| session)
    }

    /// A connection to a server whose identity is known. Another server may have lost commits, so notice is taken of it
    /// before anything is accepted or canceled there.
    pub(crate) async fn open_known(
        config: &Config,
        options: &PgOptions,
        notices: &Notices,
    ) -> Result<Self, StoreError> {
        let session = Self::open(config, options).await?;
        let asked = within(options.call_timeout, "asking for the identity of the server", async {
            let identity = Identity::of(&session.client).await?;
            let known = identity.is_known(&session.client).await?;
            Ok((identity, known))
        });
        let (identity, known) = asked.await?;
        if known {
            return Ok(session);
        }
        within(options.call_timeout, "taking notice of another server", notices.notice(session, identity)).await
    }

    /// A connection with the notifications that come in on it. A server that accepts the connection and then does not
    /// answer counts as unavailable, like one that refuses it.
    pub(crate) async fn open_listening(
        config: &Config,
        options: &PgOptions,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Notification>), StoreError> {
        within(options.connect_timeout, "connecting", Self::connect(config, options)).await
    }

    async fn connect(
        config: &Config,
        options: &PgOptions,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Notification>), StoreError> {
        let (client, mut connection) = config.connect(NoTls).await.map_err(unavailable)?;
        let warned = Arc::new(AtomicBool::new(false));
        let (tell, notifications) = mpsc::unbounded_channel();
        let seen = Arc::clone(&warned);
        let drive = async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                        tracing::warn!(code = notice.code().code(), text = notice.message(), "warning from PostgreSQL");
                        seen.store(true, Ordering::SeqCst);
                    }
                    AsyncMessage::Notification(notification) => {
                        // Most sessions have no receiver.
                        let _ = tell.send(notification);
                    }
                    _ => {}
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a connection needs a task that drives it; the task ends with its session"
        )]
        let driver = tokio::spawn(drive);
        let session = Session { client: Counted::new(client), driver, statements: Mutex::default(), warned };
        session.set_up(options).await?;
        // A warning about the connection itself belongs to no commit.
        session.take_warning();
        Ok((session, notifications))
    }

    async fn set_up(&self, options: &PgOptions) -> Result<(), StoreError> {
        // The statements of this crate find their rows through an index and stop early. A planner without statistics of
        // a new table may read all of it, or gather a whole backlog first. The values of parameters do not change the
        // best plan, and planning again, or compiling a plan, takes longer than running most statements.
        let settings = format!(
            "SET lock_timeout = {}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SET default_transaction_isolation = 'read committed'; SET timezone = 'UTC'; \
             SET enable_bitmapscan = off; SET enable_seqscan = off; SET enable_hashjoin = off; \
             SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')",
            options.lock_timeout.as_millis(),
            options.statement_timeout.as_millis(),
            options.idle_in_transaction_timeout.as_millis(),
        );
        self.client.batch_execute(&settings).await.map_err(unavailable)?;
        // Not every platform has these. The first ends statements whose client is gone. The second ends a session whose
        // client has stopped reading; such a session may hold locks, and no other time-out ends it.
        for optional in [
            format!("SET client_connection_check_interval = {}", options.connection_check_interval.as_millis()),
            format!("SET tcp_user_timeout = {}", options.idle_in_transaction_timeout.as_millis()),
        ] {
            if let Err(error) = self.client.batch_execute(&optional).await {
                tracing::debug!(setting = optional, %error, "setting not supported by the server");
            }
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> &Counted {
        &self.client
    }

    /// The prepared statement. A session prepares each statement once.
    pub(crate) async fn prepared(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a bulk statement. Without rows there is no statement, and the answer is empty.
    pub(crate) async fn bulk(&self, statement: Option<BulkStatement<'_>>) -> Result<Vec<Row>, tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(Vec::new()) };
        let prepared = self.prepared(statement.sql).await?;
        self.client.query(&prepared, &statement.params()).await
    }

    /// True if the server warned since the last call. The only warning that can come with a COMMIT says that the commit
    /// may not have reached the standby. Its text depends on the language of the server, so any warning counts.
    pub(crate) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the socket, also when the server does not answer any more.
        self.driver.abort();
    }
}

/// Orders the sessions of this process that meet another server than before. One session at a time takes notice, and
/// goes on when its caller has given up: taking notice may take longer than any call, and a second session could only
/// wait for it.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The lock for the server that was met last. A server that does not answer any more must not block its successor.
    turn: Mutex<Option<(Identity, Arc<AsyncMutex<()>>)>>,
}

impl Notices {
    async fn notice(&self, session: Session, identity: Identity) -> Result<Session, StoreError> {
        let turn = self.turn_at(&identity).lock_owned().await;
        let notice = async move {
            let noticed = identity.ensure_known(&session.client).await;
            drop(turn);
            noticed.map(|()| session)
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a caller that gives up must not undo it; the task ends with its statements"
        )]
        let noticed = tokio::spawn(notice).await;
        noticed.unwrap_or_else(|error| Err(StoreError::Unavailable(Box::new(error))))
    }

    fn turn_at(&self, identity: &Identity) -> Arc<AsyncMutex<()>> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match &*turn {
            Some((server, turn)) if server == identity => Arc::clone(turn),
            _ => Arc::clone(&turn.insert((identity.clone(), Arc::default())).1),
        }
    }
}

/// A bounded set of sessions. A session returns to the pool only by [`PooledSession::put_back`]. A session that is
/// dropped is closed, and the server rolls back its transaction.
#[derive(Debug)]
pub(crate) struct Pool {
    config: Config,
    options: PgOptions,
    idle: Mutex<Vec<Session>>,
    permits: Semaphore,
    pub(crate) notices: Notices,
}

#[derive(Debug)]
pub(crate) struct PooledSession<'a> {
    pool: &'a Pool,
    session: Session,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(crate) fn new(config: Config, options: PgOptions, size: usize) -> Self {
        let permits = Semaphore::new(size.max(1));
        Pool { config, options, idle: Mutex::default(), permits, notices: Notices::default() }
    }

    pub(crate) async fn get(&self) -> Result<PooledSession<'_>, StoreError> {
        let permit = self.permits.acquire().await.map_err(|_| timed_out("the pool is closed"))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let session = match idle {
            Some(session) if !session.client.is_closed() => session,
            _ => Session::open_known(&self.config, &self.options, &self.notices).await?,
        };
        Ok(PooledSession { pool: self, session, _permit: permit })
    }
}

impl PooledSession<'_> {
    /// Returns the session to the pool. No transaction is open on it, and every answer was read.
    pub(crate) fn put_back(self) {
        if !self.session.client.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.session);
        }
    }
}

impl std::ops::Deref for PooledSession<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Waits at most `limit` for an answer. After an error the caller must not use the session any more.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    #[expect(clippy::disallowed_methods, reason = "a server that does not answer must not stop a lane for ever")]
    let result = tokio::time::timeout(limit, work).await;
    result.unwrap_or_else(|_| Err(timed_out(what)))
}
