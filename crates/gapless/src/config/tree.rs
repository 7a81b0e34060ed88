//! Settings as a tree that remembers where every value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The file that is compiled in.
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

pub(crate) type Table = BTreeMap<String, Node>;

/// It has no `Debug`: values may be secret, and only the typed reading knows which.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone)]
pub(crate) enum Value {
    Bool(bool),
    /// As it is written, without `_`: money and multipliers must not pass through a floating point number.
    Number(String),
    Text(String),
    /// What stands in an environment variable becomes what its key wants: a number, a word, a duration.
    Word(String),
    List(Vec<Node>),
    Table(Table),
    /// TOML knows dates; no setting is one.
    Date,
}

impl Node {
    /// Lays `upper` over this: tables are merged key by key, lists item by item where the upper one names positions, and
    /// everything else is replaced.
    pub(crate) fn lay_over(&mut self, upper: Node) {
        match (&mut self.value, upper.value) {
            (Value::Table(lower), Value::Table(upper)) => lay_over(lower, upper),
            (Value::List(lower), Value::Table(positions)) if are_positions(&positions) => {
                // Positions beyond the end are kept as a table when they leave a hole, so that reading can name the hole.
                let mut items: Table = std::mem::take(lower).into_iter().enumerate().map(numbered).collect();
                lay_over(&mut items, positions);
                self.value = Value::Table(items);
            }
            (_, value) => *self = Node { value, origin: upper.origin },
        }
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }
}

pub(crate) fn lay_over(lower: &mut Table, upper: Table) {
    for (key, node) in upper {
        match lower.get_mut(&key) {
            Some(below) => below.lay_over(node),
            None => {
                lower.insert(key, node);
            }
        }
    }
}

/// A table whose keys are all positions in a list, which is how the environment names the items of one.
pub(crate) fn are_positions(table: &Table) -> bool {
    !table.is_empty() && table.keys().all(|key| position(key).is_some())
}

/// `0`, `1`, …; one spelling each.
pub(crate) fn position(key: &str) -> Option<usize> {
    key.parse().ok().filter(|position: &usize| position.to_string() == key)
}

fn numbered((position, node): (usize, Node)) -> (String, Node) {
    (position.to_string(), node)
}
