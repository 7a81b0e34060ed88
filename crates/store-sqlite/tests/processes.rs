//! Several real processes on one file: copies of this test program, told by an environment variable what to do.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gapless_store::{CommitVerdict, StoreError};
use support::{Folder, accept, is_there, load, open, register, try_open, with_a_lane, write_lane};

const ROLE: &str = "GAPLESS_SQLITE_ROLE";
const DATABASE: &str = "GAPLESS_SQLITE_DATABASE";
/// Before every line that is meant for the parent; the test runner prints lines of its own.
const MARK: &str = "child says ";
const NOBODY: u32 = 65534;

/// One test at a time: between fork and exec, a copy of this process holds the locks of every file that is open in
/// it, so what one test has just closed would still be in use because another one starts a process.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}

/// Not a test of its own: what the copy of this program does.
#[test]
fn child() {
    let (Ok(role), Ok(database)) = (std::env::var(ROLE), std::env::var(DATABASE)) else { return };
    match role.as_str() {
        "open" => {
            let opened = try_open(Path::new(&database));
            say(match opened {
                Ok(_) => "open",
                Err(StoreError::InUse(_)) => "in use",
                Err(StoreError::ReadOnly(_)) => "read only",
                Err(_) => "other",
            });
        }
        "accept" => accept_for_ever(Path::new(&database)),
        _ => say("what?"),
    }
}

fn accept_for_ever(database: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = open(database);
        register(&store).await;
        for n in 0.. {
            let request = format!("request {n}");
            accept(&store, &request).await;
            say(&request);
        }
    });
}

fn say(line: &str) {
    io::stdout().write_all(format!("\n{MARK}{line}\n").as_bytes()).unwrap();
}

fn command(program: &Path, role: &str, database: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["child", "--exact", "--nocapture"]).env(ROLE, role).env(DATABASE, database);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn said(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_prefix(MARK)).map(str::to_owned).collect()
}

fn opened_by_another(database: &Path) -> Vec<String> {
    let output = command(&std::env::current_exe().unwrap(), "open", database).output().unwrap();
    said(&String::from_utf8_lossy(&output.stdout))
}

#[tokio::test]
async fn a_second_process_is_turned_away_and_the_first_goes_on() {
    let _turn = alone().await;
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let store = open(&folder.database());
    assert_eq!(opened_by_another(&folder.database()), ["in use"]);
    let link = folder.path().join("link.db");
    symlink(folder.database(), &link).unwrap();
    assert_eq!(opened_by_another(&link), ["in use"]);
    assert!(!folder.path().join("link.db.canary").exists(), "by another name it is still the same file");
    accept(&store, "after").await;
    // Also when somebody has cleaned up the sidecar with its lock: then SQLite's own lock holds.
    fs::remove_file(folder.sidecar()).unwrap();
    assert_eq!(opened_by_another(&folder.database()), ["in use"]);
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    drop(store);
    assert_eq!(opened_by_another(&folder.database()), ["open"]);
    assert!(matches!(open_twice(&folder), Err(StoreError::InUse(_))), "nor does one process open it twice");
}

fn open_twice(folder: &Folder) -> Result<(), StoreError> {
    let _first = open(&folder.database());
    try_open(&folder.database()).map(|_| ())
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let _turn = alone().await;
    // The last one is past several checkpoints of the log.
    for lines in [1, 40, 90, 700] {
        let folder = Folder::new();
        with_a_lane(&folder).await;
        let mut child = command(&std::env::current_exe().unwrap(), "accept", &folder.database()).spawn().unwrap();
        let acknowledged = kill_after(&mut child, lines);
        assert!(acknowledged.len() >= lines);
        let store = open(&folder.database());
        assert!(!load(&store).await.regressed, "a crash is no restore");
        for request in &acknowledged {
            assert!(is_there(&store, request).await, "{request}");
        }
        assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    }
}

/// Kills the child in the middle of its work, and gives back all that it has said until then.
fn kill_after(child: &mut Child, lines: usize) -> Vec<String> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while said(&text).len() < lines {
        assert_ne!(output.read_line(&mut text).unwrap(), 0, "the child ended: {text}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    output.read_to_string(&mut text).unwrap();
    said(&text)
}

/// Permission bits do not bind root, so the copy of this program runs as nobody where it can.
fn opened_by_nobody(program: &Path, database: &Path) -> Vec<String> {
    let as_nobody = command(program, "open", database).uid(NOBODY).gid(NOBODY).output();
    let output = match as_nobody {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            command(program, "open", database).output().unwrap()
        }
        other => other.unwrap(),
    };
    said(&String::from_utf8_lossy(&output.stdout))
}

#[tokio::test]
async fn what_may_not_be_written_is_told_so() {
    let _turn = alone().await;
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    // Nobody may not be able to reach the folder that this program was built in.
    let elsewhere = Folder::new();
    set(elsewhere.path(), 0o755);
    let program = elsewhere.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();

    let folder = Folder::new();
    let opened = || opened_by_nobody(&program, &folder.database());
    // A folder that takes no new file.
    set(folder.path(), 0o555);
    assert_eq!(opened(), ["read only"]);
    set(folder.path(), 0o777);
    with_a_lane(&folder).await;
    set(&folder.sidecar(), 0o666);
    set(&folder.database(), 0o666);
    assert_eq!(opened(), ["open"], "what the rest of this test takes away is all that is needed");
    // The database alone, which SQLite would open for reading without a word.
    set(&folder.database(), 0o444);
    assert_eq!(opened(), ["read only"]);
    // The sidecar alone.
    set(&folder.database(), 0o666);
    set(&folder.sidecar(), 0o444);
    assert_eq!(opened(), ["read only"]);
}
