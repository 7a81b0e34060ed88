//! The sections `[node]`, `[auth]`, `[store]`, `[lease]`, `[limits]`, `[log]` and `[events]`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gapless_api::ApiLimits;
use gapless_domain::{ActionLimits, EvmLimits, LeaseTerms, Limits, OwnerId};
use gapless_secret::SecretUrl;
use gapless_store_postgres::PgOptions;
use gapless_store_sqlite::SqliteOptions;
use tracing_subscriber::filter::Targets;

use super::problem::ProblemKind;
use super::section::{Section, words};
use super::tree::Value;
use super::value::{ByteSize, Setting, text_of};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeConfig {
    /// Name in logs and leases. Every process adds a random part (N22).
    pub(crate) id: Option<String>,
    pub(crate) listen: SocketAddr,
    /// Time limit of a drain.
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
    pub(crate) sqlite: SqliteConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SqliteConfig {
    pub(crate) checkpoint_pages: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Postgres(SecretUrl),
    Sqlite(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub(crate) format: LogFormat,
    /// A filter of `tracing`: `info`, `gapless_engine=debug,info`.
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
        let sqlite = SqliteConfig { checkpoint_pages: SqliteOptions::default().checkpoint_pages };
        StoreConfig {
            url: StoreUrl::Sqlite("gapless.db".into()),
            migrate: true,
            postgres: PgOptions::default(),
            sqlite,
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
    let sqlite = section.within("sqlite", |section| SqliteConfig {
        checkpoint_pages: section.read_in("checkpoint_pages", base.sqlite.checkpoint_pages, 100..=1_000_000),
    });
    StoreConfig { url, migrate, postgres, sqlite }
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

/// Limits on one intent.
pub(crate) fn limits(section: &mut Section<'_>) -> Limits {
    let base = Limits::default();
    let longest_hold = Duration::from_secs(24 * 3600);
    let hold = section.read_in("hold", Duration::from_millis(base.hold_ms.into()), Duration::ZERO..=longest_hold);
    let evm = base.action.evm;
    Limits {
        request_id_bytes: bytes(section, "request_id_bytes", base.request_id_bytes),
        metadata_bytes: bytes(section, "metadata_bytes", base.metadata_bytes),
        hold_ms: u32::try_from(hold.as_millis()).unwrap_or(base.hold_ms),
        action: ActionLimits {
            evm: EvmLimits {
                data_bytes: bytes(section, "data_bytes", evm.data_bytes),
                access_list_items: section.read("access_list_items", evm.access_list_items),
                access_list_keys: section.read("access_list_keys", evm.access_list_keys),
                authorizations: section.read("authorizations", evm.authorizations),
                gas_limit: section.read("gas_limit", evm.gas_limit),
            },
        },
    }
}

/// Limits on calls, in the same section.
pub(crate) fn call_limits(section: &mut Section<'_>) -> ApiLimits {
    let base = ApiLimits::default();
    let limits = ApiLimits {
        body_bytes: bytes(section, "body_bytes", base.body_bytes),
        body_time: section.read("body_time", base.body_time),
        header_bytes: bytes(section, "header_bytes", base.header_bytes),
        batch_items: section.read_in("batch_items", base.batch_items, 1..=100_000),
        page_size_default: section.read_in("page_size_default", base.page_size_default, 1..=10_000),
        page_size_max: section.read_in("page_size_max", base.page_size_max, 1..=10_000),
        wait_max: section.read("wait_max", base.wait_max),
        waiters_max: section.read("waiters_max", base.waiters_max),
        wait_rereads: section.read("wait_rereads", base.wait_rereads),
        wait_pause: section.read_in("wait_pause", base.wait_pause, Duration::from_millis(1)..=Duration::from_secs(60)),
        in_flight_requests: section.read_in("in_flight_requests", base.in_flight_requests, 1..=1_000_000),
        alias_age: section.read("alias_age", base.alias_age),
        retry_after: section.read("retry_after", base.retry_after),
    };
    if limits.page_size_default > limits.page_size_max {
        section.refuse("page_size_default", ProblemKind::PageSizes);
    }
    limits
}

fn bytes(section: &mut Section<'_>, key: &'static str, base: usize) -> usize {
    section.read_in(key, ByteSize(base), ByteSize(1)..=ByteSize(1 << 30)).0
}

pub(crate) fn log(section: &mut Section<'_>) -> LogConfig {
    let base = LogConfig::default();
    let filter = section.read("filter", LogFilterSetting(base.filter)).0;
    LogConfig { format: section.read("format", base.format), filter }
}

impl Setting for EventsMode {
    fn wanted() -> String {
        "\"poll\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        (text_of(value)? == "poll").then_some(EventsMode::Poll)
    }

    fn try_read(value: &Value) -> Result<Self, ProblemKind> {
        match text_of(value) {
            Some(later @ ("log" | "webhook" | "nats" | "amqp" | "kafka")) => {
                Err(ProblemKind::NotSupported { feature: format!("the mode {later:?}") })
            }
            _ => Self::read(value).ok_or_else(|| ProblemKind::Wanted { wanted: Self::wanted() }),
        }
    }

    fn show(&self) -> String {
        match self {
            EventsMode::Poll => "\"poll\"".to_owned(),
        }
    }
}

/// A log filter of `tracing`: `info`, `gapless_engine=debug,info`.
struct LogFilterSetting(String);

impl Setting for LogFilterSetting {
    fn wanted() -> String {
        "a filter such as \"info\" or \"gapless_engine=debug,info\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        text.parse::<Targets>().ok().map(|_| LogFilterSetting(text.to_owned()))
    }

    fn show(&self) -> String {
        format!("{:?}", self.0)
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
                // `sqlite::memory:` would lose every request id at the first restart.
                (!path.is_empty() && !path.starts_with(':')).then(|| StoreUrl::Sqlite(path.into()))
            }
            None => SecretUrl::postgres(text).ok().map(StoreUrl::Postgres),
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
