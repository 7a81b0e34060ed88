//! One node, from its start to the end of its drain.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use gapless_api::{AllowedHosts, App, Drain, router};
use gapless_domain::{LaneLimits, LaneSetup, OwnerId};
use gapless_engine::{
    ChainSetup, DomainLanes, Driver, Engine, EngineParts, Ids, ServedLane, StuckPolicy, TimeOrderedIds, TokioDriver,
    UnknownChain, WaitForOperator,
};
use gapless_store::NewSubmitter;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::accounts::SubmitterAccount;
use super::faults::fault_points;
use super::ports::EnginePorts;
use super::stuck_webhook::StuckWebhook;
use super::telemetry::Metrics;
use super::{ComposeError, StopSignals, chains, open_store, unique};
use crate::config::{Config, WebhookConfig};

/// The time for which a draining node still accepts calls. `/readyz` answers 503 in that time, so that a load balancer
/// sees it before connections are refused.
const UNREADY_FIRST: Duration = Duration::from_millis(250);
/// The drain waits for open calls for this fraction of `node.drain_timeout` before it releases the leases. A slower
/// call is still answered, but the answer may be a 503.
const CALLS_PART: u32 = 2;

/// The parts that a node is built from.
pub(crate) struct NodeParts {
    pub(crate) config: Config,
    pub(crate) accounts: Vec<SubmitterAccount>,
    pub(crate) listener: TcpListener,
    pub(crate) metrics: Metrics,
}

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    engine: Engine,
    driver: Arc<TokioDriver>,
    listener: TcpListener,
    router: Router,
    drain: Drain,
    drain_timeout: Duration,
    metrics: Metrics,
}

/// Binds the address before anything else is opened, so that a second start by mistake changes nothing.
pub(crate) async fn listen(at: SocketAddr) -> Result<TcpListener, ComposeError> {
    TcpListener::bind(at).await.map_err(|source| ComposeError::Listen { at, source })
}

impl Node {
    pub(crate) async fn start(parts: NodeParts) -> Result<Self, ComposeError> {
        let NodeParts { config, accounts, listener, metrics } = parts;
        let owner = OwnerId::new(&config.node.id.clone().unwrap_or_else(host_name), unique());
        tracing::info!(node_id = %owner, store = %config.store.url, submitters = accounts.len(), "node starting");
        let store = open_store(&config, owner, config.store.migrate).await?;
        let known =
            accounts.iter().map(|account| NewSubmitter { id: account.id.clone(), alias: account.alias.clone() });
        store.register_submitters(&known.collect::<Vec<_>>()).await?;
        let chains = config.chains.iter().map(|chain| chains::chain(chain, &config.classify));
        let chains = chains.collect::<Result<Vec<_>, _>>()?;
        let known = chains.iter().map(|setup| Arc::clone(&setup.chain)).collect();
        let policies = accounts.iter().map(|account| (account.id.clone(), account.policy.nonce.clone())).collect();
        let ids: Arc<dyn Ids> = Arc::new(TimeOrderedIds);
        let driver = Arc::new(TokioDriver::start());
        let engine = Engine::start(EngineParts {
            store: Arc::clone(&store),
            driver: Arc::clone(&driver) as Arc<dyn Driver>,
            ids: Arc::clone(&ids),
            faults: fault_points()?,
            stuck: stuck_policy(&config.stuck_webhook)?,
            lanes: lanes(&accounts, &chains, &config.lane)?,
            chains,
            lane_factory: Arc::new(DomainLanes),
            terms: config.lease,
            options: config.engine.clone(),
        })?;
        let ports = Arc::new(EnginePorts { view: Arc::clone(engine.view()), chains: known, lanes: policies });
        let drain = Drain::default();
        let shown = metrics.clone();
        let router = router(App {
            views: store.clone(),
            intents: store.clone(),
            heads: store.clone(),
            upkeep: store,
            intake: engine.intake().clone(),
            ids,
            changes: Arc::clone(&ports) as Arc<dyn gapless_api::ChangeHints>,
            chains: ports,
            driver: Arc::clone(&driver) as Arc<dyn Driver>,
            metrics: Arc::new(move || shown.text()),
            drain: drain.clone(),
            // There are no API keys yet, so only the Host header tells a caller from a web page in a browser.
            hosts: AllowedHosts::Loopback,
            intent_limits: config.limits,
            limits: config.calls,
        });
        Ok(Node { engine, driver, listener, router, drain, drain_timeout: config.node.drain_timeout, metrics })
    }

    /// Serves until a stop signal comes, and then drains: open calls are answered, lanes finish their work in flight,
    /// and the leases are released (N21). A second signal ends the drain at once.
    pub(crate) async fn run(self, stop: &mut StopSignals) -> Result<(), ComposeError> {
        let Node { engine, driver, listener, router, drain, drain_timeout, metrics } = self;
        let (refuse_calls, closing) = oneshot::channel::<()>();
        let listener = listener.tap_io(|stream| {
            // Answers are small, so there is no gain in waiting for more bytes.
            let _ = stream.set_nodelay(true);
        });
        let serving = axum::serve(listener, router).with_graceful_shutdown(closing.map(drop));
        let mut serving = Box::pin(serving.into_future().fuse());
        let upkeep = metrics.keep_up(Arc::clone(&driver) as Arc<dyn Driver>);
        tokio::select! {
            ended = &mut serving => {
                let error = ended.err().unwrap_or_else(|| std::io::Error::other("without a stop signal"));
                return Err(ComposeError::Served(error));
            }
            () = upkeep => {}
            () = stop.received() => {}
        }
        tracing::info!("drain started");
        drain.begin();
        let after = |span| driver.sleep(span);
        let mut deadline = after(drain_timeout);
        // A fused future that has ended never ends again, so each step first checks `is_terminated`.
        let release_leases = async {
            tokio::select! {
                _ = &mut serving => {}
                () = after(UNREADY_FIRST) => {}
            }
            let _ = refuse_calls.send(());
            if !serving.is_terminated() {
                tokio::select! {
                    _ = &mut serving => {}
                    () = after(drain_timeout / CALLS_PART) => {
                        tracing::warn!("calls are still open; the leases are released without waiting for them");
                    }
                }
            }
            let mut drained = Box::pin(engine.drain());
            tokio::select! {
                biased;
                () = &mut drained => {}
                _ = &mut serving, if !serving.is_terminated() => drained.await,
            }
        };
        tokio::select! {
            () = release_leases => {}
            () = &mut deadline => return Err(ComposeError::DrainTimeout),
            () = stop.received() => return Err(ComposeError::StoppedTwice),
        }
        if !serving.is_terminated() {
            tokio::select! {
                _ = &mut serving => {}
                () = &mut deadline => tracing::warn!("open calls are aborted at the end of node.drain_timeout"),
                () = stop.received() => return Err(ComposeError::StoppedTwice),
            }
        }
        tracing::info!("drain finished");
        Ok(())
    }
}

/// The setup of each lane, with the rules of its chain. Neighbouring submitters with the same policy share one setup,
/// because there may be ten thousand.
fn lanes(
    accounts: &[SubmitterAccount],
    chains: &[ChainSetup],
    limits: &LaneLimits,
) -> Result<Vec<ServedLane>, UnknownChain> {
    let mut last: Option<Arc<LaneSetup>> = None;
    let mut setup_of = |account: &SubmitterAccount| {
        let chain = chains.iter().find(|setup| setup.chain.id() == account.id.chain());
        let rules = chain.ok_or_else(|| UnknownChain { submitter: account.id.clone() })?.chain.rules();
        let shared = last.take().filter(|setup| setup.policy == account.policy && setup.rules == rules);
        let new = || Arc::new(LaneSetup { policy: account.policy.clone(), limits: limits.clone(), rules });
        let setup = shared.unwrap_or_else(new);
        last = Some(Arc::clone(&setup));
        Ok(setup)
    };
    let served = |account: &SubmitterAccount| {
        let (submitter, signer) = (account.id.clone(), Arc::clone(&account.signer));
        Ok(ServedLane { submitter, setup: setup_of(account)?, signer })
    };
    accounts.iter().map(served).collect()
}

/// The policy for stuck intents: the webhook of the config, or waiting for an operator.
fn stuck_policy(webhook: &WebhookConfig) -> Result<Arc<dyn StuckPolicy>, ComposeError> {
    match &webhook.url {
        Some(url) => Ok(Arc::new(StuckWebhook::new(url.clone(), webhook.timeout)?)),
        None => Ok(Arc::new(WaitForOperator)),
    }
}

fn host_name() -> String {
    let kernel_name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel_name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".to_owned() } else { name.to_owned() }
}
