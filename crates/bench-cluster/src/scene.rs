//! What one measurement needs: a chain, a database, nodes. All of it is new, and gone in the end.

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

/// How a scene is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) submitters: u32,
    pub(crate) window: u32,
    pub(crate) nodes: u32,
    /// Blocks that make it final.
    pub(crate) confirmations: u32,
    /// How long the null chain waits with every answer.
    pub(crate) latency: Duration,
}

/// Nodes end before what they use, and all of it before the folder.
#[derive(Debug)]
pub(crate) struct Scene {
    nodes: Vec<Node>,
    pub(crate) chain: Chain,
    pub(crate) accounts: Vec<Account>,
    pub(crate) database: Option<Database>,
    folder: Folder,
}

/// What the processes have used up to now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) nodes: Duration,
    pub(crate) database: Option<Duration>,
    pub(crate) chain: Option<Duration>,
    pub(crate) driver: Duration,
    /// Of all nodes together, now.
    pub(crate) memory: u64,
}

impl Scene {
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
        let mut scene = Scene { nodes: Vec::new(), chain, accounts, database, folder };
        match scene.start_nodes(options, setting).await {
            Ok(nodes) => scene.nodes = nodes,
            Err(error) => {
                scene.strike().await?;
                return Err(error);
            }
        }
        Ok(scene)
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

    /// Another database with the same tables, for rows that Gapless has no part in.
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

    /// Ends the nodes; what they have used is no longer told.
    pub(crate) fn end_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Ends everything.
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

    /// The address of the node for the caller of this number.
    pub(crate) fn authority(&self, caller: usize) -> &str {
        let node = self.nodes.get(caller.checked_rem(self.nodes.len()).unwrap_or(0));
        node.map_or("", |node| &node.authority)
    }

    pub(crate) async fn connect(&self, caller: usize) -> Result<Connection, LoadError> {
        Connection::open(self.authority(caller)).await.map_err(LoadError::http("a node"))
    }

    /// One connection to each node.
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

    /// The most that one of the nodes ever had.
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

/// Of all nodes together.
pub(crate) async fn counts(connections: &mut [Connection]) -> Result<Counts, LoadError> {
    let mut sum: Option<Counts> = None;
    for connection in connections {
        let counts = Counts::read(connection).await?;
        sum = Some(sum.map_or(counts, |sum| sum.and(counts)));
    }
    Ok(sum.unwrap_or_default())
}
