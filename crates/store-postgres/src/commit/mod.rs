//! The fenced commit: many lanes in one transaction, each with its own verdict.
//!
//! First flight: BEGIN, lock the leases, raise the canary, lock and read the rows that the commits rely on. Then each
//! lane is checked as a whole, and bad lanes are left out. Second flight: the writes of the good lanes, and COMMIT.
//! Every write demands its exact number of rows and fails the transaction otherwise, so that the COMMIT behind it,
//! which is already on its way, becomes a rollback.
//!
//! A process has one writer, so no other task reads or raises its canary.

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

/// Why a flush did not end with a committed transaction that was acknowledged.
enum Fault {
    /// Rolled back because of one lane, which would get this verdict alone. Each lane is tried alone.
    Lane(CommitVerdict, SystemTime),
    /// Rolled back, or never begun.
    NotCommitted(StoreError),
    /// The answer to COMMIT was lost.
    Unknown(LostCommit),
}

/// A commit whose answer was lost.
struct LostCommit {
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
            Err(Fault::Lane(..)) => self.one_by_one(store, commits).await,
            Err(Fault::NotCommitted(error)) => Err(error),
            Err(Fault::Unknown(lost)) => Err(StoreError::OutcomeUnknown(lost.problem)),
        }
    }

    /// Commits each lane in a transaction of its own, after one row failed the whole batch: now the bad lane fails
    /// alone.
    async fn one_by_one(&mut self, store: &PgStore, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let mut all = Committed { verdicts: Vec::new(), at: timestamp(SystemTime::UNIX_EPOCH), replicated: true };
        for (index, commit) in commits.iter().enumerate() {
            match self.flush_and_read_back(store, &[commit]).await {
                Ok(one) => {
                    all.verdicts.extend(one.verdicts);
                    all.at = one.at;
                    all.replicated &= one.replicated;
                }
                Err(Fault::Lane(verdict, at)) => {
                    all.verdicts.push(verdict);
                    all.at = timestamp(at);
                }
                Err(Fault::NotCommitted(error)) if index == 0 => return Err(error),
                // Earlier lanes are committed, and their callers must know; the other lanes go into the next flush.
                Err(Fault::NotCommitted(_)) => all.verdicts.push(CommitVerdict::Busy),
                Err(Fault::Unknown(lost)) => return Err(StoreError::OutcomeUnknown(lost.problem)),
            }
        }
        Ok(all)
    }

    async fn flush_and_read_back(&mut self, store: &PgStore, commits: &[&LaneCommit]) -> Result<Committed, Fault> {
        let lost = match self.flush(store, commits).await {
            Err(Fault::Unknown(lost)) => lost,
            other => return other,
        };
        tracing::warn!(error = %lost.problem, "commit answer lost; reading the outcome back");
        let lanes: Vec<&str> = commits.iter().map(|commit| commit.lease().submitter().as_str()).collect();
        let deadline = store.options.read_back_timeout;
        let read = within(deadline, "reading a commit back", self.read_back(store, &lanes, lost.canary)).await;
        match read {
            Ok(Some(replicated)) => {
                store.canary.acknowledge(lost.canary);
                Ok(Committed { verdicts: lost.verdicts, at: timestamp(lost.at), replicated })
            }
            Ok(None) => Err(Fault::NotCommitted(StoreError::Unavailable(lost.problem))),
            Err(error @ StoreError::Regressed(_)) => Err(Fault::NotCommitted(error)),
            Err(_) => Err(Fault::Unknown(lost)),
        }
    }

    async fn flush(&mut self, store: &PgStore, commits: &[&LaneCommit]) -> Result<Committed, Fault> {
        // The session is taken out, so that a flush that is dropped half-way closes the connection and rolls back.
        let session = match self.session.take() {
            Some(session) if !session.client().is_closed() => session,
            _ => self.open(store).await.map_err(Fault::NotCommitted)?,
        };
        session.take_warning();
        let gathered = within(store.options.call_timeout, "the first flight of a commit", async {
            facts::gather(&session, store, commits).await
        });
        let facts = gathered.await.map_err(Fault::NotCommitted)?;
        self.check_canary(store, &session, &facts).await.map_err(Fault::NotCommitted)?;

        let (verdicts, plan) = check::plan(store, commits, &facts).map_err(Fault::NotCommitted)?;
        let write = write::write_and_commit(&session, store, &plan, facts.now);
        #[expect(clippy::disallowed_methods, reason = "a server that does not answer must not stop a lane for ever")]
        let written = tokio::time::timeout(store.options.call_timeout, write).await;
        let canary = facts.canary.unwrap_or_default();
        let lost_commit = |problem| LostCommit { verdicts: verdicts.clone(), at: facts.now, canary, problem };
        match written {
            Ok(Ok(())) => {
                store.canary.acknowledge(canary);
                let replicated = !session.take_warning();
                self.session = Some(session);
                Ok(Committed { verdicts, at: timestamp(facts.now), replicated })
            }
            Ok(Err(error)) => match blame(&error) {
                // The COMMIT behind the failed write has ended the transaction.
                Blame::Row => {
                    self.session = Some(session);
                    Err(Fault::Lane(CommitVerdict::Refused(text(&error)), facts.now))
                }
                Blame::Count => {
                    tracing::error!(
                        error = text(&error),
                        "commit rolled back: a write found other rows than its check"
                    );
                    self.session = Some(session);
                    Err(Fault::Lane(CommitVerdict::Conflict(Conflict::Cursor), facts.now))
                }
                // The COMMIT may not have been sent. Dropping the session closes the connection and ends the
                // transaction.
                Blame::Server => Err(Fault::NotCommitted(unavailable(error))),
                Blame::Connection => Err(Fault::Unknown(lost_commit(Box::new(error)))),
            },
            Err(_) => Err(Fault::Unknown(lost_commit(Box::new(TimedOut("the second flight of a commit"))))),
        }
    }

    /// Opens a session and checks its server: a new connection may lead to another server.
    async fn open(&self, store: &PgStore) -> Result<Session, StoreError> {
        Session::open_known(&self.config, &store.options, &store.pool.notices).await
    }

    /// The server raised the counter of this process by one. If it is lower than an acknowledged value now, commits
    /// were lost. A higher one only means that an answer was lost.
    async fn check_canary(&self, store: &PgStore, session: &Session, facts: &Facts) -> Result<(), StoreError> {
        let remembered = store.canary.get();
        if facts.canary.is_some_and(|canary| canary > remembered) {
            return Ok(());
        }
        session.client().batch_execute("ROLLBACK").await.map_err(unavailable)?;
        Err(canary::lost_commits(store, session.client(), remembered, facts.canary.map(|canary| canary - 1)).await?)
    }

    /// Finds out whether the transaction that raised the canary to `canary` was committed, and if so, whether it was
    /// replicated. The leases are locked first, without SKIP LOCKED, so that a transaction that the server still works
    /// on is waited for. The row of the canary is written once more: the replication of this later commit covers the
    /// lost one.
    async fn read_back(&mut self, store: &PgStore, lanes: &[&str], canary: i64) -> Result<Option<bool>, StoreError> {
        loop {
            match self.read_back_once(store, lanes, canary).await {
                Err(StoreError::Unavailable(error)) => {
                    tracing::warn!(%error, "reading a commit back failed; trying again");
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
