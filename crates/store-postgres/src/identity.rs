//! Which server this is, and whether it still is the one that holds our commits.

use gapless_store::StoreError;
use tokio_postgres::Client;

use crate::error::{text, unavailable};

/// A primary on one timeline. After a failover or a restore at least one of the two is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    system_identifier: String,
    timeline: i64,
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
            Ok(row) => Ok(Identity { system_identifier: row.get(0), timeline: row.get(1) }),
            Err(error) if error.code().is_some() => {
                // Some hosted servers do not tell. The canary still does.
                tracing::warn!("the server does not tell its identity: {}", text(&error));
                Ok(Identity { system_identifier: String::new(), timeline: 0 })
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Begins a new epoch if the database was last written by another server. The first one begins the first epoch.
    pub(crate) async fn ensure_known(&self, client: &Client) -> Result<(), StoreError> {
        let newest = client
            .query_opt("SELECT epoch, system_identifier, timeline FROM store_epoch ORDER BY epoch DESC LIMIT 1", &[])
            .await
            .map_err(unavailable)?;
        let Some(row) = newest else {
            return self.begin_epoch(client, 1, "first start").await;
        };
        let known = Identity { system_identifier: row.get(1), timeline: row.get(2) };
        if known == *self {
            return Ok(());
        }
        let why = format!(
            "server {} timeline {} became server {} timeline {}",
            known.system_identifier, known.timeline, self.system_identifier, self.timeline
        );
        tracing::error!("the database is served by another server than before: {why}");
        self.begin_epoch(client, row.get::<_, i64>(0) + 1, &why).await
    }

    /// Every lane is regressed after this, until it takes notice. Several nodes may notice at once; one of them writes it.
    pub(crate) async fn begin_epoch(&self, client: &Client, epoch: i64, why: &str) -> Result<(), StoreError> {
        client
            .execute(
                "INSERT INTO store_epoch (epoch, system_identifier, timeline, why) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (epoch) DO NOTHING",
                &[&epoch, &self.system_identifier, &self.timeline, &why],
            )
            .await
            .map_err(unavailable)?;
        Ok(())
    }
}
