//! The config. The operator's file overrides the compiled-in default file, and the environment overrides both.
//!
//! - `config.default.toml` documents every key with its default. A test compares it with the defaults in the code of
//!   the other crates.
//! - `tree`, `file`, `environment`: the tree of values with their origins. `section`, `value`: the conversion into
//!   types.
//! - `parts`, `pace`, `policy`, `webhook`, `chain`, `submitter`: the settings by topic.
//! - `secret`: URLs that are never shown whole (X03).
//!
//! Architecture invariant: a value that may be a secret never gets into a message. A problem names the key, the origin
//! and the accepted values, never the value that was found.

mod chain;
#[cfg(feature = "tools")]
mod dev;
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
use gapless_chain_evm::OverrideRule;
use gapless_domain::{ChainRules as _, EvmRules, LaneLimits, LeaseTerms, Limits, SubmitterPolicy};
use gapless_engine::EngineOptions;

pub(crate) use chain::{ChainConfig, EndpointConfig};
pub(crate) use parts::{AuthMode, LogConfig, LogFormat, NodeConfig, StoreConfig, StoreUrl};
pub(crate) use problem::{ConfigError, ConfigProblem};
pub(crate) use section::EffectiveSetting;
pub(crate) use submitter::{Password, SignerConfig, SubmitterConfig};
pub(crate) use value::parse_duration;
#[cfg(feature = "tools")]
pub(crate) use value::show_duration;
pub(crate) use webhook::WebhookConfig;

use chain::ChainDefaults;
use file::{MAX_FILE_BYTES, TextSource};
use parts::EventsMode;
use section::{ConfigReport, Section};
use tree::ConfigTable;

/// The default config file, which documents every key.
pub(crate) const DEFAULT_FILE: &str = include_str!("../../config.default.toml");

/// The file in the current folder that is read if no file is named.
const USUAL_FILE: &str = "gapless.toml";

/// All settings, checked.
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
    /// The policy of a submitter that has no section, as in `gapless dev`.
    #[cfg_attr(not(any(test, feature = "tools")), expect(dead_code, reason = "the lean build has no `gapless dev`"))]
    pub(crate) policy: SubmitterPolicy,
    /// The webhook that decides about stuck intents.
    pub(crate) stuck_webhook: WebhookConfig,
    pub(crate) classify: Vec<OverrideRule>,
    /// The settings of a chain that has none of its own.
    #[cfg_attr(not(any(test, feature = "tools")), expect(dead_code, reason = "the lean build has no `gapless dev`"))]
    chain_defaults: ChainDefaults,
    pub(crate) chains: Vec<ChainConfig>,
    pub(crate) submitters: Vec<SubmitterConfig>,
}

/// A config, valid or not, with its effective settings and its problems.
pub(crate) struct CheckedConfig {
    pub(crate) config: Config,
    pub(crate) settings: Vec<EffectiveSetting>,
    pub(crate) problems: Vec<ConfigProblem>,
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
}

impl Config {
    /// Reads the named file, or `gapless.toml` if it exists, and the environment.
    pub(crate) fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
        let CheckedConfig { config, problems, .. } = Config::check(named)?;
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid { problems }) }
    }

    /// Reads the config like [`Config::load`], and returns it with all its problems. Fails only if the file cannot be
    /// read.
    pub(crate) fn check(named: Option<&Path>) -> Result<CheckedConfig, ConfigError> {
        let path = match named {
            Some(path) => Some(path.to_owned()),
            None => Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists()),
        };
        let text = path.as_deref().map(|path| Ok((path, read_file(path)?))).transpose()?;
        let file: Vec<(TextSource, &str)> =
            text.iter().map(|(path, text)| (TextSource::file(path), text.as_str())).collect();
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

/// Reads the default file, then `texts` in order, then the environment. Each source overrides the sources before it.
fn from_sources(
    texts: &[(TextSource, &str)],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> CheckedConfig {
    let mut problems = Vec::new();
    let mut table = ConfigTable::new();
    for (source, text) in [(TextSource::Default, DEFAULT_FILE)].iter().chain(texts) {
        match file::parse(text, source) {
            Ok(upper) => tree::merge_over(&mut table, upper),
            Err(problem) => problems.push(problem),
        }
    }
    let (upper, environment_problems) = environment::parse(environment);
    tree::merge_over(&mut table, upper);
    problems.extend(environment_problems);
    let mut report = ConfigReport { problems, ..ConfigReport::default() };
    let config = Section::whole(&table, &mut report, read);
    CheckedConfig { config, settings: report.settings, problems: report.problems, file: None }
}

fn read(file: &mut Section<'_>) -> Config {
    let node = file.within("node", parts::node);
    let auth = parts::auth(file, node.listen);
    let lease = file.within("lease", parts::lease);
    let store = file.within("store", |section| parts::store(section, lease));
    let (policy, finality, stuck_webhook) = policy::policy(file, EvmRules.defaults());
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
