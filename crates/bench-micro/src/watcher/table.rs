//! The result table with its growth ratios.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::Kind;

pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) open: usize,
    pub(crate) blocks: usize,
    pub(crate) by_method: BTreeMap<String, u64>,
    pub(crate) cpu: Duration,
    /// Number of blocks that the watcher had not read at the end.
    pub(crate) behind: u64,
}

impl Row {
    fn per_block(&self, count: u64) -> f64 {
        count as f64 / self.blocks as f64
    }

    fn calls(&self) -> f64 {
        self.per_block(self.by_method.values().sum())
    }

    fn cpu_ms(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e3 / self.blocks as f64
    }
}

/// Rows of one kind are adjacent, and the first of them is the reference of the others.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    fn compared(&self) -> impl Iterator<Item = (&Row, f64, f64)> {
        self.rows.iter().filter_map(|row| {
            let first = self.rows.iter().find(|first| first.kind == row.kind)?;
            Some((row, row.calls() / first.calls(), row.cpu_ms() / first.cpu_ms()))
        })
    }

    pub(crate) fn to_table(&self) -> String {
        let mut text = String::from(
            "| transactions | open | blocks | calls per block | ratio | CPU ms per block | ratio | behind | \
             calls per block by method |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
        );
        for (row, calls, cpu) in self.compared() {
            let used = row.by_method.iter().filter(|(_, count)| **count > 0);
            let methods: Vec<_> =
                used.map(|(method, count)| format!("{method} {:.2}", row.per_block(*count))).collect();
            text += &format!(
                "| {} | {} | {} | {:.2} | {calls:.2} | {:.2} | {cpu:.2} | {} | {} |\n",
                row.kind.name(),
                row.open,
                row.blocks,
                row.calls(),
                row.cpu_ms(),
                row.behind,
                methods.join(", ")
            );
        }
        text
    }

    pub(crate) fn to_json(&self) -> String {
        let rows: Vec<_> = self
            .compared()
            .map(|(row, calls, cpu)| {
                json!({
                    "transactions": row.kind.name(), "open": row.open, "blocks": row.blocks, "behind": row.behind,
                    "calls_per_block": row.calls(), "calls_ratio": calls,
                    "cpu_ms_per_block": row.cpu_ms(), "cpu_ratio": cpu,
                    "calls": row.by_method,
                })
            })
            .collect();
        serde_json::to_string_pretty(&rows).unwrap()
    }
}
