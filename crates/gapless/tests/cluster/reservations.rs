//! Callers with reserved nonces among ordinary callers, while the owner of their lane is killed.

use std::time::Duration;

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::{
    ClientError, CommandState, NonceOptions, ReservationView, ReserveRequest, SubmitRequest, TxQuery, TxStateName,
    WithNonceError,
};
use serde_json::json;

use crate::support::{
    AcceptedRequest, AccountKey, NodeClients, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, eventually,
    hex, is_retryable, owner, start_three_nodes, transfer, unique, wait_for_takeover, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0121";
/// The recipient of the transactions with reserved nonces.
const RESERVED_TO: &str = "0x00000000000000000000000000000000000a0122";
const RESERVATIONS: usize = 30;
const INTENTS: usize = 60;
/// Longer than a takeover, and much shorter than the time limit of a test.
const LONG_HOLD: &str = "2m";
const SHORT_HOLD: &str = "2s";

/// proves N18
#[tokio::test(flavor = "multi_thread")]
async fn reservations_survive_a_takeover_and_leave_no_gap() {
    let (database, chain) =
        (TestDatabase::shared().await, TestChain::dev(Mining::Every(Duration::from_millis(100))).await);
    let config =
        TestNodeConfig::new(&database.url, &chain.ws_url(), &[0]).short_lease().set("nonce.max_in_flight", "16");
    let mut nodes = start_three_nodes(&config).await;
    let node_clients = NodeClients::of(&nodes);
    // All later nonces wait for this one, until the lane has another owner.
    let early = reserve(&node_clients, 0, LONG_HOLD).await;
    let crash = async {
        let full = "SELECT count(*) FROM slot WHERE nonce >= 8";
        eventually("later nonces are bound", async || (database.count(full).await > 0).then_some(())).await;
        let (victim, token) = owner(&nodes, "s0", 0).await;
        nodes[victim].signal("KILL");
        let (successor, _) = wait_for_takeover(&nodes, "s0", victim, token).await;
        submit(&node_clients, successor, early.nonce.unwrap(), &early.lock_owner).await.unwrap()
    };
    let reservations = join_all((0..RESERVATIONS).map(|n| use_reservation(&node_clients, n)));
    let callers = join_all((0..INTENTS).map(|n| caller(&node_clients, n)));
    let (first, submitted, accepted) = tokio::join!(crash, reservations, callers);

    let (client, _) = eventually("a node answers", async || {
        let clients = (0..3).map(|turn| node_clients.client(turn));
        let asked = join_all(clients.map(|client| async move { (client.healthz().await.is_ok(), client) })).await;
        asked.into_iter().find(|(is_up, _)| *is_up).map(|(is_up, client)| (client, is_up))
    })
    .await;
    wait_until_done(&client, "s0").await;
    let address = AccountKey::of(0).address();
    eventually("every bound nonce is mined", async || {
        let bound = database.count("SELECT next_nonce FROM submitter_nonce_cursor").await;
        (chain.pending_count(&address).await == bound as u64 && chain.mined_of(&address).await.len() as i64 == bound)
            .then_some(())
    })
    .await;
    let ledger = SubmitterLedger::read(&client, "s0").await;
    let mut others = ledger.assert_confirmed_among_others(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, INTENTS as u64);
    let used: Vec<String> = submitted.into_iter().flatten().chain([first]).collect();
    assert_eq!(chain.balance(RESERVED_TO).await, used.len() as u64, "a refused transaction was mined, or one twice");
    for hash in &used {
        let tx = ledger.txs.values().find(|tx| tx.hash.as_ref() == Some(hash)).unwrap();
        assert_eq!(tx.state, TxStateName::Confirmed);
        assert_eq!(others.remove(&tx.nonce.unwrap()).as_ref(), Some(hash));
    }
    // The released nonces are filled by empty transfers of the account to itself.
    for hash in others.values() {
        let filler = chain.call("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!((&filler["to"], &filler["value"]), (&filler["from"], &json!("0x0")));
    }
}

/// An ordinary caller, which repeats its request until there is an answer.
async fn caller(node_clients: &NodeClients, n: usize) -> AcceptedRequest {
    node_clients.create(n, &transfer("s0", &format!("r{n}"), TO)).await
}

/// A caller with a reservation. Most submit in time, some release, and some are too late. Returns the submitted hash.
async fn use_reservation(node_clients: &NodeClients, n: usize) -> Option<String> {
    match n % 5 {
        3 => {
            release(node_clients, n).await;
            None
        }
        4 => {
            submit_too_late(node_clients, n).await;
            None
        }
        _ => Some(sign_and_submit(node_clients, n).await),
    }
}

async fn sign_and_submit(node_clients: &NodeClients, n: usize) -> String {
    let mut request = request(LONG_HOLD);
    for turn in n.. {
        let (client, options) = (node_clients.client(turn), NonceOptions { request: request.clone(), wait: None });
        let submitted =
            client.with_nonce("s0", &options, |nonce| async move { Ok::<_, String>(signed(nonce.nonce()).await) });
        match submitted.await {
            Ok(result) => return result.hash.unwrap(),
            // The nonce may be reserved already: the same request gets the same nonce.
            Err(WithNonceError::Reserve(error)) if is_retryable(&error) => {}
            Err(WithNonceError::NotBound { .. }) => request = self::request(LONG_HOLD),
            Err(WithNonceError::Unknown { nonce, lock_owner, .. }) => {
                return submit(node_clients, turn + 1, nonce, &lock_owner).await.unwrap();
            }
            Err(error) => panic!("reservation {n}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("turns never end")
}

async fn release(node_clients: &NodeClients, n: usize) {
    for turn in n.. {
        let (client, options) = (node_clients.client(turn), NonceOptions { request: request(SHORT_HOLD), wait: None });
        let failed = client.with_nonce("s0", &options, |_| async { Err::<Vec<u8>, _>("no key") });
        match failed.await {
            // If the node is gone, the nonce is not released and the hold expires.
            Err(WithNonceError::Work { .. }) => return,
            Err(WithNonceError::Reserve(error)) if is_retryable(&error) => {}
            Err(WithNonceError::NotBound { .. }) => {}
            other => panic!("reservation {n}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn submit_too_late(node_clients: &NodeClients, n: usize) {
    let reserved = reserve(node_clients, n, SHORT_HOLD).await;
    let mut turns = n..;
    eventually("the hold has expired", async || {
        let tx = node_clients.client(turns.next()?).tx(&reserved.tx_id, &TxQuery::default()).await.ok()?;
        (tx.state == TxStateName::Canceled).then_some(())
    })
    .await;
    let nonce = reserved.nonce.unwrap();
    let lock_owner = &reserved.lock_owner;
    let refused = submit(node_clients, n, nonce, lock_owner).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "reservation_lost");
    let refused =
        in_turn(n, async |turn| node_clients.client(turn).release_nonce("s0", nonce, lock_owner, None).await.map(Some))
            .await
            .unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "reservation_lost");
}

fn request(hold: &str) -> ReserveRequest {
    ReserveRequest { request_id: Some(unique()), lock_owner: Some(unique()), hold: Some(hold.to_owned()) }
}

/// Reserves a nonce, with the same request at each node in turn.
async fn reserve(node_clients: &NodeClients, first: usize, hold: &str) -> ReservationView {
    let request = request(hold);
    let ask = async |turn| {
        let view = node_clients.client(turn).reserve_nonce("s0", &request, Some(Duration::from_secs(5))).await?;
        Ok(view.nonce.is_some().then_some(view))
    };
    in_turn(first, ask).await.unwrap()
}

/// The signed bytes for a nonce, which are always the same.
async fn signed(nonce: u64) -> Vec<u8> {
    AccountKey::of(0).transfer(nonce, RESERVED_TO).await
}

/// Submits the transaction until the lane has executed the command, and returns its hash.
async fn submit(node_clients: &NodeClients, first: usize, nonce: u64, lock_owner: &str) -> Result<String, ClientError> {
    let request = SubmitRequest { lock_owner: lock_owner.to_owned(), raw: hex(&signed(nonce).await) };
    in_turn(first, async |turn| {
        let result = node_clients.client(turn).submit_nonce("s0", nonce, &request, None).await?;
        Ok((result.state == CommandState::Done).then_some(result.hash.unwrap()))
    })
    .await
}

/// Calls each node in turn until there is an answer.
async fn in_turn<T>(
    first: usize,
    ask: impl AsyncFn(usize) -> Result<Option<T>, ClientError>,
) -> Result<T, ClientError> {
    let mut turns = first..;
    eventually("a node answers", async || match ask(turns.next()?).await {
        Ok(answer) => answer.map(Ok),
        Err(error) if is_retryable(&error) => None,
        Err(error) => Some(Err(error)),
    })
    .await
}
