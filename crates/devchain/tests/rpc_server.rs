//! Behaviour of the server: limits, shutdown, interval mining, subscriptions across a reorg.

#![expect(clippy::unwrap_used, reason = "a failure in a test helper fails the test")]

mod rpc_support;

use std::net::TcpStream;
use std::time::Duration;

use gapless_devchain::rpc::{BlockProducer, Clock, Mining, RpcLimits, RpcServer, serve};
use gapless_devchain::{DevChain, Genesis};
use rpc_support::{LIMIT, http_client, payment, with_server};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

const CHAIN_ID: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;

#[tokio::test]
async fn oversized_or_non_json_body_is_refused_with_status() {
    let limits = RpcLimits { body_bytes: 1_000, batch_calls: 2, ..RpcLimits::default() };
    with_server(Mining::OnDemand, limits, async |served| {
        let padded = format!("{CHAIN_ID}{}", " ".repeat(1_000));
        assert_eq!(served.post("/", padded).await.unwrap().status(), 413);

        let batch = served.post("/", format!("[{CHAIN_ID},{CHAIN_ID},{CHAIN_ID}]")).await.unwrap();
        let answer: Value = serde_json::from_str(&batch.text().await.unwrap()).unwrap();
        assert_eq!(
            answer,
            json!([{ "jsonrpc": "2.0", "id": 1, "error": { "code": -32600, "message": "batch too large" } }])
        );
        let batch = served.post("/", format!("[{CHAIN_ID},{CHAIN_ID}]")).await.unwrap();
        assert_eq!(serde_json::from_str::<Vec<Value>>(&batch.text().await.unwrap()).unwrap().len(), 2);

        let plain = served.http.post(served.url("/")).header("content-type", "text/plain").body(CHAIN_ID);
        assert_eq!(plain.send().await.unwrap().status(), 415);
        let health = served.http.get(served.url("/")).send().await.unwrap();
        assert_eq!((health.status().as_u16(), health.text().await.unwrap()), (200, String::new()));
        assert_eq!(served.post("/elsewhere", CHAIN_ID.to_owned()).await.unwrap().status(), 404);
    })
    .await;
}

#[tokio::test]
async fn endpoint_count_and_name_length_are_bounded() {
    let limits = RpcLimits { endpoints: 2, endpoint_name_bytes: 4, ..RpcLimits::default() };
    with_server(Mining::OnDemand, limits, async |served| {
        let status = async |path: &str| served.post(path, CHAIN_ID.to_owned()).await.unwrap().status().as_u16();
        assert_eq!(status("/endpoint/long-name").await, 404);
        assert_eq!(status("/endpoint/one").await, 200);
        assert_eq!(status("/endpoint/two").await, 404, "the default endpoint counts");
        assert_eq!(status("/endpoint/one").await, 200);
    })
    .await;
}

#[tokio::test]
async fn excess_connection_waits_for_a_permit() {
    let limits = RpcLimits { connections: 1, ..RpcLimits::default() };
    with_server(Mining::OnDemand, limits, async |served| {
        // An idle connection takes the only permit.
        let silent = TcpStream::connect(served.address).unwrap();
        let client = http_client().timeout(Duration::from_millis(300)).build().unwrap();
        let ask = async |limit: Duration| {
            let request = client.post(served.url("/")).header("content-type", "application/json").body(CHAIN_ID);
            request.timeout(limit).send().await.map(|response| response.status().as_u16())
        };
        assert!(ask(Duration::from_millis(300)).await.unwrap_err().is_timeout());
        drop(silent);
        assert_eq!(ask(LIMIT).await.unwrap(), 200);
    })
    .await;
}

#[tokio::test]
async fn interval_mining_runs_until_stopped() {
    with_server(Mining::OnDemand, RpcLimits::default(), async |served| {
        let mut events = served.chain.subscribe();
        served.ok("/", "evm_setIntervalMining", json!([20])).await;
        for _ in 0..3 {
            events.recv().await.unwrap();
        }
        served.ok("/", "evm_setIntervalMining", json!([0])).await;
        let head = served.chain.view().head().number();
        assert!(head >= 3);
        // One block may have been in progress. Afterwards the head stays.
        let settled = served.ok("/", "eth_blockNumber", json!([])).await;
        let (raw, hash) = payment(0);
        served.ok("/", "eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(served.ok("/", "eth_blockNumber", json!([])).await, settled);
        served.ok("/", "evm_setAutomine", json!([true])).await;
        let (raw, _) = payment(1);
        served.ok("/", "eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(served.ok("/", "eth_getTransactionReceipt", json!([hash])).await["status"], "0x1");
    })
    .await;
}

#[tokio::test]
async fn manual_clock_reproduces_blocks() {
    let run = async || {
        let chain = DevChain::new(Genesis::dev());
        let producer = BlockProducer::new(chain.clone(), Mining::PerTransaction, Clock::Manual);
        let server = RpcServer::new(chain.clone(), Clock::Manual, Some(producer.switch()), RpcLimits::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel::<()>();
        let send = async move {
            let http = http_client().build().unwrap();
            for nonce in 0..3 {
                let params = [payment(nonce).0];
                let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": params });
                let request = http.post(&url).header("content-type", "application/json").body(call.to_string());
                assert!(request.send().await.unwrap().text().await.unwrap().contains("result"));
            }
            drop(end);
        };
        let shutdown = async {
            let _ = ended.await;
        };
        let (served, ()) = tokio::join!(serve(listener, server, shutdown), send);
        served.unwrap();
        chain.view().head().hash
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reorg_notifies_and_shutdown_ends_sockets_and_calls() {
    let chain = DevChain::new(Genesis::dev());
    let server = RpcServer::new(chain.clone(), Clock::Wall, None, RpcLimits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = ended.await;
    };
    let client = tokio::task::spawn_blocking(move || {
        let mut socket = connect(&format!("ws://{address}/endpoint/any"));
        let id = ask(&mut socket, "eth_subscribe", json!(["newHeads"]));
        let first = chain.mine_now().unwrap();
        assert_eq!(notification(&mut socket, &id)["hash"], json!(first.hash));
        let second = chain.reorg(1, gapless_devchain::Remine::Same).unwrap();
        let replaced = notification(&mut socket, &id);
        assert_eq!(replaced["number"], "0x1");
        assert_ne!(replaced["hash"], json!(first.hash));
        assert_eq!(notification(&mut socket, &id)["hash"], json!(second.hash));

        ask(
            &mut socket,
            "gapless_faults",
            json!(["mute", { "rules": [{ "on": "any", "fault": { "kind": "timeOutBefore" } }] }]),
        );
        let silenced = TcpStream::connect(address).unwrap();
        post(&silenced, "/endpoint/mute");
        // The server has received the call once its fault is counted.
        while ask(&mut socket, "gapless_faults", json!(["mute"]))["struck"] == 0 {}
        drop(end);
        assert!(socket.read().is_err(), "the socket is still open");
        let mut answer = String::new();
        // Either no bytes, or an answer that breaks off.
        let _ = std::io::Read::read_to_string(&mut &silenced, &mut answer);
        assert!(!answer.contains("jsonrpc"), "{answer}");
    });
    let (served, client) = tokio::join!(serve(listener, server, shutdown), client);
    served.unwrap();
    client.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_per_connection_are_bounded() {
    let limits = RpcLimits { subscriptions: 2, ..RpcLimits::default() };
    with_server(Mining::OnDemand, limits, async |served| {
        let url = served.ws_url("/");
        let asked = tokio::task::spawn_blocking(move || {
            let mut socket = connect(&url);
            let first = ask(&mut socket, "eth_subscribe", json!(["newHeads"]));
            let second = ask(&mut socket, "eth_subscribe", json!(["logs", {}]));
            assert_ne!(first, second);
            let refused = answer(&mut socket, "eth_subscribe", json!(["newHeads"]));
            assert_eq!(refused["error"]["code"], -32000, "{refused}");
            assert_eq!(ask(&mut socket, "eth_unsubscribe", json!([first])), true);
            ask(&mut socket, "eth_subscribe", json!(["newPendingTransactions"]));
        });
        asked.await.unwrap();
    })
    .await;
}

type Socket = WebSocket<MaybeTlsStream<TcpStream>>;

fn connect(url: &str) -> Socket {
    let (socket, _) = tungstenite::connect(url).unwrap();
    if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
    socket
}

fn answer(socket: &mut Socket, method: &str, params: Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    socket.send(Message::text(call.to_string())).unwrap();
    read(socket)
}

fn ask(socket: &mut Socket, method: &str, params: Value) -> Value {
    answer(socket, method, params)["result"].clone()
}

fn notification(socket: &mut Socket, id: &Value) -> Value {
    let message = read(socket);
    assert_eq!(message["params"]["subscription"], *id, "{message}");
    message["params"]["result"].clone()
}

fn read(socket: &mut Socket) -> Value {
    serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap()
}

fn post(mut stream: &TcpStream, path: &str) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        CHAIN_ID.len()
    );
    std::io::Write::write_all(&mut stream, format!("{head}{CHAIN_ID}").as_bytes()).unwrap();
}
