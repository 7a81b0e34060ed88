//! A standby server that follows a primary, for failover tests.

use crate::command::run;
use crate::server::SUPERUSER;
use crate::{Error, Postgres};

impl Postgres {
    /// Copies the running primary and starts the copy as an asynchronous streaming standby with the primary's options.
    /// A promoted asynchronous standby may lack the primary's last commits.
    ///
    /// Needs `pg_basebackup`, which the npm package lacks ([`Error::MissingTool`]).
    pub fn standby_of(primary: &Self) -> Result<Self, Error> {
        Self::standby_through(primary, primary.port())
    }

    /// A standby that reaches the primary through another port: that of a [`FaultProxy`](crate::FaultProxy). While the
    /// proxy is cut, the primary continues and the standby falls behind.
    pub fn standby_through(primary: &Self, port: u16) -> Result<Self, Error> {
        let standby = Self::prepare(primary.bin_dir().to_owned(), primary.options().clone())?;
        let mut copy = standby.tool("pg_basebackup")?;
        copy.args(["-h", "127.0.0.1", "-U", SUPERUSER, "-p", &port.to_string()]);
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-password"]);
        if !primary.options().durable {
            copy.arg("--no-sync");
        }
        run(copy.arg("-D").arg(standby.data_dir()))?;
        // The copied postgresql.conf already includes our settings file; only its values change.
        standby.launch_on_a_free_port()
    }

    /// Promotes a standby to primary and waits until it accepts writes.
    pub fn promote(&self) -> Result<(), Error> {
        let mut pg_ctl = self.tool("pg_ctl")?;
        run(pg_ctl.args(["promote", "-w", "-D"]).arg(self.data_dir()))
    }
}
