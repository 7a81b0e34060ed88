//! `gapless dev`, and the commands that talk to a server.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use support::{DONE, FAILED, Folder, PURSE, REFUSED, Running, SOMEBODY, dev, run, run_with};

/// proves A06
#[test]
fn a_transaction_from_sending_to_its_end() {
    let folder = Folder::new();
    let dev = dev(&folder, &[]);
    let api = dev.text("api").to_owned();
    assert_eq!(dev.ready.as_object().unwrap().len(), 4, "{}", dev.ready);
    assert!(dev.text("rpc").starts_with("http://127.0.0.1:"));
    assert_eq!(dev.text("chain"), "eip155:31337");
    let submitter = dev.ready["submitters"][0].as_str().unwrap().to_owned();
    assert_eq!(submitter, "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    assert_eq!(dev.ready["submitters"].as_array().unwrap().len(), 3);

    let ask = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", &api)]);
    let send = ["tx", "send", "-s", "dev-0", "-r", "order-1", "--to", SOMEBODY, "--value", "1gwei"];
    let sent = ask(&[&send[..], &["--json"]].concat());
    assert_eq!(sent.code, DONE, "{sent:#?}");
    let id = sent.json()["txId"].as_str().unwrap().to_owned();
    let again = ask(&[&send[..], &["--json", "--wait"]].concat());
    assert_eq!(
        (again.code, &again.json()["state"], &again.json()["txId"]),
        (DONE, &"CONFIRMED".into(), &id.as_str().into())
    );
    let other = ask(&[&send[..8], &["--value", "2gwei", "--json"]].concat());
    assert_eq!((other.code, &other.json()["error"]["problem"]["code"]), (REFUSED, &"request_id_conflict".into()));

    let got = ask(&["tx", "get", &id, "--json"]).json();
    assert_eq!((&got["state"], got.get("nonce")), (&"CONFIRMED".into(), None));
    let by_request = ask(&["tx", "get", "--submitter", &submitter, "--request-id", "order-1", "--attempts", "--json"]);
    assert_eq!((&by_request.json()["txId"], &by_request.json()["nonce"]), (&id.as_str().into(), &0.into()));
    let events = ask(&["tx", "get", &id, "--events", "--json"]).json()["events"].as_array().unwrap().clone();
    assert_eq!((&events[0]["event"], &events[events.len() - 1]["state"]), (&"accepted".into(), &"CONFIRMED".into()));
    let told = ask(&["tx", "get", &id, "--attempts", "--events"]).out;
    assert!(told.contains("1 accepted: QUEUED") && told.contains("original"), "{told}");
    let watched = ask(&["tx", "watch", &id, "--json"]);
    assert_eq!((watched.code, watched.json_lines().len()), (DONE, 1), "it is over already");
    let listed = ask(&["tx", "list", "--submitter", "dev-0", "--state", "confirmed", "--json"]);
    assert_eq!(listed.json()["items"][0]["txId"], id.as_str());
    let plain = ask(&[&send[..], &["--wait"]].concat());
    assert!(plain.out.contains("CONFIRMED") && plain.err.contains(&id), "{plain:#?}");
    for (arguments, code) in [
        (&["tx", "get", "0190a6e0-0000-7000-8000-000000000000"][..], REFUSED),
        (&["tx", "get", "nonsense"], REFUSED),
        (&["tx", "send", "-s", "nobody", "--to", SOMEBODY], REFUSED),
        (&["tx", "send", "-s", "dev-0", "--to", "0x12"], REFUSED),
        (&["submitter", "show", "nobody"], REFUSED),
        (&["submitter", "show", "dev-0"], DONE),
        (&["submitter", "list"], DONE),
        (&["tx", "list"], DONE),
    ] {
        let said = ask(&[arguments, &["--json"]].concat());
        assert_eq!(said.code, code, "{arguments:?} {said:#?}");
        assert_eq!(said.json().get("error").is_some(), code != DONE);
        assert_eq!(ask(arguments).code, code, "{arguments:?}");
    }
    let (status, log) = dev.stop();
    assert_eq!(status.code(), Some(DONE), "{log}");
}

/// A transaction that ends otherwise than confirmed is a refusal; one that does not end in time is a failure.
///
/// proves A06
#[test]
fn waiting_tells_how_it_ended() {
    let folder = Folder::new();
    let dev = dev(&folder, &[]);
    let ask = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    // Init code that reverts.
    let reverts = ask(&["tx", "send", "-s", "dev-0", "--data", "0x60006000fd", "--wait", "--json"]);
    assert_eq!((reverts.code, &reverts.json()["state"]), (REFUSED, &"FAILED_FINAL".into()), "{reverts:#?}");
    let paused = ask(&["submitter", "pause", "dev-1", "--json"]);
    assert_eq!((paused.code, &paused.json()["state"]), (DONE, &"done".into()), "{paused:#?}");
    let send = ["tx", "send", "-s", "dev-1", "-r", "a", "--to", SOMEBODY, "--wait", "--json"];
    let waits = ask(&[&send[..], &["--timeout", "300ms"]].concat());
    assert_eq!((waits.code, &waits.json()["state"]), (FAILED, &"QUEUED".into()), "{waits:#?}");
    assert_eq!(ask(&["submitter", "show", "dev-1", "--json"]).json()["paused"], true);
    assert_eq!(ask(&["submitter", "resume", "dev-1"]).code, DONE);
    let goes_on = ask(&send);
    assert_eq!((goes_on.code, &goes_on.json()["state"]), (DONE, &"CONFIRMED".into()), "{goes_on:#?}");
}

/// One call of JSON-RPC to the dev chain.
#[expect(clippy::unwrap_used, reason = "the helper of a test fails like the test itself")]
fn rpc(dev: &Running, method: &str, params: &Value) -> Value {
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

/// A contract that reverts with this data, whatever it is asked: it copies it from behind its own code.
fn reverts_with(data: &str) -> String {
    let bytes = data.len() / 2;
    format!("0x60{bytes:02x}600a5f3960{bytes:02x}5ffd{data}")
}

/// proves R08
#[test]
fn what_reverts_is_told_with_its_reason_and_has_failed_only_when_that_is_final() {
    const FINAL: u64 = 12;
    let folder = Folder::new();
    let dev = dev(&folder, &[("GAPLESS__CONFIRMATIONS__REQUIRED", &FINAL.to_string())]);
    let ask = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
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
        // With a gas limit of its own nobody runs it before it is sent.
        let sent = ask(&["tx", "send", "-s", &submitter, "--to", &contract, "--gas-limit", "100000", "--json"]);
        assert_eq!(sent.code, DONE, "{sent:#?}");
        let id = sent.json()["txId"].as_str().unwrap().to_owned();
        let get = || ask(&["tx", "get", &id, "--json"]).json();
        let expected = |tx: &Value| {
            let receipt = &tx["receipt"];
            let mined = rpc(&dev, "eth_getTransactionReceipt", &serde_json::json!([tx["hash"]]));
            let mined = |key: &str| u64::from_str_radix(&mined[key].as_str().unwrap()[2..], 16).unwrap();
            assert_eq!(mined("status"), 0);
            assert_eq!(receipt["status"], "reverted");
            assert_eq!(receipt["gasUsed"].as_u64(), Some(mined("gasUsed")));
            assert_eq!(receipt["effectiveGasPrice"], mined("effectiveGasPrice").to_string());
        };
        // In a block, and reverted there: in another block it might go better.
        let mined = (0..).map(|_| get()).find(|tx| tx.get("receipt").is_some()).unwrap();
        assert_eq!((&mined["state"], &mined["subState"]), (&"TRACKING".into(), &"MINED".into()), "{mined}");
        assert_eq!(mined.get("reason"), None, "{mined}");
        expected(&mined);
        let waited = ask(&["tx", "watch", &id, "--json"]);
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
fn after_a_kill_ledger_and_chain_go_on_where_they_were() {
    let folder = Folder::new();
    let first = dev(&folder, &[]);
    let send = |dev: &Running, order: u32, more: &[&str]| {
        let order = format!("order-{order}");
        let base = ["tx", "send", "-s", "dev-0", "-r", &order, "--to", PURSE, "--value", "1", "--json"];
        run_with(&folder, &[&base[..], more].concat(), &[("GAPLESS_API", dev.text("api"))])
    };
    let settled = send(&first, 0, &["--wait"]).json();
    assert_eq!(settled["state"], "CONFIRMED");
    let before = block_number(&first, &folder);
    assert!(before.is_some(), "a node that has confirmed something knows the head");
    for order in 1..10 {
        assert_eq!(send(&first, order, &[]).code, DONE);
    }
    first.kill();
    let second = dev(&folder, &[]);
    for order in 0..10 {
        let said = send(&second, order, &["--wait"]);
        assert_eq!((said.code, &said.json()["state"]), (DONE, &"CONFIRMED".into()), "{said:#?}");
    }
    assert!(block_number(&second, &folder) >= before);
    let receipt = &send(&second, 0, &["--wait"]).json()["receipt"];
    assert_eq!(receipt, &settled["receipt"], "what was final is still there");
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

/// `None` before the node has read a head.
fn block_number(dev: &Running, folder: &Folder) -> Option<u64> {
    let shown = run_with(folder, &["submitter", "show", "dev-0", "--json"], &[("GAPLESS_API", dev.text("api"))]);
    shown.json()["chainHead"].as_u64()
}

#[test]
fn a_taken_port_and_a_taken_folder_are_told_clearly() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = run(&folder, &["dev", "--json", "--listen", &address]);
    assert_eq!((said.code, &said.json()["error"]["code"]), (FAILED, &"listen".into()));
    assert!(said.out.contains(&address), "{said:#?}");

    let running = dev(&folder, &[]);
    let second = Running::start(&folder, &["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", "data"], &[]);
    let said = second.err().expect("the folder is in use");
    assert_eq!(said.code, FAILED, "{said:#?}");
    assert!(said.json()["error"]["message"].as_str().unwrap().contains("another process"), "{said:#?}");
    drop(running);
}

/// The first line of the answer to `GET /readyz`, or `None` if nobody listens any more.
fn readiness(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().next().map(str::to_owned)
}

/// A call that still owes its body.
#[expect(clippy::unwrap_used, reason = "the helper of a test fails like the test itself")]
fn call_under_way(address: &str, body: usize) -> TcpStream {
    let mut call = TcpStream::connect(address).unwrap();
    let head =
        "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    write!(call, "{head}Content-Length: {body}\r\n\r\n").unwrap();
    // That the server asks for the body says that it is at it.
    let mut go_on = [0; 25];
    call.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"), "{go_on:?}");
    call
}

/// A caller that never ends its call does not keep a node from giving its leases back.
#[test]
fn a_call_without_end_is_cut_at_the_end_of_the_drain() {
    let folder = Folder::new();
    let dev = dev(&folder, &[("GAPLESS__NODE__DRAIN_TIMEOUT", "2s")]);
    let call = call_under_way(dev.text("api").strip_prefix("http://").unwrap(), 100);
    let (status, log) = dev.stop();
    assert_eq!(status.code(), Some(DONE), "{log}");
    assert!(log.contains("are cut"), "{log}");
    drop(call);
}

/// A balancer sees that the node is not ready while it is still served, and a call that is under way gets its answer.
#[test]
fn a_drain_is_told_first_and_cuts_no_call() {
    let folder = Folder::new();
    let dev = dev(&folder, &[]);
    let address = dev.text("api").strip_prefix("http://").unwrap().to_owned();
    assert!(readiness(&address).unwrap().contains("200"));
    let body = format!(r#"{{"submitter":"dev-0","requestId":"slow","payload":{{"to":"{PURSE}","value":"1"}}}}"#);
    let mut call = TcpStream::connect(&address).unwrap();
    let head =
        "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    write!(call, "{head}Content-Length: {}\r\n\r\n", body.len()).unwrap();
    // That it asks for the body says that the call is under way.
    let mut go_on = [0; 25];
    call.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"), "{go_on:?}");
    dev.ask_to_stop();
    let mut seen = Vec::new();
    while let Some(line) = readiness(&address) {
        seen.push(line);
    }
    assert!(seen.last().is_some_and(|line| line.contains("503")), "nobody could see that it drains: {seen:?}");
    // The call takes its time. Nothing is said about it, and it is not cut.
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
    assert_eq!(status.code(), Some(DONE), "{log}");
}

/// A node with a config of its own, on a chain of its own.
#[test]
fn a_node_serves_from_a_config_file() {
    const KEY: &str = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
    let folder = Folder::new();
    let chain =
        Running::start(&folder, &["devchain", "--json", "--listen", "127.0.0.1:0", "--block-time", "100ms"], &[]);
    let chain = chain.unwrap_or_else(|said| panic!("{said:#?}"));
    assert_eq!(chain.ready["accounts"].as_array().map(Vec::len), Some(10));
    folder.write(
        "gapless.toml",
        &format!(
            "[node]\nlisten = \"127.0.0.1:0\"\n[auth]\nmode = \"none\"\n[store]\nurl = \"sqlite:node.db\"\n\
             [log]\nformat = \"json\"\n\
             [[chain]]\nid = \"eip155:31337\"\nrpc = \"{}\"\nconfirmations = 2\n\
             [[submitter]]\nalias = \"treasury\"\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"TREASURY_KEY\" }}\n",
            chain.text("rpc")
        ),
    );
    let no_key = run(&folder, &["serve", "--json"]);
    assert_eq!(no_key.code, REFUSED, "{no_key:#?}");
    assert!(no_key.json()["error"]["message"].as_str().unwrap().contains("TREASURY_KEY"));
    let node = Running::start(&folder, &["serve", "--json"], &[("TREASURY_KEY", KEY)]);
    let node = node.unwrap_or_else(|said| panic!("{said:#?}"));
    let send = ["tx", "send", "-s", "treasury", "--to", PURSE, "--wait", "--json", "--api", node.text("api")];
    let sent = run(&folder, &send);
    assert_eq!(sent.json()["state"], "CONFIRMED", "{sent:#?}");
    let (status, log) = node.stop();
    assert_eq!(status.code(), Some(DONE), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let bound = lines.iter().find(|line| line["event"] == "bind").expect("a critical write is logged");
    for field in ["submitter", "tx_id", "node_id", "fencing_token"] {
        assert!(bound.get(field).is_some(), "{bound}");
    }
    assert!(!log.contains(&KEY[2..]), "{log}");
    assert_eq!(chain.stop().0.code(), Some(DONE));
}
