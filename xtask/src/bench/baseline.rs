//! The committed baseline, and the rule that says when a figure is worse.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Machines are noisy. A figure counts as worse only beyond this share of the baseline.
const RATIO_TOLERANCE: f64 = 0.25;
const CPU_TOLERANCE: f64 = 0.25;
/// Calls and statements depend on batch sizes, and batch sizes on the machine's other load.
const COUNT_TOLERANCE: f64 = 0.4;

struct Rule {
    figure: &'static str,
    more_is_better: bool,
    tolerance: f64,
}

/// The figures that are compared. All other figures depend on the machine.
const RULES: &[Rule] = &[
    Rule { figure: "of raw", more_is_better: true, tolerance: RATIO_TOLERANCE },
    Rule { figure: "of bare", more_is_better: true, tolerance: RATIO_TOLERANCE },
    Rule { figure: "accept in INSERTs p50", more_is_better: false, tolerance: RATIO_TOLERANCE },
    Rule { figure: "CPU Gapless", more_is_better: false, tolerance: CPU_TOLERANCE },
    Rule { figure: "CPU database", more_is_better: false, tolerance: CPU_TOLERANCE },
    Rule { figure: "statements", more_is_better: false, tolerance: COUNT_TOLERANCE },
    Rule { figure: "RPC calls", more_is_better: false, tolerance: COUNT_TOLERANCE },
];

/// Names one figure: store, shape, figure.
type Key = (String, String, String);

/// The medians of the measured figures.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Measured(BTreeMap<Key, f64>);

#[derive(Debug, Default, PartialEq)]
pub(super) struct Baseline(BTreeMap<Key, f64>);

#[derive(Debug)]
pub(super) struct Comparison(Vec<Line>);

#[derive(Debug)]
struct Line {
    key: Key,
    before: Option<f64>,
    now: Option<f64>,
    verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Better,
    New,
    Worse,
    /// The baseline has the figure, the new run does not.
    Missing,
}

impl Measured {
    /// Reads the rows that `gapless bench --json` prints.
    pub(super) fn of(rows: &[Value]) -> Self {
        let mut all: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
        for row in rows {
            for figure in row["figures"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let key = (text(&row["store"]), text(&row["shape"]), text(&figure["name"]));
                if let (Some(value), true) = (figure["value"].as_f64(), rule(&key).is_some()) {
                    all.entry(key).or_default().push(value);
                }
            }
        }
        Measured(all.into_iter().filter_map(|(key, values)| Some((key, median(values)?))).collect())
    }

    pub(super) fn to_json(&self) -> Value {
        let line = |((store, shape, figure), value): (&Key, &f64)| {
            // Three decimals are more than the machine can reproduce.
            json!({ "store": store, "shape": shape, "figure": figure, "value": (value * 1e3).round() / 1e3 })
        };
        self.0.iter().map(line).collect()
    }
}

impl Baseline {
    pub(super) fn parse(json: &Value) -> Result<Self> {
        let mut lines = BTreeMap::new();
        for line in json.as_array().context("the baseline is no list")? {
            let text =
                |key: &str| line[key].as_str().map(str::to_owned).with_context(|| format!("{line} has no {key}"));
            let key = (text("store")?, text("shape")?, text("figure")?);
            lines.insert(key, line["value"].as_f64().with_context(|| format!("{line} has no value"))?);
        }
        Ok(Baseline(lines))
    }

    pub(super) fn compare(&self, now: &Measured) -> Comparison {
        let keys: std::collections::BTreeSet<&Key> = self.0.keys().chain(now.0.keys()).collect();
        let line = |key: &Key| {
            let (before, now) = (self.0.get(key).copied(), now.0.get(key).copied());
            Line { key: key.clone(), before, now, verdict: judge(key, before, now) }
        };
        Comparison(keys.into_iter().map(line).collect())
    }
}

impl Comparison {
    pub(super) fn is_good(&self) -> bool {
        !self.0.iter().any(|line| matches!(line.verdict, Verdict::Worse | Verdict::Missing))
    }

    pub(super) fn table(&self) -> String {
        let mut text =
            String::from("| store | shape | figure | baseline | now | |\n| --- | --- | --- | ---: | ---: | --- |\n");
        for Line { key: (store, shape, figure), before, now, verdict } in &self.0 {
            let shown = |value: &Option<f64>| value.map_or("—".to_owned(), |value| format!("{value:.2}"));
            let word = match verdict {
                Verdict::Good => "",
                Verdict::Better => "better",
                Verdict::New => "new",
                Verdict::Worse => "**worse**",
                Verdict::Missing => "**missing**",
            };
            // Writing to a String never fails.
            let _ = writeln!(text, "| {store} | {shape} | {figure} | {} | {} | {word} |", shown(before), shown(now));
        }
        text
    }
}

fn rule(key: &Key) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.figure == key.2)
}

fn judge(key: &Key, before: Option<f64>, now: Option<f64>) -> Verdict {
    let (before, now) = match (before, now) {
        (Some(before), Some(now)) => (before, now),
        (None, _) => return Verdict::New,
        (Some(_), None) => return Verdict::Missing,
    };
    let Some(rule) = rule(key) else { return Verdict::Good };
    let (worse, better) = if rule.more_is_better { (before - now, now - before) } else { (now - before, before - now) };
    let room = before.abs() * rule.tolerance;
    match () {
        () if worse > room => Verdict::Worse,
        () if better > room => Verdict::Better,
        () => Verdict::Good,
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cpu: f64, ratio: Option<f64>) -> Value {
        json!({ "shape": "one", "store": "sqlite", "chain": "null", "figures": [
            { "name": "CPU Gapless", "value": cpu, "unit": "µs each" },
            { "name": "of bare", "value": ratio, "unit": "" },
            { "name": "confirmed", "value": 4000.0, "unit": "/s" },
        ] })
    }

    fn baseline(cpu: f64, ratio: f64) -> Baseline {
        Baseline::parse(&Measured::of(&[row(cpu, Some(ratio))]).to_json()).unwrap()
    }

    #[test]
    fn medians_of_comparable_figures_are_kept() {
        let measured = Measured::of(&[row(100.0, Some(0.5)), row(900.0, Some(0.7)), row(120.0, Some(0.6))]);
        let key = |figure: &str| ("sqlite".to_owned(), "one".to_owned(), figure.to_owned());
        let expected = [(key("CPU Gapless"), 120.0), (key("of bare"), 0.6)];
        assert_eq!(measured, Measured(expected.into_iter().collect()));
    }

    #[test]
    fn figure_worse_than_tolerance_fails() {
        let good = [(100.0, 0.5), (124.0, 0.5), (100.0, 0.38), (10.0, 5.0)];
        let bad = [(126.0, 0.5), (100.0, 0.37)];
        for (cpu, ratio) in good {
            assert!(baseline(100.0, 0.5).compare(&Measured::of(&[row(cpu, Some(ratio))])).is_good(), "{cpu} {ratio}");
        }
        for (cpu, ratio) in bad {
            let comparison = baseline(100.0, 0.5).compare(&Measured::of(&[row(cpu, Some(ratio))]));
            assert!(!comparison.is_good(), "{cpu} {ratio}");
            assert!(comparison.table().contains("**worse**"));
        }
    }

    #[test]
    fn missing_figure_fails_and_new_figure_passes() {
        let measured = Measured::of(&[row(100.0, None)]);
        assert!(!baseline(100.0, 0.5).compare(&measured).is_good());
        assert!(Baseline::default().compare(&measured).is_good());
    }

    #[test]
    fn unreadable_baseline_is_an_error() {
        for json in [json!({}), json!([{ "store": "a", "shape": "b", "figure": "c" }]), json!([{ "value": 1.0 }])] {
            assert!(Baseline::parse(&json).is_err(), "{json}");
        }
    }
}
