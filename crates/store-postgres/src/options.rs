//! Every knob of the PostgreSQL store, with its default.

use std::time::Duration;

use gapless_domain::LeaseTerms;

#[derive(Clone, Debug)]
pub struct PgOptions {
    pub lease: LeaseTerms,
    /// Connections for everything but lane commits, which have one of their own, and wake-ups, which have another.
    pub pool_size: usize,
    pub connect_timeout: Duration,
    /// How long a statement waits for a row lock.
    pub lock_timeout: Duration,
    pub statement_timeout: Duration,
    /// A process that stops inside a transaction loses it, and its locks, after this (O08).
    pub idle_in_transaction_timeout: Duration,
    /// How often a server looks whether the client of a running statement is still there.
    pub connection_check_interval: Duration,
    /// How long a call waits for an answer before it gives the connection up. Longer than any time-out of the server.
    pub call_timeout: Duration,
    /// How long a commit whose answer was lost is looked for before its outcome is told as unknown.
    pub read_back_timeout: Duration,
    /// A process that was not seen for this long counts as gone; renewals say that one is alive. Nobody is told of work when
    /// all others are gone.
    pub node_forgotten_after: Duration,
    /// How long to wait before a lost wake-up connection is tried again.
    pub reconnect_pause: Duration,
    /// Apply missing migrations on open; else a database that needs them is refused.
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
