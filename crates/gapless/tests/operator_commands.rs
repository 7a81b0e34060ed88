//! Operator commands on a real node: cancel, PROTECT and resync, the audit log; and reserved nonces.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use alloy_consensus::TxLegacy;
use gapless_chain_evm::{LocalSigner, Secret, UnsignedTx};
use gapless_domain::{Address, U256};
use gapless_wire::{Client, NonceOptions, TxQuery, TxStateName};
use serde_json::{Value, json};
use support::{CommandOutput, EMPTY_ACCOUNT, RECIPIENT, REFUSED, RunningCommand, SUCCESS, TempFolder, dev, run_with};

/// The private key of dev-0, which is public knowledge.
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
async fn signed(nonce: u64, value: u64) -> Vec<u8> {
    let signer = LocalSigner::from_hex(&Secret::new(KEY.to_owned())).unwrap();
    let tx = TxLegacy {
        chain_id: Some(31337),
        nonce,
        gas_price: 10_000_000_000,
        gas_limit: 21_000,
        to: EMPTY_ACCOUNT.parse::<Address>().unwrap().into(),
        value: U256::from(value),
        input: Default::default(),
    };
    signer.sign_transaction(&UnsignedTx::Legacy(tx)).to_vec()
}

/// One JSON-RPC call to the dev chain.
#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
fn rpc(dev: &RunningCommand, method: &str, params: &Value) -> Value {
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

#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// proves A06
#[test]
fn queued_transactions_are_canceled_and_ended_ones_are_not() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[]);
    let gapless = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    assert_eq!(gapless(&["submitter", "pause", "dev-1"]).code, SUCCESS);
    let send = |name: &str| gapless(&["tx", "send", "-s", "dev-1", "-r", name, "--to", RECIPIENT, "--json"]).json();
    let id = send("a")["txId"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let canceled = gapless(&["tx", "cancel", &id, "--json"]);
        assert_eq!((canceled.code, &canceled.json()["state"]), (SUCCESS, &"CANCELED".into()), "{canceled:#?}");
    }
    (0..5).for_each(|n| drop(send(&format!("b{n}"))));
    let all = gapless(&["submitter", "cancel-pending", "dev-1", "--json"]);
    assert_eq!((all.code, &all.json()["canceledQueued"]), (SUCCESS, &5.into()), "{all:#?}");
    assert_eq!(gapless(&["submitter", "resume", "dev-1"]).code, SUCCESS);
    let sent = gapless(&["tx", "send", "-s", "dev-1", "-r", "c", "--to", RECIPIENT, "--wait", "--json"]);
    let id = sent.json()["txId"].as_str().unwrap().to_owned();
    let late = gapless(&["tx", "cancel", &id, "--json"]);
    assert_eq!((late.code, &late.json()["error"]["problem"]["code"]), (REFUSED, &"already_final".into()), "{late:#?}");
    let unknown = gapless(&["chain", "accept", "eip155:1", "--reason", "why not", "--json"]);
    assert_eq!(unknown.code, REFUSED, "{unknown:#?}");
    let log = gapless(&["audit", "--subject", "dev-1", "--json"]).json();
    let actions: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["resume", "cancel_pending", "pause"]);
}

/// A foreign transaction puts the lane into PROTECT. `submitter show` names the next steps, and `resync` leads out of
/// it.
///
/// proves N17
/// proves A06
#[test]
fn foreign_transaction_protects_and_resync_recovers() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[]);
    let gapless = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    let send = |name: &str, more: &[&str]| -> CommandOutput {
        let base = ["tx", "send", "-s", "dev-0", "-r", name, "--to", RECIPIENT, "--value", "1", "--json"];
        gapless(&[&base[..], more].concat())
    };
    assert_eq!(send("first", &["--wait"]).code, SUCCESS);
    let raw = block_on(signed(1, 7));
    let raw = format!("0x{}", raw.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let hash = rpc(&dev, "eth_sendRawTransaction", &json!([raw]));
    while rpc(&dev, "eth_getTransactionReceipt", &json!([hash])).is_null() {}
    let second = send("second", &[]).json()["txId"].as_str().unwrap().to_owned();
    let show = || gapless(&["submitter", "show", "dev-0", "--json"]).json();
    let protected = (0..).map(|_| show()).find(|view| view["state"] == "PROTECT").unwrap();
    let code = protected["protect"]["code"].as_str().unwrap();
    assert!(["external_nonce", "foreign_transaction"].contains(&code), "{protected}");
    let text = gapless(&["submitter", "show", "dev-0"]).out;
    assert!(text.contains("gapless submitter resync dev-0 --dry-run"), "{text}");

    let refused = send("third", &[]);
    assert_eq!(refused.code, REFUSED, "{refused:#?}");
    assert_eq!(refused.json()["error"]["problem"]["code"], "submitter_protected");
    assert_eq!(send("first", &[]).code, SUCCESS, "PROTECT rejects a request that was accepted before");
    let unprotect = gapless(&["submitter", "unprotect", "dev-0", "--json"]);
    assert_eq!(unprotect.code, REFUSED, "{unprotect:#?}");
    assert_eq!(unprotect.json()["error"]["problem"]["code"], "refused");
    assert_eq!(gapless(&["submitter", "resume", "dev-0"]).code, SUCCESS);
    assert_eq!(show()["state"], "PROTECT", "resume does not lead out of PROTECT");
    // A resync adopts only final transactions.
    let count = |view: &Value| view["nonces"]["final"].as_u64();
    (0..).map(|_| show()).find(|view| count(view) >= Some(2)).unwrap();
    let dry = gapless(&["submitter", "resync", "dev-0", "--dry-run"]);
    assert!(dry.code == SUCCESS && dry.out.contains(hash.as_str().unwrap()), "{dry:#?}");
    assert_eq!(show()["state"], "PROTECT", "a dry run has changed the lane");
    let resync = gapless(&["submitter", "resync", "dev-0"]);
    assert_eq!(resync.code, SUCCESS, "{resync:#?}");
    assert_ne!(show()["state"], "PROTECT");
    let watched = gapless(&["tx", "watch", &second]);
    assert_eq!(watched.code, SUCCESS, "{watched:#?}");
    assert_eq!(gapless(&["tx", "get", &second, "--attempts", "--json"]).json()["nonce"], 2);
    let log = gapless(&["audit", "--subject", "dev-0"]).out;
    assert!(log.contains("resync") && log.contains(hash.as_str().unwrap()), "{log}");
}

/// proves N18
#[test]
fn reserved_nonce_is_used_and_the_next_intent_is_confirmed() {
    let folder = TempFolder::new();
    let dev = dev(&folder, &[]);
    block_on(async {
        let client = Client::new(dev.text("api")).unwrap();
        let options = NonceOptions::default();
        let failed = client.with_nonce("dev-0", &options, |_| async { Err::<Vec<u8>, _>("no key") });
        assert!(failed.await.is_err());
        let sign = |nonce: gapless_wire::NonceContext| async move { Ok::<_, String>(signed(nonce.nonce(), 5).await) };
        let submitted = client.with_nonce("dev-0", &options, sign).await.unwrap();
        let query = TxQuery { wait: Some(std::time::Duration::from_secs(10)), ..TxQuery::default() };
        let mut view = client.tx(&submitted.tx_id, &query).await.unwrap();
        while !view.state.is_terminal() {
            view = client.tx(&submitted.tx_id, &query).await.unwrap();
        }
        assert_eq!((view.state, &view.hash), (TxStateName::Confirmed, &submitted.hash));
    });
    let gapless = |arguments: &[&str]| run_with(&folder, arguments, &[("GAPLESS_API", dev.text("api"))]);
    let next = gapless(&["tx", "send", "-s", "dev-0", "--to", EMPTY_ACCOUNT, "--value", "1", "--wait", "--json"]);
    assert_eq!(next.json()["state"], "CONFIRMED", "{next:#?}");
    assert_eq!(rpc(&dev, "eth_getBalance", &json!([EMPTY_ACCOUNT, "latest"])), "0x6");
}
