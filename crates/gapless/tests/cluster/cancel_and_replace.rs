//! Cancels and replacements at any time: in the queue, in flight, and after the end of the intent.

use std::time::Duration;

use futures_util::future::{join, join_all};
use gapless_sim::Dice;
use gapless_testbed::Mining;
use gapless_wire::{
    AttemptKindName, CallPayload, Client, ClientError, ReplaceRequest, TxExpand, TxQuery, TxRequest, TxStateName,
    TxView,
};
use serde_json::json;

use crate::intent_outcomes::{IntentOutcomes, blocks_every, mined_attempt, print_figures};
use crate::support::{
    AcceptedRequest, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, create_all,
    eventually, transfer, wait_until_done,
};

/// The default seed; `GAPLESS_RACE_SEED` sets another.
const SEED: u64 = 7;
/// Four submitters, with a hundred intents in total.
const FOUR: &[u32] = &[0, 1, 2, 3];
const ONE: &[u32] = &[0];
const WINDOW: usize = 8;
const BASE_FEE: u128 = 1_000_000_000;
const BLOCK_TIME: Duration = Duration::from_millis(500);
/// Intents before the first block: a full window, and some in the queue.
const FIRST: usize = WINDOW + 4;
/// Intents that are changed before the first block: this number in flight, and this number in the queue.
const EARLY: usize = 2;
/// Intents at random times while blocks are mined.
const RANDOM: usize = 9;
/// Intents that are changed after their end.
const LATE: usize = 4;
const EACH: usize = FIRST + RANDOM + LATE;
/// The time in which the random intents are created.
const SPAN: Duration = Duration::from_secs(2);
const TO: &str = "0x00000000000000000000000000000000000a0121";
/// The recipient of the replacements.
const ELSEWHERE: &str = "0x00000000000000000000000000000000000a0122";
const WAIT: Option<Duration> = Some(Duration::from_secs(60));

/// The change that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Cancel,
    Replace,
}

impl Change {
    /// Asks for the change. Returns false if the intent has ended; every other refusal is a failure of the test.
    async fn is_accepted(self, client: &Client, tx_id: &str, wait: Option<Duration>) -> bool {
        let done: Result<(), ClientError> = match self {
            Change::Cancel => client.cancel_tx(tx_id, wait).await.map(|_| ()),
            Change::Replace => client.replace_tx(tx_id, &replacement(), wait).await.map(|_| ()),
        };
        match done {
            Ok(()) => true,
            Err(error) if error.problem().is_some_and(|problem| problem.code == "already_final") => false,
            Err(error) => panic!("{self:?} of {tx_id}: {error}"),
        }
    }

    fn kind(self) -> AttemptKindName {
        match self {
            Change::Cancel => AttemptKindName::Cancel,
            Change::Replace => AttemptKindName::Replace,
        }
    }
}

fn replacement() -> ReplaceRequest {
    let value = Some("1".to_owned());
    let payload =
        CallPayload { to: Some(ELSEWHERE.to_owned()), value, data: Some("0x2a".to_owned()), ..CallPayload::default() };
    ReplaceRequest { payload }
}

fn seed() -> u64 {
    std::env::var("GAPLESS_RACE_SEED").map_or(SEED, |seed| seed.parse().unwrap())
}

/// A run in which every intent gets a cancel or a replacement, and all intents have ended.
struct ChangeRun {
    chain: TestChain,
    lanes: usize,
    intents: usize,
    nodes: Vec<NodeProcess>,
    ledgers: Vec<SubmitterLedger>,
    /// The ids of intents that were changed before the first block.
    early: Vec<String>,
    /// The ids of intents whose change was refused, because they had ended.
    too_late: Vec<String>,
}

impl ChangeRun {
    async fn run(change: Change, chain: TestChain, accounts: &[u32]) -> Self {
        let database = TestDatabase::shared().await;
        chain.mine(1).await;
        let config = TestNodeConfig::new(&database.url, &chain.url(), accounts)
            .set("nonce.max_in_flight", &WINDOW.to_string())
            .set("confirmations.required", "2");
        let (a, b) = join(NodeProcess::start("a", &config), NodeProcess::start("b", &config)).await;
        let nodes = vec![a, b];
        let (early, rest): (Vec<_>, Vec<_>) =
            join_all(accounts.iter().map(|account| change_before_first_block(change, &nodes, *account)))
                .await
                .into_iter()
                .unzip();
        let later = async {
            let mut rng = Dice::new(seed(), "callers");
            let mut callers = Vec::new();
            for id in rest.into_iter().flatten() {
                callers.push(caller(
                    change,
                    &nodes,
                    Err(id),
                    Duration::ZERO,
                    rng.up_to(BLOCK_TIME),
                    rng.below(u64::MAX),
                ));
            }
            for (account, n) in accounts.iter().flat_map(|account| (0..RANDOM).map(move |n| (account, n))) {
                let request = transfer(&format!("s{account}"), &format!("random-{n}"), TO);
                callers.push(caller(
                    change,
                    &nodes,
                    Ok(request),
                    rng.up_to(SPAN),
                    rng.up_to(BLOCK_TIME),
                    rng.below(u64::MAX),
                ));
            }
            let mut too_late: Vec<String> = join_all(callers).await.into_iter().flatten().collect();
            let late = accounts.iter().map(|account| change_after_end(change, &nodes, *account));
            too_late.extend(join_all(late).await.into_iter().flatten());
            for account in accounts {
                wait_until_done(&nodes[0].client, &format!("s{account}")).await;
            }
            too_late
        };
        let too_late = blocks_every(BLOCK_TIME, &chain, BASE_FEE, later).await;
        let mut ledgers = Vec::new();
        for account in accounts {
            ledgers.push(SubmitterLedger::read(&nodes[1].client, &format!("s{account}")).await);
        }
        let (lanes, intents) = (accounts.len(), EACH * accounts.len());
        assert_eq!(ledgers.iter().map(|ledger| ledger.txs.len()).sum::<usize>(), intents);
        ChangeRun { chain, lanes, intents, nodes, ledgers, early: early.into_iter().flatten().collect(), too_late }
    }

    /// The outcomes of all intents, compared with the chain.
    async fn outcomes(&self) -> IntentOutcomes {
        let mut outcomes = IntentOutcomes::default();
        for ledger in &self.ledgers {
            outcomes += IntentOutcomes::of(&self.chain, ledger).await;
        }
        outcomes
    }

    fn txs(&self) -> impl Iterator<Item = &TxView> {
        self.ledgers.iter().flat_map(|ledger| ledger.txs.values())
    }

    fn is_early(&self, tx: &TxView) -> bool {
        self.early.contains(&tx.tx_id)
    }

    fn is_too_late(&self, tx: &TxView) -> bool {
        self.too_late.contains(&tx.tx_id)
    }
}

/// Changes some intents in flight, until their new transactions are in the pool, and some queued intents, before the
/// first block. Returns the ids of the changed intents, and of the rest.
async fn change_before_first_block(change: Change, nodes: &[NodeProcess], account: u32) -> (Vec<String>, Vec<String>) {
    let submitter = format!("s{account}");
    let accepted = create_all(nodes, &submitter, "first", TO, FIRST, FIRST).await;
    let client = &nodes[0].client;
    let ids: Vec<&str> = accepted.iter().map(|accepted: &AcceptedRequest| accepted.tx_id.as_str()).collect();
    let (in_flight, queued) = eventually("the window is full", async || {
        let plain = TxQuery::default();
        let views = join_all(ids.iter().map(|id| client.tx(id, &plain))).await;
        let views: Vec<TxView> = views.into_iter().map(Result::unwrap).collect();
        let ids = |state| views.iter().filter(|tx| tx.state == state).map(|tx| tx.tx_id.clone()).collect::<Vec<_>>();
        let in_flight = ids(TxStateName::Tracking);
        (in_flight.len() == WINDOW).then(|| (in_flight, ids(TxStateName::Queued)))
    })
    .await;
    let (in_flight, queued) = (&in_flight[..EARLY], &queued[..EARLY]);
    for id in in_flight.iter().chain(queued) {
        assert!(change.is_accepted(&nodes[1].client, id, WAIT).await);
    }
    let query = TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
    for id in in_flight {
        eventually("the new transaction is in the pool", async || {
            let attempts = client.tx(id, &query).await.unwrap().attempts?;
            attempts.iter().any(|attempt| attempt.kind == change.kind() && attempt.sends > 0).then_some(())
        })
        .await;
    }
    let early: Vec<String> = in_flight.iter().chain(queued).cloned().collect();
    let rest = ids.into_iter().filter(|id| !early.iter().any(|other| other == id)).map(str::to_owned).collect();
    (early, rest)
}

/// Creates an intent at some time, unless it exists, and asks for a change some time later. Returns the id if the
/// change was refused.
async fn caller(
    change: Change,
    nodes: &[NodeProcess],
    intent: Result<TxRequest, String>,
    at: Duration,
    after: Duration,
    first_node: u64,
) -> Option<String> {
    let clients: Vec<&Client> = nodes.iter().map(|node| &node.client).collect();
    let first_node = first_node as usize % clients.len();
    tokio::time::sleep(at).await;
    let id = match intent {
        Ok(request) => create(&clients, first_node, &request).await.tx_id,
        Err(id) => id,
    };
    tokio::time::sleep(after).await;
    let is_accepted = change.is_accepted(clients[(first_node + 1) % clients.len()], &id, None).await;
    (!is_accepted).then_some(id)
}

/// Asserts that intents cannot be changed after their end, and returns their ids.
async fn change_after_end(change: Change, nodes: &[NodeProcess], account: u32) -> Vec<String> {
    let submitter = format!("s{account}");
    let accepted = create_all(nodes, &submitter, "late", TO, LATE, LATE).await;
    let client = &nodes[1].client;
    let mut ids = Vec::new();
    for AcceptedRequest { tx_id, .. } in accepted {
        eventually("the intent is confirmed", async || {
            let state = client.tx(&tx_id, &TxQuery::default()).await.ok()?.state;
            (state == TxStateName::Confirmed).then_some(())
        })
        .await;
        assert!(!change.is_accepted(client, &tx_id, WAIT).await);
        ids.push(tx_id);
    }
    ids
}

/// proves S13, S15
#[tokio::test(flavor = "multi_thread")]
async fn racing_cancels_end_as_the_dev_chain_decides() {
    assert_cancels_end_as_on_chain("dev chain", TestChain::dev(Mining::OnDemand).await, FOUR).await;
}

/// proves S13, S15
#[tokio::test(flavor = "multi_thread")]
async fn racing_cancels_end_as_anvil_decides() {
    assert_cancels_end_as_on_chain("anvil", TestChain::start(Mining::OnDemand), ONE).await;
}

/// proves S13, S15
#[tokio::test(flavor = "multi_thread")]
async fn racing_cancels_end_as_hardhat_decides() {
    assert_cancels_end_as_on_chain("Hardhat", TestChain::hardhat(Mining::OnDemand), ONE).await;
}

/// proves S14, S15
#[tokio::test(flavor = "multi_thread")]
async fn racing_replacements_report_the_payload_on_the_dev_chain() {
    assert_payload_is_reported("dev chain", TestChain::dev(Mining::OnDemand).await, FOUR).await;
}

/// proves S14, S15
#[tokio::test(flavor = "multi_thread")]
async fn racing_replacements_report_the_payload_on_anvil() {
    assert_payload_is_reported("anvil", TestChain::start(Mining::OnDemand), ONE).await;
}

/// proves S14, S15
#[tokio::test(flavor = "multi_thread")]
async fn racing_replacements_report_the_payload_on_hardhat() {
    assert_payload_is_reported("Hardhat", TestChain::hardhat(Mining::OnDemand), ONE).await;
}

async fn assert_cancels_end_as_on_chain(name: &str, chain: TestChain, accounts: &[u32]) {
    let run = ChangeRun::run(Change::Cancel, chain, accounts).await;
    let outcomes = run.outcomes().await;
    let IntentOutcomes { confirmed, canceled, canceled_in_queue, paid } = outcomes;
    assert_eq!(confirmed + canceled + canceled_in_queue, run.intents);
    assert_eq!(run.chain.balance(TO).await, confirmed as u64, "a transfer happened twice, or after a cancel");
    let mut raced = 0;
    for tx in run.txs() {
        if run.is_early(tx) {
            assert_eq!(tx.state, TxStateName::Canceled, "the early cancel lost: {tx:?}");
        }
        if run.is_too_late(tx) {
            assert_eq!(tx.state, TxStateName::Confirmed, "the intent had ended before the cancel: {tx:?}");
        }
        let attempts = tx.attempts.as_deref().unwrap();
        raced += usize::from(attempts.len() > 1 && tx.state == TxStateName::Confirmed);
    }
    assert!(canceled >= EARLY * run.lanes && canceled_in_queue >= EARLY * run.lanes, "{outcomes:?}");
    assert!(confirmed >= LATE * run.lanes, "{outcomes:?}");
    let (too_late, intents) = (run.too_late.len(), run.intents);
    print_figures(&format!(
        "{name}, seed {}: {intents} cancels: {confirmed} CONFIRMED ({too_late} refused as too late, {raced} with a \
         cancel that lost), {canceled} CANCELED on chain, {canceled_in_queue} in the queue; {paid} wei paid",
        seed()
    ));
}

async fn assert_payload_is_reported(name: &str, chain: TestChain, accounts: &[u32]) {
    let run = ChangeRun::run(Change::Replace, chain, accounts).await;
    let outcomes = run.outcomes().await;
    assert_eq!((outcomes.confirmed, outcomes.canceled, outcomes.canceled_in_queue), (run.intents, 0, 0));
    let (mut first, mut second, mut in_queue, mut lost) = (0, 0, 0, 0);
    for tx in run.txs() {
        let on_chain = run.chain.call("eth_getTransactionByHash", json!([tx.hash])).await;
        let is_second = on_chain["to"].as_str().unwrap().eq_ignore_ascii_case(ELSEWHERE);
        let wanted = if is_second { (ELSEWHERE, "0x2a") } else { (TO, "0x") };
        let found = (on_chain["to"].as_str().unwrap(), on_chain["input"].as_str().unwrap());
        assert_eq!(found, wanted, "the chain has neither of the two payloads");
        assert_eq!(on_chain["value"].as_str(), Some("0x1"));
        // The view reports the same payload.
        let receipt = tx.receipt.as_ref().unwrap();
        let reported = receipt.mined_payload.as_ref().or(tx.payload.as_ref()).unwrap();
        let reported = (reported.to.as_deref().unwrap(), reported.data.as_deref().unwrap_or("0x"));
        assert!(reported.0.eq_ignore_ascii_case(wanted.0) && reported.1 == wanted.1, "{tx:?}");
        assert_eq!(receipt.mined_payload.is_some(), tx.replacement.is_some(), "{tx:?}");
        assert!(!is_second || tx.replacement.is_some(), "{tx:?}");
        let kind = mined_attempt(tx).kind;
        assert_eq!(is_second, kind == AttemptKindName::Replace, "{tx:?}");
        assert!(!run.is_early(tx) || is_second, "the early replacement lost: {tx:?}");
        assert!(!run.is_too_late(tx) || !is_second, "the intent had ended before the replacement: {tx:?}");
        *if is_second { &mut second } else { &mut first } += 1;
        let attempts = tx.attempts.as_deref().unwrap();
        in_queue += usize::from(is_second && attempts.len() == 1);
        lost += usize::from(!is_second && tx.replacement.is_some());
    }
    assert!(first >= LATE * run.lanes && second >= 2 * EARLY * run.lanes, "{first} and {second}");
    assert!(in_queue >= EARLY * run.lanes, "{in_queue}");
    assert_eq!(run.chain.balance(TO).await, first as u64);
    assert_eq!(run.chain.balance(ELSEWHERE).await, second as u64);
    assert_request_id_names_first_payload(&run).await;
    let (too_late, intents) = (run.too_late.len(), run.intents);
    print_figures(&format!(
        "{name}, seed {}: {intents} replacements: {first} have the first payload on chain ({too_late} refused as too \
         late, {lost} with a replacement that lost), {second} the second ({in_queue} replaced in the queue); {} wei \
         paid",
        seed(),
        outcomes.paid
    ));
}

async fn assert_request_id_names_first_payload(run: &ChangeRun) {
    let client = &run.nodes[0].client;
    for tx in run.ledgers[0].txs.values() {
        let again = transfer("s0", &tx.request_id, TO);
        let (known, is_new) = client.create_tx(&again).await.unwrap();
        assert_eq!((known.tx_id.as_str(), is_new), (tx.tx_id.as_str(), false));
        let other = TxRequest { payload: replacement().payload, ..again };
        let refused = client.create_tx(&other).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, "request_id_conflict");
    }
}
