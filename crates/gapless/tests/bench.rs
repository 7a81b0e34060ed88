//! `gapless bench` on the null chain: every shape is measured, and no process or folder is left behind.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{FAILURE, REFUSED, SUCCESS, TempFolder, command, run, run_with};

const INTENTS: f64 = 400.0;
/// Figures that SQLite does not have, and figures that need another shape to compare with.
const MAY_BE_UNKNOWN: [&str; 8] = [
    "CPU database",
    "statements",
    "raw group commit of the same rows",
    "of raw",
    "one plain INSERT p50",
    "accept in INSERTs p50",
    "request → broadcast in INSERTs p50",
    "of no backlog",
];

fn figure<'a>(row: &'a Value, name: &str) -> &'a Value {
    let figures = row["figures"].as_array().unwrap();
    &figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name} in {row}"))["value"]
}

fn number(row: &Value, name: &str) -> f64 {
    figure(row, name).as_f64().unwrap_or_else(|| panic!("{name} is not known in {row}"))
}

#[test]
fn every_shape_is_measured_and_all_intents_are_confirmed() {
    let folder = TempFolder::new();
    let tmp = folder.path().to_str().unwrap().to_owned();
    let arguments = ["bench", "--quick", "--json", "--intents", "400", "--callers", "32", "--compare", "bare"];
    let output = run_with(&folder, &arguments, &[("TMPDIR", &tmp)]);
    assert_eq!(output.code, SUCCESS, "{output:#?}");
    let rows = output.json();
    let rows = rows.as_array().unwrap();
    let shapes: Vec<&str> = rows.iter().map(|row| row["shape"].as_str().unwrap()).collect();
    let expected = [
        "accepts",
        "accept-latency",
        "broadcast-latency",
        "confirm-latency",
        "one",
        "ten",
        "fifty",
        "thousand",
        "wide-one",
        "wide-ten",
        "busy-ten",
        "strict-one",
        "strict-fifty",
        "large",
        "no backlog",
        "2000 queued",
        "few open",
        "up to 1000 open",
        "idle",
    ];
    assert_eq!(shapes, expected);
    for row in rows {
        assert_eq!((&row["chain"], &row["store"]), (&Value::from("null"), &Value::from("sqlite")));
        for figure in row["figures"].as_array().unwrap() {
            let (name, value) = (figure["name"].as_str().unwrap(), &figure["value"]);
            assert!(value.as_f64().is_some_and(|value| value >= 0.0) || may_be_unknown(row, name), "{name} in {row}");
            assert!(figure["unit"].is_string());
        }
    }
    for (shape, asked) in
        [("one", INTENTS), ("fifty", INTENTS), ("thousand", INTENTS), ("strict-fifty", INTENTS / 10.0)]
    {
        let row = rows.iter().find(|row| row["shape"] == shape).unwrap();
        assert_eq!(number(row, "confirmed in all"), asked, "{shape}");
        assert!(number(row, "confirmed") > 0.0 && number(row, "of bare") > 0.0, "{shape}");
    }
    assert!(number(&rows[0], "accepts") > 10.0);
    let times: Vec<f64> = ["p50", "p95", "p99"].map(|p| number(&rows[3], &format!("request → CONFIRMED {p}"))).to_vec();
    assert!(times[0] > 0.0 && times.is_sorted(), "{times:?}");
    assert_eq!(leftovers(&folder), Vec::<String>::new());
}

/// True if a figure may be missing: its shape takes longer than the run, or the figure only compares.
fn may_be_unknown(row: &Value, name: &str) -> bool {
    let is_long = ["2000 queued", "up to 1000 open"].iter().any(|shape| row["shape"] == *shape);
    MAY_BE_UNKNOWN.contains(&name) || name == "of few open" || (is_long && name.starts_with("request → CONFIRMED"))
}

fn leftovers(folder: &TempFolder) -> Vec<String> {
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("gapless-bench-")).collect()
}

#[test]
fn interrupted_bench_leaves_nothing_behind() {
    let folder = TempFolder::new();
    let tmp = folder.path().to_str().unwrap().to_owned();
    let mut bench = command(&folder, &["bench", "--shape", "one", "--intents", "1000000"], &[("TMPDIR", &tmp)]);
    let mut bench = bench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("of 1000000 confirmed")));
    assert!(line.is_some(), "the benchmark printed no progress");
    assert_eq!(leftovers(&folder).len(), 1);
    let interrupted = Command::new("kill").args(["-INT", &bench.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(bench.wait().unwrap().code(), Some(FAILURE));
    assert_eq!(leftovers(&folder), Vec::<String>::new());
    assert_eq!(processes_of(&folder), Vec::<String>::new());
}

/// Command lines that name the folder.
fn processes_of(folder: &TempFolder) -> Vec<String> {
    let files = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
    let lines = files.filter_map(|file| fs::read_to_string(file).ok()).map(|line| line.replace('\0', " "));
    lines.filter(|line| line.contains(folder.path().to_str().unwrap())).collect()
}

#[test]
fn impossible_bench_ends_with_an_error() {
    let folder = TempFolder::new();
    for (arguments, code, word) in [
        (&["bench", "--rpc", "https://node.example"][..], REFUSED, "no URL of an endpoint"),
        (&["bench", "--shape", "nodes"], REFUSED, "needs PostgreSQL"),
        (&["bench", "--shape", "one", "--rpc", "http://127.0.0.1:1"], FAILURE, "the chain"),
        (&["bench", "--shape", "one", "--store", "sqlite:file.db"], REFUSED, "no URL of a PostgreSQL server"),
        (&["bench", "--shape", "one", "--store", "postgres://127.0.0.1:1/none"], FAILURE, "the database"),
    ] {
        let output = run(&folder, arguments);
        assert_eq!(output.code, code, "{arguments:?} {output:#?}");
        assert!(output.err.contains(word), "{arguments:?} {output:#?}");
    }
}
