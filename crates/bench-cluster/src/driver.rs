//! Callers, each with one connection and one request at a time, and how far the nodes have come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::LoadError;
use crate::http::Connection;
use crate::metrics::Counts;
use crate::order::Orders;
use crate::percentiles::Percentiles;
use crate::scene::{Scene, Usage, counts};

const TX_PATH: &str = "/api/v1/tx";
/// How often nodes are asked how far they are. Each question costs them something.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How often people are told how far it is.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// So long without anything done is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// The steady middle: from when so much of it is done to when so much is.
pub(crate) const STEADY: (f64, f64) = (0.1, 0.9);
/// The same where windows fill up first, and more is begun than ends.
pub(crate) const STEADY_LATE: (f64, f64) = (0.4, 0.9);
/// A middle that is shorter is none: then the whole is measured, from the first request to the last that has ended.
pub(crate) const STEADY_MIN: Duration = Duration::from_millis(500);
const BATCH_ITEMS: u64 = 1000;

/// What is driven through the nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// The number of the first order; those before it were handed in already.
    pub(crate) first: u64,
    pub(crate) intents: u64,
    pub(crate) callers: u32,
    /// Accepted and not ended, at the most.
    pub(crate) open_max: u64,
    /// So many of them are followed to their end, to time it.
    pub(crate) followed: u64,
    /// So many more are handed in, and not waited for: what is open stays open to the end.
    pub(crate) behind: u64,
    /// What is measured.
    pub(crate) steady: (f64, f64),
}

/// How a flow went.
#[derive(Debug)]
pub(crate) struct Flowed {
    pub(crate) accept: Option<Percentiles>,
    /// From the request to the answer that says CONFIRMED.
    pub(crate) confirm: Option<Percentiles>,
    /// At the ends of the steady middle.
    pub(crate) steady: (Sample, Sample),
    /// How many have ended on chain.
    pub(crate) settled: u64,
}

/// How far things were at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
}

/// What all callers of a flow share.
#[derive(Debug)]
struct Callers {
    orders: Orders,
    next: Cell<u64>,
    end: u64,
    until: Option<Instant>,
    /// Orders below this number may be handed in.
    may_reach: Cell<u64>,
    freed: Notify,
    /// Where those are looked at that are followed to their end, and which ones these are.
    follow_at: String,
    follow_every: Option<u64>,
    followers: RefCell<JoinSet<Result<(), LoadError>>>,
    accept_times: RefCell<Vec<Duration>>,
    confirm_times: RefCell<Vec<Duration>>,
}

impl Callers {
    /// One caller, until there is nothing left to hand in.
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
        follow(&mut connection, &id).await?;
        self.confirm_times.borrow_mut().push(asked.elapsed());
        Ok(())
    }
}

/// Hands in all, and waits until all have ended on chain.
pub(crate) async fn flow(
    scene: &mut Scene,
    orders: Orders,
    flow: Flow,
    tell: &dyn Fn(u64),
) -> Result<Flowed, LoadError> {
    let mut watched = scene.connect_each().await?;
    let before = counts(&mut watched).await?;
    let connections = connect(scene, flow.callers).await?;
    let callers = Rc::new(Callers {
        orders,
        next: Cell::new(flow.first),
        end: flow.first + flow.intents + flow.behind,
        until: None,
        may_reach: Cell::new(flow.first + flow.open_max),
        freed: Notify::new(),
        follow_at: scene.authority(0).to_owned(),
        follow_every: flow.intents.checked_div(flow.followed).map(|every| every.max(1)),
        followers: RefCell::default(),
        accept_times: RefCell::default(),
        confirm_times: RefCell::default(),
    });
    let driven = async {
        let mut tasks = start(&callers, connections);
        let steady = watch(scene, &mut watched, before, &callers, flow, tell, &mut tasks).await?;
        if flow.behind == 0 {
            join(tasks).await?;
            join(callers.followers.take()).await?;
        }
        Ok::<_, LoadError>(steady)
    };
    let (steady, settled) = LocalSet::new().run_until(driven).await?;
    let (accepted, confirmed) = (callers.accept_times.take(), callers.confirm_times.take());
    Ok(Flowed { accept: Percentiles::of(&accepted), confirm: Percentiles::of(&confirmed), steady, settled })
}

/// Accepts alone, for a time: how long it was, and how long each took.
pub(crate) async fn accept_for(
    scene: &Scene,
    orders: Orders,
    first: u64,
    callers: u32,
    time: Duration,
) -> Result<(Duration, Vec<Duration>), LoadError> {
    let connections = connect(scene, callers).await?;
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
    });
    LocalSet::new().run_until(async { join(start(&callers, connections)).await }).await?;
    Ok((began.elapsed(), callers.accept_times.take()))
}

async fn connect(scene: &Scene, count: u32) -> Result<Vec<Connection>, LoadError> {
    let mut connections = Vec::new();
    for caller in 0..count as usize {
        connections.push(scene.connect(caller).await?);
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

/// Looks at the nodes until all have ended; the ends of the steady middle come back, and how many have ended.
async fn watch(
    scene: &mut Scene,
    watched: &mut [Connection],
    before: Counts,
    callers: &Callers,
    flow: Flow,
    tell: &dyn Fn(u64),
    tasks: &mut JoinSet<Result<(), LoadError>>,
) -> Result<((Sample, Sample), u64), LoadError> {
    let (mut progress, mut told) = ((Instant::now(), 0), Instant::now());
    let begun = Sample { at: Instant::now(), counts: before, usage: scene.usage()? };
    let (mut first, mut last): (Option<Sample>, Option<Sample>) = (None, None);
    let share = |part: f64| (flow.intents as f64 * part) as u64;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = counts(watched).await?;
        let done = now.settled.saturating_sub(before.settled);
        callers.may_reach.set(flow.first + done + flow.open_max);
        callers.freed.notify_waiters();
        if first.is_none() && done >= share(flow.steady.0) {
            first = Some(Sample { at: Instant::now(), counts: now, usage: scene.usage()? });
        }
        if last.is_none() && done >= share(flow.steady.1) {
            last = Some(Sample { at: Instant::now(), counts: now, usage: scene.usage()? });
        }
        if done >= flow.intents {
            let ended = Sample { at: Instant::now(), counts: now, usage: scene.usage()? };
            let steady = first.zip(last).filter(|(first, last)| last.at - first.at >= STEADY_MIN);
            return Ok((steady.unwrap_or((begun, ended)), done));
        }
        while let Some(ended) = tasks.try_join_next() {
            ended.map_err(|_| LoadError::Stopped)??;
        }
        scene.check()?;
        if told.elapsed() >= TELL_INTERVAL {
            told = Instant::now();
            tell(done);
        }
        if done > progress.1 {
            progress = (Instant::now(), done);
        } else if progress.0.elapsed() > PATIENCE {
            let (wanted, seconds) = (flow.intents, PATIENCE.as_secs());
            return Err(LoadError::Stalled { done, wanted, seconds, log: scene.node_log() });
        }
    }
}

/// Hands in so many, a thousand at a time: for a backlog, not for a figure.
pub(crate) async fn fill(scene: &Scene, orders: &Orders, count: u64) -> Result<(), LoadError> {
    let mut connection = scene.connect(0).await?;
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

/// Hands in one, and tells its id.
pub(crate) async fn hand_in(connection: &mut Connection, body: &str) -> Result<String, LoadError> {
    let answer = connection.post(TX_PATH, body).await.map_err(LoadError::http("a request"))?;
    if answer.status != 202 {
        return Err(refused("a request", &answer));
    }
    tx_id(&answer)
}

/// Waits until the API says that it is CONFIRMED; its view comes back.
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

/// `pause` or `resume` every submitter, and wait until it is done. All at once: those that were first would work off what waits while the
/// others are asked.
pub(crate) async fn tell_all(scene: &Scene, word: &'static str) -> Result<(), LoadError> {
    let mut tasks = JoinSet::new();
    for account in &scene.accounts {
        let mut connection = scene.connect(0).await?;
        let path = format!("/api/v1/submitters/{}/{word}?wait=30s", scene.submitter(account));
        tasks.spawn(async move {
            let answer = connection.post(&path, "").await.map_err(LoadError::http(word))?;
            if answer.status == 200 { Ok(()) } else { Err(refused(word, &answer)) }
        });
    }
    join(tasks).await
}

/// Fails unless everything that has ended is CONFIRMED.
pub(crate) async fn check_confirmed(scene: &Scene) -> Result<(), LoadError> {
    let mut connection = scene.connect(0).await?;
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
