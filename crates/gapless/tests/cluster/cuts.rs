//! An owner that loses one of the two it works between, and not the other: nobody refuses it anything, nothing answers.

use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::Client;

use crate::support::{
    Accepted, Chain, Database, Ledger, Node, NodeConfig, Roads, create, create_all, eventually, owner, taken_over,
    three_on_roads, transfer, wait_until_done, within,
};

const TO: &str = "0x00000000000000000000000000000000000a0091";
const BLOCK_TIME: Duration = Duration::from_millis(100);
/// Enough to be at work for longer than a lease lasts: four a block.
const INTENTS: usize = 300;

/// Three nodes at work, each on roads of its own.
struct Scene {
    database: Database,
    chain: Chain,
    roads: [Roads; 3],
    nodes: Vec<Node>,
    accepted: Vec<Accepted>,
    /// Which of them owns the lane, and by which token.
    owner: usize,
    token: u64,
}

impl Scene {
    async fn at_work(settings: &[(&str, &str)]) -> Self {
        let (database, chain) = (Database::shared().await, Chain::dev(Mining::Every(BLOCK_TIME)).await);
        let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0]).short_lease();
        let config = settings.iter().fold(config, |config, (key, value)| config.set(key, value));
        // It has an owner also when it is done sooner than one thinks.
        let config = config.set("nonce.max_in_flight", "4").set("lane.idle_linger", "60s");
        let (roads, nodes) = three_on_roads(&config, &database, &chain).await;
        let accepted = create_all(&nodes, "s0", "before", TO, INTENTS, 50).await;
        eventually("some are done", async || (chain.balance(TO).await >= 20).then_some(())).await;
        let (owner, token) = owner(&nodes, "s0", 0).await;
        Scene { database, chain, roads, nodes, accepted, owner, token }
    }

    /// Cuts the owner from its chain. It may have nothing in flight at that moment, on a machine that is slow to accept: then again.
    async fn cut_while_something_is_in_flight(&mut self) -> (usize, u64) {
        for round in 0..20 {
            self.accepted.extend(create_all(&self.nodes, "s0", &format!("more-{round}"), TO, 60, 50).await);
            let (lonely, token) = owner(&self.nodes, "s0", 0).await;
            let sent = sends(&self.nodes[lonely]).await;
            self.roads[lonely].chain.cut();
            let in_vain = async || (sends(&self.nodes[lonely]).await > sent).then_some(());
            if within(Duration::from_secs(8), in_vain).await.is_some() {
                return (lonely, token);
            }
            self.roads[lonely].chain.heal();
        }
        panic!("it never sends in vain");
    }

    /// Callers of all nodes, or of all but the owner.
    async fn hand_in_meanwhile(&mut self, everywhere: bool) {
        let asked = self.nodes.iter().enumerate().filter(|(n, _)| everywhere || *n != self.owner);
        for (n, (_, node)) in (0..30).zip(asked.cycle()) {
            let request = transfer("s0", &format!("meanwhile-{n}"), TO);
            self.accepted.push(create(&[&node.client], 0, &request).await);
        }
    }

    /// Without the one that owned it: some more are done, or all.
    async fn lane_goes_on(&self) {
        let enough = (self.accepted.len() as u64).min(self.chain.balance(TO).await + 20);
        eventually("the lane goes on", async || (self.chain.balance(TO).await >= enough).then_some(())).await;
    }

    async fn assert_exactly_once(&self, client: &Client) {
        wait_until_done(client, "s0").await;
        Ledger::read(client, "s0").await.assert_exactly_once(&self.chain, &self.accepted).await;
        assert_eq!(self.chain.balance(TO).await, self.accepted.len() as u64);
    }
}

async fn sends(node: &Node) -> f64 {
    node.counter("gapless_tx_submit_total").await
}

/// What it wrote into the cut road reaches the database in the end, long after the lane has become another's.
/// proves N06, N03, S02
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_cut_from_the_database_stops_sending_and_another_goes_on_and_later_it_takes_part_again() {
    let mut scene = Scene::at_work(&[]).await;
    let (lonely, token) = (scene.owner, scene.token);
    scene.roads[lonely].database.cut();
    scene.hand_in_meanwhile(false).await;
    let (successor, newer) = taken_over(&scene.nodes, "s0", lonely, token).await;
    // It still has its chain, and no right to send there any more.
    let sent = sends(&scene.nodes[lonely]).await;
    scene.lane_goes_on().await;
    assert_eq!(sends(&scene.nodes[lonely]).await, sent, "it has sent something under a lease that is over");

    let healed_at = scene.database.now().await;
    scene.roads[lonely].heal();
    let healed = &scene.nodes[lonely];
    eventually("it knows that it is not the owner", async || {
        (healed.counter("gapless_lease_lost_total").await >= 1.0).then_some(())
    })
    .await;
    wait_until_done(&healed.client, "s0").await;
    // Unless the lane has been on the move once more, on a machine so slow that leases run out.
    if healed.owner_of("s0").await == Some((scene.nodes[successor].name.clone(), newer)) {
        assert_eq!(sends(healed).await, sent, "it has sent something since");
    }
    scene.database.assert_nothing_written_since(token, &healed_at).await;

    // It takes part again: it is the only one that is left.
    let healed = scene.nodes.swap_remove(lonely);
    scene.nodes.clear();
    for n in 0..10 {
        scene.accepted.push(create(&[&healed.client], 0, &transfer("s0", &format!("after-{n}"), TO)).await);
    }
    scene.assert_exactly_once(&healed.client).await;
}

/// It is cut from both while nobody has taken what it sent, so that there is something that it is yet to send. Then it has its chain
/// back, when the lane is already another's, and nobody can tell it so.
/// proves N06, S04
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_has_its_chain_back_before_its_database_sends_nothing_that_it_had_yet_to_send() {
    let settings = [("rpc.timeout", "500ms"), ("lane.resend_longest", "1s"), ("resubmit.interval", "1s")];
    let mut scene = Scene::at_work(&settings).await;
    let (lonely, token) = scene.cut_while_something_is_in_flight().await;
    scene.roads[lonely].database.cut();
    // There is work for whoever comes after it.
    scene.hand_in_meanwhile(false).await;
    taken_over(&scene.nodes, "s0", lonely, token).await;
    let node = &scene.nodes[lonely];
    let sent = sends(node).await;
    scene.roads[lonely].chain.heal();
    eventually("it sees the chain again", async || {
        let chains = node.client.chains().await.ok()?;
        chains.iter().all(|chain| chain.endpoints.iter().all(|endpoint| endpoint.healthy)).then_some(())
    })
    .await;
    scene.lane_goes_on().await;
    assert_eq!(sends(node).await, sent, "it has sent something under a lease that is over");
    scene.roads[lonely].heal();
    scene.assert_exactly_once(&scene.nodes[lonely].client).await;
}

/// It could renew its lease for ever, but it is no use to the lane: it gives it to the others.
/// proves O02, S04, S02
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_cut_from_the_chain_gives_its_lane_to_another_and_loses_nothing() {
    let mut scene = Scene::at_work(&[
        ("rpc.timeout", "500ms"),
        ("lane.resend_longest", "2s"),
        ("dispatch.chain_away_after", "2s"),
        ("dispatch.rebalance_interval", "1s"),
    ])
    .await;
    let lonely = scene.owner;
    scene.roads[lonely].chain.cut();
    // All nodes accept, this one too.
    scene.hand_in_meanwhile(true).await;
    scene.lane_goes_on().await;
    wait_until_done(&scene.nodes[lonely].client, "s0").await;
    scene.roads[lonely].heal();
    scene.assert_exactly_once(&scene.nodes[lonely].client).await;
}
