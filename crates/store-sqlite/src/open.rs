//! Opening the database: keep others out, bring the schema up to date, and ask whether commits were lost.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::LeaseTerms;
use gapless_store::{DatabaseClock, LeaseStatus, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::clock::SystemClock;
use crate::error::{from_io, from_sql, from_sql_at_open};
use crate::ledger::{Ledger, checkpoint, lift_writes, mark_of};
use crate::schema::{MIGRATIONS, SchemaError, bring_up_to_date};
use crate::sidecar::{Mark, Record, Sidecar};

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
    /// So many pages (of 4 KiB) may wait in the log before they are brought into the file. SQLite itself would take 1,000; at full
    /// load that is a few commits, and a page that changes often is written to the file, and synced, each time.
    pub checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            lease: LeaseTerms::default(),
            clock: Arc::new(SystemClock),
            migrate: true,
            checkpoint_pages: 8000,
        }
    }
}

/// How many prepared statements are kept: more than there are in this crate.
const STATEMENTS: usize = 128;

const FOR_WRITING: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_CREATE).union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

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
    let known = sidecar.read()?;
    let set_aside = set_aside_a_strange_log(path, &sidecar, known)?;
    let at_open = |error| from_sql_at_open(error, path);
    let sql = Connection::open_with_flags(path, FOR_WRITING).map_err(at_open)?;
    // SQLite opens what it may not write as read-only, without a word.
    if sql.is_readonly("main").map_err(at_open)? {
        return Err(StoreError::ReadOnly(format!("{} may not be written", path.display())));
    }
    prepare(&sql, path, &options)?;
    let mark = mark_of(&sql).map_err(at_open)?;
    let mut ledger = ledger(sql, None, mark.database_id, options);
    compare_with_sidecar(&mut ledger, &sidecar, known, mark, set_aside.as_deref())?;
    forget_other_processes(&ledger.sql).map_err(at_open)?;
    // The log is empty from here on, and what belongs to the next one is known before it is begun.
    if !checkpoint(&ledger.sql, "TRUNCATE").map_err(at_open)? {
        return Err(StoreError::InUse(path.display().to_string()));
    }
    let mark = mark_of(&ledger.sql).map_err(at_open)?;
    // Only now: a crash before this finds the old record again, and comes to the same end.
    sidecar.begin(Record { mark, checkpointed: mark.writes })?;
    ledger.checkpointed = mark.writes;
    ledger.sidecar = Some(sidecar);
    Ok(ledger)
}

/// Whoever held a lease here is gone: the lock of the file, which is ours now, went with its process and not before. So
/// nobody has to wait until it runs out, and nobody is counted who is not there. Tokens stay, and grow with the next owner.
fn forget_other_processes(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute("UPDATE submitter_lease SET expires_at = ?1", [LeaseStatus::RELEASED.as_micros()])?;
    sql.execute("DELETE FROM node", [])?;
    Ok(())
}

/// The one name of the file, without links and dots: two names would have two sidecars. A file that is not there yet is
/// made, since only then a link to it leads anywhere.
fn one_name_of(path: &Path) -> Result<PathBuf, StoreError> {
    let found = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            made.and_then(|_| fs::canonicalize(path))
        }
        other => other,
    };
    found.map_err(|error| from_io(error, path))
}

/// Is there a log beside the file that was not written over this file? SQLite would lay it over it all the same, and what
/// comes out would have pages of two times, or of two databases. Such a log is kept under another name, which is returned;
/// whether commits are missing now is for the comparison with the sidecar to say.
fn set_aside_a_strange_log(
    path: &Path,
    sidecar: &Sidecar,
    known: Option<Record>,
) -> Result<Option<PathBuf>, StoreError> {
    let log = with_suffix(path, "-wal");
    if bytes_of(&log)? == 0 {
        return Ok(None);
    }
    let strange = if bytes_of(path)? == 0 {
        // SQLite would remove the log of an empty file.
        match known {
            Some(known) => return Err(nothing_left(sidecar, known)),
            None => true,
        }
    } else {
        // In this order, since the first one also finds out whether another process is at work.
        let together = mark_with_log(path);
        if let Err(StoreError::InUse(_)) = together {
            return together.map(|_| None);
        }
        is_strange(together, mark_without_log(path), sidecar, known)?
    };
    if !strange {
        return Ok(None);
    }
    let name = (1_u32..).map(|n| with_suffix(&log, &format!(".strange-{n}"))).find(|name| !name.exists());
    let name = name.ok_or_else(|| StoreError::Setup(format!("too many logs beside {}", path.display())))?;
    fs::rename(&log, &name).map_err(|error| from_io(error, &log))?;
    sidecar.sync_folder()?;
    tracing::warn!(kept = %name.display(), "the log beside the database was not written over this file; it was set aside");
    Ok(Some(name))
}

fn is_strange(
    together: Result<Option<Mark>, StoreError>,
    alone: Result<Option<Mark>, StoreError>,
    sidecar: &Sidecar,
    known: Option<Record>,
) -> Result<bool, StoreError> {
    let alone = match (alone, known) {
        (Ok(Some(alone)), _) => alone,
        // A crash during the very first start. What is really damaged is found so later.
        (Ok(None) | Err(StoreError::Damaged(_)), None) => return Ok(false),
        (Ok(None), Some(known)) => return Err(nothing_left(sidecar, known)),
        (Err(StoreError::Damaged(text)), Some(_)) => {
            return Err(StoreError::Damaged(format!(
                "without its log it cannot be read, so nobody can tell whether the log is its own ({text}); see docs/sqlite.md"
            )));
        }
        (Err(other), _) => return Err(other),
    };
    let together = match together {
        Ok(Some(together)) => together,
        // The file is sound, but not with this log over it.
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
            "{} is gone, so nobody can tell whether the log beside the database is its own; see docs/sqlite.md",
            sidecar.path().display()
        ))),
    }
}

/// What the file and its log say together. Neither is changed.
fn mark_with_log(path: &Path) -> Result<Option<Mark>, StoreError> {
    let look = || {
        let sql = Connection::open_with_flags(path, FOR_WRITING)?;
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        sql.busy_timeout(Duration::ZERO)?;
        sql.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        sql.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
        mark_if_any(&sql)
    };
    look().map_err(|error| from_sql_at_open(error, path))
}

/// What the file says by itself: to SQLite, a file that cannot change has no log.
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
    let look = || mark_if_any(&Connection::open_with_flags(&address, flags)?);
    look().map_err(|error| from_sql_at_open(error, path))
}

fn mark_if_any(sql: &Connection) -> Result<Option<Mark>, rusqlite::Error> {
    if sql.table_exists(None, "canary")? { mark_of(sql).map(Some) } else { Ok(None) }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Without opening it: to close a file that SQLite has open would take SQLite's lock away.
fn bytes_of(path: &Path) -> Result<u64, StoreError> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(from_io(error, path)),
    }
}

fn ledger(sql: Connection, sidecar: Option<Sidecar>, database_id: [u8; 16], options: SqliteOptions) -> Ledger {
    Ledger {
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
    // Whoever else has the file will not be done soon: it is another gapless, or somebody's SQLite shell.
    sql.busy_timeout(Duration::ZERO)?;
    sql.set_prepared_statement_cache_capacity(STATEMENTS);
    // Exclusive before WAL: then the index of the log lives in this process, and no other can read along.
    sql.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    sql.pragma_update(None, "journal_mode", "WAL")?;
    // A COMMIT that came back survives a power cut (P6).
    sql.pragma_update(None, "synchronous", "FULL")?;
    // On macOS an ordinary sync leaves the bytes in the disk's own memory.
    sql.pragma_update(None, "fullfsync", true)?;
    sql.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The ledger does it, when the sidecar can be told; see `Ledger::checkpoint_when_due`. Before the first write.
    sql.pragma_update(None, "wal_autocheckpoint", 0)?;
    sql.pragma_update(None, "foreign_keys", true)?;
    // A negative size is one in KiB, not in pages.
    sql.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // What a savepoint may have to undo is not worth a file.
    sql.pragma_update(None, "temp_store", "MEMORY")?;
    // A damaged page is an error when it is read, not a wrong answer.
    sql.pragma_update(None, "cell_size_check", true)?;
    sql.pragma_update(None, "trusted_schema", false)?;
    // Takes the lock now, so that "in use" is said here and not at the first write.
    sql.execute_batch("BEGIN IMMEDIATE; COMMIT")
}

/// Has the database lost commits that the sidecar knows of? Then every lane is told, by a new epoch, before anything else
/// happens; see [`crate::sidecar`].
fn compare_with_sidecar(
    ledger: &mut Ledger,
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
            why.push_str(&format!("; a log that was not its own lay beside it, and is now {}", log.display()));
        }
        tracing::warn!(%why, "the database has lost commits; every lane goes into PROTECT");
        return ledger.write(|writing| {
            lift_writes(writing.sql, known.map_or(0, |known| known.writes))?;
            Ok(writing.new_epoch(&why)?)
        });
    }
    if mark.writes > 0 {
        // A copy made before this, by whatever means, is told apart from the file that the next log belongs to.
        ledger.write(|writing| Ok(lift_writes(writing.sql, 0)?))?;
    }
    Ok(())
}

/// Not even one lane is left that could be told. Starting over would forget every request id.
fn nothing_left(sidecar: &Sidecar, known: Record) -> StoreError {
    StoreError::Regressed(format!(
        "it is empty, but {} says that {} writes were made; restore the database, or remove that file to begin anew",
        sidecar.path().display(),
        known.mark.writes
    ))
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
