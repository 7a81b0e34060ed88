//! Tests over a real socket, with the public client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests need and cannot get is a failure")]

mod support;

use std::time::Duration;

use gapless_domain::Nonce;
use gapless_store::conformance::fixtures::{self, beside, soon};
use gapless_wire::{
    AuditQuery, CallPayload, Client, ClientError, CommandState, LaneStateName, ListQuery, LostRuleName, PageQuery,
    ProblemCode, ResyncRequest, SubmitterExpand, TxExpand, TxQuery, TxRequest, TxStateName,
};
use support::{House, house, treasury};
use tokio::net::TcpListener;

async fn serve(house: &House) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let router = house.router.clone();
    beside(async move { axum::serve(listener, router).await.unwrap() });
    client
}

fn transfer(request_id: &str) -> TxRequest {
    let to = Some("0x1111111111111111111111111111111111111111".to_owned());
    TxRequest::new("treasury", request_id, CallPayload { to, ..CallPayload::default() })
}

#[tokio::test]
async fn client_calls_every_route() {
    let house = house().await;
    let client = serve(&house).await;
    let (accepted, is_new) = client.create_tx(&transfer("a/b c?é")).await.unwrap();
    assert!(is_new);
    assert_eq!(accepted.submitter, treasury().as_str());
    assert!(!client.create_tx(&transfer("a/b c?é")).await.unwrap().1);
    let batch = client.create_batch(&[transfer("b"), transfer("c")]).await.unwrap();
    assert!(batch.results.iter().all(|item| item.status == 202 && item.transaction.is_some()));

    let waiting = {
        let (client, id) = (client.clone(), accepted.tx_id.clone());
        let query = TxQuery { wait: Some(Duration::from_secs(20)), expand: vec![TxExpand::Attempts], version: None };
        beside(async move { client.tx(&id, &query).await })
    };
    soon("the wait to begin", house.bell.listened.notified()).await;
    fixtures::bind_next(&house.store, &treasury()).await;
    house.bell.ring(&treasury());
    let view = soon("the change", waiting).await.unwrap().unwrap();
    assert_eq!((view.state, view.nonce), (TxStateName::Allocated, Some(Nonce::ZERO.get())));
    assert_eq!(view.hash, view.attempts.map(|attempts| attempts[0].hash.clone()));

    let found = client.tx_by_request("treasury", "a/b c?é", &TxQuery::default()).await.unwrap();
    assert_eq!(found.tx_id, accepted.tx_id);
    let page = PageQuery { limit: Some(2), cursor: None };
    let query = ListQuery { submitter: Some("treasury".to_owned()), state: None, page: page.clone() };
    let first = client.list_tx(&query).await.unwrap();
    assert_eq!(first.items.len(), 2);
    let rest = ListQuery { page: PageQuery { cursor: first.next_cursor, ..page }, ..query };
    assert_eq!(client.list_tx(&rest).await.unwrap().items.len(), 1);

    let submitter = client.submitter(treasury().as_str(), &[SubmitterExpand::Nonces]).await.unwrap();
    assert_eq!((submitter.state, submitter.nonces.and_then(|nonces| nonces.next)), (LaneStateName::InFlight, Some(1)));
    assert_eq!(client.submitters(&PageQuery::default()).await.unwrap().items.len(), 1);
    let paused = client.pause("treasury", None).await.unwrap();
    assert_eq!(client.command(&paused.command_id).await.unwrap().state, CommandState::Open);
    assert_eq!(client.resume("treasury", None).await.unwrap().state, CommandState::Open);
    assert_eq!(client.unprotect("treasury", None).await.unwrap().state, CommandState::Open);
    let resync = ResyncRequest { lost: Some(LostRuleName::Fail), dry_run: Some(true) };
    assert_eq!(client.resync("treasury", &resync, None).await.unwrap().state, CommandState::Open);
    let canceled = client.cancel_tx(&accepted.tx_id, None).await.unwrap();
    assert_eq!((canceled.state, canceled.command_state), (TxStateName::Allocated, Some(CommandState::Open)));
    assert_eq!(client.cancel_pending("treasury", None).await.unwrap().canceled_queued, 2);
    let shown = client.submitter_from("treasury", &[SubmitterExpand::Slots], Some(0)).await.unwrap();
    assert_eq!(shown.slots.map(|slots| slots.len()), Some(1));
    let chains = client.chains().await.unwrap();
    assert_eq!(chains, [client.chain(&chains[0].chain).await.unwrap()]);
    assert_eq!(client.accept_chain(&chains[0].chain, "why not").await.unwrap().reason, "why not");
    let query = AuditQuery { subject: Some(chains[0].chain.clone()), page: PageQuery::default() };
    assert_eq!(client.audit(&query).await.unwrap().items[0].action, "accept_chain");
    assert_eq!(client.healthz().await.unwrap(), client.readyz().await.unwrap());
    assert_eq!(client.metrics().await.unwrap(), "# nothing\n");
    assert!(client.openapi().await.unwrap().contains("createTx"));
}

#[tokio::test]
async fn client_distinguishes_refusal_from_silence() {
    let house = house().await;
    let client = serve(&house).await;
    let refused = client.tx("17", &TxQuery::default()).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().known_code(), Some(ProblemCode::InvalidRequest));
    house.drain.begin();
    assert_eq!(client.readyz().await.unwrap_err().problem().unwrap().retry_after, Some(1));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    assert!(matches!(nobody.healthz().await, Err(ClientError::Transport(_))));
    for address in ["", "localhost", "ftp://x", "http://"] {
        assert!(matches!(Client::new(address), Err(ClientError::Address(_))), "{address:?}");
    }
}
