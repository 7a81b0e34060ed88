//! `gapless serve` on `gapless devchain --null`, the chain of the benchmarks.

mod support;

use std::time::Duration;

use gapless_wire::{Client, TxQuery, TxRequest, TxStateName};
use serde_json::json;
use support::{RunningCommand, TempFolder};

const INTENTS: usize = 200;
/// The first two well-known accounts: address and private key.
const ACCOUNTS: [(&str, &str); 2] = [
    (
        "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    ),
    (
        "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    ),
];

fn config(rpc: &str) -> String {
    let mut text = format!(
        "[node]\nlisten = \"127.0.0.1:0\"\n[auth]\nmode = \"none\"\n[store]\nurl = \"sqlite:null.db\"\n\
         [nonce]\nmax_in_flight = 64\n[confirmations]\nrequired = 1\n\
         [[chain]]\nid = \"eip155:31337\"\nrpc = [{rpc:?}]\n"
    );
    for index in 0..ACCOUNTS.len() {
        text += &format!(
            "[[submitter]]\nalias = \"s{index}\"\nchain = \"eip155:31337\"\n\
             signer = {{ type = \"env\", var = \"KEY_{index}\" }}\n"
        );
    }
    text
}

/// Transfers of each account to itself, because the null chain takes the recipient as the sender.
#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
fn requests() -> Vec<TxRequest> {
    let request = |number: usize| {
        let index = number % ACCOUNTS.len();
        let payload = json!({ "to": ACCOUNTS[index].0, "value": "1" });
        json!({ "submitter": format!("s{index}"), "requestId": format!("r{number}"), "payload": payload })
    };
    (0..INTENTS).map(|number| serde_json::from_value(request(number)).unwrap()).collect()
}

#[tokio::test]
async fn intents_are_confirmed_on_the_null_chain() {
    let folder = TempFolder::new();
    let chain = ["devchain", "--null", "--json", "--listen", "127.0.0.1:0"];
    let chain = RunningCommand::start(&folder, &chain, &[]).unwrap();
    assert_eq!(chain.text("chain"), "eip155:31337");
    folder.write("gapless.toml", &config(chain.text("rpc")));
    // The test does not read the log, and a full pipe would block the node.
    let keys = [("KEY_0", ACCOUNTS[0].1), ("KEY_1", ACCOUNTS[1].1), ("GAPLESS__LOG__FILTER", "warn")];
    let node = RunningCommand::start(&folder, &["serve", "--json", "--config", "gapless.toml"], &keys).unwrap();
    let client = Client::new(node.text("api")).unwrap();
    let accepted = client.create_batch(&requests()).await.unwrap();
    assert_eq!(accepted.results.len(), INTENTS);
    let query = TxQuery { wait: Some(Duration::from_secs(10)), ..TxQuery::default() };
    for item in accepted.results {
        let id = item.transaction.unwrap().tx_id;
        let mut view = client.tx(&id, &query).await.unwrap();
        while !view.state.is_terminal() {
            view = client.tx(&id, &query).await.unwrap();
        }
        assert_eq!(view.state, TxStateName::Confirmed, "{view:?}");
    }
    drop(node);
    let (status, log) = chain.stop();
    assert!(status.success(), "{log}");
}
