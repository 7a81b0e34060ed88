//! Callers who sign by themselves, among others who do not, while the owner of their lane dies.

use std::time::Duration;

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::{
    ClientError, CommandState, NonceOptions, ReservationView, ReserveRequest, SubmitRequest, TxQuery, TxStateName,
    WithNonceError,
};
use serde_json::json;

use crate::support::{
    Accepted, Chain, Database, Doors, Key, Ledger, NodeConfig, eventually, hex, may_be_asked_again, owner, taken_over,
    three, transfer, unique, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0121";
/// Whom borrowers send to.
const BORROWED: &str = "0x00000000000000000000000000000000000a0122";
const BORROWERS: usize = 30;
const INTENTS: usize = 60;
/// Longer than it takes another node to take over, and much shorter than a test may last.
const LONG_HOLD: &str = "2m";
const SHORT_HOLD: &str = "2s";

/// proves N18
#[tokio::test(flavor = "multi_thread")]
async fn borrowed_nonces_outlive_their_owner_and_leave_no_gap_whatever_their_borrowers_do() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::Every(Duration::from_millis(100))).await);
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0]).short_lease().set("nonce.max_in_flight", "16");
    let mut nodes = three(&config).await;
    let doors = Doors::of(&nodes);
    // Whatever is handed in below stands behind this one, until the lane has another owner.
    let early = lent(&doors, 0, LONG_HOLD).await;
    let crash = async {
        let full = "SELECT count(*) FROM slot WHERE nonce >= 8";
        eventually("others are under way", async || (database.count(full).await > 0).then_some(())).await;
        let (victim, token) = owner(&nodes, "s0", 0).await;
        nodes[victim].signal("KILL");
        let (successor, _) = taken_over(&nodes, "s0", victim, token).await;
        hand_in(&doors, successor, early.nonce.unwrap(), &early.lock_owner).await.unwrap()
    };
    let borrowers = join_all((0..BORROWERS).map(|n| borrower(&doors, n)));
    let callers = join_all((0..INTENTS).map(|n| caller(&doors, n)));
    let (first, borrowed, accepted) = tokio::join!(crash, borrowers, callers);

    let (client, _) = eventually("a node is there", async || {
        let clients = (0..3).map(|turn| doors.client(turn));
        let asked = join_all(clients.map(|client| async move { (client.healthz().await.is_ok(), client) })).await;
        asked.into_iter().find(|(is_there, _)| *is_there).map(|(is_there, client)| (client, is_there))
    })
    .await;
    wait_until_done(&client, "s0").await;
    let address = Key::of(0).address();
    eventually("every nonce that was bound is used", async || {
        let bound = database.count("SELECT next_nonce FROM submitter_nonce_cursor").await;
        (chain.pending_count(&address).await == bound as u64 && chain.mined_of(&address).await.len() as i64 == bound)
            .then_some(())
    })
    .await;
    let ledger = Ledger::read(&client, "s0").await;
    let mut others = ledger.assert_confirmed_among_others(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, INTENTS as u64);
    let used: Vec<String> = borrowed.into_iter().flatten().chain([first]).collect();
    assert_eq!(chain.balance(BORROWED).await, used.len() as u64, "a refused transaction has happened, or one twice");
    for hash in &used {
        let tx = ledger.txs.values().find(|tx| tx.hash.as_ref() == Some(hash)).unwrap();
        assert_eq!(tx.state, TxStateName::Confirmed);
        assert_eq!(others.remove(&tx.nonce.unwrap()).as_ref(), Some(hash));
    }
    // What came back and nobody wanted: empty, and to nobody else.
    for hash in others.values() {
        let filler = chain.call("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!((&filler["to"], &filler["value"]), (&filler["from"], &json!("0x0")));
    }
}

/// As careful callers do: they ask again.
async fn caller(doors: &Doors, n: usize) -> Accepted {
    doors.create(n, &transfer("s0", &format!("r{n}"), TO)).await
}

/// Most sign, some fail before that, and some never come back in time. The hash of what was taken.
async fn borrower(doors: &Doors, n: usize) -> Option<String> {
    match n % 5 {
        3 => {
            gives_back(doors, n).await;
            None
        }
        4 => {
            comes_too_late(doors, n).await;
            None
        }
        _ => Some(signs(doors, n).await),
    }
}

async fn signs(doors: &Doors, n: usize) -> String {
    let mut request = request(LONG_HOLD);
    for turn in n.. {
        let (client, options) = (doors.client(turn), NonceOptions { request: request.clone(), wait: None });
        let given =
            client.with_nonce("s0", &options, |nonce| async move { Ok::<_, String>(signed(nonce.nonce()).await) });
        match given.await {
            Ok(result) => return result.hash.unwrap(),
            // Perhaps it was lent: the same request gets the same nonce.
            Err(WithNonceError::Reserve(error)) if may_be_asked_again(&error) => {}
            Err(WithNonceError::NotBound { .. }) => request = self::request(LONG_HOLD),
            Err(WithNonceError::Unknown { nonce, lock_owner, .. }) => {
                return hand_in(doors, turn + 1, nonce, &lock_owner).await.unwrap();
            }
            Err(error) => panic!("borrower {n}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("turns never end")
}

async fn gives_back(doors: &Doors, n: usize) {
    for turn in n.. {
        let (client, options) = (doors.client(turn), NonceOptions { request: request(SHORT_HOLD), wait: None });
        let failed = client.with_nonce("s0", &options, |_| async { Err::<Vec<u8>, _>("no key") });
        match failed.await {
            // Where the node is gone it was not given back, and its time runs out.
            Err(WithNonceError::Work { .. }) => return,
            Err(WithNonceError::Reserve(error)) if may_be_asked_again(&error) => {}
            Err(WithNonceError::NotBound { .. }) => {}
            other => panic!("borrower {n}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn comes_too_late(doors: &Doors, n: usize) {
    let lent = lent(doors, n, SHORT_HOLD).await;
    let mut turns = n..;
    eventually("its time is over", async || {
        let tx = doors.client(turns.next()?).tx(&lent.tx_id, &TxQuery::default()).await.ok()?;
        (tx.state == TxStateName::Canceled).then_some(())
    })
    .await;
    let nonce = lent.nonce.unwrap();
    let refused = hand_in(doors, n, nonce, &lent.lock_owner).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "reservation_lost");
    let refused =
        in_turn(n, async |turn| doors.client(turn).release_nonce("s0", nonce, &lent.lock_owner, None).await.map(Some))
            .await
            .unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "reservation_lost");
}

fn request(hold: &str) -> ReserveRequest {
    ReserveRequest { request_id: Some(unique()), lock_owner: Some(unique()), hold: Some(hold.to_owned()) }
}

/// Asks until it is lent, for the same request at each node in turn.
async fn lent(doors: &Doors, first: usize, hold: &str) -> ReservationView {
    let request = request(hold);
    let ask = async |turn| {
        let view = doors.client(turn).reserve_nonce("s0", &request, Some(Duration::from_secs(5))).await?;
        Ok(view.nonce.is_some().then_some(view))
    };
    in_turn(first, ask).await.unwrap()
}

/// The same bytes for the same nonce, always.
async fn signed(nonce: u64) -> Vec<u8> {
    Key::of(0).transfer(nonce, BORROWED).await
}

/// Hands the transaction in until the lane has come to it. Its hash comes back.
async fn hand_in(doors: &Doors, first: usize, nonce: u64, lock_owner: &str) -> Result<String, ClientError> {
    let request = SubmitRequest { lock_owner: lock_owner.to_owned(), raw: hex(&signed(nonce).await) };
    in_turn(first, async |turn| {
        let result = doors.client(turn).submit_nonce("s0", nonce, &request, None).await?;
        Ok((result.state == CommandState::Done).then_some(result.hash.unwrap()))
    })
    .await
}

/// The first answer that counts.
async fn in_turn<T>(
    first: usize,
    ask: impl AsyncFn(usize) -> Result<Option<T>, ClientError>,
) -> Result<T, ClientError> {
    let mut turns = first..;
    eventually("a node answers", async || match ask(turns.next()?).await {
        Ok(answer) => answer.map(Ok),
        Err(error) if may_be_asked_again(&error) => None,
        Err(error) => Some(Err(error)),
    })
    .await
}
