//! Tests of the simulated chain without nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::Verdict;
use gapless_domain::{
    Address, Amount, Bytes, DiagnoseRequest, EvmCall, ExternalNoncePolicy, Fees, MempoolSignal, Nonce, OwnerId,
    SendOutcome, SignedTx, SubmitterId, TxPlan, Work,
};

use super::endpoint::EndpointCondition;
use super::*;
use crate::fault::{Fault, Odds};
use crate::history::{ChainBlock, Moment};
use crate::stage::Stepped;

const LANES: [&str; 2] = [
    "eip155:31337:0x00000000000000000000000000000000000000a1",
    "eip155:31337:0x00000000000000000000000000000000000000a2",
];

struct ChainFixture {
    stage: Stage,
    dice: Dice,
    history: History,
    faults: Faults,
    world: Arc<ChainWorld>,
    lanes: Vec<SubmitterId>,
    plan: WorldSpec,
}

fn fixture(seed: u64, odds: &[(Fault, u32)], change: impl FnOnce(&mut WorldSpec)) -> ChainFixture {
    let mut plan = WorldSpec::of(seed);
    plan.odds = Odds::from_iter(odds.iter().copied());
    plan.on_external_nonce = ExternalNoncePolicy::Adopt;
    change(&mut plan);
    let stage = Stage::default();
    let history = History::new(stage.clone());
    let faults = Faults::new(seed, &plan.odds);
    let lanes: Vec<SubmitterId> = LANES.iter().map(|lane| lane.parse().unwrap()).collect();
    let world = ChainWorld::new(&plan, &lanes, stage.clone(), history.clone());
    ChainFixture { stage, dice: Dice::new(seed, "order"), history, faults, world, lanes, plan }
}

fn signed(lane: &SubmitterId, nonce: u64, effect: u64, gwei: u128) -> SignedTx {
    let call = EvmCall {
        to: Some(Address::repeat_byte(1)),
        value: Amount::from(1_u64),
        data: Bytes::from(effect.to_be_bytes().to_vec()),
        ..EvmCall::default()
    };
    let price = gwei * 1_000_000_000;
    let fees = Fees::Eip1559 { max_fee: price, max_priority_fee: price / 10 };
    sign(&TxPlan {
        submitter: lane.clone(),
        nonce: Nonce::new(nonce).unwrap(),
        action: call.into(),
        work: Work::new(60_000),
        fees,
    })
}

impl ChainFixture {
    fn client(&self, name: &str) -> Arc<dyn Chain> {
        let net = Net::new(self.stage.clone(), Dice::new(self.plan.seed, name), Duration::from_millis(20));
        self.world.client(net, self.faults.clone(), self.history.clone(), OwnerId::new(name, 1))
    }

    fn until(&mut self, at: Duration) {
        while self.stage.now() < at {
            match self.stage.step(&mut self.dice) {
                Stepped::Over => return,
                Stepped::Panicked(task_owner, text) => unreachable!("{task_owner:?}: {text}"),
                _ => {}
            }
        }
    }

    fn secs(&mut self, secs: u64) {
        let at = self.stage.now() + Duration::from_secs(secs);
        self.until(at);
    }

    /// The result of a future, after any number of steps.
    fn wait<T: Send + 'static>(&mut self, future: impl Future<Output = T> + Send + 'static) -> T {
        let done = Arc::new(Mutex::new(None));
        let given = Arc::clone(&done);
        self.stage.spawn(TaskOwner::World, async move {
            let value = future.await;
            *lock(&given) = Some(value);
        });
        for _ in 0..1_000_000 {
            if let Some(value) = lock(&done).take() {
                return value;
            }
            self.stage.step(&mut self.dice);
        }
        unreachable!("the future never ends")
    }

    fn broadcast(&mut self, client: &Arc<dyn Chain>, txs: Vec<SignedTx>) -> Vec<Verdict> {
        let client = Arc::clone(client);
        self.wait(
            async move { client.broadcast(&txs).await.into_iter().map(|answer| answer.classified.verdict).collect() },
        )
    }

    fn diagnose(&mut self, client: &Arc<dyn Chain>, asked: Vec<DiagnoseRequest>) -> Vec<MempoolSignal> {
        let (client, lane) = (Arc::clone(client), self.lanes[0].clone());
        self.wait(async move { client.diagnose(&lane, &asked).await })
    }

    /// The chain rebuilt from the history, with the invariants that checks rely on.
    fn replay(&self) -> Replay {
        let mut replay = Replay::default();
        for (_, moment) in self.history.since(0) {
            replay.see(&moment, &self.plan);
        }
        replay
    }
}

#[derive(Default)]
struct Replay {
    blocks: Vec<ChainBlock>,
    final_number: Option<u64>,
    orphaned: usize,
    finals_orphaned: usize,
    struck: BTreeMap<Fault, u64>,
}

impl Replay {
    fn see(&mut self, moment: &Moment, plan: &WorldSpec) {
        match moment {
            Moment::Mined { block } => {
                let head = self.blocks.last().map(|head| head.block);
                assert_eq!(block.block.number, head.map_or(0, |head| head.number + 1));
                assert_eq!(block.parent, head.map_or(B256::ZERO, |head| head.hash));
                let mut next = BTreeMap::new();
                for tx in &block.txs {
                    let lane = &tx.read.plan.submitter;
                    let next = next.entry(lane).or_insert_with(|| self.count(lane, u64::MAX));
                    assert_eq!(tx.read.plan.nonce.get(), *next, "nonces are used in order");
                    *next += 1;
                }
                self.blocks.push(block.clone());
            }
            Moment::Orphaned { block } => {
                assert_eq!(
                    self.blocks.pop().map(|head| head.block),
                    Some(*block),
                    "the newest block is orphaned first"
                );
                self.orphaned += 1;
                if self.final_number >= Some(block.number) {
                    self.finals_orphaned += 1;
                    self.final_number = block.number.checked_sub(1);
                }
            }
            Moment::Final { block } => {
                assert!(self.final_number.is_none_or(|last| block.number > last));
                let head = self.blocks.last().unwrap().block.number;
                assert_eq!(head, block.number + u64::from(plan.confirmations) - 1);
                assert_eq!(self.blocks[block.number as usize].block, *block);
                self.final_number = Some(block.number);
            }
            Moment::ChainReset { genesis } => {
                self.blocks = vec![ChainBlock { block: *genesis, parent: B256::ZERO, txs: Vec::new() }];
                self.final_number = None;
            }
            Moment::Struck { fault, .. } => *self.struck.entry(*fault).or_default() += 1,
            _ => {}
        }
    }

    fn count(&self, lane: &SubmitterId, up_to: u64) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.block.number <= up_to);
        blocks.flat_map(|block| &block.txs).filter(|tx| tx.read.plan.submitter == *lane).count() as u64
    }
}

#[test]
fn replacement_below_ten_percent_more_is_refused() {
    let mut fixture = fixture(1, &[], |plan| plan.endpoints = 1);
    let client = fixture.client("a");
    let lane = fixture.lanes[0].clone();
    let tx = |nonce, effect, gwei| signed(&lane, nonce, effect, gwei);
    assert_eq!(fixture.broadcast(&client, vec![tx(0, 1, 20)]), [Verdict::Accepted]);
    assert_eq!(fixture.broadcast(&client, vec![tx(0, 1, 20)]), [Verdict::AlreadyKnown]);
    assert_eq!(fixture.broadcast(&client, vec![tx(0, 2, 21)]), [Verdict::ReplacementUnderpriced]);
    assert_eq!(fixture.broadcast(&client, vec![tx(0, 2, 22)]), [Verdict::Accepted]);
    assert_eq!(fixture.broadcast(&client, vec![tx(1, 3, 0)]), [Verdict::Underpriced]);
    assert_eq!(fixture.broadcast(&client, vec![tx(99, 3, 20)]), [Verdict::Wait]);
    let sent = fixture.history.since(0).iter().filter(|(_, moment)| matches!(moment, Moment::Sent { .. })).count();
    assert_eq!(sent, 6);

    fixture.world.run(&fixture.faults.clone());
    fixture.secs(30);
    assert_eq!(fixture.world.count(&lane), 1);
    assert!(fixture.world.waiting(&lane).is_empty());
    let mined: Vec<_> = fixture.replay().blocks.iter().flat_map(|block| block.txs.clone()).collect();
    assert_eq!(mined.iter().map(crate::history::ChainTx::hash).collect::<Vec<_>>(), [tx(0, 2, 22).hash]);
    assert_eq!(fixture.broadcast(&client, vec![tx(0, 4, 50)]), [Verdict::NonceTooLow]);
    assert_eq!(fixture.world.known_raw(tx(0, 4, 50).hash), Some(tx(0, 4, 50)));
}

#[test]
fn broadcast_names_each_reached_endpoint() {
    let mut fixture = fixture(1, &[], |plan| plan.endpoints = 3);
    let client = fixture.client("a");
    let until = Duration::from_secs(60);
    fixture.world.enter(|state, _| state.endpoints[1].put(EndpointCondition::Down { gateway: false, until }));
    fixture.world.enter(|state, _| state.endpoints[2].put(EndpointCondition::Down { gateway: true, until }));
    let (sends, tx) = (Arc::clone(&client), signed(&fixture.lanes[0], 0, 1, 20));
    let answer = fixture.wait(async move { sends.broadcast(&[tx]).await.remove(0) });
    let said =
        |heard: &gapless_domain::EndpointAnswer| (heard.endpoint.to_string(), heard.outcome, heard.text.to_string());
    let gateway = "503 Service Temporarily Unavailable".to_owned();
    let expected = [
        ("endpoint-0".to_owned(), SendOutcome::Accepted, String::new()),
        ("endpoint-2".to_owned(), SendOutcome::Unavailable, gateway),
    ];
    assert_eq!(answer.heard.iter().map(said).collect::<Vec<_>>(), expected);
    let names: Vec<String> = client.endpoints().into_iter().map(|status| status.name).collect();
    assert!(answer.heard.iter().all(|heard| names.contains(&heard.endpoint.to_string())));
}

#[test]
fn diagnose_shows_pooled_dropped_and_replaced() {
    use MempoolSignal::{InMempool, LikelyDropped, LikelyReplaced, Unknown};
    let mut fixture = fixture(1, &[], |plan| plan.endpoints = 2);
    let client = fixture.client("a");
    let lane = fixture.lanes[0].clone();
    let (first, better) = (signed(&lane, 0, 1, 20), signed(&lane, 0, 2, 30));
    let about = |nonce, hashes: &[B256]| DiagnoseRequest { nonce: Nonce::new(nonce).unwrap(), hashes: hashes.to_vec() };
    let asked = vec![about(0, &[first.hash]), about(0, &[better.hash, first.hash]), about(1, &[B256::ZERO])];

    assert_eq!(fixture.diagnose(&client, asked.clone()), [LikelyDropped; 3]);
    fixture.broadcast(&client, vec![first]);
    assert_eq!(fixture.diagnose(&client, asked.clone()), [InMempool, InMempool, LikelyDropped]);
    fixture.world.enter(|state, _| state.endpoints[0].pool.clear());
    assert_eq!(
        fixture.diagnose(&client, asked.clone()),
        [InMempool, InMempool, LikelyDropped],
        "the other endpoint has it"
    );
    fixture.broadcast(&client, vec![better]);
    assert_eq!(fixture.diagnose(&client, asked.clone()), [LikelyReplaced, InMempool, LikelyDropped]);
    let until = fixture.stage.now() + Duration::from_secs(2);
    fixture.world.enter(|state, _| state.endpoints[1].put(EndpointCondition::Down { gateway: false, until }));
    assert_eq!(
        fixture.diagnose(&client, asked.clone()),
        [Unknown, InMempool, Unknown],
        "the endpoint that is down may have it"
    );

    fixture.world.run(&fixture.faults.clone());
    fixture.secs(60);
    assert_eq!(fixture.world.count(&lane), 1);
    assert_eq!(
        fixture.diagnose(&client, asked),
        [LikelyReplaced, InMempool, LikelyDropped],
        "a mined transaction is known too"
    );
    let stranger = "eip155:31337:0x00000000000000000000000000000000000000ff".parse().unwrap();
    let asks = Arc::clone(&client);
    let of_nobody = fixture.wait(async move { asks.diagnose(&stranger, &[about(0, &[])]).await });
    assert_eq!(of_nobody, [Unknown]);
}

#[test]
fn diagnose_with_lost_request_is_unknown() {
    let mut fixture = fixture(1, &[(Fault::RpcTimeoutBefore, 1000)], |plan| plan.endpoints = 1);
    let client = fixture.client("a");
    let asked = vec![DiagnoseRequest { nonce: Nonce::ZERO, hashes: vec![B256::ZERO] }];
    assert_eq!(fixture.diagnose(&client, asked), [MempoolSignal::Unknown]);
}

/// Most orphaned transactions are mined again, and the counts are those of the canonical branch.
#[test]
fn reorg_pools_orphaned_transactions_again() {
    let mut mined_again = 0;
    for seed in 0..30 {
        let mut fixture = fixture(seed, &[(Fault::Reorg, 300)], |plan| {
            plan.confirmations = 4;
            plan.block_time = Duration::from_secs(1);
        });
        fixture.world.run(&fixture.faults.clone());
        let lanes = fixture.lanes.clone();
        for nonce in 0..20 {
            for (lane, first) in lanes.iter().zip([100, 200]) {
                fixture.world.submit_outside(&signed(lane, nonce, first + nonce, 20).raw);
            }
            fixture.secs(2);
            let replay = fixture.replay();
            let now_final = replay.final_number.unwrap_or(0);
            for lane in &lanes {
                assert_eq!(fixture.world.count(lane), replay.count(lane, u64::MAX));
                assert_eq!(fixture.world.final_count(lane), replay.count(lane, now_final));
            }
            assert_eq!(Some(fixture.world.head()), replay.blocks.last().map(|head| head.block));
        }
        let replay = fixture.replay();
        assert_eq!(replay.finals_orphaned, 0, "a reorg orphans no final block");
        assert!(replay.struck.get(&Fault::Reorg).is_some_and(|struck| *struck > 0 && replay.orphaned > 0));
        mined_again += lanes.iter().map(|lane| fixture.world.count(lane)).sum::<u64>();
    }
    assert!(mined_again > 600, "{mined_again} of 1200");
}

#[test]
fn deep_reorg_orphans_final_blocks() {
    let mut fixture = fixture(5, &[(Fault::DeepReorg, 500)], |_| {});
    fixture.world.run(&fixture.faults.clone());
    fixture.secs(120);
    let replay = fixture.replay();
    assert_eq!(replay.struck[&Fault::DeepReorg], 2);
    assert!(replay.finals_orphaned > 0);
}

#[test]
fn chain_reset_drops_all_transactions() {
    let mut fixture = fixture(6, &[(Fault::ChainReset, 100)], |_| {});
    let lane = fixture.lanes[0].clone();
    fixture.world.submit_outside(&signed(&lane, 0, 1, 20).raw);
    fixture.world.run(&fixture.faults.clone());
    fixture.secs(200);
    let replay = fixture.replay();
    assert_eq!(replay.struck[&Fault::ChainReset], 1);
    assert_eq!(fixture.world.count(&lane), 0);
    assert!(fixture.world.submit_outside(&signed(&lane, 0, 1, 20).raw), "the same bytes are accepted again");
}

/// Runs all faults of a world at once, with processes that send and read. Two runs of a seed have equal histories, and
/// no block that a process saw as final was orphaned.
#[test]
fn equal_seeds_have_equal_histories() {
    let run = |seed: u64| {
        let odds: Vec<(Fault, u32)> = Fault::ALL
            .iter()
            .filter(|fault| !matches!(fault, Fault::DeepReorg | Fault::ChainReset))
            .map(|fault| (*fault, 60))
            .collect();
        let mut fixture = fixture(seed, &odds, |plan| plan.endpoints = 3);
        fixture.world.run(&fixture.faults.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        for name in ["a", "b"] {
            let (client, lanes) = (fixture.client(name), fixture.lanes.clone());
            let (seen, stage, confirmations) = (Arc::clone(&seen), fixture.stage.clone(), fixture.plan.confirmations);
            fixture.stage.spawn(TaskOwner::Process(1), async move {
                let mut next = vec![0; lanes.len()];
                for round in 0..60 {
                    let each = |(lane, next): (&SubmitterId, &u64)| {
                        [0, 1].map(|more| signed(lane, next + more, 100 * round + next, 30))
                    };
                    let txs: Vec<SignedTx> = lanes.iter().zip(&next).flat_map(each).collect();
                    client.broadcast(&txs).await;
                    if let Ok(head) = client.head().await
                        && let Some(number) = (head.block.number + 1).checked_sub(u64::from(confirmations))
                        && let Ok(headers) = client.headers(number..=head.block.number).await
                        && let [Some(first), .., Some(last)] = headers.as_slice()
                        && last.block == head.block
                    {
                        lock(&seen).push(first.block);
                    }
                    let hashes: Vec<B256> = txs.iter().map(|tx| tx.hash).collect();
                    let _ = client.receipts(&hashes).await;
                    if let Ok(views) = client.accounts(&lanes, None).await {
                        next = views.iter().map(|view| view.latest.get()).collect();
                    }
                    tokio::select! {
                        biased;
                        () = client.head_changed() => {}
                        () = stage.sleep(Duration::from_secs(3)) => {}
                    }
                }
            });
        }
        fixture.secs(150);
        fixture.faults.calm_down();
        fixture.secs(30);
        let replay = fixture.replay();
        assert_eq!(replay.finals_orphaned, 0);
        for block in lock(&seen).iter() {
            assert_eq!(
                replay.blocks[block.number as usize].block, *block,
                "a block that was shown as final is canonical"
            );
        }
        let shown = lock(&seen).len();
        let mined: usize = replay.blocks.iter().map(|block| block.txs.len()).sum();
        let strangers = replay.blocks.iter().flat_map(|block| &block.txs).filter(|tx| tx.by_stranger).count();
        (format!("{:?}", fixture.history.since(0)), shown, mined, strangers, replay.struck)
    };
    let mut strangers = 0;
    let mut struck = BTreeMap::<Fault, u64>::new();
    for seed in 0..8 {
        let (first, second) = (run(seed), run(seed));
        assert!(first.0 == second.0, "seed {seed}");
        assert!(first.1 > 20 && first.2 > 10, "{:?}", (first.1, first.2));
        strangers += first.3;
        for (fault, count) in first.4 {
            *struck.entry(fault).or_default() += count;
        }
    }
    assert!(strangers > 3);
    let ours = Fault::ALL.iter().filter(|fault| (Fault::RpcTimeoutBefore..=Fault::ChainReset).contains(*fault));
    let missing: Vec<_> = ours.filter(|fault| !struck.contains_key(fault)).collect();
    assert_eq!(missing, [&Fault::DeepReorg, &Fault::ChainReset]);
}

#[test]
fn after_the_storm_all_sends_are_mined() {
    for seed in 0..10 {
        let odds: Vec<(Fault, u32)> = Fault::ALL.iter().map(|fault| (*fault, 100)).collect();
        let mut fixture = fixture(seed, &odds, |_| {});
        fixture.world.run(&fixture.faults.clone());
        fixture.secs(100);
        fixture.faults.calm_down();
        fixture.secs(10);
        let client = fixture.client("a");
        let lane = fixture.lanes[0].clone();
        for _ in 0..8 {
            let next = fixture.world.count(&lane);
            if next >= 12 {
                break;
            }
            let txs = (next..next + 8).map(|nonce| signed(&lane, nonce, 1000 + nonce, 500)).collect();
            fixture.broadcast(&client, txs);
            fixture.secs(30);
        }
        assert!(fixture.world.count(&lane) >= 12, "seed {seed}: {}", fixture.world.count(&lane));
        assert!(fixture.world.balance(&lane).get() > gapless_domain::U256::from(1_000_000_000_u64));
    }
}
