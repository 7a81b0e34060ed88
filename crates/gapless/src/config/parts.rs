//! The sections that are about this node: where it listens, what it keeps its ledger in, how much it takes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gapless_domain::{LeaseTerms, Limits, OwnerId};
use gapless_engine::BatchLimits;
use gapless_store_postgres::PgOptions;

use super::problem::ProblemKind;
use super::secret::SecretUrl;
use super::section::{Section, words};
use super::tree::Value;
use super::value::{ByteSize, Setting, text_of};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeConfig {
    /// For people; every process adds a random part of its own (N22).
    pub(crate) id: Option<String>,
    pub(crate) listen: SocketAddr,
    /// How long a stop may take to hand over what is under way.
    pub(crate) drain_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthMode {
    ApiKey,
    None,
}

#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    pub(crate) url: StoreUrl,
    /// Apply missing migrations on start.
    pub(crate) migrate: bool,
    pub(crate) postgres: PgOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Postgres(SecretUrl),
    Sqlite(PathBuf),
}

/// Limits on calls of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallLimits {
    pub(crate) body_bytes: usize,
    pub(crate) header_bytes: usize,
    pub(crate) batch_items: usize,
    pub(crate) page_size_default: usize,
    pub(crate) page_size_max: usize,
    pub(crate) wait_max: Duration,
    pub(crate) waiters_max: usize,
    pub(crate) in_flight_requests: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub(crate) format: LogFormat,
    /// In `tracing`'s language: `info`, `gapless_engine=debug,info`.
    pub(crate) filter: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventsMode {
    Poll,
    Log,
}

words!(AuthMode { AuthMode::ApiKey => "api_key", AuthMode::None => "none" });
words!(LogFormat { LogFormat::Text => "text", LogFormat::Json => "json" });

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            id: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            drain_timeout: Duration::from_secs(20),
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig { url: StoreUrl::Sqlite("gapless.db".into()), migrate: true, postgres: PgOptions::default() }
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        CallLimits {
            body_bytes: 4 << 20,
            header_bytes: 16 << 10,
            batch_items: 1000,
            page_size_default: 50,
            page_size_max: 500,
            wait_max: Duration::from_secs(60),
            waiters_max: 10_000,
            in_flight_requests: 10_000,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

pub(crate) fn node(section: &mut Section<'_>) -> NodeConfig {
    let base = NodeConfig::default();
    NodeConfig {
        id: section.find::<NodeName>("id").map(|name| name.0),
        listen: section.read("listen", base.listen),
        drain_timeout: section.read("drain_timeout", base.drain_timeout),
    }
}

pub(crate) fn auth(file: &mut Section<'_>, listen: SocketAddr) -> AuthMode {
    file.within("auth", |section| {
        let mode = section.read("mode", AuthMode::ApiKey);
        if mode == AuthMode::None && !listen.ip().is_loopback() {
            section.refuse("mode", ProblemKind::OpenToAll);
        }
        mode
    })
}

pub(crate) fn store(section: &mut Section<'_>, lease: LeaseTerms) -> StoreConfig {
    let base = StoreConfig::default();
    let url = section.read("url", base.url);
    let migrate = section.read("migrate", base.migrate);
    let postgres = section.within("postgres", |section| {
        let base = base.postgres;
        PgOptions {
            lease,
            pool_size: section.read_in("pool_size", base.pool_size, 1..=1000),
            connect_timeout: section.read("connect_timeout", base.connect_timeout),
            lock_timeout: section.read("lock_timeout", base.lock_timeout),
            statement_timeout: section.read("statement_timeout", base.statement_timeout),
            idle_in_transaction_timeout: section.read("idle_in_transaction_timeout", base.idle_in_transaction_timeout),
            connection_check_interval: section.read("connection_check_interval", base.connection_check_interval),
            call_timeout: section.read("call_timeout", base.call_timeout),
            read_back_timeout: section.read("read_back_timeout", base.read_back_timeout),
            node_forgotten_after: section.read("node_forgotten_after", base.node_forgotten_after),
            reconnect_pause: section.read("reconnect_pause", base.reconnect_pause),
            migrate,
        }
    });
    StoreConfig { url, migrate, postgres }
}

pub(crate) fn lease(section: &mut Section<'_>) -> LeaseTerms {
    let base = LeaseTerms::default();
    let terms = LeaseTerms {
        duration: section.read("duration", base.duration),
        renew_interval: section.read("renew_interval", base.renew_interval),
        clock_skew: section.read("clock_skew", base.clock_skew),
    };
    if !terms.are_sound() {
        section.refuse("", ProblemKind::LeaseTerms);
    }
    terms
}

pub(crate) fn limits(section: &mut Section<'_>) -> (Limits, CallLimits) {
    let base = Limits::default();
    let mut bytes = |key, base| section.read_in(key, ByteSize(base), ByteSize(1)..=ByteSize(1 << 30)).0;
    let (request_id_bytes, data_bytes) =
        (bytes("request_id_bytes", base.request_id_bytes), bytes("data_bytes", base.data_bytes));
    let metadata_bytes = bytes("metadata_bytes", base.metadata_bytes);
    let calls = CallLimits::default();
    let (body_bytes, header_bytes) = (bytes("body_bytes", calls.body_bytes), bytes("header_bytes", calls.header_bytes));
    let longest_hold = Duration::from_secs(24 * 3600);
    let hold = section.read_in("hold", Duration::from_millis(base.hold_ms.into()), Duration::ZERO..=longest_hold);
    let intent = Limits {
        request_id_bytes,
        data_bytes,
        metadata_bytes,
        access_list_items: section.read("access_list_items", base.access_list_items),
        access_list_keys: section.read("access_list_keys", base.access_list_keys),
        authorizations: section.read("authorizations", base.authorizations),
        gas_limit: section.read("gas_limit", base.gas_limit),
        hold_ms: u32::try_from(hold.as_millis()).unwrap_or(base.hold_ms),
    };
    let calls = CallLimits {
        body_bytes,
        header_bytes,
        batch_items: section.read_in("batch_items", calls.batch_items, 1..=100_000),
        page_size_default: section.read_in("page_size_default", calls.page_size_default, 1..=10_000),
        page_size_max: section.read_in("page_size_max", calls.page_size_max, 1..=10_000),
        wait_max: section.read("wait_max", calls.wait_max),
        waiters_max: section.read("waiters_max", calls.waiters_max),
        in_flight_requests: section.read_in("in_flight_requests", calls.in_flight_requests, 1..=1_000_000),
    };
    if calls.page_size_default > calls.page_size_max {
        section.refuse("page_size_default", ProblemKind::PageSizes);
    }
    (intent, calls)
}

/// `[intake]` and `[writer]`; the writer has one flush at a time whatever anybody sets, so it has no key for that.
pub(crate) fn batches(section: &mut Section<'_>, with_flushes: bool) -> BatchLimits {
    let base = BatchLimits::default();
    BatchLimits {
        items: section.read_in("items", base.items, 1..=100_000),
        bytes: section.read_in("bytes", ByteSize(base.bytes), ByteSize(1)..=ByteSize(1 << 30)).0,
        waiting: section.read_in("waiting", base.waiting, 1..=1_000_000),
        flushes: if with_flushes { section.read_in("flushes", base.flushes, 1..=64) } else { 1 },
    }
}

pub(crate) fn log(section: &mut Section<'_>) -> LogConfig {
    let base = LogConfig::default();
    LogConfig { format: section.read("format", base.format), filter: section.read("filter", base.filter) }
}

pub(crate) fn mempool(section: &mut Section<'_>) {
    if section.read("diagnose", false) {
        section.refuse("diagnose", ProblemKind::NotYet { what: "the inspector of mempools".to_owned() });
    }
}

impl Setting for EventsMode {
    fn wanted() -> String {
        "\"poll\" or \"log\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match text_of(value)? {
            "poll" => Some(EventsMode::Poll),
            "log" => Some(EventsMode::Log),
            _ => None,
        }
    }

    fn try_read(value: &Value) -> Result<Self, ProblemKind> {
        match text_of(value) {
            Some(later @ ("webhook" | "nats" | "amqp" | "kafka")) => {
                Err(ProblemKind::NotYet { what: format!("sending events by {later}") })
            }
            _ => Self::read(value).ok_or_else(|| ProblemKind::Wanted { wanted: Self::wanted() }),
        }
    }

    fn show(&self) -> String {
        let word = if *self == EventsMode::Poll { "poll" } else { "log" };
        format!("{word:?}")
    }
}

struct NodeName(String);

impl Setting for NodeName {
    fn wanted() -> String {
        format!("1 to {} letters, digits, \"-\", \"_\" or \".\"", OwnerId::MAX_NAME_BYTES)
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let fits = (1..=OwnerId::MAX_NAME_BYTES).contains(&text.len());
        (fits && text.bytes().all(plain)).then(|| NodeName(text.to_owned()))
    }

    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

impl Setting for StoreUrl {
    fn wanted() -> String {
        "\"postgres://user@host/database\" or \"sqlite:file\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        match text.strip_prefix("sqlite:") {
            Some(rest) => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                // `sqlite::memory:` would forget every request id at the first restart.
                (!path.is_empty() && !path.starts_with(':')).then(|| StoreUrl::Sqlite(path.into()))
            }
            None => SecretUrl::postgres(text).map(StoreUrl::Postgres),
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

impl std::fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreUrl::Postgres(url) => url.fmt(f),
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}
