//! Tests with real servers, which cost a second or two each.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gapless_testbed::{Error, FaultProxy, Options, Postgres};

/// Set for the copy of this test program that starts a server and then waits to be killed.
const VICTIM_ENV: &str = "GAPLESS_TESTBED_VICTIM";

#[test]
fn server_restarts_after_crash_and_leaves_no_files() {
    let settings = vec![("application_name".to_owned(), "it's".to_owned())];
    let server = Postgres::start(Options { settings, ..Options::default() }).unwrap();
    let port = server.port();
    let folder = server.data_dir().parent().unwrap().to_owned();
    assert_eq!(server.url("postgres"), format!("postgres://gapless@127.0.0.1:{port}/postgres"));
    assert_eq!(query(port, "SHOW application_name"), "it's");
    query(port, "CREATE TABLE kept AS SELECT 42 AS n");

    server.stop_immediate().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens after the crash");
    assert!(server.pid().is_none());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(query(port, "SELECT n FROM kept"), "42");

    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens after the drop");
    assert!(!folder.exists(), "{} is still there", folder.display());
}

#[test]
fn promoted_standby_has_primary_data() {
    let primary = Postgres::start(Options::default()).unwrap();
    query(primary.port(), "CREATE TABLE followed AS SELECT 1 AS n");
    let standby = match Postgres::standby_of(&primary) {
        // The npm package has no pg_basebackup, as the documentation of `standby_of` says.
        Err(Error::MissingTool { tool }) if tool.ends_with("pg_basebackup") => return,
        standby => standby.unwrap(),
    };
    query(primary.port(), "INSERT INTO followed VALUES (2)");
    assert!(eventually(|| query(standby.port(), "SELECT count(*) FROM followed") == "2"), "the standby did not follow");
    assert_eq!(query(standby.port(), "SELECT pg_is_in_recovery()"), "t");

    primary.stop_immediate().unwrap();
    standby.promote().unwrap();
    query(standby.port(), "INSERT INTO followed VALUES (3)");
    assert_eq!(query(standby.port(), "SELECT count(*) FROM followed"), "3");
}

#[test]
fn cut_standby_is_promoted_without_later_commits() {
    let primary = Postgres::start(Options::default()).unwrap();
    query(primary.port(), "CREATE TABLE followed AS SELECT 1 AS n");
    let road = FaultProxy::start(primary.port()).unwrap();
    let standby = match Postgres::standby_through(&primary, road.port()) {
        Err(Error::MissingTool { tool }) if tool.ends_with("pg_basebackup") => return,
        standby => standby.unwrap(),
    };
    query(primary.port(), "INSERT INTO followed VALUES (2)");
    assert!(eventually(|| query(standby.port(), "SELECT count(*) FROM followed") == "2"), "the standby did not follow");

    road.cut();
    query(primary.port(), "INSERT INTO followed VALUES (3)");
    primary.stop_immediate().unwrap();
    standby.promote().unwrap();
    assert_eq!(query(standby.port(), "SELECT count(*) FROM followed"), "2");
}

/// The victim of the next test, which runs this program again with only this function.
#[test]
fn victim() {
    if std::env::var_os(VICTIM_ENV).is_none() {
        return;
    }
    let server = Postgres::start(Options::default()).unwrap();
    let line = format!("\nup {} {}\n", server.port(), server.data_dir().display());
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn server_ends_with_killed_process() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM_ENV, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let up = lines.map(Result::unwrap).find(|line| line.starts_with("up ")).expect("the victim's server did not start");
    let mut words = up.split(' ').skip(1);
    let port: u16 = words.next().unwrap().parse().unwrap();
    let data_dir = words.next().unwrap().to_owned();
    assert_eq!(query(port, "SELECT 1"), "1");

    victim.kill().unwrap();
    victim.wait().unwrap();

    let folder = Path::new(&data_dir).parent().unwrap();
    assert!(eventually(|| !folder.exists()), "{} is still there", folder.display());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens");
    assert!(fs::metadata(folder).is_err());
}

#[expect(clippy::disallowed_methods, reason = "waits for another process")]
fn eventually(mut look: impl FnMut() -> bool) -> bool {
    (0..1_000).any(|_| {
        let seen = look();
        if !seen {
            std::thread::sleep(Duration::from_millis(10));
        }
        seen
    })
}

/// Runs one statement by the simple query protocol and returns the first column of the last row. These few messages
/// keep a database client out of this crate.
fn query(port: u16, sql: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let startup = b"\0\x03\0\0user\0gapless\0database\0postgres\0\0";
    stream.write_all(&(startup.len() as u32 + 4).to_be_bytes()).unwrap();
    stream.write_all(startup).unwrap();
    let mut answer = String::new();
    let mut asked = false;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        match head[0] {
            b'E' => panic!("{sql}: {}", String::from_utf8_lossy(&body)),
            // A row: two bytes with the number of columns, then four bytes with the length of the first column.
            b'D' => {
                let end = 6 + u32::from_be_bytes([body[2], body[3], body[4], body[5]]) as usize;
                answer = String::from_utf8(body[6..end].to_vec()).unwrap();
            }
            b'Z' if asked => return answer,
            b'Z' => {
                asked = true;
                stream.write_all(b"Q").unwrap();
                stream.write_all(&(sql.len() as u32 + 5).to_be_bytes()).unwrap();
                stream.write_all(sql.as_bytes()).unwrap();
                stream.write_all(&[0]).unwrap();
            }
            _ => {}
        }
    }
}
