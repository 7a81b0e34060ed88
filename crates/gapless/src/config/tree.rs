//! The tree of settings, with the origin of every value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The place where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The compiled-in file.
    Default,
    File {
        path: Arc<PathBuf>,
        line: usize,
    },
    Environment(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => f.write_str(name),
        }
    }
}

pub(crate) type ConfigTable = BTreeMap<String, ConfigNode>;

/// One value of the tree. There is no `Debug`, because a value may be a secret, and only the typed reading knows which.
#[derive(Clone)]
pub(crate) struct ConfigNode {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone)]
pub(crate) enum Value {
    Bool(bool),
    /// The written digits without `_`, because amounts and factors must not pass through a floating point number.
    Number(String),
    Text(String),
    /// The text of an environment variable, which the typed reading takes as a number, a word or a duration.
    Word(String),
    List(Vec<ConfigNode>),
    Table(ConfigTable),
    /// A TOML date. No setting is a date.
    Date,
}

impl ConfigNode {
    /// Overrides this node with `upper`: tables are merged key by key, lists item by item if `upper` names positions,
    /// and all other values are replaced.
    pub(crate) fn merge_over(&mut self, upper: ConfigNode) {
        match (&mut self.value, upper.value) {
            (Value::Table(lower), Value::Table(upper)) => merge_over(lower, upper),
            (Value::List(lower), Value::Table(positions)) if are_positions(&positions) => {
                // The merged list stays a table of positions, so that the reading can report a missing position.
                let mut items: ConfigTable = std::mem::take(lower).into_iter().enumerate().map(numbered).collect();
                merge_over(&mut items, positions);
                self.value = Value::Table(items);
            }
            (_, value) => *self = ConfigNode { value, origin: upper.origin },
        }
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }
}

pub(crate) fn merge_over(lower: &mut ConfigTable, upper: ConfigTable) {
    for (key, node) in upper {
        match lower.get_mut(&key) {
            Some(below) => below.merge_over(node),
            None => {
                lower.insert(key, node);
            }
        }
    }
}

/// True if all keys of a table are positions in a list. The environment names list items so.
pub(crate) fn are_positions(table: &ConfigTable) -> bool {
    !table.is_empty() && table.keys().all(|key| position(key).is_some())
}

/// Parses a position: `0`, `1`, …, without leading zeros.
pub(crate) fn position(key: &str) -> Option<usize> {
    key.parse().ok().filter(|position: &usize| position.to_string() == key)
}

fn numbered((position, node): (usize, ConfigNode)) -> (String, ConfigNode) {
    (position.to_string(), node)
}
