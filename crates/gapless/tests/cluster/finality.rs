//! Final intents never change, and no intent is final before the chain's rule says so.

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::{FinalityName, TxExpand, TxQuery, TxStateName};
use serde_json::json;

use crate::support::{
    AcceptedRequest, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, eventually,
    start_three_nodes, transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0081";
const CHAIN: &str = "eip155:31337";
const SUBMITTERS: [u32; 3] = [0, 1, 2];
const INTENTS: usize = 4;

/// proves R09, R06
#[tokio::test(flavor = "multi_thread")]
async fn reorg_below_final_protects_all_lanes_on_dev_chain() {
    deep_reorg_protects_all_lanes(TestChain::dev(Mining::OnDemand).await).await;
}

/// proves R09, R06
#[tokio::test(flavor = "multi_thread")]
async fn reorg_below_final_protects_all_lanes_on_anvil() {
    deep_reorg_protects_all_lanes(TestChain::start(Mining::OnDemand)).await;
}

async fn deep_reorg_protects_all_lanes(chain: TestChain) {
    let cluster = FinalCluster::settled_on(chain).await;
    let before = cluster.ended_rows().await;
    // The reorg does not end an open intent either.
    let open = create(&[&cluster.nodes[0].client], 0, &transfer("s0", "open", TO)).await;
    eventually("the intent is in TRACKING", async || {
        let tx = cluster.nodes[0].client.tx(&open.tx_id, &TxQuery::default()).await.unwrap();
        (tx.state == TxStateName::Tracking).then_some(())
    })
    .await;
    cluster.reorg_below_final().await;
    cluster.assert_all_protected().await;
    // A longer new chain changes nothing.
    cluster.chain.mine(10).await;
    cluster.assert_all_protected().await;
    assert_eq!(cluster.ended_rows().await, before);
}

/// proves R09, R06
#[tokio::test(flavor = "multi_thread")]
async fn nodes_started_after_a_deep_reorg_protect_all_lanes() {
    let mut cluster = FinalCluster::settled_on(TestChain::dev(Mining::OnDemand).await).await;
    let before = cluster.ended_rows().await;
    for node in &mut cluster.nodes {
        node.signal("TERM");
    }
    join_all(cluster.nodes.iter_mut().map(NodeProcess::wait_for_end)).await;
    cluster.reorg_below_final().await;
    cluster.nodes = start_three_nodes(&cluster.config).await;
    cluster.assert_all_protected().await;
    assert_eq!(cluster.ended_rows().await, before);
}

/// Three nodes and three submitters whose intents are all final.
struct FinalCluster {
    database: TestDatabase,
    chain: TestChain,
    config: TestNodeConfig,
    nodes: Vec<NodeProcess>,
    accepted: Vec<AcceptedRequest>,
}

impl FinalCluster {
    async fn settled_on(chain: TestChain) -> Self {
        let database = TestDatabase::shared().await;
        let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &SUBMITTERS)
            .set("nonce.max_in_flight", "8")
            .set("confirmations.required", "3")
            .set("watcher.save_interval", "100ms");
        let nodes = start_three_nodes(&config).await;
        let mut accepted = Vec::new();
        for account in SUBMITTERS {
            for n in 0..INTENTS {
                let request = transfer(&format!("s{account}"), &format!("r{account}-{n}"), TO);
                accepted.push(create(&[&nodes[n % 3].client], 0, &request).await);
            }
        }
        eventually("all intents are final", async || {
            chain.mine(1).await;
            let done = "SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED'";
            (database.count(done).await == accepted.len() as i64).then_some(())
        })
        .await;
        let cluster = FinalCluster { database, chain, config, nodes, accepted };
        let deepest = cluster.deepest().await;
        eventually("the final block is stored", async || {
            let kept = "SELECT coalesce(max(final_number), 0) FROM chain_head";
            (cluster.database.count(kept).await >= deepest as i64).then_some(())
        })
        .await;
        cluster
    }

    /// The number of the newest block with a transaction of the submitters.
    async fn deepest(&self) -> u64 {
        let mut blocks = Vec::new();
        for tx in &self.accepted {
            let tx = self.nodes[0].client.tx(&tx.tx_id, &TxQuery::default()).await.unwrap();
            blocks.push(tx.receipt.unwrap().block_number);
        }
        blocks.into_iter().max().unwrap()
    }

    /// Replaces all blocks by a longer chain without any transaction of the submitters.
    async fn reorg_below_final(&self) {
        let head = self.chain.head().await;
        self.chain.reorg(head).await;
        while self.chain.head().await <= head {
            self.chain.mine(1).await;
        }
        assert_eq!(self.chain.balance(TO).await, 0);
    }

    async fn assert_all_protected(&self) {
        for node in &self.nodes {
            for account in SUBMITTERS {
                let protect = eventually("every node shows every lane in PROTECT", async || {
                    node.client.submitter(&format!("s{account}"), &[]).await.ok()?.protect
                })
                .await;
                assert_eq!(protect.code, "deep_reorg");
                let refused = node.client.create_tx(&transfer(&format!("s{account}"), "new", TO)).await.unwrap_err();
                let problem = refused.problem().unwrap();
                assert_eq!((problem.status, problem.code.as_str()), (409, "submitter_protected"));
            }
            let problem = eventually("every node shows the problem of the chain", async || {
                node.client.chain(CHAIN).await.ok()?.trouble
            })
            .await;
            assert_eq!(problem.code, "deep_reorg");
        }
        let events = "SELECT count(DISTINCT submitter) FROM tx_event WHERE kind = 'protected'";
        assert_eq!(self.database.count(events).await, SUBMITTERS.len() as i64);
        // A request that was accepted before is still known by its request id.
        let known = transfer("s0", "r0-0", TO);
        let (again, is_new) = self.nodes[1].client.create_tx(&known).await.unwrap();
        assert_eq!((again.tx_id, is_new), (self.accepted[0].tx_id.clone(), false));
    }

    /// All rows of ended intents.
    async fn ended_rows(&self) -> Vec<String> {
        let ended = "tx_id IN (SELECT tx_id FROM managed_tx WHERE ended_at IS NOT NULL)";
        let mut rows = Vec::new();
        for table in ["managed_tx", "tx_attempt", "tx_event", "slot"] {
            let query = format!("SELECT to_jsonb({table})::text FROM {table} WHERE {ended} ORDER BY 1");
            let found = self.database.raw().await.query(&query, &[]).await.unwrap();
            assert!(!found.is_empty());
            rows.extend(found.iter().map(|row| row.get::<_, String>(0)));
        }
        rows
    }
}

/// proves R06
#[tokio::test(flavor = "multi_thread")]
async fn intents_end_with_the_finalized_tag_and_not_before() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    // The tag stays far below the head.
    chain.call("gapless_setFinality", json!([{ "safe": 1000, "finalized": 1000 }])).await;
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", "2")
        .set("chain.0.finality", "finalized");
    let nodes = start_three_nodes(&config).await;
    assert_eq!(nodes[0].client.chain(CHAIN).await.unwrap().finality, FinalityName::Finalized);
    let mut accepted = Vec::new();
    for n in 0..INTENTS {
        accepted.push(create(&[&nodes[0].client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
    }
    let (client, last) = (&nodes[1].client, &accepted[INTENTS - 1]);
    eventually("the last intent is mined", async || {
        chain.mine(1).await;
        client.tx(&last.tx_id, &TxQuery::default()).await.unwrap().receipt
    })
    .await;
    chain.mine(30).await;
    let head = chain.head().await;
    for node in &nodes {
        eventually("every node has read the head", async || {
            (node.client.chain(CHAIN).await.ok()?.head?.block_number == head).then_some(())
        })
        .await;
    }
    let view = client.submitter("s0", &[]).await.unwrap();
    assert_eq!(view.open as usize, INTENTS, "an intent ended by depth, without the tag");
    // The tag moves to the block of the last intent, and not further.
    let own = client.tx(&last.tx_id, &TxQuery::default()).await.unwrap().receipt.unwrap().block_number;
    let depths = json!([{ "safe": head + 1 - own, "finalized": head + 1 - own }]);
    chain.call("gapless_setFinality", depths).await;
    chain.mine(1).await;
    wait_until_done(client, "s0").await;
    eventually("the node has read the tag", async || {
        let chain_view = client.chain(CHAIN).await.unwrap();
        (chain_view.final_block?.block_number >= own).then_some(())
    })
    .await;
    SubmitterLedger::read(client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    let expand = vec![TxExpand::Confirmations];
    let tx = client.tx(&last.tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap();
    assert_eq!(tx.confirmation_list, Some(chain.links(own, 2).await));
}
