//! Every limit of the API, by name.

use std::time::Duration;

/// How many events of one transaction `expand=events` shows: the first ones. This is no setting, but one that is watched for
/// thousands of blocks, or goes back and forth for months, must not make an answer without end.
pub(crate) const MAX_EVENTS_SHOWN: u32 = 1000;

/// How many events `expand=confirmations` reads to rebuild the list of blocks. Every block may bring one until there are as many
/// as the config asks for, which may be thousands where blocks are quick.
pub(crate) const MAX_EVENTS_FOLDED: u32 = 10_000;

/// How many bound nonces `expand=slots` shows at once; `nextSlot` goes on.
pub(crate) const MAX_SLOTS_SHOWN: u32 = 100;

/// How many queued intents one call of `cancel-pending` cancels, and how many at a time.
pub(crate) const MAX_QUEUED_CANCELED: u32 = 10_000;
pub(crate) const QUEUED_CANCELED_AT_ONCE: u32 = 500;

/// How long a call about a lent nonce waits for the lane, if the caller does not say.
pub(crate) const RESERVATION_WAIT: Duration = Duration::from_secs(5);

/// The defaults are the config's defaults. Limits on one intent are [`gapless_domain::Limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiLimits {
    /// Bytes of one request's body; over it, 413.
    pub body_bytes: usize,
    /// How long a body may take to arrive; over it, 408.
    pub body_time: Duration,
    /// Bytes of all headers of a request; over it, 431.
    pub header_bytes: usize,
    /// Intents in one batch; over it, 422.
    pub batch_items: usize,
    /// Items of a page, if the caller does not say.
    pub page_size_default: u32,
    /// Items of a page; asking for more is 422.
    pub page_size_max: u32,
    /// The longest wait for a change; longer ones are cut to it.
    pub wait_max: Duration,
    /// Callers that wait for a change at once; over it, 429.
    pub waiters_max: usize,
    /// How many hints of a change one wait follows at once. After them it goes on, with a pause before each look.
    pub wait_rereads: u32,
    /// That pause: what a wait on a busy lane may be late by.
    pub wait_pause: Duration,
    /// Requests to `/api` that are worked on at once, those that wait for a change not counted; over it, 429.
    pub in_flight_requests: usize,
    /// How old the list of submitters may be that aliases are looked up in.
    pub alias_age: Duration,
    /// What `Retry-After` says when the store is away or a queue is full.
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
