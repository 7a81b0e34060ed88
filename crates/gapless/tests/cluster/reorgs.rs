//! Chains that take blocks back, again and again, while work is handed in.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use gapless_testbed::Mining;
use gapless_wire::{Client, SubStateName, TxExpand, TxQuery, TxStateName, TxView};
use serde_json::json;

use crate::support::{
    Accepted, Chain, Database, Follower, Ledger, Node, NodeConfig, create, eventually, owner, three, transfer, unique,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0061";
const SUBMITTERS: [u32; 3] = [0, 1, 2];
const INTENTS: usize = 30;
/// Confirmations that make a transaction final; no reorganisation goes so deep.
const REQUIRED: u64 = 4;
const REORGS: usize = 12;
const BLOCK_TIME: Duration = Duration::from_millis(150);

/// proves R03, R05, R07
#[tokio::test(flavor = "multi_thread")]
async fn with_anvil_reorganised_again_and_again_everything_is_confirmed_once_and_followers_know_each_block() {
    // anvil forgets the transactions of the blocks that it takes back: whoever wants them on the chain sends them again.
    let chain = Chain::start(Mining::Every(BLOCK_TIME));
    survives(&chain, async |depth, _| drop(chain.call("anvil_reorg", json!([depth, []])).await)).await;
}

/// proves R03, R05, R07
#[tokio::test(flavor = "multi_thread")]
async fn with_blocks_that_come_back_as_they_were_or_in_another_order_or_not_at_all_it_is_the_same() {
    const WAYS: [&str; 4] = ["same", "toPool", "shuffle", "drop"];
    let chain = Chain::dev(Mining::Every(BLOCK_TIME)).await;
    let reorg = async |depth, n: usize| drop(chain.call("gapless_reorg", json!([depth, WAYS[n % WAYS.len()]])).await);
    survives(&chain, reorg).await;
}

/// Hands in work while blocks are taken back and a node crashes. How often somebody sees it depends on the moment; those below
/// make sure of it.
async fn survives(chain: &Chain, reorg: impl AsyncFn(u64, usize)) {
    let database = Database::shared().await;
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &SUBMITTERS)
        .short_lease()
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", &REQUIRED.to_string())
        .set("lane.resend_longest", "2s")
        // What a chain loses without a word is only sent again when this is over.
        .set("resubmit.interval", "2s");
    let mut nodes = three(&config).await;
    let clients: Vec<Client> = nodes.iter().map(|node| node.client.clone()).collect();
    let handing_in = join_all(SUBMITTERS.map(|account| hand_in(&clients, account)));
    let chaos = async {
        for n in 0..REORGS {
            blocks_pass(chain, 1 + random(3)).await;
            reorg(1 + random(REQUIRED - 1), n).await;
            if n == REORGS / 3 {
                crash_and_start_again(&mut nodes, &config).await;
            }
        }
    };
    let (mut accepted, ()) = tokio::join!(handing_in, chaos);
    // Whatever is settled from now on keeps its whole list.
    let calm_from = chain.head().await;
    for (account, accepted) in SUBMITTERS.into_iter().zip(&mut accepted) {
        accepted.push(create(&[&nodes[0].client], 0, &transfer(&format!("s{account}"), "last", TO)).await);
    }
    for (account, accepted) in SUBMITTERS.into_iter().zip(accepted) {
        let submitter = format!("s{account}");
        let client = &nodes[account as usize].client;
        wait_until_done(client, &submitter).await;
        let ledger = Ledger::read(client, &submitter).await;
        ledger.assert_exactly_once(chain, &accepted).await;
        for tx in ledger.txs.values() {
            assert_followed(client, &database, chain, &tx.tx_id, calm_from).await;
        }
    }
    assert_eq!(chain.balance(TO).await, (SUBMITTERS.len() * (INTENTS + 1)) as u64);
}

/// A few at a time, for as long as blocks are taken back.
async fn hand_in(clients: &[Client], account: u32) -> Vec<Accepted> {
    let clients: Vec<&Client> = clients.iter().collect();
    let clients = clients.as_slice();
    let one = |n: usize| async move {
        tokio::time::sleep(BLOCK_TIME.mul_f64(0.7)).await;
        create(clients, n, &transfer(&format!("s{account}"), &format!("r{n}"), TO)).await
    };
    stream::iter(0..INTENTS).map(one).buffer_unordered(2).collect().await
}

async fn crash_and_start_again(nodes: &mut [Node], config: &NodeConfig) {
    let (victim, _) = owner(nodes, "s0", 0).await;
    nodes[victim].signal("KILL");
    nodes[victim].wait_for_end().await;
    nodes[victim] = Node::start(&nodes[victim].name.clone(), config).await;
}

async fn blocks_pass(chain: &Chain, count: u64) {
    let head = chain.head().await;
    eventually("there are new blocks", async || (chain.head().await >= head + count).then_some(())).await;
}

/// From 0 on, below a number.
fn random(below: u64) -> u64 {
    u64::from_str_radix(&unique()[..8], 16).unwrap() % below
}

/// The API's own list, the list of whoever follows the API's events, and that of whoever reads the rows are one and the same,
/// and are the chain's blocks. Once a transaction is final its own block stays; those on top of it may still be replaced, except
/// by a chain that has been calm from some block on.
async fn assert_followed(client: &Client, database: &Database, chain: &Chain, tx_id: &str, calm_from: u64) -> Follower {
    let tx = look(client, tx_id).await;
    assert_eq!(tx.state, TxStateName::Confirmed);
    let followed = Follower::of(tx.events.as_deref().unwrap());
    assert_eq!(Some(&followed.list), tx.confirmation_list.as_ref());
    assert_eq!(followed.list, Follower::of_rows(database, tx_id).await.list);
    let (own, list) = (tx.receipt.unwrap().block_number, followed.list.as_slice());
    assert_eq!(list.len() as u64, REQUIRED);
    let stays = if own + REQUIRED > calm_from + 1 { REQUIRED } else { 1 };
    assert_eq!(list[..stays as usize], chain.links(own, stays).await);
    followed
}

async fn look(client: &Client, tx_id: &str) -> TxView {
    let expand = vec![TxExpand::Attempts, TxExpand::Events, TxExpand::Confirmations];
    client.tx(tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap()
}

/// proves R05, R06
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_block_is_taken_back_has_no_receipt_any_more_and_is_sent_again() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0]).set("confirmations.required", "4");
    let nodes = three(&config).await;
    let accepted = create(&[&nodes[0].client], 0, &transfer("s0", "r", TO)).await;
    let client = &nodes[1].client;
    let becomes = async |sub_state: SubStateName| {
        eventually(&format!("it is {sub_state}"), async || {
            let tx = look(client, &accepted.tx_id).await;
            assert!(!tx.state.is_terminal(), "{tx:?}");
            (tx.sub_state == Some(sub_state)).then_some(tx)
        })
        .await
    };
    is_in_the_pool(&chain, client, 1).await;
    chain.mine(3).await;
    let first = becomes(SubStateName::Mined).await;
    let own = first.receipt.unwrap().block_hash;

    // As many blocks as before and more, and it is in none of them: that it was once so deep counts for nothing.
    chain.call("gapless_reorg", json!([3, "drop"])).await;
    let orphaned = becomes(SubStateName::Pending).await;
    assert_eq!((orphaned.state, orphaned.receipt, orphaned.confirmations), (TxStateName::Tracking, None, None));
    assert_eq!(orphaned.confirmation_list, Some(vec![]));
    is_in_the_pool(&chain, client, 1).await;
    chain.call("gapless_mineEmpty", json!([5])).await;
    becomes(SubStateName::Pending).await;

    chain.mine(3).await;
    let again = becomes(SubStateName::Mined).await;
    assert_ne!(again.receipt.unwrap().block_hash, own);
    assert_eq!(again.attempts.as_ref().unwrap()[0].hash, first.attempts.unwrap()[0].hash, "it was signed anew");
    assert!(again.attempts.unwrap()[0].sends >= 2);
    chain.mine(1).await;
    wait_until_done(client, "s0").await;
    assert_eq!(assert_followed(client, &database, &chain, &accepted.tx_id, 0).await.unmined, 1);
    Ledger::read(client, "s0").await.assert_exactly_once(&chain, &[accepted]).await;
}

/// The same on anvil, which forgets the transactions of the blocks that it takes back.
/// proves R05
#[tokio::test(flavor = "multi_thread")]
async fn what_anvil_takes_back_is_sent_again() {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::OnDemand));
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0]).set("confirmations.required", "4");
    let nodes = three(&config).await;
    let client = &nodes[1].client;
    let accepted = create(&[&nodes[0].client], 0, &transfer("s0", "r", TO)).await;
    is_in_the_pool(&chain, client, 1).await;
    chain.mine(2).await;
    let becomes = async |sub_state: SubStateName| {
        let look = async || (look(client, &accepted.tx_id).await.sub_state == Some(sub_state)).then_some(());
        eventually(&format!("it is {sub_state}"), look).await;
    };
    becomes(SubStateName::Mined).await;
    chain.call("anvil_reorg", json!([2, []])).await;
    becomes(SubStateName::Pending).await;
    is_in_the_pool(&chain, client, 1).await;
    chain.mine(4).await;
    wait_until_done(client, "s0").await;
    assert_eq!(assert_followed(client, &database, &chain, &accepted.tx_id, 0).await.unmined, 1);
    Ledger::read(client, "s0").await.assert_exactly_once(&chain, &[accepted]).await;
}

/// The chain has so many transactions of the account, none of them in a block.
async fn is_in_the_pool(chain: &Chain, client: &Client, count: u64) {
    let view = client.submitter("s0", &[]).await.unwrap();
    let (_, address) = view.submitter.rsplit_once(':').unwrap();
    eventually("all is in the pool", async || (chain.pending_count(address).await == count).then_some(())).await;
}

/// proves R07
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_missed_many_blocks_and_a_fork_read_all_of_them() {
    const MANY: u32 = 150;
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", "4");
    let mut nodes = three(&config).await;
    let mut accepted = Vec::new();
    for n in 0..8 {
        accepted.push(create(&[&nodes[0].client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
    }
    is_in_the_pool(&chain, &nodes[0].client, 8).await;
    chain.mine(1).await;
    for tx in &accepted {
        let client = &nodes[2].client;
        eventually("it is mined", async || look(client, &tx.tx_id).await.receipt).await;
    }
    for node in &mut nodes {
        node.signal("STOP");
    }
    // They come back, in other blocks, and much later.
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
    Ledger::read(&nodes[1].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
}
