//! Reads the tree. A section returns typed values, records the origin of each, and at the end reports the keys that
//! were not read. So the list of known keys is the code that reads them, and is never out of date.

use std::ops::RangeInclusive;

use super::problem::{ConfigProblem, ProblemKind};
use super::tree::{ConfigNode, ConfigTable, Origin, Value, are_positions, position};
use super::value::Setting;

/// One effective setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EffectiveSetting {
    pub(crate) key: String,
    /// The value in the syntax of the file, with secrets hidden.
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// The settings and problems that were found while the config was read.
#[derive(Default)]
pub(crate) struct ConfigReport {
    pub(crate) settings: Vec<EffectiveSetting>,
    pub(crate) problems: Vec<ConfigProblem>,
    /// Every key that was read, with `*` for positions, for the test that the default file documents all keys.
    #[cfg(test)]
    pub(crate) read_keys: std::collections::BTreeSet<String>,
}

pub(crate) struct Section<'a> {
    /// Dotted path with a dot at the end; empty for the whole file.
    prefix: String,
    table: &'a ConfigTable,
    origin: Option<&'a Origin>,
    read_keys: Vec<&'static str>,
    /// True if keys that are not read are no problem.
    ignores_unknown_keys: bool,
    report: &'a mut ConfigReport,
}

impl<'a> Section<'a> {
    pub(crate) fn whole<T>(
        table: &'a ConfigTable,
        report: &'a mut ConfigReport,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        Section {
            prefix: String::new(),
            table,
            origin: None,
            read_keys: Vec::new(),
            ignores_unknown_keys: false,
            report,
        }
        .read_all(read)
    }

    /// The value of a key, or `base` if it is not set. An invalid value is reported, and `base` is returned.
    pub(crate) fn read<T: Setting>(&mut self, key: &'static str, base: T) -> T {
        self.find(key).unwrap_or(base)
    }

    /// The value of a key within a range, or `base` as for [`Section::read`].
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

    /// The value of an optional key.
    pub(crate) fn find<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        let node = self.node(key)?;
        self.convert(key, node)
    }

    /// The value of a required key, which has no default.
    pub(crate) fn need<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        match self.node(key) {
            Some(node) => self.convert(key, node),
            None => {
                self.refuse(key, ProblemKind::Missing);
                None
            }
        }
    }

    /// A list of values. A single value is a list of one item, so that the environment can set it.
    pub(crate) fn list<T: Setting>(&mut self, key: &'static str, limit: usize) -> Vec<T> {
        let Some(node) = self.node(key) else { return Vec::new() };
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
                    self.report.settings.push(EffectiveSetting {
                        key: name,
                        value: value.show(),
                        origin: item.origin.clone(),
                    });
                    values.push(value);
                }
                Err(kind) => self.report.problems.push(ConfigProblem::new(&name, Some(item.origin.clone()), kind)),
            }
        }
        values
    }

    /// Reads a table within this section. A missing table is read as an empty one.
    pub(crate) fn within<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        const EMPTY: &ConfigTable = &ConfigTable::new();
        let node = self.node(key);
        let table = match node.map(|node| &node.value) {
            None => EMPTY,
            Some(Value::Table(table)) => table,
            Some(_) => {
                self.refuse(key, ProblemKind::Wanted { wanted: "a table".to_owned() });
                EMPTY
            }
        };
        self.open(format!("{}{key}.", self.prefix), table, node.map(|node| &node.origin), read)
    }

    /// Reads the tables of a list, one after the other.
    pub(crate) fn each<T>(
        &mut self,
        key: &'static str,
        limit: usize,
        mut read: impl FnMut(&mut Section<'_>) -> T,
    ) -> Vec<T> {
        let Some(node) = self.node(key) else { return Vec::new() };
        let items: Vec<&ConfigNode> = match &node.value {
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
                    self.report.problems.push(ConfigProblem::new(key, Some(item.origin.clone()), kind));
                }
            }
        }
        values
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Reports no unknown keys in this section, because another problem decides which keys are known.
    pub(crate) fn ignore_unknown_keys(&mut self) {
        self.ignores_unknown_keys = true;
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(crate) fn has_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(ConfigNode::is_table)
    }

    /// True if the table under `key` has the key `inner`.
    pub(crate) fn has_within(&self, key: &str, inner: &str) -> bool {
        matches!(self.table.get(key).map(|node| &node.value), Some(Value::Table(table)) if table.contains_key(inner))
    }

    /// Reports a problem with the value of a key. An empty key stands for this section as a whole.
    pub(crate) fn refuse(&mut self, key: &str, kind: ProblemKind) {
        let origin = self.table.get(key).map(|node| &node.origin).or(self.origin).cloned();
        let name = format!("{}{key}", self.prefix);
        self.report.problems.push(ConfigProblem::new(name.trim_end_matches('.'), origin, kind));
    }

    fn node(&mut self, key: &'static str) -> Option<&'a ConfigNode> {
        self.read_keys.push(key);
        #[cfg(test)]
        self.report.read_keys.insert(super::tests::without_positions(&format!("{}{key}", self.prefix)));
        self.table.get(key)
    }

    fn convert<T: Setting>(&mut self, key: &'static str, node: &ConfigNode) -> Option<T> {
        match T::try_read(&node.value) {
            Ok(value) => {
                let key = format!("{}{key}", self.prefix);
                self.report.settings.push(EffectiveSetting { key, value: value.show(), origin: node.origin.clone() });
                Some(value)
            }
            Err(kind) => {
                self.refuse(key, kind);
                None
            }
        }
    }

    /// The items of a list that the environment names by position. An item after a missing position is a problem; it is
    /// not moved.
    fn items(&mut self, key: &'static str, table: &'a ConfigTable) -> Vec<&'a ConfigNode> {
        let mut items: Vec<(usize, &ConfigNode)> =
            table.iter().filter_map(|(key, node)| Some((position(key)?, node))).collect();
        items.sort_by_key(|(position, _)| *position);
        if let Some((hole, (_, node))) = items.iter().enumerate().find(|(expected, (found, _))| expected != found) {
            let name = format!("{}{key}", self.prefix);
            self.report.problems.push(ConfigProblem::new(&name, Some(node.origin.clone()), ProblemKind::Hole { hole }));
        }
        items.into_iter().map(|(_, node)| node).collect()
    }

    fn open<'b, T>(
        &'b mut self,
        prefix: String,
        table: &'b ConfigTable,
        origin: Option<&'b Origin>,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let report = &mut *self.report;
        Section { prefix, table, origin, read_keys: Vec::new(), ignores_unknown_keys: false, report }.read_all(read)
    }

    /// Reads the section, and then reports the keys that were not read.
    fn read_all<T>(mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let value = read(&mut self);
        for (key, node) in self.table {
            if !self.ignores_unknown_keys && !self.read_keys.contains(&key.as_str()) {
                let name = format!("{}{key}", self.prefix);
                let kind = ProblemKind::UnknownKey { nearest: nearest(&self.prefix, key, &self.read_keys) };
                self.report.problems.push(ConfigProblem::new(&name, Some(node.origin.clone()), kind));
            }
        }
        value
    }
}

/// The known key that is most similar to an unknown key.
fn nearest(prefix: &str, key: &str, known: &[&'static str]) -> String {
    let distance = |candidate: &&&str| strsim::damerau_levenshtein(key, candidate);
    let name = known.iter().min_by_key(distance).copied().unwrap_or_default();
    format!("{prefix}{name}")
}

/// Implements `Setting` for an enum whose values are words.
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
