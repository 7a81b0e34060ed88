//! The choice among several endpoints of one chain, and their status.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::time::Duration;

use gapless_chain::EndpointHealth::*;
use gapless_chain::{ChainReader as _, EndpointHealth, Reason, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions, SendTo};
use gapless_devchain::rpc::{Clock, RpcLimits, RpcServer, serve};
use gapless_devchain::{CallFilter, DevChain, Fault, Genesis};
use support::{CHAIN, FakeNode, Sending, chain, counted, later, options, plan, send, signed, submitter};
use tokio::task::JoinSet;

fn healths(chain: &EvmChain) -> Vec<EndpointHealth> {
    chain.endpoints().into_iter().map(|status| status.health).collect()
}

fn weighted(nodes: &[&FakeNode], weights: &[u32]) -> EvmChainOptions {
    let mut options = options(nodes);
    for (endpoint, weight) in options.rpc.iter_mut().zip(weights) {
        endpoint.weight = *weight;
    }
    options
}

fn connect(options: EvmChainOptions) -> EvmChain {
    EvmChain::connect(options).unwrap()
}

/// A dev chain, served with faults for each of its endpoints.
async fn dev_chain(urls: &[&str]) -> (DevChain, RpcServer, EvmChain, JoinSet<()>) {
    let dev = DevChain::new(Genesis::dev());
    let server = RpcServer::new(dev.clone(), Clock::Wall, None, RpcLimits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    let serving = server.clone();
    task.spawn(async move { serve(listener, serving, std::future::pending()).await.unwrap() });
    let rpc = urls.iter().map(|name| format!("http://{address}/endpoint/{name}").parse().unwrap()).collect();
    let mut options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc);
    options.rpc_timeout = Duration::from_secs(5);
    (dev, server, connect(options), task)
}

/// proves S10
#[tokio::test]
async fn reads_and_sends_succeed_with_one_healthy_endpoint() {
    let (dev, server, chain, _serving) = dev_chain(&["dead", "lagging", "foreign", "healthy"]).await;
    for _ in 0..30 {
        dev.mine_now().unwrap();
    }
    server.endpoint("dead").unwrap().faults().set_dead(true);
    server.endpoint("lagging").unwrap().faults().set_lag(20);
    server.endpoint("foreign").unwrap().faults().set_wrong_chain_id(Some(1));
    for nonce in 0..3 {
        let tx = signed(&chain, &plan(nonce)).await;
        assert_eq!(send(&chain, std::slice::from_ref(&tx)).await[0].verdict, Verdict::Accepted);
        dev.mine_now().unwrap();
        let head = chain.head().await.unwrap();
        assert_eq!(head.block.number, 31 + nonce);
        let view = chain.accounts(&[submitter(0)], Some(head.block)).await.unwrap()[0];
        assert_eq!((view.latest.get(), view.finalized.unwrap().get()), (nonce + 1, nonce + 1));
        assert!(chain.receipts(&[tx.hash]).await.unwrap()[0].is_some());
    }
    assert_eq!(healths(&chain), [Down, Lagging, WrongChain, Good]);
    let statuses = chain.endpoints();
    assert_eq!((statuses[1].lag, statuses[1].head), (Some(20), Some(13)));
    assert_eq!((statuses[3].lag, statuses[3].head, &statuses[3].last_error), (Some(0), Some(33), &None));
    assert!(statuses[0].last_error.is_some() && statuses[3].latency.is_some() && statuses[3].head_age.is_some());
    assert_eq!(statuses[3].errors_permille, Some(0));
    let names: std::collections::BTreeSet<_> = statuses.iter().map(|status| &status.name).collect();
    assert_eq!(names.len(), 4, "endpoints with one host and port have different names");

    // The endpoints recover and are used again.
    for name in ["dead", "lagging", "foreign"] {
        server.endpoint(name).unwrap().faults().clear();
    }
    later(Duration::from_secs(61)).await;
    while healths(&chain) != [Good; 4] {
        chain.head().await.unwrap();
    }
}

#[tokio::test]
async fn retry_after_is_kept_even_by_the_only_endpoint() {
    let (_dev, server, chain, _serving) = dev_chain(&["only"]).await;
    chain.head().await.unwrap();
    let faults = server.endpoint("only").unwrap();
    let fault = Fault::Http { status: 429, retry_after_secs: Some(20), body: "slow down".to_owned() };
    faults.faults().next(CallFilter::Any, 1, fault);
    let error = chain.head().await.unwrap_err().classified;
    assert_eq!((error.verdict, faults.faults().fault_count()), (Verdict::RateLimited, 1));
    assert_eq!(healths(&chain), [RateLimited]);
    // From here on every incoming call is counted.
    faults.faults().always(CallFilter::Any, Fault::Refuse { code: -32000, message: "too early".to_owned() });
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..3 {
        assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::RateLimited);
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::RateLimited);
    }
    assert_eq!(faults.faults().fault_count(), 1, "no request came before the time");
    faults.faults().clear();
    later(Duration::from_secs(19)).await;
    assert_eq!(healths(&chain), [RateLimited]);
    later(Duration::from_secs(1)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(healths(&chain), [Good]);
}

#[tokio::test]
async fn reads_are_spread_by_weight_among_newest_heads() {
    let (one, three, spare, behind) = (
        FakeNode::start(|_| {}).await,
        FakeNode::start(|_| {}).await,
        FakeNode::start(|_| {}).await,
        FakeNode::start(|script| script.head = 99).await,
    );
    let chain = connect(weighted(&[&one, &three, &spare, &behind], &[1, 3, 0, 9]));
    chain.head().await.unwrap();
    for _ in 0..40 {
        chain.accounts(&[submitter(0)], None).await.unwrap();
    }
    let reads = [&one, &three, &spare, &behind].map(|node| node.count("eth_getBalance"));
    assert_eq!(reads, [10, 30, 0, 0]);
    assert_eq!(healths(&chain), [Good; 4], "one block behind is within the limit");
    assert_eq!(chain.endpoints().iter().map(|status| status.weight).collect::<Vec<_>>(), [1, 3, 0, 9]);
}

#[tokio::test]
async fn endpoint_of_weight_zero_is_used_if_no_other_is_good() {
    let (first, spare) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 101).await);
    let chain = connect(weighted(&[&first, &spare], &[1, 0]));
    let tx = [signed(&chain, &plan(0)).await];
    chain.head().await.unwrap();
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(chain.head().await.unwrap().block.number, 100, "its newer head does not make the other outdated");
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
    assert_eq!((spare.count("eth_getBalance"), spare.count("eth_sendRawTransaction")), (0, 0));

    drop(first);
    while chain.accounts(&[submitter(0)], None).await.is_err() {}
    assert_eq!(chain.head().await.unwrap().block.number, 101);
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert!(spare.count("eth_sendRawTransaction") == 1 && spare.count("eth_getBalance") > 0);
    assert_eq!(healths(&chain), [Down, Good]);
}

#[tokio::test]
async fn sends_to_best_prefer_newest_head_then_weight() {
    let at = async |head| FakeNode::start(|script| script.head = head).await;
    let nodes = [at(100).await, at(100).await, at(100).await, at(99).await];
    let mut options = weighted(&nodes.each_ref(), &[1, 5, 2, 9]);
    options.send_to = SendTo::Best(2);
    let chain = connect(options);
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(nodes.each_ref().map(|node| node.count("eth_sendRawTransaction")), [0, 1, 1, 0]);
}

/// proves S10
#[test]
fn flipping_endpoint_is_not_used_for_a_while() {
    let counts = counted(async {
        let (flipping, steady) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
        let chain = chain(&[&flipping, &steady]);
        let head = chain.head().await.unwrap();
        // One return to a fork may happen to an honest node.
        for fork in [1, 0] {
            flipping.change(|script| script.fork = fork);
            assert_eq!(chain.head().await.unwrap(), head, "the head stays on our fork");
        }
        assert_eq!(healths(&chain), [Good, Good]);
        for fork in [1, 0] {
            flipping.change(|script| script.fork = fork);
            chain.head().await.unwrap();
        }
        assert_eq!(healths(&chain), [Flipping, Good]);
        assert!(chain.endpoints()[0].last_error.as_deref().unwrap().contains("two forks"));

        // The flipping endpoint also reports a newer head. Only its head is read, and it does not count.
        flipping.change(|script| script.head = 103);
        let asked = flipping.count("eth_getBalance");
        for _ in 0..4 {
            assert_eq!(chain.head().await.unwrap().block.number, 100);
            assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
        }
        assert_eq!(flipping.count("eth_getBalance"), asked);
        let tx = [signed(&chain, &plan(0)).await];
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
        assert_eq!(flipping.count("eth_sendRawTransaction"), 1, "a transaction is still sent to it");

        later(Duration::from_secs(31)).await;
        assert_eq!(healths(&chain)[0], Good);
        assert_eq!(chain.head().await.unwrap().block.number, 103);
    });
    assert_eq!(counts.of("gapless_endpoint_flipping_total"), 1);
}

#[tokio::test]
async fn reorg_on_all_endpoints_is_no_flip() {
    let nodes = [FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await];
    let chain = chain(&nodes.each_ref());
    for fork in 0..10 {
        for node in &nodes {
            node.change(|script| script.fork = fork);
        }
        let head = chain.head().await.unwrap();
        assert_eq!(head.block.hash[15], u8::try_from(fork).unwrap());
        chain.headers(90..=100).await.unwrap();
    }
    assert_eq!(healths(&chain), [Good, Good]);
}

#[tokio::test]
async fn head_that_stands_still_while_another_rises_lags() {
    let (stuck, moving) =
        (FakeNode::start(|script| script.head = 200).await, FakeNode::start(|script| script.head = 100).await);
    let mut options = options(&[&stuck, &moving]);
    options.head_age_max = Duration::from_secs(10);
    let chain = connect(options);
    assert_eq!(chain.head().await.unwrap().block.number, 200);
    for (step, head) in [(1, 200), (5, 200), (5, 103)] {
        moving.change(|script| script.head += 1);
        later(Duration::from_secs(step)).await;
        assert_eq!(chain.head().await.unwrap().block.number, head);
    }
    assert_eq!(healths(&chain), [Lagging, Good]);
    assert!(chain.endpoints()[0].head_age.unwrap() >= Duration::from_secs(11));
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 103);
    stuck.change(|script| script.head = 201);
    assert_eq!(chain.head().await.unwrap().block.number, 201);
    assert_eq!(healths(&chain)[0], Good);
}

#[tokio::test]
async fn circuit_opens_after_failures_and_one_check_closes_it() {
    let (node, other) = (FakeNode::start(|script| script.head = 101).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&node, &other]);
    chain.head().await.unwrap();
    node.change(|script| script.http = Some((500, "", "oops")));
    for failures in 1..=3 {
        assert_eq!(healths(&chain)[0], Good, "after {} failures", failures - 1);
        chain.accounts(&[submitter(0)], None).await.unwrap_err();
    }
    assert_eq!(healths(&chain), [Down, Good]);
    assert!(chain.endpoints()[0].errors_permille.unwrap() > 0);
    other.change(|script| script.head = 102);
    let asked = node.change(|script| script.asked.len());
    for _ in 0..5 {
        chain.accounts(&[submitter(0)], None).await.unwrap();
    }
    assert_eq!(node.change(|script| script.asked.len()), asked, "no request during the pause");

    // Many callers come when the check is due, and one of them runs it.
    node.change(|script| script.http = None);
    later(Duration::from_millis(250)).await;
    let tx = [signed(&chain, &plan(0)).await];
    futures_util::future::join_all((0..8).map(|_| send(&chain, &tx))).await;
    assert_eq!(node.count("eth_chainId"), 2, "one check at the start, one now");
    assert_eq!(healths(&chain), [Good, Good]);
}

#[tokio::test]
async fn wait_for_a_permit_times_out_without_a_failure() {
    let node = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let mut options = options(&[&node]);
    (options.rpc_max_in_flight, options.rpc_timeout) = (1, Duration::from_millis(300));
    let chain = connect(options);
    chain.head().await.unwrap();
    let txs = [[signed(&chain, &plan(0)).await], [signed(&chain, &plan(1)).await]];
    let answers = futures_util::future::join_all(txs.iter().map(|tx| send(&chain, tx))).await;
    let mut reasons: Vec<Reason> = answers.iter().map(|answer| answer[0].reason).collect();
    reasons.sort_unstable_by_key(|reason| reason.as_str());
    assert_eq!(reasons, [Reason::TimedOut, Reason::Unreachable]);
    assert_eq!(node.count("eth_sendRawTransaction"), 1);
    // Four requests were sent, of which two failed. One was not sent.
    assert_eq!((healths(&chain), chain.endpoints()[0].errors_permille), (vec![Good], Some(500)));
    assert_eq!(chain.endpoints()[0].in_flight, 0);
}

#[tokio::test]
async fn changed_chain_id_is_detected_without_an_outage() {
    let (changed, steady) = (FakeNode::start(|script| script.head = 101).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&changed, &steady]);
    assert_eq!(chain.head().await.unwrap().block.number, 101);
    changed.change(|script| script.chain_id = 1);
    later(Duration::from_secs(5 * 60)).await;
    while healths(&chain)[0] == Good {
        chain.head().await.unwrap();
    }
    assert_eq!(healths(&chain), [WrongChain, Good]);
    assert_eq!(chain.head().await.unwrap().block.number, 100);
    assert_eq!((changed.count("eth_chainId"), steady.count("eth_chainId")), (2, 2), "one more check, and no more");
}

/// proves S10
#[tokio::test]
async fn lagging_endpoint_gets_transactions_and_its_success_wins() {
    let newest = FakeNode::start(|script| {
        script.head = 150;
        script.send = Sending::Refuse(-32000, "txpool is full");
    })
    .await;
    let lagging = FakeNode::start(|_| {}).await;
    let chain = chain(&[&newest, &lagging]);
    chain.head().await.unwrap();
    assert_eq!(healths(&chain), [Good, Lagging]);
    let tx = [signed(&chain, &plan(0)).await];
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(lagging.count("eth_sendRawTransaction"), 1);
}
