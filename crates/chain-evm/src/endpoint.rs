//! One node, as far as we know it: whether it is of this chain, how it is, where its head is, and what it can do.
//!
//! Nothing is asked of a node before it has named the right chain id, and it is asked again whenever it was away, and from time
//! to time: behind one URL there may be another node tomorrow.

mod batch;
mod forks;
mod health;
mod known;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use gapless_chain::{
    Classified, Classifier, EndpointHealth, EndpointStatus, Header, Method, NodeFailure, Reason, Source, Verdict,
};
use gapless_domain::ChainId;
use gapless_secret::SecretUrl;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) use known::{EndpointState, HeadClaim, Skills, Standing};

use crate::family::family_of;
use crate::meter;
use crate::rpc::{Call, Exchange, Fault, Reply, Road};
use batch::{after_refusal, chunks};
use health::Failure as Trouble;
use known::Known;

/// Batches of one question that are under way at once.
const BATCHES_AT_ONCE: usize = 8;
/// A request that has less than this part of its time left when it gets its place is not begun: it would only be cut off.
const LEAST_PART: u32 = 10;
/// A wrong chain id is a matter of configuration and is looked at again now and then.
const WRONG_CHAIN_PAUSE: Duration = Duration::from_secs(60);
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(1);
/// Traces that took too long, or were too many, are not asked for again for so long.
const TRACES_REST: Duration = Duration::from_secs(5 * 60);
/// So long a final refusal waits for an endpoint that gives no answers. One that is away for longer is not waited for: it may
/// never come back, and a transaction that nobody takes would hold up its lane for ever.
const MISSED_FOR: Duration = Duration::from_secs(10 * 60);

/// An endpoint at one moment, for whoever chooses among several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) standing: Standing,
    pub(crate) weight: u32,
    /// It may be asked now.
    pub(crate) is_due: bool,
    /// It should be asked again who it is.
    pub(crate) is_check_due: bool,
    /// It has had enough of us for now.
    pub(crate) is_limited: bool,
    /// It has said when to come again, and that is not yet.
    pub(crate) is_barred: bool,
    /// Its last request failed.
    pub(crate) is_doubtful: bool,
    pub(crate) is_flipping: bool,
    pub(crate) head: Option<HeadClaim>,
}

/// What one question brought, judged.
pub(crate) type Answer = Result<Box<RawValue>, Classified>;

/// What never changes about an endpoint.
pub(crate) struct Terms {
    pub(crate) chain: ChainId,
    pub(crate) chain_number: u64,
    pub(crate) timeout: Duration,
    pub(crate) batch_max: usize,
    pub(crate) blocks_max: usize,
    pub(crate) classifier: Classifier,
}

pub(crate) struct Endpoint {
    terms: Arc<Terms>,
    name: String,
    weight: u32,
    url: SecretUrl,
    road: Road,
    /// Requests that may be under way at once.
    places_max: usize,
    places: Semaphore,
    /// Held by whoever asks who it is: the one trial of a circuit that is open.
    trial: tokio::sync::Mutex<()>,
    state: Arc<EndpointState>,
}

/// What an endpoint is made from.
pub(crate) struct Parts {
    /// Host and port, or more where two endpoints have the same.
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) url: SecretUrl,
    pub(crate) road: Road,
    pub(crate) places: usize,
    pub(crate) state: Arc<EndpointState>,
}

/// What several questions brought that went together or one after the other.
#[derive(Default)]
struct Asked {
    answers: Vec<Answer>,
    /// The last request got nothing back.
    silent: bool,
    /// It got nothing back in its time.
    timed_out: bool,
}

/// What a request says about the endpoint itself. The worst of a batch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    /// It was not asked, or for something that it need not have.
    None,
    Alive,
    /// For so long, by its own word or by ours.
    LeaveAlone(Duration, bool),
    Failed,
    Gone,
}

#[expect(clippy::disallowed_methods, reason = "the adapter owns the pauses between its requests")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Endpoint {
    pub(crate) fn new(terms: Arc<Terms>, parts: Parts) -> Self {
        let Parts { name, weight, url, road, places, state } = parts;
        let (trial, places_max) = (tokio::sync::Mutex::default(), places);
        Endpoint { terms, name, weight, url, road, places_max, places: Semaphore::new(places), trial, state }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn chain(&self) -> &ChainId {
        &self.terms.chain
    }

    pub(crate) fn standing(&self) -> Standing {
        self.state.lock().standing
    }

    /// As it is seen now.
    pub(crate) fn sight(&self) -> Sight {
        let (known, now) = (self.state.lock(), now());
        Sight {
            standing: known.standing,
            weight: self.weight,
            is_due: known.health.is_due(now),
            is_check_due: known.is_check_due(),
            is_limited: known.health.is_limited(now),
            is_barred: known.health.is_barred(now),
            is_doubtful: known.health.is_doubtful(),
            is_flipping: known.is_flipping(),
            head: known.head,
        }
    }

    /// It is of this chain as far as anybody knows, and has not been silent for too long.
    pub(crate) fn may_speak_soon(&self) -> bool {
        let known = self.state.lock();
        known.standing != Standing::WrongChain && known.silent_since.is_none_or(|since| since.elapsed() < MISSED_FOR)
    }

    /// Its newest block, as it shows it.
    pub(crate) fn set_head(&self, header: &Header) {
        self.state.lock().hear(header.block.number, Some(header.block.hash));
        self.saw(std::slice::from_ref(header));
    }

    /// What it shows at some heights.
    pub(crate) fn saw(&self, headers: &[Header]) {
        let mut known = self.state.lock();
        for header in headers {
            if known.see(header) {
                known.trouble = Some("it goes to and fro between two forks".to_owned());
                meter::flipping(&self.terms.chain, self.name(), header.block.number);
            }
        }
    }

    pub(crate) fn skills(&self) -> Skills {
        let known = self.state.lock();
        let traces_rest = known.traces_rest_until.is_some_and(|until| until > now());
        Skills { trace: known.skills.trace && !traces_rest, ..known.skills }
    }

    /// It is asked for no traces for a while.
    pub(crate) fn let_traces_rest(&self) {
        self.state.lock().traces_rest_until = Some(now() + TRACES_REST);
    }

    /// The longest that one request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    /// Whole blocks in one request.
    pub(crate) fn blocks_max(&self) -> usize {
        self.terms.blocks_max
    }

    pub(crate) fn unlearn(&self, what: impl FnOnce(&mut Skills)) {
        what(&mut self.state.lock().skills);
    }

    pub(crate) fn status(&self, standing: EndpointHealth, lag: Option<u64>) -> EndpointStatus {
        let known = self.state.lock();
        EndpointStatus {
            name: self.name().to_owned(),
            weight: self.weight,
            standing,
            head: known.head.map(|head| head.number),
            head_age: known.head.map(|head| head.moved_at.elapsed()),
            lag,
            errors_permille: known.health.failed_permille(),
            latency: known.health.latency(),
            in_flight: self.places_max.saturating_sub(self.places.available_permits()),
            trouble: known.trouble.clone(),
        }
    }

    /// Asks who it is. True if it may be used from now on.
    ///
    /// Whoever comes while somebody else asks gets that answer: an endpoint that is away is tried by one request at a time.
    pub(crate) async fn check(&self) -> bool {
        let before = self.state.lock().checks;
        let _trial = self.trial.lock().await;
        if self.state.lock().checks == before {
            self.make_check().await;
        }
        self.standing() == Standing::Good
    }

    async fn make_check(&self) {
        {
            // A refusal that was a gateway's whim is forgotten by and by; one that was meant comes again, here at the latest.
            let mut known = self.state.lock();
            if known.standing == Standing::Good {
                known.batch_max = known.batch_max.saturating_mul(2);
            }
        }
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
        known.checks += 1;
        match (chain, head) {
            (Some(said), _) if said != self.terms.chain_number => {
                known.head = None;
                known.health.open_for(WRONG_CHAIN_PAUSE, now());
                known.trouble = Some(format!("it is on chain {said}"));
                if known.standing != Standing::WrongChain {
                    tracing::error!(chain = %self.terms.chain, endpoint = self.name(), said, "an endpoint of another chain is left out");
                }
                known.standing = Standing::WrongChain;
            }
            (Some(_), Some(head)) => {
                let family = family_of(self.terms.chain_number, client.as_deref());
                tracing::debug!(chain = %self.terms.chain, endpoint = self.name(), ?family, head, "an endpoint is there");
                known.is_of_this_chain(family, head);
            }
            // What went wrong was noted where it happened. Of one that is well no answer to this proves as little as to anything else.
            _ if known.standing == Standing::Good => {}
            _ => {
                known.trouble.get_or_insert_with(|| "it does not tell its chain id and head".to_owned());
                self.leave_out(&mut known);
            }
        }
    }

    /// Asks several questions, in as few requests as they fit into.
    pub(crate) async fn ask(&self, calls: &[Call]) -> Vec<Answer> {
        self.ask_few(calls, usize::MAX, None).await
    }

    /// The same, with at most `most` in one request, and no new request after `until`. Once one got no answer in its time, no
    /// more are begun: waiting for each in turn would add up.
    pub(crate) async fn ask_few(&self, calls: &[Call], most: usize, until: Option<Instant>) -> Vec<Answer> {
        let size = self.batch_max().min(most);
        let is_over = AtomicBool::new(false);
        let ask = async |chunk| {
            if is_over.load(Ordering::Relaxed) || until.is_some_and(|until| until <= now()) {
                return self.not_asked(chunk);
            }
            let asked = self.ask_chunk(chunk).await;
            is_over.fetch_or(asked.timed_out, Ordering::Relaxed);
            asked.answers
        };
        let asked: Vec<_> = chunks(calls, size).into_iter().map(ask).collect();
        let replies: Vec<Vec<Answer>> = stream::iter(asked).buffered(BATCHES_AT_ONCE).collect().await;
        replies.into_iter().flatten().collect()
    }

    /// The same, one request after the other: what comes later in the list arrives later. After one that got no answer the
    /// others are not made.
    pub(crate) async fn ask_in_order(&self, calls: &[Call]) -> Vec<Answer> {
        self.ask_in_turn(chunks(calls, self.batch_max())).await.answers
    }

    async fn ask_in_turn(&self, chunks: Vec<&[Call]>) -> Asked {
        let mut all = Asked::default();
        for chunk in chunks {
            if all.silent {
                all.answers.extend(self.not_asked(chunk));
                continue;
            }
            let Asked { answers, silent, timed_out } = self.ask_chunk(chunk).await;
            all.answers.extend(answers);
            (all.silent, all.timed_out) = (silent, timed_out);
        }
        all
    }

    fn not_asked(&self, chunk: &[Call]) -> Vec<Answer> {
        let failure = Fault::NotAsked;
        let classified = self.terms.classifier.classify(None, Method::Other, &failure.failure());
        vec![Err(classified); chunk.len()]
    }

    /// One question.
    pub(crate) async fn ask_one<T: DeserializeOwned>(&self, call: Call) -> Result<T, Classified> {
        let mut answers = self.ask_chunk(std::slice::from_ref(&call)).await.answers;
        self.read(answers.pop().unwrap_or_else(|| Err(self.unreadable("")))?.as_ref())
    }

    /// A result as what it should be.
    pub(crate) fn read<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<T, Classified> {
        serde_json::from_str(raw.get()).map_err(|_| self.unreadable(raw.get()))
    }

    /// An answer that makes no sense says nothing.
    pub(crate) fn unreadable(&self, body: &str) -> Classified {
        let body = self.url.redact(body);
        let failure = NodeFailure::Http { status: 200, body: &body };
        self.terms.classifier.classify(self.state.lock().family, Method::Other, &failure)
    }

    fn batch_max(&self) -> usize {
        self.terms.batch_max.min(self.state.lock().batch_max)
    }

    async fn ask_chunk(&self, chunk: &[Call]) -> Asked {
        let began = now();
        let (replies, shared) = match self.exchange(chunk).await {
            Exchange::Replies(replies) => (replies, false),
            Exchange::Failed(fault) => (vec![Err(fault); chunk.len()], chunk.len() > 1),
            Exchange::BatchRefused(fault) => return Box::pin(self.ask_smaller(chunk, fault)).await,
        };
        let took = began.elapsed();
        meter::took(&self.terms.chain, self.name(), took);
        let any = |is: fn(&Fault) -> bool| replies.iter().any(|reply| reply.as_ref().is_err_and(is));
        let (silent, timed_out) = (any(Fault::is_silence), any(|fault| *fault == Fault::TimedOut));
        let mut worst = (Sign::None, None);
        let mut answers = Vec::with_capacity(chunk.len());
        for (call, reply) in chunk.iter().zip(replies) {
            let (answer, sign) = self.judge(call, reply, shared);
            if sign > worst.0 {
                worst = (sign, answer.as_ref().err().map(trouble));
            }
            answers.push(answer);
        }
        self.note(worst.0, worst.1, took);
        Asked { answers, silent, timed_out }
    }

    /// After a batch was refused. That it was for its size is learned only if smaller ones are answered: a gateway that refuses
    /// everything for a moment says nothing about batches.
    async fn ask_smaller(&self, calls: &[Call], refusal: Fault) -> Asked {
        let smaller = after_refusal(calls.len(), &refusal);
        let asked = self.ask_in_turn(calls.chunks(smaller).collect()).await;
        let is_answered = |answer: &Answer| match answer {
            Ok(_) => true,
            Err(classified) => {
                !matches!(classified.verdict, Verdict::Unavailable | Verdict::RateLimited | Verdict::Unknown)
            }
        };
        if asked.answers.iter().any(is_answered) && !calls.iter().any(|call| call.optional) {
            let text = meter::shown(&format!("{:?}", refusal.redacted(&self.url)));
            tracing::info!(endpoint = self.name(), smaller, text, "a node refuses batches of this size");
            let mut known = self.state.lock();
            known.batch_max = known.batch_max.min(smaller);
        }
        asked
    }

    /// The time for one request begins when it wants its place: a place that does not come free is no better than no answer.
    async fn exchange(&self, chunk: &[Call]) -> Exchange {
        let until = now() + self.terms.timeout;
        let _place = match tokio::time::timeout_at(until, self.places.acquire()).await {
            Ok(Ok(place)) if now() + self.terms.timeout / LEAST_PART < until => place,
            _ => return Exchange::Failed(Fault::NoPlace),
        };
        let asked = self.road.exchange(chunk);
        tokio::time::timeout_at(until, asked).await.unwrap_or(Exchange::Failed(Fault::TimedOut))
    }

    /// `shared` is a failure that came once for several questions.
    fn judge(&self, call: &Call, reply: Reply, shared: bool) -> (Answer, Sign) {
        let (chain, name) = (&self.terms.chain, self.name());
        let fault = match reply {
            Ok(result) => {
                meter::request(chain, name, call.method, "ok");
                return (Ok(result), Sign::Alive);
            }
            Err(fault) => fault.redacted(&self.url),
        };
        let family = self.state.lock().family;
        let mut classified = self.terms.classifier.classify(family, Method::of(call.method), &fault.failure());
        if shared {
            classified = of_all(classified);
        }
        meter::request(chain, name, call.method, classified.verdict.as_str());
        if Method::of(call.method) != Method::Other {
            meter::unknown_text(chain, name, call.method, &classified);
        }
        let sign = match &fault {
            // Whatever comes instead of what need not be there, also that it is too much, is about that alone.
            Fault::Answer { .. } if call.optional => Sign::Alive,
            _ if call.optional => Sign::None,
            Fault::Http { retry_after, .. } if classified.verdict == Verdict::RateLimited => {
                Sign::LeaveAlone(retry_after.unwrap_or(RATE_LIMIT_PAUSE), retry_after.is_some())
            }
            Fault::Answer { .. } if classified.verdict == Verdict::RateLimited => {
                Sign::LeaveAlone(RATE_LIMIT_PAUSE, false)
            }
            // These may be about the question.
            Fault::Answer { .. } | Fault::TooLarge | Fault::Http { status: 400 | 413 | 415 | 422, .. } => Sign::Alive,
            Fault::NoPlace | Fault::NotAsked => Sign::None,
            Fault::Http { .. } | Fault::TimedOut => Sign::Failed,
            Fault::Unreachable { .. } => Sign::Gone,
        };
        (Err(classified), sign)
    }

    /// What a request says about the endpoint itself.
    fn note(&self, sign: Sign, trouble: Option<String>, took: Duration) {
        let mut known = self.state.lock();
        let opens = match sign {
            Sign::None => return,
            Sign::Alive => {
                known.health.succeeded(took);
                // Of one that is away only a whole check proves that it is back.
                if known.standing == Standing::Good {
                    known.silent_since = None;
                    if !known.is_flipping() {
                        known.trouble = None;
                    }
                }
                return;
            }
            Sign::LeaveAlone(pause, told) => {
                known.health.leave_alone(now() + pause, told);
                false
            }
            Sign::Failed => known.health.failed(Trouble::Other),
            Sign::Gone => known.health.failed(Trouble::Nobody),
        };
        known.silent_since.get_or_insert_with(now);
        if opens && known.standing == Standing::Good {
            tracing::warn!(chain = %self.terms.chain, endpoint = self.name(), ?trouble, "an endpoint is away");
        }
        known.trouble = trouble;
        if opens {
            self.leave_out(&mut known);
        }
    }

    fn leave_out(&self, known: &mut Known) {
        known.silent_since.get_or_insert_with(now);
        known.health.open(now());
        if known.standing != Standing::WrongChain {
            known.standing = Standing::Down;
        }
    }
}

fn trouble(classified: &Classified) -> String {
    meter::shown(&format!("{}: {}", classified.reason.as_str(), classified.text))
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

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).field("state", &self.state).finish_non_exhaustive()
    }
}
