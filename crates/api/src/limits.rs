//! Every limit of the API, by name.

use std::time::Duration;

/// Number of events that `expand=events` shows, beginning with the first. A transaction that is watched for thousands
/// of blocks must not produce an endless answer. This limit is not configurable.
pub(crate) const MAX_EVENTS_SHOWN: u32 = 1000;

/// Number of events that `expand=confirmations` reads to rebuild the list of blocks. Every block may bring one event
/// until the required number is reached, which may be thousands on a fast chain.
pub(crate) const MAX_EVENTS_FOLDED: u32 = 10_000;

/// Number of bound nonces per page of `expand=slots`; `nextSlot` continues.
pub(crate) const MAX_SLOTS_SHOWN: u32 = 100;

/// Number of queued intents that one call of `cancel-pending` cancels, and the batch size.
pub(crate) const MAX_QUEUED_CANCELED: u32 = 10_000;
pub(crate) const QUEUED_CANCELED_AT_ONCE: u32 = 500;

/// Default wait for the lane of a call about a reservation.
pub(crate) const RESERVATION_WAIT: Duration = Duration::from_secs(5);

/// Limits of the API. The defaults equal the config's. Limits of one intent are [`gapless_domain::Limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiLimits {
    /// Bytes of a request body; more gets 413.
    pub body_bytes: usize,
    /// Time for a body to arrive; longer gets 408.
    pub body_time: Duration,
    /// Bytes of all headers of a request; more gets 431.
    pub header_bytes: usize,
    /// Intents in one batch; more gets 422.
    pub batch_items: usize,
    /// Default items per page.
    pub page_size_default: u32,
    /// Largest items per page; more gets 422.
    pub page_size_max: u32,
    /// Longest wait for a change; longer waits are shortened to it.
    pub wait_max: Duration,
    /// Concurrent callers that wait for a change; more gets 429.
    pub waiters_max: usize,
    /// Number of change hints that one wait follows at once. Later hints are followed after a pause.
    pub wait_rereads: u32,
    /// That pause, and so the longest delay of a wait on a busy lane.
    pub wait_pause: Duration,
    /// Concurrent requests to `/api`, without those that wait for a change; more gets 429.
    pub in_flight_requests: usize,
    /// Largest age of the cached list of submitters for alias lookups.
    pub alias_age: Duration,
    /// Value of `Retry-After` when the store is away or a queue is full.
    pub retry_after: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            body_bytes: 8 << 20,
            body_time: Duration::from_secs(30),
            header_bytes: 16 << 10,
            batch_items: 1000,
            page_size_default: 50,
            page_size_max: 200,
            wait_max: Duration::from_secs(60),
            waiters_max: 10_000,
            wait_rereads: 64,
            wait_pause: Duration::from_millis(250),
            in_flight_requests: 1024,
            alias_age: Duration::from_secs(1),
            retry_after: Duration::from_secs(1),
        }
    }
}
