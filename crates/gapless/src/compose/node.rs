//! One node: from its start to the end of its drain.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use gapless_api::{AllowedHosts, App, Drain, SystemTimer, router};
use gapless_domain::{LaneLimits, LaneSetup, OwnerId, SubmitterId};
use gapless_engine::{
    Clock, Driver, Engine, EngineParts, Ids, StuckPolicy, TimeOrderedIds, TokioDriver, WaitForOperator,
};
use gapless_store::NewSubmitter;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::accounts::Account;
use super::faults::fault_points;
use super::ports::EnginePorts;
use super::stuck_webhook::StuckWebhook;
use super::telemetry::Metrics;
use super::{ComposeError, Stop, chains, open_store, unique};
use crate::config::{Config, WebhookConfig};

/// How long a node that drains still takes calls: `/readyz` says 503 by then, and a balancer has time to see it before it
/// finds the door closed.
const UNREADY_FIRST: Duration = Duration::from_millis(250);
/// Calls that are under way have this part of the drain's time before leases are given back. Those that are slower cannot
/// hold the leases: they are still answered, but may be told to try elsewhere.
const CALLS_PART: u32 = 2;

/// What a node is made of.
pub(crate) struct NodeParts {
    pub(crate) config: Config,
    pub(crate) accounts: Vec<Account>,
    pub(crate) listener: TcpListener,
    pub(crate) metrics: Metrics,
}

/// A node that runs.
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

/// Takes the address before anything else is touched, so that a second start by mistake does nothing.
pub(crate) async fn listen(at: SocketAddr) -> Result<TcpListener, ComposeError> {
    TcpListener::bind(at).await.map_err(|source| ComposeError::Listen { at, source })
}

impl Node {
    pub(crate) async fn start(parts: NodeParts) -> Result<Self, ComposeError> {
        let NodeParts { config, accounts, listener, metrics } = parts;
        let owner = OwnerId::new(&config.node.id.clone().unwrap_or_else(host_name), unique());
        tracing::info!(node_id = %owner, store = %config.store.url, submitters = accounts.len(), "starting");
        let store = open_store(&config, owner, config.store.migrate).await?;
        let known =
            accounts.iter().map(|account| NewSubmitter { id: account.id.clone(), alias: account.alias.clone() });
        store.register_submitters(&known.collect::<Vec<_>>()).await?;
        let chains = config.chains.iter().map(|chain| chains::chain(chain, &config.classify, &accounts));
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
            chains,
            lanes: lanes(&accounts, &config.lane),
            terms: config.lease,
            options: config.engine.clone(),
        })?;
        let ports = Arc::new(EnginePorts { view: Arc::clone(engine.view()), chains: known, lanes: policies });
        let drain = Drain::default();
        let shown = metrics.clone();
        let router = router(App {
            views: store.clone(),
            intents: store.clone(),
            heads: store,
            intake: engine.intake().clone(),
            ids,
            changes: Arc::clone(&ports) as Arc<dyn gapless_api::Changes>,
            chains: ports,
            timer: Arc::new(SystemTimer),
            clock: Arc::clone(&driver) as Arc<dyn Clock>,
            metrics: Arc::new(move || shown.text()),
            drain: drain.clone(),
            // There are no keys yet, so nothing else tells a caller from a page in a browser.
            hosts: AllowedHosts::Loopback,
            intent_limits: config.limits,
            limits: config.calls,
        });
        Ok(Node { engine, driver, listener, router, drain, drain_timeout: config.node.drain_timeout, metrics })
    }

    /// Serves until it is asked to stop, then drains: calls under way are answered, lanes finish what they are at, leases
    /// are given back (N21). A second signal ends all of it at once.
    pub(crate) async fn run(self, stop: &mut Stop) -> Result<(), ComposeError> {
        let Node { engine, driver, listener, router, drain, drain_timeout, metrics } = self;
        let (no_more_calls, closing) = oneshot::channel::<()>();
        let listener = listener.tap_io(|stream| {
            // Answers are small; what waits for more of them waits for nothing.
            let _ = stream.set_nodelay(true);
        });
        let serving = axum::serve(listener, router).with_graceful_shutdown(closing.map(drop));
        let mut serving = Box::pin(serving.into_future().fuse());
        let upkeep = metrics.keep_up(Arc::clone(&driver) as Arc<dyn Driver>);
        tokio::select! {
            ended = &mut serving => {
                let error = ended.err().unwrap_or_else(|| std::io::Error::other("nobody asked it to"));
                return Err(ComposeError::Served(error));
            }
            () = upkeep => {}
            () = stop.asked() => {}
        }
        tracing::info!("draining");
        drain.begin();
        let after = |span| driver.sleep_until(driver.now().saturating_add(span));
        let mut deadline = after(drain_timeout);
        // A future that is fused and over never ends again, so each step asks first whether there is still something to serve.
        let leases_back = async {
            tokio::select! {
                _ = &mut serving => {}
                () = after(UNREADY_FIRST) => {}
            }
            let _ = no_more_calls.send(());
            if !serving.is_terminated() {
                tokio::select! {
                    _ = &mut serving => {}
                    () = after(drain_timeout / CALLS_PART) => tracing::warn!("some calls are slow; leases do not wait for them"),
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
            () = leases_back => {}
            () = &mut deadline => return Err(ComposeError::DrainTimeout),
            () = stop.asked() => return Err(ComposeError::StoppedTwice),
        }
        if !serving.is_terminated() {
            tokio::select! {
                _ = &mut serving => {}
                () = &mut deadline => tracing::warn!("calls that did not end within node.drain_timeout are cut"),
                () = stop.asked() => return Err(ComposeError::StoppedTwice),
            }
        }
        tracing::info!("drained");
        Ok(())
    }
}

/// Neighbours in the config that are set up alike share what they are set up by: there may be ten thousand of them.
fn lanes(accounts: &[Account], limits: &LaneLimits) -> Vec<(SubmitterId, Arc<LaneSetup>)> {
    let mut last: Option<Arc<LaneSetup>> = None;
    let mut setup_of = |account: &Account| {
        let shared = last.take().filter(|setup| setup.policy == account.policy);
        let setup =
            shared.unwrap_or_else(|| Arc::new(LaneSetup { policy: account.policy.clone(), limits: limits.clone() }));
        last = Some(Arc::clone(&setup));
        setup
    };
    accounts.iter().map(|account| (account.id.clone(), setup_of(account))).collect()
}

/// Who decides about what is stuck: whom the config names, or nobody.
fn stuck_policy(webhook: &WebhookConfig) -> Result<Arc<dyn StuckPolicy>, ComposeError> {
    match &webhook.url {
        Some(url) => Ok(Arc::new(StuckWebhook::new(url.clone(), webhook.timeout)?)),
        None => Ok(Arc::new(WaitForOperator)),
    }
}

fn host_name() -> String {
    let of_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = of_kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".to_owned() } else { name.to_owned() }
}
