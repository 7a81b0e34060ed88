//! Callers who change their minds at any moment: before a transaction is sent, while it is on its way, and when it is too late.

use std::time::Duration;

use futures_util::future::{join, join_all};
use gapless_sim::Dice;
use gapless_testbed::Mining;
use gapless_wire::{
    AttemptKindName, CallPayload, Client, ClientError, ReplaceRequest, TxExpand, TxQuery, TxRequest, TxStateName,
    TxView,
};
use serde_json::json;

use crate::control::{Tally, blocks_every, mined_attempt, tell};
use crate::support::{
    Accepted, Chain, Database, Ledger, Node, NodeConfig, create, create_all, eventually, transfer, wait_until_done,
};

/// `GAPLESS_RACE_SEED` names another.
const SEED: u64 = 7;
/// A hundred intents in all.
const FOUR: &[u32] = &[0, 1, 2, 3];
const ONE: &[u32] = &[0];
const WINDOW: usize = 8;
const BASE_FEE: u128 = 1_000_000_000;
const BLOCK_TIME: Duration = Duration::from_millis(500);
/// Handed in before there are blocks: a full window, and some in line.
const FIRST: usize = WINDOW + 4;
/// Of those, whose caller is quicker than the chain for sure: so many in flight, and so many in line.
const EARLY: usize = 2;
/// Handed in while there are blocks, at any moment.
const RANDOM: usize = 9;
/// Whose caller is too late for sure.
const LATE: usize = 4;
const EACH: usize = FIRST + RANDOM + LATE;
/// What is handed in at any moment is so within this time.
const SPAN: Duration = Duration::from_secs(2);
const TO: &str = "0x00000000000000000000000000000000000a0121";
/// What callers ask for in place of it.
const ELSEWHERE: &str = "0x00000000000000000000000000000000000a0122";
const WAIT: Option<Duration> = Some(Duration::from_secs(60));

/// What a caller does who has changed its mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Cancel,
    Replace,
}

impl Deed {
    /// Is it written down? What has ended says so, and nothing else may be in the way.
    async fn is_taken(self, client: &Client, tx_id: &str, wait: Option<Duration>) -> bool {
        let done: Result<(), ClientError> = match self {
            Deed::Cancel => client.cancel_tx(tx_id, wait).await.map(|_| ()),
            Deed::Replace => client.replace_tx(tx_id, &replacement(), wait).await.map(|_| ()),
        };
        match done {
            Ok(()) => true,
            Err(error) if error.problem().is_some_and(|problem| problem.code == "already_final") => false,
            Err(error) => panic!("{self:?} of {tx_id}: {error}"),
        }
    }

    fn kind(self) -> AttemptKindName {
        match self {
            Deed::Cancel => AttemptKindName::Cancel,
            Deed::Replace => AttemptKindName::Replace,
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

/// Intents of which everyone's caller changes its mind, all ended, as their ledgers say.
struct Scene {
    chain: Chain,
    lanes: usize,
    intents: usize,
    nodes: Vec<Node>,
    ledgers: Vec<Ledger>,
    /// Ids of those whose callers were quicker than the chain.
    early: Vec<String>,
    /// Ids of those whose callers were told that it is too late.
    too_late: Vec<String>,
}

impl Scene {
    async fn played(deed: Deed, chain: Chain, accounts: &[u32]) -> Self {
        let database = Database::shared().await;
        chain.mine(1).await;
        let config = NodeConfig::new(&database.url, &chain.url(), accounts)
            .set("nonce.max_in_flight", &WINDOW.to_string())
            .set("confirmations.required", "2");
        let (a, b) = join(Node::start("a", &config), Node::start("b", &config)).await;
        let nodes = vec![a, b];
        let (early, rest): (Vec<_>, Vec<_>) =
            join_all(accounts.iter().map(|account| before_there_are_blocks(deed, &nodes, *account)))
                .await
                .into_iter()
                .unzip();
        let later = async {
            let mut dice = Dice::new(seed(), "callers");
            let mut callers = Vec::new();
            for id in rest.into_iter().flatten() {
                callers.push(caller(
                    deed,
                    &nodes,
                    Err(id),
                    Duration::ZERO,
                    dice.up_to(BLOCK_TIME),
                    dice.below(u64::MAX),
                ));
            }
            for (account, n) in accounts.iter().flat_map(|account| (0..RANDOM).map(move |n| (account, n))) {
                let request = transfer(&format!("s{account}"), &format!("random-{n}"), TO);
                callers.push(caller(
                    deed,
                    &nodes,
                    Ok(request),
                    dice.up_to(SPAN),
                    dice.up_to(BLOCK_TIME),
                    dice.below(u64::MAX),
                ));
            }
            let mut too_late: Vec<String> = join_all(callers).await.into_iter().flatten().collect();
            let late = accounts.iter().map(|account| when_it_is_done(deed, &nodes, *account));
            too_late.extend(join_all(late).await.into_iter().flatten());
            for account in accounts {
                wait_until_done(&nodes[0].client, &format!("s{account}")).await;
            }
            too_late
        };
        let too_late = blocks_every(BLOCK_TIME, &chain, BASE_FEE, later).await;
        let mut ledgers = Vec::new();
        for account in accounts {
            ledgers.push(Ledger::read(&nodes[1].client, &format!("s{account}")).await);
        }
        let (lanes, intents) = (accounts.len(), EACH * accounts.len());
        assert_eq!(ledgers.iter().map(|ledger| ledger.txs.len()).sum::<usize>(), intents);
        Scene { chain, lanes, intents, nodes, ledgers, early: early.into_iter().flatten().collect(), too_late }
    }

    /// With all of them compared with the chain.
    async fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for ledger in &self.ledgers {
            tally += Tally::of(&self.chain, ledger).await;
        }
        tally
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

/// No block comes before some of those in flight have their other transaction in the pool, and some in line are changed. Whose turn
/// was early comes back, and the rest.
async fn before_there_are_blocks(deed: Deed, nodes: &[Node], account: u32) -> (Vec<String>, Vec<String>) {
    let submitter = format!("s{account}");
    let accepted = create_all(nodes, &submitter, "first", TO, FIRST, FIRST).await;
    let client = &nodes[0].client;
    let ids: Vec<&str> = accepted.iter().map(|accepted: &Accepted| accepted.tx_id.as_str()).collect();
    let (flying, queued) = eventually("the window is full", async || {
        let plain = TxQuery::default();
        let views = join_all(ids.iter().map(|id| client.tx(id, &plain))).await;
        let views: Vec<TxView> = views.into_iter().map(Result::unwrap).collect();
        let of = |state| views.iter().filter(|tx| tx.state == state).map(|tx| tx.tx_id.clone()).collect::<Vec<_>>();
        let flying = of(TxStateName::Tracking);
        (flying.len() == WINDOW).then(|| (flying, of(TxStateName::Queued)))
    })
    .await;
    let (in_flight, in_line) = (&flying[..EARLY], &queued[..EARLY]);
    for id in in_flight.iter().chain(in_line) {
        assert!(deed.is_taken(&nodes[1].client, id, WAIT).await);
    }
    let query = TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
    for id in in_flight {
        eventually("its other transaction is in the pool", async || {
            let attempts = client.tx(id, &query).await.unwrap().attempts?;
            attempts.iter().any(|attempt| attempt.kind == deed.kind() && attempt.sends > 0).then_some(())
        })
        .await;
    }
    let early: Vec<String> = in_flight.iter().chain(in_line).cloned().collect();
    let rest = ids.into_iter().filter(|id| !early.iter().any(|other| other == id)).map(str::to_owned).collect();
    (early, rest)
}

/// Hands its intent in at some moment, if it has none yet, and changes its mind after some time. Its id comes back if it was told that
/// it is too late.
async fn caller(
    deed: Deed,
    nodes: &[Node],
    intent: Result<TxRequest, String>,
    at: Duration,
    after: Duration,
    door: u64,
) -> Option<String> {
    let clients: Vec<&Client> = nodes.iter().map(|node| &node.client).collect();
    let door = door as usize % clients.len();
    tokio::time::sleep(at).await;
    let id = match intent {
        Ok(request) => create(&clients, door, &request).await.tx_id,
        Err(id) => id,
    };
    tokio::time::sleep(after).await;
    let is_taken = deed.is_taken(clients[(door + 1) % clients.len()], &id, None).await;
    (!is_taken).then_some(id)
}

/// Nobody changes anything about what has ended.
async fn when_it_is_done(deed: Deed, nodes: &[Node], account: u32) -> Vec<String> {
    let submitter = format!("s{account}");
    let accepted = create_all(nodes, &submitter, "late", TO, LATE, LATE).await;
    let client = &nodes[1].client;
    let mut ids = Vec::new();
    for Accepted { tx_id, .. } in accepted {
        eventually("it is confirmed", async || {
            let state = client.tx(&tx_id, &TxQuery::default()).await.ok()?.state;
            (state == TxStateName::Confirmed).then_some(())
        })
        .await;
        assert!(!deed.is_taken(client, &tx_id, WAIT).await);
        ids.push(tx_id);
    }
    ids
}

/// proves S13, S15
#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_cancels_at_any_moment_each_ends_as_the_chain_has_decided() {
    cancels_end_as_the_chain_says("dev chain", Chain::dev(Mining::OnDemand).await, FOUR).await;
}

/// proves S13, S15
#[tokio::test(flavor = "multi_thread")]
async fn cancels_at_any_moment_end_as_anvil_has_decided() {
    cancels_end_as_the_chain_says("anvil", Chain::start(Mining::OnDemand), ONE).await;
}

/// proves S13, S15
#[tokio::test(flavor = "multi_thread")]
async fn cancels_at_any_moment_end_as_hardhat_has_decided() {
    cancels_end_as_the_chain_says("Hardhat", Chain::hardhat(Mining::OnDemand), ONE).await;
}

/// proves S14, S15
#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_replacements_at_any_moment_one_payload_is_on_chain_and_it_is_the_one_reported() {
    the_payload_on_chain_is_reported("dev chain", Chain::dev(Mining::OnDemand).await, FOUR).await;
}

/// proves S14, S15
#[tokio::test(flavor = "multi_thread")]
async fn of_two_payloads_the_one_that_is_on_anvil_is_reported() {
    the_payload_on_chain_is_reported("anvil", Chain::start(Mining::OnDemand), ONE).await;
}

/// proves S14, S15
#[tokio::test(flavor = "multi_thread")]
async fn of_two_payloads_the_one_that_is_on_hardhat_is_reported() {
    the_payload_on_chain_is_reported("Hardhat", Chain::hardhat(Mining::OnDemand), ONE).await;
}

async fn cancels_end_as_the_chain_says(name: &str, chain: Chain, accounts: &[u32]) {
    let scene = Scene::played(Deed::Cancel, chain, accounts).await;
    let tally = scene.tally().await;
    let Tally { confirmed, canceled, canceled_in_queue, paid } = tally;
    assert_eq!(confirmed + canceled + canceled_in_queue, scene.intents);
    assert_eq!(scene.chain.balance(TO).await, confirmed as u64, "something happened twice, or though it was canceled");
    let mut raced = 0;
    for tx in scene.txs() {
        if scene.is_early(tx) {
            assert_eq!(tx.state, TxStateName::Canceled, "nobody was quicker: {tx:?}");
        }
        if scene.is_too_late(tx) {
            assert_eq!(tx.state, TxStateName::Confirmed, "it had ended: {tx:?}");
        }
        let attempts = tx.attempts.as_deref().unwrap();
        raced += usize::from(attempts.len() > 1 && tx.state == TxStateName::Confirmed);
    }
    assert!(canceled >= EARLY * scene.lanes && canceled_in_queue >= EARLY * scene.lanes, "{tally:?}");
    assert!(confirmed >= LATE * scene.lanes, "{tally:?}");
    let (too_late, intents) = (scene.too_late.len(), scene.intents);
    tell(&format!(
        "{name}, seed {}: {intents} cancels: {confirmed} CONFIRMED ({too_late} told that it is too late, {raced} with a cancel that \
         lost), {canceled} CANCELED on chain, {canceled_in_queue} in the queue; {paid} wei paid",
        seed()
    ));
}

async fn the_payload_on_chain_is_reported(name: &str, chain: Chain, accounts: &[u32]) {
    let scene = Scene::played(Deed::Replace, chain, accounts).await;
    let tally = scene.tally().await;
    assert_eq!((tally.confirmed, tally.canceled, tally.canceled_in_queue), (scene.intents, 0, 0));
    let (mut first, mut second, mut in_line, mut lost) = (0, 0, 0, 0);
    for tx in scene.txs() {
        let on_chain = scene.chain.call("eth_getTransactionByHash", json!([tx.hash])).await;
        let is_second = on_chain["to"].as_str().unwrap().eq_ignore_ascii_case(ELSEWHERE);
        let wanted = if is_second { (ELSEWHERE, "0x2a") } else { (TO, "0x") };
        let found = (on_chain["to"].as_str().unwrap(), on_chain["input"].as_str().unwrap());
        assert_eq!(found, wanted, "neither of its payloads");
        assert_eq!(on_chain["value"].as_str(), Some("0x1"));
        // What the view says of it, without the chain.
        let receipt = tx.receipt.as_ref().unwrap();
        let told = receipt.mined_payload.as_ref().or(tx.payload.as_ref()).unwrap();
        let told = (told.to.as_deref().unwrap(), told.data.as_deref().unwrap_or("0x"));
        assert!(told.0.eq_ignore_ascii_case(wanted.0) && told.1 == wanted.1, "{tx:?}");
        assert_eq!(receipt.mined_payload.is_some(), tx.replacement.is_some(), "{tx:?}");
        assert!(!is_second || tx.replacement.is_some(), "{tx:?}");
        let kind = mined_attempt(tx).kind;
        assert_eq!(is_second, kind == AttemptKindName::Replace, "{tx:?}");
        assert!(!scene.is_early(tx) || is_second, "nobody was quicker: {tx:?}");
        assert!(!scene.is_too_late(tx) || !is_second, "it had ended: {tx:?}");
        *if is_second { &mut second } else { &mut first } += 1;
        let attempts = tx.attempts.as_deref().unwrap();
        in_line += usize::from(is_second && attempts.len() == 1);
        lost += usize::from(!is_second && tx.replacement.is_some());
    }
    assert!(first >= LATE * scene.lanes && second >= 2 * EARLY * scene.lanes, "{first} and {second}");
    assert!(in_line >= EARLY * scene.lanes, "{in_line}");
    assert_eq!(scene.chain.balance(TO).await, first as u64);
    assert_eq!(scene.chain.balance(ELSEWHERE).await, second as u64);
    the_request_id_stands_for_the_first_payload(&scene).await;
    let (too_late, intents) = (scene.too_late.len(), scene.intents);
    tell(&format!(
        "{name}, seed {}: {intents} replacements: {first} have the first payload on chain ({too_late} told that it is too late, {lost} \
         with a replacement that lost), {second} the second ({in_line} replaced in the queue); {} wei paid",
        seed(),
        tally.paid
    ));
}

async fn the_request_id_stands_for_the_first_payload(scene: &Scene) {
    let client = &scene.nodes[0].client;
    for tx in scene.ledgers[0].txs.values() {
        let again = transfer("s0", &tx.request_id, TO);
        let (known, is_new) = client.create_tx(&again).await.unwrap();
        assert_eq!((known.tx_id.as_str(), is_new), (tx.tx_id.as_str(), false));
        let other = TxRequest { payload: replacement().payload, ..again };
        let refused = client.create_tx(&other).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, "request_id_conflict");
    }
}
