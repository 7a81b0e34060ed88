//! Reads settings from the environment: `GAPLESS__LEASE__DURATION=10s` sets `lease.duration`,
//! `GAPLESS__CHAIN__0__RPC=…` sets `rpc` of the first `[[chain]]`.

use std::ffi::OsString;
use std::sync::Arc;

use super::file::{TextSource, parse_value};
use super::problem::{ConfigProblem, ProblemKind};
use super::tree::{ConfigNode, ConfigTable, Origin, Value};

pub(crate) const PREFIX: &str = "GAPLESS__";
const SEPARATOR: &str = "__";
/// Above the depth of any key.
const MAX_DEPTH: usize = 8;

/// Reads the variables with the prefix, and returns their settings and problems. Other variables are ignored.
pub(crate) fn parse(variables: impl IntoIterator<Item = (OsString, OsString)>) -> (ConfigTable, Vec<ConfigProblem>) {
    let mut ours: Vec<(String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    // After sorting, a variable that sets a whole list comes before the variables that change its items.
    ours.sort();
    let mut table = ConfigTable::new();
    let mut problems = Vec::new();
    for (name, value) in ours {
        let origin = Origin::Environment(name.as_str().into());
        let path: Vec<String> = key_of(&name);
        let refuse = |kind| ConfigProblem::new(&path.join("."), Some(origin.clone()), kind);
        let Some(value) = value.to_str() else {
            problems.push(refuse(ProblemKind::NotUtf8));
            continue;
        };
        if path.len() > MAX_DEPTH || path.iter().any(String::is_empty) {
            problems.push(refuse(ProblemKind::NoKey));
            continue;
        }
        let node = ConfigNode { value: value_of(&name, value), origin: origin.clone() };
        if let Err(kind) = insert(&mut table, &path, node) {
            problems.push(refuse(kind));
        }
    }
    (table, problems)
}

fn key_of(name: &str) -> Vec<String> {
    let key = name.strip_prefix(PREFIX).unwrap_or(name);
    key.split(SEPARATOR).map(str::to_ascii_lowercase).collect()
}

/// The value of a variable. Lists and tables are written as in the file; all other values are words without quotes.
fn value_of(name: &str, value: &str) -> Value {
    let structured = value.starts_with('[') || value.starts_with('{');
    let parsed = if structured { parse_value(value, &TextSource::Environment(Arc::from(name))) } else { None };
    parsed.unwrap_or_else(|| Value::Word(value.to_owned()))
}

fn insert(table: &mut ConfigTable, path: &[String], node: ConfigNode) -> Result<(), ProblemKind> {
    let Some((key, rest)) = path.split_first() else { return Err(ProblemKind::NoKey) };
    if rest.is_empty() {
        return match table.insert(key.clone(), node) {
            Some(other) => Err(ProblemKind::Twice { other: other.origin.to_string() }),
            None => Ok(()),
        };
    }
    let origin = node.origin.clone();
    let below =
        table.entry(key.clone()).or_insert_with(|| ConfigNode { value: Value::Table(ConfigTable::new()), origin });
    match &mut below.value {
        Value::Table(table) => insert(table, rest, node),
        // `GAPLESS__CHAIN=[…]` and `GAPLESS__CHAIN__0__RPC=…`: the second overrides an item, as it does for a list of
        // the file.
        Value::List(_) => {
            let mut upper = ConfigTable::new();
            let origin = node.origin.clone();
            insert(&mut upper, rest, node)?;
            below.merge_over(ConfigNode { value: Value::Table(upper), origin });
            Ok(())
        }
        _ => Err(ProblemKind::Twice { other: below.origin.to_string() }),
    }
}
