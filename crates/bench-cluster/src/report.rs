//! The result: one row per measurement, as JSON or as a table.

use serde::Serialize;

use crate::percentiles::Percentiles;

const UNKNOWN: &str = "—";

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub shape: String,
    pub chain: &'static str,
    pub store: &'static str,
    pub figures: Vec<Figure>,
}

/// A figure. A figure that was not measured has no value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub name: String,
    pub value: Option<f64>,
    pub unit: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Row {
    pub(crate) fn plain(&mut self, name: impl Into<String>, value: Option<f64>, unit: &'static str) {
        let value = value.filter(|value| value.is_finite());
        self.figures.push(Figure { name: name.into(), value, unit });
    }

    pub(crate) fn times(&mut self, name: &str, times: Option<Percentiles>) {
        self.plain(format!("{name} p50"), times.map(|times| times.p50_ms), "ms");
        self.plain(format!("{name} p95"), times.map(|times| times.p95_ms), "ms");
        self.plain(format!("{name} p99"), times.map(|times| times.p99_ms), "ms");
    }

    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name)?.value
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        self.figures.iter().map(|figure| (figure.name.as_str(), figure.unit)).collect()
    }
}

impl Report {
    /// Formats rows with the same figures as one table.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let mut rest: Vec<&Row> = self.rows.iter().collect();
        while let Some(first) = rest.first() {
            let labels = first.labels();
            let (alike, others): (Vec<&Row>, Vec<&Row>) = rest.iter().copied().partition(|row| row.labels() == labels);
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&table(&labels, &alike));
            rest = others;
        }
        text
    }
}

fn table(labels: &[(&str, &str)], rows: &[&Row]) -> String {
    let head = rows.first().map_or(String::new(), |row| format!("{} chain, {}", row.chain, row.store));
    let mut lines = vec![std::iter::once(head).chain(rows.iter().map(|row| row.shape.clone())).collect::<Vec<_>>()];
    for (index, (name, unit)) in labels.iter().enumerate() {
        let label = if unit.is_empty() { (*name).to_owned() } else { format!("{name}, {unit}") };
        let cell = |row: &&Row| shown(row.figures.get(index).and_then(|figure| figure.value));
        lines.push(std::iter::once(label).chain(rows.iter().map(cell)).collect());
    }
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..=rows.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names are aligned left, figures right.
            text.push_str(&if column == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") });
        }
        text.push('\n');
    }
    text
}

/// Formats a value with three or four digits, as precise as the measurement.
fn shown(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value.abs() >= 1000.0 => thousands(value),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(shape: &str, figures: &[(&str, Option<f64>)]) -> Row {
        let mut row = Row { shape: shape.to_owned(), chain: "null", store: "sqlite", figures: Vec::new() };
        figures.iter().for_each(|(name, value)| row.plain(*name, *value, "/s"));
        row
    }

    #[test]
    fn rows_with_equal_figures_share_table() {
        let rows = vec![
            row("one", &[("confirmed", Some(1234.5))]),
            row("idle", &[("cpu", Some(f64::NAN))]),
            row("fifty", &[("confirmed", None)]),
        ];
        let text = Report { rows }.to_table();
        assert_eq!(
            text,
            "null chain, sqlite    one  fifty\n\
             confirmed, /s       1,234      —\n\n\
             null chain, sqlite  idle\n\
             cpu, /s                —\n"
        );
    }

    #[test]
    fn figures_have_three_or_four_digits() {
        let texts = [
            (0.0, "0.00"),
            (9.876, "9.88"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_234_567.0, "1,234,567"),
            (-1000.0, "-1,000"),
        ];
        for (value, text) in texts {
            assert_eq!(shown(Some(value)), text);
        }
    }
}
