//! Keys and passwords never appear in logs, answers or rows.

use gapless_testbed::Mining;
use gapless_wire::{CallPayload, TxRequest};
use serde_json::json;

use crate::support::{
    NodeProcess, Secrets, TestChain, TestDatabase, TestFolder, TestNodeConfig, http, transfer, unique, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0061";

/// proves X03
#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_in_no_log_no_answer_and_no_row() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::PerTransaction));
    let hidden = Hidden::new();
    let (config, port) = (&hidden, chain.port());
    let rpc = [
        format!("http://{}:{}@127.0.0.1:{port}/?apikey={}", config.user, config.password, config.query),
        // These endpoints fail, and errors are logged.
        format!("http://127.0.0.1:{port}/v3/{}", config.path),
        format!("ws://{}:{}@127.0.0.1:1/v3/{}", config.user, config.password, config.path),
    ];
    // The test server accepts every password.
    let store = database.url.replacen("gapless@", &format!("gapless:{}@", config.store), 1);
    let config = TestNodeConfig::with_endpoints(&store, &rpc, &[])
        .secrets(Secrets { key: format!("0x{}", hidden.key) })
        .set("log.filter", "trace");
    let mut node = NodeProcess::start("a", &config).await;

    let mut outputs = visit(&node, &chain).await;
    node.signal("TERM");
    node.wait_for_end().await;
    outputs.push(("the log".to_owned(), node.log()));
    outputs.extend(commands(&config, &hidden));
    outputs.extend(rows(&database).await);
    for (name, text) in &outputs {
        hidden.assert_not_in(name, text);
    }
    // The outputs are complete: they have the texts that are not secret.
    assert!(outputs.iter().any(|(name, text)| name == "the log" && text.contains("CONFIRMED")));
    assert!(outputs.iter().any(|(name, text)| name.contains("managed_tx") && text.contains("CONFIRMED")));
}

/// The secrets of the test, each with a text of its own.
struct Hidden {
    key: String,
    user: String,
    password: String,
    query: String,
    path: String,
    store: String,
}

impl Hidden {
    fn new() -> Self {
        let secret = |kind: &str| format!("{kind}{}", unique());
        let key = format!("{}{}", unique(), unique());
        let (user, password) = (secret("usr"), secret("pwd"));
        Hidden { key, user, password, query: secret("qry"), path: secret("pth"), store: secret("sto") }
    }

    fn assert_not_in(&self, name: &str, text: &str) {
        // Hex digits may be in upper or lower case.
        let text = text.to_lowercase();
        let secrets = [&self.key, &self.user, &self.password, &self.query, &self.path, &self.store];
        for (secret, kind) in secrets.into_iter().zip(["key", "user", "password", "query", "path", "store's password"])
        {
            let shown = text.find(secret.as_str()).map(|at| {
                let start = text.floor_char_boundary(at.saturating_sub(200));
                &text[start..at]
            });
            assert_eq!(shown, None, "the {kind} is in {name} after this text");
        }
        // The key as a list of bytes, which is the debug output of bytes.
        let bytes: Vec<String> = self
            .key
            .as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap().to_string())
            .collect();
        assert!(!text.contains(&bytes.join(", ")), "the key is in {name} as a list of bytes");
    }
}

/// Calls the node with valid and invalid requests, and returns all answers.
async fn visit(node: &NodeProcess, chain: &TestChain) -> Vec<(String, String)> {
    let view = node.client.submitter("secret", &[]).await.unwrap();
    let address = view.submitter.rsplit(':').next().unwrap();
    chain.call("anvil_setBalance", json!([address, "0xde0b6b3a7640000"])).await;
    for n in 0..3 {
        node.client.create_tx(&transfer("secret", &format!("r{n}"), TO)).await.unwrap();
    }
    // Init code that fails.
    let failing = CallPayload { data: Some("0xfe".to_owned()), ..CallPayload::default() };
    node.client.create_tx(&TxRequest::new("secret", "failing", failing)).await.unwrap();
    wait_until_done(&node.client, "secret").await;
    let mut outputs = Vec::new();
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/nowhere",
        "/api/v1/chains",
        "/api/v1/submitters",
        "/api/v1/submitters/secret?expand=lease,nonces",
        "/api/v1/submitters/nobody",
        "/api/v1/tx?submitter=secret",
        "/api/v1/tx?submitter=secret&limit=-1",
        "/api/v1/tx/0",
        "/api/v1/tx/by-request?submitter=secret&requestId=r0&expand=attempts",
        "/api/v1/tx/by-request?submitter=secret&requestId=failing&expand=attempts",
    ] {
        let answer = http().get(format!("{}{path}", node.api)).send().await.unwrap();
        outputs.push((path.to_owned(), format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap())));
    }
    for body in [
        "",
        "{",
        "{\"submitter\":\"secret\"}",
        "{\"submitter\":\"secret\",\"requestId\":\"r0\",\"payload\":{\"value\":\"1\",\"data\":\"0x00\"}}",
    ] {
        let request = http().post(format!("{}/api/v1/tx", node.api)).header("content-type", "application/json");
        let answer = request.body(body).send().await.unwrap();
        assert!(answer.status().is_client_error(), "{body}: {}", answer.status());
        outputs.push((
            format!("the answer to {body}"),
            format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap()),
        ));
    }
    outputs
}

/// The output of commands, also of commands that fail because of an invalid secret.
fn commands(config: &TestNodeConfig, hidden: &Hidden) -> Vec<(String, String)> {
    let folder = TestFolder::new("commands");
    let short = config.clone().secrets(Secrets { key: hidden.key.clone() + "f" });
    let wrong = config.clone().secrets(Secrets { key: format!("0x{}zz", &hidden.key[2..]) });
    let rpc = [format!("htp://{}:{}@127.0.0.1:1/{}?k={}", hidden.user, hidden.password, hidden.path, hidden.query)];
    let other_scheme = TestNodeConfig::with_endpoints(&format!("mysql://u:{}@127.0.0.1/x", hidden.store), &rpc, &[]);
    let mut outputs = Vec::new();
    for (config, arguments) in [
        (config, &["config", "check"][..]),
        (config, &["config", "check", "--json"]),
        (config, &["migrate"]),
        (&short, &["serve"]),
        (&wrong, &["serve", "--json"]),
        (&other_scheme, &["config", "check"]),
        (&other_scheme, &["serve"]),
    ] {
        let output = config.command(folder.path(), arguments).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!text.is_empty(), "{arguments:?} printed nothing");
        outputs.push((format!("{arguments:?}"), text));
    }
    outputs
}

/// Every row of every table as text, with bytes in hex.
async fn rows(database: &TestDatabase) -> Vec<(String, String)> {
    let raw = database.raw().await;
    let tables = raw.query("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'", &[]).await.unwrap();
    let mut outputs = Vec::new();
    for table in tables.iter().map(|row| row.get::<_, String>(0)) {
        let rows = raw.query(&format!("SELECT t::text FROM \"{table}\" t"), &[]).await.unwrap();
        let text: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        outputs.push((format!("the table {table}"), text.join("\n")));
    }
    outputs
}
