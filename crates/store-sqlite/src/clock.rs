//! The clock of this database, which has no server to ask.

use std::time::{SystemTime, UNIX_EPOCH};

use gapless_domain::Timestamp;
use gapless_store::DatabaseClock;

/// The machine's wall clock. It may jump; leases that seem to lie too far ahead count as expired for that reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl DatabaseClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "an embedded database is its own server, and this is its clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.saturating_add(since)
    }
}
