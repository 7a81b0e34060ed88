//! `gapless bench`: measures Gapless on this machine.

use std::cell::RefCell;
use std::env;
use std::time::Duration;

use clap::{Args, ValueEnum};
use gapless_bench_cluster::{ChainChoice, Custom, Options, Report, ShapeName};

use super::dev::block_time;
use crate::cli::{CliError, Exit};
use crate::output::Output;

const MAX_CALLERS: i64 = 10_000;
const MAX_SUBMITTERS: i64 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Shape to measure; may be repeated. Without it, all that are possible here: accepts, accept-latency,
    /// broadcast-latency, confirm-latency, one, ten, fifty, thousand, wide-one, wide-ten, strict-one, strict-fifty,
    /// large, backlog, open, nodes, idle
    #[arg(long, value_name = "NAME", value_parser = shape)]
    shape: Vec<ShapeName>,
    /// Custom shape: number of submitters
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=MAX_SUBMITTERS))]
    submitters: Option<u32>,
    /// Custom shape: transactions in flight per submitter
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=16384))]
    window: Option<u32>,
    /// Custom shape: number of nodes
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: Option<u32>,
    /// Chain to start for the measurement
    #[arg(long, value_name = "CHAIN", value_enum, default_value_t = StartedChain::Null, conflicts_with = "rpc")]
    chain: StartedChain,
    /// Endpoint of a running development chain (http or ws) instead; may be repeated
    #[arg(long, value_name = "URL")]
    rpc: Vec<String>,
    /// URL of a database on a PostgreSQL server; without it, SQLite in a temporary folder. The benchmark creates
    /// databases of its own on that server, and drops them at the end
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Short run to see that the benchmark works; its figures are not reliable
    #[arg(long)]
    quick: bool,
    /// Duration of the shapes that run for a fixed time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Transactions of each end-to-end shape
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    intents: Option<u64>,
    /// Concurrent callers, each with its own connection
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MAX_CALLERS))]
    callers: u32,
    /// Size of the calldata of each transaction
    #[arg(long, value_name = "BYTES", default_value_t = 68, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    calldata: u32,
    /// Let the node estimate the gas limit of each transaction
    #[arg(long)]
    estimate: bool,
    /// Time between blocks of the started chain [default: 20ms on the null chain, 250ms on the dev chain]
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    block_time: Option<Duration>,
    /// Delay of every answer of the null chain in the shape `nodes`
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = block_time)]
    latency: Duration,
    /// Also measure another sender on the same chain, and print the ratio
    #[arg(long, value_name = "WITH", value_enum)]
    compare: Option<ComparedSender>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StartedChain {
    /// A chain without EVM that mines every transaction at once
    Null,
    /// The dev chain, with an EVM
    Dev,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparedSender {
    /// A sender without a ledger: signs, sends and reads receipts
    Bare,
}

fn shape(name: &str) -> Result<ShapeName, String> {
    let known = || ShapeName::ALL.iter().map(|shape| shape.name()).collect::<Vec<_>>().join(", ");
    ShapeName::parse(name).ok_or_else(|| format!("the known shapes are {}", known()))
}

impl BenchArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let options = self.options()?;
        let progress = RefCell::new(output.progress());
        let mut report = Report::default();
        let ended = gapless_bench_cluster::run(&options, &mut report, &|text| progress.borrow_mut().say(text));
        drop(progress);
        // The rows measured before an error or an interruption are still printed.
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
            compare_bare: self.compare == Some(ComparedSender::Bare),
        })
    }
}
