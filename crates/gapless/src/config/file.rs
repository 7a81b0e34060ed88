//! Parses TOML text into a tree. A message repeats only the line number, because the line itself may hold a password.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ConfigProblem, ProblemKind};
use super::tree::{ConfigNode, ConfigTable, Origin, Value};

/// A larger file is not a config written by hand, but another file by mistake.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;

/// The source of a TOML text, which gives its values their origin.
#[derive(Clone)]
pub(crate) enum TextSource {
    Default,
    File(Arc<PathBuf>),
    Environment(Arc<str>),
}

impl TextSource {
    pub(crate) fn file(path: &Path) -> Self {
        TextSource::File(Arc::new(path.to_owned()))
    }

    fn origin(&self, line: usize) -> Origin {
        match self {
            TextSource::Default => Origin::Default,
            TextSource::File(path) => Origin::File { path: Arc::clone(path), line },
            TextSource::Environment(name) => Origin::Environment(Arc::clone(name)),
        }
    }
}

pub(crate) fn parse(text: &str, source: &TextSource) -> Result<ConfigTable, ConfigProblem> {
    let lines = LineStarts::of(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(lines.table(table.into_inner(), source)),
        Err(error) => {
            let line = error.span().map_or(1, |span| lines.at(span.start));
            Err(ConfigProblem::new(
                "",
                Some(source.origin(line)),
                ProblemKind::Syntax { message: first_line(error.message()) },
            ))
        }
    }
}

/// Parses one TOML value of an environment variable: `["a", "b"]` or `{ type = "env", var = "KEY" }`.
pub(crate) fn parse_value(text: &str, source: &TextSource) -> Option<Value> {
    let value = DeValue::parse(text).ok()?;
    Some(LineStarts::of(text).node(value, source).value)
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

/// The offsets at which the lines of a text begin.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        LineStarts(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }

    /// Consumes the parsed table while it is converted, to save memory: a file may have ten thousand submitters.
    fn table(&self, table: DeTable<'_>, source: &TextSource) -> ConfigTable {
        let entries = table.into_iter();
        entries.map(|(key, value)| (key.get_ref().to_string(), self.entry(key.span().start, value, source))).collect()
    }

    /// A node of a table. The origin of a nested table is the line of its key, because its own span may begin anywhere
    /// in its header.
    fn entry(&self, key_start: usize, value: Spanned<DeValue<'_>>, source: &TextSource) -> ConfigNode {
        let node = self.node(value, source);
        if node.is_table() { ConfigNode { origin: source.origin(self.at(key_start)), ..node } } else { node }
    }

    fn node(&self, value: Spanned<DeValue<'_>>, source: &TextSource) -> ConfigNode {
        let origin = source.origin(self.at(value.span().start));
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Number(decimal(number.as_str(), number.radix())),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(yes) => Value::Bool(yes),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(items) => Value::List(items.into_iter().map(|item| self.node(item, source)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table, source)),
        };
        ConfigNode { value, origin }
    }
}

/// Converts digits of any radix to decimal. A number that does not fit stays as it is, and the typed reading rejects
/// it.
fn decimal(digits: &str, radix: u32) -> String {
    match radix {
        10 => digits.to_owned(),
        _ => i128::from_str_radix(digits, radix).map_or_else(|_| digits.to_owned(), |number| number.to_string()),
    }
}
