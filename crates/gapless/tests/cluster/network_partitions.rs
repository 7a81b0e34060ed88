//! An owner that is cut from its database or its chain, and not from the other. A cut is a black hole without an error.

use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::Client;

use crate::support::{
    AcceptedRequest, NodeProcess, NodeProxies, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create,
    create_all, eventually, owner, start_three_behind_proxies, transfer, wait_for_takeover, wait_until_done, within,
};

const TO: &str = "0x00000000000000000000000000000000000a0091";
const BLOCK_TIME: Duration = Duration::from_millis(100);
/// Enough work for longer than a lease, at four transactions per block.
const INTENTS: usize = 300;

/// Three working nodes, each behind its own proxies.
struct PartitionedCluster {
    database: TestDatabase,
    chain: TestChain,
    proxies: [NodeProxies; 3],
    nodes: Vec<NodeProcess>,
    accepted: Vec<AcceptedRequest>,
    /// The index of the owner of the lane, and its fencing token.
    owner: usize,
    token: u64,
}

impl PartitionedCluster {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::Every(BLOCK_TIME)).await);
        let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0]).short_lease();
        let config = settings.iter().fold(config, |config, (key, value)| config.set(key, value));
        // The lane keeps its owner even if all intents are done early.
        let config = config.set("nonce.max_in_flight", "4").set("lane.idle_linger", "60s");
        let (proxies, nodes) = start_three_behind_proxies(&config, &database, &chain).await;
        let accepted = create_all(&nodes, "s0", "before", TO, INTENTS, 50).await;
        eventually("20 transfers are mined", async || (chain.balance(TO).await >= 20).then_some(())).await;
        let (owner, token) = owner(&nodes, "s0", 0).await;
        PartitionedCluster { database, chain, proxies, nodes, accepted, owner, token }
    }

    /// Cuts the owner from its chain while it has transactions to send. On a slow machine it may have none at that
    /// point, so the cut is repeated.
    async fn cut_chain_during_sends(&mut self) -> (usize, u64) {
        for round in 0..20 {
            self.accepted.extend(create_all(&self.nodes, "s0", &format!("more-{round}"), TO, 60, 50).await);
            let (cut_node, token) = owner(&self.nodes, "s0", 0).await;
            let sent = sends(&self.nodes[cut_node]).await;
            self.proxies[cut_node].chain.cut();
            let sends_more = async || (sends(&self.nodes[cut_node]).await > sent).then_some(());
            if within(Duration::from_secs(8), sends_more).await.is_some() {
                return (cut_node, token);
            }
            self.proxies[cut_node].chain.heal();
        }
        panic!("the owner sent nothing while it was cut from the chain");
    }

    /// Creates intents at all nodes, or at all nodes but the owner.
    async fn create_meanwhile(&mut self, everywhere: bool) {
        let nodes = self.nodes.iter().enumerate().filter(|(n, _)| everywhere || *n != self.owner);
        for (n, (_, node)) in (0..30).zip(nodes.cycle()) {
            let request = transfer("s0", &format!("meanwhile-{n}"), TO);
            self.accepted.push(create(&[&node.client], 0, &request).await);
        }
    }

    /// Waits until 20 more transfers are mined, or all.
    async fn wait_for_progress(&self) {
        let enough = (self.accepted.len() as u64).min(self.chain.balance(TO).await + 20);
        eventually("the lane makes progress", async || (self.chain.balance(TO).await >= enough).then_some(())).await;
    }

    async fn assert_exactly_once(&self, client: &Client) {
        wait_until_done(client, "s0").await;
        SubmitterLedger::read(client, "s0").await.assert_exactly_once(&self.chain, &self.accepted).await;
        assert_eq!(self.chain.balance(TO).await, self.accepted.len() as u64);
    }
}

async fn sends(node: &NodeProcess) -> f64 {
    node.counter("gapless_tx_submit_total").await
}

/// The bytes that the owner wrote before the cut reach the database after the lane has another owner.
/// proves N06, N03, S02
#[tokio::test(flavor = "multi_thread")]
async fn owner_cut_from_database_stops_sending_and_rejoins() {
    let mut cluster = PartitionedCluster::start(&[]).await;
    let (cut_node, token) = (cluster.owner, cluster.token);
    cluster.proxies[cut_node].database.cut();
    cluster.create_meanwhile(false).await;
    let (successor, newer) = wait_for_takeover(&cluster.nodes, "s0", cut_node, token).await;
    // The old owner still reaches its chain, but it may not send any more.
    let sent = sends(&cluster.nodes[cut_node]).await;
    cluster.wait_for_progress().await;
    assert_eq!(sends(&cluster.nodes[cut_node]).await, sent, "the old owner sent under an expired lease");

    let healed_at = cluster.database.now().await;
    cluster.proxies[cut_node].heal();
    let healed = &cluster.nodes[cut_node];
    eventually("the old owner knows that it lost the lease", async || {
        (healed.counter("gapless_lease_lost_total").await >= 1.0).then_some(())
    })
    .await;
    wait_until_done(&healed.client, "s0").await;
    // On a very slow machine the lane may have changed its owner once more.
    if healed.owner_of("s0").await == Some((cluster.nodes[successor].name.clone(), newer)) {
        assert_eq!(sends(healed).await, sent, "the old owner sent after it healed");
    }
    cluster.database.assert_nothing_written_since(token, &healed_at).await;

    // The old owner works again: it is the only node that is left.
    let healed = cluster.nodes.swap_remove(cut_node);
    cluster.nodes.clear();
    for n in 0..10 {
        cluster.accepted.push(create(&[&healed.client], 0, &transfer("s0", &format!("after-{n}"), TO)).await);
    }
    cluster.assert_exactly_once(&healed.client).await;
}

/// The owner is cut from both while it has transactions to send. The chain heals first, when the lane already has
/// another owner and the old owner cannot know it.
/// proves N06, S04
#[tokio::test(flavor = "multi_thread")]
async fn owner_whose_chain_heals_before_its_database_sends_nothing() {
    let settings = [("rpc.timeout", "500ms"), ("lane.resend_longest", "1s"), ("resubmit.interval", "1s")];
    let mut cluster = PartitionedCluster::start(&settings).await;
    let (cut_node, token) = cluster.cut_chain_during_sends().await;
    cluster.proxies[cut_node].database.cut();
    // The next owner needs work, or the lane gets no owner.
    cluster.create_meanwhile(false).await;
    wait_for_takeover(&cluster.nodes, "s0", cut_node, token).await;
    let node = &cluster.nodes[cut_node];
    let sent = sends(node).await;
    cluster.proxies[cut_node].chain.heal();
    eventually("the old owner reads the chain again", async || {
        let chains = node.client.chains().await.ok()?;
        chains.iter().all(|chain| chain.endpoints.iter().all(|endpoint| endpoint.healthy)).then_some(())
    })
    .await;
    cluster.wait_for_progress().await;
    assert_eq!(sends(node).await, sent, "the old owner sent under an expired lease");
    cluster.proxies[cut_node].heal();
    cluster.assert_exactly_once(&cluster.nodes[cut_node].client).await;
}

/// The owner could renew its lease for ever, but it cannot do its work, so it releases the lane to another node.
/// proves O02, S04, S02
#[tokio::test(flavor = "multi_thread")]
async fn owner_cut_from_chain_releases_its_lane() {
    let mut cluster = PartitionedCluster::start(&[
        ("rpc.timeout", "500ms"),
        ("lane.resend_longest", "2s"),
        ("dispatch.chain_away_after", "2s"),
        ("dispatch.rebalance_interval", "1s"),
    ])
    .await;
    let cut_node = cluster.owner;
    cluster.proxies[cut_node].chain.cut();
    // All nodes accept requests, the owner too.
    cluster.create_meanwhile(true).await;
    cluster.wait_for_progress().await;
    wait_until_done(&cluster.nodes[cut_node].client, "s0").await;
    cluster.proxies[cut_node].heal();
    cluster.assert_exactly_once(&cluster.nodes[cut_node].client).await;
}
