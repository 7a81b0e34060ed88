//! `cargo xtask bench check`: runs a short fixed set of benchmarks and compares the figures with the
//! committed baseline.
//!
//! Only figures that a busy machine changes little are compared: ratios within one run, and CPU time, calls and
//! statements for each transaction. Each figure is the median of a few runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::baseline::{Baseline, Measured};
use super::{durable_postgres, gapless_bench};
use crate::workspace_root;

const FILE: &str = "docs/performance-baseline.json";
const RUNS: usize = 3;
const SHAPES: [&str; 4] = ["accepts", "accept-latency", "one", "fifty"];

pub(super) fn run(update: bool) -> Result<ExitCode> {
    let server = durable_postgres()?;
    let mut runs = Vec::new();
    for number in 1..=RUNS {
        for server in [None, Some(&server)] {
            println!("run {number} of {RUNS}, {} …", if server.is_some() { "PostgreSQL" } else { "SQLite" });
            runs.extend(rows(&mut gapless_bench(server))?);
        }
    }
    let measured = Measured::of(&runs);
    if update {
        let text = serde_json::to_string_pretty(&measured.to_json())? + "\n";
        fs::write(file(), text).with_context(|| format!("cannot write {FILE}"))?;
        println!("{FILE} is written; commit it together with the change that explains it");
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(file())
        .with_context(|| format!("cannot read {FILE}; `cargo xtask bench check --update` writes it"))?;
    let baseline = Baseline::parse(&serde_json::from_str(&text).with_context(|| format!("{FILE} is no JSON"))?)?;
    let comparison = baseline.compare(&measured);
    print!("{}", comparison.table());
    Ok(if comparison.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn file() -> PathBuf {
    workspace_root().join(FILE)
}

fn rows(command: &mut Command) -> Result<Vec<Value>> {
    command.args(["--json", "--compare", "bare", "--seconds", "3", "--intents", "10000"]);
    command.args(SHAPES.iter().flat_map(|shape| ["--shape", shape]));
    let output = command.stderr(Stdio::inherit()).output().context("cannot run gapless bench")?;
    ensure!(
        output.status.success(),
        "gapless bench ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).context("gapless bench gave no JSON")
}
