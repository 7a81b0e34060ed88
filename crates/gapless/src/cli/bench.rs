//! `gapless bench`: what it can do on this machine.

use std::cell::RefCell;
use std::env;
use std::time::Duration;

use clap::{Args, ValueEnum};
use gapless_bench_cluster::{ChainChoice, Custom, Options, Report, ShapeName};

use super::dev::block_time;
use super::{CliError, Exit};
use crate::output::Output;

const MAX_CALLERS: i64 = 10_000;
const MAX_SUBMITTERS: i64 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure: accepts, accept-latency, broadcast-latency, confirm-latency, one, ten, fifty, thousand, strict-one,
    /// strict-fifty, large, backlog, open, nodes, idle; may be repeated. All that is possible without it
    #[arg(long, value_name = "NAME", value_parser = shape)]
    shape: Vec<ShapeName>,
    /// A shape of your own: so many submitters
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=MAX_SUBMITTERS))]
    submitters: Option<u32>,
    /// … with so many transactions of each in flight
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=16384))]
    window: Option<u32>,
    /// … by so many nodes
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: Option<u32>,
    /// The chain to start for it
    #[arg(long, value_name = "CHAIN", value_enum, default_value_t = StartedChain::Null, conflicts_with = "rpc")]
    chain: StartedChain,
    /// An endpoint of a development node that is there (http or ws); may be repeated
    #[arg(long, value_name = "URL")]
    rpc: Vec<String>,
    /// A PostgreSQL server, by the URL of one of its databases; SQLite in a temporary folder without it. It gets databases of its
    /// own there, and drops them
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Less of everything: to see that it works, not to trust the figures
    #[arg(long)]
    quick: bool,
    /// How long what goes by time is measured
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Transactions of an end-to-end shape
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    intents: Option<u64>,
    /// Callers at once, with a connection each
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=MAX_CALLERS))]
    callers: u32,
    /// Calldata of each transaction
    #[arg(long, value_name = "BYTES", default_value_t = 68, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    calldata: u32,
    /// Leave the gas limit to the node, which estimates it
    #[arg(long)]
    estimate: bool,
    /// Time between blocks of a chain that is started: 20 ms on the null chain, 250 ms on the dev chain without it
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    block_time: Option<Duration>,
    /// How long the null chain waits with every answer in the shape `nodes`
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = block_time)]
    latency: Duration,
    /// Also run another sender on the same chain, and tell the ratio
    #[arg(long, value_name = "WITH", value_enum)]
    compare: Option<Comparison>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StartedChain {
    /// No EVM: takes every send and mines it at once
    Null,
    /// The dev chain
    Dev,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Comparison {
    /// Signs, sends and reads receipts, and keeps nothing
    Bare,
}

fn shape(name: &str) -> Result<ShapeName, String> {
    let known = || ShapeName::ALL.iter().map(|shape| shape.name()).collect::<Vec<_>>().join(", ");
    ShapeName::parse(name).ok_or_else(|| format!("known ones: {}", known()))
}

impl BenchArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let options = self.options()?;
        let progress = RefCell::new(output.progress());
        let mut report = Report::default();
        let ended = gapless_bench_cluster::run(&options, &mut report, &|text| progress.borrow_mut().say(text));
        drop(progress);
        // Minutes of measuring are not lost because somebody stopped the rest.
        if ended.is_ok() || !report.rows.is_empty() {
            output.result(&report, report.to_table())?;
        }
        ended?;
        Ok(Exit::Success)
    }

    fn options(self) -> Result<Options, CliError> {
        let custom = Custom {
            submitters: self.submitters.unwrap_or(50),
            window: self.window.unwrap_or(256),
            nodes: self.nodes.unwrap_or(1),
        };
        let wants_custom = self.submitters.is_some() || self.window.is_some() || self.nodes.is_some();
        let chain = match self.chain {
            _ if !self.rpc.is_empty() => ChainChoice::Rpc(self.rpc),
            StartedChain::Null => ChainChoice::Null,
            StartedChain::Dev => ChainChoice::Dev,
        };
        Ok(Options {
            program: env::current_exe().map_err(CliError::Runtime)?,
            chain,
            store: self.store,
            shapes: self.shape,
            custom: wants_custom.then_some(custom),
            quick: self.quick,
            seconds: self.seconds,
            intents: self.intents,
            callers: self.callers,
            calldata: self.calldata as usize,
            estimate: self.estimate,
            block_time: self.block_time,
            latency: self.latency,
            compare_bare: self.compare == Some(Comparison::Bare),
        })
    }
}
