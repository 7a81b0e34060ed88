//! The engine on anvil, through the EVM adapter, and on SQLite.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

use std::sync::Arc;
use std::time::Duration;

use gapless_chain::Chain;
use gapless_chain_evm::{EvmChain, EvmChainOptions, EvmEncoder, LocalSigner, MnemonicOptions, Secret};
use gapless_domain::{
    ConfirmationPolicy, EvmRules, LaneSetup, LeaseTerms, NoncePolicy, OwnerId, StateName, SubmitterId, SubmitterPolicy,
};
use gapless_engine::{
    ChainSetup, DomainLanes, Engine, EngineOptions, EngineParts, NoFaults, PriceOptions, ServedLane, TimeOrderedIds,
    TokioDriver, WaitForOperator, WatcherOptions,
};
use gapless_store::conformance::fixtures::intent;
use gapless_store::{NewSubmitter, Store};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};
use gapless_testbed::{Anvil, AnvilOptions, Mining};

const MNEMONIC: &str = "test test test test test test test test test test test junk";

fn start_anvil() -> Anvil {
    Anvil::start(AnvilOptions { mining: Mining::Every(Duration::from_secs(1)), ..AnvilOptions::default() }).unwrap()
}

async fn confirm_all(rpc: &str, window: u16, intents: u64) -> Duration {
    let signer = LocalSigner::from_mnemonic(&MnemonicOptions::account(Secret::new(MNEMONIC.to_owned()), 0)).unwrap();
    let submitter: SubmitterId = format!("eip155:31337:{}", signer.address()).parse().unwrap();
    let options = EvmChainOptions::new("eip155:31337".parse().unwrap(), vec![rpc.parse().unwrap()]);
    let encoder = Arc::new(EvmEncoder::new(options.id.clone()).unwrap());
    let chain: Arc<dyn Chain> = Arc::new(EvmChain::connect(options).unwrap());
    let store = SqliteStore::open(Location::Memory, OwnerId::new("a", 1), SqliteOptions::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    store.register_submitters(&[NewSubmitter { id: submitter.clone(), alias: None }]).await.unwrap();
    let nonce = NoncePolicy { max_in_flight: window, ..NoncePolicy::default() };
    let confirmations = ConfirmationPolicy { required: 2, ..ConfirmationPolicy::default() };
    let policy = SubmitterPolicy { nonce, confirmations, ..SubmitterPolicy::default() };
    let engine = Engine::start(EngineParts {
        store: Arc::clone(&store),
        driver: Arc::new(TokioDriver::start()),
        ids: Arc::new(TimeOrderedIds),
        faults: Arc::new(NoFaults),
        stuck: Arc::new(WaitForOperator),
        chains: vec![ChainSetup {
            chain,
            encoder,
            watcher: WatcherOptions { confirmations: 2, ..WatcherOptions::default() },
            prices: PriceOptions::default(),
        }],
        lanes: vec![ServedLane {
            submitter: submitter.clone(),
            setup: Arc::new(LaneSetup { policy, ..LaneSetup::new(&EvmRules) }),
            signer: Arc::new(signer),
        }],
        lane_factory: Arc::new(DomainLanes),
        terms: LeaseTerms::default(),
        options: EngineOptions::default(),
    })
    .unwrap();
    let began = std::time::Instant::now();
    let all = (0..intents).map(|n| intent(&submitter, &format!("r{n}"))).collect();
    let ids: Vec<_> = engine.intake().accept(all).await.unwrap().into_iter().map(|(id, _)| id).collect();
    let confirmed = async {
        loop {
            let txs = store.get(&ids).await.unwrap();
            if txs.iter().flatten().all(|tx| tx.state.name() == StateName::Confirmed) {
                return txs;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let txs = tokio::time::timeout(Duration::from_secs(60), confirmed).await;
    let Ok(txs) = txs else {
        let txs = store.get(&ids).await.unwrap();
        let status = store.lane_status(&[submitter]).await.unwrap();
        let states: Vec<_> = txs.iter().flatten().map(|tx| &tx.state).take(3).collect();
        panic!("{states:?} {status:?}");
    };
    let nonces: Vec<u64> = txs.iter().flatten().map(|tx| tx.state.nonce().unwrap().get()).collect();
    assert_eq!(nonces, (0..intents).collect::<Vec<_>>());
    let took = began.elapsed();
    engine.drain().await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_and_pipelined_lanes_confirm_over_http() {
    let anvil = start_anvil();
    confirm_all(&anvil.url(), 1, 3).await;
    let anvil = start_anvil();
    confirm_all(&anvil.url(), 64, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_lane_confirms_over_websocket() {
    let anvil = start_anvil();
    confirm_all(&anvil.ws_url(), 16, 50).await;
}
