//! Foreign transactions and authorizations that use the key of a submitter.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::{
    AuditQuery, AuditView, Client, CommandState, LaneStateName, ResyncRequest, SubmitterExpand, TxExpand, TxQuery,
    TxStateName,
};
use serde_json::json;

use crate::support::{
    AcceptedRequest, AccountKey, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create,
    create_all, eventually, owner, start_three_nodes, transfer, wait_for_takeover, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0101";
/// The recipient of the foreign transactions.
const ELSEWHERE: &str = "0x00000000000000000000000000000000000a0102";
const WINDOW: u64 = 4;
const INTENTS: usize = 12;
/// More than the lane can bind before it notices: some may have nonces of intents, and some are ahead of the lane.
const FOREIGN: u64 = WINDOW + 2;
const WAIT: Option<Duration> = Some(Duration::from_secs(60));
const DRY_RUN: ResyncRequest = ResyncRequest { lost: None, dry_run: Some(true) };
const RESYNC: ResyncRequest = ResyncRequest { lost: None, dry_run: None };

/// Three nodes and one submitter with a full window and a queue. Foreign transactions follow the window in the same
/// block.
struct ForeignCluster {
    chain: TestChain,
    database: TestDatabase,
    nodes: Vec<NodeProcess>,
    accepted: Vec<AcceptedRequest>,
    /// The hashes of the foreign transactions by nonce.
    foreign: BTreeMap<u64, String>,
}

impl ForeignCluster {
    async fn with_foreign_transactions(on_external_nonce: &str) -> Self {
        let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::OnDemand));
        let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
            .short_lease()
            .set("nonce.max_in_flight", &WINDOW.to_string())
            .set("nonce.on_external_nonce", on_external_nonce)
            .set("lane.idle_linger", "5m");
        let nodes = start_three_nodes(&config).await;
        let accepted = create_all(&nodes, "s0", "r", TO, INTENTS, INTENTS).await;
        let key = AccountKey::of(0);
        eventually("the window is full", async || (chain.pending_count(&key.address()).await == WINDOW).then_some(()))
            .await;
        let mut foreign = BTreeMap::new();
        for nonce in WINDOW..WINDOW + FOREIGN {
            foreign.insert(nonce, chain.send_raw(&key.transfer(nonce, ELSEWHERE).await).await);
        }
        chain.mine(1).await;
        ForeignCluster { chain, database, nodes, accepted, foreign }
    }

    fn assert_names_foreign(&self, report: &str) {
        for hash in self.foreign.values() {
            assert!(report.contains(hash.as_str()), "{hash} is not in {report}");
        }
    }

    async fn assert_confirmed_after_foreign(&self, client: &Client) {
        self.chain.mine_while(wait_until_done(client, "s0")).await;
        let ledger = SubmitterLedger::read(client, "s0").await;
        let others = ledger.assert_confirmed_among_others(&self.chain, &self.accepted).await;
        assert_eq!(others, self.foreign);
        assert_eq!(self.chain.balance(TO).await, INTENTS as u64, "a transfer happened twice or never");
    }
}

/// proves N16, N17
#[tokio::test(flavor = "multi_thread")]
async fn foreign_transactions_protect_and_resync_survives_takeover() {
    let mut cluster = ForeignCluster::with_foreign_transactions("protect").await;
    for node in &cluster.nodes {
        wait_until_protected(&node.client).await;
        let refused = node.client.create_tx(&transfer("s0", "new", TO)).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, "submitter_protected");
        let (known, is_new) = node.client.create_tx(&transfer("s0", "r-0", TO)).await.unwrap();
        let first = cluster.accepted.iter().find(|accepted| accepted.request_id == "r-0").unwrap();
        assert_eq!((known.tx_id.as_str(), is_new), (first.tx_id.as_str(), false));
    }
    let client = cluster.nodes[0].client.clone();
    // Intents with lower nonces are confirmed as usual.
    let first = "SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED' AND nonce < 4";
    let finish = eventually("the lower nonces are confirmed and the foreign transactions are final", async || {
        let nonces = client.submitter("s0", &[SubmitterExpand::Nonces]).await.ok()?.nonces?;
        let are_final = nonces.settled >= Some(WINDOW + FOREIGN);
        (are_final && cluster.database.count(first).await == WINDOW as i64).then_some(())
    });
    cluster.chain.mine_while(finish).await;
    let refused = client.unprotect("s0", WAIT).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "refused");
    let dry = client.resync("s0", &DRY_RUN, WAIT).await.unwrap();
    assert_eq!(dry.state, CommandState::Done);
    cluster.assert_names_foreign(dry.result.as_deref().unwrap());
    wait_until_protected(&client).await;
    assert!(client.resume("s0", WAIT).await.is_ok());
    wait_until_protected(&client).await;

    // The owner is stopped before it is killed, so it cannot execute the command in between.
    let (victim, token) = owner(&cluster.nodes, "s0", 0).await;
    let other = cluster.nodes[(victim + 1) % cluster.nodes.len()].client.clone();
    cluster.nodes[victim].signal("STOP");
    let resync = other.resync("s0", &RESYNC, None).await.unwrap();
    assert_eq!(resync.state, CommandState::Open);
    cluster.nodes[victim].signal("KILL");
    wait_for_takeover(&cluster.nodes, "s0", victim, token).await;
    let report = eventually("another node has executed the resync", async || {
        let view = other.command(&resync.command_id).await.ok()?;
        (view.state != CommandState::Open).then_some(view)
    })
    .await;
    assert_eq!(report.state, CommandState::Done, "{report:?}");
    cluster.assert_names_foreign(report.result.as_deref().unwrap());
    cluster.assert_confirmed_after_foreign(&other).await;
    let entries = audit(&other).await;
    let newest = entries.iter().find(|entry| entry.action == "resync").unwrap();
    assert_eq!(Some(&newest.detail), report.result.as_ref());
}

/// proves N16
#[tokio::test(flavor = "multi_thread")]
async fn adopt_policy_adopts_foreign_transactions() {
    let cluster = ForeignCluster::with_foreign_transactions("adopt").await;
    let client = &cluster.nodes[1].client;
    cluster.assert_confirmed_after_foreign(client).await;
    let protected = "SELECT count(*) FROM tx_event WHERE kind = 'protected'";
    assert_eq!(cluster.database.count(protected).await, 0);
    let entries = audit(client).await;
    let details: String = entries.iter().map(|entry| entry.detail.as_str()).collect();
    cluster.assert_names_foreign(&details);
    assert!(entries.iter().all(|entry| entry.actor == "policy" && entry.action == "adopt"), "{entries:?}");
}

/// proves N25
#[tokio::test(flavor = "multi_thread")]
async fn nonce_used_by_authorization_moves_its_intent_to_the_next() {
    const BEFORE: u64 = 2;
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::OnDemand));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        // Too long for a resend before the authorization is mined.
        .set("resubmit.interval", "10m")
        .set("lane.account_interval", "500ms");
    let nodes = start_three_nodes(&config).await;
    let client = &nodes[0].client;
    let mut accepted = create_all(&nodes, "s0", "before", TO, BEFORE as usize, 1).await;
    chain.mine_while(wait_until_done(client, "s0")).await;
    let (key, carrier) = (AccountKey::of(0), AccountKey::of(7));
    accepted.push(create(&[client], 0, &transfer("s0", "loser", TO)).await);
    let loser = accepted[BEFORE as usize].tx_id.as_str();
    eventually("the transaction is in the pool", async || {
        (chain.pending_count(&key.address()).await == BEFORE + 1).then_some(())
    })
    .await;
    let query = TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
    let first = client.tx(loser, &query).await.unwrap().attempts.unwrap()[0].clone();
    assert_eq!(first.nonce, BEFORE);

    chain.call("anvil_dropTransaction", json!([first.hash])).await;
    let authorization = key.authorize(BEFORE, ELSEWHERE).await;
    chain.send_raw(&carrier.carry(0, authorization).await).await;
    chain.mine(1).await;
    assert_eq!(chain.pending_count(&key.address()).await, BEFORE + 1, "the authorization was not mined");
    wait_until_protected(client).await;
    let view = client.submitter("s0", &[SubmitterExpand::Nonces]).await.unwrap();
    assert_eq!(view.protect.unwrap().code, "foreign_transaction");
    assert_eq!(view.window.unwrap().delegated, Some(true));
    assert!(client.unprotect("s0", WAIT).await.is_err());
    let resync = client.resync("s0", &RESYNC, WAIT).await.unwrap();
    assert!(resync.result.as_deref().unwrap().contains("EIP-7702"), "{resync:?}");

    chain.mine_while(wait_until_done(client, "s0")).await;
    let ended = client.tx(loser, &query).await.unwrap();
    assert_eq!((ended.state, ended.nonce), (TxStateName::Confirmed, Some(BEFORE + 1)));
    let mined = chain.mined_of(&key.address()).await;
    assert_eq!(mined.keys().copied().collect::<Vec<_>>(), [0, 1, BEFORE + 1], "the account has another transaction");
    assert_eq!(mined[&(BEFORE + 1)], [ended.hash.unwrap()]);
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

async fn wait_until_protected(client: &Client) {
    eventually("the lane is in PROTECT", async || {
        (client.submitter("s0", &[]).await.ok()?.state == LaneStateName::Protect).then_some(())
    })
    .await;
}

async fn audit(client: &Client) -> Vec<AuditView> {
    let query = AuditQuery { subject: Some("s0".to_owned()), ..AuditQuery::default() };
    client.audit(&query).await.unwrap().items
}
