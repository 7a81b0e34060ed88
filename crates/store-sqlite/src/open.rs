//! Opening the database: keep others out, bring the schema up to date, and ask whether commits were lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::LeaseTerms;
use gapless_store::{DatabaseClock, StoreError};
use rusqlite::{Connection, OpenFlags};

use crate::clock::SystemClock;
use crate::error::{from_io, from_sql, from_sql_at_open};
use crate::ledger::{Ledger, lift_writes, mark_of};
use crate::schema::{MIGRATIONS, SchemaError, bring_up_to_date};
use crate::sidecar::{Mark, Sidecar};

/// Where the database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
    /// Gone with the last handle. For tests and the simulator.
    Memory,
}

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub lease: LeaseTerms,
    pub clock: Arc<dyn DatabaseClock>,
    /// Bring an older schema up to date; if not, it is an error.
    pub migrate: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions { lease: LeaseTerms::default(), clock: Arc::new(SystemClock), migrate: true }
    }
}

/// How many prepared statements are kept: more than there are in this crate.
const STATEMENTS: usize = 128;

/// Pages kept in memory. A batch that does not fit is written to the log twice.
const CACHE_KIB: i64 = 64 * 1024;

pub(crate) fn open(location: &Location, options: SqliteOptions) -> Result<Ledger, StoreError> {
    match location {
        Location::Memory => {
            let sql = Connection::open_in_memory().map_err(from_sql)?;
            prepare(&sql, Path::new(":memory:"), &options)?;
            let database_id = mark_of(&sql).map_err(from_sql)?.database_id;
            Ok(ledger(sql, None, database_id, options))
        }
        Location::File(path) => open_file(path, options),
    }
}

fn open_file(path: &Path, options: SqliteOptions) -> Result<Ledger, StoreError> {
    if !options.migrate && !path.exists() {
        // Said before anything is made, so that a look does not leave files behind.
        let known = MIGRATIONS.last().map_or(0, |step| step.version);
        return Err(StoreError::SchemaIsOlder { found: 0, known });
    }
    let path = &one_name_of(path)?;
    // Locked first: a second process is turned away before it has touched the database.
    let sidecar = Sidecar::open(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let at_open = |error| from_sql_at_open(error, path);
    let sql = Connection::open_with_flags(path, flags).map_err(at_open)?;
    // SQLite opens what it may not write as read-only, without a word.
    if sql.is_readonly("main").map_err(at_open)? {
        return Err(StoreError::ReadOnly(format!("{} may not be written", path.display())));
    }
    prepare(&sql, path, &options)?;
    let mark = mark_of(&sql).map_err(at_open)?;
    let mut ledger = ledger(sql, Some(sidecar), mark.database_id, options);
    compare_with_sidecar(&mut ledger, mark)?;
    Ok(ledger)
}

/// The one name of the file, without links and dots: two names would have two sidecars.
fn one_name_of(path: &Path) -> Result<PathBuf, StoreError> {
    if let Ok(found) = fs::canonicalize(path) {
        return Ok(found);
    }
    let name = path.file_name().ok_or_else(|| StoreError::Setup(format!("{} is no file name", path.display())))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).map_err(|error| from_io(error, folder))?;
    Ok(folder.join(name))
}

fn ledger(sql: Connection, sidecar: Option<Sidecar>, database_id: [u8; 16], options: SqliteOptions) -> Ledger {
    Ledger { sql, sidecar, database_id, unmarked: None, clock: options.clock, terms: options.lease }
}

fn prepare(sql: &Connection, path: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    configure(sql).map_err(|error| from_sql_at_open(error, path))?;
    bring_up_to_date(sql, options.migrate, options.clock.now()).map_err(|error| match error {
        SchemaError::Sql(error) => from_sql_at_open(error, path),
        SchemaError::Store(error) => error,
    })
}

fn configure(sql: &Connection) -> Result<(), rusqlite::Error> {
    // Whoever else has the file will not be done soon: it is another gapless, or a backup that should have used the API.
    sql.busy_timeout(Duration::ZERO)?;
    sql.set_prepared_statement_cache_capacity(STATEMENTS);
    // Exclusive before WAL: then the index of the log lives in this process, and no other can read along.
    sql.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    sql.pragma_update(None, "journal_mode", "WAL")?;
    // A COMMIT that came back survives a power cut (P6).
    sql.pragma_update(None, "synchronous", "FULL")?;
    sql.pragma_update(None, "foreign_keys", true)?;
    // A negative size is one in KiB, not in pages.
    sql.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // A damaged page is an error when it is read, not a wrong answer.
    sql.pragma_update(None, "cell_size_check", true)?;
    sql.pragma_update(None, "trusted_schema", false)?;
    // Takes the lock now, so that "in use" is said here and not at the first write.
    sql.execute_batch("BEGIN IMMEDIATE; COMMIT")
}

/// Has the database lost commits that the sidecar knows of? Then every lane is told, by a new epoch, before anything else
/// happens; see [`crate::sidecar`].
fn compare_with_sidecar(ledger: &mut Ledger, mark: Mark) -> Result<(), StoreError> {
    let Some(sidecar) = ledger.sidecar.take() else { return Ok(()) };
    let known = sidecar.read()?;
    if let (Some(known), 0) = (known, mark.writes)
        && known.writes > 0
    {
        // Not even one lane is left that could be told. Starting over would forget every request id.
        return Err(StoreError::Regressed(format!(
            "it is empty, but {} says that {} writes were made; restore the database, or remove that file to begin anew",
            sidecar.path().display(),
            known.writes
        )));
    }
    let mut current = mark;
    if let Some(why) = lost_commits(mark, known) {
        tracing::warn!(%why, "the database has lost commits; every lane goes into PROTECT");
        ledger.write(|writing| {
            lift_writes(writing.sql, known.map_or(0, |known| known.writes))?;
            writing.new_epoch(&why)?;
            Ok(())
        })?;
        current = mark_of(&ledger.sql).map_err(from_sql)?;
    }
    // Only now: a crash before this finds the old record again, and comes to the same end.
    sidecar.begin(current)?;
    ledger.sidecar = Some(sidecar);
    Ok(())
}

fn lost_commits(mark: Mark, known: Option<Mark>) -> Option<String> {
    match known {
        // A database that was never written to has nothing to lose.
        None if mark.writes == 0 => None,
        None => Some("the file was found without its sidecar, as after a restore of the file alone".to_owned()),
        Some(known) if known.database_id != mark.database_id => {
            Some("the file belongs to another sidecar: another database was put in its place".to_owned())
        }
        Some(known) if known.writes > mark.writes => Some(format!(
            "the file has {} writes, but {} were made: it was restored or rolled back",
            mark.writes, known.writes
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test can cut the power; that SQLite was asked to survive it can be seen.
    #[test]
    fn sqlite_is_asked_for_durability() {
        let path = std::env::temp_dir().join(format!("gapless-sqlite-durable-{}.db", std::process::id()));
        let ledger = open(&Location::File(path.clone()), SqliteOptions::default()).unwrap();
        let text = |name| ledger.sql.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap();
        let number = |name| ledger.sql.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((text("journal_mode").as_str(), text("locking_mode").as_str()), ("wal", "exclusive"));
        assert_eq!((number("synchronous"), number("foreign_keys")), (2, 1));
        drop(ledger);
        fs::remove_file(Sidecar::path_for(&path)).unwrap();
        fs::remove_file(path).unwrap();
    }
}
