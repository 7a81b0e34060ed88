#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::Chain;
use gapless_domain::{
    Amount, B256, Bytes, ChainFacts, EvmCall, Fees, ProtectCode, Protection, SignedTx, Tail, Tick, TxPlan,
};
use gapless_sim::testing::{PausedDriver, ScriptedChain};
use tokio::time::Instant;

use super::*;
use crate::chain_desk::GasPolicy;
use crate::clock::Clock;
use crate::driver::Driver;
use crate::gathered::{AccountReader, Sender};
use crate::group_commit::BatchLimits;
use crate::published::{Publisher, published};
use crate::watcher::{WatchBook, WatcherOptions};

#[derive(Debug)]
struct TestDriver(Instant);

impl Clock for TestDriver {
    fn now(&self) -> Tick {
        Tick::since_start(self.0.elapsed())
    }
}

impl Driver for TestDriver {
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.0 + at.elapsed()))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

/// A chain desk without a watcher: the test publishes the status.
struct Bench {
    chain: Arc<ScriptedChain>,
    desk: Arc<ChainDesk>,
    status: Publisher<Option<ChainStatus>>,
    us: SubmitterId,
}

const FINAL_DEPTH: u64 = 3;

fn account_of(byte: u8) -> SubmitterId {
    format!("eip155:31337:0x{}", format!("{byte:02x}").repeat(20)).parse().unwrap()
}

impl Bench {
    fn new(survey_blocks: u32) -> Self {
        let us = account_of(1);
        let chain = ScriptedChain::new(&[us.clone(), account_of(2)], PausedDriver::start());
        let driver = Arc::new(TestDriver(Instant::now()));
        let limits = BatchLimits { items: 10, bytes: 1000, waiting: 10, flushes: 1 };
        let shared = || Arc::clone(&chain) as Arc<dyn Chain>;
        let (sender, _) = Sender::new(shared(), Arc::clone(&driver) as Arc<dyn Clock>, limits);
        let (accounts, accounts_loop) = AccountReader::new(shared(), limits);
        tokio::spawn(accounts_loop.run());
        let (status, seen) = published(None);
        let options = WatcherOptions { survey_blocks, ..WatcherOptions::default() };
        let terms = (GasPolicy::default(), options);
        let desk = ChainDesk::new(shared(), Arc::new(WatchBook::default()), sender, accounts, seen, driver, terms);
        Bench { chain, desk: Arc::new(desk), status, us }
    }

    fn mine(&self, blocks: usize) {
        (0..blocks).for_each(|_| self.chain.mine());
    }

    /// Publishes the status that a watcher at the chain's head would publish.
    async fn look(&self) {
        let links = self.chain.sent_by(&self.us, 0..=self.chain.height()).await.unwrap();
        let tail = Tail::of(links.into_iter().flatten().map(|block| block.link)).unwrap();
        let head = tail.last();
        let final_block = tail.get(head.number.saturating_sub(FINAL_DEPTH)).map(|link| link.block);
        let facts = Arc::new(ChainFacts { tail, finality_violation: None });
        let read_at = Tick::default();
        self.status.publish(Some(ChainStatus { head, final_block, read_at, block_time_ms: None, facts }));
    }

    async fn survey(&self, from: u64, above: Option<BlockRef>) -> Option<ScanResult> {
        self.desk.survey(&self.us, request(from, above)).await
    }

    /// The canonical block of that number.
    async fn block(&self, number: u64) -> BlockRef {
        self.chain.header(HeaderAt::Number(number)).await.unwrap().unwrap().block
    }
}

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

fn request(from: u64, above: Option<BlockRef>) -> ScanRequest {
    ScanRequest { from: nonce(from), above }
}

/// Nonces and block numbers of the transactions found.
fn found(survey: &ScanResult) -> Vec<(u64, u64)> {
    survey.sent.iter().map(|sent| (sent.tx.plan.nonce.get(), sent.block.number)).collect()
}

/// Three transactions of the account in blocks 10, 100 and 151 of 200, and one of another account in between.
async fn with_three() -> Bench {
    let bench = Bench::new(10_000);
    bench.mine(9);
    bench.chain.foreign(&bench.us, 0);
    bench.mine(90);
    bench.chain.foreign(&bench.us, 1);
    bench.chain.foreign(&account_of(2), 0);
    bench.mine(51);
    bench.chain.foreign(&bench.us, 2);
    bench.mine(50);
    bench.look().await;
    bench
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_found_and_no_more_is_read_than_needed() {
    let bench = with_three().await;
    let all = bench.survey(0, None).await.unwrap();
    assert_eq!((found(&all), all.oldest, all.head.number), (vec![(0, 10), (1, 100), (2, 151)], 10, 200));
    assert_eq!((all.account.latest, all.account.finalized), (nonce(3), Some(nonce(3))));
    assert_eq!(all.account.final_block.map(|block| block.number), Some(197));
    assert!(all.sent.iter().all(|sent| sent.tx.plan.submitter == bench.us));
    let last = bench.survey(2, None).await.unwrap();
    assert_eq!((found(&last), last.oldest), (vec![(2, 151)], 151));
    let asked = bench.chain.requests("sent_by");
    let none = bench.survey(3, None).await.unwrap();
    assert_eq!((none.sent.len(), none.account.latest), (0, nonce(3)), "nothing was used above");
    assert_eq!(bench.chain.requests("sent_by"), asked, "so nothing is read");
}

/// The endpoint has a block that the watcher has not seen.
#[tokio::test(start_paused = true)]
async fn the_count_is_of_the_head_that_is_surveyed() {
    let bench = with_three().await;
    bench.chain.foreign(&bench.us, 3);
    bench.mine(1);
    let survey = bench.survey(0, None).await.unwrap();
    assert_eq!((survey.account.latest, survey.head.number, survey.oldest), (nonce(3), 200, 10));
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_the_block_below_which_nothing_can_be() {
    let bench = with_three().await;
    let bounded = bench.survey(1, Some(bench.block(120).await)).await.unwrap();
    assert_eq!((found(&bounded), bounded.oldest, bounded.is_whole), (vec![(2, 151)], 121, true));
    // A found transaction proves nothing about the blocks below it.
    let found_all = bench.survey(1, Some(bench.block(50).await)).await.unwrap();
    assert_eq!((found(&found_all), found_all.oldest, found_all.is_whole), (vec![(1, 100), (2, 151)], 100, false));
    // No transaction lies above the bound.
    let none = bench.survey(0, Some(bench.block(199).await)).await.unwrap();
    assert_eq!((none.sent.len(), none.oldest, none.is_whole), (0, 198, true), "down to the final block all the same");
    // A nonce was used without a transaction: the scan goes down to the first block.
    bench.chain.use_without_transaction(&bench.us);
    let whole = bench.survey(0, None).await.unwrap();
    assert_eq!((whole.sent.len(), whole.oldest, whole.account.latest), (3, 0, nonce(4)));
    assert!(whole.is_whole);
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_its_limit() {
    let bench = Bench::new(70);
    bench.chain.foreign(&bench.us, 0);
    bench.mine(200);
    bench.look().await;
    let asked = bench.chain.requests("sent_by");
    let survey = bench.survey(0, None).await.unwrap();
    assert_eq!((survey.sent.len(), survey.oldest, survey.is_whole), (0, 131, false));
    assert_eq!(bench.chain.requests("sent_by") - asked, 2, "64 and 6");
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_was_used_without_a_transaction_is_found_nowhere() {
    let bench = Bench::new(100);
    bench.mine(5);
    bench.chain.use_without_transaction(&bench.us);
    bench.mine(10);
    bench.look().await;
    let survey = bench.survey(0, Some(bench.block(1).await)).await.unwrap();
    assert_eq!((survey.sent.len(), survey.oldest, survey.account.finalized), (0, 2, Some(nonce(1))));
    assert!(survey.is_whole);
}

/// After an accepted finality violation, a transaction may lie below the number of a block that was final once.
#[tokio::test(start_paused = true)]
async fn a_block_of_another_branch_bounds_nothing() {
    let bench = Bench::new(150);
    bench.mine(164);
    bench.chain.foreign(&bench.us, 0);
    bench.mine(6);
    let (once_final, still_there) = (bench.block(160).await, bench.block(110).await);
    bench.chain.reorg_keeping(50);
    bench.mine(29);
    bench.look().await;
    assert_ne!(bench.block(160).await, once_final);
    let survey = bench.survey(0, Some(once_final)).await.unwrap();
    assert_eq!((found(&survey), survey.oldest), (vec![(0, 121)], 121));
    // The orphaned bound does not prove that there is nothing.
    bench.chain.use_without_transaction(&bench.us);
    let survey = bench.survey(0, Some(once_final)).await.unwrap();
    assert_eq!((found(&survey), survey.oldest, survey.is_whole), (vec![(0, 121)], 51, false));
    let survey = bench.survey(0, Some(BlockRef { number: 500, ..once_final })).await.unwrap();
    assert_eq!((found(&survey), survey.oldest, survey.is_whole), (vec![(0, 121)], 51, false), "above the head");
    let survey = bench.survey(0, Some(still_there)).await.unwrap();
    assert_eq!((found(&survey), survey.oldest, survey.is_whole), (vec![(0, 121)], 111, true));
}

#[tokio::test(start_paused = true)]
async fn blocks_of_another_branch_or_missing_ones_are_no_answer() {
    let bench = with_three().await;
    let other = ScriptedChain::new(&[bench.us.clone(), account_of(2)], PausedDriver::start());
    (0..200).for_each(|_| other.mine());
    other.reorg(100, false);
    bench.chain.script(|script| script.sent_from = Some(Arc::clone(&other)));
    assert_eq!(bench.survey(0, None).await, None, "another head");
    bench.chain.script(|script| (script.sent_from, script.first_block) = (None, 50));
    assert_eq!(bench.survey(0, None).await, None, "a hole");
    assert!(bench.survey(1, None).await.is_some(), "not on its way");
    bench.chain.script(|script| (script.first_block, script.unreachable) = (0, true));
    assert_eq!(bench.survey(0, None).await, None, "nobody there");
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_was_left_meanwhile_is_no_answer() {
    let bench = with_three().await;
    bench.chain.script(|script| script.latency = Duration::from_secs(10));
    let (survey, ()) = tokio::join!(bench.survey(0, None), async {
        // The last request of the scan is in flight.
        tokio::time::sleep(Duration::from_secs(25)).await;
        bench.chain.script(|script| script.latency = Duration::ZERO);
        bench.chain.reorg(1, false);
        bench.look().await;
    });
    assert_eq!(survey, None);
    // A head that has only advanced is fine.
    bench.chain.script(|script| script.latency = Duration::from_secs(10));
    let (survey, ()) = tokio::join!(bench.survey(0, None), async {
        tokio::time::sleep(Duration::from_secs(25)).await;
        bench.chain.script(|script| script.latency = Duration::ZERO);
        bench.mine(3);
        bench.look().await;
    });
    assert_eq!(survey.unwrap().head.number, 201);
}

/// A scan may take longer than the watcher's tail is long.
#[tokio::test(start_paused = true)]
async fn a_branch_that_was_left_is_no_answer_when_the_tail_has_moved_on() {
    let bench = with_three().await;
    bench.chain.script(|script| script.latency = Duration::from_secs(10));
    let (survey, ()) = tokio::join!(bench.survey(0, None), async {
        // The last request of the scan is in flight.
        tokio::time::sleep(Duration::from_secs(25)).await;
        bench.chain.script(|script| script.latency = Duration::ZERO);
        bench.chain.reorg(2, false);
        bench.mine(100);
        bench.look().await;
        // Trims the tail to the kept length, as `Watcher::publish` does.
        bench.status.publish_if(|status| {
            let status = status.as_mut().unwrap();
            let tail = &status.facts.tail;
            let last = tail.last().number;
            let tail = Tail::of((last - 83..=last).filter_map(|number| tail.get(number))).unwrap();
            status.facts = Arc::new(ChainFacts { tail, finality_violation: None });
            true
        });
    });
    assert_eq!(survey.map(|survey| survey.head), None, "its head is no block of the chain");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_from_a_chain_that_contradicts_itself() {
    let bench = with_three().await;
    bench.status.publish_if(|status| {
        let status = status.as_mut().unwrap();
        let broken = Protection { code: ProtectCode::DeepReorg, detail: gapless_domain::NodeText::new("test") };
        status.facts = Arc::new(ChainFacts { tail: status.facts.tail.clone(), finality_violation: Some(broken) });
        true
    });
    assert_eq!(bench.survey(0, None).await, None);
    bench.status.publish(None);
    assert_eq!(bench.survey(0, None).await, None, "nothing has been read yet");
}

#[tokio::test(start_paused = true)]
async fn one_lane_at_a_time_reads_blocks() {
    let bench = with_three().await;
    bench.chain.script(|script| script.latency = Duration::from_secs(1));
    let began = Instant::now();
    let all = futures_util::future::join_all((0..5).map(|_| bench.survey(2, None))).await;
    assert!(all.iter().all(Option::is_some));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

fn link(number: u64, branch: u64) -> BlockLink {
    let hash = |number: u64| B256::from(gapless_domain::U256::from(number + branch * 1000));
    BlockLink { block: BlockRef { number, hash: hash(number) }, parent_hash: hash(number - 1) }
}

fn block(link: BlockLink, sent: &[u64]) -> Option<SentInBlock> {
    let tx = |number: &u64| {
        let call = EvmCall::default();
        let fees = Fees::Legacy { gas_price: 1 };
        let plan = TxPlan { submitter: account_of(1), nonce: nonce(*number), call, gas_limit: 21_000, fees };
        SignedPlan { plan, signed: SignedTx { hash: B256::ZERO, raw: Bytes::from(vec![0; 100]) } }
    };
    Some(SentInBlock { link, sent: sent.iter().map(tx).collect() })
}

fn descent(from: u64) -> Descent {
    let account = AccountFacts {
        head: 0,
        latest: nonce(9),
        pending: nonce(9),
        finalized: Some(nonce(9)),
        final_block: Some(link(8, 0).block),
        balance: Amount::ZERO,
        delegated: false,
    };
    Descent::begin(request(from, None), account, link(10, 0).block).unwrap()
}

#[test]
fn every_block_is_the_one_that_the_one_above_names() {
    let good = || vec![block(link(8, 0), &[0]), block(link(9, 0), &[]), block(link(10, 0), &[1])];
    let mut way = descent(0);
    way.read(8..=10, good()).unwrap();
    assert_eq!(found(&way.survey()), [(0, 8), (1, 10)]);
    for wrong in 0..3 {
        let mut blocks = good();
        blocks[wrong] = block(link(8 + wrong as u64, 1), &[]);
        assert!(matches!(descent(0).read(8..=10, blocks), Err(SurveyError::Unlinked(_))), "another one");
        let mut blocks = good();
        blocks[wrong] = None;
        assert!(matches!(descent(0).read(8..=10, blocks), Err(SurveyError::Unlinked(_))), "none");
        let mut blocks = good();
        blocks.remove(wrong);
        assert!(matches!(descent(0).read(8..=10, blocks), Err(SurveyError::Unlinked(_))), "too few");
    }
}

#[test]
fn the_final_block_is_on_the_way() {
    let mut way = descent(0);
    way.account.final_block = Some(link(9, 7).block);
    let blocks = vec![block(link(9, 0), &[]), block(link(10, 0), &[])];
    assert!(matches!(way.read(9..=10, blocks), Err(SurveyError::NotFinal(9))));
    let account = descent(0).account;
    assert!(matches!(Descent::begin(request(0, None), account, link(7, 0).block), Err(SurveyError::Behind)));
}

/// The lower bound and the final block are independent.
#[test]
fn nothing_is_whole_before_the_final_block_was_seen() {
    let blocks =
        || vec![block(link(7, 0), &[]), block(link(8, 0), &[]), block(link(9, 0), &[]), block(link(10, 0), &[])];
    let whole = |final_block, read: std::ops::RangeInclusive<u64>| {
        let account = AccountFacts { final_block: Some(final_block), ..descent(0).account };
        let mut way = Descent::begin(request(0, Some(link(8, 0).block)), account, link(10, 0).block).unwrap();
        let count = read.clone().count();
        let skip = blocks().len() - count;
        way.read(read, blocks().split_off(skip)).map(|()| (way.oldest, way.is_whole()))
    };
    assert_eq!(whole(link(9, 0).block, 9..=10).unwrap(), (9, true));
    assert_eq!(whole(link(8, 0).block, 9..=10).unwrap(), (9, true), "it is the one that was named");
    assert_eq!(whole(link(7, 0).block, 9..=10).unwrap(), (9, false));
    assert_eq!(whole(link(7, 0).block, 7..=10).unwrap(), (8, true), "it is the next one");
    assert_eq!(whole(link(8, 7).block, 9..=10).unwrap(), (9, false));
    assert!(matches!(whole(link(8, 7).block, 7..=10), Err(SurveyError::NotFinal(8))));
}

#[test]
fn a_nonce_that_is_there_twice_is_no_answer() {
    let blocks = vec![block(link(9, 0), &[1]), block(link(10, 0), &[1])];
    assert!(matches!(descent(0).read(9..=10, blocks), Err(SurveyError::TwoOfOneNonce(_))));
}

#[test]
fn what_is_kept_is_bounded() {
    let mut way = descent(0);
    way.found_bytes = MAX_FOUND_BYTES;
    way.read(8..=10, vec![block(link(8, 0), &[0]), block(link(9, 0), &[1]), block(link(10, 0), &[2])]).unwrap();
    let survey = way.survey();
    assert_eq!((found(&survey), survey.oldest), (vec![(2, 10)], 10));
}
