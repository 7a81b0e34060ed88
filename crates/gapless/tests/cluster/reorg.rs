//! Reorgs under load, and single intents whose block is orphaned.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use gapless_testbed::Mining;
use gapless_wire::{
    AttemptKindName, Client, ConfirmationNoticeView, SubStateName, TxEventName, TxExpand, TxQuery, TxStateName, TxView,
};
use serde_json::json;

use crate::support::{
    AcceptedRequest, EventFollower, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create,
    eventually, owner, start_three_nodes, transfer, unique, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0061";
const SUBMITTERS: [u32; 3] = [0, 1, 2];
const INTENTS: usize = 30;
/// Confirmations that make a transaction final; every reorg is less deep.
const REQUIRED: u64 = 4;
const REORGS: usize = 12;
const DEFAULT_NOTICES: u32 = 100;
const BLOCK_TIME: Duration = Duration::from_millis(150);

/// proves R03, R05, R07
#[tokio::test(flavor = "multi_thread")]
async fn repeated_reorgs_confirm_once_on_anvil() {
    // anvil drops the transactions of orphaned blocks, so the lane must send them again.
    let chain = TestChain::start(Mining::Every(BLOCK_TIME));
    assert_survives_reorgs(&chain, DEFAULT_NOTICES, async |depth, _| {
        drop(chain.call("anvil_reorg", json!([depth, []])).await)
    })
    .await;
}

/// A lane writes one notice per head, and other intents wait for theirs. No fork is lost.
/// proves R03, R04, R05, R07
#[tokio::test(flavor = "multi_thread")]
async fn repeated_reorgs_confirm_once_on_dev_chain() {
    const WAYS: [&str; 4] = ["same", "toPool", "shuffle", "drop"];
    let chain = TestChain::dev(Mining::Every(BLOCK_TIME)).await;
    let reorg = async |depth, n: usize| drop(chain.call("gapless_reorg", json!([depth, WAYS[n % WAYS.len()]])).await);
    let notices = assert_survives_reorgs(&chain, 1, reorg).await;
    // A notice that had to wait has several blocks.
    let combined = notices.iter().filter(|notice| !notice.new_fork && notice.blocks.len() > 1).count();
    assert!(combined > notices.len() / 20, "only {combined} of {} notices have several blocks", notices.len());
}

/// Creates intents while reorgs happen and a node is killed, and checks the result. Returns all confirmation notices.
/// Which intents a reorg hits is random here; the tests below control it.
async fn assert_survives_reorgs(
    chain: &TestChain,
    notices_per_head: u32,
    reorg: impl AsyncFn(u64, usize),
) -> Vec<ConfirmationNoticeView> {
    let database = TestDatabase::shared().await;
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &SUBMITTERS)
        .short_lease()
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", &REQUIRED.to_string())
        .set("lane.notices_per_head", &notices_per_head.to_string())
        .set("lane.resend_longest", "2s")
        // A transaction that the chain dropped is sent again after this time.
        .set("resubmit.interval", "2s");
    let mut nodes = start_three_nodes(&config).await;
    let clients: Vec<Client> = nodes.iter().map(|node| node.client.clone()).collect();
    let creates = join_all(SUBMITTERS.map(|account| create_intents(&clients, account)));
    let chaos = async {
        for n in 0..REORGS {
            blocks_pass(chain, 1 + random(3)).await;
            reorg(1 + random(REQUIRED - 1), n).await;
            if n == REORGS / 3 {
                crash_and_start_again(&mut nodes, &config).await;
            }
        }
    };
    let (mut accepted, ()) = tokio::join!(creates, chaos);
    // There are no more reorgs, so later confirmation lists stay as they are.
    let calm_from = chain.head().await;
    for (account, accepted) in SUBMITTERS.into_iter().zip(&mut accepted) {
        accepted.push(create(&[&nodes[0].client], 0, &transfer(&format!("s{account}"), "last", TO)).await);
    }
    let mut all_notices = Vec::new();
    for (account, accepted) in SUBMITTERS.into_iter().zip(accepted) {
        let submitter = format!("s{account}");
        let client = &nodes[account as usize].client;
        wait_until_done(client, &submitter).await;
        let ledger = SubmitterLedger::read(client, &submitter).await;
        ledger.assert_exactly_once(chain, &accepted).await;
        for tx in ledger.txs.values() {
            assert_followed(client, &database, chain, &tx.tx_id, calm_from).await;
            all_notices.extend(notices(&view_of(client, &tx.tx_id).await).into_iter().map(|(_, notice)| notice));
        }
    }
    assert_eq!(chain.balance(TO).await, (SUBMITTERS.len() * (INTENTS + 1)) as u64);
    all_notices
}

/// The confirmation notices of a transaction in order, each with its event.
fn notices(tx: &TxView) -> Vec<(TxEventName, ConfirmationNoticeView)> {
    let events = tx.events.iter().flatten();
    events.filter_map(|event| Some((event.event, event.confirmations.clone()?))).collect()
}

/// Creates intents slowly, two at a time, for as long as there are reorgs.
async fn create_intents(clients: &[Client], account: u32) -> Vec<AcceptedRequest> {
    let clients: Vec<&Client> = clients.iter().collect();
    let clients = clients.as_slice();
    let one = |n: usize| async move {
        tokio::time::sleep(BLOCK_TIME.mul_f64(0.7)).await;
        create(clients, n, &transfer(&format!("s{account}"), &format!("r{n}"), TO)).await
    };
    stream::iter(0..INTENTS).map(one).buffer_unordered(2).collect().await
}

async fn crash_and_start_again(nodes: &mut [NodeProcess], config: &TestNodeConfig) {
    let (victim, _) = owner(nodes, "s0", 0).await;
    nodes[victim].signal("KILL");
    nodes[victim].wait_for_end().await;
    nodes[victim] = NodeProcess::start(&nodes[victim].name.clone(), config).await;
}

async fn blocks_pass(chain: &TestChain, count: u64) {
    let head = chain.head().await;
    eventually("the chain has new blocks", async || (chain.head().await >= head + count).then_some(())).await;
}

/// A random number below a limit.
fn random(below: u64) -> u64 {
    u64::from_str_radix(&unique()[..8], 16).unwrap() % below
}

/// Asserts that the confirmation list of the API, of a follower of the API's events, and of a reader of the rows are
/// equal and are the blocks of the chain. The block of a final transaction stays, but the blocks above it may have been
/// replaced before `calm_from`.
async fn assert_followed(
    client: &Client,
    database: &TestDatabase,
    chain: &TestChain,
    tx_id: &str,
    calm_from: u64,
) -> EventFollower {
    let (own, followed) = followed(client, database, tx_id).await;
    let list = followed.list.as_slice();
    assert_eq!(list.len() as u64, REQUIRED);
    let stays = if own + REQUIRED > calm_from + 1 { REQUIRED } else { 1 };
    assert_eq!(list[..stays as usize], chain.links(own, stays).await);
    followed
}

/// Asserts the same for a chain without later reorgs, with this number of confirmations.
async fn assert_followed_for(client: &Client, database: &TestDatabase, chain: &TestChain, tx_id: &str, required: u64) {
    let (own, followed) = followed(client, database, tx_id).await;
    assert_eq!(followed.list, chain.links(own, required).await);
}

/// The block number of a transaction, and a follower of its events.
async fn followed(client: &Client, database: &TestDatabase, tx_id: &str) -> (u64, EventFollower) {
    let tx = view_of(client, tx_id).await;
    assert_eq!(tx.state, TxStateName::Confirmed);
    let followed = EventFollower::of(tx.events.as_deref().unwrap());
    assert_eq!(Some(&followed.list), tx.confirmation_list.as_ref());
    assert_eq!(followed.list, EventFollower::of_rows(database, tx_id).await.list);
    (tx.receipt.unwrap().block_number, followed)
}

async fn view_of(client: &Client, tx_id: &str) -> TxView {
    let expand = vec![TxExpand::Attempts, TxExpand::Events, TxExpand::Confirmations];
    client.tx(tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap()
}

/// proves R05, R06
#[tokio::test(flavor = "multi_thread")]
async fn orphaned_transaction_loses_its_receipt_and_is_resent() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0]).set("confirmations.required", "4");
    let nodes = start_three_nodes(&config).await;
    let accepted = create(&[&nodes[0].client], 0, &transfer("s0", "r", TO)).await;
    let client = &nodes[1].client;
    let wait_for_sub_state = async |sub_state: SubStateName| {
        eventually(&format!("the intent is {sub_state}"), async || {
            let tx = view_of(client, &accepted.tx_id).await;
            assert!(!tx.state.is_terminal(), "{tx:?}");
            (tx.sub_state == Some(sub_state)).then_some(tx)
        })
        .await
    };
    wait_until_pooled(&chain, client, 1).await;
    chain.mine(3).await;
    let first = wait_for_sub_state(SubStateName::Mined).await;
    let own = first.receipt.unwrap().block_hash;

    // The new branch is longer and does not have the transaction. Its earlier confirmations do not count.
    chain.call("gapless_reorg", json!([3, "drop"])).await;
    let orphaned = wait_for_sub_state(SubStateName::Pending).await;
    assert_eq!((orphaned.state, orphaned.receipt, orphaned.confirmations), (TxStateName::Tracking, None, None));
    assert_eq!(orphaned.confirmation_list, Some(vec![]));
    wait_until_pooled(&chain, client, 1).await;
    chain.call("gapless_mineEmpty", json!([5])).await;
    wait_for_sub_state(SubStateName::Pending).await;

    chain.mine(3).await;
    let again = wait_for_sub_state(SubStateName::Mined).await;
    assert_ne!(again.receipt.unwrap().block_hash, own);
    assert_eq!(again.attempts.as_ref().unwrap()[0].hash, first.attempts.unwrap()[0].hash, "another attempt was signed");
    assert!(again.attempts.unwrap()[0].sends >= 2);
    chain.mine(1).await;
    wait_until_done(client, "s0").await;
    assert_eq!(assert_followed(client, &database, &chain, &accepted.tx_id, 0).await.unmined, 1);
    SubmitterLedger::read(client, "s0").await.assert_exactly_once(&chain, &[accepted]).await;
}

/// anvil drops the transactions of orphaned blocks.
/// proves R05
#[tokio::test(flavor = "multi_thread")]
async fn orphaned_transaction_is_resent_on_anvil() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::OnDemand));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0]).set("confirmations.required", "4");
    let nodes = start_three_nodes(&config).await;
    let client = &nodes[1].client;
    let accepted = create(&[&nodes[0].client], 0, &transfer("s0", "r", TO)).await;
    wait_until_pooled(&chain, client, 1).await;
    chain.mine(2).await;
    let wait_for_sub_state = async |sub_state: SubStateName| {
        let poll = async || (view_of(client, &accepted.tx_id).await.sub_state == Some(sub_state)).then_some(());
        eventually(&format!("the intent is {sub_state}"), poll).await;
    };
    wait_for_sub_state(SubStateName::Mined).await;
    chain.call("anvil_reorg", json!([2, []])).await;
    wait_for_sub_state(SubStateName::Pending).await;
    wait_until_pooled(&chain, client, 1).await;
    chain.mine(4).await;
    wait_until_done(client, "s0").await;
    assert_eq!(assert_followed(client, &database, &chain, &accepted.tx_id, 0).await.unmined, 1);
    SubmitterLedger::read(client, "s0").await.assert_exactly_once(&chain, &[accepted]).await;
}

/// Waits until the pool has this number of the account's transactions.
async fn wait_until_pooled(chain: &TestChain, client: &Client, count: u64) {
    let view = client.submitter("s0", &[]).await.unwrap();
    let (_, address) = view.submitter.rsplit_once(':').unwrap();
    eventually("all transactions are in the pool", async || {
        (chain.pending_count(address).await == count).then_some(())
    })
    .await;
}

/// Five transactions are mined in one block, and each head brings a notice for one of them. The blocks above are
/// replaced after two notices. These two transactions get a notice of the fork, and the others never had the orphaned
/// blocks.
/// proves R03, R04
#[tokio::test(flavor = "multi_thread")]
async fn delayed_notices_lose_no_fork() {
    const MANY: usize = 5;
    const NOTIFIED: usize = 2;
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", "6")
        .set("lane.notices_per_head", "1");
    let nodes = start_three_nodes(&config).await;
    let client = &nodes[1].client;
    let mut accepted = Vec::new();
    for n in 0..MANY {
        accepted.push(create(&[client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
    }
    wait_until_pooled(&chain, client, MANY as u64).await;
    let all_notices = async || {
        let mut all = Vec::new();
        for tx in &accepted {
            all.push(notices(&view_of(client, &tx.tx_id).await));
        }
        all
    };
    let wait_for_notices = async |count: usize| {
        eventually(&format!("there are {count} notices"), async || {
            let written: usize = all_notices().await.iter().map(Vec::len).sum();
            assert!(written <= count, "more than one notice at a head");
            (written == count).then_some(())
        })
        .await;
    };
    chain.mine(1).await;
    wait_for_notices(MANY).await;
    for n in 1..=NOTIFIED {
        chain.mine(1).await;
        wait_for_notices(MANY + n).await;
    }
    // The second notice has two blocks.
    let longest = all_notices().await.into_iter().flatten().map(|(_, notice)| notice.blocks.len()).max();
    assert_eq!(longest, Some(NOTIFIED));
    chain.call("gapless_reorg", json!([NOTIFIED, "same"])).await;
    chain.mine(6).await;
    wait_until_done(client, "s0").await;
    for tx in &accepted {
        assert_followed_for(client, &database, &chain, &tx.tx_id, 6).await;
    }
    let all = all_notices().await;
    let has_fork = |notices: &&Vec<(TxEventName, ConfirmationNoticeView)>| {
        notices.iter().any(|(event, notice)| *event != TxEventName::MINE && notice.new_fork)
    };
    assert_eq!(all.iter().filter(has_fork).count(), NOTIFIED, "{all:?}");
    SubmitterLedger::read(client, "s0").await.assert_exactly_once(&chain, &accepted).await;
}

/// Starts nodes with one endpoint of the chain, so that their sends can be refused.
async fn nodes_of(database: &TestDatabase, chain: &TestChain) -> Vec<NodeProcess> {
    let config = TestNodeConfig::with_endpoints(&database.url, &[chain.endpoint(ENDPOINT)], &[0])
        .set("confirmations.required", "3")
        .set("lane.resend_longest", "2s");
    start_three_nodes(&config).await
}

const ENDPOINT: &str = "only";

/// Refuses all sends from now on, with an error that says nothing about the transaction.
async fn refuse_sends(chain: &TestChain) {
    let fault = json!({ "kind": "refuse", "code": -32603, "message": "internal error" });
    chain.faults(ENDPOINT, json!({ "rules": [{ "on": "sends", "fault": fault }] })).await;
}

async fn wait_for_sub_state(client: &Client, tx: &AcceptedRequest, sub_state: SubStateName) -> TxView {
    eventually(&format!("the intent is {sub_state}"), async || {
        let tx = view_of(client, &tx.tx_id).await;
        assert!(!tx.state.is_terminal(), "{tx:?}");
        (tx.sub_state == Some(sub_state)).then_some(tx)
    })
    .await
}

/// Cancels an intent and waits until the cancel was sent. Returns the hashes of the original and of the cancel.
async fn cancel(client: &Client, tx: &AcceptedRequest) -> (String, String) {
    client.cancel_tx(&tx.tx_id, Some(Duration::from_secs(10))).await.unwrap();
    eventually("the cancel was sent", async || {
        let view = view_of(client, &tx.tx_id).await;
        assert!(!view.state.is_terminal(), "{view:?}");
        let attempts = view.attempts.unwrap();
        let cancel = attempts.iter().find(|attempt| attempt.kind == AttemptKindName::Cancel && attempt.sends > 0)?;
        Some((attempts[0].hash.clone(), cancel.hash.clone()))
    })
    .await
}

/// Asserts that an intent has ended in this state by the transaction of this hash, the only one of the account on
/// chain.
async fn assert_ended(chain: &TestChain, client: &Client, tx: &AcceptedRequest, state: TxStateName, hash: &str) {
    wait_until_done(client, "s0").await;
    let view = view_of(client, &tx.tx_id).await;
    assert_eq!((view.state, view.hash.as_deref()), (state, Some(hash)), "{view:?}");
    let ledger = SubmitterLedger::read(client, "s0").await;
    assert_eq!(chain.mined_of(&ledger.address).await, [(0, vec![hash.to_owned()])].into());
    let paid = u64::from(state == TxStateName::Confirmed);
    assert_eq!(chain.balance(TO).await, paid);
}

/// proves S07, R05, S13
#[tokio::test(flavor = "multi_thread")]
async fn orphaned_transaction_can_be_canceled() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let nodes = nodes_of(&database, &chain).await;
    let client = &nodes[1].client;
    let tx = create(&[client], 0, &transfer("s0", "r", TO)).await;
    wait_until_pooled(&chain, client, 1).await;
    chain.mine(1).await;
    wait_for_sub_state(client, &tx, SubStateName::Mined).await;
    chain.call("gapless_reorg", json!([1, "drop"])).await;
    wait_for_sub_state(client, &tx, SubStateName::Pending).await;
    let (original, cancel) = cancel(client, &tx).await;
    wait_until_known(&chain, &cancel).await;
    chain.mine(3).await;
    assert_ended(&chain, client, &tx, TxStateName::Canceled, &cancel).await;
    assert_ne!(original, cancel);
}

/// proves S07, S13
#[tokio::test(flavor = "multi_thread")]
async fn original_mined_after_accepted_cancel_confirms_the_intent() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let nodes = nodes_of(&database, &chain).await;
    let client = &nodes[1].client;
    let tx = create(&[client], 0, &transfer("s0", "r", TO)).await;
    wait_until_pooled(&chain, client, 1).await;
    refuse_sends(&chain).await;
    let (original, _) = cancel(client, &tx).await;
    chain.mine(3).await;
    assert_ended(&chain, client, &tx, TxStateName::Confirmed, &original).await;
}

/// The cancel is mined first, and after a reorg the original.
/// proves S07, R05
#[tokio::test(flavor = "multi_thread")]
async fn reorg_that_mines_another_attempt_changes_the_outcome() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let nodes = nodes_of(&database, &chain).await;
    let client = &nodes[1].client;
    let tx = create(&[client], 0, &transfer("s0", "r", TO)).await;
    wait_until_pooled(&chain, client, 1).await;
    let (original, cancel) = cancel(client, &tx).await;
    wait_until_known(&chain, &cancel).await;
    chain.mine(1).await;
    let mined = eventually("the cancel is mined", async || view_of(client, &tx.tx_id).await.receipt).await;
    assert_eq!(view_of(client, &tx.tx_id).await.hash, Some(cancel));

    refuse_sends(&chain).await;
    chain.call("gapless_reorg", json!([1, "drop"])).await;
    let query = "SELECT raw FROM tx_attempt WHERE kind = 'original'";
    let raw: Vec<u8> = database.raw().await.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(chain.send_raw(&raw).await, original);
    chain.mine(1).await;
    let again = eventually("the original is mined", async || {
        let view = view_of(client, &tx.tx_id).await;
        (view.hash.as_deref() == Some(original.as_str())).then_some(view.receipt?)
    })
    .await;
    assert_ne!(again.block_hash, mined.block_hash);
    chain.mine(2).await;
    assert_ended(&chain, client, &tx, TxStateName::Confirmed, &original).await;
}

/// Waits until the chain knows a transaction, mined or pending.
async fn wait_until_known(chain: &TestChain, hash: &str) {
    eventually("the chain knows the transaction", async || {
        (!chain.call("eth_getTransactionByHash", json!([hash])).await.is_null()).then_some(())
    })
    .await;
}

/// proves R07
#[tokio::test(flavor = "multi_thread")]
async fn stopped_nodes_read_all_missed_blocks_and_forks() {
    const MANY: u32 = 150;
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::OnDemand).await);
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", "4");
    let mut nodes = start_three_nodes(&config).await;
    let mut accepted = Vec::new();
    for n in 0..8 {
        accepted.push(create(&[&nodes[0].client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
    }
    wait_until_pooled(&chain, &nodes[0].client, 8).await;
    chain.mine(1).await;
    for tx in &accepted {
        let client = &nodes[2].client;
        eventually("the intent is mined", async || view_of(client, &tx.tx_id).await.receipt).await;
    }
    for node in &mut nodes {
        node.signal("STOP");
    }
    // The transactions are mined again in other blocks, much later.
    chain.call("gapless_reorg", json!([1, "toPool"])).await;
    chain.call("gapless_mineEmpty", json!([MANY])).await;
    chain.mine(MANY).await;
    for node in &mut nodes {
        node.signal("CONT");
    }
    wait_until_done(&nodes[1].client, "s0").await;
    for tx in &accepted {
        assert_followed(&nodes[2].client, &database, &chain, &tx.tx_id, 0).await;
    }
    SubmitterLedger::read(&nodes[1].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
}
