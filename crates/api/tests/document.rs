//! Tests of the OpenAPI document against the server's behaviour.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use support::{House, house, request, treasury};

async fn document(house: &House) -> Value {
    let answer = house.get("/openapi.json").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"));
    answer.json()
}

#[tokio::test]
async fn document_lists_exactly_the_routes() {
    let document = document(&house().await).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        found.extend(item.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
    }
    let expected = [
        "get /api/v1/audit",
        "get /api/v1/chains",
        "get /api/v1/chains/{chain}",
        "get /api/v1/commands/{commandId}",
        "get /api/v1/submitters",
        "get /api/v1/submitters/{submitter}",
        "get /api/v1/tx",
        "get /api/v1/tx/by-request",
        "get /api/v1/tx/{txId}",
        "get /healthz",
        "get /metrics",
        "get /readyz",
        "post /api/v1/chains/{chain}/accept",
        "post /api/v1/store/declare-lost",
        "post /api/v1/store/declare-reconciled",
        "post /api/v1/submitters/{submitter}/cancel-pending",
        "post /api/v1/submitters/{submitter}/nonces",
        "post /api/v1/submitters/{submitter}/nonces/{nonce}/release",
        "post /api/v1/submitters/{submitter}/nonces/{nonce}/submit",
        "post /api/v1/submitters/{submitter}/pause",
        "post /api/v1/submitters/{submitter}/resume",
        "post /api/v1/submitters/{submitter}/resync",
        "post /api/v1/submitters/{submitter}/unprotect",
        "post /api/v1/tx",
        "post /api/v1/tx/batch",
        "post /api/v1/tx/{txId}/cancel",
        "post /api/v1/tx/{txId}/replace",
        "post /api/v1/tx/{txId}/resubmit",
    ];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

fn references(json: &Value, into: &mut BTreeSet<String>) {
    match json {
        Value::Object(map) => {
            into.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, into));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

#[tokio::test]
async fn every_schema_reference_resolves() {
    let document = document(&house().await).await;
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 10);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn documented_words_equal_answered_words() {
    let document = document(&house().await).await;
    let words = |name: &str| document["components"]["schemas"][name]["enum"].clone();
    assert_eq!(words("FieldPlace"), json!(["body", "query", "path", "header"]));
    assert_eq!(words("TxStateName")[0], "QUEUED");
    assert_eq!(words("TxEventName")[0], "accepted");
    assert_eq!(words("MempoolSignalName"), json!(["in_mempool", "likely_dropped", "likely_replaced", "unknown"]));
    assert_eq!(words("TxCommandName"), json!(["replace", "resubmit"]));
    assert_eq!(words("Speed"), json!(["slow", "standard", "fast", "instant"]));
    assert_eq!(words("StoreDeclarationName"), json!(["lost", "reconciled"]));
    assert_eq!(words("FinalityName"), json!(["depth", "safe", "finalized"]));
    assert!(words("EndpointStandingName").as_array().unwrap().contains(&json!("rate_limited")));
    assert!(words("ProblemCode").as_array().unwrap().contains(&json!("request_id_conflict")));
}

#[tokio::test]
async fn schema_refuses_unknown_fields() {
    let document = document(&house().await).await;
    for name in [
        "TxRequest",
        "CallPayload",
        "FeesPayload",
        "BatchRequest",
        "ResyncRequest",
        "ReplaceRequest",
        "ResubmitRequest",
        "ReserveRequest",
        "SubmitRequest",
        "ReleaseRequest",
        "AcceptChainRequest",
        "DeclareRequest",
    ] {
        assert_eq!(document["components"]["schemas"][name]["additionalProperties"], json!(false), "{name}");
    }
}

/// A small fuzzer: each value for each parameter and field, valid or not. Every answer must be documented for the
/// operation, with its content type, and none may be a server error.
///
/// proves A02
#[tokio::test]
async fn every_answer_is_documented() {
    let house = house().await;
    let document = document(&house).await;
    let id = house.accept("a").await.to_string();
    let odd =
        ["", "a", "0", "-1", "1", "1.5", "null", "%00", "%ff", "x%2Fy", "eip155:1", "30s", "99999999999999999999"];
    let own = [
        id.as_str(),
        "treasury",
        treasury().as_str().to_owned().leak(),
        "attempts,events,confirmations",
        support::CHAIN,
        "lease,nonces",
        "s1",
        "a1",
        "slots",
        "QUEUED",
    ];
    let values: Vec<&str> = odd.into_iter().chain(own).collect();
    let mut statuses = BTreeSet::new();
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for request in requests(path, method, operation, &values) {
                let (target, request) = request;
                house.time.all_over();
                statuses.insert(check(&house, operation, method, &target, request).await);
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "{asked}");
    // Valid and invalid requests were both among them.
    assert!(statuses.is_superset(&BTreeSet::from([200, 202, 400, 404, 415, 422])), "{statuses:?}");
}

fn requests(path: &str, method: &str, operation: &Value, values: &[&str]) -> Vec<(String, Request<Body>)> {
    let mut targets = Vec::new();
    for value in values {
        if path.contains('{') && value.is_empty() {
            continue;
        }
        // Of two variable parts the last gets any value, and the first a submitter or the same value.
        let of_two = path.replacen("{submitter}", "treasury", usize::from(path.matches('{').count() == 2));
        let target = fill(&of_two, value);
        if of_two != path {
            targets.push(fill(path, value));
        }
        targets.push(target.clone());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "query" {
                for own in values {
                    targets.push(format!("{target}?{}={own}", parameter["name"].as_str().unwrap()));
                }
            }
        }
    }
    targets.sort();
    targets.dedup();
    let bodies = if operation.get("requestBody").is_some() { bodies() } else { vec![String::new()] };
    let mut requests = Vec::new();
    for target in targets {
        // Every body goes to the targets with a body, and some go everywhere.
        let is_good = values.iter().any(|value| value.len() == 36 && fill(path, value) == target)
            || [fill(path, "treasury"), fill(path, support::CHAIN)].contains(&target)
            || target.starts_with("/api/v1/submitters/treasury/nonces/0/");
        let bodies = if is_good && !target.contains('?') { &bodies[..] } else { &bodies[..bodies.len().min(4)] };
        for body in bodies {
            for kind in ["application/json", "text/plain"] {
                let request = Request::builder().method(method.to_uppercase().as_str()).uri(&target);
                let request = request.header("content-type", kind).body(Body::from(body.clone())).unwrap();
                requests.push((format!("{target} {body}"), request));
            }
        }
    }
    requests
}

/// The path with all variable parts replaced.
fn fill(path: &str, value: &str) -> String {
    match path.split_once('{').and_then(|(begin, rest)| Some((begin, rest.split_once('}')?.1))) {
        Some((begin, rest)) => format!("{begin}{value}{}", fill(rest, value)),
        None => path.to_owned(),
    }
}

fn bodies() -> Vec<String> {
    let mut bodies: Vec<String> =
        ["", "{", "{}", "[]", "null", "1", r#"{"transactions":null}"#, r#"{"transactions":[1,{}]}"#]
            .map(str::to_owned)
            .to_vec();
    let good: Value = serde_json::from_str(&request("fuzz")).unwrap();
    let odd = [json!(null), json!(""), json!("x"), json!(-1), json!(1.5), json!([]), json!({}), json!("0x")];
    for field in ["submitter", "requestId", "payload", "speed", "validUntil", "metadata", "extra"] {
        for value in &odd {
            let mut body = good.clone();
            body[field] = value.clone();
            bodies.push(json!({ "transactions": [body] }).to_string());
            bodies.push(body.to_string());
        }
    }
    for field in ["to", "value", "data", "gasLimit", "fees", "accessList", "authorizationList", "nonce"] {
        for value in &odd {
            let mut body = good.clone();
            body["payload"][field] = value.clone();
            bodies.push(body.to_string());
            bodies.push(json!({ "payload": body["payload"] }).to_string());
            bodies.push(json!({ "fees": { field: value } }).to_string());
        }
    }
    for fees in [json!({"gasPrice": "1"}), json!({"maxFeePerGas": "1", "maxPriorityFeePerGas": "2"})] {
        bodies.push(json!({ "fees": fees }).to_string());
    }
    bodies.push(json!({ "payload": good["payload"] }).to_string());
    for (field, value) in [("lockOwner", "me"), ("raw", "0x00"), ("hold", "1s"), ("reason", "why"), ("lost", "fail")] {
        bodies.extend(odd.iter().map(|odd| json!({ field: odd }).to_string()));
        bodies.push(json!({ field: value }).to_string());
    }
    bodies.push(json!({"lockOwner": "me", "raw": support::signed_by(&treasury(), 0, "x")}).to_string());
    bodies
}

async fn check(house: &House, operation: &Value, method: &str, target: &str, request: Request<Body>) -> u16 {
    let answer = house.send(request).await;
    let status = answer.status.as_u16();
    assert!(status < 500, "{method} {target}: {}", answer.text);
    let documented = &operation["responses"][status.to_string()];
    assert!(documented.is_object(), "{method} {target}: {status} is not documented: {}", answer.text);
    let kind = answer.header("content-type").split(';').next().unwrap().to_owned();
    assert!(documented["content"][&kind].is_object(), "{method} {target}: {status} as {kind}");
    if status >= 400 {
        let code = answer.code();
        answer.problem(status, &code);
    }
    status
}

/// Every field and parameter with a nonce allows both forms. The nonce of an authorization belongs to another account.
#[tokio::test]
async fn nonces_are_documented_as_number_or_text() {
    let document = document(&house().await).await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let forms = &schemas["JsonNonce"]["oneOf"];
    assert_eq!(forms[0]["maximum"].as_u64(), Some(9_007_199_254_740_991), "{forms}");
    assert_eq!((&forms[0]["type"], &forms[1]["type"]), (&json!("integer"), &json!("string")));
    let mut fields = Vec::new();
    // A page repeats the schema of its items.
    let is_own = |name: &str| name != "Authorization" && !name.starts_with("Page_");
    for (name, schema) in schemas.iter().filter(|(name, _)| is_own(name)) {
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_nonce = ["nonce", "nextSlot"].contains(&field.as_str()) || (name == "NoncesView");
            assert_eq!(schema.to_string().contains("/JsonNonce"), is_nonce, "{name}.{field}: {schema}");
            fields.extend(is_nonce.then(|| format!("{name}.{field}")));
        }
    }
    assert_eq!(fields.len(), 10, "{fields:?}");
    let paths = document["paths"].to_string();
    assert_eq!(paths.matches("/JsonNonce").count(), 3, "two paths and `fromSlot`");
}

/// A page in a browser on the same machine, by its own host name that points here, or across origins.
///
/// proves A02
#[tokio::test]
async fn foreign_page_is_refused_on_every_route() {
    let house = house().await;
    let document = document(&house).await;
    let foreign = [
        ("evil.example:8080", None),
        ("evil.example:8080", Some("http://evil.example:8080")),
        ("127.0.0.1:8080", Some("http://evil.example")),
        ("127.0.0.1:8080", Some("http://127.0.0.1:3000")),
        ("127.0.0.1:8080", Some("null")),
    ];
    let mut refused = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_api = path.starts_with("/api/");
            for (host, origin) in foreign {
                let request =
                    Request::builder().method(method.to_uppercase().as_str()).uri(path.replace(['{', '}'], ""));
                let request = request.header("host", host).header("content-type", "text/plain");
                let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
                let status = check(&house, operation, method, path, request.body(Body::empty()).unwrap()).await;
                assert_eq!(status == 403, is_api, "{method} {path} {host} {origin:?}: {status}");
                refused += usize::from(is_api);
            }
        }
    }
    assert!(refused > 50, "{refused}");
    // The refused commands wrote nothing.
    let lane = gapless_store::conformance::fixtures::view(&house.store, &treasury()).await.lane;
    assert!(lane.commands.is_empty());
}

#[tokio::test]
async fn own_page_and_plain_client_are_accepted() {
    let house = house().await;
    for (host, origin) in [
        (Some("localhost:8080"), Some("http://localhost:8080")),
        (Some("[::1]:8080"), Some("http://[::1]:8080")),
        (Some("127.0.0.1"), None),
        (None, None),
    ] {
        let mut call = Request::post("/api/v1/submitters/treasury/pause").body(Body::empty()).unwrap();
        for (name, value) in [("host", host), ("origin", origin)] {
            if let Some(value) = value {
                call.headers_mut().insert(name, value.parse().unwrap());
            }
        }
        let answer = house.send(call).await;
        assert_eq!(answer.status, 202, "{host:?} {origin:?}: {}", answer.text);
    }
    // A page without a host name is foreign.
    let nameless = Request::get("/api/v1/chains").header("origin", "http://localhost").body(Body::empty()).unwrap();
    house.send(nameless).await.problem(403, "foreign_origin");
}

#[tokio::test]
async fn docs_page_uses_no_other_host() {
    let page = house().await.get("/docs").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(page.text.contains("openapi.json"));
    assert!(!page.text.contains("http://") && !page.text.contains("https://") && !page.text.contains("//cdn"));
}
