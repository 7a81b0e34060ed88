//! Several real processes on one file. The processes are copies of this test program; an environment variable sets
//! their role.

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
/// The prefix of lines for the parent. The test runner prints other lines too.
const MARK: &str = "child says ";
const NOBODY: u32 = 65534;

/// Runs one test at a time. Between fork and exec a copy of this process holds the locks of all its open files, so a
/// file that one test has just closed would still be in use while another test starts a process.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}

/// The entry of the copy of this program; without the environment variable it does nothing.
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
        _ => say("unknown role"),
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
async fn second_process_is_refused_and_the_first_goes_on() {
    let _turn = alone().await;
    let folder = Folder::new();
    with_a_lane(&folder).await;
    let store = open(&folder.database());
    assert_eq!(opened_by_another(&folder.database()), ["in use"]);
    let link = folder.path().join("link.db");
    symlink(folder.database(), &link).unwrap();
    assert_eq!(opened_by_another(&link), ["in use"]);
    assert!(!folder.path().join("link.db.canary").exists(), "a link has the sidecar of its file");
    accept(&store, "after").await;
    // Without the sidecar and its lock, SQLite's own lock holds.
    fs::remove_file(folder.sidecar()).unwrap();
    assert_eq!(opened_by_another(&folder.database()), ["in use"]);
    assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    drop(store);
    assert_eq!(opened_by_another(&folder.database()), ["open"]);
    assert!(matches!(open_twice(&folder), Err(StoreError::InUse(_))), "one process cannot open the file twice");
}

fn open_twice(folder: &Folder) -> Result<(), StoreError> {
    let _first = open(&folder.database());
    try_open(&folder.database()).map(|_| ())
}

#[tokio::test]
async fn acknowledged_writes_survive_kill_9() {
    let _turn = alone().await;
    // The last count is past several checkpoints of the log.
    for lines in [1, 40, 90, 700] {
        let folder = Folder::new();
        with_a_lane(&folder).await;
        let mut child = command(&std::env::current_exe().unwrap(), "accept", &folder.database()).spawn().unwrap();
        let acknowledged = kill_after(&mut child, lines);
        assert!(acknowledged.len() >= lines);
        let store = open(&folder.database());
        assert!(!load(&store).await.regressed, "a crash must not count as a restore");
        for request in &acknowledged {
            assert!(is_there(&store, request).await, "{request}");
        }
        assert_eq!(write_lane(&store).await, CommitVerdict::Done);
    }
}

/// Kills the child in the middle of its work, and returns all that it has said until then.
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

/// Root ignores permission bits, so the copy of this program runs as the user "nobody" where that is possible.
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
async fn file_or_folder_without_write_permission_is_read_only() {
    let _turn = alone().await;
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    // The user "nobody" may have no access to the folder that this program was built in.
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
    assert_eq!(opened(), ["open"], "with all permissions the file opens");
    // Without write permission for the database, SQLite would open it read-only and report no error.
    set(&folder.database(), 0o444);
    assert_eq!(opened(), ["read only"]);
    // Without write permission for the sidecar.
    set(&folder.database(), 0o666);
    set(&folder.sidecar(), 0o444);
    assert_eq!(opened(), ["read only"]);
}
