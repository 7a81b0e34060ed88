#![allow(clippy::disallowed_methods, reason = "a test has its own time and tasks")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::{Chain, ChainReader as _};
use gapless_domain::{
    Amount, B256, Bytes, ChainFacts, Fees, Head, LeaseTerms, NodeText, OwnerId, ProtectCode, Protection, SignedTx,
    Tail, Tick, Timestamp, TxPlan, samples,
};
use gapless_sim::testing::{PausedDriver, ScriptedChain};
use gapless_store::{Heads, ManualClock, Model};
use tokio::time::Instant;

use super::*;
use crate::batched_io::{AccountReader, Sender};
use crate::chain_desk::DeskParts;
use crate::clock::Clock;
use crate::driver::Driver;
use crate::group_commit::BatchLimits;
use crate::prices::PriceOptions;
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
struct ScanTest {
    chain: Arc<ScriptedChain>,
    desk: Arc<ChainDesk>,
    store: Arc<dyn Heads>,
    status: Publisher<Option<ChainStatus>>,
    us: SubmitterId,
}

const FINAL_DEPTH: u64 = 3;

fn account_of(byte: u8) -> SubmitterId {
    format!("eip155:31337:0x{}", format!("{byte:02x}").repeat(20)).parse().unwrap()
}

impl ScanTest {
    fn new(survey_blocks: u32) -> Self {
        let us = account_of(1);
        let chain = ScriptedChain::new(&[us.clone(), account_of(2)], PausedDriver::start());
        let driver = Arc::new(TestDriver(Instant::now()));
        let limits = BatchLimits { items: 10, bytes: 1000, waiting: 10, flushes: 1 };
        let shared = || Arc::clone(&chain) as Arc<dyn Chain>;
        let (sender, _) = Sender::new(shared(), Arc::clone(&driver) as Arc<dyn Clock>, limits);
        let (accounts, accounts_loop) = AccountReader::new(shared(), limits);
        tokio::spawn(accounts_loop.run());
        let (status, follower) = published(None);
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        let store = Arc::new(Model::new(LeaseTerms::default(), clock).node(OwnerId::new("test", 1)));
        let desk = ChainDesk::new(DeskParts {
            chain: shared(),
            heads: Arc::clone(&store) as Arc<dyn Heads>,
            book: Arc::new(WatchBook::default()),
            sender,
            accounts,
            status: follower,
            driver,
            prices: PriceOptions::default(),
            watcher_options: WatcherOptions { survey_blocks, ..WatcherOptions::default() },
        });
        ScanTest { chain, desk: Arc::new(desk), store, status, us }
    }

    fn mine(&self, blocks: usize) {
        (0..blocks).for_each(|_| self.chain.mine());
    }

    /// Publishes the status that a watcher at the chain's head would publish.
    async fn publish_status(&self) {
        let links = self.chain.sent_by(&self.us, 0..=self.chain.height()).await.unwrap();
        let tail = Tail::of(links.into_iter().flatten().map(|block| block.link)).unwrap();
        let head = tail.last();
        let final_block = tail.get(head.number.saturating_sub(FINAL_DEPTH)).map(|link| link.block);
        let facts = Arc::new(ChainFacts { tail, finality_violation: None });
        let read_at = Tick::default();
        self.status.publish(Some(ChainStatus { head, final_block, lags: false, read_at, block_time_ms: None, facts }));
    }

    async fn scan(&self, from: u64, above: Option<BlockRef>) -> Option<ScanResult> {
        self.desk.scan(&self.us, request(from, above)).await.ok()
    }

    /// The reason why there is no result.
    async fn failure(&self) -> String {
        self.desk.scan(&self.us, request(0, None)).await.unwrap_err().to_string()
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
fn found(scan: &ScanResult) -> Vec<(u64, u64)> {
    scan.sent.iter().map(|sent| (sent.tx.plan.nonce.get(), sent.block.number)).collect()
}

/// Three transactions of the account in blocks 10, 100 and 151 of 200, and one of another account in between.
async fn with_three_txs() -> ScanTest {
    let test = ScanTest::new(10_000);
    test.mine(9);
    test.chain.foreign(&test.us, 0);
    test.mine(90);
    test.chain.foreign(&test.us, 1);
    test.chain.foreign(&account_of(2), 0);
    test.mine(51);
    test.chain.foreign(&test.us, 2);
    test.mine(50);
    test.publish_status().await;
    test
}

#[tokio::test(start_paused = true)]
async fn scan_finds_transactions_and_reads_no_further() {
    let test = with_three_txs().await;
    let all = test.scan(0, None).await.unwrap();
    assert_eq!((found(&all), all.oldest, all.head.number), (vec![(0, 10), (1, 100), (2, 151)], 10, 200));
    assert_eq!((all.account.latest, all.account.finalized), (nonce(3), Some(nonce(3))));
    assert_eq!(all.account.final_block.map(|block| block.number), Some(197));
    assert!(all.sent.iter().all(|sent| sent.tx.plan.submitter == test.us));
    let last = test.scan(2, None).await.unwrap();
    assert_eq!((found(&last), last.oldest), (vec![(2, 151)], 151));
    let asked = test.chain.requests("sent_by");
    let none = test.scan(3, None).await.unwrap();
    assert_eq!((none.sent.len(), none.account.latest), (0, nonce(3)), "no nonce was used above");
    assert_eq!(test.chain.requests("sent_by"), asked, "so no block is read");
}

/// The endpoint has a block that the watcher has not seen.
#[tokio::test(start_paused = true)]
async fn scan_reads_nonce_at_its_own_head() {
    let test = with_three_txs().await;
    test.chain.foreign(&test.us, 3);
    test.mine(1);
    let scan = test.scan(0, None).await.unwrap();
    assert_eq!((scan.account.latest, scan.head.number, scan.oldest), (nonce(3), 200, 10));
}

/// The endpoints of this node lag behind the endpoints of another node. After a loss of commits, the missing blocks may
/// contain a transaction that the ledger does not know.
///
/// proves N17
#[tokio::test(start_paused = true)]
async fn node_without_the_saved_final_block_does_not_scan() {
    let test = with_three_txs().await;
    let chain = test.chain.id().clone();
    let save = async |final_number: u64| {
        let links = test.chain.sent_by(&test.us, 0..=test.chain.height()).await.unwrap();
        let tail = Tail::of(links.into_iter().flatten().map(|block| block.link)).unwrap();
        let finalized = tail.get(final_number).map(|link| link.block);
        test.store.save_head(&chain, &Head { tail, finalized, genesis: None }).await.unwrap()
    };
    save(200).await;
    assert_eq!(test.scan(0, None).await.unwrap().sent.len(), 3);
    test.chain.foreign(&test.us, 3);
    test.mine(1);
    save(201).await;
    let lags = "this node is at block 200, below the final block 201 that a node has saved; its endpoints lag";
    assert_eq!(test.failure().await, lags);
    test.publish_status().await;
    assert_eq!(test.scan(0, None).await.unwrap().sent.len(), 4);
    test.store.forget_head(&chain, &NodeText::new("operator"), "a test").await.unwrap();
    let links = test.chain.sent_by(&test.us, 0..=201).await.unwrap();
    let fork = links.into_iter().flatten().map(|block| match block.link.block.number {
        201 => BlockLink { block: BlockRef { hash: B256::repeat_byte(7), ..block.link.block }, ..block.link },
        _ => block.link,
    });
    let tail = Tail::of(fork).unwrap();
    let finalized = Some(tail.last());
    test.store.save_head(&chain, &Head { tail, finalized, genesis: None }).await.unwrap();
    let forked = "this node is on another fork than the final block 201 that a node has saved";
    assert_eq!(test.failure().await, forked);
}

#[tokio::test(start_paused = true)]
async fn scan_ends_at_its_lower_bound() {
    let test = with_three_txs().await;
    let bounded = test.scan(1, Some(test.block(120).await)).await.unwrap();
    assert_eq!((found(&bounded), bounded.oldest, bounded.is_whole), (vec![(2, 151)], 121, true));
    // A found transaction proves nothing about the blocks below it.
    let found_all = test.scan(1, Some(test.block(50).await)).await.unwrap();
    assert_eq!((found(&found_all), found_all.oldest, found_all.is_whole), (vec![(1, 100), (2, 151)], 100, false));
    // No transaction lies above the bound.
    let none = test.scan(0, Some(test.block(199).await)).await.unwrap();
    assert_eq!((none.sent.len(), none.oldest, none.is_whole), (0, 198, true), "read down to the final block");
    // A nonce was used without a transaction: the scan goes down to the first block.
    test.chain.use_without_transaction(&test.us);
    let whole = test.scan(0, None).await.unwrap();
    assert_eq!((whole.sent.len(), whole.oldest, whole.account.latest), (3, 0, nonce(4)));
    assert!(whole.is_whole);
}

#[tokio::test(start_paused = true)]
async fn scan_ends_at_survey_blocks() {
    let test = ScanTest::new(70);
    test.chain.foreign(&test.us, 0);
    test.mine(200);
    test.publish_status().await;
    let asked = test.chain.requests("sent_by");
    let scan = test.scan(0, None).await.unwrap();
    assert_eq!((scan.sent.len(), scan.oldest, scan.is_whole), (0, 131, false));
    assert_eq!(test.chain.requests("sent_by") - asked, 2, "64 and 6");
}

#[tokio::test(start_paused = true)]
async fn nonce_used_without_transaction_is_not_found() {
    let test = ScanTest::new(100);
    test.mine(5);
    test.chain.use_without_transaction(&test.us);
    test.mine(10);
    test.publish_status().await;
    let scan = test.scan(0, Some(test.block(1).await)).await.unwrap();
    assert_eq!((scan.sent.len(), scan.oldest, scan.account.finalized), (0, 2, Some(nonce(1))));
    assert!(scan.is_whole);
}

/// After an accepted finality violation, a transaction may lie below the number of a block that was final once.
#[tokio::test(start_paused = true)]
async fn orphaned_block_is_no_lower_bound() {
    let test = ScanTest::new(150);
    test.mine(164);
    test.chain.foreign(&test.us, 0);
    test.mine(6);
    let (once_final, still_there) = (test.block(160).await, test.block(110).await);
    test.chain.reorg_keeping(50);
    test.mine(29);
    test.publish_status().await;
    assert_ne!(test.block(160).await, once_final);
    let scan = test.scan(0, Some(once_final)).await.unwrap();
    assert_eq!((found(&scan), scan.oldest), (vec![(0, 121)], 121));
    // The orphaned bound does not prove that there is nothing.
    test.chain.use_without_transaction(&test.us);
    let scan = test.scan(0, Some(once_final)).await.unwrap();
    assert_eq!((found(&scan), scan.oldest, scan.is_whole), (vec![(0, 121)], 51, false));
    let scan = test.scan(0, Some(BlockRef { number: 500, ..once_final })).await.unwrap();
    assert_eq!((found(&scan), scan.oldest, scan.is_whole), (vec![(0, 121)], 51, false), "above the head");
    let scan = test.scan(0, Some(still_there)).await.unwrap();
    assert_eq!((found(&scan), scan.oldest, scan.is_whole), (vec![(0, 121)], 111, true));
}

#[tokio::test(start_paused = true)]
async fn unlinked_or_missing_blocks_give_no_result() {
    let test = with_three_txs().await;
    let other = ScriptedChain::new(&[test.us.clone(), account_of(2)], PausedDriver::start());
    (0..200).for_each(|_| other.mine());
    other.reorg(100, false);
    test.chain.script(|script| script.sent_from = Some(Arc::clone(&other)));
    assert_eq!(test.scan(0, None).await, None, "another head");
    test.chain.script(|script| (script.sent_from, script.first_block) = (None, 50));
    assert_eq!(test.scan(0, None).await, None, "a missing block");
    assert!(test.scan(1, None).await.is_some(), "the missing block is not on the walk");
    test.chain.script(|script| (script.first_block, script.unreachable) = (0, true));
    assert_eq!(test.scan(0, None).await, None, "no endpoint answers");
}

#[tokio::test(start_paused = true)]
async fn reorg_during_scan_gives_no_result() {
    let test = with_three_txs().await;
    test.chain.script(|script| script.latency = Duration::from_secs(10));
    let (scan, ()) = tokio::join!(test.scan(0, None), async {
        // The last request of the scan is in flight.
        tokio::time::sleep(Duration::from_secs(25)).await;
        test.chain.script(|script| script.latency = Duration::ZERO);
        test.chain.reorg(1, false);
        test.publish_status().await;
    });
    assert_eq!(scan, None);
    // A head that has only advanced is fine.
    test.chain.script(|script| script.latency = Duration::from_secs(10));
    let (scan, ()) = tokio::join!(test.scan(0, None), async {
        tokio::time::sleep(Duration::from_secs(25)).await;
        test.chain.script(|script| script.latency = Duration::ZERO);
        test.mine(3);
        test.publish_status().await;
    });
    assert_eq!(scan.unwrap().head.number, 201);
}

/// A scan may take longer than the watcher's tail is long.
#[tokio::test(start_paused = true)]
async fn reorg_during_scan_beyond_tail_gives_no_result() {
    let test = with_three_txs().await;
    test.chain.script(|script| script.latency = Duration::from_secs(10));
    let (scan, ()) = tokio::join!(test.scan(0, None), async {
        // The last request of the scan is in flight.
        tokio::time::sleep(Duration::from_secs(25)).await;
        test.chain.script(|script| script.latency = Duration::ZERO);
        test.chain.reorg(2, false);
        test.mine(100);
        test.publish_status().await;
        // Trims the tail to the kept length, as `Watcher::publish` does.
        test.status.publish_if(|status| {
            let status = status.as_mut().unwrap();
            let tail = &status.facts.tail;
            let last = tail.last().number;
            let tail = Tail::of((last - 83..=last).filter_map(|number| tail.get(number))).unwrap();
            status.facts = Arc::new(ChainFacts { tail, finality_violation: None });
            true
        });
    });
    assert_eq!(scan.map(|scan| scan.head), None, "the head is not canonical");
}

#[tokio::test(start_paused = true)]
async fn finality_violation_gives_no_scan_result() {
    let test = with_three_txs().await;
    test.status.publish_if(|status| {
        let status = status.as_mut().unwrap();
        let broken = Protection { code: ProtectCode::DeepReorg, detail: gapless_domain::NodeText::new("test") };
        status.facts = Arc::new(ChainFacts { tail: status.facts.tail.clone(), finality_violation: Some(broken) });
        true
    });
    assert_eq!(test.scan(0, None).await, None);
    test.status.publish(None);
    assert_eq!(test.scan(0, None).await, None, "no head has been read yet");
}

#[tokio::test(start_paused = true)]
async fn lanes_scan_one_at_a_time() {
    let test = with_three_txs().await;
    test.chain.script(|script| script.latency = Duration::from_secs(1));
    let began = Instant::now();
    let all = futures_util::future::join_all((0..5).map(|_| test.scan(2, None))).await;
    assert!(all.iter().all(Option::is_some));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

fn link(number: u64, branch: u64) -> BlockLink {
    let hash = |number: u64| B256::from(gapless_domain::U256::from(number + branch * 1000));
    BlockLink { block: BlockRef { number, hash: hash(number) }, parent_hash: hash(number - 1) }
}

fn block(link: BlockLink, sent: &[u64]) -> Option<SentInBlock> {
    let tx = |number: &u64| {
        let (action, work) = (samples::transfer(1_u64), samples::ENOUGH_WORK);
        let fees = Fees::flat(1);
        let plan = TxPlan { submitter: account_of(1), nonce: nonce(*number), action, work, fees };
        SignedPlan { plan, signed: SignedTx { hash: B256::ZERO, raw: Bytes::from(vec![0; 100]) } }
    };
    Some(SentInBlock { link, sent: sent.iter().map(tx).collect() })
}

fn walk_from(from: u64) -> ScanWalk {
    let account = AccountFacts {
        head: 0,
        latest: nonce(9),
        pending: nonce(9),
        finalized: Some(nonce(9)),
        final_block: Some(link(8, 0).block),
        lags: false,
        balance: Amount::ZERO,
        narrow: false,
    };
    ScanWalk::begin(request(from, None), account, link(10, 0).block).unwrap()
}

#[test]
fn every_block_must_link_to_the_one_above() {
    let good = || vec![block(link(8, 0), &[0]), block(link(9, 0), &[]), block(link(10, 0), &[1])];
    let mut walk = walk_from(0);
    walk.read(8..=10, good()).unwrap();
    assert_eq!(found(&walk.into_result()), [(0, 8), (1, 10)]);
    for wrong in 0..3 {
        let mut blocks = good();
        blocks[wrong] = block(link(8 + wrong as u64, 1), &[]);
        assert!(matches!(walk_from(0).read(8..=10, blocks), Err(ScanError::Unlinked(_))), "another block");
        let mut blocks = good();
        blocks[wrong] = None;
        assert!(matches!(walk_from(0).read(8..=10, blocks), Err(ScanError::Unlinked(_))), "no block");
        let mut blocks = good();
        blocks.remove(wrong);
        assert!(matches!(walk_from(0).read(8..=10, blocks), Err(ScanError::Unlinked(_))), "too few");
    }
}

#[test]
fn final_block_must_be_on_the_walk() {
    let mut walk = walk_from(0);
    walk.account.final_block = Some(link(9, 7).block);
    let blocks = vec![block(link(9, 0), &[]), block(link(10, 0), &[])];
    assert!(matches!(walk.read(9..=10, blocks), Err(ScanError::NotFinal(9))));
    let account = walk_from(0).account;
    assert!(matches!(ScanWalk::begin(request(0, None), account, link(7, 0).block), Err(ScanError::HeadBelowFinal)));
}

/// The lower bound and the final block are independent.
#[test]
fn scan_is_whole_only_after_final_block() {
    let blocks =
        || vec![block(link(7, 0), &[]), block(link(8, 0), &[]), block(link(9, 0), &[]), block(link(10, 0), &[])];
    let whole = |final_block, read: std::ops::RangeInclusive<u64>| {
        let account = AccountFacts { final_block: Some(final_block), ..walk_from(0).account };
        let mut walk = ScanWalk::begin(request(0, Some(link(8, 0).block)), account, link(10, 0).block).unwrap();
        let count = read.clone().count();
        let skip = blocks().len() - count;
        walk.read(read, blocks().split_off(skip)).map(|()| (walk.oldest, walk.is_whole()))
    };
    assert_eq!(whole(link(9, 0).block, 9..=10).unwrap(), (9, true));
    assert_eq!(whole(link(8, 0).block, 9..=10).unwrap(), (9, true), "it is the lower bound");
    assert_eq!(whole(link(7, 0).block, 9..=10).unwrap(), (9, false));
    assert_eq!(whole(link(7, 0).block, 7..=10).unwrap(), (8, true), "it is the next block");
    assert_eq!(whole(link(8, 7).block, 9..=10).unwrap(), (9, false));
    assert!(matches!(whole(link(8, 7).block, 7..=10), Err(ScanError::NotFinal(8))));
}

#[test]
fn duplicate_nonce_gives_no_result() {
    let blocks = vec![block(link(9, 0), &[1]), block(link(10, 0), &[1])];
    assert!(matches!(walk_from(0).read(9..=10, blocks), Err(ScanError::TwoOfOneNonce(_))));
}

#[test]
fn found_bytes_are_bounded() {
    let mut walk = walk_from(0);
    walk.found_bytes = MAX_FOUND_BYTES;
    walk.read(8..=10, vec![block(link(8, 0), &[0]), block(link(9, 0), &[1]), block(link(10, 0), &[2])]).unwrap();
    let scan = walk.into_result();
    assert_eq!((found(&scan), scan.oldest), (vec![(2, 10)], 10));
}
