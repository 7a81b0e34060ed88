//! What is final stays as it is, whatever the chain does; and nothing is final before the chain says so.

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::{FinalityName, TxExpand, TxQuery, TxStateName};
use serde_json::json;

use crate::support::{
    Accepted, Chain, Database, Ledger, Node, NodeConfig, create, eventually, three, transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0081";
const CHAIN: &str = "eip155:31337";
const SUBMITTERS: [u32; 3] = [0, 1, 2];
const INTENTS: usize = 4;

/// proves R09, R06
#[tokio::test(flavor = "multi_thread")]
async fn a_reorganisation_below_what_was_final_stops_every_lane_and_changes_nothing_that_has_ended() {
    stops_and_changes_nothing(Chain::dev(Mining::OnDemand).await).await;
}

/// proves R09, R06
#[tokio::test(flavor = "multi_thread")]
async fn on_anvil_it_is_the_same() {
    stops_and_changes_nothing(Chain::start(Mining::OnDemand)).await;
}

async fn stops_and_changes_nothing(chain: Chain) {
    let scene = Scene::settled_on(chain).await;
    let before = scene.ended_rows().await;
    // One that is under way is not ended by it either.
    let open = create(&[&scene.nodes[0].client], 0, &transfer("s0", "open", TO)).await;
    eventually("it is on its way", async || {
        let tx = scene.nodes[0].client.tx(&open.tx_id, &TxQuery::default()).await.unwrap();
        (tx.state == TxStateName::Tracking).then_some(())
    })
    .await;
    scene.reorganise_deeply().await;
    scene.assert_everybody_stopped().await;
    // Not even when the new chain has become long.
    scene.chain.mine(10).await;
    scene.assert_everybody_stopped().await;
    assert_eq!(scene.ended_rows().await, before);
}

/// proves R09, R06
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_down_while_it_happened_find_out_when_they_start() {
    let mut scene = Scene::settled_on(Chain::dev(Mining::OnDemand).await).await;
    let before = scene.ended_rows().await;
    for node in &mut scene.nodes {
        node.signal("TERM");
    }
    join_all(scene.nodes.iter_mut().map(Node::wait_for_end)).await;
    scene.reorganise_deeply().await;
    scene.nodes = three(&scene.config).await;
    scene.assert_everybody_stopped().await;
    assert_eq!(scene.ended_rows().await, before);
}

/// Three nodes, three submitters, and all that was handed in is final.
struct Scene {
    database: Database,
    chain: Chain,
    config: NodeConfig,
    nodes: Vec<Node>,
    accepted: Vec<Accepted>,
}

impl Scene {
    async fn settled_on(chain: Chain) -> Self {
        let database = Database::shared().await;
        let config = NodeConfig::new(&database.url, &chain.ws_url(), &SUBMITTERS)
            .set("nonce.max_in_flight", "8")
            .set("confirmations.required", "3")
            .set("watcher.save_interval", "100ms");
        let nodes = three(&config).await;
        let mut accepted = Vec::new();
        for account in SUBMITTERS {
            for n in 0..INTENTS {
                let request = transfer(&format!("s{account}"), &format!("r{account}-{n}"), TO);
                accepted.push(create(&[&nodes[n % 3].client], 0, &request).await);
            }
        }
        eventually("all of it is final", async || {
            chain.mine(1).await;
            let done = "SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED'";
            (database.count(done).await == accepted.len() as i64).then_some(())
        })
        .await;
        let scene = Scene { database, chain, config, nodes, accepted };
        let deepest = scene.deepest().await;
        eventually("what is final is kept", async || {
            let kept = "SELECT coalesce(max(final_number), 0) FROM chain_head";
            (scene.database.count(kept).await >= deepest as i64).then_some(())
        })
        .await;
        scene
    }

    /// The newest block that has something of ours.
    async fn deepest(&self) -> u64 {
        let mut blocks = Vec::new();
        for tx in &self.accepted {
            let tx = self.nodes[0].client.tx(&tx.tx_id, &TxQuery::default()).await.unwrap();
            blocks.push(tx.receipt.unwrap().block_number);
        }
        blocks.into_iter().max().unwrap()
    }

    /// All that we ever did is gone, and the chain is longer than before.
    async fn reorganise_deeply(&self) {
        let head = self.chain.head().await;
        self.chain.reorganise(head).await;
        while self.chain.head().await <= head {
            self.chain.mine(1).await;
        }
        assert_eq!(self.chain.balance(TO).await, 0);
    }

    async fn assert_everybody_stopped(&self) {
        for node in &self.nodes {
            for account in SUBMITTERS {
                let protect = eventually("every lane is in PROTECT, as every node sees it", async || {
                    node.client.submitter(&format!("s{account}"), &[]).await.ok()?.protect
                })
                .await;
                assert_eq!(protect.code, "deep_reorg");
                let refused = node.client.create_tx(&transfer(&format!("s{account}"), "new", TO)).await.unwrap_err();
                let problem = refused.problem().unwrap();
                assert_eq!((problem.status, problem.code.as_str()), (409, "submitter_protected"));
            }
            let trouble = eventually("every node knows what is wrong with the chain", async || {
                node.client.chain(CHAIN).await.ok()?.trouble
            })
            .await;
            assert_eq!(trouble.code, "deep_reorg");
        }
        let events = "SELECT count(DISTINCT submitter) FROM tx_event WHERE kind = 'protected'";
        assert_eq!(self.database.count(events).await, SUBMITTERS.len() as i64);
        // What was accepted before is still known by its request id.
        let known = transfer("s0", "r0-0", TO);
        let (again, is_new) = self.nodes[1].client.create_tx(&known).await.unwrap();
        assert_eq!((again.tx_id, is_new), (self.accepted[0].tx_id.clone(), false));
    }

    /// Every row of what has ended, whole.
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
async fn where_the_finalized_tag_decides_nothing_ends_before_it_and_all_of_it_ends_with_it() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    // It does not come near.
    chain.call("gapless_setFinality", json!([{ "safe": 1000, "finalized": 1000 }])).await;
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", "2")
        .set("chain.0.finality", "finalized");
    let nodes = three(&config).await;
    assert_eq!(nodes[0].client.chain(CHAIN).await.unwrap().finality, FinalityName::Finalized);
    let mut accepted = Vec::new();
    for n in 0..INTENTS {
        accepted.push(create(&[&nodes[0].client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
    }
    let (client, last) = (&nodes[1].client, &accepted[INTENTS - 1]);
    eventually("all of it is mined", async || {
        chain.mine(1).await;
        client.tx(&last.tx_id, &TxQuery::default()).await.unwrap().receipt
    })
    .await;
    chain.mine(30).await;
    let head = chain.head().await;
    for node in &nodes {
        eventually("every node has seen the head", async || {
            (node.client.chain(CHAIN).await.ok()?.head?.block_number == head).then_some(())
        })
        .await;
    }
    let view = client.submitter("s0", &[]).await.unwrap();
    assert_eq!(view.open as usize, INTENTS, "thirty blocks are not the tag");
    // The tag comes to where the last of them is, and not further.
    let own = client.tx(&last.tx_id, &TxQuery::default()).await.unwrap().receipt.unwrap().block_number;
    let depths = json!([{ "safe": head + 1 - own, "finalized": head + 1 - own }]);
    chain.call("gapless_setFinality", depths).await;
    chain.mine(1).await;
    wait_until_done(client, "s0").await;
    eventually("every node has seen the tag", async || {
        let chain_view = client.chain(CHAIN).await.unwrap();
        (chain_view.final_block?.block_number >= own).then_some(())
    })
    .await;
    Ledger::read(client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    let expand = vec![TxExpand::Confirmations];
    let tx = client.tx(&last.tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap();
    assert_eq!(tx.confirmation_list, Some(chain.links(own, 2).await));
}
