//! Endpoints that are away, behind, of another mind, of another chain, or say what is not so.

use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::{
    Client, EndpointStandingName, SubStateName, SubmitterExpand, TxExpand, TxQuery, TxStateName, TxView,
};
use serde_json::{Value, json};

use crate::support::{
    Accepted, Chain, Database, Ledger, Node, NodeConfig, create, create_all, eventually, three, transfer,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0091";
const CHAIN: &str = "eip155:31337";
const BLOCK_TIME: Duration = Duration::from_millis(100);

/// Three nodes with these endpoints of a dev chain.
async fn nodes_with(chain: &Chain, database: &Database, endpoints: &[&str], accounts: &[u32]) -> Vec<Node> {
    let endpoints: Vec<String> = endpoints.iter().map(|name| chain.endpoint(name)).collect();
    let config = NodeConfig::with_endpoints(&database.url, &endpoints, accounts)
        .set("nonce.max_in_flight", "64")
        .set("confirmations.required", "2")
        .set("confirmations.stale_receipt_timeout", "1s")
        .set("lane.resend_longest", "2s")
        .set("rpc.timeout", "2s");
    three(&config).await
}

/// How each endpoint stands, in the order of the config, once every node says the same.
async fn all_say(nodes: &[Node], expected: &[EndpointStandingName]) {
    for node in nodes {
        eventually(&format!("{} says {expected:?}", node.name), async || {
            let view = node.client.chain(CHAIN).await.ok()?;
            let said: Vec<EndpointStandingName> = view.endpoints.iter().map(|endpoint| endpoint.standing).collect();
            (said == expected).then_some(())
        })
        .await;
    }
}

async fn assert_exactly_once(chain: &Chain, client: &Client, submitter: &str, accepted: &[Accepted]) {
    wait_until_done(client, submitter).await;
    Ledger::read(client, submitter).await.assert_exactly_once(chain, accepted).await;
}

/// proves S10
#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_transactions_a_dead_and_a_lagging_endpoint_cost_none() {
    const SUBMITTERS: [u32; 4] = [0, 1, 2, 3];
    const EACH: usize = 250;
    const LAG: u64 = 20;
    use EndpointStandingName::{Down, Good, Lagging};
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::Every(BLOCK_TIME)).await);
    chain.call("anvil_mine", json!([2 * LAG])).await;
    chain.faults("dead", json!({ "dead": true })).await;
    chain.faults("lagging", json!({ "lag": LAG })).await;
    let nodes = nodes_with(&chain, &database, &["dead", "lagging", "healthy"], &SUBMITTERS).await;
    let mut accepted: Vec<Vec<Accepted>> = vec![Vec::new(); SUBMITTERS.len()];
    for (account, accepted) in SUBMITTERS.into_iter().zip(&mut accepted) {
        let request = |n| transfer(&format!("s{account}"), &format!("r{n}"), TO);
        let requests: Vec<_> = (0..EACH).map(request).collect();
        let asked = std::time::Instant::now();
        let batch = nodes[account as usize % nodes.len()].client.create_batch(&requests).await.unwrap();
        accepted.extend(batch.results.into_iter().map(|item| {
            let tx = item.transaction.unwrap();
            Accepted { tx_id: tx.tx_id, request_id: tx.request_id, asked, answered: std::time::Instant::now() }
        }));
    }
    all_say(&nodes, &[Down, Lagging, Good]).await;
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
async fn an_endpoint_of_another_chain_and_one_that_goes_to_and_fro_are_left_out_and_told_of() {
    use EndpointStandingName::{Flipping, Good, WrongChain};
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    chain.mine(10).await;
    chain.faults("foreign", json!({ "chainId": 5 })).await;
    let nodes = nodes_with(&chain, &database, &["foreign", "flipping", "healthy"], &[0]).await;
    all_say(&nodes, &[WrongChain, Good, Good]).await;
    // One block behind it is as high as the branch that was given up: the same height, now this block and now that.
    chain.call("gapless_reorg", json!([1, "same"])).await;
    chain.faults("flipping", json!({ "lag": 1, "flip": 1 })).await;
    all_say(&nodes, &[WrongChain, Flipping, Good]).await;
    for node in &nodes {
        assert!(node.counter("gapless_endpoint_flipping_total").await >= 1.0);
    }
    let accepted = create_all(&nodes, "s0", "r", TO, 40, 20).await;
    eventually("all of it is done", async || {
        chain.mine(1).await;
        let view = nodes[0].client.submitter("s0", &[]).await.ok()?;
        (view.queued == 0 && view.open == 0).then_some(())
    })
    .await;
    assert_exactly_once(&chain, &nodes[1].client, "s0", &accepted).await;
}

/// proves S10
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_ask_us_to_come_back_later_lose_nothing() {
    use EndpointStandingName::{Good, RateLimited};
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::Every(BLOCK_TIME)).await);
    let nodes = nodes_with(&chain, &database, &["one", "two"], &[0]).await;
    let mut accepted = create_all(&nodes, "s0", "before", TO, 30, 30).await;
    let later = json!({ "rules": [{ "on": "any", "fault": { "kind": "http", "status": 429, "retryAfterSecs": 1 } }] });
    for endpoint in ["one", "two"] {
        chain.faults(endpoint, later.clone()).await;
    }
    all_say(&nodes, &[RateLimited, RateLimited]).await;
    accepted.extend(create_all(&nodes, "s0", "meanwhile", TO, 30, 30).await);
    for endpoint in ["one", "two"] {
        assert!(chain.faults(endpoint, json!({ "clear": true })).await > 0);
    }
    all_say(&nodes, &[Good, Good]).await;
    assert_exactly_once(&chain, &nodes[2].client, "s0", &accepted).await;
}

/// proves S08
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_another_hash_is_counted_and_never_becomes_ours() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::Every(BLOCK_TIME)).await);
    let nodes = nodes_with(&chain, &database, &["only"], &[0]).await;
    chain.faults("only", json!({ "rules": [{ "on": "sends", "fault": { "kind": "wrongHash" } }] })).await;
    let accepted = create_all(&nodes, "s0", "r", TO, 10, 10).await;
    // What is mined are the bytes that were sent, under the hash that we signed.
    assert_exactly_once(&chain, &nodes[0].client, "s0", &accepted).await;
    let mut counted = 0.0;
    for node in &nodes {
        counted += node.counter("gapless_rpc_hash_mismatch_total").await;
    }
    assert!(counted >= accepted.len() as f64, "{counted} counted");
}

/// The transaction with what operators see of it.
async fn look(client: &Client, tx: &Accepted) -> TxView {
    let expand = vec![TxExpand::Attempts, TxExpand::Events];
    client.tx(&tx.tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap()
}

/// Nonces and hashes of these, all of which are bound and none of which has ended.
async fn bound(client: &Client, accepted: &[Accepted]) -> Option<Vec<(u64, String)>> {
    let mut bound = Vec::new();
    for tx in accepted {
        let view = look(client, tx).await;
        assert!(!view.state.is_terminal(), "{view:?}");
        let [attempt] = view.attempts.as_deref()? else { return None };
        bound.push((view.nonce?, attempt.hash.clone()));
    }
    Some(bound)
}

/// proves S05, R02
#[tokio::test(flavor = "multi_thread")]
async fn receipts_that_are_hidden_or_cannot_be_read_never_bring_a_transaction_back_into_the_queue() {
    const TROUBLES: [&str; 3] = ["null", "error", "nothing"];
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let nodes = nodes_with(&chain, &database, &["only"], &[0]).await;
    let client = &nodes[0].client;
    let accepted = create_all(&nodes, "s0", "r", TO, 5, 5).await;
    let before = eventually("all are on their way", async || bound(client, &accepted).await).await;
    for trouble in TROUBLES {
        let rule = |fault: Value| {
            let methods = ["eth_getBlockReceipts", "eth_getTransactionReceipt", "eth_getTransactionByHash"];
            let rules: Vec<Value> = methods.iter().map(|on| json!({ "on": on, "fault": fault })).collect();
            json!({ "clear": true, "rules": rules })
        };
        let faults = match trouble {
            "null" => rule(json!({ "kind": "null" })),
            "error" => rule(json!({ "kind": "refuse", "code": -32603, "message": "internal error" })),
            // A node that can only be asked by hash, and whose index is behind.
            _ => json!({ "clear": true, "hideReceipts": true, "rules": [
                { "on": "eth_getBlockReceipts", "fault": { "kind": "refuse", "code": -32601, "message": "the method does not exist" } },
            ] }),
        };
        chain.faults("only", faults).await;
        // Deep enough to be final, if anybody could see it. Everybody is asked for it, also by its hash.
        let asked = receipt_calls(&chain).await;
        eventually(&format!("{trouble} is all that is heard of receipts"), async || {
            chain.mine(1).await;
            (receipt_calls(&chain).await >= asked + 20).then_some(())
        })
        .await;
        assert_eq!(bound(client, &accepted).await.as_ref(), Some(&before), "{trouble}");
    }
    chain.faults("only", json!({ "clear": true })).await;
    chain.mine(1).await;
    assert_exactly_once(&chain, client, "s0", &accepted).await;
    for tx in &accepted {
        let events = look(client, tx).await.events.unwrap();
        assert!(events.iter().skip(1).all(|event| event.state != TxStateName::Queued), "{events:?}");
    }
}

async fn receipt_calls(chain: &Chain) -> u64 {
    calls(chain, "only", "eth_getBlockReceipts").await + calls(chain, "only", "eth_getTransactionReceipt").await
}

/// How often an endpoint of the dev chain was asked for something.
async fn calls(chain: &Chain, endpoint: &str, method: &str) -> u64 {
    let calls = chain.call("gapless_calls", json!([endpoint])).await;
    calls.get(method).and_then(Value::as_u64).unwrap_or(0)
}

/// An endpoint shows what it expects in the next block as if it were there, and the next block is another.
/// proves R10
#[tokio::test(flavor = "multi_thread")]
async fn what_is_preconfirmed_is_shown_and_nothing_is_mined_by_it() {
    const HASTY: &str = "hasty";
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    chain.faults(HASTY, json!({ "preconfirm": true })).await;
    let nodes = nodes_with(&chain, &database, &[HASTY], &[0]).await;
    let accepted = create_all(&nodes, "s0", "r", TO, 3, 3).await;
    let client = &nodes[0].client;
    let before = eventually("all are on their way", async || bound(client, &accepted).await).await;
    let counts = async || {
        let nonces = client.submitter("s0", &[SubmitterExpand::Nonces]).await.ok()?.nonces?;
        assert_eq!((nonces.next, nonces.latest.unwrap_or(0)), (Some(3), 0), "{nonces:?}");
        (nonces.preconfirmed == Some(3) && nonces.latest == Some(0)).then_some(())
    };
    eventually("the counts are apart", counts).await;
    for _ in 0..3 {
        // A receipt in a block that there is not is what it answers to whoever asks by hash.
        let promised = chain.call_at(HASTY, "eth_getTransactionReceipt", json!([before[0].1])).await;
        assert_eq!(promised["blockNumber"], format!("{:#x}", chain.head().await + 1), "this shows nothing");
        let asked = calls(&chain, HASTY, "eth_getTransactionReceipt").await;
        eventually("everybody has asked for receipts", async || {
            // And each block breaks the promise.
            chain.call("gapless_mineEmpty", json!([1])).await;
            (calls(&chain, HASTY, "eth_getTransactionReceipt").await >= asked + 2 * nodes.len() as u64).then_some(())
        })
        .await;
        eventually("the counts are still apart", counts).await;
        for tx in &accepted {
            let view = look(client, tx).await;
            let stands = (view.sub_state, view.receipt.is_some(), view.confirmations);
            assert_eq!(stands, (Some(SubStateName::Pending), false, None));
        }
    }
    assert_eq!(bound(client, &accepted).await.as_ref(), Some(&before));
    chain.mine(2).await;
    assert_exactly_once(&chain, client, "s0", &accepted).await;
}

/// proves S06
#[tokio::test(flavor = "multi_thread")]
async fn nonce_too_low_ends_nothing_until_one_of_our_hashes_is_in_a_block() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let nodes = nodes_with(&chain, &database, &["only"], &[0]).await;
    let client = &nodes[1].client;
    let too_low = |kind: &str| {
        let text = "nonce too low: next nonce 9, tx nonce 0";
        json!({ "clear": true, "rules": [
            { "on": "sends", "fault": { "kind": kind, "code": -32000, "message": text } },
        ] })
    };
    // The node has not even looked at it: it proves nothing, and the nonce stays where it is.
    chain.faults("only", too_low("refuse")).await;
    let accepted = vec![create(&[client], 0, &transfer("s0", "r", TO)).await];
    let before = eventually("it was refused", async || {
        let outcome = look(client, &accepted[0]).await.attempts?.pop()?.last_outcome?;
        assert_eq!(outcome.code, "nonce_too_low");
        bound(client, &accepted).await
    })
    .await;
    chain.mine(5).await;
    // Now it has taken it, and says the same.
    let struck = chain.faults("only", too_low("refuseAfter")).await;
    eventually("it was sent again", async || (chain.faults("only", json!({})).await > struck).then_some(())).await;
    assert_eq!(bound(client, &accepted).await.as_ref(), Some(&before));
    chain.mine(2).await;
    assert_exactly_once(&chain, client, "s0", &accepted).await;
}
