//! A second server that follows a first one, for tests of failover.

use crate::command::run;
use crate::server::SUPERUSER;
use crate::{Error, Postgres};

impl Postgres {
    /// Copies the primary (which goes on working) and starts the copy as an asynchronous streaming standby, with the
    /// primary's options. Asynchronous means: a promoted standby may lack the primary's last commits.
    ///
    /// Needs `pg_basebackup`, which the system's packages have and the npm package does not
    /// ([`Error::MissingTool`]).
    pub fn standby_of(primary: &Self) -> Result<Self, Error> {
        Self::standby_through(primary, primary.port())
    }

    /// The same, and the standby reaches the primary at another port: that of a [`FaultProxy`](crate::FaultProxy) which leads to it. While
    /// that is cut the primary goes on, and the standby falls behind.
    pub fn standby_through(primary: &Self, port: u16) -> Result<Self, Error> {
        let standby = Self::prepare(primary.bin_dir().to_owned(), primary.options().clone())?;
        let mut copy = standby.tool("pg_basebackup")?;
        copy.args(["-h", "127.0.0.1", "-U", SUPERUSER, "-p", &port.to_string()]);
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-password"]);
        if !primary.options().durable {
            copy.arg("--no-sync");
        }
        run(copy.arg("-D").arg(standby.data_dir()))?;
        // The copy's postgresql.conf includes our settings already; only their values are its own.
        standby.launch_on_a_free_port()
    }

    /// Makes a standby the primary, and waits until it takes writes.
    pub fn promote(&self) -> Result<(), Error> {
        let mut pg_ctl = self.tool("pg_ctl")?;
        run(pg_ctl.args(["promote", "-w", "-D"]).arg(self.data_dir()))
    }
}
