//! The schema and its versions.

use gapless_store::StoreError;
use gapless_store_sql::{MIGRATIONS_APPLIED, Migration, missing_migrations};
use tokio_postgres::Client;

use crate::error::unavailable;

/// All steps since the first release. A step is added, never changed.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "ground_floor", sql: include_str!("../migrations/0001_ground_floor.sql") },
    Migration { version: 2, name: "open_cursors", sql: include_str!("../migrations/0002_open_cursors.sql") },
    Migration { version: 3, name: "confirmations", sql: include_str!("../migrations/0003_confirmations.sql") },
    Migration { version: 4, name: "reconciling", sql: include_str!("../migrations/0004_reconciling.sql") },
    Migration { version: 5, name: "floors", sql: include_str!("../migrations/0005_floors.sql") },
    Migration { version: 6, name: "queue", sql: include_str!("../migrations/0006_queue.sql") },
    Migration { version: 7, name: "control", sql: include_str!("../migrations/0007_control.sql") },
    Migration { version: 8, name: "room", sql: include_str!("../migrations/0008_room.sql") },
    Migration { version: 9, name: "fewer_indexes", sql: include_str!("../migrations/0009_fewer_indexes.sql") },
    Migration { version: 10, name: "retention", sql: include_str!("../migrations/0010_retention.sql") },
];

/// The advisory lock under which one node at a time migrates. No other program is likely to lock this number.
const MIGRATION_LOCK: i64 = 0x67_6170_6c65_7373;

/// Applies the missing migrations. Without leave to migrate, a missing one is an error.
pub(crate) async fn ensure(client: &Client, migrate: bool) -> Result<(), StoreError> {
    if missing_migrations(MIGRATIONS, &applied(client).await?, migrate)?.is_empty() {
        return Ok(());
    }
    // Another node may be migrating, and a migration takes the longer the more rows there are. The session is not used
    // again.
    client.batch_execute("SET lock_timeout = 0; SET statement_timeout = 0").await.map_err(unavailable)?;
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await.map_err(unavailable)?;
    let result = apply_missing(client).await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await.map_err(unavailable)?;
    result
}

/// Runs under the lock. Another node may have migrated meanwhile, so the applied migrations are read again.
async fn apply_missing(client: &Client) -> Result<(), StoreError> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_migration (
                 version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum BIGINT NOT NULL,
                 applied_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())",
        )
        .await
        .map_err(unavailable)?;
    for migration in missing_migrations(MIGRATIONS, &applied(client).await?, true)? {
        tracing::info!(version = migration.version, name = migration.name, "applying migration");
        let name = migration.name.replace('\'', "''");
        let script = format!(
            "BEGIN; {}; INSERT INTO schema_migration (version, name, checksum) VALUES ({}, '{name}', {}); COMMIT",
            migration.sql,
            migration.version,
            migration.checksum()
        );
        if let Err(error) = client.batch_execute(&script).await {
            let _ = client.batch_execute("ROLLBACK").await;
            return Err(unavailable(error));
        }
    }
    Ok(())
}

/// A database without the table has no migrations. The table is not created here: a node that may not migrate may not
/// have the right to create one.
async fn applied(client: &Client) -> Result<Vec<(i64, i64)>, StoreError> {
    let table =
        client.query_one("SELECT to_regclass('schema_migration') IS NOT NULL", &[]).await.map_err(unavailable)?;
    if !table.get::<_, bool>(0) {
        return Ok(Vec::new());
    }
    let rows = client.query(MIGRATIONS_APPLIED, &[]).await.map_err(unavailable)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
