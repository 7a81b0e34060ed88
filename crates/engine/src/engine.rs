//! The engine of one node: its parts, its start and its end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{Chain, EndpointStatus};
use gapless_domain::{AccountFacts, ChainId, LaneSetup, LeaseTerms, SubmitterId};
use gapless_signer::{Signer, SigningBounds, SigningLimits, TxEncoder};
use gapless_store::{Heads, Store};
use tokio::sync::mpsc;

use crate::batched_io::{AccountReader, Peeker, Sender};
use crate::chain_desk::{ChainDesk, ChainLoad, DeskParts};
use crate::changes::Changes;
use crate::clock::Clock;
use crate::dispatcher::{DispatchOptions, Dispatcher, Servable};
use crate::driver::{Driver, TaskGroup};
use crate::fault_points::FaultPoints;
use crate::group_commit::BatchLimits;
use crate::ids::Ids;
use crate::intake::{Intake, IntakeLimits};
use crate::lane_machine::LaneFactory;
use crate::lane_runner::LaneServices;
use crate::lane_writer::LaneWriter;
use crate::lease_keeper::LeaseKeeper;
use crate::prices::PriceOptions;
use crate::published::{Publisher, published};
use crate::retention::{RetentionLoop, RetentionOptions};
use crate::signing::{DriverTimer, LaneSigner};
use crate::stuck_policy::StuckPolicy;
use crate::watcher::{ChainStatus, Finality, WatchBook, Watcher, WatcherOptions};

/// Dependencies and settings of the engine.
#[derive(Debug)]
pub struct EngineParts {
    pub store: Arc<dyn Store>,
    pub driver: Arc<dyn Driver>,
    pub ids: Arc<dyn Ids>,
    pub faults: Arc<dyn FaultPoints>,
    pub stuck: Arc<dyn StuckPolicy>,
    pub chains: Vec<ChainSetup>,
    /// The lanes whose keys this node has.
    pub lanes: Vec<ServedLane>,
    /// Makes the state machines of the lanes.
    pub lane_factory: Arc<dyn LaneFactory>,
    pub terms: LeaseTerms,
    pub options: EngineOptions,
}

/// A lane whose key this node has.
#[derive(Clone, Debug)]
pub struct ServedLane {
    pub submitter: SubmitterId,
    pub setup: Arc<LaneSetup>,
    /// Signs for the submitter's account.
    pub signer: Arc<dyn Signer>,
}

#[derive(Debug)]
pub struct ChainSetup {
    pub chain: Arc<dyn Chain>,
    pub encoder: Arc<dyn TxEncoder>,
    pub watcher: WatcherOptions,
    pub prices: PriceOptions,
}

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub intake: IntakeLimits,
    pub writer: BatchLimits,
    /// Limits of one send batch of a chain, and of concurrent batches.
    pub sender: BatchLimits,
    /// Limits of one read batch of queues or accounts.
    pub reader: BatchLimits,
    pub dispatch: DispatchOptions,
    pub retention: RetentionOptions,
    /// The time-out of a call to a signer, and the bounds of calls.
    pub signing: SigningLimits,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            intake: IntakeLimits::default(),
            writer: BatchLimits::default(),
            sender: BatchLimits { items: 256, bytes: 1 << 20, waiting: 4096, flushes: 4 },
            reader: BatchLimits { items: 500, bytes: usize::MAX, waiting: 4096, flushes: 2 },
            dispatch: DispatchOptions::default(),
            retention: RetentionOptions::default(),
            signing: SigningLimits::default(),
        }
    }
}

/// A running engine. Dropping it stops everything at once, as a crash would; [`Engine::drain`] ends it in order.
#[derive(Debug)]
pub struct Engine {
    intake: Intake,
    view: Arc<EngineView>,
    draining: Publisher<bool>,
    /// Dropped to stop all tasks.
    stop: Publisher<()>,
    lanes_ended: mpsc::Receiver<Infallible>,
}

/// The engine's knowledge, for display. A view may outlive the engine.
#[derive(Debug)]
pub struct EngineView {
    driver: Arc<dyn Driver>,
    changes: Arc<Changes>,
    desks: BTreeMap<ChainId, Arc<ChainDesk>>,
}

/// The error for a lane on a chain that is not configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{submitter} is on a chain that is not configured")]
pub struct UnknownChain {
    pub submitter: SubmitterId,
}

impl Engine {
    /// Starts all tasks on the driver.
    pub fn start(parts: EngineParts) -> Result<Engine, UnknownChain> {
        let EngineParts { store, driver, ids, faults, stuck, chains, lanes, lane_factory, terms, options } = parts;
        let clock: Arc<dyn Clock> = driver.clone();
        let (stop, stopped) = published(());
        let (draining, drain_asked) = published(false);
        // Background loops run until the engine stops; the dispatcher and its lanes end when they have drained.
        let (background, _) = TaskGroup::new(Arc::clone(&driver), stopped.clone());
        let (tasks, lanes_ended) = TaskGroup::new(Arc::clone(&driver), stopped);
        let (intake, intake_loop) = Intake::with_faults(store.clone(), ids, options.intake, Arc::clone(&faults));
        let (writer, writer_loop) = LaneWriter::new(store.clone(), Arc::clone(&clock), options.writer);
        let (peeker, peeker_loop) = Peeker::new(store.clone(), options.reader);
        background.spawn(intake_loop.run());
        background.spawn(writer_loop.run());
        background.spawn(peeker_loop.run());
        let changes = Arc::new(Changes::default());
        let (listener, source) = (Arc::clone(&changes), store.clone());
        background.spawn(async move { listener.run(source).await });
        if !options.retention.is_never() {
            let retention = options.retention.clone();
            background.spawn(RetentionLoop::new(store.clone(), Arc::clone(&driver), retention).run());
        }

        let mut desks = BTreeMap::new();
        let mut encoders = BTreeMap::new();
        for setup in chains {
            encoders.insert(setup.chain.id().clone(), Arc::clone(&setup.encoder));
            let desk = start_chain(&background, setup, store.clone(), &clock, &options);
            desks.insert(desk.chain.id().clone(), desk);
        }
        let mut servable = BTreeMap::new();
        // The shortest time for which a permit holds while leases are renewed. A call ends before its permit does.
        let permitted = terms.trusted_span().saturating_sub(terms.renew_interval);
        let limits = SigningLimits { timeout: options.signing.timeout.min(permitted), ..options.signing };
        let bounds = SigningBounds::new(limits, Arc::new(DriverTimer(Arc::clone(&driver))));
        for ServedLane { submitter, setup, signer } in lanes {
            let parts = desks.get(submitter.chain()).cloned().zip(encoders.get(submitter.chain()).cloned());
            let (desk, encoder) = parts.ok_or_else(|| UnknownChain { submitter: submitter.clone() })?;
            let signer = LaneSigner::new(encoder, bounds.bound(signer), Arc::clone(&driver), limits);
            servable.insert(submitter, Servable { setup, desk, signer });
        }
        let keeper = Arc::new(LeaseKeeper::new(store.clone(), Arc::clone(&clock), terms));
        let services =
            LaneServices { driver: Arc::clone(&driver), keeper, writer, peeker, faults, stuck, lane_factory };
        let dispatcher = Dispatcher::new(
            (store.clone(), store),
            services,
            tasks.clone(),
            terms,
            options.dispatch,
            servable,
            drain_asked,
        );
        tasks.spawn(dispatcher.run());
        let view = Arc::new(EngineView { driver, changes, desks });
        Ok(Engine { intake, view, draining, stop, lanes_ended })
    }

    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    pub fn view(&self) -> &Arc<EngineView> {
        &self.view
    }

    /// Ends when lanes have finished their work in flight and all leases are released; then everything stops. The
    /// caller has stopped accepting requests before.
    pub async fn drain(mut self) {
        self.draining.publish(true);
        // The channel carries no messages: it closes when the dispatcher and all lanes have ended.
        let _ = self.lanes_ended.recv().await;
        drop(self.stop);
    }
}

impl EngineView {
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    pub fn chains(&self) -> impl Iterator<Item = &ChainId> {
        self.desks.keys()
    }

    /// This node's knowledge of a chain; `None` until it has read a head.
    pub fn chain_status(&self, chain: &ChainId) -> Option<ChainStatus> {
        self.desks.get(chain)?.status()
    }

    /// The time since the head was read.
    pub fn head_age(&self, status: &ChainStatus) -> Duration {
        self.driver.now().saturating_since(status.read_at)
    }

    /// Nonces and balance from the chain now, or as last read.
    pub async fn account(&self, submitter: &SubmitterId) -> Option<AccountFacts> {
        self.desks.get(submitter.chain())?.account_for_display(submitter).await
    }

    pub fn chain_load(&self, chain: &ChainId) -> Option<ChainLoad> {
        self.desks.get(chain).map(|desk| desk.load())
    }

    /// The finality rule of the chain, and the required confirmations.
    pub fn finality(&self, chain: &ChainId) -> Option<(Finality, u32)> {
        self.desks.get(chain).map(|desk| (desk.watcher_options.finality, desk.watcher_options.confirmations))
    }

    pub fn endpoints(&self, chain: &ChainId) -> Vec<EndpointStatus> {
        self.desks.get(chain).map(|desk| desk.chain.endpoints()).unwrap_or_default()
    }
}

fn start_chain(
    tasks: &TaskGroup,
    setup: ChainSetup,
    heads: Arc<dyn Heads>,
    clock: &Arc<dyn Clock>,
    options: &EngineOptions,
) -> Arc<ChainDesk> {
    let ChainSetup { chain, watcher, prices, encoder: _ } = setup;
    let book = Arc::new(WatchBook::default());
    let (sender, sender_loop) = Sender::new(chain.clone(), Arc::clone(clock), options.sender);
    let (accounts, accounts_loop) = AccountReader::new(chain.clone(), options.reader);
    let driver = Arc::clone(tasks.driver());
    let watcher_options = watcher.clone();
    let (watcher, status) =
        Watcher::new(chain.clone(), Arc::clone(&heads), Arc::clone(&driver), Arc::clone(&book), watcher);
    tasks.spawn(sender_loop.run());
    tasks.spawn(accounts_loop.run());
    tasks.spawn(watcher.run());
    Arc::new(ChainDesk::new(DeskParts {
        chain,
        heads,
        book,
        sender,
        accounts,
        status,
        driver,
        prices,
        watcher_options,
    }))
}
