//! `gapless dev`, and the commands that call a server.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use support::{EMPTY_ACCOUNT, FAILURE, RECIPIENT, REFUSED, RunningCommand, SUCCESS, TempFolder, dev, run, run_with};

/// proves A06
#[test]
fn transaction_is_sent_shown_and_confirmed() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[]);
    let api = dev.text("api").to_owned();
    assert_eq!(dev.ready.as_object().unwrap().len(), 4, "{}", dev.ready);
    assert!(dev.text("rpc").starts_with("http://127.0.0.1:"));
    assert_eq!(dev.text("chain"), "eip155:31337");
    let submitter = dev.ready["submitters"][0].as_str().unwrap().to_owned();
    assert_eq!(submitter, "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    assert_eq!(dev.ready["submitters"].as_array().unwrap().len(), 3);

    let gapless = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", &api)]);
    let send = ["tx", "send", "-s", "dev-0", "-r", "order-1", "--to", RECIPIENT, "--value", "1gwei"];
    let sent = gapless(&[&send[..], &["--json"]].concat());
    assert_eq!(sent.code, SUCCESS, "{sent:#?}");
    let id = sent.json()["txId"].as_str().unwrap().to_owned();
    let again = gapless(&[&send[..], &["--json", "--wait"]].concat());
    assert_eq!(
        (again.code, &again.json()["state"], &again.json()["txId"]),
        (SUCCESS, &"CONFIRMED".into(), &id.as_str().into())
    );
    let other = gapless(&[&send[..8], &["--value", "2gwei", "--json"]].concat());
    assert_eq!((other.code, &other.json()["error"]["problem"]["code"]), (REFUSED, &"request_id_conflict".into()));

    let got = gapless(&["tx", "get", &id, "--json"]).json();
    assert_eq!((&got["state"], got.get("nonce")), (&"CONFIRMED".into(), None));
    let by_request =
        gapless(&["tx", "get", "--submitter", &submitter, "--request-id", "order-1", "--attempts", "--json"]);
    assert_eq!((&by_request.json()["txId"], &by_request.json()["nonce"]), (&id.as_str().into(), &0.into()));
    let events = gapless(&["tx", "get", &id, "--events", "--json"]).json()["events"].as_array().unwrap().clone();
    assert_eq!((&events[0]["event"], &events[events.len() - 1]["state"]), (&"accepted".into(), &"CONFIRMED".into()));
    let text = gapless(&["tx", "get", &id, "--attempts", "--events"]).out;
    assert!(text.contains("1 accepted: QUEUED") && text.contains("original"), "{text}");
    let watched = gapless(&["tx", "watch", &id, "--json"]);
    assert_eq!((watched.code, watched.json_lines().len()), (SUCCESS, 1), "an ended transaction has one line");
    let listed = gapless(&["tx", "list", "--submitter", "dev-0", "--state", "confirmed", "--json"]);
    assert_eq!(listed.json()["items"][0]["txId"], id.as_str());
    let plain = gapless(&[&send[..], &["--wait"]].concat());
    assert!(plain.out.contains("CONFIRMED") && plain.err.contains(&id), "{plain:#?}");
    for (arguments, code) in [
        (&["tx", "get", "0190a6e0-0000-7000-8000-000000000000"][..], REFUSED),
        (&["tx", "get", "nonsense"], REFUSED),
        (&["tx", "send", "-s", "nobody", "--to", RECIPIENT], REFUSED),
        (&["tx", "send", "-s", "dev-0", "--to", "0x12"], REFUSED),
        (&["submitter", "show", "nobody"], REFUSED),
        (&["submitter", "show", "dev-0"], SUCCESS),
        (&["submitter", "list"], SUCCESS),
        (&["tx", "list"], SUCCESS),
    ] {
        let output = gapless(&[arguments, &["--json"]].concat());
        assert_eq!(output.code, code, "{arguments:?} {output:#?}");
        assert_eq!(output.json().get("error").is_some(), code != SUCCESS);
        assert_eq!(gapless(arguments).code, code, "{arguments:?}");
    }
    let (status, log) = dev.stop();
    assert_eq!(status.code(), Some(SUCCESS), "{log}");
}

/// A transaction that is not confirmed gives exit code 3, and one that does not end in time gives exit code 1.
///
/// proves A06
#[test]
fn exit_code_of_wait_shows_the_end_of_a_transaction() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[]);
    let gapless = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    // Init code that reverts.
    let reverts = gapless(&["tx", "send", "-s", "dev-0", "--data", "0x60006000fd", "--wait", "--json"]);
    assert_eq!((reverts.code, &reverts.json()["state"]), (REFUSED, &"FAILED_FINAL".into()), "{reverts:#?}");
    let paused = gapless(&["submitter", "pause", "dev-1", "--json"]);
    assert_eq!((paused.code, &paused.json()["state"]), (SUCCESS, &"done".into()), "{paused:#?}");
    let send = ["tx", "send", "-s", "dev-1", "-r", "a", "--to", RECIPIENT, "--wait", "--json"];
    let waits = gapless(&[&send[..], &["--timeout", "300ms"]].concat());
    assert_eq!((waits.code, &waits.json()["state"]), (FAILURE, &"QUEUED".into()), "{waits:#?}");
    assert_eq!(gapless(&["submitter", "show", "dev-1", "--json"]).json()["paused"], true);
    assert_eq!(gapless(&["submitter", "resume", "dev-1"]).code, SUCCESS);
    let goes_on = gapless(&send);
    assert_eq!((goes_on.code, &goes_on.json()["state"]), (SUCCESS, &"CONFIRMED".into()), "{goes_on:#?}");
}

/// One JSON-RPC call to the dev chain.
#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
fn rpc(dev: &RunningCommand, method: &str, params: &Value) -> Value {
    let address = dev.text("rpc").strip_prefix("http://").unwrap();
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, json) = answer.split_once("\r\n\r\n").unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    assert!(json.get("error").is_none(), "{method}: {json}");
    json["result"].clone()
}

/// The code of a contract that reverts every call with `data`, which it copies from behind its own code.
fn reverts_with(data: &str) -> String {
    let bytes = data.len() / 2;
    format!("0x60{bytes:02x}600a5f3960{bytes:02x}5ffd{data}")
}

/// proves R08
#[test]
fn reverted_transaction_fails_with_its_reason_when_final() {
    const FINAL: u64 = 12;
    let folder = TempFolder::new();
    let dev = dev(&folder, &[("GAPLESS__CONFIRMATIONS__REQUIRED", &FINAL.to_string())]);
    let gapless = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    // Error("too late"), a custom error with an argument, and the panic of an overflow.
    let word = |number: u32| format!("{number:064x}");
    let text = format!("08c379a0{}{}{:0<64}", word(32), word(8), "746f6f206c617465");
    let cases = [
        (text, "too late"),
        (format!("cf479181{}", word(7)), "custom error 0xcf479181"),
        (format!("4e487b71{}", word(0x11)), "panic 0x11: arithmetic overflow or underflow"),
    ];
    for (number, (data, reason)) in cases.iter().enumerate() {
        let contract = format!("0x00000000000000000000000000000000c0de{number:04x}");
        rpc(&dev, "anvil_setCode", &serde_json::json!([contract, reverts_with(data)]));
        let submitter = format!("dev-{number}");
        // With a gas limit of the caller there is no estimate, which would fail.
        let sent = gapless(&["tx", "send", "-s", &submitter, "--to", &contract, "--gas-limit", "100000", "--json"]);
        assert_eq!(sent.code, SUCCESS, "{sent:#?}");
        let id = sent.json()["txId"].as_str().unwrap().to_owned();
        let get = || gapless(&["tx", "get", &id, "--json"]).json();
        let expected = |tx: &Value| {
            let receipt = &tx["receipt"];
            let mined = rpc(&dev, "eth_getTransactionReceipt", &serde_json::json!([tx["hash"]]));
            let mined = |key: &str| u64::from_str_radix(&mined[key].as_str().unwrap()[2..], 16).unwrap();
            assert_eq!(mined("status"), 0);
            assert_eq!(receipt["status"], "reverted");
            assert_eq!(receipt["gasUsed"].as_u64(), Some(mined("gasUsed")));
            assert_eq!(receipt["effectiveGasPrice"], mined("effectiveGasPrice").to_string());
        };
        // The transaction is mined and reverted. After a reorg it might succeed, so it has not failed yet.
        let mined = (0..).map(|_| get()).find(|tx| tx.get("receipt").is_some()).unwrap();
        assert_eq!((&mined["state"], &mined["subState"]), (&"TRACKING".into(), &"MINED".into()), "{mined}");
        assert_eq!(mined.get("reason"), None, "{mined}");
        expected(&mined);
        let waited = gapless(&["tx", "watch", &id, "--json"]);
        assert_eq!(waited.code, REFUSED, "{waited:#?}");
        let ended = get();
        assert_eq!(ended["state"], "FAILED_FINAL", "{ended}");
        assert!(ended["confirmations"].as_u64() >= Some(FINAL), "{ended}");
        assert_eq!(ended["reason"], serde_json::json!({ "code": "reverted", "text": reason }));
        let revert = serde_json::json!({ "reason": reason, "data": format!("0x{data}") });
        assert_eq!(ended["receipt"]["revert"], revert);
        expected(&ended);
    }
}

#[test]
fn killed_dev_node_continues_with_its_ledger_and_chain() {
    let folder = TempFolder::new();
    let first = dev(&folder, &[]);
    let send = |dev: &RunningCommand, order: u32, more: &[&str]| {
        let order = format!("order-{order}");
        let base = ["tx", "send", "-s", "dev-0", "-r", &order, "--to", EMPTY_ACCOUNT, "--value", "1", "--json"];
        run_with(&folder, &[&base[..], more].concat(), &[("GAPLESS_API", dev.text("api"))])
    };
    let settled = send(&first, 0, &["--wait"]).json();
    assert_eq!(settled["state"], "CONFIRMED");
    let before = block_number(&first, &folder);
    assert!(before.is_some(), "the node has confirmed a transaction and does not know the head");
    for order in 1..10 {
        assert_eq!(send(&first, order, &[]).code, SUCCESS);
    }
    first.kill();
    let second = dev(&folder, &[]);
    for order in 0..10 {
        let output = send(&second, order, &["--wait"]);
        assert_eq!((output.code, &output.json()["state"]), (SUCCESS, &"CONFIRMED".into()), "{output:#?}");
    }
    assert!(block_number(&second, &folder) >= before);
    let receipt = &send(&second, 0, &["--wait"]).json()["receipt"];
    assert_eq!(receipt, &settled["receipt"], "the receipt of a final transaction has changed");
    let mut nonces: Vec<u64> = (0..10)
        .map(|order| {
            let id = send(&second, order, &[]).json()["txId"].as_str().unwrap().to_owned();
            let got =
                run_with(&folder, &["tx", "get", &id, "--attempts", "--json"], &[("GAPLESS_API", second.text("api"))]);
            got.json()["nonce"].as_u64().unwrap()
        })
        .collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (0..10).collect::<Vec<_>>());
}

/// The head that the node knows, or `None` before the first one.
fn block_number(dev: &RunningCommand, folder: &TempFolder) -> Option<u64> {
    let shown = run_with(folder, &["submitter", "show", "dev-0", "--json"], &[("GAPLESS_API", dev.text("api"))]);
    shown.json()["chainHead"].as_u64()
}

#[test]
fn used_port_and_used_folder_are_reported() {
    let folder = TempFolder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&folder, &["dev", "--json", "--listen", &address]);
    assert_eq!((output.code, &output.json()["error"]["code"]), (FAILURE, &"listen".into()));
    assert!(output.out.contains(&address), "{output:#?}");

    let running = dev(&folder, &[]);
    let second =
        RunningCommand::start(&folder, &["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", "data"], &[]);
    let output = second.err().expect("the folder is in use");
    assert_eq!(output.code, FAILURE, "{output:#?}");
    assert!(output.json()["error"]["message"].as_str().unwrap().contains("another process"), "{output:#?}");
    drop(running);
}

/// The first line of the answer to `GET /readyz`, or `None` if the port is closed.
fn readiness(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().next().map(str::to_owned)
}

/// Opens a call and leaves its body out.
#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
fn open_call(address: &str, body: usize) -> TcpStream {
    let mut call = TcpStream::connect(address).unwrap();
    let head =
        "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    write!(call, "{head}Content-Length: {body}\r\n\r\n").unwrap();
    // The server asks for the body, so it is processing the call.
    let mut go_on = [0; 25];
    call.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"), "{go_on:?}");
    call
}

/// An unfinished call does not keep a draining node from releasing its leases.
#[test]
fn unfinished_call_is_aborted_at_the_end_of_the_drain() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[("GAPLESS__NODE__DRAIN_TIMEOUT", "2s")]);
    let call = open_call(dev.text("api").strip_prefix("http://").unwrap(), 100);
    let (status, log) = dev.stop();
    assert_eq!(status.code(), Some(SUCCESS), "{log}");
    assert!(log.contains("open calls are aborted"), "{log}");
    drop(call);
}

/// A load balancer sees that the node is not ready while connections are still accepted, and an open call gets its
/// answer.
#[test]
fn drain_is_visible_first_and_answers_open_calls() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[]);
    let address = dev.text("api").strip_prefix("http://").unwrap().to_owned();
    assert!(readiness(&address).unwrap().contains("200"));
    let body =
        format!(r#"{{"submitter":"dev-0","requestId":"slow","payload":{{"to":"{EMPTY_ACCOUNT}","value":"1"}}}}"#);
    let mut call = TcpStream::connect(&address).unwrap();
    let head =
        "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    write!(call, "{head}Content-Length: {}\r\n\r\n", body.len()).unwrap();
    // The server asks for the body, so it is processing the call.
    let mut go_on = [0; 25];
    call.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"), "{go_on:?}");
    dev.send_sigterm();
    let mut seen = Vec::new();
    while let Some(line) = readiness(&address) {
        seen.push(line);
    }
    assert!(seen.last().is_some_and(|line| line.contains("503")), "the drain was not visible: {seen:?}");
    // The call is slow. The server neither answers it nor closes it.
    call.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let quiet = call.read(&mut [0; 1]).unwrap_err();
    assert!(matches!(quiet.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{quiet}");
    call.write_all(body.as_bytes()).unwrap();
    call.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = String::new();
    call.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let mut dev = dev;
    let (status, log) = dev.wait();
    assert_eq!(status.code(), Some(SUCCESS), "{log}");
}

#[test]
fn node_serves_with_a_config_file() {
    const KEY: &str = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
    let folder = TempFolder::new();
    let chain = RunningCommand::start(
        &folder,
        &["devchain", "--json", "--listen", "127.0.0.1:0", "--block-time", "100ms"],
        &[],
    );
    let chain = chain.unwrap_or_else(|output| panic!("{output:#?}"));
    assert_eq!(chain.ready["accounts"].as_array().map(Vec::len), Some(10));
    folder.write(
        "gapless.toml",
        &format!(
            "[node]\nlisten = \"127.0.0.1:0\"\n[auth]\nmode = \"none\"\n[store]\nurl = \"sqlite:node.db\"\n\
             [log]\nformat = \"json\"\n\
             [[chain]]\nid = \"eip155:31337\"\nrpc = \"{}\"\nconfirmations = 2\n\
             [[submitter]]\nalias = \"treasury\"\nchain = \"eip155:31337\"\n\
             signer = {{ type = \"env\", var = \"TREASURY_KEY\" }}\n",
            chain.text("rpc")
        ),
    );
    let no_key = run(&folder, &["serve", "--json"]);
    assert_eq!(no_key.code, REFUSED, "{no_key:#?}");
    assert!(no_key.json()["error"]["message"].as_str().unwrap().contains("TREASURY_KEY"));
    let node = RunningCommand::start(&folder, &["serve", "--json"], &[("TREASURY_KEY", KEY)]);
    let node = node.unwrap_or_else(|output| panic!("{output:#?}"));
    let send = ["tx", "send", "-s", "treasury", "--to", EMPTY_ACCOUNT, "--wait", "--json", "--api", node.text("api")];
    let sent = run(&folder, &send);
    assert_eq!(sent.json()["state"], "CONFIRMED", "{sent:#?}");
    let (status, log) = node.stop();
    assert_eq!(status.code(), Some(SUCCESS), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let bound = lines.iter().find(|line| line["event"] == "bind").expect("the log has no bind event");
    for field in ["submitter", "tx_id", "node_id", "fencing_token"] {
        assert!(bound.get(field).is_some(), "{bound}");
    }
    assert!(!log.contains(&KEY[2..]), "{log}");
    assert_eq!(chain.stop().0.code(), Some(SUCCESS));
}
