//! Log lines. These tests are alone in their file, because parallel tests would change the enabled log levels.

mod support;

use std::time::Duration;

use gapless_chain::{ChainReader as _, EndpointHealth};
use support::{FakeNode, chain, counted, later, plan, send, signed, submitter};

/// proves X03
#[test]
fn logs_and_metrics_show_no_secret_of_a_url() {
    let logs = support::Logs::default();
    let counts = tracing::subscriber::with_default(logs.clone(), || {
        counted(async {
            let node = FakeNode::start(|_| {}).await;
            let chain = chain(&[&node]);
            chain.head().await.unwrap();
            let tx = [signed(&chain, &plan(0)).await];
            for (status, body) in [(403, "key s3cr3ts3cr3t is not allowed"), (413, "s3cr3ts3cr3t: batch too large")] {
                node.change(|script| script.http = Some((status, "", body)));
                for _ in 0..4 {
                    send(&chain, &tx).await;
                    chain.accounts(&[submitter(0)], None).await.unwrap_err();
                }
            }
            node.change(|script| (script.http, script.chain_id) = (None, 1));
            later(Duration::from_secs(10)).await;
            chain.head().await.unwrap_err();
            assert_eq!(chain.endpoints()[0].health, EndpointHealth::WrongChain);
        })
    });
    let text = logs.text();
    assert!(text.contains("endpoint down") && text.contains("wrong chain id") && text.contains("127.0.0.1"), "{text}");
    for shown in [text, counts.keys()] {
        for secret in ["s3cr3t", "/v3/"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }
}
