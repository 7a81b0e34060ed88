//! Repeated requests with one request id.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::ClientError;

use crate::support::{
    AcceptedRequest, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, start_three_nodes, transfer,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0011";

/// proves S11
#[tokio::test(flavor = "multi_thread")]
async fn request_repeated_at_three_nodes_takes_effect_once() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::PerTransaction));
    let nodes = start_three_nodes(&TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])).await;
    let request = transfer("s0", "order-42", TO);
    let answers = join_all((0..100).map(|n| nodes[n % 3].client.create_tx(&request))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let ids: BTreeSet<&str> = answers.iter().map(|(accepted, _)| accepted.tx_id.as_str()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(answers.iter().filter(|(_, is_new)| *is_new).count(), 1, "not exactly one call created the intent");
    wait_until_done(&nodes[0].client, "s0").await;

    // The answer is the same at every node after the intent is final.
    for node in &nodes {
        let (again, is_new) = node.client.create_tx(&request).await.unwrap();
        assert_eq!((again.tx_id.as_str(), is_new), (answers[0].0.tx_id.as_str(), false));
        let other = transfer("s0", "order-42", "0x00000000000000000000000000000000000a0012");
        let Err(ClientError::Problem(problem)) = node.client.create_tx(&other).await else {
            panic!("another payload was accepted under the same request id");
        };
        assert_eq!((problem.status, problem.code.as_str()), (409, "request_id_conflict"));
    }
    let accepted: Vec<AcceptedRequest> = vec![create(&[&nodes[1].client], 0, &request).await];
    let ledger = SubmitterLedger::read(&nodes[2].client, "s0").await;
    ledger.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, 1);
}
