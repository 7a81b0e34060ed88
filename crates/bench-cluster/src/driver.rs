//! The load driver: callers with one connection and one request at a time, and the nodes' progress.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::LoadError;
use crate::http::Connection;
use crate::metrics::Counts;
use crate::order::Orders;
use crate::percentiles::Percentiles;
use crate::rpc::{Rpc, number};
use crate::setup::{BenchSetup, Usage, counts};

const TX_PATH: &str = "/api/v1/tx";
/// Interval between reads of the nodes' progress. Each read costs the nodes CPU.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between progress messages.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// A run without progress for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// The steady middle of a run, as shares of the intents that have ended.
pub(crate) const STEADY: (f64, f64) = (0.1, 0.9);
/// The steady middle where windows fill up first, and more intents begin than end.
pub(crate) const STEADY_LATE: (f64, f64) = (0.4, 0.9);
/// A shorter middle is not used; then the whole run counts, from the first request to the last end.
pub(crate) const STEADY_MIN: Duration = Duration::from_millis(500);
const BATCH_ITEMS: u64 = 1000;

/// The load of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Number of the first order; orders below it were sent before.
    pub(crate) first: u64,
    pub(crate) intents: u64,
    pub(crate) callers: u32,
    /// Limit of intents that are accepted and not ended.
    pub(crate) open_max: u64,
    /// Number of intents that a caller follows to their end, to measure the latency.
    pub(crate) followed: u64,
    /// Number of further intents that stay open to the end.
    pub(crate) behind: u64,
    /// Interval between reads of the newest block, to measure the latency from a block on. `None`: not measured.
    pub(crate) block_reads: Option<Duration>,
    /// The measured quantity.
    pub(crate) steady: (f64, f64),
}

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Flowed {
    pub(crate) accept: Option<Percentiles>,
    /// Latencies from the request to the answer CONFIRMED.
    pub(crate) confirm: Option<Percentiles>,
    /// Latencies from the block to the answer CONFIRMED.
    pub(crate) confirm_from_block: Option<Percentiles>,
    /// Readings at both ends of the steady middle.
    pub(crate) steady: (Sample, Sample),
    /// Number of intents that have ended on chain.
    pub(crate) settled: u64,
}

/// One reading of progress and accounting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
}

/// State that all callers of a run share.
#[derive(Debug)]
struct Callers {
    orders: Orders,
    next: Cell<u64>,
    end: u64,
    until: Option<Instant>,
    /// Orders below this number may be sent.
    may_reach: Cell<u64>,
    freed: Notify,
    /// The intents to follow, and the node to ask.
    follow_at: String,
    follow_every: Option<u64>,
    followers: RefCell<JoinSet<Result<(), LoadError>>>,
    accept_times: RefCell<Vec<Duration>>,
    confirm_times: RefCell<Vec<Duration>>,
    /// The block of each followed intent, and the time of the answer CONFIRMED.
    confirmed_in: RefCell<Vec<(u64, Instant)>>,
    /// The time at which each block was first seen.
    blocks: RefCell<BTreeMap<u64, Instant>>,
}

impl Callers {
    /// Runs one caller until no order is left.
    async fn call(self: Rc<Self>, mut connection: Connection) -> Result<(), LoadError> {
        loop {
            let number = self.next.get();
            if number >= self.end || self.until.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            if number >= self.may_reach.get() {
                self.freed.notified().await;
                continue;
            }
            self.next.set(number + 1);
            let body = self.orders.body(number);
            let asked = Instant::now();
            let answer = connection.post(TX_PATH, &body).await.map_err(LoadError::http("a request"))?;
            self.accept_times.borrow_mut().push(asked.elapsed());
            if answer.status != 202 {
                return Err(refused("a request", &answer));
            }
            if self.follow_every.is_some_and(|every| number.is_multiple_of(every)) {
                let follower = Rc::clone(&self).follow(tx_id(&answer)?, asked);
                self.followers.borrow_mut().spawn_local(follower);
            }
        }
    }

    async fn follow(self: Rc<Self>, id: String, asked: Instant) -> Result<(), LoadError> {
        let mut connection = Connection::open(&self.follow_at).await.map_err(LoadError::http("a node"))?;
        let view = follow(&mut connection, &id).await?;
        self.confirm_times.borrow_mut().push(asked.elapsed());
        if let Some(block) = view["receipt"]["blockNumber"].as_u64() {
            self.confirmed_in.borrow_mut().push((block, Instant::now()));
        }
        Ok(())
    }

    /// Latencies of the followed intents from the first sight of their block. A block that the API reported before it
    /// was seen here counts as zero.
    fn latencies_from_blocks(&self) -> Vec<Duration> {
        if self.blocks.borrow().is_empty() {
            return Vec::new();
        }
        let blocks = self.blocks.borrow();
        let seen = |block: u64| blocks.range(block..).next().map(|(_, at)| *at);
        let since =
            |block: u64, at: Instant| seen(block).map_or(Duration::ZERO, |seen| at.saturating_duration_since(seen));
        self.confirmed_in.borrow().iter().map(|(block, at)| since(*block, *at)).collect()
    }
}

/// Sends all orders and waits until all intents have ended on chain.
pub(crate) async fn flow(
    setup: &mut BenchSetup,
    orders: Orders,
    flow: Flow,
    tell: &dyn Fn(u64),
) -> Result<Flowed, LoadError> {
    let mut watched = setup.connect_each().await?;
    let before = counts(&mut watched).await?;
    let connections = connect(setup, flow.callers).await?;
    let callers = Rc::new(Callers {
        orders,
        next: Cell::new(flow.first),
        end: flow.first + flow.intents + flow.behind,
        until: None,
        may_reach: Cell::new(flow.first + flow.open_max),
        freed: Notify::new(),
        follow_at: setup.authority(0).to_owned(),
        follow_every: flow.intents.checked_div(flow.followed).map(|every| every.max(1)),
        followers: RefCell::default(),
        accept_times: RefCell::default(),
        confirm_times: RefCell::default(),
        confirmed_in: RefCell::default(),
        blocks: RefCell::default(),
    });
    let endpoint = setup.chain.endpoint.clone();
    let block_reads = async {
        let Some(interval) = flow.block_reads else { return std::future::pending().await };
        match endpoint.connect().await {
            Ok(mut rpc) => {
                let mut record = |block, at| {
                    callers.blocks.borrow_mut().insert(block, at);
                };
                see_blocks(&mut rpc, interval, &mut record).await
            }
            Err(error) => error,
        }
    };
    let driven = async {
        let mut tasks = start(&callers, connections);
        let steady = watch(setup, &mut watched, before, &callers, flow, tell, &mut tasks).await?;
        if flow.behind == 0 {
            join(tasks).await?;
            join(callers.followers.take()).await?;
        }
        Ok::<_, LoadError>(steady)
    };
    let observed = async {
        tokio::select! {
            driven = driven => driven,
            failed = block_reads => Err(failed),
        }
    };
    let (steady, settled) = LocalSet::new().run_until(observed).await?;
    let (accepted, confirmed) = (callers.accept_times.take(), callers.confirm_times.take());
    let from_block = callers.latencies_from_blocks();
    Ok(Flowed {
        accept: Percentiles::of(&accepted),
        confirm: Percentiles::of(&confirmed),
        confirm_from_block: Percentiles::of(&from_block),
        steady,
        settled,
    })
}

/// Sends accepts for a time. Returns the time and the latency of each accept.
pub(crate) async fn accept_for(
    setup: &BenchSetup,
    orders: Orders,
    first: u64,
    callers: u32,
    time: Duration,
) -> Result<(Duration, Vec<Duration>), LoadError> {
    let connections = connect(setup, callers).await?;
    let began = Instant::now();
    let callers = Rc::new(Callers {
        orders,
        next: Cell::new(first),
        end: u64::MAX,
        until: Some(began + time),
        may_reach: Cell::new(u64::MAX),
        freed: Notify::new(),
        follow_at: String::new(),
        follow_every: None,
        followers: RefCell::default(),
        accept_times: RefCell::default(),
        confirm_times: RefCell::default(),
        confirmed_in: RefCell::default(),
        blocks: RefCell::default(),
    });
    LocalSet::new().run_until(async { join(start(&callers, connections)).await }).await?;
    Ok((began.elapsed(), callers.accept_times.take()))
}

async fn connect(setup: &BenchSetup, count: u32) -> Result<Vec<Connection>, LoadError> {
    let mut connections = Vec::new();
    for caller in 0..count as usize {
        connections.push(setup.connect(caller).await?);
    }
    Ok(connections)
}

fn start(callers: &Rc<Callers>, connections: Vec<Connection>) -> JoinSet<Result<(), LoadError>> {
    let mut tasks = JoinSet::new();
    for connection in connections {
        tasks.spawn_local(Rc::clone(callers).call(connection));
    }
    tasks
}

async fn join(mut tasks: JoinSet<Result<(), LoadError>>) -> Result<(), LoadError> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|_| LoadError::Stopped)??;
    }
    Ok(())
}

/// Reads the nodes' progress until all intents have ended. Returns the ends of the steady middle and the number of
/// ends.
async fn watch(
    setup: &mut BenchSetup,
    watched: &mut [Connection],
    before: Counts,
    callers: &Callers,
    flow: Flow,
    tell: &dyn Fn(u64),
    tasks: &mut JoinSet<Result<(), LoadError>>,
) -> Result<((Sample, Sample), u64), LoadError> {
    let (mut progress, mut told) = ((Instant::now(), 0), Instant::now());
    let begun = Sample { at: Instant::now(), counts: before, usage: setup.usage()? };
    let (mut first, mut last): (Option<Sample>, Option<Sample>) = (None, None);
    let share = |part: f64| (flow.intents as f64 * part) as u64;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = counts(watched).await?;
        let done = now.settled.saturating_sub(before.settled);
        callers.may_reach.set(flow.first + done + flow.open_max);
        callers.freed.notify_waiters();
        if first.is_none() && done >= share(flow.steady.0) {
            first = Some(Sample { at: Instant::now(), counts: now, usage: setup.usage()? });
        }
        if last.is_none() && done >= share(flow.steady.1) {
            last = Some(Sample { at: Instant::now(), counts: now, usage: setup.usage()? });
        }
        if done >= flow.intents {
            let ended = Sample { at: Instant::now(), counts: now, usage: setup.usage()? };
            let steady = first.zip(last).filter(|(first, last)| last.at - first.at >= STEADY_MIN);
            return Ok((steady.unwrap_or((begun, ended)), done));
        }
        while let Some(ended) = tasks.try_join_next() {
            ended.map_err(|_| LoadError::Stopped)??;
        }
        setup.check()?;
        if told.elapsed() >= TELL_INTERVAL {
            told = Instant::now();
            tell(done);
        }
        if done > progress.1 {
            progress = (Instant::now(), done);
        } else if progress.0.elapsed() > PATIENCE {
            let (wanted, seconds) = (flow.intents, PATIENCE.as_secs());
            return Err(LoadError::Stalled { done, wanted, seconds, log: setup.node_log() });
        }
    }
}

/// Sends a backlog, a thousand intents per request, without measuring.
pub(crate) async fn fill(setup: &BenchSetup, orders: &Orders, count: u64) -> Result<(), LoadError> {
    let mut connection = setup.connect(0).await?;
    let mut number = 0;
    while number < count {
        let end = count.min(number + BATCH_ITEMS);
        let bodies: Vec<String> = (number..end).map(|number| orders.body(number)).collect();
        let body = format!("{{\"transactions\":[{}]}}", bodies.join(","));
        let answer = connection.post("/api/v1/tx/batch", &body).await.map_err(LoadError::http("a batch"))?;
        let read: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let accepted =
            read["results"].as_array().map_or(0, |all| all.iter().filter(|one| one["status"] == 202).count());
        if answer.status != 200 || accepted != bodies.len() {
            return Err(refused("a batch", &answer));
        }
        number = end;
    }
    Ok(())
}

/// Sends one intent and returns its id.
pub(crate) async fn hand_in(connection: &mut Connection, body: &str) -> Result<String, LoadError> {
    let answer = connection.post(TX_PATH, body).await.map_err(LoadError::http("a request"))?;
    if answer.status != 202 {
        return Err(refused("a request", &answer));
    }
    tx_id(&answer)
}

/// Waits until the API reports CONFIRMED and returns the view.
pub(crate) async fn follow(connection: &mut Connection, id: &str) -> Result<Value, LoadError> {
    let mut path = format!("{TX_PATH}/{id}?wait=30s");
    loop {
        let answer = connection.get(&path).await.map_err(LoadError::http("a look"))?;
        let view: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        match (answer.status, view["state"].as_str()) {
            (200, Some("CONFIRMED")) => return Ok(view),
            (200, Some("QUEUED" | "ALLOCATED" | "TRACKING")) => {}
            _ => return Err(refused("a look", &answer)),
        }
        path = format!("{TX_PATH}/{id}?wait=30s&version={}", view["version"]);
    }
}

/// Records the arrival of each block. Ends only by an error.
pub(crate) async fn see_blocks(rpc: &mut Rpc, interval: Duration, seen: &mut dyn FnMut(u64, Instant)) -> LoadError {
    let mut newest = None;
    loop {
        match rpc.call("eth_blockNumber", json!([])).await {
            Ok(head) => {
                let head = number(&head).unwrap_or(0);
                if newest.is_none_or(|newest| newest < head) {
                    newest = Some(head);
                    seen(head, Instant::now());
                }
            }
            Err(error) => return error,
        }
        tokio::time::sleep(interval).await;
    }
}

/// Sends `pause` or `resume` to every submitter at once and waits for all. One after the other, the first submitters
/// would drain the backlog while the others are asked.
pub(crate) async fn tell_all(setup: &BenchSetup, word: &'static str) -> Result<(), LoadError> {
    let mut tasks = JoinSet::new();
    for account in &setup.accounts {
        let mut connection = setup.connect(0).await?;
        let path = format!("/api/v1/submitters/{}/{word}?wait=30s", setup.submitter(account));
        tasks.spawn(async move {
            let answer = connection.post(&path, "").await.map_err(LoadError::http(word))?;
            if answer.status == 200 { Ok(()) } else { Err(refused(word, &answer)) }
        });
    }
    join(tasks).await
}

/// Fails unless every ended intent is CONFIRMED.
pub(crate) async fn check_confirmed(setup: &BenchSetup) -> Result<(), LoadError> {
    let mut connection = setup.connect(0).await?;
    for state in ["FAILED_FINAL", "CANCELED", "STUCK"] {
        let path = format!("{TX_PATH}?state={state}&limit=100");
        let answer = connection.get(&path).await.map_err(LoadError::http("a list"))?;
        let page: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        match page["items"].as_array() {
            Some(items) if items.is_empty() => {}
            Some(items) => {
                let first = items.first().map(Value::to_string).unwrap_or_default();
                return Err(LoadError::NotConfirmed { count: items.len(), state, first });
            }
            None => return Err(refused("a list", &answer)),
        }
    }
    Ok(())
}

fn tx_id(answer: &crate::http::Answer<'_>) -> Result<String, LoadError> {
    let read: Value = serde_json::from_slice(answer.body).unwrap_or_default();
    let unreadable = || LoadError::Unreadable { what: "a request".to_owned(), text: answer.text() };
    read["txId"].as_str().map(str::to_owned).ok_or_else(unreadable)
}

fn refused(what: &str, answer: &crate::http::Answer<'_>) -> LoadError {
    LoadError::Refused { what: what.to_owned(), status: answer.status, body: answer.text() }
}
