//! Tests of valid and invalid input.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use axum::body::Body;
use axum::http::Request;
use gapless_api::ApiLimits;
use gapless_store::conformance::fixtures;
use serde_json::{Value, json};
use support::{House, house, house_limited, request, request_with, treasury};

#[tokio::test]
async fn repeated_request_returns_the_first_id() {
    let house = house().await;
    let first = house.post("/api/v1/tx", &request("order-42")).await;
    assert_eq!(first.status, 202);
    let id = first.json()["txId"].as_str().unwrap().to_owned();
    assert_eq!(first.header("location"), format!("/api/v1/tx/{id}"));
    assert_eq!(first.json()["state"], "QUEUED");
    assert_eq!(first.json()["requestId"], "order-42");
    let again = house.post("/api/v1/tx", &request("order-42")).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json(), first.json());
    let by_alias = request("order-42").replace(treasury().as_str(), "treasury");
    assert_eq!(house.post("/api/v1/tx", &by_alias).await.json()["txId"], id.as_str());
    let other = house.post("/api/v1/tx", &request_with("order-42", "2")).await;
    assert_eq!(other.problem(409, "request_id_conflict"), ["/requestId"]);
    assert_eq!(other.json()["txId"], id.as_str());
    assert_eq!(house.stored().await, 1);
}

#[tokio::test]
async fn repeated_request_returns_current_state() {
    let house = house().await;
    house.accept("a").await;
    fixtures::bind_next(&house.store, &treasury()).await;
    assert_eq!(house.post("/api/v1/tx", &request("a")).await.json()["state"], "ALLOCATED");
}

#[tokio::test]
async fn idempotency_key_replaces_request_id() {
    let house = house().await;
    let nameless = request("x").replace(r#""requestId":"x","#, "");
    let send = async |key: &'static [u8], body: &str| {
        let request = Request::post("/api/v1/tx").header("content-type", "application/json");
        let request = request.header("Idempotency-Key", key).body(Body::from(body.to_owned())).unwrap();
        house.send(request).await
    };
    let first = send(b"order-42", &nameless).await;
    assert_eq!(first.status, 202, "{}", first.text);
    assert_eq!(first.json()["requestId"], "order-42");
    assert_eq!(send(b"order-42", &request("order-42")).await.status, 200);
    assert_eq!(send(b"order-42", &request("order-43")).await.problem(422, "invalid_request"), ["/requestId"]);
    assert_eq!(send(b"\xff", &nameless).await.problem(422, "invalid_request"), ["/Idempotency-Key"]);
    assert_eq!(house.stored().await, 1);
}

/// proves A01
#[tokio::test]
async fn bad_input_names_its_place_and_stores_nothing() {
    let house = house().await;
    let good: Value = serde_json::from_str(&request("a")).unwrap();
    let cases: Vec<(&str, Value)> = vec![
        ("/submitter", json!(null)),
        ("/submitter", json!("eip155:1")),
        ("/submitter", json!("eip155:31337:0x12")),
        ("/submitter", json!("")),
        ("/requestId", json!("")),
        ("/requestId", json!(" a")),
        ("/requestId", json!("a\u{0}b")),
        ("/requestId", json!("x".repeat(129))),
        ("/requestId", json!(7)),
        ("/payload", json!("transfer")),
        ("/payload/to", json!("0x12")),
        ("/payload/to", json!("0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266")),
        ("/payload/value", json!(1)),
        ("/payload/value", json!("-1")),
        ("/payload/value", json!("1e18")),
        ("/payload/value", json!(format!("0x1{}", "0".repeat(64)))),
        ("/payload/data", json!("0x1")),
        ("/payload/data", json!("abcd")),
        ("/payload/data", json!(format!("0x{}", "00".repeat(120 * 1024 + 1)))),
        ("/payload/gasLimit", json!(20_999)),
        ("/payload/gasLimit", json!(1.5)),
        ("/payload/gasLimit", json!("0xfffffffffffffffff")),
        ("/payload/fees", json!({})),
        ("/payload/fees", json!({"maxFeePerGas": "1", "maxPriorityFeePerGas": "2"})),
        ("/payload/accessList", json!(vec![json!({"address": "0x1111111111111111111111111111111111111111"}); 257])),
        ("/payload/nonce", json!(7)),
        ("/nonce", json!(7)),
        ("/speed", json!("warp")),
        ("/validUntil", json!("tomorrow")),
        ("/metadata", json!({"note": "\u{0}"})),
        ("/metadata", json!("x".repeat(5000))),
    ];
    for (pointer, value) in cases {
        let mut bad = good.clone();
        place(&mut bad, pointer, value.clone());
        let answer = house.post("/api/v1/tx", &bad.to_string()).await;
        assert_eq!(answer.problem(422, "invalid_request"), [pointer], "{value}");
    }
    for (at, value, pointer) in [
        ("/payload/fees", json!({"gasPrice": "x"}), "/payload/fees/gasPrice"),
        ("/payload/fees", json!({"gasPrice": "1", "tip": "1"}), "/payload/fees/tip"),
        ("/payload/accessList", json!([{"address": "0x"}]), "/payload/accessList/0/address"),
        ("/payload/authorizationList", json!([{}]), "/payload/authorizationList/0/chainId"),
    ] {
        let mut bad = good.clone();
        place(&mut bad, at, value);
        let answer = house.post("/api/v1/tx", &bad.to_string()).await;
        assert_eq!(answer.problem(422, "invalid_request"), [pointer]);
    }
    for json in ["", "{", "[1,", "\"\\ud800", "{}{}"] {
        house.post("/api/v1/tx", json).await.problem(400, "malformed_json");
    }
    let unknown = request("a").replace(treasury().as_str(), fixtures::submitter(9).as_str());
    house.post("/api/v1/tx", &unknown).await.problem(404, "unknown_submitter");
    let unknown = request("a").replace(treasury().as_str(), "nobody");
    house.post("/api/v1/tx", &unknown).await.problem(404, "unknown_submitter");
    assert_eq!(house.stored().await, 0);
}

/// Sets a value at the pointer, whose parents exist.
fn place(json: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[key] = value;
}

/// proves A01
#[tokio::test]
async fn bad_path_or_parameter_names_its_place() {
    let house = house().await;
    let id = house.accept("a").await;
    for (target, pointers) in [
        ("/api/v1/tx/17".to_owned(), vec!["/txId"]),
        (format!("/api/v1/tx/{}", id.uuid().simple()), vec!["/txId"]),
        (format!("/api/v1/tx/{id}?wait=soon&expand=nonce&x=1"), vec!["/wait", "/expand", "/x"]),
        (format!("/api/v1/tx/{id}?version=-1"), vec!["/version"]),
        (format!("/api/v1/tx/{id}?wait=1s&wait=2s"), vec!["/wait"]),
        ("/api/v1/tx/by-request".to_owned(), vec!["/submitter", "/requestId"]),
        ("/api/v1/tx/by-request?submitter=a:b&requestId=%00".to_owned(), vec!["/submitter", "/requestId"]),
        ("/api/v1/tx?state=DONE&limit=0&cursor=x&page=2".to_owned(), vec!["/state", "/limit", "/cursor", "/page"]),
        ("/api/v1/tx?cursor=s%2B1".to_owned(), vec!["/cursor"]),
        ("/api/v1/tx?cursor=sffffffffffffffff".to_owned(), vec!["/cursor"]),
        ("/api/v1/submitters/a:b".to_owned(), vec!["/submitter"]),
        ("/api/v1/submitters?cursor=zzz".to_owned(), vec!["/cursor"]),
        ("/api/v1/commands/x".to_owned(), vec!["/commandId"]),
    ] {
        let answer = house.get(&target).await;
        assert_eq!(answer.problem(422, "invalid_request"), pointers, "{target}");
    }
    house.get("/api/v1/tx/%ff").await.problem(400, "malformed_request");
    house.get("/api/v1/tx/00000000-0000-7000-8000-000000000000").await.problem(404, "tx_not_found");
    house.get("/api/v1/tx/by-request?submitter=treasury&requestId=b").await.problem(404, "tx_not_found");
    house.get("/api/v1/tx/by-request?submitter=nobody&requestId=b").await.problem(404, "unknown_submitter");
    house.get("/api/v1/submitters/nobody").await.problem(404, "unknown_submitter");
    house.get("/api/v1/commands/99").await.problem(404, "command_not_found");
    house.get("/api/v1/commands/9999999999999999999").await.problem(404, "command_not_found");
    house.post("/api/v1/submitters/nobody/pause", "").await.problem(404, "unknown_submitter");
}

#[tokio::test]
async fn missing_resource_is_a_problem() {
    let house = house().await;
    for target in ["/", "/api", "/api/v1/tx/", "/api/v2/tx", "/api/v1/tx/x/y/z"] {
        house.get(target).await.problem(404, "not_found");
    }
    let delete = Request::delete("/api/v1/tx").body(Body::empty()).unwrap();
    let answer = house.send(delete).await;
    answer.problem(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), "POST,GET,HEAD");
    let post = Request::post("/healthz").body(Body::empty()).unwrap();
    assert_eq!(house.send(post).await.header("allow"), "GET,HEAD");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "json"] {
        let request = Request::post("/api/v1/tx").header("content-type", kind).body(Body::from(request("a"))).unwrap();
        house.send(request).await.problem(415, "unsupported_media_type");
    }
    let bare = Request::post("/api/v1/tx").body(Body::from(request("a"))).unwrap();
    house.send(bare).await.problem(415, "unsupported_media_type");
    assert_eq!(house.stored().await, 0);
}

/// proves A05
#[tokio::test]
async fn bodies_batches_pages_and_headers_have_limits() {
    let limits = ApiLimits { body_bytes: 4000, batch_items: 2, page_size_max: 3, ..ApiLimits::default() };
    let house = house_limited(limits).await;
    house.post("/api/v1/tx", &" ".repeat(4001)).await.problem(413, "body_too_large");
    // A request without a content length.
    let stream = futures_util::stream::iter((0..5).map(|_| Ok::<_, std::io::Error>(" ".repeat(1000))));
    let request = Request::post("/api/v1/tx").header("content-type", "application/json");
    let request = request.body(Body::from_stream(stream)).unwrap();
    house.send(request).await.problem(413, "body_too_large");
    let three = batch(&["a", "b", "c"]);
    assert_eq!(house.post("/api/v1/tx/batch", &three).await.problem(422, "too_many_items"), ["/transactions"]);
    let none = house.post("/api/v1/tx/batch", r#"{"transactions":[]}"#).await;
    assert_eq!(none.problem(422, "invalid_request"), ["/transactions"]);
    assert_eq!(house.get("/api/v1/tx?limit=4").await.problem(422, "invalid_request"), ["/limit"]);
    let long = Request::get("/api/v1/tx").header("x-long", "x".repeat(20_000)).body(Body::empty()).unwrap();
    house.send(long).await.problem(431, "headers_too_large");
    let target = format!("/api/v1/tx?state={}", "x".repeat(20_000));
    house.get(&target).await.problem(431, "headers_too_large");
    assert_eq!(house.stored().await, 0);
}

/// proves A05
#[tokio::test]
async fn slow_body_times_out() {
    let house = house().await;
    house.time.all_over();
    let never = futures_util::stream::pending::<Result<String, std::io::Error>>();
    let request = Request::post("/api/v1/tx").header("content-type", "application/json");
    let answer = house.send(request.body(Body::from_stream(never)).unwrap()).await;
    answer.problem(408, "body_timeout");
}

/// proves A05
#[tokio::test]
async fn concurrent_requests_are_limited_with_retry_after() {
    let house = house_limited(ApiLimits { in_flight_requests: 1, ..ApiLimits::default() }).await;
    let slow = futures_util::stream::pending::<Result<String, std::io::Error>>();
    let request = Request::post("/api/v1/tx").header("content-type", "application/json");
    let request = request.body(Body::from_stream(slow)).unwrap();
    let mut first = Box::pin(house.send(request));
    assert!(futures_util::poll!(&mut first).is_pending());
    let second = house.get("/api/v1/tx").await;
    second.problem(429, "too_many_requests");
    assert_eq!(second.header("retry-after"), "1");
    // Health routes are outside of the limit, or a busy node would look dead.
    assert_eq!(house.get("/healthz").await.status, 200);
    drop(first);
    assert_eq!(house.get("/api/v1/tx").await.status, 200);
}

fn batch(ids: &[&str]) -> String {
    let items: Vec<String> = ids.iter().map(|id| support::request(id)).collect();
    format!(r#"{{"transactions":[{}]}}"#, items.join(","))
}

#[tokio::test]
async fn batch_items_have_their_own_results() {
    let house = house().await;
    house.accept("known").await;
    let known = request("known");
    let conflict = request_with("known", "5");
    let shape = r#"{"submitter":"treasury","payload":{"to":1}}"#;
    let unknown = request("x").replace(treasury().as_str(), "nobody");
    let items = [request("b"), known, conflict, shape.to_owned(), "7".to_owned(), unknown, request("c"), request("b")];
    let answer = house.post("/api/v1/tx/batch", &format!(r#"{{"transactions":[{}]}}"#, items.join(","))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let results = answer.json()["results"].as_array().cloned().unwrap();
    let statuses: Vec<u64> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 200, 409, 422, 422, 404, 202, 200]);
    assert_eq!(results[0]["transaction"]["requestId"], "b");
    assert_eq!(results[7]["transaction"]["txId"], results[0]["transaction"]["txId"]);
    assert_eq!(results[2]["problem"]["code"], "request_id_conflict");
    assert_eq!(results[3]["problem"]["errors"][0]["pointer"], "/payload/to");
    assert_eq!(results[5]["problem"]["code"], "unknown_submitter");
    assert_eq!(in_line(&house).await, ["known", "b", "c"]);
}

async fn in_line(house: &House) -> Vec<String> {
    let queue = house.store.peek_queues(&[(treasury(), 100)], &[]).await.unwrap().remove(0);
    queue.iter().map(|tx| tx.intent.request_id().to_string()).collect()
}

#[tokio::test]
async fn batch_of_a_thousand_is_accepted() {
    let house = house().await;
    let ids: Vec<String> = (0..1000).map(|n| format!("order-{n}")).collect();
    let answer = house.post("/api/v1/tx/batch", &batch(&ids.iter().map(String::as_str).collect::<Vec<_>>())).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.json()["results"].as_array().unwrap().iter().all(|result| result["status"] == 202));
    assert_eq!(house.stored().await, 1000);
}
