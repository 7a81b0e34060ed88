//! Fees and gas limits of callers, and estimated ones: the chain has the requested values.

use gapless_testbed::Mining;
use gapless_wire::{
    AccessListItem, Authorization, CallPayload, FeesPayload, Quantity, ResubmitRequest, TxExpand, TxQuery, TxRequest,
    TxStateName,
};
use serde_json::{Value, json};

use crate::intent_outcomes::{IntentOutcomes, wei};
use crate::support::{
    AccountKey, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, transfer,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0161";
const GWEI: u128 = 1_000_000_000;
const PRICE: u128 = 7 * GWEI;
const TIP: u128 = 3 * GWEI;
/// The account that gets delegated code. It is not a submitter.
const AUTHORITY: u32 = 7;
const GAS: u64 = 123_456;
const FACTOR: u128 = 1500;
const CONSTANT: u128 = 10_000;

async fn node_on(chain: &TestChain) -> (TestDatabase, NodeProcess) {
    let database = TestDatabase::shared().await;
    let config = TestNodeConfig::new(&database.url, &chain.url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("gas.factor", "1.5")
        .set("gas.constant", &CONSTANT.to_string());
    let node = NodeProcess::start("a", &config).await;
    (database, node)
}

/// The mined transaction of a request.
async fn on_chain(chain: &TestChain, ledger: &SubmitterLedger, request_id: &str) -> Value {
    let tx = &ledger.txs[request_id];
    assert_eq!(tx.state, TxStateName::Confirmed, "{tx:?}");
    chain.call("eth_getTransactionByHash", json!([tx.hash])).await
}

fn legacy() -> FeesPayload {
    FeesPayload { gas_price: Some(PRICE.to_string()), ..FeesPayload::default() }
}

fn eip1559() -> FeesPayload {
    let (max_fee_per_gas, max_priority_fee_per_gas) = (Some(PRICE.to_string()), Some(TIP.to_string()));
    FeesPayload { max_fee_per_gas, max_priority_fee_per_gas, ..FeesPayload::default() }
}

/// A request for a transfer of one wei with these fees.
fn request(request_id: &str, fees: Option<FeesPayload>, change: impl FnOnce(&mut CallPayload)) -> TxRequest {
    let mut request = transfer("s0", request_id, TO);
    request.payload.gas_limit = Some(Quantity::from(GAS));
    request.payload.fees = fees;
    change(&mut request.payload);
    request
}

async fn authorization() -> Authorization {
    let signed = AccountKey::of(AUTHORITY).authorize(0, TO).await;
    Authorization {
        chain_id: Quantity::from(31_337),
        address: TO.to_owned(),
        nonce: Quantity::from(0),
        y_parity: Quantity::from(u64::from(signed.y_parity())),
        r: signed.r().to_string(),
        s: signed.s().to_string(),
    }
}

async fn caller_fees_are_kept(chain: TestChain) {
    chain.mine(1).await;
    let (_database, node) = node_on(&chain).await;
    let access_list = vec![AccessListItem { address: TO.to_owned(), storage_keys: vec![] }];
    let authorization_list = vec![authorization().await];
    let requests = [
        request("0x0", Some(legacy()), |_| ()),
        request("0x1", Some(legacy()), |payload| payload.access_list = access_list),
        request("0x2", Some(eip1559()), |_| ()),
        request("0x4", Some(eip1559()), |payload| payload.authorization_list = authorization_list),
        request("estimated", None, |payload| {
            payload.gas_limit = None;
            payload.data = Some("0x2a".to_owned());
        }),
    ];
    for request in &requests {
        create(&[&node.client], 0, request).await;
    }
    chain.mine_while(wait_until_done(&node.client, "s0")).await;
    let ledger = SubmitterLedger::read(&node.client, "s0").await;
    assert_eq!(IntentOutcomes::of(&chain, &ledger).await.confirmed, requests.len());
    for kind in ["0x0", "0x1", "0x2", "0x4"] {
        let tx = on_chain(&chain, &ledger, kind).await;
        assert_eq!((tx["type"].as_str(), wei(&tx["gas"])), (Some(kind), u128::from(GAS)), "{tx}");
        if matches!(kind, "0x0" | "0x1") {
            assert_eq!(wei(&tx["gasPrice"]), PRICE, "{tx}");
        } else {
            assert_eq!((wei(&tx["maxFeePerGas"]), wei(&tx["maxPriorityFeePerGas"])), (PRICE, TIP), "{tx}");
        }
    }
    let code = chain.call("eth_getCode", json!([AccountKey::of(AUTHORITY).address(), "latest"])).await;
    assert!(code.as_str().unwrap().starts_with("0xef0100"), "the account has no delegated code: {code}");

    let call = json!({ "from": AccountKey::of(0).address(), "to": TO, "value": "0x1", "data": "0x2a" });
    let estimate = wei(&chain.call("eth_estimateGas", json!([call])).await);
    let tx = on_chain(&chain, &ledger, "estimated").await;
    assert_eq!(wei(&tx["gas"]), estimate * FACTOR / 1000 + CONSTANT);
    assert_eq!(chain.balance(TO).await, requests.len() as u64);
}

/// proves F03, F05
#[tokio::test(flavor = "multi_thread")]
async fn caller_fees_and_gas_are_kept_on_dev_chain() {
    caller_fees_are_kept(TestChain::dev(Mining::OnDemand).await).await;
}

/// proves F03, F05
#[tokio::test(flavor = "multi_thread")]
async fn caller_fees_and_gas_are_kept_on_anvil() {
    caller_fees_are_kept(TestChain::start(Mining::OnDemand)).await;
}

/// proves F03, F05
#[tokio::test(flavor = "multi_thread")]
async fn caller_fees_and_gas_are_kept_on_hardhat() {
    caller_fees_are_kept(TestChain::hardhat(Mining::OnDemand)).await;
}

/// proves F04
#[tokio::test(flavor = "multi_thread")]
async fn gas_price_is_used_and_bumped_without_base_fee() {
    let chain = TestChain::without_base_fee(Mining::OnDemand);
    chain.mine(1).await;
    let (_database, node) = node_on(&chain).await;
    let client = &node.client;
    create(&[client], 0, &transfer("s0", "plain", TO)).await;
    chain.mine_while(wait_until_done(client, "s0")).await;
    let bumped = create(&[client], 0, &transfer("s0", "bumped", TO)).await.tx_id;
    let query = TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
    let first = crate::support::eventually("the transaction is in the pool", async || {
        let attempt = client.tx(&bumped, &query).await.unwrap().attempts?.pop()?;
        (attempt.sends == 1).then_some(attempt)
    })
    .await;
    let price: u128 = first.fees.gas_price.unwrap().parse().unwrap();
    let fees = FeesPayload { gas_price: Some((2 * price).to_string()), ..FeesPayload::default() };
    let wait = Some(std::time::Duration::from_secs(60));
    client.resubmit_tx(&bumped, &ResubmitRequest { fees: Some(fees) }, wait).await.unwrap();
    // The command ends when the attempt is durable. A block before its send would mine the first attempt.
    crate::support::eventually("the new attempt is in the pool", async || {
        let attempts = client.tx(&bumped, &query).await.unwrap().attempts?;
        (attempts.len() == 2 && attempts[1].sends >= 1).then_some(())
    })
    .await;
    chain.mine_while(wait_until_done(client, "s0")).await;
    let ledger = SubmitterLedger::read(client, "s0").await;
    assert_eq!(IntentOutcomes::of(&chain, &ledger).await.confirmed, 2);
    let market_price = wei(&chain.call("eth_gasPrice", json!([])).await);
    for (request_id, paid) in [("plain", market_price), ("bumped", 2 * price)] {
        let tx = on_chain(&chain, &ledger, request_id).await;
        assert_eq!((tx["type"].as_str(), wei(&tx["gasPrice"])), (Some("0x0"), paid), "{tx}");
    }
}
