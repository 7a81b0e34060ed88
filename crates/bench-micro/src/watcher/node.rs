//! The engine with its watcher. Only the block time is artificial.

use std::sync::Arc;
use std::time::Duration;

use gapless_chain::Chain;
use gapless_chain_evm::{EvmChain, EvmChainOptions, EvmEncoder, LocalSigner, MnemonicOptions, Secret};
use gapless_domain::{
    ConfirmationPolicy, EvmRules, LaneLimits, LaneSetup, LeaseTerms, NoncePolicy, OwnerId, Progress, ResubmitPolicy,
    SubmitterId, SubmitterPolicy, TxId,
};
use gapless_engine::{
    ChainSetup, DispatchOptions, DomainLanes, Engine, EngineOptions, EngineParts, NoFaults, PriceOptions, ServedLane,
    TimeOrderedIds, TokioDriver, WaitForOperator, WatcherOptions,
};
use gapless_store::{Accepted, NewSubmitter, Store};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};

use super::Kind;
use super::chain_process::ChainProcess;
use crate::fixture::intent;

const CHAIN: &str = "eip155:31337";
const MNEMONIC: &str = "test test test test test test test test test test test junk";
const LANES: u32 = 10;
/// A time that is longer than a row takes.
const NEVER: Duration = Duration::from_secs(24 * 3600);
/// More blocks than a row has, so that no transaction becomes final.
const CONFIRMATIONS: u32 = 1_000;
const ACCEPTED_AT_ONCE: usize = 500;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Node {
    engine: Engine,
    store: Arc<dyn Store>,
    lanes: Vec<SubmitterId>,
}

impl Node {
    pub(crate) async fn start(url: &str, kind: Kind) -> Self {
        let signers: Vec<_> = (0..LANES)
            .map(|index| MnemonicOptions::account(Secret::new(MNEMONIC.to_owned()), index))
            .map(|options| LocalSigner::from_mnemonic(&options).unwrap())
            .collect();
        let lanes: Vec<SubmitterId> =
            signers.iter().map(|signer| format!("{CHAIN}:{}", signer.address()).parse().unwrap()).collect();
        let options = EvmChainOptions::new(CHAIN.parse().unwrap(), vec![url.parse().unwrap()]);
        let encoder = Arc::new(EvmEncoder::new(options.id.clone()).unwrap());
        let chain: Arc<dyn Chain> = Arc::new(EvmChain::connect(options).unwrap());
        let store = SqliteStore::open(Location::Memory, OwnerId::new("bench", 1), SqliteOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let new: Vec<_> = lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None }).collect();
        store.register_submitters(&new).await.unwrap();
        let stale_receipt_timeout = if kind == Kind::Stale { Duration::ZERO } else { NEVER };
        let policy = SubmitterPolicy {
            nonce: NoncePolicy { max_in_flight: u16::MAX, ..NoncePolicy::default() },
            // Resends are not part of the cost of watching.
            resubmit: ResubmitPolicy { enabled: true, interval: NEVER },
            confirmations: ConfirmationPolicy { required: CONFIRMATIONS, stale_receipt_timeout },
            ..SubmitterPolicy::default()
        };
        let watcher =
            WatcherOptions { confirmations: CONFIRMATIONS, stale_receipt_timeout, ..WatcherOptions::default() };
        // Work by the clock (peeks, account reads, sweeps) is not part of the cost of a block.
        let (mut limits, mut dispatch) = (LaneLimits::default(), DispatchOptions::default());
        if kind != Kind::ByTheClock {
            (limits.look_interval, limits.account_interval, dispatch.sweep_interval) = (NEVER, NEVER, NEVER);
        }
        let setup = Arc::new(LaneSetup { policy, limits, rules: &EvmRules });
        let served = |(lane, signer): (&SubmitterId, LocalSigner)| ServedLane {
            submitter: lane.clone(),
            setup: Arc::clone(&setup),
            signer: Arc::new(signer),
        };
        let engine = Engine::start(EngineParts {
            store: Arc::clone(&store),
            driver: Arc::new(TokioDriver::start()),
            ids: Arc::new(TimeOrderedIds),
            faults: Arc::new(NoFaults),
            stuck: Arc::new(WaitForOperator),
            chains: vec![ChainSetup { chain, encoder, watcher, prices: PriceOptions::default() }],
            lanes: lanes.iter().zip(signers).map(served).collect(),
            lane_factory: Arc::new(DomainLanes),
            terms: LeaseTerms::default(),
            options: EngineOptions { dispatch, ..EngineOptions::default() },
        })
        .unwrap();
        Node { engine, store, lanes }
    }

    /// Sends so many intents, spread evenly over the lanes.
    pub(crate) async fn accept(&self, count: usize) -> Vec<TxId> {
        let intents: Vec<_> = self.lanes.iter().cycle().take(count).map(intent).collect();
        let mut ids = Vec::with_capacity(count);
        for some in intents.chunks(ACCEPTED_AT_ONCE) {
            let answers = self.engine.intake().accept(some.to_vec()).await.unwrap();
            assert!(answers.iter().all(|(_, verdict)| *verdict == Accepted::New));
            ids.extend(answers.into_iter().map(|(id, _)| id));
        }
        ids
    }

    pub(crate) async fn until_sent(&self, chain: &mut ChainProcess, count: usize) {
        while chain.pool() < count {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub(crate) async fn until_mined(&self, chain: &mut ChainProcess, ids: &[TxId]) {
        while chain.pool() > 0 {
            chain.mine();
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        while self.count(ids, |progress| matches!(progress, Progress::Mined(_))).await < ids.len() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Number of intents that have a nonce and are not final.
    pub(crate) async fn still_open(&self, ids: &[TxId]) -> usize {
        self.count(ids, |_| true).await
    }

    /// The head that the watcher read last.
    pub(crate) fn head(&self) -> u64 {
        let status = self.engine.view().chain_status(self.lanes[0].chain());
        status.map_or(0, |status| status.head.number)
    }

    pub(crate) async fn end(self) {
        self.engine.drain().await;
    }

    async fn count(&self, ids: &[TxId], is_wanted: fn(&Progress) -> bool) -> usize {
        let mut count = 0;
        for some in ids.chunks(ACCEPTED_AT_ONCE) {
            let txs = self.store.get(some).await.unwrap();
            let bound = txs.iter().flatten().filter_map(|tx| tx.state.bound());
            count += bound.filter(|bound| is_wanted(&bound.progress)).count();
        }
        count
    }
}
