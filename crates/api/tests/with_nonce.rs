//! Tests of the client's `with_nonce` for every way to end. The test plays the lane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use gapless_domain::{Bytes, LockOwner, TxId};
use gapless_store::conformance::fixtures::{self, beside, soon};
use gapless_wire::{Client, CommandState, NonceFate, NonceOptions, ProblemCode, TxQuery, TxStateName, WithNonceError};
use serde_json::json;
use support::reservations::work;
use support::{House, OneChain, house, signed_by, treasury};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server, and a task that plays the lane.
async fn serve(house: &House) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    let house = house.on(OneChain::default());
    beside(async move {
        loop {
            house.bell.listened.notified().await;
            work(&house).await;
        }
    });
    client
}

fn raw(nonce: u64, what: &str) -> Vec<u8> {
    signed_by(&treasury(), nonce, what).parse::<Bytes>().unwrap().to_vec()
}

async fn is_back(house: &House, tx_id: &str) {
    let id: TxId = tx_id.parse().unwrap();
    let came_back = async {
        while !fixtures::view(&house.store, &treasury())
            .await
            .lane
            .reservations
            .iter()
            .any(|reservation| matches!(reservation.status, gapless_domain::ReservationStatus::Recyclable))
        {
            tokio::task::yield_now().await;
        }
    };
    soon("the release", came_back).await;
    assert!(house.store.attempts(id).await.unwrap().is_empty());
}

/// proves N18
#[tokio::test]
async fn with_nonce_submits_signed_bytes_once() {
    let house = house().await;
    let client = serve(&house).await;
    let options = NonceOptions::default();
    let work = |nonce: gapless_wire::NonceContext| async move {
        assert_eq!((nonce.nonce(), nonce.submitter()), (0, treasury().as_str()));
        assert_eq!(nonce.locked_until(), "2026-01-01T00:01:00Z");
        Ok::<_, String>(raw(nonce.nonce(), "mine"))
    };
    let given = soon("the hand-in", client.with_nonce("treasury", &options, work)).await.unwrap();
    assert_eq!(given.state, CommandState::Done);
    let view = client.tx(&given.tx_id, &TxQuery::default()).await.unwrap();
    assert_eq!((view.state, view.hash, view.payload), (TxStateName::Allocated, given.hash, None));

    // The closure submits the bytes and then returns them: one transaction.
    let work = |nonce: gapless_wire::NonceContext| async move {
        let bytes = raw(nonce.nonce(), "by itself");
        nonce.submit(&bytes).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(bytes)
    };
    let given = soon("the hand-in", client.with_nonce("treasury", &options, work)).await.unwrap();
    assert_eq!(house.store.attempts(given.tx_id.parse().unwrap()).await.unwrap().len(), 1);
    let work = |nonce: gapless_wire::NonceContext| async move {
        nonce.submit(&raw(nonce.nonce(), "and then")).await.map_err(|error| error.to_string())?;
        Err::<Vec<u8>, _>("something else".to_owned())
    };
    match soon("the failure", client.with_nonce("treasury", &options, work)).await.unwrap_err() {
        WithNonceError::Work { error, nonce: 2, fate: NonceFate::Used(_) } => assert_eq!(error, "something else"),
        other => panic!("{other:?}"),
    }
}

/// proves N18
#[tokio::test]
async fn with_nonce_releases_unused_nonce_on_every_exit() {
    for way in ["fails", "panics", "is dropped", "signs nonsense"] {
        let house = house().await;
        let client = serve(&house).await;
        let options = NonceOptions::default();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = move |nonce: gapless_wire::NonceContext| async move {
            tell.send(nonce.tx_id().to_owned()).unwrap();
            match way {
                "fails" => Err("no key".to_owned()),
                "panics" => panic!("a bug of the caller's"),
                "signs nonsense" => Ok(vec![1, 2, 3]),
                _ => std::future::pending().await,
            }
        };
        let running = {
            let client = client.clone();
            beside(async move { client.with_nonce("treasury", &options, work).await })
        };
        let tx_id = soon("the loan", told).await.unwrap();
        if way == "is dropped" {
            running.abort();
        }
        let ended = soon("the end", running).await;
        match (way, ended) {
            ("fails", Ok(Err(WithNonceError::Work { fate: NonceFate::Released, .. }))) => {}
            ("signs nonsense", Ok(Err(WithNonceError::Refused(error)))) => {
                assert_eq!(error.problem().unwrap().known_code(), Some(ProblemCode::InvalidRequest));
            }
            ("panics" | "is dropped", Err(_)) => {}
            (_, other) => panic!("{way}: {other:?}"),
        }
        is_back(&house, &tx_id).await;
    }
}

/// Takes one call, reports which one, and answers; without an answer it closes the connection.
async fn take_call(listener: &TcpListener, answer: Option<&str>) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut got = Vec::new();
    let is_whole = |got: &[u8]| {
        let text = String::from_utf8_lossy(got).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length =
            head.split_once("content-length: ").map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
        body.len() >= length
    };
    while !is_whole(&got) {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the call ended before its body");
        got.extend_from_slice(&part[..read]);
    }
    if let Some(answer) = answer {
        let head = "HTTP/1.1 200 Well\r\nConnection: close\r\nContent-Type: application/json\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{answer}", answer.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    String::from_utf8_lossy(&got).lines().next().unwrap().to_owned()
}

/// A client that does not know whether the transaction is on its way keeps the nonce and says so.
///
/// proves N18
#[tokio::test]
async fn with_nonce_keeps_nonce_after_unknown_submit() {
    for fails in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let running = {
            let client = client.clone();
            let work = move |nonce: gapless_wire::NonceContext| async move {
                let bytes = raw(nonce.nonce(), "mine");
                match fails {
                    true => nonce.submit(&bytes).await.map(|_| Vec::new()).map_err(|error| error.to_string()),
                    false => Ok::<_, String>(bytes),
                }
            };
            beside(async move {
                let ended = client.with_nonce("treasury", &NonceOptions::default(), work).await;
                let after = client.healthz().await;
                (ended, after)
            })
        };
        let loan = json!({"txId": "t", "submitter": "s", "requestId": "r", "lockOwner": "me", "nonce": 4,
            "lockedUntil": "2026-01-01T00:00:00Z"});
        let reserve = soon("the request", take_call(&listener, Some(&loan.to_string()))).await;
        assert!(reserve.starts_with("POST /api/v1/submitters/treasury/nonces?wait=30000ms "), "{reserve}");
        let submit = soon("the hand-in", take_call(&listener, None)).await;
        assert!(submit.starts_with("POST /api/v1/submitters/s/nonces/4/submit "), "{submit}");
        let next = soon("the next call", take_call(&listener, Some(r#"{"status":"ok"}"#))).await;
        assert!(next.starts_with("GET /healthz "), "nobody gives the nonce back: {next}");
        match soon("the end", running).await.unwrap().0 {
            Err(WithNonceError::Unknown { nonce: 4, lock_owner, source: Some(_), .. }) if !fails => {
                assert!(LockOwner::new(&lock_owner).is_some());
            }
            Err(WithNonceError::Work { fate: NonceFate::Unknown, nonce: 4, .. }) if fails => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn with_nonce_timeout_withdraws_reservation() {
    let house = house().await;
    house.time.all_over();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    let work = |_| async { Ok::<_, String>(Vec::new()) };
    let ended = soon("the end", client.with_nonce("treasury", &NonceOptions::default(), work)).await;
    let Err(WithNonceError::NotBound { tx_id }) = ended else { panic!("{ended:?}") };
    let view = client.tx(&tx_id, &TxQuery::default()).await.unwrap();
    assert_eq!(view.state, TxStateName::Canceled);
}

/// A durable command may have been executed before the next call was refused.
///
/// proves N18
#[tokio::test]
async fn with_nonce_refusal_after_durable_submit_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let running = beside(async move {
        let work = |nonce: gapless_wire::NonceContext| async move { Ok::<_, String>(raw(nonce.nonce(), "pay")) };
        client.with_nonce("treasury", &NonceOptions::default(), work).await
    });
    let loan = json!({"txId": "t", "submitter": "s", "requestId": "r", "lockOwner": "me", "nonce": 4,
        "lockedUntil": "2026-01-01T00:00:00Z"});
    soon("the request", take_call(&listener, Some(&loan.to_string()))).await;
    let open = json!({"txId": "t", "hash": "0x00", "state": "open", "commandId": "1"});
    soon("the hand-in", take_call(&listener, Some(&open.to_string()))).await;
    let lost = json!({"type": "urn:gapless:problem:reservation_lost", "title": "lost", "status": 409,
        "code": "reservation_lost"})
    .to_string();
    let (mut stream, _) = soon("the second hand-in", listener.accept()).await.unwrap();
    let mut part = [0; 4096];
    let _ = stream.read(&mut part).await.unwrap();
    let head = "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Type: application/problem+json\r\n";
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{lost}", lost.len()).as_bytes()).await.unwrap();
    drop(stream);
    match soon("the end", running).await.unwrap() {
        Err(WithNonceError::Unknown { .. }) => {}
        other => panic!("whether it was taken is not known, but it says {other:?}"),
    }
}

/// The caller is gone, so the nonce would never be used.
#[tokio::test]
async fn dropped_with_nonce_withdraws_reservation() {
    let house = house().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    let running = beside(async move {
        let work = |_: gapless_wire::NonceContext| async { Ok::<_, String>(Vec::new()) };
        client
            .with_nonce("treasury", &NonceOptions::default(), work)
            .await
            .map(|_| ())
            .map_err(|error| error.to_string())
    });
    soon("the wait", house.bell.listened.notified()).await;
    running.abort();
    let _ = running.await;
    // The withdrawal waits only for an answer.
    house.time.all_over();
    let withdrawn = async {
        while !fixtures::view(&house.store, &treasury()).await.queue.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("the withdrawal of a request that nobody waits for", withdrawn).await;
}
