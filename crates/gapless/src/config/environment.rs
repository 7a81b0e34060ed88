//! Settings from the environment: `GAPLESS__LEASE__DURATION=10s` is `lease.duration`, `GAPLESS__CHAIN__0__RPC=…` is the `rpc` of
//! the first `[[chain]]`.

use std::ffi::OsString;
use std::sync::Arc;

use super::file::{Text, parse_value};
use super::problem::{Problem, ProblemKind};
use super::tree::{Node, Origin, Table, Value};

pub(crate) const PREFIX: &str = "GAPLESS__";
const SEPARATOR: &str = "__";
/// Deeper than any key.
const MAX_DEPTH: usize = 8;

/// The settings among the variables, and what is wrong with them. Names without the prefix are nobody's business.
pub(crate) fn parse(variables: impl IntoIterator<Item = (OsString, OsString)>) -> (Table, Vec<Problem>) {
    let mut ours: Vec<(String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    // A variable that sets a whole list comes before those that change its items.
    ours.sort();
    let mut table = Table::new();
    let mut problems = Vec::new();
    for (name, value) in ours {
        let origin = Origin::Environment(name.as_str().into());
        let path: Vec<String> = key_of(&name);
        let refuse = |kind| Problem::new(&path.join("."), Some(origin.clone()), kind);
        let Some(value) = value.to_str() else {
            problems.push(refuse(ProblemKind::NotUtf8));
            continue;
        };
        if path.len() > MAX_DEPTH || path.iter().any(String::is_empty) {
            problems.push(refuse(ProblemKind::NoKey));
            continue;
        }
        let node = Node { value: value_of(&name, value), origin: origin.clone() };
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

/// Lists and tables may be written as in the file. Everything else is a plain word, without quotes.
fn value_of(name: &str, value: &str) -> Value {
    let structured = value.starts_with('[') || value.starts_with('{');
    let parsed = if structured { parse_value(value, &Text::Environment(Arc::from(name))) } else { None };
    parsed.unwrap_or_else(|| Value::Word(value.to_owned()))
}

fn insert(table: &mut Table, path: &[String], node: Node) -> Result<(), ProblemKind> {
    let Some((key, rest)) = path.split_first() else { return Err(ProblemKind::NoKey) };
    if rest.is_empty() {
        return match table.insert(key.clone(), node) {
            Some(other) => Err(ProblemKind::Twice { other: other.origin.to_string() }),
            None => Ok(()),
        };
    }
    let origin = node.origin.clone();
    let below = table.entry(key.clone()).or_insert_with(|| Node { value: Value::Table(Table::new()), origin });
    match &mut below.value {
        Value::Table(table) => insert(table, rest, node),
        // `GAPLESS__CHAIN=[…]` with `GAPLESS__CHAIN__0__RPC=…`: laid over the list like over a file's.
        Value::List(_) => {
            let mut upper = Table::new();
            let origin = node.origin.clone();
            insert(&mut upper, rest, node)?;
            below.lay_over(Node { value: Value::Table(upper), origin });
            Ok(())
        }
        _ => Err(ProblemKind::Twice { other: below.origin.to_string() }),
    }
}
