//! The config: the compiled-in default file, under the operator's file, under the environment.
//!
//! - `config.default.toml` documents every key and is the only place where a default is written for people; a test compares
//!   it with the defaults that the rooms themselves have.
//! - `tree`, `file`, `environment`: values with their origins. `section`, `value`: reading them into types.
//! - `parts`, `pace`, `policy`, `webhook`, `chain`, `submitter`: what there is to set.
//! - `secret`: URLs that are never shown whole (X03).
//!
//! Architecture invariant: a value that may be a secret has no way into a message. Problems name keys, origins and what is
//! wanted, never what was found.

mod chain;
mod environment;
mod file;
mod pace;
mod parts;
mod policy;
mod problem;
mod section;
mod submitter;
#[cfg(test)]
mod tests;
mod tree;
mod value;
mod webhook;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use gapless_api::ApiLimits;
use gapless_chain::OverrideRule;
use gapless_domain::{ChainId, LaneLimits, LeaseTerms, Limits, SubmitterPolicy};
use gapless_engine::EngineOptions;

pub(crate) use chain::{ChainConfig, EndpointConfig, SendTo};
pub(crate) use parts::{AuthMode, LogConfig, LogFormat, NodeConfig, StoreConfig, StoreUrl};
pub(crate) use problem::{ConfigError, Problem};
pub(crate) use section::Shown;
pub(crate) use submitter::{Password, SignerConfig, SubmitterConfig};
pub(crate) use value::{parse_duration, show_duration};
pub(crate) use webhook::WebhookConfig;

use chain::ChainDefaults;
use file::{MAX_FILE_BYTES, Text};
use parts::EventsMode;
use section::{Report, Section};
use tree::Table;

/// The documentation of every key, and its defaults.
pub(crate) const DEFAULT_FILE: &str = include_str!("../../config.default.toml");

/// What `gapless dev` lays over it.
const DEV_FILE: &str = include_str!("../../config.dev.toml");

/// Looked for in the current folder when no file is named.
const USUAL_FILE: &str = "gapless.toml";

/// Everything that can be set, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) node: NodeConfig,
    pub(crate) store: StoreConfig,
    pub(crate) auth: AuthMode,
    pub(crate) lease: LeaseTerms,
    pub(crate) limits: Limits,
    pub(crate) calls: ApiLimits,
    pub(crate) engine: EngineOptions,
    pub(crate) lane: LaneLimits,
    pub(crate) log: LogConfig,
    pub(crate) policy: SubmitterPolicy,
    /// Whom to ask about what is stuck.
    pub(crate) stuck_webhook: WebhookConfig,
    pub(crate) classify: Vec<OverrideRule>,
    /// What every chain has unless it says otherwise.
    chain_defaults: ChainDefaults,
    pub(crate) chains: Vec<ChainConfig>,
    pub(crate) submitters: Vec<SubmitterConfig>,
}

/// A config, right or wrong, with what there is to tell about it.
pub(crate) struct Checked {
    pub(crate) config: Config,
    /// Every value in force.
    pub(crate) shown: Vec<Shown>,
    pub(crate) problems: Vec<Problem>,
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
}

impl Config {
    /// Reads the file that was named, or the usual one if it is there, and the environment.
    pub(crate) fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
        let Checked { config, problems, .. } = Config::check(named)?;
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid { problems }) }
    }

    /// What `gapless dev` runs by: its own defaults and the environment. A file that lies in the folder is a production
    /// config as likely as not, and is left alone.
    pub(crate) fn for_dev() -> Result<Config, ConfigError> {
        let mut checked = from_sources(&[(Text::Default, DEV_FILE)], std::env::vars_os());
        // It has its own, whatever the environment says of others.
        checked.config.auth = AuthMode::None;
        if checked.problems.is_empty() {
            Ok(checked.config)
        } else {
            Err(ConfigError::Invalid { problems: checked.problems })
        }
    }

    /// One embedded ledger.
    pub(crate) fn keep_ledger_in(&mut self, path: PathBuf) {
        self.store.url = StoreUrl::Sqlite(path);
    }

    /// One chain with one endpoint, and nothing else.
    pub(crate) fn use_chain(&mut self, id: &ChainId, endpoint: &str) {
        self.chains = chain::ChainConfig::at(id, endpoint, &self.chain_defaults).into_iter().collect();
        self.submitters.clear();
    }

    /// The same, with all that is wrong with it. Fails only if the file cannot be read at all.
    pub(crate) fn check(named: Option<&Path>) -> Result<Checked, ConfigError> {
        let path = match named {
            Some(path) => Some(path.to_owned()),
            None => Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists()),
        };
        let text = path.as_deref().map(|path| Ok((path, read_file(path)?))).transpose()?;
        let file: Vec<(Text, &str)> = text.iter().map(|(path, text)| (Text::file(path), text.as_str())).collect();
        let mut checked = from_sources(&file, std::env::vars_os());
        checked.file = path;
        Ok(checked)
    }
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    Ok(text)
}

/// The texts are laid over the defaults one after the other, and the environment over all of them.
fn from_sources(texts: &[(Text, &str)], environment: impl IntoIterator<Item = (OsString, OsString)>) -> Checked {
    let mut problems = Vec::new();
    let mut table = Table::new();
    for (of, text) in [(Text::Default, DEFAULT_FILE)].iter().chain(texts) {
        match file::parse(text, of) {
            Ok(upper) => tree::lay_over(&mut table, upper),
            Err(problem) => problems.push(problem),
        }
    }
    let (upper, wrong) = environment::parse(environment);
    tree::lay_over(&mut table, upper);
    problems.extend(wrong);
    let mut report = Report { problems, ..Report::default() };
    let config = Section::whole(&table, &mut report, read);
    Checked { config, shown: report.shown, problems: report.problems, file: None }
}

fn read(file: &mut Section<'_>) -> Config {
    let node = file.within("node", parts::node);
    let auth = parts::auth(file, node.listen);
    let lease = file.within("lease", parts::lease);
    let store = file.within("store", |section| parts::store(section, lease));
    let (policy, finality, stuck_webhook) = policy::policy(file, SubmitterPolicy::default());
    file.within("events", |section| section.find::<EventsMode>("mode"));
    let (limits, calls) = file.within("limits", |section| (parts::limits(section), parts::call_limits(section)));
    let engine = pace::engine(file);
    let lane = file.within("lane", pace::lane);
    let log = file.within("log", parts::log);
    let chain_defaults = chain::ChainDefaults::read(file, policy.clone(), finality);
    let classify = chain::classify(file);
    let chains = chain::chains(file, &chain_defaults);
    let submitters = submitter::submitters(file, &chains, &policy);
    Config {
        node,
        store,
        auth,
        lease,
        limits,
        calls,
        engine,
        lane,
        log,
        policy,
        stuck_webhook,
        classify,
        chain_defaults,
        chains,
        submitters,
    }
}
