//! The options of a benchmark run.

use std::path::PathBuf;
use std::time::Duration;

use crate::LoadError;
use crate::database::Database;
use crate::rpc::RpcAddress;
use crate::shape::ShapeName;

/// The chain to measure on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainChoice {
    /// The null chain: it mines every send at once, so Gapless alone is measured.
    Null,
    /// The dev chain, with an EVM.
    Dev,
    /// Endpoints of an existing chain node.
    Rpc(Vec<String>),
}

impl ChainChoice {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            ChainChoice::Null => "null",
            ChainChoice::Dev => "dev",
            ChainChoice::Rpc(_) => "rpc",
        }
    }
}

/// A shape given by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Custom {
    pub submitters: u32,
    pub window: u32,
    pub nodes: u32,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The executable of nodes and chains.
    pub program: PathBuf,
    pub chain: ChainChoice,
    /// URL of a database on a PostgreSQL server; SQLite if absent.
    pub store: Option<String>,
    /// The shapes in this order; all possible ones if empty.
    pub shapes: Vec<ShapeName>,
    pub custom: Option<Custom>,
    /// A short run that only checks that the benchmark works.
    pub quick: bool,
    /// Duration of measurements that run for a time.
    pub seconds: Option<u64>,
    /// Number of intents of an end-to-end shape.
    pub intents: Option<u64>,
    pub callers: u32,
    /// Bytes of calldata, unless the shape sets them.
    pub calldata: usize,
    /// Leave the gas limit to the node.
    pub estimate: bool,
    pub block_time: Option<Duration>,
    /// Latency of the null chain where nodes are compared with each other.
    pub latency: Duration,
    /// Run the bare sender as well.
    pub compare_bare: bool,
}

impl Options {
    /// Checks the options before any process is started.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        if let ChainChoice::Rpc(urls) = &self.chain {
            urls.iter().try_for_each(|url| RpcAddress::parse(url).map(|_| ()))?;
        }
        if let Some(store) = &self.store {
            return Database::check_url(store);
        }
        let nodes = self.custom.map_or(1, |custom| custom.nodes);
        if nodes > 1 || self.shapes.contains(&ShapeName::Nodes) {
            return Err(LoadError::NeedsPostgres("more than one node"));
        }
        Ok(())
    }

    pub(crate) fn block_time(&self) -> Duration {
        let usual = match self.chain {
            ChainChoice::Null => Duration::from_millis(20),
            ChainChoice::Dev | ChainChoice::Rpc(_) => Duration::from_millis(250),
        };
        self.block_time.unwrap_or(usual)
    }

    pub(crate) fn store_name(&self) -> &'static str {
        if self.store.is_some() { "postgres" } else { "sqlite" }
    }

    /// Number of intents that are enough for a figure on this chain.
    pub(crate) fn intents(&self) -> u64 {
        let usual = match self.chain {
            ChainChoice::Null => 20_000,
            ChainChoice::Rpc(_) => 10_000,
            ChainChoice::Dev => 4_000,
        };
        self.intents.unwrap_or(if self.quick { usual / 20 } else { usual })
    }

    /// Duration of one slice.
    pub(crate) fn slice(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 1 } else { 5 }))
    }

    /// Number of latencies that are measured one at a time.
    pub(crate) fn single_samples(&self) -> u64 {
        if self.quick { 20 } else { 300 }
    }
}
