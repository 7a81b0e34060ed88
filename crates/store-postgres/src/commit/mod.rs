//! The fenced commit: many lanes in one transaction, each with its own verdict.
//!
//! - First flight (`facts`): BEGIN, lock the leases, raise the canary, lock and read the rows that the commits depend
//!   on.
//! - Between the flights (`check`): the domain's rules decide about each lane, and refused lanes are left out.
//! - Second flight (`write`): the writes of the other lanes, and COMMIT. Every write demands its exact number of rows,
//!   and fails the transaction otherwise. The COMMIT, which is already on its way behind it, then becomes a rollback.
//!
//! A process has one writer, so no other connection reads or raises its canary.

mod check;
mod facts;
mod statements;
mod write;

use std::time::SystemTime;

use gapless_domain::LaneCommit;
use gapless_store::{CommitVerdict, Committed, Conflict, StoreError};
use gapless_store_sql::signed;
use tokio_postgres::Config;

use crate::canary;
use crate::error::{Blame, TimedOut, blame, text, unavailable};
use crate::rows::timestamp;
use crate::session::{Session, within};
use crate::store::PgStore;
use facts::Facts;

#[derive(Debug)]
pub(crate) struct Writer {
    config: Config,
    session: Option<Session>,
}

/// A flush that did not end with a clear "done".
enum FlushFailure {
    /// Rolled back because of one lane, which would get this verdict if it were alone. Each lane is tried alone then.
    Lane(CommitVerdict, SystemTime),
    /// Rolled back, or never begun.
    NotCommitted(StoreError),
    /// The answer to COMMIT was lost.
    Unknown(UnansweredFlush),
}

/// A flush whose answer was lost.
struct UnansweredFlush {
    verdicts: Vec<CommitVerdict>,
    at: SystemTime,
    canary: i64,
    problem: Box<dyn std::error::Error + Send + Sync>,
}

impl Writer {
    pub(crate) fn new(config: Config) -> Self {
        Writer { config, session: None }
    }

    pub(crate) async fn commit(&mut self, store: &PgStore, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let all: Vec<&LaneCommit> = commits.iter().collect();
        match self.flush_and_read_back(store, &all).await {
            Ok(committed) => Ok(committed),
            Err(FlushFailure::Lane(..)) => self.one_by_one(store, commits).await,
            Err(FlushFailure::NotCommitted(error)) => Err(error),
            Err(FlushFailure::Unknown(sent)) => Err(StoreError::OutcomeUnknown(sent.problem)),
        }
    }

    /// Writes each lane in a transaction of its own, after a row made the whole batch fail. Only the bad lane fails.
    async fn one_by_one(&mut self, store: &PgStore, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let mut all = Committed { verdicts: Vec::new(), at: timestamp(SystemTime::UNIX_EPOCH), replicated: true };
        for (index, commit) in commits.iter().enumerate() {
            match self.flush_and_read_back(store, &[commit]).await {
                Ok(one) => {
                    all.verdicts.extend(one.verdicts);
                    all.at = one.at;
                    all.replicated &= one.replicated;
                }
                Err(FlushFailure::Lane(verdict, at)) => {
                    all.verdicts.push(verdict);
                    all.at = timestamp(at);
                }
                Err(FlushFailure::NotCommitted(error)) if index == 0 => return Err(error),
                // Earlier lanes are committed, and their verdicts must not be lost; the others go into the next flush.
                Err(FlushFailure::NotCommitted(_)) => all.verdicts.push(CommitVerdict::Busy),
                Err(FlushFailure::Unknown(sent)) => return Err(StoreError::OutcomeUnknown(sent.problem)),
            }
        }
        Ok(all)
    }

    async fn flush_and_read_back(
        &mut self,
        store: &PgStore,
        commits: &[&LaneCommit],
    ) -> Result<Committed, FlushFailure> {
        let sent = match self.flush(store, commits).await {
            Err(FlushFailure::Unknown(sent)) => sent,
            other => return other,
        };
        tracing::warn!("the answer to a commit was lost, reading it back: {}", sent.problem);
        let lanes: Vec<&str> = commits.iter().map(|commit| commit.lease().submitter().as_str()).collect();
        let deadline = store.options.read_back_timeout;
        let read = within(deadline, "reading a commit back", self.read_back(store, &lanes, sent.canary)).await;
        match read {
            Ok(Some(replicated)) => {
                store.canary.acknowledge(sent.canary);
                Ok(Committed { verdicts: sent.verdicts, at: timestamp(sent.at), replicated })
            }
            Ok(None) => Err(FlushFailure::NotCommitted(StoreError::Unavailable(sent.problem))),
            Err(error @ StoreError::Regressed(_)) => Err(FlushFailure::NotCommitted(error)),
            Err(_) => Err(FlushFailure::Unknown(sent)),
        }
    }

    async fn flush(&mut self, store: &PgStore, commits: &[&LaneCommit]) -> Result<Committed, FlushFailure> {
        // The session is taken out: a flush that is dropped half-way closes the connection, and with it the
        // transaction.
        let session = match self.session.take() {
            Some(session) if !session.client().is_closed() => session,
            _ => self.open(store).await.map_err(FlushFailure::NotCommitted)?,
        };
        session.take_warning();
        let gathered = within(store.options.call_timeout, "the first flight of a commit", async {
            facts::gather(&session, store, commits).await
        });
        let facts = gathered.await.map_err(FlushFailure::NotCommitted)?;
        self.check_canary(store, &session, &facts).await.map_err(FlushFailure::NotCommitted)?;

        let (verdicts, plan) = check::plan(store, commits, &facts).map_err(FlushFailure::NotCommitted)?;
        let write = write::write_and_commit(&session, store, &plan, facts.now);
        #[expect(clippy::disallowed_methods, reason = "a server that does not answer must not stop a lane for ever")]
        let written = tokio::time::timeout(store.options.call_timeout, write).await;
        let canary = facts.canary.unwrap_or_default();
        let lost = |problem| UnansweredFlush { verdicts: verdicts.clone(), at: facts.now, canary, problem };
        match written {
            Ok(Ok(())) => {
                store.canary.acknowledge(canary);
                let replicated = !session.take_warning();
                self.session = Some(session);
                Ok(Committed { verdicts, at: timestamp(facts.now), replicated })
            }
            Ok(Err(error)) => match blame(&error) {
                // The COMMIT behind the failed statement has ended the transaction.
                Blame::Row => {
                    self.session = Some(session);
                    Err(FlushFailure::Lane(CommitVerdict::Refused(text(&error)), facts.now))
                }
                Blame::Count => {
                    tracing::error!("a write found other rows than the check before it: {}", text(&error));
                    self.session = Some(session);
                    Err(FlushFailure::Lane(CommitVerdict::Conflict(Conflict::Cursor), facts.now))
                }
                // The COMMIT may not have been sent; closing the connection ends the transaction in any case.
                Blame::Server => Err(FlushFailure::NotCommitted(unavailable(error))),
                Blame::Connection => Err(FlushFailure::Unknown(lost(Box::new(error)))),
            },
            Err(_) => Err(FlushFailure::Unknown(lost(Box::new(TimedOut("the second flight of a commit"))))),
        }
    }

    /// Opens a session, which checks the server: every new connection may lead to another one.
    async fn open(&self, store: &PgStore) -> Result<Session, StoreError> {
        Session::open_known(&self.config, &store.options, &store.pool.notices).await
    }

    /// Compares the raised canary with the last acknowledged one. A canary that is not higher shows that the server
    /// lost commits. A canary that is higher by more than one only shows that answers were lost.
    async fn check_canary(&self, store: &PgStore, session: &Session, facts: &Facts) -> Result<(), StoreError> {
        let remembered = store.canary.get();
        if facts.canary.is_some_and(|canary| canary > remembered) {
            return Ok(());
        }
        session.client().batch_execute("ROLLBACK").await.map_err(unavailable)?;
        Err(canary::lost_commits(store, session.client(), remembered, facts.canary.map(|canary| canary - 1)).await?)
    }

    /// Reads back whether the transaction that raised the canary to `canary` has committed, and whether it is
    /// replicated. The leases are locked first, without skipping, so that a transaction that is still running ends
    /// before. The canary row is written once more, because the replication of this commit covers the one before.
    async fn read_back(&mut self, store: &PgStore, lanes: &[&str], canary: i64) -> Result<Option<bool>, StoreError> {
        loop {
            match self.read_back_once(store, lanes, canary).await {
                Err(StoreError::Unavailable(error)) => {
                    tracing::warn!("reading a commit back failed, trying again: {error}");
                    pause(store).await;
                }
                other => return other,
            }
        }
    }

    async fn read_back_once(
        &mut self,
        store: &PgStore,
        lanes: &[&str],
        canary: i64,
    ) -> Result<Option<bool>, StoreError> {
        let session = self.open(store).await?;
        let client = session.client();
        client.batch_execute("BEGIN").await.map_err(unavailable)?;
        client
            .query(
                "SELECT FROM submitter_lease WHERE submitter = ANY($1) ORDER BY submitter FOR NO KEY UPDATE",
                &[&lanes],
            )
            .await
            .map_err(unavailable)?;
        let row = client
            .query_opt(
                "UPDATE node SET seen_at = clock_timestamp() WHERE owner_node = $1 RETURNING canary",
                &[&store.owner.as_str()],
            )
            .await
            .map_err(unavailable)?;
        client.batch_execute("COMMIT").await.map_err(unavailable)?;
        let replicated = !session.take_warning();
        let found: Option<i64> = row.map(|row| row.get(0));
        let remembered = store.canary.get();
        if found.is_none_or(|found| found < remembered) {
            return Err(canary::lost_commits(store, client, remembered, found).await?);
        }
        self.session = Some(session);
        Ok((found == Some(canary)).then_some(replicated))
    }
}

async fn pause(store: &PgStore) {
    #[expect(clippy::disallowed_methods, reason = "a server that is restarting is not asked in a tight loop")]
    tokio::time::sleep(store.options.reconnect_pause).await;
}

fn token(commit: &LaneCommit) -> i64 {
    signed(commit.lease().token().get())
}
