//! Which server this is, and whether it still is the one that holds our commits.

use gapless_store::StoreError;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::{text, unavailable};

/// A primary on one timeline. After a failover or a restore at least one of the two is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Known {
        system_identifier: String,
        timeline: i64,
    },
    /// Some hosted servers do not tell. The canary still does.
    Unknown,
}

impl Identity {
    /// Asks the server. A standby is refused: what it says may be old, and it cannot be written.
    pub(crate) async fn of(client: &Client) -> Result<Self, StoreError> {
        let row = client.query_one("SELECT pg_is_in_recovery()", &[]).await.map_err(unavailable)?;
        if row.get(0) {
            return Err(StoreError::ReadOnly("the server is a standby".to_owned()));
        }
        // The control file names the timeline only after the next checkpoint; the name of the current log file does at once.
        let asked = client
            .query_one(
                "SELECT (SELECT system_identifier::text FROM pg_control_system()),
                        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint",
                &[],
            )
            .await;
        match asked {
            Ok(row) => Ok(Identity::Known { system_identifier: row.get(0), timeline: row.get(1) }),
            Err(error) if does_not_tell(&error) => {
                tracing::warn!("the server does not tell its identity: {}", text(&error));
                Ok(Identity::Unknown)
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Begins a new epoch if the database was last written by another server. The first one begins the first epoch. What
    /// is not known is not compared.
    pub(crate) async fn ensure_known(&self, client: &Client) -> Result<(), StoreError> {
        let newest = client
            .query_opt("SELECT epoch, system_identifier, timeline FROM store_epoch ORDER BY epoch DESC LIMIT 1", &[])
            .await
            .map_err(unavailable)?;
        let Some(row) = newest else {
            return self.begin_epoch(client, 1, "first start").await;
        };
        let known = match (row.get(1), row.get(2)) {
            (Some(system_identifier), Some(timeline)) => Identity::Known { system_identifier, timeline },
            _ => Identity::Unknown,
        };
        if known == *self || known == Identity::Unknown || *self == Identity::Unknown {
            return Ok(());
        }
        let why = format!("served by {self:?}, before by {known:?}");
        tracing::error!("the database is served by another server than before: {why}");
        if self.system_identifier() != known.system_identifier() {
            start_events_over(client).await?;
        }
        self.begin_epoch(client, row.get::<_, i64>(0) + 1, &why).await
    }

    /// Every lane is regressed after this, until it takes notice. Several nodes may notice at once; one of them writes it.
    pub(crate) async fn begin_epoch(&self, client: &Client, epoch: i64, why: &str) -> Result<(), StoreError> {
        let timeline = match self {
            Identity::Known { timeline, .. } => Some(*timeline),
            Identity::Unknown => None,
        };
        client
            .execute(
                "INSERT INTO store_epoch (epoch, system_identifier, timeline, why, reconciled_at)
                 VALUES ($1, $2, $3, $4, CASE WHEN $1::bigint = 1 THEN clock_timestamp() END)
                 ON CONFLICT (epoch) DO NOTHING",
                &[&epoch, &self.system_identifier(), &timeline, &why],
            )
            .await
            .map_err(unavailable)?;
        Ok(())
    }

    fn system_identifier(&self) -> Option<&str> {
        match self {
            Identity::Known { system_identifier, .. } => Some(system_identifier),
            Identity::Unknown => None,
        }
    }
}

/// Not allowed to ask, or nothing there to ask. Anything else is trouble, not an answer.
fn does_not_tell(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(code) if [&SqlState::INSUFFICIENT_PRIVILEGE, &SqlState::UNDEFINED_FUNCTION].contains(&code))
}

/// On another server, transaction ids begin anew, and events carry those of the old one: new ones would sort before them,
/// and readers would pass them by. So the old ones go to the very beginning, in their order of writing, and every consumer
/// hears all of them again; delivery is at least once.
async fn start_events_over(client: &Client) -> Result<(), StoreError> {
    client
        .batch_execute(
            "BEGIN; SET LOCAL statement_timeout = 0;
             UPDATE tx_event SET xid = '1' WHERE xid <> '1';
             UPDATE event_consumer SET xid = '0', id = 0; COMMIT",
        )
        .await
        .map_err(unavailable)
}
