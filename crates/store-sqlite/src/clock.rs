//! The clock of the embedded database.

use std::time::{SystemTime, UNIX_EPOCH};

use gapless_domain::Timestamp;
use gapless_store::DatabaseClock;

/// The wall clock of the machine. It may jump, so leases that end too far in the future count as expired.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqliteClock;

impl DatabaseClock for SqliteClock {
    #[expect(clippy::disallowed_methods, reason = "an embedded database is its own server, and this is its clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.saturating_add(since)
    }
}
