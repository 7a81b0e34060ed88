//! TOML text as a tree. What a message repeats of the text is only its line number: the line itself may hold a password.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, ProblemKind};
use super::tree::{Node, Origin, Table, Value};

/// Nobody writes more by hand, and whatever is larger is another file than meant.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;

/// Which origin a value on a line has.
#[derive(Clone)]
pub(crate) enum Text {
    Default,
    File(Arc<PathBuf>),
    Environment(Arc<str>),
}

impl Text {
    pub(crate) fn file(path: &Path) -> Self {
        Text::File(Arc::new(path.to_owned()))
    }

    fn origin(&self, line: usize) -> Origin {
        match self {
            Text::Default => Origin::Default,
            Text::File(path) => Origin::File { path: Arc::clone(path), line },
            Text::Environment(name) => Origin::Environment(Arc::clone(name)),
        }
    }
}

pub(crate) fn parse(text: &str, of: &Text) -> Result<Table, Problem> {
    let lines = Lines::of(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(lines.table(table.into_inner(), of)),
        Err(error) => {
            let line = error.span().map_or(1, |span| lines.at(span.start));
            Err(Problem::new("", Some(of.origin(line)), ProblemKind::Syntax { message: first_line(error.message()) }))
        }
    }
}

/// One TOML value, as an environment variable may hold it: `["a", "b"]` or `{ type = "env", var = "KEY" }`.
pub(crate) fn parse_value(text: &str, of: &Text) -> Option<Value> {
    let value = DeValue::parse(text).ok()?;
    Some(Lines::of(text).node(value, of).value)
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Lines(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }

    /// What was parsed is given up as it is taken over: a file may have ten thousand submitters.
    fn table(&self, table: DeTable<'_>, of: &Text) -> Table {
        let entries = table.into_iter();
        entries.map(|(key, value)| (key.get_ref().to_string(), self.entry(key.span().start, value, of))).collect()
    }

    /// A table's own span may begin anywhere in its header; the line of its key is what a reader looks for.
    fn entry(&self, key_start: usize, value: Spanned<DeValue<'_>>, of: &Text) -> Node {
        let node = self.node(value, of);
        if node.is_table() { Node { origin: of.origin(self.at(key_start)), ..node } } else { node }
    }

    fn node(&self, value: Spanned<DeValue<'_>>, of: &Text) -> Node {
        let origin = of.origin(self.at(value.span().start));
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Number(decimal(number.as_str(), number.radix())),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(yes) => Value::Bool(yes),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(items) => Value::List(items.into_iter().map(|item| self.node(item, of)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table, of)),
        };
        Node { value, origin }
    }
}

/// Digits of any radix in decimal; what does not fit stays as it is, and is refused by whoever wants a number.
fn decimal(digits: &str, radix: u32) -> String {
    match radix {
        10 => digits.to_owned(),
        _ => i128::from_str_radix(digits, radix).map_or_else(|_| digits.to_owned(), |number| number.to_string()),
    }
}
