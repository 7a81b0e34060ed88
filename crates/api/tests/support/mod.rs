//! A router in process, on the model store, with a time that only tests move.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what tests need and cannot get is a failure"
)]

mod unplugged;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use futures_util::future::BoxFuture;
use gapless_api::{
    AllowedHosts, ApiLimits, App, ChainInfo, Chains, Changes, Drain, EndpointInfo, HeadInfo, Timer, router,
};
use gapless_domain::{Amount, B256, ChainId, LeaseTerms, Limits, OwnerId, SubmitterId, Tick, TxId};
use gapless_engine::{BatchLimits, Clock, Intake, TimeOrderedIds};
use gapless_store::conformance::fixtures;
use gapless_store::{ManualClock, Model, NewSubmitter, Store};
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt;

pub(crate) use unplugged::Unplugged;

pub(crate) const CHAIN: &str = "eip155:31337";

/// Fires when a test says so, for whoever listened before.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    bells: Mutex<HashMap<SubmitterId, Arc<Notify>>>,
    /// Rung whenever somebody begins to listen.
    pub(crate) listened: Notify,
    /// How often somebody began to.
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

impl Changes for Bell {
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

#[derive(Debug)]
pub(crate) struct OneChain(pub(crate) Option<u64>);

impl Chains for OneChain {
    fn all(&self) -> Vec<ChainInfo> {
        let head = self.0.map(|number| HeadInfo { number, hash: B256::ZERO, age: Duration::from_millis(5) });
        let endpoint = |name: &str, lag| EndpointInfo {
            name: name.to_owned(),
            healthy: lag == 0,
            head_number: self.0.map(|number| number - lag),
        };
        let endpoints = vec![endpoint("first", 0), endpoint("second", 2)];
        vec![ChainInfo { id: CHAIN.parse().unwrap(), head, final_number: self.0.map(|n| n - 1), endpoints }]
    }

    fn head_number(&self, _chain: &ChainId) -> Option<u64> {
        self.0
    }

    fn balance(&self, _submitter: &SubmitterId) -> Option<Amount> {
        Some(Amount::from(1_000_000_000_000_000_000_u64))
    }
}

/// Time that does not pass until it is told that all deadlines are over, or those of one length.
#[derive(Debug, Default)]
pub(crate) struct StoppedTime {
    over: Drain,
    spans: Mutex<HashMap<Duration, Arc<Notify>>>,
}

impl StoppedTime {
    pub(crate) fn all_over(&self) {
        self.over.begin();
    }

    /// Ends the sleeps of this length that have begun.
    pub(crate) fn pass(&self, span: Duration) {
        self.of(span).notify_waiters();
    }

    fn of(&self, span: Duration) -> Arc<Notify> {
        Arc::clone(self.spans.lock().unwrap().entry(span).or_default())
    }
}

impl Timer for StoppedTime {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let over = self.over.clone();
        let passed = self.of(span).notified_owned();
        Box::pin(async move {
            tokio::select! {
                () = over.begun() => {}
                () = passed => {}
            }
        })
    }
}

#[derive(Debug)]
pub(crate) struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Tick {
        Tick::since_start(Duration::ZERO)
    }
}

/// A router and everything behind it.
pub(crate) struct House {
    pub(crate) router: Router,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) time: Arc<StoppedTime>,
    pub(crate) drain: Drain,
    pub(crate) app: App,
}

/// The submitter that every house knows, also as `treasury`.
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
    // A store that is made to fail may refuse this; its test does not need it.
    let _ = store.register_submitters(&[known]).await;
    let (intake, intake_loop) = Intake::new(Arc::clone(&store), Arc::new(TimeOrderedIds), BatchLimits::default());
    #[expect(clippy::disallowed_methods, reason = "the test drives intake")]
    tokio::spawn(intake_loop.run());
    let bell = Arc::new(Bell::default());
    let time = Arc::new(StoppedTime::default());
    let drain = Drain::default();
    let app = App {
        store: Arc::clone(&store),
        intake,
        changes: Arc::clone(&bell) as Arc<dyn Changes>,
        chains: Arc::new(OneChain(Some(120))),
        timer: Arc::clone(&time) as Arc<dyn Timer>,
        clock: Arc::new(StoppedClock),
        metrics: Arc::new(|| "# nothing\n".to_owned()),
        drain: drain.clone(),
        hosts: AllowedHosts::Loopback,
        intent_limits: Limits::default(),
        limits,
    };
    House { router: router(app.clone()), store, bell, time, drain, app }
}

/// An answer that was read to its end.
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

    /// The pointers of a problem, after checking that it is one in every respect.
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

    /// How many intents the store holds.
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

/// A request that is in order.
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
