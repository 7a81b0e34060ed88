//! Chains that take blocks back, again and again, while work is handed in.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use gapless_testbed::Mining;
use gapless_wire::{
    AttemptKindName, Client, ConfirmationNoticeView, SubStateName, TxEventName, TxExpand, TxQuery, TxStateName, TxView,
};
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
const DEFAULT_NOTICES: u32 = 100;
const BLOCK_TIME: Duration = Duration::from_millis(150);

/// proves R03, R05, R07
#[tokio::test(flavor = "multi_thread")]
async fn with_anvil_reorganised_again_and_again_everything_is_confirmed_once_and_followers_know_each_block() {
    // anvil forgets the transactions of the blocks that it takes back: whoever wants them on the chain sends them again.
    let chain = Chain::start(Mining::Every(BLOCK_TIME));
    survives(&chain, DEFAULT_NOTICES, async |depth, _| drop(chain.call("anvil_reorg", json!([depth, []])).await)).await;
}

/// One intent of a lane is told of at a head, and the others wait for their turn: no fork is lost by it.
/// proves R03, R04, R05, R07
#[tokio::test(flavor = "multi_thread")]
async fn with_blocks_that_come_back_as_they_were_or_in_another_order_or_not_at_all_it_is_the_same() {
    const WAYS: [&str; 4] = ["same", "toPool", "shuffle", "drop"];
    let chain = Chain::dev(Mining::Every(BLOCK_TIME)).await;
    let reorg = async |depth, n: usize| drop(chain.call("gapless_reorg", json!([depth, WAYS[n % WAYS.len()]])).await);
    let told = survives(&chain, 1, reorg).await;
    // Blocks come one at a time, and to whoever has waited several are told at once.
    let at_once = told.iter().filter(|notice| !notice.new_fork && notice.blocks.len() > 1).count();
    assert!(at_once > told.len() / 20, "of {} notices only {at_once} stand for several", told.len());
}

/// Hands in work while blocks are taken back and a node crashes. How often somebody sees it depends on the moment; those below
/// make sure of it. Gives what was told of confirmations.
async fn survives(
    chain: &Chain,
    notices_per_head: u32,
    reorg: impl AsyncFn(u64, usize),
) -> Vec<ConfirmationNoticeView> {
    let database = Database::shared().await;
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &SUBMITTERS)
        .short_lease()
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", &REQUIRED.to_string())
        .set("lane.notices_per_head", &notices_per_head.to_string())
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
    let mut told = Vec::new();
    for (account, accepted) in SUBMITTERS.into_iter().zip(accepted) {
        let submitter = format!("s{account}");
        let client = &nodes[account as usize].client;
        wait_until_done(client, &submitter).await;
        let ledger = Ledger::read(client, &submitter).await;
        ledger.assert_exactly_once(chain, &accepted).await;
        for tx in ledger.txs.values() {
            assert_followed(client, &database, chain, &tx.tx_id, calm_from).await;
            told.extend(notices(&look(client, &tx.tx_id).await).into_iter().map(|(_, notice)| notice));
        }
    }
    assert_eq!(chain.balance(TO).await, (SUBMITTERS.len() * (INTENTS + 1)) as u64);
    told
}

/// What was told of its confirmations, in order, and with which change.
fn notices(tx: &TxView) -> Vec<(TxEventName, ConfirmationNoticeView)> {
    let events = tx.events.iter().flatten();
    events.filter_map(|event| Some((event.event, event.confirmations.clone()?))).collect()
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
    let (own, followed) = followed(client, database, tx_id).await;
    let list = followed.list.as_slice();
    assert_eq!(list.len() as u64, REQUIRED);
    let stays = if own + REQUIRED > calm_from + 1 { REQUIRED } else { 1 };
    assert_eq!(list[..stays as usize], chain.links(own, stays).await);
    followed
}

/// The same of a chain that has been calm since, where so many confirmations are asked for.
async fn assert_followed_for(client: &Client, database: &Database, chain: &Chain, tx_id: &str, required: u64) {
    let (own, followed) = followed(client, database, tx_id).await;
    assert_eq!(followed.list, chain.links(own, required).await);
}

/// The number of its block, and who has followed it.
async fn followed(client: &Client, database: &Database, tx_id: &str) -> (u64, Follower) {
    let tx = look(client, tx_id).await;
    assert_eq!(tx.state, TxStateName::Confirmed);
    let followed = Follower::of(tx.events.as_deref().unwrap());
    assert_eq!(Some(&followed.list), tx.confirmation_list.as_ref());
    assert_eq!(followed.list, Follower::of_rows(database, tx_id).await.list);
    (tx.receipt.unwrap().block_number, followed)
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

/// Five are mined in one block, and one of them is told of at each head. The blocks on top are replaced when two were told: those two hear
/// of a fork, whenever their turn comes, and the others never knew what is gone.
/// proves R03, R04
#[tokio::test(flavor = "multi_thread")]
async fn who_had_to_wait_for_a_notice_has_lost_no_fork() {
    const MANY: usize = 5;
    const TOLD: usize = 2;
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "8")
        .set("confirmations.required", "6")
        .set("lane.notices_per_head", "1");
    let nodes = three(&config).await;
    let client = &nodes[1].client;
    let mut accepted = Vec::new();
    for n in 0..MANY {
        accepted.push(create(&[client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
    }
    is_in_the_pool(&chain, client, MANY as u64).await;
    let all_told = async || {
        let mut told = Vec::new();
        for tx in &accepted {
            told.push(notices(&look(client, &tx.tx_id).await));
        }
        told
    };
    let so_many = async |count: usize| {
        eventually(&format!("{count} notices"), async || {
            let told: usize = all_told().await.iter().map(Vec::len).sum();
            assert!(told <= count, "more than one at a head");
            (told == count).then_some(())
        })
        .await;
    };
    chain.mine(1).await;
    so_many(MANY).await;
    for n in 1..=TOLD {
        chain.mine(1).await;
        so_many(MANY + n).await;
    }
    // The second was told of two blocks at once.
    let longest = all_told().await.into_iter().flatten().map(|(_, notice)| notice.blocks.len()).max();
    assert_eq!(longest, Some(TOLD));
    chain.call("gapless_reorg", json!([TOLD, "same"])).await;
    chain.mine(6).await;
    wait_until_done(client, "s0").await;
    for tx in &accepted {
        assert_followed_for(client, &database, &chain, &tx.tx_id, 6).await;
    }
    let told = all_told().await;
    let forks = |told: &&Vec<(TxEventName, ConfirmationNoticeView)>| {
        told.iter().any(|(event, notice)| *event != TxEventName::MINE && notice.new_fork)
    };
    assert_eq!(told.iter().filter(forks).count(), TOLD, "{told:?}");
    Ledger::read(client, "s0").await.assert_exactly_once(&chain, &accepted).await;
}

/// Nodes that have only this endpoint of the chain, so that what they send can be kept from it.
async fn nodes_of(database: &Database, chain: &Chain) -> Vec<Node> {
    let config = NodeConfig::with_endpoints(&database.url, &[chain.endpoint(ENDPOINT)], &[0])
        .set("confirmations.required", "3")
        .set("lane.resend_longest", "2s");
    three(&config).await
}

const ENDPOINT: &str = "only";

/// Nothing that is sent reaches the chain from now on, and nobody is told what is wrong with it.
async fn keep_sends_away(chain: &Chain) {
    let fault = json!({ "kind": "refuse", "code": -32603, "message": "internal error" });
    chain.faults(ENDPOINT, json!({ "rules": [{ "on": "sends", "fault": fault }] })).await;
}

async fn becomes(client: &Client, tx: &Accepted, sub_state: SubStateName) -> TxView {
    eventually(&format!("it is {sub_state}"), async || {
        let tx = look(client, &tx.tx_id).await;
        assert!(!tx.state.is_terminal(), "{tx:?}");
        (tx.sub_state == Some(sub_state)).then_some(tx)
    })
    .await
}

/// Asks for a cancel, and waits until its attempt was sent. Gives the hashes of the original and of the cancel.
async fn cancel(client: &Client, tx: &Accepted) -> (String, String) {
    client.cancel_tx(&tx.tx_id, Some(Duration::from_secs(10))).await.unwrap();
    eventually("the cancel was sent", async || {
        let view = look(client, &tx.tx_id).await;
        assert!(!view.state.is_terminal(), "{view:?}");
        let attempts = view.attempts.unwrap();
        let cancel = attempts.iter().find(|attempt| attempt.kind == AttemptKindName::Cancel && attempt.sends > 0)?;
        Some((attempts[0].hash.clone(), cancel.hash.clone()))
    })
    .await
}

/// It has ended as this, by the transaction of this hash, which is all that the chain has of the account.
async fn assert_ended(chain: &Chain, client: &Client, tx: &Accepted, state: TxStateName, hash: &str) {
    wait_until_done(client, "s0").await;
    let view = look(client, &tx.tx_id).await;
    assert_eq!((view.state, view.hash.as_deref()), (state, Some(hash)), "{view:?}");
    let ledger = Ledger::read(client, "s0").await;
    assert_eq!(chain.mined_of(&ledger.address).await, [(0, vec![hash.to_owned()])].into());
    let paid = u64::from(state == TxStateName::Confirmed);
    assert_eq!(chain.balance(TO).await, paid);
}

/// proves S07, R05, S13
#[tokio::test(flavor = "multi_thread")]
async fn what_was_mined_and_taken_back_can_be_canceled_and_the_cancel_is_what_counts() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let nodes = nodes_of(&database, &chain).await;
    let client = &nodes[1].client;
    let tx = create(&[client], 0, &transfer("s0", "r", TO)).await;
    is_in_the_pool(&chain, client, 1).await;
    chain.mine(1).await;
    becomes(client, &tx, SubStateName::Mined).await;
    chain.call("gapless_reorg", json!([1, "drop"])).await;
    becomes(client, &tx, SubStateName::Pending).await;
    let (original, cancel) = cancel(client, &tx).await;
    is_known(&chain, &cancel).await;
    chain.mine(3).await;
    assert_ended(&chain, client, &tx, TxStateName::Canceled, &cancel).await;
    assert_ne!(original, cancel);
}

/// proves S07, S13
#[tokio::test(flavor = "multi_thread")]
async fn an_original_that_is_mined_after_its_cancel_was_accepted_confirms_it() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let nodes = nodes_of(&database, &chain).await;
    let client = &nodes[1].client;
    let tx = create(&[client], 0, &transfer("s0", "r", TO)).await;
    is_in_the_pool(&chain, client, 1).await;
    keep_sends_away(&chain).await;
    let (original, _) = cancel(client, &tx).await;
    chain.mine(3).await;
    assert_ended(&chain, client, &tx, TxStateName::Confirmed, &original).await;
}

/// The cancel was mined; after the fork it is the original, which somebody still had.
/// proves S07, R05
#[tokio::test(flavor = "multi_thread")]
async fn after_a_fork_another_attempt_of_the_nonce_may_be_the_one_that_counts() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::OnDemand).await);
    let nodes = nodes_of(&database, &chain).await;
    let client = &nodes[1].client;
    let tx = create(&[client], 0, &transfer("s0", "r", TO)).await;
    is_in_the_pool(&chain, client, 1).await;
    let (original, cancel) = cancel(client, &tx).await;
    is_known(&chain, &cancel).await;
    chain.mine(1).await;
    let mined = eventually("the cancel is mined", async || look(client, &tx.tx_id).await.receipt).await;
    assert_eq!(look(client, &tx.tx_id).await.hash, Some(cancel));

    keep_sends_away(&chain).await;
    chain.call("gapless_reorg", json!([1, "drop"])).await;
    let query = "SELECT raw FROM tx_attempt WHERE kind = 'original'";
    let raw: Vec<u8> = database.raw().await.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(chain.send_raw(&raw).await, original);
    chain.mine(1).await;
    let again = eventually("the original is mined", async || {
        let view = look(client, &tx.tx_id).await;
        (view.hash.as_deref() == Some(original.as_str())).then_some(view.receipt?)
    })
    .await;
    assert_ne!(again.block_hash, mined.block_hash);
    chain.mine(2).await;
    assert_ended(&chain, client, &tx, TxStateName::Confirmed, &original).await;
}

/// The chain has this transaction, in a block or not.
async fn is_known(chain: &Chain, hash: &str) {
    eventually("the chain knows it", async || {
        (!chain.call("eth_getTransactionByHash", json!([hash])).await.is_null()).then_some(())
    })
    .await;
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
