//! One node, as far as we know it: whether it is of this chain, how it is, where its head is, and what it can do.
//!
//! Nothing is asked of a node before it has named the right chain id, and it is asked again whenever it was away: behind one
//! URL there may be another node tomorrow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use gapless_chain::{
    Classified, Classifier, EndpointStanding, EndpointStatus, Failure, Family, Method, Reason, Source, Verdict,
};
use gapless_domain::ChainId;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::family::family_of;
use crate::meter;
use crate::rpc::{Call, Exchange, Fault, Reply, Road};
use crate::url::EndpointUrl;

/// Batches of one question that are under way at once.
const BATCHES_AT_ONCE: usize = 8;
/// What nodes take in one request is about 5 MB; a batch stays well below.
const MAX_BATCH_BYTES: usize = 2 << 20;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(8);
/// A wrong chain id is a matter of configuration and is looked at again now and then.
const WRONG_CHAIN_PAUSE: Duration = Duration::from_secs(60);
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(1);
/// So long a final refusal waits for an endpoint that gives no answers. One that is away for longer is not waited for: it may
/// never come back, and a transaction that nobody takes would hold up its lane for ever.
const MISSED_FOR: Duration = Duration::from_secs(10 * 60);

/// What one question brought, judged.
pub(crate) type Answer = Result<Box<RawValue>, Classified>;

/// What never changes about an endpoint.
pub(crate) struct Terms {
    pub(crate) chain: ChainId,
    pub(crate) chain_number: u64,
    pub(crate) timeout: Duration,
    pub(crate) batch_max: usize,
    pub(crate) classifier: Classifier,
}

pub(crate) struct Endpoint {
    terms: Arc<Terms>,
    url: EndpointUrl,
    road: Road,
    places: Semaphore,
    state: Arc<EndpointState>,
}

/// What changes. It is shared with the WebSocket's task, which hears of heads.
#[derive(Debug, Default)]
pub(crate) struct EndpointState(Mutex<Known>);

#[derive(Clone, Debug)]
struct Known {
    standing: Standing,
    /// Not before then, if it can be helped.
    retry_at: Option<Instant>,
    failures: u32,
    /// Since when it has been away, or has wanted to be left alone, without an answer in between.
    silent_since: Option<Instant>,
    head: Option<HeadClaim>,
    family: Option<Family>,
    trouble: Option<String>,
    batch_max: usize,
    skills: Skills,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Unchecked,
    Good,
    Down,
    WrongChain,
}

/// The newest head that an endpoint told of, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadClaim {
    pub(crate) number: u64,
    pub(crate) heard_at: Instant,
    /// The header itself came with it; else it is only a number.
    pub(crate) shown: bool,
}

impl HeadClaim {
    fn of(number: u64, shown: bool) -> Self {
        HeadClaim { number, heard_at: now(), shown }
    }
}

/// What a node turned out not to be able to do is not asked of it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skills {
    pub(crate) block_receipts: bool,
    /// Counts at a block named by its hash (EIP-1898).
    pub(crate) count_by_hash: bool,
    /// `debug_traceTransaction`.
    pub(crate) trace: bool,
}

impl Default for Known {
    fn default() -> Self {
        Known {
            standing: Standing::Unchecked,
            retry_at: None,
            failures: 0,
            silent_since: None,
            head: None,
            family: None,
            trouble: None,
            batch_max: usize::MAX,
            skills: Skills { block_receipts: true, count_by_hash: true, trace: true },
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the adapter owns the pauses between its requests")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl EndpointState {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node may go back: after a reorg, or when another one answers behind the same URL.
    fn set_head(&self, number: u64) {
        self.lock().head = Some(HeadClaim::of(number, true));
    }

    /// A head that nobody asked for counts only while its endpoint is known to be of this chain.
    pub(crate) fn hear_head(&self, number: u64) {
        let mut known = self.lock();
        if known.standing == Standing::Good {
            known.head = Some(HeadClaim::of(number, false));
        }
    }
}

impl Endpoint {
    pub(crate) fn new(
        terms: Arc<Terms>,
        url: EndpointUrl,
        road: Road,
        state: Arc<EndpointState>,
        places: usize,
    ) -> Self {
        Endpoint { terms, url, road, places: Semaphore::new(places), state }
    }

    pub(crate) fn name(&self) -> &str {
        self.url.name()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.state.lock().standing
    }

    /// May it be asked now, or does it want to be left alone for a while?
    pub(crate) fn is_due(&self) -> bool {
        self.state.lock().retry_at.is_none_or(|at| at <= now())
    }

    /// It is of this chain as far as anybody knows, and has not been silent for too long.
    pub(crate) fn may_speak_soon(&self) -> bool {
        let known = self.state.lock();
        known.standing != Standing::WrongChain && known.silent_since.is_none_or(|since| since.elapsed() < MISSED_FOR)
    }

    pub(crate) fn head(&self) -> Option<HeadClaim> {
        self.state.lock().head
    }

    /// From its header.
    pub(crate) fn set_head(&self, number: u64) {
        self.state.set_head(number);
    }

    pub(crate) fn skills(&self) -> Skills {
        self.state.lock().skills
    }

    pub(crate) fn unlearn(&self, what: impl FnOnce(&mut Skills)) {
        what(&mut self.state.lock().skills);
    }

    pub(crate) fn status(&self) -> EndpointStatus {
        let known = self.state.lock().clone();
        EndpointStatus {
            name: self.name().to_owned(),
            weight: 1,
            standing: match known.standing {
                Standing::Unchecked => EndpointStanding::Unchecked,
                Standing::Good => EndpointStanding::Good,
                Standing::Down => EndpointStanding::Down,
                Standing::WrongChain => EndpointStanding::WrongChain,
            },
            head: known.head.map(|head| head.number),
            head_age: None,
            lag: None,
            errors_permille: None,
            latency: None,
            in_flight: 0,
            trouble: known.trouble,
        }
    }

    /// Asks who it is. True if it may be used from now on.
    pub(crate) async fn check(&self) -> bool {
        let calls = ["eth_chainId", "web3_clientVersion", "eth_blockNumber"].map(|method| Call::new(method, json!([])));
        let mut answers = self.ask(&calls).await.into_iter();
        let mut next = || answers.next().and_then(Result::ok);
        let (chain, client, head) = (next(), next(), next());
        let number = |raw: Option<Box<RawValue>>| {
            serde_json::from_str::<alloy_primitives::U64>(raw?.get()).ok().map(|number| number.to::<u64>())
        };
        let (chain, head) = (number(chain), number(head));
        let client: Option<String> = client.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut known = self.state.lock();
        match (chain, head) {
            (Some(said), _) if said != self.terms.chain_number => {
                known.head = None;
                known.retry_at = Some(now() + WRONG_CHAIN_PAUSE);
                known.trouble = Some(format!("it is on chain {said}"));
                if known.standing != Standing::WrongChain {
                    tracing::error!(chain = %self.terms.chain, endpoint = self.name(), said, "an endpoint of another chain is left out");
                }
                known.standing = Standing::WrongChain;
            }
            (Some(_), Some(head)) => {
                let fresh = Known { head: Some(HeadClaim::of(head, false)), ..Known::default() };
                let family = family_of(self.terms.chain_number, client.as_deref());
                tracing::debug!(chain = %self.terms.chain, endpoint = self.name(), ?family, head, "an endpoint is there");
                *known = Known { standing: Standing::Good, family, batch_max: known.batch_max, ..fresh };
            }
            // What went wrong was noted where it happened.
            _ if known.standing != Standing::Down => {
                known.trouble.get_or_insert_with(|| "it does not tell its chain id and head".to_owned());
                self.pause(&mut known);
            }
            _ => {}
        }
        known.standing == Standing::Good
    }

    /// Asks several questions, in as few requests as they fit into.
    pub(crate) async fn ask(&self, calls: &[Call]) -> Vec<Answer> {
        self.ask_few(calls, usize::MAX).await
    }

    /// The same, with at most `most` in one request.
    pub(crate) async fn ask_few(&self, calls: &[Call], most: usize) -> Vec<Answer> {
        let size = self.batch_max().min(most);
        let asked: Vec<_> = chunks(calls, size).into_iter().map(|chunk| self.ask_chunk(chunk)).collect();
        let replies: Vec<Vec<Answer>> = stream::iter(asked).buffered(BATCHES_AT_ONCE).collect().await;
        replies.into_iter().flatten().collect()
    }

    /// The same, one request after the other: what comes later in the list arrives later.
    pub(crate) async fn ask_in_order(&self, calls: &[Call]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(calls.len());
        for chunk in chunks(calls, self.batch_max()) {
            answers.extend(self.ask_chunk(chunk).await);
        }
        answers
    }

    /// One question.
    pub(crate) async fn ask_one<T: DeserializeOwned>(&self, call: Call) -> Result<T, Classified> {
        let mut answers = self.ask_chunk(std::slice::from_ref(&call)).await;
        self.read(answers.pop().unwrap_or_else(|| Err(self.unreadable("")))?.as_ref())
    }

    /// A result as what it should be.
    pub(crate) fn read<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<T, Classified> {
        serde_json::from_str(raw.get()).map_err(|_| self.unreadable(raw.get()))
    }

    /// An answer that makes no sense says nothing.
    pub(crate) fn unreadable(&self, body: &str) -> Classified {
        let failure = Failure::Http { status: 200, body };
        self.terms.classifier.classify(self.state.lock().family, Method::Other, &failure)
    }

    fn batch_max(&self) -> usize {
        self.terms.batch_max.min(self.state.lock().batch_max)
    }

    async fn ask_chunk(&self, chunk: &[Call]) -> Vec<Answer> {
        let (replies, shared) = match self.exchange(chunk).await {
            Exchange::Replies(replies) => (replies, false),
            Exchange::Failed(fault) => (vec![Err(fault); chunk.len()], chunk.len() > 1),
            Exchange::BatchRefused(fault) => {
                let smaller = after_refusal(chunk.len(), &fault);
                let text = meter::shown(&format!("{:?}", fault.redacted(&self.url)));
                tracing::info!(endpoint = self.name(), smaller, text, "a node refuses batches of this size");
                if !chunk.iter().any(|call| call.optional) {
                    let mut known = self.state.lock();
                    known.batch_max = known.batch_max.min(smaller);
                }
                return Box::pin(self.ask_smaller(chunk, smaller)).await;
            }
        };
        chunk.iter().zip(replies).map(|(call, reply)| self.judge(call, reply, shared)).collect()
    }

    async fn ask_smaller(&self, calls: &[Call], size: usize) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(calls.len());
        for chunk in calls.chunks(size) {
            answers.extend(self.ask_chunk(chunk).await);
        }
        answers
    }

    /// The time for one request begins when it wants its place: a place that does not come free is no better than no answer.
    #[expect(clippy::disallowed_methods, reason = "the adapter owns the time-outs of its requests")]
    async fn exchange(&self, chunk: &[Call]) -> Exchange {
        let asked = async {
            match self.places.acquire().await {
                Ok(_place) => self.road.exchange(chunk).await,
                Err(_) => Exchange::Failed(Fault::unreachable("the endpoint is closed")),
            }
        };
        tokio::time::timeout(self.terms.timeout, asked).await.unwrap_or(Exchange::Failed(Fault::TimedOut))
    }

    /// `shared` is a failure that came once for several questions.
    fn judge(&self, call: &Call, reply: Reply, shared: bool) -> Answer {
        let (chain, name) = (&self.terms.chain, self.name());
        let fault = match reply {
            Ok(result) => {
                meter::request(chain, name, call.method, "ok");
                let mut known = self.state.lock();
                // Of one that is away only a whole check proves that it is back.
                if known.standing == Standing::Good {
                    known.silent_since = None;
                }
                return Ok(result);
            }
            Err(fault) => fault.redacted(&self.url),
        };
        let mut known = self.state.lock();
        let mut classified = self.terms.classifier.classify(known.family, Method::of(call.method), &fault.failure());
        if shared {
            classified = of_all(classified);
        }
        meter::request(chain, name, call.method, classified.verdict.as_str());
        if Method::of(call.method) != Method::Other {
            meter::unknown_text(chain, name, call.method, &classified);
        }
        if !call.optional || classified.verdict == Verdict::RateLimited {
            self.note(&mut known, &fault, &classified);
        }
        Err(classified)
    }

    /// What a failure says about the endpoint itself.
    fn note(&self, known: &mut Known, fault: &Fault, classified: &Classified) {
        let trouble = || Some(meter::shown(&format!("{}: {}", classified.reason.as_str(), classified.text)));
        match fault {
            Fault::Http { retry_after, .. } if classified.verdict == Verdict::RateLimited => {
                known.silent_since.get_or_insert_with(now);
                known.retry_at = Some(now() + retry_after.unwrap_or(RATE_LIMIT_PAUSE));
                known.trouble = trouble();
            }
            Fault::Answer { .. } if classified.verdict == Verdict::RateLimited => {
                known.silent_since.get_or_insert_with(now);
                known.retry_at = Some(now() + RATE_LIMIT_PAUSE);
                known.trouble = trouble();
            }
            // These may be about the question.
            Fault::Answer { .. } | Fault::Http { status: 400 | 413 | 415 | 422, .. } => {}
            Fault::Http { .. } | Fault::TimedOut | Fault::Unreachable { .. } => {
                if known.standing == Standing::Good {
                    tracing::warn!(endpoint = self.name(), trouble = ?trouble(), "an endpoint is away");
                }
                known.trouble = trouble();
                self.pause(known);
            }
        }
    }

    fn pause(&self, known: &mut Known) {
        known.silent_since.get_or_insert_with(now);
        let pause = FIRST_PAUSE.saturating_mul(1 << known.failures.min(10)).min(LAST_PAUSE);
        // Many requests that fail together are one failure.
        if known.retry_at.is_none_or(|at| at <= now()) {
            known.failures = known.failures.saturating_add(1);
            known.retry_at = Some(now() + pause);
        }
        if known.standing != Standing::WrongChain {
            known.standing = Standing::Down;
        }
    }
}

/// One failure for several questions can only be about the road or the node. Words about one transaction that nobody can
/// assign are no verdict on it, nor on the others.
fn of_all(classified: Classified) -> Classified {
    match classified.verdict {
        Verdict::Unavailable | Verdict::RateLimited | Verdict::Unknown => classified,
        _ => {
            let reason = Reason::Unreachable;
            Classified { verdict: reason.verdict(), reason, source: Source::Nobody, revert_data: None, ..classified }
        }
    }
}

/// As many calls as the node takes, and not too many bytes.
fn chunks(calls: &[Call], max: usize) -> Vec<&[Call]> {
    let weight = |call: &Call| {
        let texts = call.params.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        texts.map(str::len).sum::<usize>()
    };
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (place, call) in calls.iter().enumerate() {
        let weight = weight(call);
        if place > start && (place - start >= max || bytes + weight > MAX_BATCH_BYTES) {
            chunks.extend(calls.get(start..place));
            (start, bytes) = (place, 0);
        }
        bytes += weight;
    }
    chunks.extend(calls.get(start..).filter(|rest| !rest.is_empty()));
    chunks
}

/// A node that names a limit gets half as many; one that knows no batches gets single calls.
fn after_refusal(size: usize, fault: &Fault) -> usize {
    let text = match fault {
        Fault::Http { status: 413, .. } => return (size / 2).max(1),
        Fault::Http { body, .. } => body,
        Fault::Answer { text, .. } | Fault::Unreachable { text } => text,
        Fault::TimedOut => return size,
    };
    let text = text.to_ascii_lowercase();
    let names_a_limit = ["large", "limit", "exceed", "many", "maximum"].iter().any(|word| text.contains(word));
    if names_a_limit { (size / 2).max(1) } else { 1 }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(bytes: usize) -> Call {
        Call::new("eth_sendRawTransaction", json!(["x".repeat(bytes)]))
    }

    #[test]
    fn batches_are_bounded_by_number_and_by_size() {
        let lens = |calls: &[Call], max| chunks(calls, max).iter().map(|chunk| chunk.len()).collect::<Vec<_>>();
        assert_eq!(lens(&vec![send(1); 7], 3), [3, 3, 1]);
        assert_eq!(lens(&[], 3), Vec::<usize>::new());
        assert_eq!(lens(&[send(MAX_BATCH_BYTES), send(1), send(MAX_BATCH_BYTES * 2), send(1)], 100), [1, 1, 1, 1]);
        assert_eq!(lens(&vec![send(MAX_BATCH_BYTES / 4); 9], 100), [4, 4, 1]);
    }

    #[test]
    fn a_refusal_tells_how_many_to_try_next() {
        let answer = |text: &str| Fault::Answer { code: Some(-32600), text: text.to_owned(), data: None };
        assert_eq!(after_refusal(100, &answer("batch too large")), 50);
        assert_eq!(after_refusal(1, &answer("batch too large")), 1);
        assert_eq!(after_refusal(100, &answer("invalid request")), 1);
        assert_eq!(after_refusal(100, &Fault::Http { status: 413, body: String::new(), retry_after: None }), 50);
    }
}
