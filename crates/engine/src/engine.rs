//! The engine of one node, put together: what is given in, what runs, and how it ends.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{Chain, EndpointStatus};
use gapless_domain::{AccountFacts, ChainId, LaneSetup, LeaseTerms, SubmitterId};
use gapless_store::Store;
use tokio::sync::mpsc;

use crate::chain_desk::{ChainDesk, ChainLoad, GasPolicy};
use crate::changes::Changes;
use crate::clock::Clock;
use crate::dispatcher::{DispatchOptions, Dispatcher, Servable};
use crate::driver::{Crew, Driver};
use crate::fault_points::FaultPoints;
use crate::gathered::{AccountReader, Peeker, Sender};
use crate::group_commit::BatchLimits;
use crate::ids::Ids;
use crate::intake::{Intake, IntakeLimits};
use crate::lane_runner::Tools;
use crate::lane_writer::LaneWriter;
use crate::lease_keeper::LeaseKeeper;
use crate::published::{Publisher, published};
use crate::retention::{RetentionLoop, RetentionOptions};
use crate::stuck_policy::StuckPolicy;
use crate::watcher::{ChainStatus, Finality, WatchBook, Watcher, WatcherOptions};

/// Everything that the engine needs from outside.
#[derive(Debug)]
pub struct EngineParts {
    pub store: Arc<dyn Store>,
    pub driver: Arc<dyn Driver>,
    pub ids: Arc<dyn Ids>,
    pub faults: Arc<dyn FaultPoints>,
    pub stuck: Arc<dyn StuckPolicy>,
    pub chains: Vec<ChainSetup>,
    /// The lanes that this node can run: it has their keys.
    pub lanes: Vec<(SubmitterId, Arc<LaneSetup>)>,
    pub terms: LeaseTerms,
    pub options: EngineOptions,
}

#[derive(Debug)]
pub struct ChainSetup {
    pub chain: Arc<dyn Chain>,
    pub watcher: WatcherOptions,
    pub gas: GasPolicy,
}

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub intake: IntakeLimits,
    pub writer: BatchLimits,
    /// Sends of one chain in one go, and how many goes at once.
    pub sender: BatchLimits,
    /// Queues and accounts that are read in one go.
    pub reader: BatchLimits,
    pub dispatch: DispatchOptions,
    pub retention: RetentionOptions,
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
        }
    }
}

/// A running engine. Dropping it stops everything where it stands, as a crash would; [`Engine::drain`] ends it in order.
#[derive(Debug)]
pub struct Engine {
    intake: Intake,
    view: Arc<EngineView>,
    draining: Publisher<bool>,
    /// Dropped when everything is to stop.
    stop: Publisher<()>,
    lanes_over: mpsc::Receiver<Infallible>,
}

/// What an engine knows, for whoever shows it. It may outlive the engine.
#[derive(Debug)]
pub struct EngineView {
    driver: Arc<dyn Driver>,
    changes: Arc<Changes>,
    desks: BTreeMap<ChainId, Arc<ChainDesk>>,
}

/// A lane names a chain that this node does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{submitter} is on a chain that is not configured")]
pub struct UnknownChain {
    pub submitter: SubmitterId,
}

impl Engine {
    /// Starts everything on the driver.
    pub fn start(parts: EngineParts) -> Result<Engine, UnknownChain> {
        let EngineParts { store, driver, ids, faults, stuck, chains, lanes, terms, options } = parts;
        let clock: Arc<dyn Clock> = Arc::new(DriverClock(Arc::clone(&driver)));
        let (stop, stopped) = published(());
        let (draining, drain_asked) = published(false);
        // The loops live until the engine stops; the dispatcher and its lanes end when they have drained.
        let (background, _) = Crew::new(Arc::clone(&driver), stopped.clone());
        let (crew, lanes_over) = Crew::new(Arc::clone(&driver), stopped);
        let (intake, intake_loop) = Intake::with_faults(Arc::clone(&store), ids, options.intake, Arc::clone(&faults));
        let (writer, writer_loop) = LaneWriter::new(Arc::clone(&store), Arc::clone(&clock), options.writer);
        let (peeker, peeker_loop) = Peeker::new(Arc::clone(&store), options.reader);
        background.spawn(intake_loop.run());
        background.spawn(writer_loop.run());
        background.spawn(peeker_loop.run());
        let changes = Arc::new(Changes::default());
        let (listener, heard) = (Arc::clone(&changes), Arc::clone(&store));
        background.spawn(async move { listener.run(heard).await });
        if !options.retention.is_never() {
            let retention = options.retention.clone();
            background.spawn(RetentionLoop::new(Arc::clone(&store), Arc::clone(&driver), retention).run());
        }

        let mut desks = BTreeMap::new();
        for setup in chains {
            let desk = open_desk(&background, setup, &store, &clock, &options);
            desks.insert(desk.chain.id().clone(), desk);
        }
        let mut servable = BTreeMap::new();
        for (submitter, setup) in lanes {
            let desk = desks.get(submitter.chain()).cloned();
            let desk = desk.ok_or_else(|| UnknownChain { submitter: submitter.clone() })?;
            servable.insert(submitter, Servable { setup, desk });
        }
        let keeper = Arc::new(LeaseKeeper::new(Arc::clone(&store), Arc::clone(&clock), terms));
        let tools = Tools { driver: Arc::clone(&driver), keeper, writer, peeker, faults, stuck };
        let dispatcher = Dispatcher::new(store, tools, crew.clone(), terms, options.dispatch, servable, drain_asked);
        crew.spawn(dispatcher.run());
        let view = Arc::new(EngineView { driver, changes, desks });
        Ok(Engine { intake, view, draining, stop, lanes_over })
    }

    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    pub fn view(&self) -> &Arc<EngineView> {
        &self.view
    }

    /// Waits until lanes have finished what is under way and all leases are given back; then everything stops. Whoever
    /// calls it has stopped taking requests before.
    pub async fn drain(mut self) {
        self.draining.publish(true);
        // Nothing is ever sent: it ends when the dispatcher and every lane have.
        let _ = self.lanes_over.recv().await;
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

    /// What this node knows of a chain; `None` until it has read a head.
    pub fn chain_status(&self, chain: &ChainId) -> Option<ChainStatus> {
        self.desks.get(chain)?.status()
    }

    /// How long ago the head was read.
    pub fn head_age(&self, status: &ChainStatus) -> Duration {
        self.driver.now().saturating_since(status.read_at)
    }

    /// Counts and balance as the chain has them now, or as they were last read.
    pub async fn account(&self, submitter: &SubmitterId) -> Option<AccountFacts> {
        self.desks.get(submitter.chain())?.shown_account(submitter).await
    }

    pub fn chain_load(&self, chain: &ChainId) -> Option<ChainLoad> {
        self.desks.get(chain).map(|desk| desk.load())
    }

    /// What makes a block final there, and how many confirmations are asked for.
    pub fn finality(&self, chain: &ChainId) -> Option<(Finality, u32)> {
        self.desks.get(chain).map(|desk| (desk.watched_by.finality, desk.watched_by.confirmations))
    }

    pub fn endpoints(&self, chain: &ChainId) -> Vec<EndpointStatus> {
        self.desks.get(chain).map(|desk| desk.chain.endpoints()).unwrap_or_default()
    }
}

fn open_desk(
    crew: &Crew,
    setup: ChainSetup,
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    options: &EngineOptions,
) -> Arc<ChainDesk> {
    let ChainSetup { chain, watcher, gas } = setup;
    let book = Arc::new(WatchBook::default());
    let (sender, sender_loop) = Sender::new(Arc::clone(&chain), Arc::clone(clock), options.sender);
    let (accounts, accounts_loop) = AccountReader::new(Arc::clone(&chain), options.reader);
    let driver = Arc::clone(crew.driver());
    let watched_by = watcher.clone();
    let (watcher, status) =
        Watcher::new(Arc::clone(&chain), Arc::clone(store), Arc::clone(&driver), Arc::clone(&book), watcher);
    crew.spawn(sender_loop.run());
    crew.spawn(accounts_loop.run());
    crew.spawn(watcher.run());
    Arc::new(ChainDesk::new(chain, book, sender, accounts, status, driver, (gas, watched_by)))
}

#[derive(Debug)]
struct DriverClock(Arc<dyn Driver>);

impl Clock for DriverClock {
    fn now(&self) -> gapless_domain::Tick {
        self.0.now()
    }
}
