//! Reading the tree: a section hands out typed values, notes where each came from, and afterwards knows which keys nobody
//! asked for. So the list of known keys is the code that reads them, and cannot be out of date.

use std::ops::RangeInclusive;

use super::problem::{Problem, ProblemKind};
use super::tree::{Node, Origin, Table, Value, are_positions, position};
use super::value::Setting;

/// One value as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) key: String,
    /// As the file would write it; secrets are hidden.
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// What reading finds out.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) shown: Vec<Shown>,
    pub(crate) problems: Vec<Problem>,
    /// Every key that was asked for, with `*` for positions; for the test that the default file documents them all.
    #[cfg(test)]
    pub(crate) asked: std::collections::BTreeSet<String>,
}

pub(crate) struct Section<'a> {
    /// Dotted, with a dot at the end; empty for the whole file.
    prefix: String,
    table: &'a Table,
    origin: Option<&'a Origin>,
    asked: Vec<&'static str>,
    /// Keys that nobody asked for are left alone.
    passed_over: bool,
    report: &'a mut Report,
}

impl<'a> Section<'a> {
    pub(crate) fn whole<T>(table: &'a Table, report: &'a mut Report, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        Section { prefix: String::new(), table, origin: None, asked: Vec::new(), passed_over: false, report }
            .read_through(read)
    }

    /// The value of a key; `base` where it is not set, or where it is wrong, which is noted.
    pub(crate) fn read<T: Setting>(&mut self, key: &'static str, base: T) -> T {
        self.find(key).unwrap_or(base)
    }

    /// The same, with a value between two others.
    pub(crate) fn read_in<T: Setting + PartialOrd>(
        &mut self,
        key: &'static str,
        base: T,
        range: RangeInclusive<T>,
    ) -> T {
        match self.find(key) {
            Some(value) if range.contains(&value) => value,
            Some(_) => {
                let (min, max) = (range.start().show(), range.end().show());
                self.refuse(key, ProblemKind::Range { min, max });
                base
            }
            None => base,
        }
    }

    /// The value of a key that may be left out.
    pub(crate) fn find<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        let node = self.ask(key)?;
        self.convert(key, node)
    }

    /// The value of a key that must be set and has no default.
    pub(crate) fn need<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        match self.ask(key) {
            Some(node) => self.convert(key, node),
            None => {
                self.refuse(key, ProblemKind::Missing);
                None
            }
        }
    }

    /// A list of values. One value alone is a list of one, so that the environment can set it.
    pub(crate) fn list<T: Setting>(&mut self, key: &'static str, limit: usize) -> Vec<T> {
        let Some(node) = self.ask(key) else { return Vec::new() };
        let items = match &node.value {
            Value::List(items) => items.iter().collect(),
            Value::Table(table) if are_positions(table) => self.items(key, table),
            _ => return self.convert(key, node).into_iter().collect(),
        };
        if items.len() > limit {
            self.refuse(key, ProblemKind::TooMany { limit });
            return Vec::new();
        }
        let mut values = Vec::new();
        for (at, item) in items.into_iter().enumerate() {
            let name = format!("{}{key}.{at}", self.prefix);
            match T::try_read(&item.value) {
                Ok(value) => {
                    self.report.shown.push(Shown { key: name, value: value.show(), origin: item.origin.clone() });
                    values.push(value);
                }
                Err(kind) => self.report.problems.push(Problem::new(&name, Some(item.origin.clone()), kind)),
            }
        }
        values
    }

    /// A table within this one; an empty one if it is not there.
    pub(crate) fn within<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        const NOTHING: &Table = &Table::new();
        let node = self.ask(key);
        let table = match node.map(|node| &node.value) {
            None => NOTHING,
            Some(Value::Table(table)) => table,
            Some(_) => {
                self.refuse(key, ProblemKind::Wanted { wanted: "a table".to_owned() });
                NOTHING
            }
        };
        self.open(format!("{}{key}.", self.prefix), table, node.map(|node| &node.origin), read)
    }

    /// The tables of a list, one after the other.
    pub(crate) fn each<T>(
        &mut self,
        key: &'static str,
        limit: usize,
        mut read: impl FnMut(&mut Section<'_>) -> T,
    ) -> Vec<T> {
        let Some(node) = self.ask(key) else { return Vec::new() };
        let items: Vec<&Node> = match &node.value {
            Value::List(items) => items.iter().collect(),
            Value::Table(table) if are_positions(table) => self.items(key, table),
            _ => {
                self.refuse(key, ProblemKind::Wanted { wanted: format!("a list of tables, [[{key}]]") });
                return Vec::new();
            }
        };
        if items.len() > limit {
            self.refuse(key, ProblemKind::TooMany { limit });
            return Vec::new();
        }
        let mut values = Vec::new();
        for (at, item) in items.into_iter().enumerate() {
            let prefix = format!("{}{key}.{at}.", self.prefix);
            match &item.value {
                Value::Table(table) => values.push(self.open(prefix, table, Some(&item.origin), &mut read)),
                _ => {
                    let kind = ProblemKind::Wanted { wanted: "a table".to_owned() };
                    let key = prefix.trim_end_matches('.');
                    self.report.problems.push(Problem::new(key, Some(item.origin.clone()), kind));
                }
            }
        }
        values
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What is in here besides is not looked at: something else is wrong that makes it meaningless.
    pub(crate) fn pass_over(&mut self) {
        self.passed_over = true;
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(crate) fn has_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(Node::is_table)
    }

    /// Whether the table under `key` has `inner`.
    pub(crate) fn has_within(&self, key: &str, inner: &str) -> bool {
        matches!(self.table.get(key).map(|node| &node.value), Some(Value::Table(table)) if table.contains_key(inner))
    }

    /// Notes that the value of a key cannot stay; an empty key is this section as a whole.
    pub(crate) fn refuse(&mut self, key: &str, kind: ProblemKind) {
        let origin = self.table.get(key).map(|node| &node.origin).or(self.origin).cloned();
        let name = format!("{}{key}", self.prefix);
        self.report.problems.push(Problem::new(name.trim_end_matches('.'), origin, kind));
    }

    fn ask(&mut self, key: &'static str) -> Option<&'a Node> {
        self.asked.push(key);
        #[cfg(test)]
        self.report.asked.insert(super::tests::without_positions(&format!("{}{key}", self.prefix)));
        self.table.get(key)
    }

    fn convert<T: Setting>(&mut self, key: &'static str, node: &Node) -> Option<T> {
        match T::try_read(&node.value) {
            Ok(value) => {
                let key = format!("{}{key}", self.prefix);
                self.report.shown.push(Shown { key, value: value.show(), origin: node.origin.clone() });
                Some(value)
            }
            Err(kind) => {
                self.refuse(key, kind);
                None
            }
        }
    }

    /// The items of a list that the environment names by position. The one after a hole is refused, not moved.
    fn items(&mut self, key: &'static str, table: &'a Table) -> Vec<&'a Node> {
        let mut items: Vec<(usize, &Node)> =
            table.iter().filter_map(|(key, node)| Some((position(key)?, node))).collect();
        items.sort_by_key(|(position, _)| *position);
        if let Some((hole, (_, node))) = items.iter().enumerate().find(|(expected, (found, _))| expected != found) {
            let name = format!("{}{key}", self.prefix);
            self.report.problems.push(Problem::new(&name, Some(node.origin.clone()), ProblemKind::Hole { hole }));
        }
        items.into_iter().map(|(_, node)| node).collect()
    }

    fn open<'b, T>(
        &'b mut self,
        prefix: String,
        table: &'b Table,
        origin: Option<&'b Origin>,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        Section { prefix, table, origin, asked: Vec::new(), passed_over: false, report: &mut *self.report }
            .read_through(read)
    }

    /// Reads, and then tells which keys nobody asked for.
    fn read_through<T>(mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let value = read(&mut self);
        for (key, node) in self.table {
            if !self.passed_over && !self.asked.contains(&key.as_str()) {
                let name = format!("{}{key}", self.prefix);
                let kind = ProblemKind::UnknownKey { nearest: nearest(&self.prefix, key, &self.asked) };
                self.report.problems.push(Problem::new(&name, Some(node.origin.clone()), kind));
            }
        }
        value
    }
}

/// The known key that looks most like an unknown one.
fn nearest(prefix: &str, key: &str, known: &[&'static str]) -> String {
    let distance = |candidate: &&&str| strsim::damerau_levenshtein(key, candidate);
    let name = known.iter().min_by_key(distance).copied().unwrap_or_default();
    format!("{prefix}{name}")
}

/// A setting that is one of a few words.
macro_rules! words {
    ($type:ty { $($value:expr => $word:literal),+ $(,)? }) => {
        impl $crate::config::value::Setting for $type {
            fn wanted() -> String {
                [$(concat!("\"", $word, "\"")),+].join(" or ")
            }

            fn read(value: &$crate::config::tree::Value) -> Option<Self> {
                match $crate::config::value::text_of(value)? {
                    $($word => Some($value),)+
                    _ => None,
                }
            }

            fn show(&self) -> String {
                let words = [$(($value, $word)),+];
                let word = words.iter().find(|(value, _)| value == self).map_or("", |(_, word)| word);
                format!("{word:?}")
            }
        }
    };
}

pub(crate) use words;
