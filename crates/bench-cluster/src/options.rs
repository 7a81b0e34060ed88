//! What is asked for.

use std::path::PathBuf;
use std::time::Duration;

use crate::LoadError;
use crate::database::Database;
use crate::rpc::RpcAddress;
use crate::shape::ShapeName;

/// The chain to measure on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainChoice {
    /// Takes every send and mines it at once: what is measured is Gapless alone.
    Null,
    /// The dev chain, with an EVM.
    Dev,
    /// Endpoints of a node that is there.
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

/// A shape of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Custom {
    pub submitters: u32,
    pub window: u32,
    pub nodes: u32,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The executable that nodes and chains are started from.
    pub program: PathBuf,
    pub chain: ChainChoice,
    /// A PostgreSQL server, by the URL of one of its databases; SQLite without it.
    pub store: Option<String>,
    /// In this order; all that are possible if there is none.
    pub shapes: Vec<ShapeName>,
    pub custom: Option<Custom>,
    /// Less of everything: to see that it works, not to trust the figures.
    pub quick: bool,
    /// How long what goes by time is measured.
    pub seconds: Option<u64>,
    /// How many intents an end-to-end shape has.
    pub intents: Option<u64>,
    pub callers: u32,
    /// Bytes of calldata, where the shape does not say otherwise.
    pub calldata: usize,
    /// Leave the gas limit to the node.
    pub estimate: bool,
    pub block_time: Option<Duration>,
    /// Of the null chain, where nodes are compared with each other.
    pub latency: Duration,
    /// Run the bare sender as well.
    pub compare_bare: bool,
}

impl Options {
    /// What would fail in any case is told before anything is started.
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

    /// How many intents are enough for a figure on this chain.
    pub(crate) fn intents(&self) -> u64 {
        let usual = match self.chain {
            ChainChoice::Null => 20_000,
            ChainChoice::Rpc(_) => 10_000,
            ChainChoice::Dev => 4_000,
        };
        self.intents.unwrap_or(if self.quick { usual / 20 } else { usual })
    }

    /// A slice of time.
    pub(crate) fn slice(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 1 } else { 5 }))
    }

    /// How many are timed where one is handed in at a time.
    pub(crate) fn single_samples(&self) -> u64 {
        if self.quick { 20 } else { 300 }
    }
}
