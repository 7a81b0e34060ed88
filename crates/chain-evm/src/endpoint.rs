//! One endpoint: its chain id, its health, its head and its capabilities.
//!
//! An endpoint is used only after it returned the right chain id. The check is repeated after each outage and from time
//! to time, because another node may answer behind the URL.

mod batch;
mod forks;
mod health;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use gapless_chain::{Classified, EndpointHealth, EndpointStatus, Header, Reason, Source, Verdict};
use gapless_domain::ChainId;
use gapless_secret::SecretUrl;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) use state::{Capabilities, Connectivity, ReportedHead, SharedState};

use crate::classify::{Classifier, Family, Method, NodeFailure, family_of};
use crate::rpc::{Exchange, Reply, RpcCall, RpcFailure, Transport};
use crate::{jitter, meter};
use batch::{after_refusal, chunks};
use health::FailureKind;
use state::EndpointState;

/// The method of gas estimates.
pub(crate) const ESTIMATE: &str = "eth_estimateGas";
/// Batches of one request that are in flight at once.
const MAX_PARALLEL_BATCHES: usize = 8;
/// A request that got its turn with less than this part of its time left is not sent. It would only be cut off.
const MIN_TIME_PART: u32 = 10;
/// A wrong chain id is a configuration error. The endpoint is checked again after this time.
const WRONG_CHAIN_PAUSE: Duration = Duration::from_secs(60);
/// The pause after a rate limit without `Retry-After`.
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(1);
/// The pause after traces that timed out or met a limit.
const TRACES_PAUSE: Duration = Duration::from_secs(5 * 60);
/// A final refusal waits this long for a silent endpoint. A longer wait could block a lane for ever, because the
/// endpoint may never come back.
const ANSWER_AWAITED_FOR: Duration = Duration::from_secs(10 * 60);

/// An endpoint at one moment, for the choice among several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointSnapshot {
    pub(crate) connectivity: Connectivity,
    pub(crate) weight: u32,
    /// No pause forbids a request now.
    pub(crate) is_retry_due: bool,
    pub(crate) is_check_due: bool,
    pub(crate) is_rate_limited: bool,
    /// The endpoint asked for a pause (`Retry-After`) that has not ended.
    pub(crate) has_retry_after: bool,
    pub(crate) has_last_request_failed: bool,
    pub(crate) is_flipping: bool,
    pub(crate) head: Option<ReportedHead>,
}

/// The classified result of one call.
pub(crate) type CallResult = Result<Box<RawValue>, Classified>;

/// The settings that all endpoints of a chain share.
pub(crate) struct EndpointSettings {
    pub(crate) chain: ChainId,
    pub(crate) chain_number: u64,
    pub(crate) timeout: Duration,
    pub(crate) batch_max: usize,
    pub(crate) blocks_max: usize,
    pub(crate) classifier: Classifier,
}

pub(crate) struct Endpoint {
    settings: Arc<EndpointSettings>,
    name: String,
    weight: u32,
    url: SecretUrl,
    transport: Transport,
    max_in_flight: usize,
    /// One permit for each request that may be in flight.
    in_flight: Semaphore,
    /// Held by the running check, so that an open circuit is tried by one request at a time.
    check: tokio::sync::Mutex<()>,
    state: Arc<SharedState>,
}

pub(crate) struct EndpointParts {
    /// Host and port, with a number where two endpoints have the same.
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) url: SecretUrl,
    pub(crate) transport: Transport,
    pub(crate) max_in_flight: usize,
    pub(crate) state: Arc<SharedState>,
}

/// The results of several calls.
#[derive(Default)]
struct CallResults {
    results: Vec<CallResult>,
    /// The last request got no answer.
    is_unanswered: bool,
    /// The last request timed out.
    is_timed_out: bool,
}

/// The consequence of a request for the health of its endpoint. The worst one of a batch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HealthSignal {
    /// The call was not sent, or was optional.
    None,
    Alive,
    RateLimited {
        pause: Duration,
        /// The endpoint named the time itself.
        is_requested: bool,
    },
    Failed,
    Unreachable,
}

#[expect(clippy::disallowed_methods, reason = "the adapter owns the pauses between its requests")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Endpoint {
    pub(crate) fn new(settings: Arc<EndpointSettings>, parts: EndpointParts) -> Self {
        let EndpointParts { name, weight, url, transport, max_in_flight, state } = parts;
        let (check, in_flight) = (tokio::sync::Mutex::default(), Semaphore::new(max_in_flight));
        Endpoint { settings, name, weight, url, transport, max_in_flight, in_flight, check, state }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn chain(&self) -> &ChainId {
        &self.settings.chain
    }

    /// The client family, by the last check.
    pub(crate) fn family(&self) -> Option<Family> {
        self.state.lock().family
    }

    pub(crate) fn connectivity(&self) -> Connectivity {
        self.state.lock().connectivity
    }

    pub(crate) fn view(&self) -> EndpointSnapshot {
        let (state, now) = (self.state.lock(), now());
        EndpointSnapshot {
            connectivity: state.connectivity,
            weight: self.weight,
            is_retry_due: state.health.is_retry_due(now),
            is_check_due: state.is_check_due(),
            is_rate_limited: state.health.is_rate_limited(now),
            has_retry_after: state.health.has_retry_after(now),
            has_last_request_failed: state.health.has_last_request_failed(),
            is_flipping: state.is_flipping(),
            head: state.head,
        }
    }

    /// The endpoint is not known to be on another chain, and has not been silent for too long.
    pub(crate) fn may_still_answer(&self) -> bool {
        let state = self.state.lock();
        let is_awaited = state.silent_since.is_none_or(|since| since.elapsed() < ANSWER_AWAITED_FOR);
        state.connectivity != Connectivity::WrongChain && is_awaited
    }

    /// Notes the header of the endpoint's newest block.
    pub(crate) fn note_head(&self, header: &Header) {
        self.state.lock().note_head(header.block.number, Some(header.block.hash));
        self.note_headers(std::slice::from_ref(header));
    }

    /// Notes headers that the endpoint returned by height.
    pub(crate) fn note_headers(&self, headers: &[Header]) {
        let mut state = self.state.lock();
        for header in headers {
            if state.note_header(header, jitter::random()) {
                state.last_error = Some("flips between two forks".to_owned());
                meter::endpoint_flipping(&self.settings.chain, self.name(), header.block.number);
            }
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let state = self.state.lock();
        let traces_paused = state.traces_paused_until.is_some_and(|until| until > now());
        Capabilities { trace: state.capabilities.trace && !traces_paused, ..state.capabilities }
    }

    pub(crate) fn pause_traces(&self) {
        self.state.lock().traces_paused_until = Some(now() + TRACES_PAUSE);
    }

    /// The time limit of one request.
    pub(crate) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// The number of estimates in one request, if the endpoint is known to execute only so many in time.
    pub(crate) fn estimates_max(&self) -> Option<usize> {
        self.state.lock().estimates.limit()
    }

    /// The number of whole blocks in one request.
    pub(crate) fn blocks_max(&self) -> usize {
        self.settings.blocks_max
    }

    /// Removes a capability until the next check.
    pub(crate) fn remove_capability(&self, remove: impl FnOnce(&mut Capabilities)) {
        remove(&mut self.state.lock().capabilities);
    }

    pub(crate) fn status(&self, health: EndpointHealth, lag: Option<u64>) -> EndpointStatus {
        let state = self.state.lock();
        EndpointStatus {
            name: self.name().to_owned(),
            weight: self.weight,
            health,
            head: state.head.map(|head| head.number),
            head_age: state.head.map(|head| head.changed_at.elapsed()),
            lag,
            errors_permille: state.health.failed_permille(),
            latency: state.health.latency(),
            in_flight: self.max_in_flight.saturating_sub(self.in_flight.available_permits()),
            last_error: state.last_error.clone(),
        }
    }

    /// Checks chain id, client and head. Returns true if the endpoint is up.
    ///
    /// A caller that arrives during a check waits for its result.
    pub(crate) async fn check(&self) -> bool {
        let before = self.state.lock().checks;
        let _check = self.check.lock().await;
        if self.state.lock().checks == before {
            self.run_check().await;
        }
        self.connectivity() == Connectivity::Up
    }

    async fn run_check(&self) {
        {
            // A batch limit that was a temporary refusal disappears over time. A real one is learned again.
            let mut state = self.state.lock();
            if state.connectivity == Connectivity::Up {
                state.batch_max = state.batch_max.saturating_mul(2);
            }
        }
        let calls =
            ["eth_chainId", "web3_clientVersion", "eth_blockNumber"].map(|method| RpcCall::new(method, json!([])));
        let mut results = self.ask(&calls).await.into_iter();
        let mut next = || results.next().and_then(Result::ok);
        let (chain_id, client, head) = (next(), next(), next());
        let number = |raw: Option<Box<RawValue>>| {
            serde_json::from_str::<alloy_primitives::U64>(raw?.get()).ok().map(|number| number.to::<u64>())
        };
        let (chain_id, head) = (number(chain_id), number(head));
        let client: Option<String> = client.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let (chain, name) = (&self.settings.chain, self.name());
        let mut state = self.state.lock();
        state.checks += 1;
        match (chain_id, head) {
            (Some(chain_id), _) if chain_id != self.settings.chain_number => {
                state.head = None;
                state.health.open_for(WRONG_CHAIN_PAUSE, now());
                state.last_error = Some(format!("returns chain id {chain_id}"));
                if state.connectivity != Connectivity::WrongChain {
                    tracing::error!(%chain, endpoint = name, chain_id, "endpoint excluded: wrong chain id");
                }
                state.connectivity = Connectivity::WrongChain;
            }
            (Some(_), Some(head)) => {
                let family = family_of(self.settings.chain_number, client.as_deref());
                tracing::debug!(%chain, endpoint = name, ?family, head, "endpoint up");
                state.pass_check(family, head);
            }
            // The failure was recorded with the request. An endpoint that is up stays up after one failed check.
            _ if state.connectivity == Connectivity::Up => {}
            _ => {
                state.last_error.get_or_insert_with(|| "returns no chain id or head".to_owned());
                self.open_circuit(&mut state);
            }
        }
    }

    /// Sends calls in as few requests as possible.
    pub(crate) async fn ask(&self, calls: &[RpcCall]) -> Vec<CallResult> {
        self.ask_limited(calls, usize::MAX, None).await
    }

    /// Sends calls with at most `max` in one request, and begins no request after `until`. After a time-out no further
    /// request is begun, because the time-outs would add up.
    pub(crate) async fn ask_limited(&self, calls: &[RpcCall], max: usize, until: Option<Instant>) -> Vec<CallResult> {
        let size = self.batch_max().min(max);
        let is_over = AtomicBool::new(false);
        let ask = async |chunk| {
            if is_over.load(Ordering::Relaxed) || until.is_some_and(|until| until <= now()) {
                return self.not_sent(chunk);
            }
            let all = self.ask_chunk(chunk).await;
            is_over.fetch_or(all.is_timed_out, Ordering::Relaxed);
            all.results
        };
        let requests: Vec<_> = chunks(calls, size).into_iter().map(ask).collect();
        let results: Vec<Vec<CallResult>> = stream::iter(requests).buffered(MAX_PARALLEL_BATCHES).collect().await;
        results.into_iter().flatten().collect()
    }

    /// Sends calls one request after the other, so that they arrive in order. After a request without an answer the
    /// others are not sent.
    pub(crate) async fn ask_in_order(&self, calls: &[RpcCall]) -> Vec<CallResult> {
        self.ask_chunks_in_order(chunks(calls, self.batch_max())).await.results
    }

    async fn ask_chunks_in_order(&self, chunks: Vec<&[RpcCall]>) -> CallResults {
        let mut all = CallResults::default();
        for chunk in chunks {
            if all.is_unanswered {
                all.results.extend(self.not_sent(chunk));
                continue;
            }
            let CallResults { results, is_unanswered, is_timed_out } = self.ask_chunk(chunk).await;
            all.results.extend(results);
            (all.is_unanswered, all.is_timed_out) = (is_unanswered, is_timed_out);
        }
        all
    }

    fn not_sent(&self, chunk: &[RpcCall]) -> Vec<CallResult> {
        let failure = RpcFailure::NotSent;
        let classified = self.settings.classifier.classify(None, Method::Other, &failure.as_node_failure());
        vec![Err(classified); chunk.len()]
    }

    /// Sends one call and reads its result.
    pub(crate) async fn ask_one<T: DeserializeOwned>(&self, call: RpcCall) -> Result<T, Classified> {
        let mut results = self.ask_chunk(std::slice::from_ref(&call)).await.results;
        self.read(results.pop().unwrap_or_else(|| Err(self.unreadable("")))?.as_ref())
    }

    /// Reads a result as a type.
    pub(crate) fn read<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<T, Classified> {
        serde_json::from_str(raw.get()).map_err(|_| self.unreadable(raw.get()))
    }

    /// The failure for a result of the wrong shape. It proves nothing.
    pub(crate) fn unreadable(&self, body: &str) -> Classified {
        let body = self.url.redact(body);
        let failure = NodeFailure::Http { status: 200, body: &body };
        self.settings.classifier.classify(self.state.lock().family, Method::Other, &failure)
    }

    fn batch_max(&self) -> usize {
        self.settings.batch_max.min(self.state.lock().batch_max)
    }

    async fn ask_chunk(&self, chunk: &[RpcCall]) -> CallResults {
        let began = now();
        let (replies, is_shared) = match self.exchange(chunk).await {
            Exchange::Replies(replies) => (replies, false),
            Exchange::Failed(failure) => (vec![Err(failure); chunk.len()], chunk.len() > 1),
            Exchange::BatchRefused(failure) => return Box::pin(self.ask_smaller(chunk, failure)).await,
        };
        let took = began.elapsed();
        meter::request_duration(&self.settings.chain, self.name(), took);
        let any = |is: fn(&RpcFailure) -> bool| replies.iter().any(|reply| reply.as_ref().is_err_and(is));
        let is_unanswered = any(RpcFailure::is_unanswered);
        let is_timed_out = any(|failure| *failure == RpcFailure::TimedOut);
        let mut worst = (HealthSignal::None, None);
        let mut results = Vec::with_capacity(chunk.len());
        for (call, reply) in chunk.iter().zip(replies) {
            let (result, signal) = self.classify(call, reply, is_shared);
            if signal > worst.0 {
                worst = (signal, result.as_ref().err().map(error_text));
            }
            results.push(result);
        }
        if !self.is_too_long(chunk, is_timed_out, &results) {
            self.record(worst.0, worst.1, took);
        }
        CallResults { results, is_unanswered, is_timed_out }
    }

    /// Learns the length of a request with estimates, unless the request was refused or not sent. True if the request
    /// timed out and had several calls: the node executes estimates one after the other, so their sum says nothing
    /// about its health. A single estimate that times out counts like any other call.
    fn is_too_long(&self, chunk: &[RpcCall], is_timed_out: bool, results: &[CallResult]) -> bool {
        if !chunk.iter().any(|call| call.method == ESTIMATE) {
            return false;
        }
        let estimates = &mut self.state.lock().estimates;
        if !is_timed_out {
            if results.iter().all(is_answered) {
                estimates.succeeded(chunk.len());
            }
            return false;
        }
        estimates.timed_out(chunk.len());
        if chunk.len() == 1 {
            return false;
        }
        let (endpoint, estimates_max) = (self.name(), estimates.limit());
        tracing::info!(endpoint, calls = chunk.len(), estimates_max, "gas estimates timed out: request size reduced");
        true
    }

    /// Repeats a refused batch in smaller ones. The smaller size is learned only if these are answered: a gateway that
    /// refuses everything for a moment says nothing about batches.
    async fn ask_smaller(&self, calls: &[RpcCall], refusal: RpcFailure) -> CallResults {
        let batch_max = after_refusal(calls.len(), &refusal);
        let all = self.ask_chunks_in_order(calls.chunks(batch_max).collect()).await;
        if all.results.iter().any(is_answered) && !calls.iter().any(|call| call.optional) {
            let text = meter::shortened(&format!("{:?}", refusal.redacted(&self.url)));
            tracing::info!(endpoint = self.name(), batch_max, text, "endpoint refused a batch: batch size reduced");
            let mut state = self.state.lock();
            state.batch_max = state.batch_max.min(batch_max);
        }
        all
    }

    /// Sends one request. Its time-out includes the wait for a permit.
    async fn exchange(&self, chunk: &[RpcCall]) -> Exchange {
        let until = now() + self.settings.timeout;
        let _permit = match tokio::time::timeout_at(until, self.in_flight.acquire()).await {
            Ok(Ok(permit)) if now() + self.settings.timeout / MIN_TIME_PART < until => permit,
            _ => return Exchange::Failed(RpcFailure::Saturated),
        };
        let exchange = self.transport.exchange(chunk);
        tokio::time::timeout_at(until, exchange).await.unwrap_or(Exchange::Failed(RpcFailure::TimedOut))
    }

    /// Classifies a reply. `is_shared` means one failure for several calls.
    fn classify(&self, call: &RpcCall, reply: Reply, is_shared: bool) -> (CallResult, HealthSignal) {
        let (chain, name) = (&self.settings.chain, self.name());
        let failure = match reply {
            Ok(result) => {
                meter::request(chain, name, call.method, "ok");
                return (Ok(result), HealthSignal::Alive);
            }
            Err(failure) => failure.redacted(&self.url),
        };
        let (family, method) = (self.state.lock().family, Method::of(call.method));
        let mut classified = self.settings.classifier.classify(family, method, &failure.as_node_failure());
        if is_shared {
            classified = for_all_calls(classified);
        }
        meter::request(chain, name, call.method, classified.verdict.as_str());
        if method != Method::Other {
            meter::unknown_text(chain, name, call.method, &classified);
        }
        let signal = match &failure {
            // A failure of an optional call, even a rate limit, concerns that method only.
            RpcFailure::ErrorObject { .. } if call.optional => HealthSignal::Alive,
            _ if call.optional => HealthSignal::None,
            RpcFailure::Http { retry_after, .. } if classified.verdict == Verdict::RateLimited => {
                let pause = retry_after.unwrap_or(RATE_LIMIT_PAUSE);
                HealthSignal::RateLimited { pause, is_requested: retry_after.is_some() }
            }
            RpcFailure::ErrorObject { .. } if classified.verdict == Verdict::RateLimited => {
                HealthSignal::RateLimited { pause: RATE_LIMIT_PAUSE, is_requested: false }
            }
            // These may concern the content of the call.
            RpcFailure::ErrorObject { .. }
            | RpcFailure::TooLarge
            | RpcFailure::Http { status: 400 | 413 | 415 | 422, .. } => HealthSignal::Alive,
            RpcFailure::Saturated | RpcFailure::NotSent => HealthSignal::None,
            RpcFailure::Http { .. } | RpcFailure::TimedOut => HealthSignal::Failed,
            RpcFailure::Unreachable { .. } => HealthSignal::Unreachable,
        };
        (Err(classified), signal)
    }

    /// Records the consequence of a request for the endpoint's health.
    fn record(&self, signal: HealthSignal, error: Option<String>, took: Duration) {
        let mut state = self.state.lock();
        let opens = match signal {
            HealthSignal::None => return,
            HealthSignal::Alive => {
                state.health.succeeded(took);
                // An endpoint that is down comes back only by a complete check.
                if state.connectivity == Connectivity::Up {
                    state.silent_since = None;
                    if !state.is_flipping() {
                        state.last_error = None;
                    }
                }
                return;
            }
            HealthSignal::RateLimited { pause, is_requested } => {
                state.health.rate_limit(now() + pause, is_requested);
                false
            }
            HealthSignal::Failed => state.health.failed(FailureKind::Other),
            HealthSignal::Unreachable => state.health.failed(FailureKind::Unreachable),
        };
        state.silent_since.get_or_insert_with(now);
        if opens && state.connectivity == Connectivity::Up {
            tracing::warn!(chain = %self.settings.chain, endpoint = self.name(), ?error, "endpoint down");
        }
        state.last_error = error;
        if opens {
            self.open_circuit(&mut state);
        }
    }

    fn open_circuit(&self, state: &mut EndpointState) {
        state.silent_since.get_or_insert_with(now);
        state.health.open(now(), jitter::random());
        if state.connectivity != Connectivity::WrongChain {
            state.connectivity = Connectivity::Down;
        }
    }
}

/// The node executed the call, or refused it for its content.
fn is_answered(result: &CallResult) -> bool {
    match result {
        Ok(_) => true,
        Err(classified) => {
            !matches!(classified.verdict, Verdict::Unavailable | Verdict::RateLimited | Verdict::Unknown)
        }
    }
}

fn error_text(classified: &Classified) -> String {
    meter::shortened(&format!("{}: {}", classified.reason.as_str(), classified.text))
}

/// The meaning of one failure for several calls: it can only concern the transport or the node. A text about one
/// transaction cannot be assigned, so it is no verdict on any of them.
fn for_all_calls(classified: Classified) -> Classified {
    match classified.verdict {
        Verdict::Unavailable | Verdict::RateLimited | Verdict::Unknown => classified,
        _ => {
            let reason = Reason::Unreachable;
            Classified { verdict: reason.verdict(), reason, source: Source::NoRule, revert_data: None, ..classified }
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Overrides;
    use crate::rpc::{HttpTransport, client_config};

    /// An endpoint at a closed port.
    fn unreachable(max_in_flight: usize) -> Endpoint {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: SecretUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let timeout = Duration::from_millis(200);
        let settings = EndpointSettings {
            chain: "eip155:1".parse().unwrap(),
            chain_number: 1,
            timeout,
            batch_max: 100,
            blocks_max: 1,
            classifier: Classifier::new(Overrides::default()).unwrap(),
        };
        let transport = HttpTransport::new(&url, &client_config(false).unwrap(), timeout).unwrap();
        let parts = EndpointParts {
            name: "closed".to_owned(),
            weight: 1,
            url,
            transport: Transport::Http(Box::new(transport)),
            max_in_flight,
            state: Arc::default(),
        };
        Endpoint::new(Arc::new(settings), parts)
    }

    #[tokio::test]
    async fn unanswered_estimates_leave_the_limit() {
        for (max_in_flight, failure) in [(8, "refused connection"), (0, "saturated endpoint")] {
            let endpoint = unreachable(max_in_flight);
            endpoint.state.lock().estimates.timed_out(4);
            let calls = [1, 2].map(|_| RpcCall::new(ESTIMATE, json!([])));
            for _ in 0..3 {
                let results = endpoint.ask_limited(&calls, 2, None).await;
                assert!(results.len() == 2 && results.iter().all(Result::is_err));
                assert_eq!(endpoint.estimates_max(), Some(2), "{failure}");
            }
        }
    }
}
