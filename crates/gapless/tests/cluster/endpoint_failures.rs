//! Endpoints that are down, lagging, flipping, rate-limited, of another chain, or give wrong answers.

use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::{
    Client, EndpointStandingName, SubStateName, SubmitterExpand, TxExpand, TxQuery, TxStateName, TxView,
};
use serde_json::{Value, json};

use crate::support::{
    AcceptedRequest, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, create_all,
    eventually, start_three_nodes, transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0091";
const CHAIN: &str = "eip155:31337";
const BLOCK_TIME: Duration = Duration::from_millis(100);

/// Starts three nodes with these endpoints of a dev chain.
async fn nodes_with(
    chain: &TestChain,
    database: &TestDatabase,
    endpoints: &[&str],
    accounts: &[u32],
) -> Vec<NodeProcess> {
    let endpoints: Vec<String> = endpoints.iter().map(|name| chain.endpoint(name)).collect();
    let config = TestNodeConfig::with_endpoints(&database.url, &endpoints, accounts)
        .set("nonce.max_in_flight", "64")
        .set("confirmations.required", "2")
        .set("confirmations.stale_receipt_timeout", "1s")
        .set("lane.resend_longest", "2s")
        .set("rpc.timeout", "2s");
    start_three_nodes(&config).await
}

/// Waits until every node shows this health of each endpoint, in the order of the config.
async fn wait_for_health(nodes: &[NodeProcess], expected: &[EndpointStandingName]) {
    for node in nodes {
        eventually(&format!("{} shows {expected:?}", node.name), async || {
            let view = node.client.chain(CHAIN).await.ok()?;
            let shown: Vec<EndpointStandingName> = view.endpoints.iter().map(|endpoint| endpoint.standing).collect();
            (shown == expected).then_some(())
        })
        .await;
    }
}

async fn assert_exactly_once(chain: &TestChain, client: &Client, submitter: &str, accepted: &[AcceptedRequest]) {
    wait_until_done(client, submitter).await;
    SubmitterLedger::read(client, submitter).await.assert_exactly_once(chain, accepted).await;
}

/// proves S10
#[tokio::test(flavor = "multi_thread")]
async fn dead_and_lagging_endpoints_lose_no_transaction() {
    const SUBMITTERS: [u32; 4] = [0, 1, 2, 3];
    const EACH: usize = 250;
    const LAG: u64 = 20;
    use EndpointStandingName::{Down, Good, Lagging};
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::Every(BLOCK_TIME)).await);
    chain.call("anvil_mine", json!([2 * LAG])).await;
    chain.faults("dead", json!({ "dead": true })).await;
    chain.faults("lagging", json!({ "lag": LAG })).await;
    let nodes = nodes_with(&chain, &database, &["dead", "lagging", "healthy"], &SUBMITTERS).await;
    let mut accepted: Vec<Vec<AcceptedRequest>> = vec![Vec::new(); SUBMITTERS.len()];
    for (account, accepted) in SUBMITTERS.into_iter().zip(&mut accepted) {
        let request = |n| transfer(&format!("s{account}"), &format!("r{n}"), TO);
        let requests: Vec<_> = (0..EACH).map(request).collect();
        let asked = std::time::Instant::now();
        let batch = nodes[account as usize % nodes.len()].client.create_batch(&requests).await.unwrap();
        accepted.extend(batch.results.into_iter().map(|item| {
            let tx = item.transaction.unwrap();
            AcceptedRequest { tx_id: tx.tx_id, request_id: tx.request_id, asked, answered: std::time::Instant::now() }
        }));
    }
    wait_for_health(&nodes, &[Down, Lagging, Good]).await;
    let view = nodes[0].client.chain(CHAIN).await.unwrap();
    let lag = view.endpoints[1].lag_blocks.unwrap();
    assert!((LAG - 2..=LAG + 5).contains(&lag), "{lag} blocks behind");
    assert!(view.endpoints[0].trouble.is_some(), "{view:?}");
    for (account, accepted) in SUBMITTERS.into_iter().zip(&accepted) {
        assert_exactly_once(&chain, &nodes[2].client, &format!("s{account}"), accepted).await;
    }
    assert_eq!(chain.balance(TO).await, (SUBMITTERS.len() * EACH) as u64);
}

/// proves S10
#[tokio::test(flavor = "multi_thread")]
async fn wrong_chain_and_flipping_endpoints_are_shown_and_not_used() {
    use EndpointStandingName::{Flipping, Good, WrongChain};
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    chain.mine(10).await;
    chain.faults("foreign", json!({ "chainId": 5 })).await;
    let nodes = nodes_with(&chain, &database, &["foreign", "flipping", "healthy"], &[0]).await;
    wait_for_health(&nodes, &[WrongChain, Good, Good]).await;
    // One block behind, the endpoint has the height of the orphaned branch, and alternates between two blocks of that
    // height.
    chain.call("gapless_reorg", json!([1, "same"])).await;
    chain.faults("flipping", json!({ "lag": 1, "flip": 1 })).await;
    wait_for_health(&nodes, &[WrongChain, Flipping, Good]).await;
    for node in &nodes {
        assert!(node.counter("gapless_endpoint_flipping_total").await >= 1.0);
    }
    let accepted = create_all(&nodes, "s0", "r", TO, 40, 20).await;
    eventually("no intent is queued or open", async || {
        chain.mine(1).await;
        let view = nodes[0].client.submitter("s0", &[]).await.ok()?;
        (view.queued == 0 && view.open == 0).then_some(())
    })
    .await;
    assert_exactly_once(&chain, &nodes[1].client, "s0", &accepted).await;
}

/// proves S10
#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_endpoints_lose_no_transaction() {
    use EndpointStandingName::{Good, RateLimited};
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::Every(BLOCK_TIME)).await);
    let nodes = nodes_with(&chain, &database, &["one", "two"], &[0]).await;
    let mut accepted = create_all(&nodes, "s0", "before", TO, 30, 30).await;
    let later = json!({ "rules": [{ "on": "any", "fault": { "kind": "http", "status": 429, "retryAfterSecs": 1 } }] });
    for endpoint in ["one", "two"] {
        chain.faults(endpoint, later.clone()).await;
    }
    wait_for_health(&nodes, &[RateLimited, RateLimited]).await;
    accepted.extend(create_all(&nodes, "s0", "meanwhile", TO, 30, 30).await);
    for endpoint in ["one", "two"] {
        assert!(chain.faults(endpoint, json!({ "clear": true })).await > 0);
    }
    wait_for_health(&nodes, &[Good, Good]).await;
    assert_exactly_once(&chain, &nodes[2].client, "s0", &accepted).await;
}

/// proves S08
#[tokio::test(flavor = "multi_thread")]
async fn wrong_hash_in_an_answer_is_counted_and_ignored() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::Every(BLOCK_TIME)).await);
    let nodes = nodes_with(&chain, &database, &["only"], &[0]).await;
    chain.faults("only", json!({ "rules": [{ "on": "sends", "fault": { "kind": "wrongHash" } }] })).await;
    let accepted = create_all(&nodes, "s0", "r", TO, 10, 10).await;
    // The chain mines the sent bytes, under the signed hash.
    assert_exactly_once(&chain, &nodes[0].client, "s0", &accepted).await;
    let mut counted = 0.0;
    for node in &nodes {
        counted += node.counter("gapless_rpc_hash_mismatch_total").await;
    }
    assert!(counted >= accepted.len() as f64, "{counted} counted");
}

/// The transaction with its attempts and events.
async fn view(client: &Client, tx: &AcceptedRequest) -> TxView {
    let expand = vec![TxExpand::Attempts, TxExpand::Events];
    client.tx(&tx.tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap()
}

/// The nonces and hashes of these intents, or `None` while one is not bound. Asserts that none has ended.
async fn bound(client: &Client, accepted: &[AcceptedRequest]) -> Option<Vec<(u64, String)>> {
    let mut bound = Vec::new();
    for tx in accepted {
        let view = view(client, tx).await;
        assert!(!view.state.is_terminal(), "{view:?}");
        let [attempt] = view.attempts.as_deref()? else { return None };
        bound.push((view.nonce?, attempt.hash.clone()));
    }
    Some(bound)
}

/// proves S05, R02
#[tokio::test(flavor = "multi_thread")]
async fn missing_receipts_never_requeue_a_transaction() {
    const FAULTS: [&str; 3] = ["null", "error", "hidden"];
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let nodes = nodes_with(&chain, &database, &["only"], &[0]).await;
    let client = &nodes[0].client;
    let accepted = create_all(&nodes, "s0", "r", TO, 5, 5).await;
    let before = eventually("all intents are bound", async || bound(client, &accepted).await).await;
    for fault_name in FAULTS {
        let rule = |fault: Value| {
            let methods = ["eth_getBlockReceipts", "eth_getTransactionReceipt", "eth_getTransactionByHash"];
            let rules: Vec<Value> = methods.iter().map(|on| json!({ "on": on, "fault": fault })).collect();
            json!({ "clear": true, "rules": rules })
        };
        let faults = match fault_name {
            "null" => rule(json!({ "kind": "null" })),
            "error" => rule(json!({ "kind": "refuse", "code": -32603, "message": "internal error" })),
            // An endpoint without block receipts, whose index of transactions is behind.
            _ => json!({ "clear": true, "hideReceipts": true, "rules": [{
                "on": "eth_getBlockReceipts",
                "fault": { "kind": "refuse", "code": -32601, "message": "the method does not exist" },
            }] }),
        };
        chain.faults("only", faults).await;
        // The blocks would make the transactions final if their receipts were visible. Receipts are also read by hash.
        let calls = receipt_calls(&chain).await;
        eventually(&format!("receipts were read with the fault {fault_name}"), async || {
            chain.mine(1).await;
            (receipt_calls(&chain).await >= calls + 20).then_some(())
        })
        .await;
        assert_eq!(bound(client, &accepted).await.as_ref(), Some(&before), "{fault_name}");
    }
    chain.faults("only", json!({ "clear": true })).await;
    chain.mine(1).await;
    assert_exactly_once(&chain, client, "s0", &accepted).await;
    for tx in &accepted {
        let events = view(client, tx).await.events.unwrap();
        assert!(events.iter().skip(1).all(|event| event.state != TxStateName::Queued), "{events:?}");
    }
}

async fn receipt_calls(chain: &TestChain) -> u64 {
    calls(chain, "only", "eth_getBlockReceipts").await + calls(chain, "only", "eth_getTransactionReceipt").await
}

/// The number of calls of a method at an endpoint of the dev chain.
async fn calls(chain: &TestChain, endpoint: &str, method: &str) -> u64 {
    let calls = chain.call("gapless_calls", json!([endpoint])).await;
    calls.get(method).and_then(Value::as_u64).unwrap_or(0)
}

/// An endpoint shows receipts for the next block that it expects, and the next block differs.
/// proves R10
#[tokio::test(flavor = "multi_thread")]
async fn preconfirmed_transaction_is_shown_and_not_mined() {
    const PRECONFIRMING: &str = "preconfirming";
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    chain.faults(PRECONFIRMING, json!({ "preconfirm": true })).await;
    let nodes = nodes_with(&chain, &database, &[PRECONFIRMING], &[0]).await;
    let accepted = create_all(&nodes, "s0", "r", TO, 3, 3).await;
    let client = &nodes[0].client;
    let before = eventually("all intents are bound", async || bound(client, &accepted).await).await;
    let counts = async || {
        let nonces = client.submitter("s0", &[SubmitterExpand::Nonces]).await.ok()?.nonces?;
        assert_eq!((nonces.next, nonces.latest.unwrap_or(0)), (Some(3), 0), "{nonces:?}");
        (nonces.preconfirmed == Some(3) && nonces.latest == Some(0)).then_some(())
    };
    eventually("the preconfirmed nonce differs from the latest", counts).await;
    for _ in 0..3 {
        // By hash the endpoint returns a receipt in a block that does not exist.
        let receipt = chain.call_at(PRECONFIRMING, "eth_getTransactionReceipt", json!([before[0].1])).await;
        let next_block = format!("{:#x}", chain.head().await + 1);
        assert_eq!(receipt["blockNumber"], next_block, "the endpoint does not preconfirm, so the test proves nothing");
        let receipt_calls = calls(&chain, PRECONFIRMING, "eth_getTransactionReceipt").await;
        eventually("every node has read receipts", async || {
            // Each empty block differs from the expected one.
            chain.call("gapless_mineEmpty", json!([1])).await;
            let now = calls(&chain, PRECONFIRMING, "eth_getTransactionReceipt").await;
            (now >= receipt_calls + 2 * nodes.len() as u64).then_some(())
        })
        .await;
        eventually("the preconfirmed nonce still differs from the latest", counts).await;
        for tx in &accepted {
            let view = view(client, tx).await;
            let state = (view.sub_state, view.receipt.is_some(), view.confirmations);
            assert_eq!(state, (Some(SubStateName::Pending), false, None));
        }
    }
    assert_eq!(bound(client, &accepted).await.as_ref(), Some(&before));
    chain.mine(2).await;
    assert_exactly_once(&chain, client, "s0", &accepted).await;
}

/// proves S06
#[tokio::test(flavor = "multi_thread")]
async fn nonce_too_low_alone_ends_no_intent() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let nodes = nodes_with(&chain, &database, &["only"], &[0]).await;
    let client = &nodes[1].client;
    let too_low = |kind: &str| {
        let text = "nonce too low: next nonce 9, tx nonce 0";
        json!({ "clear": true, "rules": [
            { "on": "sends", "fault": { "kind": kind, "code": -32000, "message": text } },
        ] })
    };
    // The endpoint refuses the transaction unread. The answer proves nothing, and the nonce stays bound.
    chain.faults("only", too_low("refuse")).await;
    let accepted = vec![create(&[client], 0, &transfer("s0", "r", TO)).await];
    let before = eventually("the send was refused", async || {
        let outcome = view(client, &accepted[0]).await.attempts?.pop()?.last_outcome?;
        assert_eq!(outcome.code, "nonce_too_low");
        bound(client, &accepted).await
    })
    .await;
    chain.mine(5).await;
    // Now the endpoint accepts the transaction and gives the same answer.
    let struck = chain.faults("only", too_low("refuseAfter")).await;
    eventually("the transaction was sent again", async || {
        (chain.faults("only", json!({})).await > struck).then_some(())
    })
    .await;
    assert_eq!(bound(client, &accepted).await.as_ref(), Some(&before));
    chain.mine(2).await;
    assert_exactly_once(&chain, client, "s0", &accepted).await;
}
