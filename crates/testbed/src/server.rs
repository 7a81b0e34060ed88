//! One private PostgreSQL server, from its empty folder to its end.

use std::env;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::account::Account;
use crate::clock::wait_for;
use crate::command::run;
use crate::folder::Folder;
use crate::supervisor::{Crash, Supervisor};
use crate::{Error, binaries};

/// The environment variable with the URL, without a database, of the server that tests share.
pub const SHARED_URL_ENV: &str = "GAPLESS_TEST_POSTGRES_URL";

pub(crate) const SUPERUSER: &str = "gapless";
const SERVER: &str = "postgres";
const READY_LIMIT: Duration = Duration::from_secs(60);
const PORT_TRIES: u32 = 5;
/// Our settings file, included by postgresql.conf, so that it can be rewritten (another port, a standby).
const SETTINGS_FILE: &str = "gapless.conf";

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sync commits to disk (`fsync`). A server crash loses nothing either way, so tests turn it off. Benchmarks are
    /// meaningless without it.
    pub durable: bool,
    pub max_connections: u32,
    pub shared_buffers: String,
    /// Further settings of postgresql.conf, which override the defaults of this crate.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durable: false, max_connections: 300, shared_buffers: "64MB".to_owned(), settings: Vec::new() }
    }
}

/// A running private PostgreSQL server. Dropping it stops the server and removes its data.
#[derive(Debug)]
pub struct Postgres {
    // Field order: the server ends before its data is removed.
    supervisor: Mutex<Supervisor>,
    folder: Folder,
    account: Account,
    bin_dir: PathBuf,
    port: u16,
    options: Options,
}

impl Postgres {
    /// Creates and starts a new, empty server: superuser `gapless`, no passwords, loopback only.
    pub fn start(options: Options) -> Result<Self, Error> {
        Self::prepare(binaries::find()?, options)?.with_new_data()
    }

    /// The base URL (no database) of the server that all tests share.
    pub fn shared_url() -> Result<String, Error> {
        env::var(SHARED_URL_ENV)
            .ok()
            .filter(|url| !url.is_empty())
            .map(|url| url.trim_end_matches('/').to_owned())
            .ok_or(Error::NoSharedServer)
    }

    /// The URL without a database, for [`SHARED_URL_ENV`].
    pub fn base_url(&self) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}", self.port)
    }

    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.base_url())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The id of the server's first process, for tests that stop and continue it; `None` while the server is down.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor().server_pid()
    }

    /// Stops the server like a crash (`pg_ctl stop -m immediate`). The data stays.
    pub fn stop_immediate(&self) -> Result<(), Error> {
        self.supervisor().stop_server()
    }

    /// Starts the server again on the same port after [`Postgres::stop_immediate`], and waits for crash recovery.
    pub fn start_again(&self) -> Result<(), Error> {
        self.launch()
    }

    /// A server without data: its folder, and the supervisor that removes the folder at the end.
    pub(crate) fn prepare(found: PathBuf, options: Options) -> Result<Self, Error> {
        let account = Account::choose()?;
        let folder = Folder::create(SERVER, account)?;
        let bin_dir = binaries::usable_by(account, &found, folder.path())?;
        let data_dir = folder.path().join("data");
        let mut postgres = account.command(bin_dir.join("postgres"));
        postgres.arg("-D").arg(&data_dir);
        let supervisor = Supervisor::spawn(account, folder.path(), Crash::Quit, &postgres)?;
        Ok(Self { supervisor: Mutex::new(supervisor), folder, account, bin_dir, port: 0, options })
    }

    /// Chooses a port and starts the server. If another program takes the port in between, the next port is tried.
    pub(crate) fn launch_on_a_free_port(mut self) -> Result<Self, Error> {
        for _ in 1..PORT_TRIES {
            self.port = free_port()?;
            self.write_settings()?;
            match self.launch() {
                Err(Error::StoppedWhileStarting { log, .. }) if log.contains("could not bind") => {}
                result => return result.map(|()| self),
            }
        }
        self.port = free_port()?;
        self.write_settings()?;
        self.launch().map(|()| self)
    }

    /// A PostgreSQL tool, run as the server's account. An error if this distribution lacks the tool.
    pub(crate) fn tool(&self, name: &str) -> Result<Command, Error> {
        let tool = self.bin_dir.join(name);
        if tool.is_file() { Ok(self.account.command(tool)) } else { Err(Error::MissingTool { tool }) }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Adds our settings file to the server's configuration.
    pub(crate) fn include_settings(&self) -> Result<(), Error> {
        let file = self.data_dir().join("postgresql.conf");
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut open| writeln!(open, "\ninclude '{SETTINGS_FILE}'"))
            .map_err(Error::io(format!("writing {}", file.display())))
    }

    fn with_new_data(self) -> Result<Self, Error> {
        let mut initdb = self.tool("initdb")?;
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username", SUPERUSER]);
        if !self.options.durable {
            initdb.arg("--no-sync");
        }
        run(initdb.arg("-D").arg(self.data_dir()))?;
        self.include_settings()?;
        self.launch_on_a_free_port()
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self) -> Result<(), Error> {
        let mut supervisor = self.supervisor();
        supervisor.start_server(None)?;
        let answer = wait_for(READY_LIMIT, || match supervisor.server_pid() {
            None => Some(Err(Error::StoppedWhileStarting { server: SERVER, log: self.log_tail() })),
            Some(pid) => is_ready(&self.data_dir(), pid).then_some(Ok(())),
        });
        answer.unwrap_or_else(|| {
            Err(Error::NotReady { server: SERVER, seconds: READY_LIMIT.as_secs(), log: self.log_tail() })
        })
    }

    fn write_settings(&self) -> Result<(), Error> {
        let file = self.data_dir().join(SETTINGS_FILE);
        let text: String = self
            .settings()
            .iter()
            .map(|(name, value)| format!("{name} = '{}'\n", value.replace('\\', r"\\").replace('\'', "''")))
            .collect();
        fs::write(&file, text).map_err(Error::io(format!("writing {}", file.display())))?;
        self.account.give(&file)
    }

    /// PostgreSQL uses the last setting of a name, so the caller's settings come last.
    fn settings(&self) -> Vec<(String, String)> {
        let on_or_off = |on: bool| if on { "on" } else { "off" };
        let ours = [
            ("listen_addresses", "127.0.0.1"),
            ("port", &self.port.to_string()),
            ("unix_socket_directories", ""),
            ("max_connections", &self.options.max_connections.to_string()),
            ("shared_buffers", &self.options.shared_buffers),
            ("fsync", on_or_off(self.options.durable)),
            ("full_page_writes", on_or_off(self.options.durable)),
            ("wal_level", "replica"),
            ("max_wal_senders", "10"),
            ("timezone", "UTC"),
            ("log_timezone", "UTC"),
            ("logging_collector", "off"),
        ];
        let ours = ours.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        ours.chain(self.options.settings.iter().cloned()).collect()
    }

    fn log_tail(&self) -> String {
        self.folder.log_tail()
    }
}

/// The eighth line of the pid file is the server's status. The first line distinguishes this run from an older one.
fn is_ready(data_dir: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first() == Some(&pid.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(Error::io("looking for a free port"))
}
