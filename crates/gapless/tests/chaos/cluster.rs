//! The nodes, their proxies and the chain.

use std::fmt;
use std::fs;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gapless_testbed::Mining;
use gapless_wire::SubmitterView;
use tokio::sync::{Mutex, MutexGuard};

use crate::answers::AnswerLog;
use crate::callers::LANES;
use crate::ledger::LedgerSnapshot;
use crate::scan::{ChainScan, ScannedBlock};
use crate::servers::{LostCommits, PostgresServers};
use crate::statistics::RunStatistics;
use crate::support::{
    LONG, NodeClients, NodeProcess, NodeProxies, TestChain, TestDatabase, TestFolder, TestNodeConfig, eventually,
    start_three_behind_proxies, within,
};
use crate::violations::Violations;

pub(crate) const NODES: usize = 3;
/// Confirmations that make a transaction final; every reorg is less deep.
pub(crate) const REQUIRED: u64 = 4;
const BLOCK_TIME: Duration = Duration::from_millis(150);
/// The time limit for the answer of a node that may be faulty.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct ChaosCluster {
    pub(crate) servers: PostgresServers,
    pub(crate) chain: TestChain,
    proxies: [NodeProxies; NODES],
    config: TestNodeConfig,
    names: [String; NODES],
    nodes: [Mutex<NodeProcess>; NODES],
    node_clients: NodeClients,
    answers: AnswerLog,
    statistics: RunStatistics,
    violations: Violations,
    /// The lost commits that are not reconciled yet.
    loss: StdMutex<Option<LostCommits>>,
    /// Blocks that may have been orphaned.
    replaced_blocks: StdMutex<Vec<ScannedBlock>>,
    /// A folder with the logs of ended processes and the checked data, for the analysis of a failure.
    records: TestFolder,
    ended_processes: AtomicUsize,
}

/// A lane and the fencing token of its owner.
#[derive(Clone, Debug)]
pub(crate) struct OwnedLane {
    submitter: String,
    token: u64,
}

impl ChaosCluster {
    pub(crate) async fn start() -> Self {
        let (database, chain) = (TestDatabase::private().await, TestChain::dev(Mining::Every(BLOCK_TIME)).await);
        let (accounts, endpoints) = (LANES.map(|lane| lane.account), [chain.ws_url(), chain.url()]);
        let config = TestNodeConfig::with_endpoints(&database.url, &endpoints, &accounts)
            .short_lease()
            .set("confirmations.required", &REQUIRED.to_string())
            .set("rpc.timeout", "1s")
            .set("lane.resend_longest", "2s")
            // A transaction that the chain dropped is sent again after this time.
            .set("resubmit.interval", "2s")
            .set("log.filter", "info");
        let config = (0..).zip(LANES).fold(config, |config, (n, lane)| {
            config.set(&format!("submitter.{n}.max_in_flight"), &lane.window.to_string())
        });
        let (proxies, nodes) = start_three_behind_proxies(&config, &database, &chain).await;
        let node_clients = NodeClients::of(&nodes);
        let nodes: [NodeProcess; NODES] = nodes.try_into().unwrap();
        let names = nodes.each_ref().map(|node| node.name.clone());
        let nodes = nodes.map(Mutex::new);
        ChaosCluster {
            servers: PostgresServers::new(database),
            chain,
            proxies,
            config,
            names,
            nodes,
            node_clients,
            answers: AnswerLog::default(),
            statistics: RunStatistics::default(),
            violations: Violations::default(),
            loss: StdMutex::new(None),
            replaced_blocks: StdMutex::new(Vec::new()),
            records: TestFolder::new("chaos-records"),
            ended_processes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn node_clients(&self) -> &NodeClients {
        &self.node_clients
    }

    pub(crate) fn statistics(&self) -> &RunStatistics {
        &self.statistics
    }

    pub(crate) fn answers(&self) -> &AnswerLog {
        &self.answers
    }

    pub(crate) fn violations(&self) -> &Violations {
        &self.violations
    }

    pub(crate) fn proxies(&self, node: usize) -> &NodeProxies {
        &self.proxies[node]
    }

    /// Replaces the primary by its standby, without the last commits.
    pub(crate) async fn fail_over(&self, behind: Duration) {
        let loss = self.servers.fail_over(behind, &self.proxies).await;
        *self.loss.lock().unwrap() = Some(loss);
    }

    /// Takes the lost commits, in order to reconcile them.
    pub(crate) fn take_loss(&self) -> Option<LostCommits> {
        self.loss.lock().unwrap().take()
    }

    pub(crate) fn record_blocks(&self, blocks: Vec<ScannedBlock>) {
        self.replaced_blocks.lock().unwrap().extend(blocks);
    }

    pub(crate) fn replaced_blocks(&self) -> Vec<ScannedBlock> {
        self.replaced_blocks.lock().unwrap().clone()
    }

    /// Locks a node, so that only one fault acts on it.
    pub(crate) async fn node(&self, at: usize) -> MutexGuard<'_, NodeProcess> {
        self.nodes[at].lock().await
    }

    /// Starts a new process for an ended one, as a process manager does: again and again until it runs.
    pub(crate) async fn start_again(&self, at: usize, node: &mut NodeProcess) {
        let config = self.proxies[at].redirect(&self.config);
        let log = format!("{}-{}.log", node.name, self.ended_processes.fetch_add(1, Ordering::SeqCst));
        fs::write(self.records.path().join(log), node.log()).unwrap();
        let start = Instant::now();
        *node = loop {
            match NodeProcess::try_start(&node.name, &config).await {
                Ok(node) => break node,
                Err(log) => assert!(start.elapsed() < LONG, "the node does not start: {log}"),
            }
        };
        self.node_clients.replace(at, node);
    }

    /// Writes data to a file for the analysis of a failure, one line per item. The database and the chain end with the
    /// run.
    pub(crate) fn keep(&self, name: &str, items: impl IntoIterator<Item: fmt::Debug>) {
        let lines: Vec<String> = items.into_iter().map(|item| format!("{item:?}\n")).collect();
        fs::write(self.records.path().join(format!("{name}.txt")), lines.concat()).unwrap();
    }

    /// The index of the owner of a lane, or `another` if there is none or no node answers.
    pub(crate) async fn owner_or(&self, lane: usize, another: usize) -> usize {
        match self.owner_of(&LANES[lane].submitter(), another).await {
            Some((name, _)) => self.names.iter().position(|known| *known == name).unwrap(),
            None => another,
        }
    }

    /// The lanes that a node owns, as another node shows them.
    pub(crate) async fn owned_by(&self, at: usize, name: &str) -> Vec<OwnedLane> {
        let mut owned = Vec::new();
        for lane in LANES {
            let submitter = lane.submitter();
            if let Some((owner, token)) = self.owner_of(&submitter, at).await
                && owner == name
            {
                owned.push(OwnedLane { submitter, token });
            }
        }
        owned
    }

    /// Waits until these lanes have or had another owner, and records the time since `since`.
    pub(crate) async fn wait_for_takeovers(
        &self,
        of: usize,
        mut owned: Vec<OwnedLane>,
        since: Instant,
        limit: Duration,
    ) {
        within(limit, async || {
            let mut left = Vec::new();
            for lane in owned.drain(..) {
                match self.owner_of(&lane.submitter, of).await {
                    Some((_, token)) if token > lane.token => self.statistics.takeover(since.elapsed()),
                    _ => left.push(lane),
                }
            }
            owned = left;
            owned.is_empty().then_some(())
        })
        .await;
    }

    /// The owner of a lane and its fencing token, as one of the two other nodes shows it.
    async fn owner_of(&self, submitter: &str, other_than: usize) -> Option<(String, u64)> {
        for turn in 1..NODES {
            let client = self.node_clients.client(other_than + turn);
            let expand = [gapless_wire::SubmitterExpand::Lease];
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.submitter(submitter, &expand));
            if let Ok(Ok(SubmitterView { lease: Some(lease), .. })) = answer.await {
                let (name, _) = lease.owner.split_once('/').unwrap();
                return Some((name.to_owned(), lease.fencing_token));
            }
        }
        None
    }

    /// Heals all faults and waits until all intents are final.
    pub(crate) async fn settle(&self) {
        for (proxies, node) in self.proxies.iter().zip(&self.nodes) {
            proxies.heal();
            let mut node = node.lock().await;
            assert!(node.has_ended().is_none(), "{} ended without a signal", node.name);
            eventually("every node is ready again", async || node.client.readyz().await.ok()).await;
        }
        let client = self.node_clients.client(0);
        for submitter in LANES.map(|lane| lane.submitter()) {
            // A repeated pause command may be executed late, so the lane may be paused again.
            eventually("the lane is not paused", async || {
                client.resume(&submitter, Some(ANSWER_TIMEOUT)).await.ok()?;
                (!client.submitter(&submitter, &[]).await.ok()?.paused).then_some(())
            })
            .await;
            let done = within(LONG, async || {
                let view = client.submitter(&submitter, &[]).await.ok()?;
                (view.protect.is_some() || (view.queued == 0 && view.open == 0)).then_some(())
            });
            if done.await.is_none() {
                self.violations.add("P1", format!("{submitter} still has open intents"));
            }
        }
    }

    /// Compares the balances with the blocks: each transaction transfers one wei.
    pub(crate) async fn check_balances(&self, scan: &ChainScan, ledger: &LedgerSnapshot) {
        for (lane, rows) in LANES.iter().zip(&ledger.lanes) {
            let (received, sent) = (self.chain.balance(&lane.to()).await, scan.of(&rows.address).count() as u64);
            if received != sent {
                self.violations.add("P1", format!("{} received {received} wei by {sent} transactions", lane.to()));
            }
        }
    }
}

/// A failed run keeps all logs in one folder, and prints its name.
impl Drop for ChaosCluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in self.nodes.each_mut().map(Mutex::get_mut) {
            let _ = fs::write(self.records.path().join(format!("{}-last.log", node.name)), node.log());
        }
        println!("chaos: the logs of all processes and the checked data are in {}", self.records.path().display());
    }
}
