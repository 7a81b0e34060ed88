//! Somebody else uses the key of a submitter, by transactions and without any.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::{
    AuditQuery, AuditView, Client, CommandState, LaneStateName, ResyncRequest, SubmitterExpand, TxExpand, TxQuery,
    TxStateName,
};
use serde_json::json;

use crate::support::{
    Accepted, Chain, Database, Key, Ledger, Node, NodeConfig, create, create_all, eventually, owner, taken_over, three,
    transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0101";
/// Whom strangers send to.
const ELSEWHERE: &str = "0x00000000000000000000000000000000000a0102";
const WINDOW: u64 = 4;
const INTENTS: usize = 12;
/// More than the lane could bind before it notices: some have the nonces of intents perhaps, some are ahead for sure.
const STRANGERS: u64 = WINDOW + 2;
/// For whom a lane works is told in the end.
const WAIT: Option<Duration> = Some(Duration::from_secs(60));
const DRY_RUN: ResyncRequest = ResyncRequest { lost: None, dry_run: Some(true) };
const RESYNC: ResyncRequest = ResyncRequest { lost: None, dry_run: None };

/// Three nodes whose one submitter has a full window on its way and more in line, and transactions of a stranger behind
/// the window, in the same block.
struct Scene {
    chain: Chain,
    database: Database,
    nodes: Vec<Node>,
    accepted: Vec<Accepted>,
    /// By nonce.
    strange: BTreeMap<u64, String>,
}

impl Scene {
    async fn with_strangers(on_external_nonce: &str) -> Self {
        let (database, chain) = (Database::shared().await, Chain::start(Mining::OnDemand));
        let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
            .short_lease()
            .set("nonce.max_in_flight", &WINDOW.to_string())
            .set("nonce.on_external_nonce", on_external_nonce)
            .set("lane.idle_linger", "5m");
        let nodes = three(&config).await;
        let accepted = create_all(&nodes, "s0", "r", TO, INTENTS, INTENTS).await;
        let key = Key::of(0);
        eventually("the window is full", async || (chain.pending_count(&key.address()).await == WINDOW).then_some(()))
            .await;
        let mut strange = BTreeMap::new();
        for nonce in WINDOW..WINDOW + STRANGERS {
            strange.insert(nonce, chain.send_raw(&key.transfer(nonce, ELSEWHERE).await).await);
        }
        chain.mine(1).await;
        Scene { chain, database, nodes, accepted, strange }
    }

    fn assert_names_strangers(&self, report: &str) {
        for hash in self.strange.values() {
            assert!(report.contains(hash.as_str()), "{hash} is not in {report}");
        }
    }

    async fn assert_all_is_confirmed_behind_them(&self, client: &Client) {
        self.chain.mine_while(wait_until_done(client, "s0")).await;
        let ledger = Ledger::read(client, "s0").await;
        let others = ledger.assert_confirmed_among_others(&self.chain, &self.accepted).await;
        assert_eq!(others, self.strange);
        assert_eq!(self.chain.balance(TO).await, INTENTS as u64, "something happened twice, or never");
    }
}

/// proves N16, N17
#[tokio::test(flavor = "multi_thread")]
async fn strangers_stop_a_lane_and_a_resync_outlives_the_owner_that_it_was_written_down_for() {
    let mut scene = Scene::with_strangers("protect").await;
    for node in &scene.nodes {
        is_protected(&node.client).await;
        let refused = node.client.create_tx(&transfer("s0", "new", TO)).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, "submitter_protected");
        let (known, is_new) = node.client.create_tx(&transfer("s0", "r-0", TO)).await.unwrap();
        let told = scene.accepted.iter().find(|accepted| accepted.request_id == "r-0").unwrap();
        assert_eq!((known.tx_id.as_str(), is_new), (told.tx_id.as_str(), false));
    }
    let client = scene.nodes[0].client.clone();
    // What had a nonce before them ends as if nothing had happened.
    let first = "SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED' AND nonce < 4";
    let finish = eventually("what had a nonce is done, and the strangers are final", async || {
        let nonces = client.submitter("s0", &[SubmitterExpand::Nonces]).await.ok()?.nonces?;
        let are_final = nonces.settled >= Some(WINDOW + STRANGERS);
        (are_final && scene.database.count(first).await == WINDOW as i64).then_some(())
    });
    scene.chain.mine_while(finish).await;
    let refused = client.unprotect("s0", WAIT).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "refused");
    let dry = client.resync("s0", &DRY_RUN, WAIT).await.unwrap();
    assert_eq!(dry.state, CommandState::Done);
    scene.assert_names_strangers(dry.result.as_deref().unwrap());
    is_protected(&client).await;
    assert!(client.resume("s0", WAIT).await.is_ok());
    is_protected(&client).await;

    // Between these two signals there is nothing that the owner could do, as if it had died at once.
    let (victim, token) = owner(&scene.nodes, "s0", 0).await;
    let other = scene.nodes[(victim + 1) % scene.nodes.len()].client.clone();
    scene.nodes[victim].signal("STOP");
    let resync = other.resync("s0", &RESYNC, None).await.unwrap();
    assert_eq!(resync.state, CommandState::Open);
    scene.nodes[victim].signal("KILL");
    taken_over(&scene.nodes, "s0", victim, token).await;
    let report = eventually("another node has done it", async || {
        let view = other.command(&resync.command_id).await.ok()?;
        (view.state != CommandState::Open).then_some(view)
    })
    .await;
    assert_eq!(report.state, CommandState::Done, "{report:?}");
    scene.assert_names_strangers(report.result.as_deref().unwrap());
    scene.assert_all_is_confirmed_behind_them(&other).await;
    let entries = audit(&other).await;
    let newest = entries.iter().find(|entry| entry.action == "resync").unwrap();
    assert_eq!(Some(&newest.detail), report.result.as_ref());
}

/// proves N16
#[tokio::test(flavor = "multi_thread")]
async fn where_the_config_says_so_strangers_are_adopted_without_an_operator() {
    let scene = Scene::with_strangers("adopt").await;
    let client = &scene.nodes[1].client;
    scene.assert_all_is_confirmed_behind_them(client).await;
    let protected = "SELECT count(*) FROM tx_event WHERE kind = 'protected'";
    assert_eq!(scene.database.count(protected).await, 0);
    let entries = audit(client).await;
    let told: String = entries.iter().map(|entry| entry.detail.as_str()).collect();
    scene.assert_names_strangers(&told);
    assert!(entries.iter().all(|entry| entry.actor == "policy" && entry.action == "adopt"), "{entries:?}");
}

/// proves N25
#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_an_authorization_has_used_is_found_out_and_its_intent_goes_to_the_next_one() {
    const BEFORE: u64 = 2;
    let (database, chain) = (Database::shared().await, Chain::start(Mining::OnDemand));
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        // It is not sent again before the authorization is in a block.
        .set("resubmit.interval", "10m")
        .set("lane.account_interval", "500ms");
    let nodes = three(&config).await;
    let client = &nodes[0].client;
    let mut accepted = create_all(&nodes, "s0", "before", TO, BEFORE as usize, 1).await;
    chain.mine_while(wait_until_done(client, "s0")).await;
    let (key, carrier) = (Key::of(0), Key::of(7));
    accepted.push(create(&[client], 0, &transfer("s0", "loser", TO)).await);
    let loser = accepted[BEFORE as usize].tx_id.as_str();
    eventually("it is in the pool", async || (chain.pending_count(&key.address()).await == BEFORE + 1).then_some(()))
        .await;
    let query = TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
    let first = client.tx(loser, &query).await.unwrap().attempts.unwrap()[0].clone();
    assert_eq!(first.nonce, BEFORE);

    chain.call("anvil_dropTransaction", json!([first.hash])).await;
    let authorization = key.authorize(BEFORE, ELSEWHERE).await;
    chain.send_raw(&carrier.carry(0, authorization).await).await;
    chain.mine(1).await;
    assert_eq!(chain.pending_count(&key.address()).await, BEFORE + 1, "the authorization was not taken");
    is_protected(client).await;
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
    assert_eq!(mined.keys().copied().collect::<Vec<_>>(), [0, 1, BEFORE + 1], "and no transaction of ours at another");
    assert_eq!(mined[&(BEFORE + 1)], [ended.hash.unwrap()]);
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

async fn is_protected(client: &Client) {
    eventually("it is in PROTECT", async || {
        (client.submitter("s0", &[]).await.ok()?.state == LaneStateName::Protect).then_some(())
    })
    .await;
}

async fn audit(client: &Client) -> Vec<AuditView> {
    let query = AuditQuery { subject: Some("s0".to_owned()), ..AuditQuery::default() };
    client.audit(&query).await.unwrap().items
}
