//! The config: the compiled-in default file, under the operator's file, under the environment.
//!
//! - `config.default.toml` documents every key and is the only place where a default is written for people; a test compares
//!   it with the defaults that the rooms themselves have.
//! - `tree`, `file`, `environment`: values with their origins. `section`, `value`: reading them into types.
//! - `parts`, `policy`, `chain`, `submitter`: what there is to set.
//! - `secret`: URLs that are never shown whole (X03).
//!
//! Architecture invariant: a value that may be a secret has no way into a message. Problems name keys, origins and what is
//! wanted, never what was found.

mod chain;
mod environment;
mod file;
mod parts;
mod policy;
mod problem;
mod secret;
mod section;
mod submitter;
#[cfg(test)]
mod tests;
mod tree;
mod value;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use gapless_chain::OverrideRule;
use gapless_domain::{LeaseTerms, Limits, SubmitterPolicy};
use gapless_engine::BatchLimits;

pub(crate) use chain::{ChainConfig, SendTo};
pub(crate) use parts::{AuthMode, CallLimits, EventsMode, LogConfig, LogFormat, NodeConfig, StoreConfig, StoreUrl};
pub(crate) use problem::{ConfigError, Problem};
pub(crate) use secret::SecretUrl;
pub(crate) use section::Shown;
pub(crate) use submitter::{Password, SignerConfig, SubmitterConfig};
pub(crate) use value::{parse_duration, show_duration};

use file::{MAX_FILE_BYTES, Text};
use section::{Report, Section};
use tree::Table;

/// The documentation of every key, and its defaults.
pub(crate) const DEFAULT_FILE: &str = include_str!("../../config.default.toml");

/// Looked for in the current folder when no file is named.
const USUAL_FILE: &str = "gapless.toml";

/// Everything that can be set, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) node: NodeConfig,
    pub(crate) store: StoreConfig,
    pub(crate) auth: AuthMode,
    pub(crate) lease: LeaseTerms,
    pub(crate) events: EventsMode,
    pub(crate) limits: Limits,
    pub(crate) calls: CallLimits,
    pub(crate) intake: BatchLimits,
    pub(crate) writer: BatchLimits,
    pub(crate) log: LogConfig,
    pub(crate) policy: SubmitterPolicy,
    pub(crate) classify: Vec<OverrideRule>,
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

    /// The same, with all that is wrong with it. Fails only if the file cannot be read at all.
    pub(crate) fn check(named: Option<&Path>) -> Result<Checked, ConfigError> {
        let path = match named {
            Some(path) => Some(path.to_owned()),
            None => Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists()),
        };
        let text = path.as_deref().map(|path| Ok((path, read_file(path)?))).transpose()?;
        let mut checked = from_sources(text.as_ref().map(|(path, text)| (*path, text.as_str())), std::env::vars_os());
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

fn from_sources(file: Option<(&Path, &str)>, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Checked {
    let mut problems = Vec::new();
    let mut table = Table::new();
    let texts = [Some((Text::Default, DEFAULT_FILE)), file.map(|(path, text)| (Text::file(path), text))];
    for (of, text) in texts.into_iter().flatten() {
        match file::parse(text, &of) {
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
    let policy = policy::policy(file, SubmitterPolicy::default());
    file.within("mempool", parts::mempool);
    let events = file.within("events", |section| section.read("mode", EventsMode::Poll));
    let (limits, calls) = file.within("limits", parts::limits);
    let intake = file.within("intake", |section| parts::batches(section, true));
    let writer = file.within("writer", |section| parts::batches(section, false));
    let log = file.within("log", parts::log);
    let rpc = file.within("rpc", |section| chain::rpc(section, chain::RpcConfig::default()));
    let classify = chain::classify(file);
    let chains = chain::chains(file, rpc, &policy);
    let submitters = submitter::submitters(file, &chains, &policy);
    Config {
        node,
        store,
        auth,
        lease,
        events,
        limits,
        calls,
        intake,
        writer,
        log,
        policy,
        classify,
        chains,
        submitters,
    }
}
