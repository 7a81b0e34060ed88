//! Opening the database: lock it, bring the schema up to date, and find out whether commits were lost.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::LeaseTerms;
use gapless_store::{DatabaseClock, LeaseStatus, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::clock::SqliteClock;
use crate::error::{from_io, from_sql, from_sql_at_open};
use crate::ledger::{SqliteLedger, checkpoint, lift_writes, mark_of};
use crate::schema::{MIGRATIONS, SchemaError, bring_up_to_date};
use crate::sidecar::{Mark, Record, Sidecar};

/// The place of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
    /// A database that ends with its last handle. For tests and the simulator.
    Memory,
}

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub lease: LeaseTerms,
    pub clock: Arc<dyn DatabaseClock>,
    /// Bring an older schema up to date. If false, an older schema is an error.
    pub migrate: bool,
    /// The number of pages (of 4 KiB) in the log that starts a checkpoint. SQLite's own default is 1,000. At full load
    /// that is a few commits, and a page that changes often would be written to the file, and synced, each time.
    pub checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            lease: LeaseTerms::default(),
            clock: Arc::new(SqliteClock),
            migrate: true,
            checkpoint_pages: 8000,
        }
    }
}

/// The size of the statement cache: more than this crate has statements.
const STATEMENTS: usize = 128;

const FOR_WRITING: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_CREATE).union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// The page cache. A transaction that does not fit is written to the log twice.
const CACHE_KIB: i64 = 64 * 1024;

pub(crate) fn open(location: &Location, options: SqliteOptions) -> Result<SqliteLedger, StoreError> {
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

fn open_file(path: &Path, options: SqliteOptions) -> Result<SqliteLedger, StoreError> {
    if !options.migrate && !path.exists() {
        // Refused before a file is created.
        let known = MIGRATIONS.last().map_or(0, |step| step.version);
        return Err(StoreError::SchemaIsOlder { found: 0, known });
    }
    let path = &canonical_path(path)?;
    // The lock comes first: a second process is refused before it touches the database.
    let sidecar = Sidecar::open(path)?;
    let known = sidecar.read()?;
    let set_aside = set_aside_foreign_log(path, &sidecar, known)?;
    let at_open = |error| from_sql_at_open(error, path);
    let sql = Connection::open_with_flags(path, FOR_WRITING).map_err(at_open)?;
    // SQLite opens a file without write permission as read-only and reports no error.
    if sql.is_readonly("main").map_err(at_open)? {
        return Err(StoreError::ReadOnly(format!("{} is not writable; check its permissions", path.display())));
    }
    prepare(&sql, path, &options)?;
    let mark = mark_of(&sql).map_err(at_open)?;
    let mut ledger = ledger(sql, None, mark.database_id, options);
    compare_with_sidecar(&mut ledger, &sidecar, known, mark, set_aside.as_deref())?;
    forget_other_processes(&ledger.sql).map_err(at_open)?;
    // The log is empty after this, so the count of the file is known before the next log is begun.
    if !checkpoint(&ledger.sql, "TRUNCATE").map_err(at_open)? {
        return Err(StoreError::InUse(path.display().to_string()));
    }
    let mark = mark_of(&ledger.sql).map_err(at_open)?;
    // Written last: after a crash before this, the next start finds the old record and does the same again.
    sidecar.begin(Record { mark, checkpointed: mark.writes })?;
    ledger.checkpointed = mark.writes;
    ledger.sidecar = Some(sidecar);
    Ok(ledger)
}

/// Releases all leases and forgets all processes. The lock of the file shows that every other process has ended, so no
/// lease needs to expire first. Tokens stay, and grow with the next owner.
fn forget_other_processes(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute("UPDATE submitter_lease SET expires_at = ?1", [LeaseStatus::RELEASED.as_micros()])?;
    sql.execute("DELETE FROM node", [])?;
    Ok(())
}

/// The path of the file without links and dots, because two names would have two sidecars. A missing file is created
/// first: the target of a link has no such path before.
fn canonical_path(path: &Path) -> Result<PathBuf, StoreError> {
    let found = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let created = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            created.and_then(|_| fs::canonicalize(path))
        }
        other => other,
    };
    found.map_err(|error| from_io(error, path))
}

/// Renames a log that does not belong to the file, and returns its new name. SQLite would apply the log all the same,
/// and mix pages of two times or of two databases. Whether commits are missing is found by the comparison with the
/// sidecar.
fn set_aside_foreign_log(path: &Path, sidecar: &Sidecar, known: Option<Record>) -> Result<Option<PathBuf>, StoreError> {
    let log = with_suffix(path, "-wal");
    if bytes_of(&log)? == 0 {
        return Ok(None);
    }
    let is_foreign = if bytes_of(path)? == 0 {
        // SQLite would remove the log of an empty file.
        match known {
            Some(known) => return Err(nothing_left(sidecar, known)),
            None => true,
        }
    } else {
        // In this order: the first read also finds out whether another process has the file.
        let together = mark_with_log(path);
        if let Err(StoreError::InUse(_)) = together {
            return together.map(|_| None);
        }
        is_foreign_log(together, mark_without_log(path), sidecar, known)?
    };
    if !is_foreign {
        return Ok(None);
    }
    let name = (1_u32..).map(|n| with_suffix(&log, &format!(".strange-{n}"))).find(|name| !name.exists());
    let name = name.ok_or_else(|| {
        StoreError::Setup(format!("too many logs were set aside beside {}; remove some", path.display()))
    })?;
    fs::rename(&log, &name).map_err(|error| from_io(error, &log))?;
    sidecar.sync_folder()?;
    tracing::warn!(kept = %name.display(), "log beside the database belongs to another file; set aside");
    Ok(Some(name))
}

fn is_foreign_log(
    together: Result<Option<Mark>, StoreError>,
    alone: Result<Option<Mark>, StoreError>,
    sidecar: &Sidecar,
    known: Option<Record>,
) -> Result<bool, StoreError> {
    let alone = match (alone, known) {
        (Ok(Some(alone)), _) => alone,
        // A crash during the first start. A file that is really damaged is found later.
        (Ok(None) | Err(StoreError::Damaged(_)), None) => return Ok(false),
        (Ok(None), Some(known)) => return Err(nothing_left(sidecar, known)),
        (Err(StoreError::Damaged(text)), Some(_)) => {
            return Err(StoreError::Damaged(format!(
                "it cannot be read without its log, so it is not known whether the log belongs to it ({text}); \
                 see docs/sqlite.md"
            )));
        }
        (Err(other), _) => return Err(other),
    };
    let together = match together {
        Ok(Some(together)) => together,
        // The file is sound without the log, and not with it.
        Ok(None) | Err(StoreError::Damaged(_)) => return Ok(true),
        Err(other) => return Err(other),
    };
    if together.database_id != alone.database_id || together.writes < alone.writes {
        return Ok(true);
    }
    match known {
        Some(known) => Ok(known.mark.database_id != alone.database_id || alone.writes < known.checkpointed),
        None if alone.writes == 0 || alone.writes == together.writes => Ok(false),
        None => Err(StoreError::Regressed(format!(
            "{} is missing, so it is not known whether the log beside the database belongs to it; see docs/sqlite.md",
            sidecar.path().display()
        ))),
    }
}

/// The mark of the file with its log. Neither is changed.
fn mark_with_log(path: &Path) -> Result<Option<Mark>, StoreError> {
    let read = || {
        let sql = Connection::open_with_flags(path, FOR_WRITING)?;
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        sql.busy_timeout(Duration::ZERO)?;
        sql.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        sql.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
        mark_if_any(&sql)
    };
    read().map_err(|error| from_sql_at_open(error, path))
}

/// The mark of the file alone: SQLite reads no log of an immutable file.
fn mark_without_log(path: &Path) -> Result<Option<Mark>, StoreError> {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => address.push(char::from(*byte)),
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    address.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = || mark_if_any(&Connection::open_with_flags(&address, flags)?);
    read().map_err(|error| from_sql_at_open(error, path))
}

fn mark_if_any(sql: &Connection) -> Result<Option<Mark>, rusqlite::Error> {
    if sql.table_exists(None, "canary")? { mark_of(sql).map(Some) } else { Ok(None) }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The size of a file. The file is not opened: closing it would release the locks that SQLite has on it.
fn bytes_of(path: &Path) -> Result<u64, StoreError> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(from_io(error, path)),
    }
}

fn ledger(sql: Connection, sidecar: Option<Sidecar>, database_id: [u8; 16], options: SqliteOptions) -> SqliteLedger {
    SqliteLedger {
        sql,
        sidecar,
        database_id,
        unmarked: None,
        checkpointed: 0,
        clock: options.clock,
        terms: options.lease,
        checkpoint_pages: options.checkpoint_pages,
    }
}

fn prepare(sql: &Connection, path: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    configure(sql).map_err(|error| from_sql_at_open(error, path))?;
    bring_up_to_date(sql, options.migrate, options.clock.now()).map_err(|error| match error {
        SchemaError::Sql(error) => from_sql_at_open(error, path),
        SchemaError::Store(error) => error,
    })
}

fn configure(sql: &Connection) -> Result<(), rusqlite::Error> {
    // Another program that has the file (another node, or an SQLite shell) will not be done soon.
    sql.busy_timeout(Duration::ZERO)?;
    sql.set_prepared_statement_cache_capacity(STATEMENTS);
    // Exclusive before WAL: then the index of the log is in the memory of this process, and no other process can read.
    sql.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    sql.pragma_update(None, "journal_mode", "WAL")?;
    // An acknowledged COMMIT survives a power cut (P6).
    sql.pragma_update(None, "synchronous", "FULL")?;
    // On macOS an ordinary sync leaves the bytes in the cache of the disk.
    sql.pragma_update(None, "fullfsync", true)?;
    sql.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The ledger makes checkpoints itself, because the sidecar records them; see `SqliteLedger::checkpoint_when_due`.
    sql.pragma_update(None, "wal_autocheckpoint", 0)?;
    sql.pragma_update(None, "foreign_keys", true)?;
    // A negative size is in KiB, not in pages.
    sql.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // Savepoints keep their undo pages in memory, not in a file.
    sql.pragma_update(None, "temp_store", "MEMORY")?;
    // Makes a damaged page an error when it is read, and not a wrong answer.
    sql.pragma_update(None, "cell_size_check", true)?;
    sql.pragma_update(None, "trusted_schema", false)?;
    // Takes the lock now, so that a file in use is an error here and not at the first write.
    sql.execute_batch("BEGIN IMMEDIATE; COMMIT")
}

/// Begins a new epoch if the database has lost commits that the sidecar knows of, so that every lane takes notice; see
/// [`crate::sidecar`].
fn compare_with_sidecar(
    ledger: &mut SqliteLedger,
    sidecar: &Sidecar,
    known: Option<Record>,
    mark: Mark,
    set_aside: Option<&Path>,
) -> Result<(), StoreError> {
    if let (Some(known), 0) = (known, mark.writes)
        && known.mark.writes > 0
    {
        return Err(nothing_left(sidecar, known));
    }
    let known = known.map(|known| known.mark);
    if let Some(mut why) = lost_commits(mark, known) {
        if let Some(log) = set_aside {
            why.push_str(&format!("; a log of another file was beside it, and is now {}", log.display()));
        }
        tracing::warn!(%why, "database lost commits; every lane enters PROTECT");
        return ledger.write(|writing| {
            lift_writes(writing.sql, known.map_or(0, |known| known.writes))?;
            Ok(writing.new_epoch(&why)?)
        });
    }
    if mark.writes > 0 {
        // A copy that was made before this has a lower count than the file that the next log belongs to.
        ledger.write(|writing| Ok(lift_writes(writing.sql, 0)?))?;
    }
    Ok(())
}

/// The database is empty, so no lane is left that could take notice. A new database would forget every request id.
fn nothing_left(sidecar: &Sidecar, known: Record) -> StoreError {
    StoreError::Regressed(format!(
        "it is empty, but {} says that {} writes were made; \
         restore the database, or remove that file to start a new one",
        sidecar.path().display(),
        known.mark.writes
    ))
}

fn lost_commits(mark: Mark, known: Option<Mark>) -> Option<String> {
    match known {
        // A database that was never written has lost nothing.
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

    /// No test can cut the power, so this test checks the settings that make SQLite survive it.
    #[test]
    fn opened_file_has_the_durability_settings() {
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
