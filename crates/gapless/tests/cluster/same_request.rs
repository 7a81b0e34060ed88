//! One request, asked many times.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::ClientError;

use crate::support::{Accepted, Chain, Database, Ledger, NodeConfig, create, three, transfer, wait_until_done};

const TO: &str = "0x00000000000000000000000000000000000a0011";

/// proves S11
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_asked_a_hundred_times_at_three_nodes_happens_once() {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::PerTransaction));
    let nodes = three(&NodeConfig::new(&database.url, &chain.ws_url(), &[0])).await;
    let request = transfer("s0", "order-42", TO);
    let answers = join_all((0..100).map(|n| nodes[n % 3].client.create_tx(&request))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let ids: BTreeSet<&str> = answers.iter().map(|(accepted, _)| accepted.tx_id.as_str()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(answers.iter().filter(|(_, is_new)| *is_new).count(), 1, "one call is the one that made it");
    wait_until_done(&nodes[0].client, "s0").await;

    // Long after it is final the answer is the same, at every node.
    for node in &nodes {
        let (again, is_new) = node.client.create_tx(&request).await.unwrap();
        assert_eq!((again.tx_id.as_str(), is_new), (answers[0].0.tx_id.as_str(), false));
        let other = transfer("s0", "order-42", "0x00000000000000000000000000000000000a0012");
        let Err(ClientError::Problem(problem)) = node.client.create_tx(&other).await else {
            panic!("another payload was taken for the same request");
        };
        assert_eq!((problem.status, problem.code.as_str()), (409, "request_id_conflict"));
    }
    let told: Vec<Accepted> = vec![create(&[&nodes[1].client], 0, &request).await];
    let ledger = Ledger::read(&nodes[2].client, "s0").await;
    ledger.assert_exactly_once(&chain, &told).await;
    assert_eq!(chain.balance(TO).await, 1);
}
