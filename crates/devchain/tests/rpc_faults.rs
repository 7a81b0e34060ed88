//! Faults of endpoints over HTTP, with a chain served in process.

#![expect(clippy::expect_used, reason = "a failure in a test helper fails the test")]

mod rpc_support;

use std::time::Duration;

use gapless_devchain::rpc::{Mining, RpcLimits};
use gapless_devchain::{CallFilter, DEV_ACCOUNTS, Fault};
use rpc_support::{ServedDevChain, payment, with_server};
use serde_json::json;

/// Short, because these calls get no answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// Makes a call that times out, and returns the error.
async fn timed_out_call(
    served: &ServedDevChain,
    path: &str,
    method: &str,
    params: serde_json::Value,
) -> reqwest::Error {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = served.http.post(served.url(path)).header("content-type", "application/json").body(body);
    match request.timeout(PATIENCE).send().await {
        Ok(response) => response.text().await.expect_err("an answer came"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn timed_out_send_is_accepted_and_seen_after_lag() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        let rules = json!([{ "on": "sends", "times": 1, "fault": { "kind": "timeOutAfter" } }]);
        served.ok("/", "gapless_faults", json!(["flaky", { "rules": rules }])).await;
        served.ok("/", "gapless_faults", json!(["behind", { "lag": 2 }])).await;

        let (raw, hash) = payment(0);
        let error = timed_out_call(served, "/endpoint/flaky", "eth_sendRawTransaction", json!([raw])).await;
        assert!(error.is_timeout(), "{error:?}");
        // The caller does not know the outcome. The healthy endpoint has the transaction.
        let found = served.ok("/", "eth_getTransactionByHash", json!([hash])).await;
        assert_eq!(found["blockHash"], json!(null));
        let again = served.call("/endpoint/flaky", "eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(again["error"]["message"], "already known");

        served.ok("/", "evm_mine", json!([])).await;
        let receipt = |path| served.ok(path, "eth_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt("/").await["status"], "0x1");
        assert_eq!(receipt("/endpoint/behind").await, json!(null));
        assert_eq!(served.ok("/endpoint/behind", "eth_blockNumber", json!([])).await, "0x0");
        served.ok("/", "evm_mine", json!([])).await;
        served.ok("/", "evm_mine", json!([])).await;
        assert_eq!(receipt("/endpoint/behind").await["status"], "0x1");
        let count = json!([DEV_ACCOUNTS[0].address, "latest"]);
        assert_eq!(served.ok("/endpoint/behind", "eth_getTransactionCount", count).await, "0x1");
    })
    .await;
}

#[tokio::test]
async fn endpoint_faults_apply_over_http() {
    with_server(Mining::PerTransaction, RpcLimits::default(), async |served| {
        // The faults can also be set in process.
        let faults = served.server.endpoint("bad").expect("the endpoint is created").faults().clone();
        let (raw, hash) = payment(0);
        let send = async || served.call("/endpoint/bad", "eth_sendRawTransaction", json!([raw])).await;

        faults.next(CallFilter::Sends, 1, Fault::Drop);
        assert_eq!(send().await["result"], json!(hash));
        assert_eq!(served.ok("/", "eth_getTransactionByHash", json!([hash])).await, json!(null));

        faults.next(CallFilter::Sends, 1, Fault::Refuse { code: -32010, message: "AlreadyKnown".to_owned() });
        let answer = send().await;
        assert_eq!(
            (answer["error"]["code"].as_i64(), &answer["error"]["message"]),
            (Some(-32010), &json!("AlreadyKnown"))
        );

        faults.set_wrong_chain_id(Some(5));
        assert_eq!(served.ok("/endpoint/bad", "eth_chainId", json!([])).await, "0x5");
        assert_eq!(served.ok("/", "eth_chainId", json!([])).await, "0x7a69");

        faults.next(CallFilter::Sends, 1, Fault::WrongHash);
        let lied = send().await["result"].clone();
        assert!(lied.is_string() && lied != json!(hash), "{lied}");
        let receipt = served.ok("/", "eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!(receipt["status"], "0x1", "the send was accepted and mined");

        faults.next(CallFilter::Any, 1, Fault::Disconnect);
        let error = timed_out_call(served, "/endpoint/bad", "eth_chainId", json!([])).await;
        assert!(!error.is_timeout(), "{error:?}");
        faults.set_dead(true);
        let error = timed_out_call(served, "/endpoint/bad", "eth_chainId", json!([])).await;
        assert!(!error.is_timeout(), "{error:?}");
        assert_eq!(served.ok("/", "eth_blockNumber", json!([])).await, "0x1", "other endpoints are not affected");
    })
    .await;
}

#[tokio::test]
async fn rate_limit_has_status_and_retry_after() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        let fault = json!({ "kind": "http", "status": 429, "retryAfterSecs": 7, "body": "slow down" });
        let changes = json!({ "rules": [{ "on": "eth_blockNumber", "times": 1, "fault": fault }] });
        served.ok("/", "gapless_faults", json!(["default", changes])).await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#.to_owned();
        let response = served.post("/", body).await.expect("an answer");
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(response.text().await.expect("a body"), "slow down");
        let state = served.ok("/", "gapless_faults", json!(["default"])).await;
        assert_eq!(state, json!({ "lag": 0, "struck": 1 }));
    })
    .await;
}

#[tokio::test]
async fn invalid_faults_are_refused_without_effect() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        let drop = json!({ "kind": "drop" });
        for changes in [
            json!({ "lag": 4, "rules": [{ "on": "any", "times": 1, "permille": 3, "fault": drop }] }),
            json!({ "lag": 4, "rules": [{ "on": "any", "after": 1, "fault": drop }] }),
            json!({ "lag": 4, "rules": [{ "on": "any", "fault": { "kind": "explode" } }] }),
            json!({ "lag": 4, "lagg": 1 }),
        ] {
            let answer = served.call("/", "gapless_faults", json!(["x", changes])).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        assert_eq!(served.ok("/", "gapless_faults", json!(["x"])).await["lag"], 0);
    })
    .await;
}
