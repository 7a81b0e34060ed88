//! The identity of a server: is it the one that holds the commits of this database?

use std::sync::Once;

use gapless_domain::CommandKind;
use gapless_store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use crate::error::{text, unavailable};

/// The advisory lock under which one connection at a time, of all processes, takes notice of another server. No other
/// program is likely to lock this number.
const NOTICE_LOCK: i64 = 0x67_6170_6c65_7374;

/// Keeps the warning to one: every new connection asks, and gets the same answer.
static DOES_NOT_TELL: Once = Once::new();

/// An open decision of an operator was about the ledger before the loss, so the same statement refuses it.
const BEGIN_EPOCH: &str = "
    WITH begun AS (
        INSERT INTO store_epoch (epoch, system_identifier, timeline, why, reconciled_at)
        VALUES ($1, $2, $3, $4, CASE WHEN $1::bigint = 1 THEN clock_timestamp() END)
        ON CONFLICT (epoch) DO NOTHING
        RETURNING epoch
    ), overtaken AS (
        SELECT c.id FROM lane_command c, begun WHERE c.done_at IS NULL AND c.kind = ANY($5)
        ORDER BY c.submitter, c.id FOR NO KEY UPDATE OF c
    )
    UPDATE lane_command c SET done_at = clock_timestamp(), result = $6, refused = TRUE
    FROM overtaken o WHERE c.id = o.id AND c.done_at IS NULL";

/// A primary on one timeline. After a failover or a restore at least one of the two is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Known {
        system_identifier: String,
        timeline: i64,
    },
    /// Some hosted servers do not tell their identity. The canary still finds lost commits.
    Unknown,
}

impl Identity {
    /// Asks the server. A standby is refused: its data may be old, and it cannot be written.
    pub(crate) async fn of(client: &Client) -> Result<Self, StoreError> {
        let row = client.query_one("SELECT pg_is_in_recovery()", &[]).await.map_err(unavailable)?;
        if row.get(0) {
            return Err(StoreError::ReadOnly("the server is a standby".to_owned()));
        }
        // After a promotion the control file has the new timeline only after a checkpoint. The name of the current log
        // file has it at once.
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
                DOES_NOT_TELL.call_once(|| tracing::warn!(error = text(&error), "server does not tell its identity"));
                Ok(Identity::Unknown)
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// True if the newest epoch was begun on this server, or one of the two identities is unknown. One cheap read for
    /// every new connection.
    pub(crate) async fn is_known(&self, client: &Client) -> Result<bool, StoreError> {
        let newest = newest_epoch(client).await?;
        Ok(newest.is_some_and(|(_, before)| before.may_be(self)))
    }

    /// Begins a new epoch if the database was last written by another server. The first server begins the first epoch.
    ///
    /// Other connections wait for the lock, and then find the server known. The wait for the lock has no limit: a
    /// connection that gave up would only be followed by the next one. After an error the session must not be used
    /// again, because its transaction is open.
    pub(crate) async fn ensure_known(&self, client: &Client) -> Result<(), StoreError> {
        if self.is_known(client).await? {
            return Ok(());
        }
        let lock = format!(
            "BEGIN; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; \
             SELECT pg_advisory_xact_lock({NOTICE_LOCK})"
        );
        client.batch_execute(&lock).await.map_err(unavailable)?;
        self.notice(client).await?;
        client.batch_execute("COMMIT").await.map_err(unavailable)
    }

    /// Runs under the lock. Another connection may have been faster, so the epoch is read again, in a statement of its
    /// own that sees the write of the former holder. The offset of event positions and the epoch are one transaction:
    /// no event is written on this server before its epoch exists, so every event of this server has the new offset.
    async fn notice(&self, client: &Client) -> Result<(), StoreError> {
        let Some((epoch, before)) = newest_epoch(client).await? else {
            return self.begin_epoch(client, 1, "first start").await;
        };
        if before.may_be(self) {
            return Ok(());
        }
        let why = format!("served by {self:?}, before that by {before:?}");
        tracing::error!(%why, "database is served by another server; beginning a new epoch");
        if self.system_identifier() != before.system_identifier() {
            raise_position_offset(client).await?;
        }
        self.begin_epoch(client, epoch + 1, &why).await
    }

    fn may_be(&self, other: &Identity) -> bool {
        self == other || *self == Identity::Unknown || *other == Identity::Unknown
    }

    /// Every lane is regressed after this, until it takes notice. Of several nodes that begin the same epoch, one
    /// writes it.
    pub(crate) async fn begin_epoch(&self, client: &Client, epoch: i64, why: &str) -> Result<(), StoreError> {
        let timeline = match self {
            Identity::Known { timeline, .. } => Some(*timeline),
            Identity::Unknown => None,
        };
        let decisions = CommandKind::DECISIONS.as_slice();
        client
            .execute(
                BEGIN_EPOCH,
                &[&epoch, &self.system_identifier(), &timeline, &why, &decisions, &CommandKind::OVERTAKEN],
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

/// True if the server does not permit the question, or does not know it. Other errors say nothing about the server.
fn does_not_tell(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::UNDEFINED_FUNCTION))
}

async fn newest_epoch(client: &Client) -> Result<Option<(i64, Identity)>, StoreError> {
    let newest = client
        .query_opt("SELECT epoch, system_identifier, timeline FROM store_epoch ORDER BY epoch DESC LIMIT 1", &[])
        .await
        .map_err(unavailable)?;
    let identity = |row: &Row| match (row.get(1), row.get(2)) {
        (Some(system_identifier), Some(timeline)) => Identity::Known { system_identifier, timeline },
        _ => Identity::Unknown,
    };
    Ok(newest.map(|row| (row.get(0), identity(&row))))
}

/// On another server transaction ids start again, and stored events carry ids of the old server. New events would sort
/// before them, and readers would skip the new ones. So an offset raises the ids of this server above every position
/// that was ever given, and no event moves. The newest event and the farthest consumer show some of these positions.
/// Events that were deleted, or lost with the old server, had others: the time of day in microseconds is above them,
/// because no transaction takes less than a microsecond.
async fn raise_position_offset(client: &Client) -> Result<(), StoreError> {
    client
        .batch_execute(
            "UPDATE event_origin SET xid_offset = greatest(
                 xid_offset + 1,
                 (SELECT e.xid::text::bigint FROM tx_event e ORDER BY e.xid DESC LIMIT 1),
                 (SELECT c.xid::text::bigint FROM event_consumer c ORDER BY c.xid DESC LIMIT 1),
                 (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        )
        .await
        .map_err(unavailable)
}
