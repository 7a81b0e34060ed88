//! Which server this is, and whether it still is the one that holds our commits.

use std::sync::Once;

use gapless_domain::CommandKind;
use gapless_store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use crate::error::{text, unavailable};

/// Any number that no other program is likely to lock: one connection at a time notices that the server is another, whatever
/// process it belongs to.
const NOTICE_LOCK: i64 = 0x67_6170_6c65_7374;

/// Every new connection asks, and the answer would be the same each time.
static DOES_NOT_TELL: Once = Once::new();

/// What operators asked for before was about the ledger as it was before the loss, so it is refused in the same statement.
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
                DOES_NOT_TELL.call_once(|| tracing::warn!("the server does not tell its identity: {}", text(&error)));
                Ok(Identity::Unknown)
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Is this the server that the newest epoch was begun on? What is not known is not compared. One cheap read, for every
    /// new connection.
    pub(crate) async fn is_known(&self, client: &Client) -> Result<bool, StoreError> {
        let newest = newest_epoch(client).await?;
        Ok(newest.is_some_and(|(_, before)| before.may_be(self)))
    }

    /// Begins a new epoch if the database was last written by another server. The first one begins the first epoch.
    ///
    /// Another connection that notices it too waits, and then finds it known. Locks are waited for without a limit: a
    /// connection that gave up would only be followed by the next one. After an error the session must not be used
    /// again, as its transaction is open.
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

    /// Under the lock. Another connection may have been quicker, so the epoch is read again, in a statement of its own
    /// that sees what the holder before has written. The offset of event positions and the epoch are one transaction:
    /// no event is written on this server before its epoch is there, so every event of this server has the new offset.
    async fn notice(&self, client: &Client) -> Result<(), StoreError> {
        let Some((epoch, before)) = newest_epoch(client).await? else {
            return self.begin_epoch(client, 1, "first start").await;
        };
        if before.may_be(self) {
            return Ok(());
        }
        let why = format!("served by {self:?}, before by {before:?}");
        tracing::error!("the database is served by another server than before: {why}");
        if self.system_identifier() != before.system_identifier() {
            lift_positions(client).await?;
        }
        self.begin_epoch(client, epoch + 1, &why).await
    }

    fn may_be(&self, other: &Identity) -> bool {
        self == other || *self == Identity::Unknown || *other == Identity::Unknown
    }

    /// Every lane is regressed after this, until it takes notice. Several nodes may notice at once; one of them writes it.
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

/// Not allowed to ask, or nothing there to ask. Anything else is trouble, not an answer.
fn does_not_tell(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(code) if [&SqlState::INSUFFICIENT_PRIVILEGE, &SqlState::UNDEFINED_FUNCTION].contains(&code))
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

/// On another server transaction ids begin anew, and the events of the old server carry its ids: new events would sort
/// before them, and readers would miss them. So this server's ids are lifted above every position that was ever given,
/// and no event has to move. The newest event and the farthest consumer show some of these positions. Events that were
/// deleted, or lost with the old server, had others: the time of day in microseconds is above them, because no
/// transaction takes less than a microsecond.
async fn lift_positions(client: &Client) -> Result<(), StoreError> {
    client
        .batch_execute(
            "UPDATE event_origin SET xid_offset = greatest(
                 xid_offset + 1,
                 (SELECT xid::text::bigint FROM tx_event ORDER BY xid DESC LIMIT 1),
                 (SELECT xid::text::bigint FROM event_consumer ORDER BY xid DESC LIMIT 1),
                 (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        )
        .await
        .map_err(unavailable)
}
