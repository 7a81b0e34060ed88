//! Rounds, medians and tables.

use std::time::{Duration, Instant};

use serde_json::json;

pub(crate) const ROUNDS: usize = 5;

/// The amount of work in a slice of time.
pub(crate) async fn per_second<F: Future<Output = u64>>(slice: Duration, work: impl FnOnce(Instant) -> F) -> f64 {
    let began = Instant::now();
    let done = work(began + slice).await;
    done as f64 / began.elapsed().as_secs_f64()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[derive(Default)]
pub(crate) struct ResultTable {
    lines: Vec<ResultRow>,
}

struct ResultRow {
    what: String,
    value: f64,
    unit: &'static str,
    against: Option<(String, f64)>,
    goal: Option<&'static str>,
}

impl ResultTable {
    pub(crate) fn plain(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.lines.push(ResultRow { what: what.into(), value, unit, against: None, goal: None });
    }

    /// A figure, and its ratio to another figure of the same rounds.
    pub(crate) fn ratio(
        &mut self,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        against: impl Into<String>,
        ratio: f64,
        goal: Option<&'static str>,
    ) {
        let against = Some((against.into(), ratio));
        self.lines.push(ResultRow { what: what.into(), value, unit, against, goal });
    }

    pub(crate) fn to_table(&self) -> String {
        let mut table =
            String::from("| what | measured | ratio | against | goal |\n| --- | ---: | ---: | --- | --- |\n");
        for line in &self.lines {
            let (against, ratio) = match &line.against {
                Some((against, ratio)) => (against.as_str(), format!("{ratio:.2}")),
                None => ("", String::new()),
            };
            let value = if line.value >= 100.0 { format!("{:.0}", line.value) } else { format!("{:.2}", line.value) };
            table += &format!(
                "| {} | {value} {} | {ratio} | {against} | {} |\n",
                line.what,
                line.unit,
                line.goal.unwrap_or_default()
            );
        }
        table
    }

    pub(crate) fn to_json(&self) -> String {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "what": line.what, "value": line.value, "unit": line.unit, "goal": line.goal,
                    "against": line.against.as_ref().map(|(against, _)| against),
                    "ratio": line.against.as_ref().map(|(_, ratio)| ratio),
                })
            })
            .collect();
        serde_json::to_string_pretty(&lines).unwrap()
    }
}
