//! The options of the PostgreSQL store, with their defaults.

use std::time::Duration;

use gapless_domain::LeaseTerms;

#[derive(Clone, Debug)]
pub struct PgOptions {
    pub lease: LeaseTerms,
    /// Connections for all calls except lane commits, leases and wake-ups, which have connections of their own.
    pub pool_size: usize,
    pub connect_timeout: Duration,
    /// How long a statement waits for a row lock.
    pub lock_timeout: Duration,
    pub statement_timeout: Duration,
    /// After this time the server ends the transaction of a process that stopped inside it, with its locks (O08).
    pub idle_in_transaction_timeout: Duration,
    /// How often the server checks that the client of a running statement is still connected.
    pub connection_check_interval: Duration,
    /// How long a call waits for an answer before it closes the connection. Longer than any time-out of the server.
    pub call_timeout: Duration,
    /// How long the outcome of a commit is read back, after its answer was lost, before it is reported as unknown.
    pub read_back_timeout: Duration,
    /// A process that has not renewed for this long counts as ended. A process that is alone sends no notifications.
    pub node_forgotten_after: Duration,
    /// The pause before another try after a connection was lost.
    pub reconnect_pause: Duration,
    /// Apply missing migrations on open. If false, a database that lacks one is refused.
    pub migrate: bool,
}

impl Default for PgOptions {
    fn default() -> Self {
        PgOptions {
            lease: LeaseTerms::default(),
            pool_size: 8,
            connect_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(10),
            idle_in_transaction_timeout: Duration::from_secs(3),
            connection_check_interval: Duration::from_secs(1),
            call_timeout: Duration::from_secs(15),
            read_back_timeout: Duration::from_secs(10),
            node_forgotten_after: Duration::from_secs(60),
            reconnect_pause: Duration::from_millis(250),
            migrate: true,
        }
    }
}
