//! What operators do with a real node: cancels, the way into PROTECT and out of it, the audit log; and callers who sign by themselves.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use alloy_consensus::TxLegacy;
use gapless_chain_evm::{LocalSigner, Secret, Signer, UnsignedTx};
use gapless_domain::{Address, U256};
use gapless_wire::{Client, NonceOptions, TxQuery, TxStateName};
use serde_json::{Value, json};
use support::{DONE, Folder, PURSE, REFUSED, Running, SOMEBODY, Said, dev, run_with};

/// The key of dev-0, which everybody knows.
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

#[expect(clippy::unwrap_used, reason = "the helper of a test fails like the test itself")]
async fn signed(nonce: u64, value: u64) -> Vec<u8> {
    let signer = LocalSigner::from_hex(&Secret::new(KEY.to_owned())).unwrap();
    let tx = TxLegacy {
        chain_id: Some(31337),
        nonce,
        gas_price: 10_000_000_000,
        gas_limit: 21_000,
        to: PURSE.parse::<Address>().unwrap().into(),
        value: U256::from(value),
        input: Default::default(),
    };
    signer.sign_transaction(&UnsignedTx::Legacy(tx)).await.unwrap().to_vec()
}

/// One call of JSON-RPC to the dev chain.
#[expect(clippy::unwrap_used, reason = "the helper of a test fails like the test itself")]
fn rpc(dev: &Running, method: &str, params: &Value) -> Value {
    let address = dev.text("rpc").strip_prefix("http://").unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
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

#[expect(clippy::unwrap_used, reason = "the helper of a test fails like the test itself")]
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// proves A06
#[test]
fn what_waits_in_line_is_canceled_and_what_has_ended_is_not() {
    let folder = Folder::new();
    let dev = dev(&folder, &[]);
    let ask = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    assert_eq!(ask(&["submitter", "pause", "dev-1"]).code, DONE);
    let send = |name: &str| ask(&["tx", "send", "-s", "dev-1", "-r", name, "--to", SOMEBODY, "--json"]).json();
    let id = send("a")["txId"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let canceled = ask(&["tx", "cancel", &id, "--json"]);
        assert_eq!((canceled.code, &canceled.json()["state"]), (DONE, &"CANCELED".into()), "{canceled:#?}");
    }
    (0..5).for_each(|n| drop(send(&format!("b{n}"))));
    let all = ask(&["submitter", "cancel-pending", "dev-1", "--json"]);
    assert_eq!((all.code, &all.json()["canceledQueued"]), (DONE, &5.into()), "{all:#?}");
    assert_eq!(ask(&["submitter", "resume", "dev-1"]).code, DONE);
    let sent = ask(&["tx", "send", "-s", "dev-1", "-r", "c", "--to", SOMEBODY, "--wait", "--json"]);
    let id = sent.json()["txId"].as_str().unwrap().to_owned();
    let late = ask(&["tx", "cancel", &id, "--json"]);
    assert_eq!((late.code, &late.json()["error"]["problem"]["code"]), (REFUSED, &"already_final".into()), "{late:#?}");
    let unknown = ask(&["chain", "accept", "eip155:1", "--reason", "why not", "--json"]);
    assert_eq!(unknown.code, REFUSED, "{unknown:#?}");
    let log = ask(&["audit", "--subject", "dev-1", "--json"]).json();
    let actions: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["resume", "cancel_pending", "pause"]);
}

/// Somebody else uses the key: the submitter stops, says why and what to do, and an operator leads it out again.
///
/// proves N17
/// proves A06
#[test]
fn the_way_into_protect_and_out_of_it() {
    let folder = Folder::new();
    let dev = dev(&folder, &[]);
    let ask = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    let send = |name: &str, more: &[&str]| -> Said {
        let base = ["tx", "send", "-s", "dev-0", "-r", name, "--to", SOMEBODY, "--value", "1", "--json"];
        ask(&[&base[..], more].concat())
    };
    assert_eq!(send("first", &["--wait"]).code, DONE);
    let raw = block_on(signed(1, 7));
    let raw = format!("0x{}", raw.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let hash = rpc(&dev, "eth_sendRawTransaction", &json!([raw]));
    while rpc(&dev, "eth_getTransactionReceipt", &json!([hash])).is_null() {}
    let second = send("second", &[]).json()["txId"].as_str().unwrap().to_owned();
    let show = || ask(&["submitter", "show", "dev-0", "--json"]).json();
    let protected = (0..).map(|_| show()).find(|view| view["state"] == "PROTECT").unwrap();
    let code = protected["protect"]["code"].as_str().unwrap();
    assert!(["external_nonce", "foreign_transaction"].contains(&code), "{protected}");
    let told = ask(&["submitter", "show", "dev-0"]).out;
    assert!(told.contains("gapless submitter resync dev-0 --dry-run"), "{told}");

    let refused = send("third", &[]);
    assert_eq!(refused.code, REFUSED, "{refused:#?}");
    assert_eq!(refused.json()["error"]["problem"]["code"], "submitter_protected");
    assert_eq!(send("first", &[]).code, DONE, "a known request is known");
    let unprotect = ask(&["submitter", "unprotect", "dev-0", "--json"]);
    assert_eq!(unprotect.code, REFUSED, "{unprotect:#?}");
    assert_eq!(unprotect.json()["error"]["problem"]["code"], "refused");
    assert_eq!(ask(&["submitter", "resume", "dev-0"]).code, DONE);
    assert_eq!(show()["state"], "PROTECT", "resuming leads nowhere");
    // Only what is final counts.
    let count = |view: &Value| view["nonces"]["final"].as_u64();
    (0..).map(|_| show()).find(|view| count(view) >= Some(2)).unwrap();
    let dry = ask(&["submitter", "resync", "dev-0", "--dry-run"]);
    assert!(dry.code == DONE && dry.out.contains(hash.as_str().unwrap()), "{dry:#?}");
    assert_eq!(show()["state"], "PROTECT", "a dry run changes nothing");
    let resync = ask(&["submitter", "resync", "dev-0"]);
    assert_eq!(resync.code, DONE, "{resync:#?}");
    assert_ne!(show()["state"], "PROTECT");
    let watched = ask(&["tx", "watch", &second]);
    assert_eq!(watched.code, DONE, "{watched:#?}");
    assert_eq!(ask(&["tx", "get", &second, "--attempts", "--json"]).json()["nonce"], 2);
    let log = ask(&["audit", "--subject", "dev-0"]).out;
    assert!(log.contains("resync") && log.contains(hash.as_str().unwrap()), "{log}");
}

/// proves N18
#[test]
fn who_signs_by_itself_borrows_a_nonce_and_what_is_behind_it_goes_on() {
    let folder = Folder::new();
    let dev = dev(&folder, &[]);
    block_on(async {
        let client = Client::new(dev.text("api")).unwrap();
        let options = NonceOptions::default();
        let failed = client.with_nonce("dev-0", &options, |_| async { Err::<Vec<u8>, _>("no key") });
        assert!(failed.await.is_err());
        let sign = |nonce: gapless_wire::NonceContext| async move { Ok::<_, String>(signed(nonce.nonce(), 5).await) };
        let given = client.with_nonce("dev-0", &options, sign).await.unwrap();
        let query = TxQuery { wait: Some(std::time::Duration::from_secs(10)), ..TxQuery::default() };
        let mut view = client.tx(&given.tx_id, &query).await.unwrap();
        while !view.state.is_terminal() {
            view = client.tx(&given.tx_id, &query).await.unwrap();
        }
        assert_eq!((view.state, &view.hash), (TxStateName::Confirmed, &given.hash));
    });
    let ask = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    let behind = ask(&["tx", "send", "-s", "dev-0", "--to", PURSE, "--value", "1", "--wait", "--json"]);
    assert_eq!(behind.json()["state"], "CONFIRMED", "{behind:#?}");
    assert_eq!(rpc(&dev, "eth_getBalance", &json!([PURSE, "latest"])), "0x6");
}
