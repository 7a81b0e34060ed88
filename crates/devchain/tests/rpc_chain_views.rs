//! JSON-RPC behaviour that a chain watcher depends on: finality, branches, missing methods, preconfirmations, traces.

mod rpc_support;

use gapless_devchain::DEV_ACCOUNTS;
use gapless_devchain::rpc::{Mining, RpcLimits};
use rpc_support::{ServedDevChain, payment, with_server};
use serde_json::{Value, json};

async fn block(served: &ServedDevChain, path: &str, tag: &str) -> Value {
    served.ok(path, "eth_getBlockByNumber", json!([tag, false])).await
}

#[tokio::test]
async fn set_finality_is_partial_and_validated() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        served.ok("/", "anvil_mine", json!([100])).await;
        assert_eq!(block(served, "/", "safe").await["number"], "0x44");
        let set = served.ok("/", "gapless_setFinality", json!([{ "safe": 2 }])).await;
        assert_eq!(set, json!({ "safe": 2, "finalized": 64 }));
        served.ok("/", "gapless_setFinality", json!([{ "finalized": 10 }])).await;
        let [safe, finalized] = [block(served, "/", "safe").await, block(served, "/", "finalized").await];
        assert_eq!([&safe["number"], &finalized["number"]], ["0x62", "0x5a"]);
        for wrong in [json!([{ "safe": 11 }]), json!([{ "final": 1 }]), json!([])] {
            let answer = served.call("/", "gapless_setFinality", wrong).await;
            assert!(answer["error"]["message"].is_string(), "{answer}");
        }
        assert_eq!(block(served, "/", "safe").await["number"], "0x62");
    })
    .await;
}

#[tokio::test]
async fn method_can_be_missing_at_one_endpoint() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        let text = "the method eth_getBlockReceipts does not exist/is not available";
        let fault = json!({ "kind": "refuse", "code": -32601, "message": text });
        let rules = json!([{ "on": "eth_getBlockReceipts", "fault": fault }]);
        served.ok("/", "gapless_faults", json!(["poor", { "rules": rules }])).await;
        for _ in 0..3 {
            let answer = served.call("/endpoint/poor", "eth_getBlockReceipts", json!(["latest"])).await;
            assert_eq!(answer["error"], json!({ "code": -32601, "message": text }));
        }
        assert_eq!(served.ok("/endpoint/poor", "eth_blockNumber", json!([])).await, "0x0");
        assert_eq!(served.ok("/", "eth_getBlockReceipts", json!(["latest"])).await, json!([]));
        let calls = served.ok("/", "gapless_calls", json!(["poor"])).await;
        assert_eq!(calls, json!({ "eth_getBlockReceipts": 3, "eth_blockNumber": 1 }));
    })
    .await;
}

#[tokio::test]
async fn endpoint_can_flip_branches_or_get_stuck() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        served.ok("/", "anvil_mine", json!([3])).await;
        let old = block(served, "/", "latest").await["hash"].clone();
        served.ok("/", "gapless_faults", json!(["torn", { "flip": 1 }])).await;
        served.ok("/", "gapless_faults", json!(["stuck", { "stuckHead": true }])).await;
        let new = served.ok("/", "gapless_reorg", json!([2])).await;
        let mut torn = Vec::new();
        for _ in 0..4 {
            torn.push(block(served, "/endpoint/torn", "latest").await["hash"].clone());
        }
        assert_eq!(torn, [&new, &old, &new, &old].map(Value::clone));
        assert_eq!(block(served, "/endpoint/stuck", "latest").await["hash"], old);
        assert_eq!(served.ok("/endpoint/stuck", "eth_blockNumber", json!([])).await, "0x3");
        served.ok("/", "gapless_faults", json!(["stuck", { "stuckHead": false }])).await;
        assert_eq!(block(served, "/endpoint/stuck", "latest").await["hash"], new);
    })
    .await;
}

#[tokio::test]
async fn preconfirmed_transaction_may_be_late_or_dropped() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        served.ok("/", "gapless_faults", json!(["hasty", { "preconfirm": true }])).await;
        let receipt = async |path: &str, hash| served.ok(path, "eth_getTransactionReceipt", json!([hash])).await;
        let count = async |tag: &str| {
            served.ok("/endpoint/hasty", "eth_getTransactionCount", json!([DEV_ACCOUNTS[0].address, tag])).await
        };
        let [(raw, hash), (second, second_hash)] = [payment(0), payment(1)];
        served.ok("/", "eth_sendRawTransaction", json!([raw])).await;
        served.ok("/", "eth_sendRawTransaction", json!([second])).await;
        assert_eq!(receipt("/endpoint/hasty", second_hash).await["blockNumber"], "0x1");
        assert_eq!(receipt("/", second_hash).await, json!(null), "other endpoints do not preconfirm");
        assert_eq!((count("latest").await, count("pending").await), (json!("0x0"), json!("0x2")));

        served.ok("/", "gapless_mineEmpty", json!([])).await;
        assert_eq!(served.chain.view().head().txs.len(), 0);
        assert_eq!(
            receipt("/endpoint/hasty", second_hash).await["blockNumber"],
            "0x2",
            "the transaction is preconfirmed for the next block"
        );
        served.ok("/", "anvil_dropTransaction", json!([second_hash])).await;
        assert_eq!(receipt("/endpoint/hasty", second_hash).await, json!(null));
        assert_eq!(count("pending").await, "0x1");
        served.ok("/", "evm_mine", json!([])).await;
        assert_eq!(receipt("/", hash).await["blockNumber"], "0x2");
        assert_eq!(receipt("/", second_hash).await, json!(null));
        assert_eq!((count("latest").await, count("pending").await), (json!("0x1"), json!("0x1")));
    })
    .await;
}

#[tokio::test]
async fn trace_supports_only_top_calls() {
    with_server(Mining::PerTransaction, RpcLimits::default(), async |served| {
        let (raw, hash) = payment(0);
        served.ok("/", "eth_sendRawTransaction", json!([raw])).await;
        let top = json!({ "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } });
        let traced = served.ok("/", "debug_traceTransaction", json!([hash, top])).await;
        let expected = json!({
            "from": DEV_ACCOUNTS[0].address, "gas": "0x5208", "gasUsed": "0x5208", "input": "0x", "type": "CALL",
            "to": format!("0x{}", "ee".repeat(20)), "value": "0x1",
        });
        assert_eq!(traced.to_string().to_lowercase(), expected.to_string().to_lowercase());
        let refused = async |config: Value| {
            let answer = served.call("/", "debug_traceTransaction", json!([hash, config])).await;
            (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
        };
        for other in [json!({ "tracer": "prestateTracer" }), json!({}), Value::Null] {
            assert_eq!(refused(other).await, (-32000, "tracer not found".to_owned()));
        }
        assert_eq!(refused(json!({ "tracer": "callTracer" })).await.0, -32602, "a full trace is not supported");
    })
    .await;
}
