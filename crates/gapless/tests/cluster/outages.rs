//! Outages of the database and of the chain.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gapless_testbed::Mining;
use gapless_wire::TxStateName;

use crate::support::{
    AcceptedRequest, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create_all, eventually,
    http, start_three_nodes, transfer, wait_until_done, within,
};

const TO: &str = "0x00000000000000000000000000000000000a0051";
/// The time limit for the work after the database is back.
const BACK_TO_WORK: Duration = Duration::from_secs(30);

/// proves O01
#[tokio::test(flavor = "multi_thread")]
async fn database_outage_answers_503_and_loses_no_accepted_intent() {
    let (database, chain) = (TestDatabase::private().await, TestChain::start(Mining::PerTransaction));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0]).set("nonce.max_in_flight", "16");
    let nodes = start_three_nodes(&config).await;
    let server = database.server.as_ref().unwrap();
    let outage = async {
        eventually("50 transfers are mined", async || (chain.balance(TO).await >= 50).then_some(())).await;
        server.stop_immediate().unwrap();
        for node in &nodes {
            assert_answers_503(node).await;
            assert!(node.client.readyz().await.is_err(), "a node without a database is ready");
            assert!(node.client.healthz().await.is_ok(), "a node without a database is not alive");
        }
        server.start_again().unwrap();
    };
    // Callers repeat their requests until there is an answer.
    let (accepted, ()) = tokio::join!(create_all(&nodes, "s0", "r", TO, 400, 20), outage);
    let back = within(BACK_TO_WORK, async || {
        let view = nodes[1].client.submitter("s0", &[]).await.ok()?;
        assert_eq!(view.protect, None);
        (view.queued == 0 && view.open == 0).then_some(())
    });
    assert!(back.await.is_some(), "the nodes did not finish their work after the outage");
    SubmitterLedger::read(&nodes[2].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

/// Commits are interrupted at any point, and the nodes must find out their outcome.
/// proves O01, S12
#[tokio::test(flavor = "multi_thread")]
async fn repeated_database_crashes_under_load_are_exactly_once() {
    const CRASHES: u64 = 3;
    const BETWEEN: u64 = 80;
    let (database, chain) = (TestDatabase::private().await, TestChain::start(Mining::PerTransaction));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0]).set("nonce.max_in_flight", "16");
    let nodes = start_three_nodes(&config).await;
    let server = database.server.as_ref().unwrap();
    let crashes = async {
        for _ in 0..CRASHES {
            let before = chain.balance(TO).await;
            eventually("80 more transfers are mined", async || {
                (chain.balance(TO).await >= before + BETWEEN).then_some(())
            })
            .await;
            server.stop_immediate().unwrap();
            server.start_again().unwrap();
        }
    };
    // More than are mined until the last crash.
    let count = 2 * (CRASHES * BETWEEN) as usize;
    let (accepted, ()) = tokio::join!(create_all(&nodes, "s0", "r", TO, count, 20), crashes);
    wait_until_done(&nodes[0].client, "s0").await;
    SubmitterLedger::read(&nodes[1].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

async fn assert_answers_503(node: &NodeProcess) {
    let body = serde_json::to_string(&transfer("s0", "while-it-is-away", TO)).unwrap();
    let request = http().post(format!("{}/api/v1/tx", node.api)).header("content-type", "application/json").body(body);
    let answer = request.send().await.unwrap();
    let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(answer.status().as_u16(), 503);
    assert_eq!(header("content-type").as_deref(), Some("application/problem+json"));
    assert!(header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    let problem: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(problem["code"], "store_unavailable");
}

/// proves O02, S04
#[tokio::test(flavor = "multi_thread")]
async fn chain_outage_accepts_intents_and_lanes_wait() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::PerTransaction));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "4")
        .set("rpc.timeout", "500ms")
        .set("lane.resend_longest", "2s");
    let nodes = start_three_nodes(&config).await;
    let mut accepted = create_all(&nodes, "s0", "before", TO, 60, 30).await;
    eventually("10 transfers are mined", async || (chain.balance(TO).await >= 10).then_some(())).await;
    chain.signal("STOP");
    eventually("every node shows all endpoints unhealthy", async || {
        let seen = stream::iter(&nodes).then(|node| async { is_chain_down(node).await });
        seen.all(|is_down| async move { is_down }).await.then_some(())
    })
    .await;
    // Every request is accepted.
    for (n, node) in (0..30).zip(nodes.iter().cycle()) {
        let asked = std::time::Instant::now();
        let (new, _) = node.client.create_tx(&transfer("s0", &format!("meanwhile-{n}"), TO)).await.unwrap();
        accepted.push(AcceptedRequest { tx_id: new.tx_id, request_id: new.request_id, asked, answered: asked });
    }
    let view = nodes[0].client.tx(&accepted.last().unwrap().tx_id, &Default::default()).await.unwrap();
    assert_eq!(view.state, TxStateName::Queued);
    chain.signal("CONT");
    wait_until_done(&nodes[0].client, "s0").await;
    SubmitterLedger::read(&nodes[1].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

async fn is_chain_down(node: &NodeProcess) -> bool {
    let chains = node.client.chains().await.unwrap();
    chains.iter().all(|chain| chain.endpoints.iter().all(|endpoint| !endpoint.healthy))
}
