//! A base fee that rises to twenty times its value, on every kind of chain node, with two submitters: one bumps its
//! fees, and the other has a lower price limit.

use std::collections::BTreeMap;

use futures_util::future::join;
use gapless_testbed::Mining;
use gapless_wire::{AttemptKindName, AttemptView, TxView};
use serde_json::json;

use crate::intent_outcomes::{IntentOutcomes, block_at, blocks_at, print_figures, wei};
use crate::support::{
    AcceptedRequest, AccountKey, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create_all,
    eventually, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0131";
const GWEI: u128 = 1_000_000_000;
const NORMAL: u128 = GWEI;
const SPIKE: u128 = 20 * NORMAL;
/// Above the price in the spike, with tips.
const HIGH_CAP: u128 = 100 * GWEI;
/// Below the price in the spike, and above the normal price.
const LOW_CAP: u128 = 10 * GWEI;
const WINDOW: usize = 4;
const INTENTS: usize = 12;
/// Intents of the capped submitter that are in the pool before the spike; the others come during the spike.
const EARLY: usize = 2;
const MORE_BLOCKS: u64 = 25;
/// Sends of a waiting transaction during the spike. Some chain nodes accept them, and others (anvil) answer that the
/// price is too low; then the lane waits.
const SENDS: i64 = 2;

/// One submitter with its own node and database.
struct SubmitterSetup {
    database: TestDatabase,
    node: NodeProcess,
    submitter: String,
    address: String,
    balance: u128,
    accepted: Vec<AcceptedRequest>,
}

impl SubmitterSetup {
    /// Starts a submitter with a price limit, creates intents at the normal price, and waits until a window is in the
    /// pool.
    async fn start(chain: &TestChain, account: u32, cap: u128, intents: usize) -> Self {
        let (database, submitter, address) =
            (TestDatabase::shared().await, format!("s{account}"), AccountKey::of(account).address());
        let config = TestNodeConfig::new(&database.url, &chain.url(), &[account])
            .set("nonce.max_in_flight", &WINDOW.to_string())
            .set("resubmit.interval", "1s")
            .set("lane.account_interval", "250ms")
            .set("fees.max_price", &cap.to_string())
            .set("gas_bump.enabled", "true")
            .set("gas_bump.min_interval", "500ms")
            .set("gas_bump.min_blocks", "1")
            .set("gas_bump.multiplier", "1.5")
            .set("gas_bump.max_market", "30");
        let node = NodeProcess::start(&submitter, &config).await;
        let balance = balance(chain, &address).await;
        let mut setup = SubmitterSetup { database, node, submitter, address, balance, accepted: Vec::new() };
        setup.create_intents("early", intents).await;
        let pooled = WINDOW.min(intents) as i64;
        eventually("a window of transactions is in the pool", async || {
            (setup.rows("tx_attempt WHERE sends > 0").await == pooled).then_some(())
        })
        .await;
        setup
    }

    async fn create_intents(&mut self, prefix: &str, intents: usize) {
        let nodes = std::slice::from_ref(&self.node);
        self.accepted.extend(create_all(nodes, &self.submitter, prefix, TO, intents, intents).await);
    }

    async fn rows(&self, table: &str) -> i64 {
        self.database.count(&format!("SELECT count(*) FROM {table}")).await
    }

    async fn wait_until_done(&self) {
        wait_until_done(&self.node.client, &self.submitter).await;
    }

    /// Waits until there is an event about the price limit and the transactions in the pool were sent again.
    async fn wait_until_capped(&self) {
        let sends = "SELECT coalesce(max(sends), 0)::bigint FROM tx_attempt";
        eventually("the lane waits for a lower price", async || {
            let events = self.rows("tx_event WHERE kind = 'fees_above_cap'").await;
            (events >= 1 && self.database.count(sends).await >= SENDS).then_some(())
        })
        .await;
    }

    /// Asserts that every accepted intent is CONFIRMED once, that every attempt is below the limit and above the
    /// attempts before it by the required step, and that the paid fees are equal in views, receipts and the balance.
    /// Returns the outcomes and the number of bumps.
    async fn assert_paid(&self, chain: &TestChain, cap: u128) -> (IntentOutcomes, usize) {
        let ledger = SubmitterLedger::read(&self.node.client, &self.submitter).await;
        let outcomes = IntentOutcomes::of(chain, &ledger).await;
        assert_eq!((outcomes.confirmed, outcomes.canceled + outcomes.canceled_in_queue), (INTENTS, 0));
        let wanted: BTreeMap<&str, &str> =
            self.accepted.iter().map(|a| (a.request_id.as_str(), a.tx_id.as_str())).collect();
        let found: BTreeMap<&str, &str> = ledger.txs.iter().map(|(id, tx)| (id.as_str(), tx.tx_id.as_str())).collect();
        assert_eq!(found, wanted);
        let bumps = ledger.txs.values().map(|tx| assert_fees(tx, cap)).sum();
        let spent = self.balance - balance(chain, &self.address).await;
        assert_eq!(spent, outcomes.paid + INTENTS as u128, "the balance differs from the paid fees");
        self.assert_metrics(outcomes.paid, INTENTS + bumps).await;
        (outcomes, bumps)
    }

    /// Asserts the metrics: the whole gwei of each transaction, and every attempt.
    async fn assert_metrics(&self, paid: u128, attempts: usize) {
        let gwei = self.node.counter("gapless_fees_paid_gwei_total").await;
        let wanted = (paid / GWEI) as f64;
        assert!((gwei - wanted).abs() <= INTENTS as f64, "the metric has {gwei} gwei, and {wanted} were paid");
        assert_eq!(self.node.counter("gapless_tx_attempts_total").await, attempts as f64);
    }
}

/// Asserts the fees of all attempts, and returns the number of bumps.
fn assert_fees(tx: &TxView, cap: u128) -> usize {
    let attempts = tx.attempts.as_deref().unwrap();
    for (n, attempt) in attempts.iter().enumerate() {
        let [max_fee, tip] = fees(attempt);
        assert!(max_fee <= cap && tip <= max_fee, "{max_fee} of at most {cap}: {tx:?}");
        for before in &attempts[..n] {
            let [max_fee_before, tip_before] = fees(before);
            let is_enough = |new: u128, old: u128| new >= (old + old.div_ceil(10)).max(old + 1);
            assert!(is_enough(max_fee, max_fee_before) && is_enough(tip, tip_before), "the step is too small: {tx:?}");
        }
        let kind = if n == 0 { AttemptKindName::Original } else { AttemptKindName::Bump };
        assert_eq!(attempt.kind, kind);
    }
    let receipt = tx.receipt.as_ref().unwrap();
    assert_eq!(receipt.bumps, Some(attempts.len() as u32 - 1));
    assert!(receipt.effective_gas_price.parse::<u128>().unwrap() <= cap);
    attempts.len() - 1
}

fn fees(attempt: &AttemptView) -> [u128; 2] {
    let read = |text: &Option<String>| text.as_ref().unwrap().parse().unwrap();
    [read(&attempt.fees.max_fee_per_gas), read(&attempt.fees.max_priority_fee_per_gas)]
}

async fn balance(chain: &TestChain, address: &str) -> u128 {
    wei(&chain.call("eth_getBalance", json!([address, "latest"])).await)
}

async fn confirm_through_a_spike(name: &str, chain: TestChain) {
    block_at(&chain, NORMAL).await;
    let (bumping, mut capped) =
        join(SubmitterSetup::start(&chain, 0, HIGH_CAP, INTENTS), SubmitterSetup::start(&chain, 1, LOW_CAP, EARLY))
            .await;
    let before = chain.head().await;
    Box::pin(blocks_at(&chain, SPIKE, join(bumping.wait_until_done(), capped.wait_until_capped()))).await;
    // The window has room for some of these, so they wait only for the price.
    capped.create_intents("late", INTENTS - EARLY).await;
    let target = chain.head().await + MORE_BLOCKS;
    let more_blocks = eventually("the spike has more blocks", async || (chain.head().await >= target).then_some(()));
    blocks_at(&chain, SPIKE, more_blocks).await;
    let spike = chain.head().await - before;
    assert!(chain.mined_of(&capped.address).await.is_empty(), "a transaction was mined above the price limit");
    assert_eq!(capped.rows("tx_attempt").await, EARLY as i64, "an attempt was signed above the price limit");
    blocks_at(&chain, NORMAL, capped.wait_until_done()).await;

    let (high, bumps) = bumping.assert_paid(&chain, HIGH_CAP).await;
    assert!(bumps >= WINDOW, "transactions at the old price were mined without a bump");
    let (low, _) = capped.assert_paid(&chain, LOW_CAP).await;
    eventually("there is an event about the lower price", async || {
        (capped.rows("tx_event WHERE kind = 'fees_below_cap'").await >= 1).then_some(())
    })
    .await;
    assert_eq!(chain.balance(TO).await, 2 * INTENTS as u64, "a transfer happened twice or never");
    print_figures(&format!(
        "{name}: {spike} blocks at 20 times the price: {INTENTS} intents confirmed in them for {} wei with {bumps} \
         bumps; {INTENTS} intents waited below their limit and paid {} wei",
        high.paid, low.paid
    ));
}

/// proves F01, F02, F06
#[tokio::test(flavor = "multi_thread")]
async fn fee_spike_is_bumped_or_waited_out_on_dev_chain() {
    Box::pin(confirm_through_a_spike("dev chain", TestChain::dev(Mining::OnDemand).await)).await;
}

/// proves F01, F02, F06
#[tokio::test(flavor = "multi_thread")]
async fn fee_spike_is_bumped_or_waited_out_on_anvil() {
    Box::pin(confirm_through_a_spike("anvil", TestChain::start(Mining::OnDemand))).await;
}

/// proves F01, F02, F06
#[tokio::test(flavor = "multi_thread")]
async fn fee_spike_is_bumped_or_waited_out_on_hardhat() {
    Box::pin(confirm_through_a_spike("Hardhat", TestChain::hardhat(Mining::OnDemand))).await;
}
