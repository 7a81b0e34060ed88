//! One measurement's setup: a chain, a database and nodes, all new, and removed at the end.

use std::path::PathBuf;
use std::time::Duration;

use crate::account::Account;
use crate::chain::Chain;
use crate::database::Database;
use crate::folder::Folder;
use crate::http::Connection;
use crate::measure::Bench;
use crate::metrics::Counts;
use crate::node::{Node, NodePlan};
use crate::options::Options;
use crate::{LoadError, accounting};

/// Settings of a setup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) submitters: u32,
    pub(crate) window: u32,
    pub(crate) nodes: u32,
    /// Number of blocks that make a transaction final.
    pub(crate) confirmations: u32,
    /// Delay of the null chain before every answer.
    pub(crate) latency: Duration,
}

/// Field order: nodes end before the chain and the database, and all of them before the folder.
#[derive(Debug)]
pub(crate) struct BenchSetup {
    nodes: Vec<Node>,
    pub(crate) chain: Chain,
    pub(crate) accounts: Vec<Account>,
    pub(crate) database: Option<Database>,
    folder: Folder,
}

/// Resource usage of the processes so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) nodes: Duration,
    pub(crate) database: Option<Duration>,
    pub(crate) chain: Option<Duration>,
    pub(crate) driver: Duration,
    /// Sum of the nodes' counters.
    pub(crate) memory: u64,
}

impl BenchSetup {
    pub(crate) async fn set(bench: &Bench<'_>, setting: &Setting) -> Result<Self, LoadError> {
        let options = bench.options;
        let folder = Folder::new()?;
        let chain = Chain::start(options, setting.latency, &folder.within("chain")?).await?;
        let accounts = Account::fresh(setting.submitters)?;
        chain.endpoint.fund(&accounts).await?;
        let database = match &options.store {
            Some(server) => Some(Database::create(server, &bench.database_prefix).await?),
            None => None,
        };
        let mut setup = BenchSetup { nodes: Vec::new(), chain, accounts, database, folder };
        match setup.start_nodes(options, setting).await {
            Ok(nodes) => setup.nodes = nodes,
            Err(error) => {
                setup.strike().await?;
                return Err(error);
            }
        }
        Ok(setup)
    }

    async fn start_nodes(&self, options: &Options, setting: &Setting) -> Result<Vec<Node>, LoadError> {
        let store = self.store_url();
        let plan = NodePlan {
            program: &options.program,
            store: &store,
            chain: &self.chain,
            accounts: &self.accounts,
            window: setting.window,
            confirmations: setting.confirmations,
            callers: options.callers,
        };
        let mut nodes = Vec::new();
        for number in 1..=setting.nodes {
            let name = format!("node {number}");
            nodes.push(plan.start(&name, &self.folder.within(&format!("node-{number}"))?).await?);
        }
        Ok(nodes)
    }

    /// Creates another database with the same tables, for rows that are written without Gapless.
    pub(crate) async fn twin_database(&self, bench: &Bench<'_>) -> Result<Option<Database>, LoadError> {
        let options = bench.options;
        let Some(server) = &options.store else { return Ok(None) };
        let twin = Database::create(server, &bench.database_prefix).await?;
        let plan = NodePlan {
            program: &options.program,
            store: &twin.url,
            chain: &self.chain,
            accounts: &[],
            window: 1,
            confirmations: 1,
            callers: 1,
        };
        match plan.migrate(&self.folder.within("twin")?).await {
            Ok(()) => Ok(Some(twin)),
            Err(error) => {
                twin.remove().await?;
                Err(error)
            }
        }
    }

    /// Ends the nodes. Their resource usage is not available afterwards.
    pub(crate) fn end_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Ends all processes.
    pub(crate) async fn strike(mut self) -> Result<(), LoadError> {
        self.nodes.clear();
        match self.database.take() {
            Some(database) => database.remove().await,
            None => Ok(()),
        }
    }

    /// Fails if one of the processes has ended.
    pub(crate) fn check(&mut self) -> Result<(), LoadError> {
        self.nodes.iter_mut().try_for_each(|node| node.child.check())?;
        self.chain.check()
    }

    /// The node's address for the caller of this number.
    pub(crate) fn authority(&self, caller: usize) -> &str {
        let node = self.nodes.get(caller.checked_rem(self.nodes.len()).unwrap_or(0));
        node.map_or("", |node| &node.authority)
    }

    pub(crate) async fn connect(&self, caller: usize) -> Result<Connection, LoadError> {
        Connection::open(self.authority(caller)).await.map_err(LoadError::http("a node"))
    }

    /// Opens one connection to each node.
    pub(crate) async fn connect_each(&self) -> Result<Vec<Connection>, LoadError> {
        let mut connections = Vec::new();
        for number in 0..self.nodes.len() {
            connections.push(self.connect(number).await?);
        }
        Ok(connections)
    }

    pub(crate) fn submitter(&self, account: &Account) -> String {
        account.submitter(self.chain.endpoint.chain_id)
    }

    pub(crate) fn usage(&self) -> Result<Usage, LoadError> {
        let sum =
            |of: &dyn Fn(u32) -> Option<u64>| self.nodes.iter().map(|node| of(node.child.pid())).sum::<Option<u64>>();
        let micros = |pid| accounting::cpu(pid).and_then(|time| u64::try_from(time.as_micros()).ok());
        let nodes = sum(&micros).map(Duration::from_micros).ok_or(LoadError::NoAccounting)?;
        Ok(Usage {
            nodes,
            database: self.database.as_ref().and_then(Database::cpu),
            chain: self.chain.cpu(),
            driver: accounting::cpu(std::process::id()).ok_or(LoadError::NoAccounting)?,
            memory: sum(&accounting::memory).ok_or(LoadError::NoAccounting)?,
        })
    }

    /// The largest peak memory of the nodes.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| accounting::peak_memory(node.child.pid())).max()
    }

    pub(crate) fn node_log(&self) -> String {
        self.nodes.iter().map(|node| node.child.log()).find(|log| !log.is_empty()).unwrap_or_default()
    }

    fn store_url(&self) -> String {
        let file: PathBuf = self.folder.path().join("gapless.db");
        self.database.as_ref().map_or_else(|| format!("sqlite:{}", file.display()), |database| database.url.clone())
    }
}

/// Sum over all nodes.
pub(crate) async fn counts(connections: &mut [Connection]) -> Result<Counts, LoadError> {
    let mut sum: Option<Counts> = None;
    for connection in connections {
        let counts = Counts::read(connection).await?;
        sum = Some(sum.map_or(counts, |sum| sum.and(counts)));
    }
    Ok(sum.unwrap_or_default())
}
