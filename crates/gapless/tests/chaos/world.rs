//! The nodes, their roads, the chain.

use std::fmt;
use std::fs;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gapless_testbed::Mining;
use gapless_wire::SubmitterView;
use tokio::sync::{Mutex, MutexGuard};

use crate::callers::LANES;
use crate::figures::Figures;
use crate::ledger::Ledger;
use crate::register::Register;
use crate::scan::{Block, Scan};
use crate::servers::{Loss, Servers};
use crate::support::{
    Chain, Database, Doors, Folder, LONG, Node, NodeConfig, Roads, eventually, three_on_roads, within,
};
use crate::violations::Violations;

pub(crate) const NODES: usize = 3;
/// Confirmations that make a transaction final; no reorganisation goes so deep.
pub(crate) const REQUIRED: u64 = 4;
const BLOCK_TIME: Duration = Duration::from_millis(150);
/// How long somebody is waited for who may be anything but well.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) servers: Servers,
    pub(crate) chain: Chain,
    roads: [Roads; NODES],
    config: NodeConfig,
    names: [String; NODES],
    nodes: [Mutex<Node>; NODES],
    doors: Doors,
    register: Register,
    figures: Figures,
    violations: Violations,
    /// Commits that were lost and that nobody has reconciled yet.
    loss: StdMutex<Option<Loss>>,
    /// Blocks that may have been taken back.
    seen: StdMutex<Vec<Block>>,
    /// The logs of processes that are no more, and what was kept when all was over, for whoever looks into a failure.
    graveyard: Folder,
    buried: AtomicUsize,
}

/// A lane, and the token of whoever owned it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    submitter: String,
    token: u64,
}

impl World {
    pub(crate) async fn start() -> Self {
        let (database, chain) = (Database::private().await, Chain::dev(Mining::Every(BLOCK_TIME)).await);
        let (accounts, endpoints) = (LANES.map(|lane| lane.account), [chain.ws_url(), chain.url()]);
        let config = NodeConfig::with_endpoints(&database.url, &endpoints, &accounts)
            .short_lease()
            .set("confirmations.required", &REQUIRED.to_string())
            .set("rpc.timeout", "1s")
            .set("lane.resend_longest", "2s")
            // What a chain loses without a word is only sent again when this is over.
            .set("resubmit.interval", "2s")
            .set("log.filter", "info");
        let config = (0..).zip(LANES).fold(config, |config, (n, lane)| {
            config.set(&format!("submitter.{n}.max_in_flight"), &lane.window.to_string())
        });
        let (roads, nodes) = three_on_roads(&config, &database, &chain).await;
        let doors = Doors::of(&nodes);
        let nodes: [Node; NODES] = nodes.try_into().unwrap();
        let names = nodes.each_ref().map(|node| node.name.clone());
        let nodes = nodes.map(Mutex::new);
        World {
            servers: Servers::new(database),
            chain,
            roads,
            config,
            names,
            nodes,
            doors,
            register: Register::default(),
            figures: Figures::default(),
            violations: Violations::default(),
            loss: StdMutex::new(None),
            seen: StdMutex::new(Vec::new()),
            graveyard: Folder::new("graveyard"),
            buried: AtomicUsize::new(0),
        }
    }

    pub(crate) fn doors(&self) -> &Doors {
        &self.doors
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    pub(crate) fn register(&self) -> &Register {
        &self.register
    }

    pub(crate) fn violations(&self) -> &Violations {
        &self.violations
    }

    pub(crate) fn roads(&self, of: usize) -> &Roads {
        &self.roads[of]
    }

    /// The standby takes the primary's place, without its last commits.
    pub(crate) async fn fail_over(&self, behind: Duration) {
        let loss = self.servers.fail_over(behind, &self.roads).await;
        *self.loss.lock().unwrap() = Some(loss);
    }

    /// For whoever is to reconcile it.
    pub(crate) fn take_loss(&self) -> Option<Loss> {
        self.loss.lock().unwrap().take()
    }

    pub(crate) fn see(&self, blocks: Vec<Block>) {
        self.seen.lock().unwrap().extend(blocks);
    }

    pub(crate) fn seen(&self) -> Vec<Block> {
        self.seen.lock().unwrap().clone()
    }

    /// Whoever has it decides what happens to the node.
    pub(crate) async fn node(&self, at: usize) -> MutexGuard<'_, Node> {
        self.nodes[at].lock().await
    }

    /// A process in place of one that has ended, as whoever watches over processes does it: again and again until it stays.
    pub(crate) async fn start_again(&self, at: usize, node: &mut Node) {
        let config = self.roads[at].lead(&self.config);
        let log = format!("{}-{}.log", node.name, self.buried.fetch_add(1, Ordering::SeqCst));
        fs::write(self.graveyard.path().join(log), node.log()).unwrap();
        let start = Instant::now();
        *node = loop {
            match Node::try_start(&node.name, &config).await {
                Ok(node) => break node,
                Err(log) => assert!(start.elapsed() < LONG, "it does not start: {log}"),
            }
        };
        self.doors.replace(at, node);
    }

    /// For whoever looks into a failure, one line each: the database and the chain do not outlive the run.
    pub(crate) fn keep(&self, name: &str, items: impl IntoIterator<Item: fmt::Debug>) {
        let lines: Vec<String> = items.into_iter().map(|item| format!("{item:?}\n")).collect();
        fs::write(self.graveyard.path().join(format!("{name}.txt")), lines.concat()).unwrap();
    }

    /// Which node owns a lane; or another, if nobody does, or nobody says so.
    pub(crate) async fn owner_or(&self, lane: usize, another: usize) -> usize {
        match self.owner_of(&LANES[lane].submitter(), another).await {
            Some((name, _)) => self.names.iter().position(|known| *known == name).unwrap(),
            None => another,
        }
    }

    /// What a node owns, as another one says.
    pub(crate) async fn held_by(&self, at: usize, name: &str) -> Vec<Held> {
        let mut held = Vec::new();
        for lane in LANES {
            let submitter = lane.submitter();
            if let Some((owner, token)) = self.owner_of(&submitter, at).await
                && owner == name
            {
                held.push(Held { submitter, token });
            }
        }
        held
    }

    /// Waits until these lanes have another owner, or have had one; how long that took is counted from `since`.
    pub(crate) async fn wait_for_takeovers(&self, of: usize, mut held: Vec<Held>, since: Instant, limit: Duration) {
        within(limit, async || {
            let mut left = Vec::new();
            for lane in held.drain(..) {
                match self.owner_of(&lane.submitter, of).await {
                    Some((_, token)) if token > lane.token => self.figures.takeover(since.elapsed()),
                    _ => left.push(lane),
                }
            }
            held = left;
            held.is_empty().then_some(())
        })
        .await;
    }

    /// Asks the two others.
    async fn owner_of(&self, submitter: &str, other_than: usize) -> Option<(String, u64)> {
        for turn in 1..NODES {
            let client = self.doors.client(other_than + turn);
            let expand = [gapless_wire::SubmitterExpand::Lease];
            let asked = tokio::time::timeout(PATIENCE, client.submitter(submitter, &expand));
            if let Ok(Ok(SubmitterView { lease: Some(lease), .. })) = asked.await {
                let (name, _) = lease.owner.split_once('/').unwrap();
                return Some((name.to_owned(), lease.fencing_token));
            }
        }
        None
    }

    /// Nothing goes wrong any more: waits until all is final.
    pub(crate) async fn settle(&self) {
        for (roads, node) in self.roads.iter().zip(&self.nodes) {
            roads.heal();
            let mut node = node.lock().await;
            assert!(node.has_ended().is_none(), "{} has ended by itself", node.name);
            eventually("every node is ready again", async || node.client.readyz().await.ok()).await;
        }
        let client = self.doors.client(0);
        for submitter in LANES.map(|lane| lane.submitter()) {
            // Whoever had to ask for a pause twice may have paused it twice, the second time late.
            eventually("it is not paused", async || {
                client.resume(&submitter, Some(PATIENCE)).await.ok()?;
                (!client.submitter(&submitter, &[]).await.ok()?.paused).then_some(())
            })
            .await;
            let done = within(LONG, async || {
                let view = client.submitter(&submitter, &[]).await.ok()?;
                (view.protect.is_some() || (view.queued == 0 && view.open == 0)).then_some(())
            });
            if done.await.is_none() {
                self.violations.add("P1", format!("{submitter} has not come to an end"));
            }
        }
    }

    /// What the blocks say is what the state says: each transaction has given one wei.
    pub(crate) async fn check_balances(&self, scan: &Scan, ledger: &Ledger) {
        for (lane, rows) in LANES.iter().zip(&ledger.lanes) {
            let (received, sent) = (self.chain.balance(&lane.to()).await, scan.of(&rows.address).count() as u64);
            if received != sent {
                self.violations.add("P1", format!("{} received {received} wei by {sent} transactions", lane.to()));
            }
        }
    }
}

/// A run that fails leaves all its logs in one place, and says where.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in self.nodes.each_mut().map(Mutex::get_mut) {
            let _ = fs::write(self.graveyard.path().join(format!("{}-last.log", node.name)), node.log());
        }
        println!(
            "chaos: the logs of all processes, and what was read in the end, are in {}",
            self.graveyard.path().display()
        );
    }
}
