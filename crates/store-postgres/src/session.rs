//! Connections: how they are opened, what every one is set to, and the pool of them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::poll_fn;
use gapless_store::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification, Statement};

use crate::error::{timed_out, unavailable};
use crate::identity::Identity;
use crate::options::PgOptions;

/// One connection, with its settings made and its statements prepared as they are first used.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    warned: Arc<AtomicBool>,
}

impl Session {
    pub(crate) async fn open(config: &Config, options: &PgOptions) -> Result<Self, StoreError> {
        Self::open_listening(config, options).await.map(|(session, _)| session)
    }

    /// Also gives the notifications that come in on it. A server that takes the connection and then says nothing is as away
    /// as one that refuses it.
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
                        tracing::warn!(code = notice.code().code(), "PostgreSQL warns: {}", notice.message());
                        seen.store(true, Ordering::SeqCst);
                    }
                    AsyncMessage::Notification(notification) => {
                        // Nobody listens on most sessions.
                        let _ = tell.send(notification);
                    }
                    _ => {}
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a connection needs somebody to drive it; it ends with its session"
        )]
        let driver = tokio::spawn(drive);
        let session = Session { client, driver, statements: Mutex::default(), warned };
        session.set_up(options).await?;
        // What the server had to say about the connection itself is nobody's commit.
        session.take_warning();
        Ok((session, notifications))
    }

    async fn set_up(&self, options: &PgOptions) -> Result<(), StoreError> {
        // Our statements walk an index and stop early. A planner that does not know a young table yet may want to gather all of
        // a backlog in a bitmap first, and compiling a plan takes longer than running any of ours.
        let settings = format!(
            "SET lock_timeout = {}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SET default_transaction_isolation = 'read committed'; SET timezone = 'UTC'; \
             SET enable_bitmapscan = off; SET jit = off; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')",
            options.lock_timeout.as_millis(),
            options.statement_timeout.as_millis(),
            options.idle_in_transaction_timeout.as_millis(),
        );
        self.client.batch_execute(&settings).await.map_err(unavailable)?;
        // Not every platform can do these. The first ends statements whose client is gone; the second ends a session whose
        // client has stopped reading, which no other time-out notices, and which may hold locks.
        for optional in [
            format!("SET client_connection_check_interval = {}", options.connection_check_interval.as_millis()),
            format!("SET tcp_user_timeout = {}", options.idle_in_transaction_timeout.as_millis()),
        ] {
            if let Err(error) = self.client.batch_execute(&optional).await {
                tracing::debug!("not supported here: {optional}: {error}");
            }
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The statement, prepared once a session.
    pub(crate) async fn prepared(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql, statement.clone());
        Ok(statement)
    }

    /// Did the server warn since this was last asked? The one warning that can come with a COMMIT says that it may not
    /// have reached the standby; its words depend on the server's language, so any warning counts.
    pub(crate) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the socket also when the server does not answer any more.
        self.driver.abort();
    }
}

/// A bounded set of sessions. One that was used goes back only if its user says that it is in order; any other is closed,
/// and with it whatever transaction was open on it.
#[derive(Debug)]
pub(crate) struct Pool {
    config: Config,
    options: PgOptions,
    idle: Mutex<Vec<Session>>,
    places: Semaphore,
}

#[derive(Debug)]
pub(crate) struct Lent<'a> {
    pool: &'a Pool,
    session: Session,
    _place: SemaphorePermit<'a>,
}

impl Pool {
    pub(crate) fn new(config: Config, options: PgOptions, size: usize) -> Self {
        let places = Semaphore::new(size.max(1));
        Pool { config, options, idle: Mutex::default(), places }
    }

    pub(crate) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let place = self.places.acquire().await.map_err(|_| timed_out("the pool is closed"))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let session = match idle {
            Some(session) if !session.client.is_closed() => session,
            _ => self.open_session().await?,
        };
        Ok(Lent { pool: self, session, _place: place })
    }

    /// A server that is not the one we knew may have lost commits: that is noticed before anything is accepted or canceled there.
    async fn open_session(&self) -> Result<Session, StoreError> {
        let session = Session::open(&self.config, &self.options).await?;
        let check = async { Identity::of(&session.client).await?.ensure_known(&session.client).await };
        within(self.options.call_timeout, "asking the server who it is", check).await?;
        Ok(session)
    }
}

impl Lent<'_> {
    /// Nothing is open on it and every answer was read: somebody else may have it.
    pub(crate) fn give_back(self) {
        if !self.session.client.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.session);
        }
    }
}

impl std::ops::Deref for Lent<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Gives up on an answer that does not come. The caller must not use the session any more.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    #[expect(clippy::disallowed_methods, reason = "a server that does not answer must not stop a lane for ever")]
    let result = tokio::time::timeout(limit, work).await;
    result.unwrap_or_else(|_| Err(timed_out(what)))
}
