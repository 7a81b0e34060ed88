//! A base fee that is suddenly twenty times what it was, on every kind of node, and two submitters: one that raises what it offers,
//! and one that may not offer so much.

use std::collections::BTreeMap;

use futures_util::future::join;
use gapless_testbed::Mining;
use gapless_wire::{AttemptKindName, AttemptView, TxView};
use serde_json::json;

use crate::control::{Tally, block_at, blocks_at, tell, wei};
use crate::support::{
    Accepted, Chain, Database, Key, Ledger, Node, NodeConfig, create_all, eventually, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0131";
const GWEI: u128 = 1_000_000_000;
const NORMAL: u128 = GWEI;
const SPIKE: u128 = 20 * NORMAL;
/// Above what a block in the spike costs with all that may come on top.
const HIGH_CAP: u128 = 100 * GWEI;
/// Below what it costs, above what blocks cost otherwise.
const LOW_CAP: u128 = 10 * GWEI;
const WINDOW: usize = 4;
const INTENTS: usize = 12;
/// Those of the capped submitter that are in the pool before the spike; the others come in it.
const EARLY: usize = 2;
const MORE_BLOCKS: u64 = 25;
/// What waits is sent again in the spike: some nodes take that, and others (anvil) say that it is too little, and are left alone until it
/// is enough.
const SENDS: i64 = 2;

/// One submitter with a node and a database of its own.
struct House {
    database: Database,
    node: Node,
    submitter: String,
    address: String,
    balance: u128,
    accepted: Vec<Accepted>,
}

impl House {
    /// With a price that it may not pass, and so many intents handed in at the normal one: a window of them is in the pool.
    async fn built(chain: &Chain, account: u32, cap: u128, intents: usize) -> Self {
        let (database, submitter, address) =
            (Database::shared().await, format!("s{account}"), Key::of(account).address());
        let config = NodeConfig::new(&database.url, &chain.url(), &[account])
            .set("nonce.max_in_flight", &WINDOW.to_string())
            .set("resubmit.interval", "1s")
            .set("lane.account_interval", "250ms")
            .set("fees.max_price", &cap.to_string())
            .set("gas_bump.enabled", "true")
            .set("gas_bump.min_interval", "500ms")
            .set("gas_bump.min_blocks", "1")
            .set("gas_bump.multiplier", "1.5")
            .set("gas_bump.max_market", "30");
        let node = Node::start(&submitter, &config).await;
        let balance = balance(chain, &address).await;
        let mut house = House { database, node, submitter, address, balance, accepted: Vec::new() };
        house.hand_in("early", intents).await;
        let pooled = WINDOW.min(intents) as i64;
        eventually("a window is in the pool", async || {
            (house.rows("tx_attempt WHERE sends > 0").await == pooled).then_some(())
        })
        .await;
        house
    }

    async fn hand_in(&mut self, prefix: &str, intents: usize) {
        let nodes = std::slice::from_ref(&self.node);
        self.accepted.extend(create_all(nodes, &self.submitter, prefix, TO, intents, intents).await);
    }

    async fn rows(&self, of: &str) -> i64 {
        self.database.count(&format!("SELECT count(*) FROM {of}")).await
    }

    async fn is_done(&self) {
        wait_until_done(&self.node.client, &self.submitter).await;
    }

    /// All that could happen has happened: it was said that it is too dear, and what is in the pool was sent again all the same.
    async fn has_waited(&self) {
        let sends = "SELECT coalesce(max(sends), 0)::bigint FROM tx_attempt";
        eventually("it waits, and says so", async || {
            let told = self.rows("tx_event WHERE kind = 'fees_above_cap'").await;
            (told >= 1 && self.database.count(sends).await >= SENDS).then_some(())
        })
        .await;
    }

    /// Every accepted one is CONFIRMED, once; every attempt is under the cap and above those before it by what nodes want; and what was
    /// paid is what is told, and what is gone from the account.
    async fn assert_paid(&self, chain: &Chain, cap: u128) -> (Tally, usize) {
        let ledger = Ledger::read(&self.node.client, &self.submitter).await;
        let tally = Tally::of(chain, &ledger).await;
        assert_eq!((tally.confirmed, tally.canceled + tally.canceled_in_queue), (INTENTS, 0));
        let told: BTreeMap<&str, &str> =
            self.accepted.iter().map(|a| (a.request_id.as_str(), a.tx_id.as_str())).collect();
        let kept: BTreeMap<&str, &str> = ledger.txs.iter().map(|(id, tx)| (id.as_str(), tx.tx_id.as_str())).collect();
        assert_eq!(kept, told);
        let raises = ledger.txs.values().map(|tx| assert_offers(tx, cap)).sum();
        let gone = self.balance - balance(chain, &self.address).await;
        assert_eq!(gone, tally.paid + INTENTS as u128, "what has left the account is not what was told");
        self.assert_counted(tally.paid, INTENTS + raises).await;
        (tally, raises)
    }

    /// The metrics say the same: whole gwei of each, and every attempt.
    async fn assert_counted(&self, paid: u128, attempts: usize) {
        let gwei = self.node.counter("gapless_fees_paid_gwei_total").await;
        let wanted = (paid / GWEI) as f64;
        assert!((gwei - wanted).abs() <= INTENTS as f64, "{gwei} gwei are counted, and {wanted} were paid");
        assert_eq!(self.node.counter("gapless_tx_attempts_total").await, attempts as f64);
    }
}

/// How often it was raised comes back.
fn assert_offers(tx: &TxView, cap: u128) -> usize {
    let attempts = tx.attempts.as_deref().unwrap();
    for (n, attempt) in attempts.iter().enumerate() {
        let [max_fee, tip] = offer(attempt);
        assert!(max_fee <= cap && tip <= max_fee, "{max_fee} of at most {cap}: {tx:?}");
        for before in &attempts[..n] {
            let [max_fee_before, tip_before] = offer(before);
            let is_enough = |new: u128, old: u128| new >= (old + old.div_ceil(10)).max(old + 1);
            assert!(is_enough(max_fee, max_fee_before) && is_enough(tip, tip_before), "no node takes this: {tx:?}");
        }
        let kind = if n == 0 { AttemptKindName::Original } else { AttemptKindName::Bump };
        assert_eq!(attempt.kind, kind);
    }
    let receipt = tx.receipt.as_ref().unwrap();
    assert_eq!(receipt.bumps, Some(attempts.len() as u32 - 1));
    assert!(receipt.effective_gas_price.parse::<u128>().unwrap() <= cap);
    attempts.len() - 1
}

fn offer(attempt: &AttemptView) -> [u128; 2] {
    let read = |text: &Option<String>| text.as_ref().unwrap().parse().unwrap();
    [read(&attempt.fees.max_fee_per_gas), read(&attempt.fees.max_priority_fee_per_gas)]
}

async fn balance(chain: &Chain, address: &str) -> u128 {
    wei(&chain.call("eth_getBalance", json!([address, "latest"])).await)
}

async fn lives_through_a_spike(name: &str, chain: Chain) {
    block_at(&chain, NORMAL).await;
    let (raising, mut capped) =
        join(House::built(&chain, 0, HIGH_CAP, INTENTS), House::built(&chain, 1, LOW_CAP, EARLY)).await;
    let before = chain.head().await;
    blocks_at(&chain, SPIKE, join(raising.is_done(), capped.has_waited())).await;
    // There is room for some of these, and it is not the window that they wait for.
    capped.hand_in("late", INTENTS - EARLY).await;
    let goes_on = chain.head().await + MORE_BLOCKS;
    blocks_at(&chain, SPIKE, eventually("it goes on", async || (chain.head().await >= goes_on).then_some(()))).await;
    let spike = chain.head().await - before;
    assert!(chain.mined_of(&capped.address).await.is_empty(), "it has paid more than it may");
    assert_eq!(capped.rows("tx_attempt").await, EARLY as i64, "what cannot be mined was signed all the same");
    blocks_at(&chain, NORMAL, capped.is_done()).await;

    let (high, raises) = raising.assert_paid(&chain, HIGH_CAP).await;
    assert!(raises >= WINDOW, "what was in the pool at the old price was mined without a raise");
    let (low, _) = capped.assert_paid(&chain, LOW_CAP).await;
    eventually("it says that it is cheaper", async || {
        (capped.rows("tx_event WHERE kind = 'fees_below_cap'").await >= 1).then_some(())
    })
    .await;
    assert_eq!(chain.balance(TO).await, 2 * INTENTS as u64, "something happened twice, or never");
    tell(&format!(
        "{name}: {spike} blocks at 20 times the price: {INTENTS} confirmed in them for {} wei with {raises} raises; {INTENTS} waited \
         below their cap, and paid {} wei",
        high.paid, low.paid
    ));
}

/// proves F01, F02, F06
#[tokio::test(flavor = "multi_thread")]
async fn a_spike_on_the_dev_chain_is_paid_under_the_cap_or_waited_out() {
    lives_through_a_spike("dev chain", Chain::dev(Mining::OnDemand).await).await;
}

/// proves F01, F02, F06
#[tokio::test(flavor = "multi_thread")]
async fn a_spike_on_anvil_is_paid_under_the_cap_or_waited_out() {
    lives_through_a_spike("anvil", Chain::start(Mining::OnDemand)).await;
}

/// proves F01, F02, F06
#[tokio::test(flavor = "multi_thread")]
async fn a_spike_on_hardhat_is_paid_under_the_cap_or_waited_out() {
    lives_through_a_spike("Hardhat", Chain::hardhat(Mining::OnDemand)).await;
}
