//! Several endpoints of one chain: who is asked, who is believed, who is left out, and how that is told.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use std::time::Duration;

use gapless_chain::EndpointHealth::*;
use gapless_chain::{Chain as _, EndpointHealth, Reason, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions, SendTo};
use gapless_devchain::rpc::{Clock, RpcLimits, RpcServer, serve};
use gapless_devchain::{DevChain, Fault, Genesis, On};
use support::{CHAIN, FakeNode, Sending, chain, counted, later, options, plan, send, signed, signer, submitter};
use tokio::task::JoinSet;

fn standings(chain: &EvmChain) -> Vec<EndpointHealth> {
    chain.endpoints().into_iter().map(|status| status.standing).collect()
}

fn weighted(nodes: &[&FakeNode], weights: &[u32]) -> EvmChainOptions {
    let mut options = options(nodes);
    for (endpoint, weight) in options.rpc.iter_mut().zip(weights) {
        endpoint.weight = *weight;
    }
    options
}

fn connect(options: EvmChainOptions) -> EvmChain {
    EvmChain::connect(options, vec![signer(0)]).unwrap()
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
async fn one_dead_one_lagging_one_of_another_chain_and_one_healthy() {
    let (dev, server, chain, _serving) = dev_chain(&["dead", "lagging", "foreign", "healthy"]).await;
    for _ in 0..30 {
        dev.mine_now().unwrap();
    }
    server.endpoint("dead").unwrap().faults().set_dead(true);
    server.endpoint("lagging").unwrap().faults().set_lag(20);
    server.endpoint("foreign").unwrap().faults().lie_about_chain_id(Some(1));
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
    assert_eq!(standings(&chain), [Down, Lagging, WrongChain, Good]);
    let statuses = chain.endpoints();
    assert_eq!((statuses[1].lag, statuses[1].head), (Some(20), Some(13)));
    assert_eq!((statuses[3].lag, statuses[3].head, &statuses[3].trouble), (Some(0), Some(33), &None));
    assert!(statuses[0].trouble.is_some() && statuses[3].latency.is_some() && statuses[3].head_age.is_some());
    assert_eq!(statuses[3].errors_permille, Some(0));
    let names: std::collections::BTreeSet<_> = statuses.iter().map(|status| &status.name).collect();
    assert_eq!(names.len(), 4, "one host and port, and still four names");

    // They get well again, and are used again.
    for name in ["dead", "lagging", "foreign"] {
        server.endpoint(name).unwrap().faults().clear();
    }
    later(Duration::from_secs(61)).await;
    while standings(&chain) != [Good; 4] {
        chain.head().await.unwrap();
    }
}

#[tokio::test]
async fn who_names_a_time_is_not_asked_before_even_if_it_is_the_only_one() {
    let (_dev, server, chain, _serving) = dev_chain(&["only"]).await;
    chain.head().await.unwrap();
    let faults = server.endpoint("only").unwrap();
    let fault = Fault::Http { status: 429, retry_after_secs: Some(20), body: "slow down".to_owned() };
    faults.faults().next(On::Any, 1, fault);
    let error = chain.head().await.unwrap_err().classified;
    assert_eq!((error.verdict, faults.faults().struck()), (Verdict::RateLimited, 1));
    assert_eq!(standings(&chain), [RateLimited]);
    // From here on every call that arrives is counted.
    faults.faults().always(On::Any, Fault::Refuse { code: -32000, message: "too early".to_owned() });
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..3 {
        assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::RateLimited);
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::RateLimited);
    }
    assert_eq!(faults.faults().struck(), 1, "nobody came before the time");
    faults.faults().clear();
    later(Duration::from_secs(19)).await;
    assert_eq!(standings(&chain), [RateLimited]);
    later(Duration::from_secs(1)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(standings(&chain), [Good]);
}

#[tokio::test]
async fn reads_are_spread_by_weight_among_those_with_the_newest_head() {
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
    assert_eq!(standings(&chain), [Good; 4], "a block behind is no reason to complain");
    assert_eq!(chain.endpoints().iter().map(|status| status.weight).collect::<Vec<_>>(), [1, 3, 0, 9]);
}

#[tokio::test]
async fn one_without_a_weight_helps_when_no_other_is_good() {
    let (first, spare) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 101).await);
    let chain = connect(weighted(&[&first, &spare], &[1, 0]));
    let tx = [signed(&chain, &plan(0)).await];
    chain.head().await.unwrap();
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(chain.head().await.unwrap().block.number, 100, "what it knows more puts the other not into the past");
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
    assert_eq!((spare.count("eth_getBalance"), spare.count("eth_sendRawTransaction")), (0, 0));

    drop(first);
    while chain.accounts(&[submitter(0)], None).await.is_err() {}
    assert_eq!(chain.head().await.unwrap().block.number, 101);
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert!(spare.count("eth_sendRawTransaction") == 1 && spare.count("eth_getBalance") > 0);
    assert_eq!(standings(&chain), [Down, Good]);
}

#[tokio::test]
async fn sends_to_some_go_to_the_freshest_and_among_them_to_the_heaviest() {
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
fn one_that_flips_between_two_forks_is_left_out_for_a_while_and_reported() {
    let counts = counted(async {
        let (flipping, steady) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
        let chain = chain(&[&flipping, &steady]);
        let told = chain.head().await.unwrap();
        // One fork, and back: this may happen to anybody.
        for fork in [1, 0] {
            flipping.change(|script| script.fork = fork);
            assert_eq!(chain.head().await.unwrap(), told, "we stay on our fork while somebody is on it");
        }
        assert_eq!(standings(&chain), [Good, Good]);
        for fork in [1, 0] {
            flipping.change(|script| script.fork = fork);
            chain.head().await.unwrap();
        }
        assert_eq!(standings(&chain), [Flipping, Good]);
        assert!(chain.endpoints()[0].trouble.as_deref().unwrap().contains("two forks"));

        // Now it also claims to be ahead. It is not asked for anything but its head, and not believed.
        flipping.change(|script| script.head = 103);
        let asked = flipping.count("eth_getBalance");
        for _ in 0..4 {
            assert_eq!(chain.head().await.unwrap().block.number, 100);
            assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
        }
        assert_eq!(flipping.count("eth_getBalance"), asked);
        let tx = [signed(&chain, &plan(0)).await];
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
        assert_eq!(flipping.count("eth_sendRawTransaction"), 1, "it may still pass on a transaction");

        later(Duration::from_secs(31)).await;
        assert_eq!(standings(&chain)[0], Good);
        assert_eq!(chain.head().await.unwrap().block.number, 103);
    });
    assert_eq!(counts.of("gapless_endpoint_flipping_total"), 1);
}

#[tokio::test]
async fn a_reorg_that_everybody_makes_is_no_flip() {
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
    assert_eq!(standings(&chain), [Good, Good]);
}

#[tokio::test]
async fn a_head_that_stands_still_while_another_moves_is_of_the_past() {
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
    assert_eq!(standings(&chain), [Lagging, Good]);
    assert!(chain.endpoints()[0].head_age.unwrap() >= Duration::from_secs(11));
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 103);
    stuck.change(|script| script.head = 201);
    assert_eq!(chain.head().await.unwrap().block.number, 201);
    assert_eq!(standings(&chain)[0], Good);
}

#[tokio::test]
async fn the_circuit_opens_after_failures_and_one_trial_closes_it() {
    let (node, other) = (FakeNode::start(|script| script.head = 101).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&node, &other]);
    chain.head().await.unwrap();
    node.change(|script| script.http = Some((500, "", "oops")));
    for failures in 1..=3 {
        assert_eq!(standings(&chain)[0], Good, "after {} failures", failures - 1);
        chain.accounts(&[submitter(0)], None).await.unwrap_err();
    }
    assert_eq!(standings(&chain), [Down, Good]);
    assert!(chain.endpoints()[0].errors_permille.unwrap() > 0);
    other.change(|script| script.head = 102);
    let asked = node.change(|script| script.asked.len());
    for _ in 0..5 {
        chain.accounts(&[submitter(0)], None).await.unwrap();
    }
    assert_eq!(node.change(|script| script.asked.len()), asked, "it is left alone");

    // Many come when it is due; one of them tries.
    node.change(|script| script.http = None);
    later(Duration::from_millis(250)).await;
    let tx = [signed(&chain, &plan(0)).await];
    futures_util::future::join_all((0..8).map(|_| send(&chain, &tx))).await;
    assert_eq!(node.count("eth_chainId"), 2, "once at the beginning, and once now");
    assert_eq!(standings(&chain), [Good, Good]);
}

#[tokio::test]
async fn a_place_is_waited_for_as_long_as_an_answer_and_is_not_the_endpoints_fault() {
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
    // Four requests went well or not; one was never made.
    assert_eq!((standings(&chain), chain.endpoints()[0].errors_permille), (vec![Good], Some(500)));
    assert_eq!(chain.endpoints()[0].in_flight, 0);
}

#[tokio::test]
async fn one_that_becomes_another_chain_without_being_away_is_found_out() {
    let (turncoat, steady) = (FakeNode::start(|script| script.head = 101).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&turncoat, &steady]);
    assert_eq!(chain.head().await.unwrap().block.number, 101);
    turncoat.change(|script| script.chain_id = 1);
    later(Duration::from_secs(5 * 60)).await;
    while standings(&chain)[0] == Good {
        chain.head().await.unwrap();
    }
    assert_eq!(standings(&chain), [WrongChain, Good]);
    assert_eq!(chain.head().await.unwrap().block.number, 100);
    assert_eq!((turncoat.count("eth_chainId"), steady.count("eth_chainId")), (2, 2), "asked once more, and no more");
}

/// proves S10
#[tokio::test]
async fn endpoints_that_lag_still_get_transactions_and_any_success_wins() {
    let newest = FakeNode::start(|script| {
        script.head = 150;
        script.send = Sending::Refuse(-32000, "txpool is full");
    })
    .await;
    let lagging = FakeNode::start(|_| {}).await;
    let chain = chain(&[&newest, &lagging]);
    chain.head().await.unwrap();
    assert_eq!(standings(&chain), [Good, Lagging]);
    let tx = [signed(&chain, &plan(0)).await];
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
    assert_eq!(lagging.count("eth_sendRawTransaction"), 1);
}
