//! A router in process, on the model store, with a time that only tests move.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what tests need and cannot get is a failure"
)]

pub(crate) mod reservations;
mod store_outage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use futures_util::future::BoxFuture;
use gapless_api::{AllowedHosts, ApiLimits, App, ChainInfo, Chains, ChangeHints, Drain, HeadInfo, router};
use gapless_chain::{EndpointHealth, EndpointStatus, UnreadableTx};
use gapless_domain::{
    AccountFacts, Address, Amount, Authorization, BlockLink, Bytes, ChainId, EvmCall, EvmRules, Fees, LeaseTerms,
    Limits, NodeText, Nonce, NoncePolicy, Outline, OwnerId, Protection, SignedPlan, SignedTx, SubmitterId, Tick, TxId,
    TxPlan, Work, keccak256,
};
use gapless_engine::{BatchLimits, Clock, Driver, Intake, TimeOrderedIds};
use gapless_store::conformance::fixtures;
use gapless_store::{ManualClock, Model, NewSubmitter, Store};
use gapless_wire::FinalityName;
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt;

pub(crate) use store_outage::StoreOutage;

pub(crate) const CHAIN: &str = "eip155:31337";

/// Hints that fire on request, for callers who listened before.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    bells: Mutex<HashMap<SubmitterId, Arc<Notify>>>,
    /// Notified whenever a caller begins to listen.
    pub(crate) listened: Notify,
    /// Number of calls that began to listen.
    pub(crate) listeners: AtomicUsize,
}

impl Bell {
    fn of(&self, submitter: &SubmitterId) -> Arc<Notify> {
        Arc::clone(self.bells.lock().unwrap().entry(submitter.clone()).or_default())
    }

    pub(crate) fn ring(&self, submitter: &SubmitterId) {
        self.of(submitter).notify_waiters();
    }
}

impl ChangeHints for Bell {
    fn changed(&self, submitter: &SubmitterId, _id: TxId, _version: u32) -> BoxFuture<'static, ()> {
        self.lane_changed(submitter)
    }

    fn lane_changed(&self, submitter: &SubmitterId) -> BoxFuture<'static, ()> {
        let listening = self.of(submitter).notified_owned();
        self.listened.notify_one();
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Box::pin(listening)
    }
}

/// A chain whose newest block and other data the test chooses.
#[derive(Clone, Debug)]
pub(crate) struct OneChain {
    pub(crate) head: Option<u64>,
    pub(crate) trouble: Option<Protection>,
    pub(crate) account: Option<AccountFacts>,
    /// Nonce policy of every lane; `None` if the lanes are not in the config.
    pub(crate) policy: Option<NoncePolicy>,
}

/// Bytes that this chain reads as a transaction of the account at the nonce, with a command in the data: `authorizes
/// ADDRESS`, `pays MAX_FEE TIP GAS_LIMIT`, or `gives VALUE ADDRESS`.
pub(crate) fn signed_by(account: &SubmitterId, nonce: u64, what: &str) -> String {
    Bytes::from(format!("{account}/{nonce}/{what}").into_bytes()).to_string()
}

fn read(chain: &ChainId, raw: &Bytes) -> Option<TxPlan> {
    let text = std::str::from_utf8(raw).ok()?;
    let (account, rest) = text.split_once('/')?;
    let (nonce, what) = rest.split_once('/')?;
    let submitter: SubmitterId = account.parse().ok()?;
    let authorizations = what.strip_prefix("authorizes ").map(|address| authorization(address.parse().unwrap()));
    let mut call = EvmCall { authorizations: authorizations.into_iter().collect(), ..EvmCall::default() };
    if let Some((value, to)) = what.strip_prefix("gives ").and_then(|what| what.split_once(' ')) {
        call = EvmCall { to: Some(to.parse().ok()?), value: value.parse().ok()?, ..call };
    }
    let (mut fees, mut gas_limit) = (Fees::Legacy { gas_price: 7 }, 21_000);
    if let Some([max_fee, tip, gas]) =
        what.strip_prefix("pays ").map(|what| what.split(' ').collect::<Vec<_>>()).as_deref()
    {
        fees = Fees::Eip1559 { max_fee: max_fee.parse().ok()?, max_priority_fee: tip.parse().ok()? };
        gas_limit = gas.parse().ok()?;
    }
    let nonce = Nonce::new(nonce.parse().ok()?).ok()?;
    (submitter.chain() == chain).then_some(TxPlan {
        submitter,
        nonce,
        action: call.into(),
        work: Work::new(gas_limit),
        fees,
    })
}

/// An authorization that this chain attributes to this account.
pub(crate) fn authorization(authority: Address) -> Authorization {
    let one = gapless_domain::U256::from(1);
    Authorization { chain_id: one, address: authority, nonce: 0, y_parity: false, r: one, s: one }
}

impl Default for OneChain {
    fn default() -> Self {
        let account = AccountFacts {
            head: 120,
            latest: fixtures::nonce(5),
            pending: fixtures::nonce(9),
            finalized: Some(fixtures::nonce(3)),
            final_block: Some(fixtures::block(119)),
            lags: false,
            balance: Amount::from(1_000_000_000_000_000_000_u64),
            narrow: false,
        };
        let policy = NoncePolicy { max_in_flight: 16, ..NoncePolicy::default() };
        OneChain { head: Some(120), trouble: None, account: Some(account), policy: Some(policy) }
    }
}

impl Chains for OneChain {
    fn all(&self) -> Vec<ChainInfo> {
        let good = EndpointStatus {
            name: "first:8545".to_owned(),
            weight: 2,
            health: EndpointHealth::Good,
            head: self.head,
            head_age: Some(Duration::from_millis(1500)),
            lag: Some(0),
            errors_permille: Some(4),
            latency: Some(Duration::from_millis(30)),
            in_flight: 7,
            last_error: None,
        };
        let lagging = EndpointStatus {
            name: "second:8545".to_owned(),
            health: EndpointHealth::Lagging,
            head: self.head.map(|number| number - 2),
            lag: Some(2),
            last_error: Some("it is behind".to_owned()),
            ..good.clone()
        };
        let new = EndpointStatus {
            name: "third:8545".to_owned(),
            weight: 1,
            health: EndpointHealth::Unchecked,
            head: None,
            head_age: None,
            lag: None,
            errors_permille: None,
            latency: None,
            in_flight: 0,
            last_error: None,
        };
        vec![ChainInfo {
            id: CHAIN.parse().unwrap(),
            head: self.head(&CHAIN.parse().unwrap()),
            final_block: self.head.map(|number| fixtures::block(number - 1)),
            finality: FinalityName::Depth,
            required_confirmations: 2,
            block_time: Some(Duration::from_secs(12)),
            trouble: self.trouble.clone(),
            open_hashes: 11,
            lanes: 3,
            endpoints: vec![good, lagging, new],
        }]
    }

    fn one(&self, chain: &ChainId) -> Option<ChainInfo> {
        self.all().into_iter().find(|info| info.id == *chain)
    }

    fn head(&self, _chain: &ChainId) -> Option<HeadInfo> {
        self.head.map(|number| HeadInfo { block: fixtures::block(number), age: Duration::from_millis(5) })
    }

    fn trouble(&self, _chain: &ChainId) -> Option<Protection> {
        self.trouble.clone()
    }

    fn account(&self, _submitter: &SubmitterId) -> BoxFuture<'_, Option<AccountFacts>> {
        Box::pin(std::future::ready(self.account))
    }

    fn read_signed(&self, chain: &ChainId, raw: &Bytes) -> Option<Result<SignedPlan, UnreadableTx>> {
        let plan = read(chain, raw).ok_or_else(|| UnreadableTx(NodeText::new("it is none")));
        let signed = SignedTx { hash: keccak256(raw), raw: raw.clone() };
        self.one(chain).map(|_| plan.map(|plan| SignedPlan { plan, signed }))
    }

    fn outline(&self, chain: &ChainId, raw: &Bytes) -> Option<Outline> {
        read(chain, raw).map(|plan| Outline::of(&plan, &EvmRules))
    }

    fn authority(&self, authorization: &Authorization) -> Option<Address> {
        Some(authorization.address)
    }

    fn nonce_policy(&self, _submitter: &SubmitterId) -> Option<NoncePolicy> {
        self.policy.clone()
    }
}

/// A clock that does not move until the test ends all deadlines, or those of one length.
#[derive(Debug, Default)]
pub(crate) struct StoppedTime {
    over: Drain,
    spans: Mutex<HashMap<Duration, Arc<Notify>>>,
}

impl StoppedTime {
    pub(crate) fn all_over(&self) {
        self.over.begin();
    }

    /// Ends the running sleeps of this length.
    pub(crate) fn pass(&self, span: Duration) {
        self.of(span).notify_waiters();
    }

    fn of(&self, span: Duration) -> Arc<Notify> {
        Arc::clone(self.spans.lock().unwrap().entry(span).or_default())
    }
}

impl Clock for StoppedTime {
    fn now(&self) -> Tick {
        Tick::since_start(Duration::ZERO)
    }
}

impl Driver for StoppedTime {
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        let span = at.elapsed();
        let over = self.over.clone();
        let passed = self.of(span).notified_owned();
        Box::pin(async move {
            tokio::select! {
                () = over.begun() => {}
                () = passed => {}
            }
        })
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {
        unreachable!("routes spawn no tasks");
    }
}

/// A router with all its parts.
pub(crate) struct House {
    pub(crate) router: Router,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) time: Arc<StoppedTime>,
    pub(crate) drain: Drain,
    pub(crate) app: App,
}

/// The submitter of every fixture, with the alias `treasury`.
pub(crate) fn treasury() -> SubmitterId {
    fixtures::submitter(0)
}

pub(crate) fn model() -> Arc<dyn Store> {
    let clock = ManualClock::starting_at(gapless_domain::Timestamp::from_micros(1_767_225_600_000_000));
    Arc::new(Model::new(LeaseTerms::default(), Arc::new(clock)).node(OwnerId::new("test", 1)))
}

pub(crate) async fn house() -> House {
    house_with(model(), ApiLimits::default()).await
}

pub(crate) async fn house_limited(limits: ApiLimits) -> House {
    house_with(model(), limits).await
}

pub(crate) async fn house_with(store: Arc<dyn Store>, limits: ApiLimits) -> House {
    let known = NewSubmitter { id: treasury(), alias: Some("treasury".to_owned()) };
    // A failing store may refuse this; its test does not need it.
    let _ = store.register_submitters(&[known]).await;
    let (intake, intake_loop) = Intake::new(store.clone(), Arc::new(TimeOrderedIds), BatchLimits::default());
    #[expect(clippy::disallowed_methods, reason = "the test drives intake")]
    tokio::spawn(intake_loop.run());
    let bell = Arc::new(Bell::default());
    let time = Arc::new(StoppedTime::default());
    let drain = Drain::default();
    let app = App {
        views: store.clone(),
        intents: store.clone(),
        heads: store.clone(),
        upkeep: store.clone(),
        intake,
        ids: Arc::new(TimeOrderedIds),
        changes: Arc::clone(&bell) as Arc<dyn ChangeHints>,
        chains: Arc::new(OneChain::default()),
        driver: Arc::clone(&time) as Arc<dyn Driver>,
        metrics: Arc::new(|| "# nothing\n".to_owned()),
        drain: drain.clone(),
        hosts: AllowedHosts::Loopback,
        intent_limits: Limits::default(),
        limits,
    };
    House { router: router(app.clone()), store, bell, time, drain, app }
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The pointers of a problem, after checking its form.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Vec<String> {
        assert_eq!((self.status.as_u16(), self.code().as_str()), (status, code), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let json = self.json();
        assert_eq!(json["status"], status);
        assert_eq!(json["type"], format!("urn:gapless:problem:{code}"));
        assert!(json["title"].is_string());
        let errors = json["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
    }
}

impl House {
    /// This fixture on another chain.
    pub(crate) fn on(&self, chain: OneChain) -> House {
        let app = App { chains: Arc::new(chain), ..self.app.clone() };
        House {
            router: router(app.clone()),
            store: Arc::clone(&self.store),
            bell: Arc::clone(&self.bell),
            time: Arc::clone(&self.time),
            drain: self.drain.clone(),
            app,
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 64 << 20).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send(Request::get(target).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Answer {
        let request = Request::post(target).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// Number of intents in the store.
    pub(crate) async fn stored(&self) -> usize {
        let filter = gapless_store::TxFilter { limit: 10_000, ..Default::default() };
        self.store.list(&filter).await.unwrap().len()
    }

    pub(crate) async fn accept(&self, request_id: &str) -> TxId {
        let answer = self.post("/api/v1/tx", &request(request_id)).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.json()["txId"].as_str().unwrap().parse().unwrap()
    }
}

/// The JSON of a block of the fixtures' chain.
pub(crate) fn block(number: u64) -> Value {
    shown(fixtures::link(number))
}

pub(crate) fn shown(link: BlockLink) -> Value {
    let BlockLink { block, parent_hash } = link;
    let (hash, parent) = (block.hash.to_string(), parent_hash.to_string());
    serde_json::json!({"blockNumber": block.number, "blockHash": hash, "parentHash": parent})
}

/// A valid request.
pub(crate) fn request(request_id: &str) -> String {
    request_with(request_id, "1")
}

pub(crate) fn request_with(request_id: &str, value: &str) -> String {
    let to = "0x1111111111111111111111111111111111111111";
    format!(
        r#"{{"submitter":"{}","requestId":"{request_id}","payload":{{"to":"{to}","value":"{value}"}}}}"#,
        treasury()
    )
}
