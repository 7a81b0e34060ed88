//! The endpoints of one chain, and the choice among them.
//!
//! Reads go to the endpoint with the newest head, and in turns where several have it (`rotation`). An endpoint behind
//! another one is not used for the current state: its counts and its missing receipts are of the past. A reported head
//! counts for a while, longer while its endpoint is up. A number far above all others counts only with its header, and
//! not against two others that agree: otherwise one endpoint with invented heads would make all others lag. `ranking`
//! decides all this from a view of each endpoint at one moment. The health for sends is separate (`send_health`): some
//! endpoints read well and take no transactions.
//!
//! Checks, sends and head requests run as tasks of this module. A slow endpoint is not cut off in the middle, and no
//! caller waits for it. Tasks end by their time-outs, or when the chain is dropped.

mod ranking;
mod rotation;
mod send_health;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::{ChainError, Classified, EndpointHealth, EndpointStatus, Header, Reason, Source, Verdict};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use ranking::LagLimits;
pub(crate) use send_health::{SendHealth, takes_no_transactions};

use crate::endpoint::{Connectivity, Endpoint, now};
use crate::{meter, read};
use ranking::{EndpointFacts, EndpointRanking};
use rotation::Rotation;

/// The wait for slower endpoints after the first usable answer.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
/// The interval at which an idle spare endpoint is asked for its head.
const SPARE_HEAD_INTERVAL: Duration = Duration::from_secs(20);
/// The number of endpoints that one read tries.
const TRIES: usize = 2;
/// An endpoint that has been below its highest head for this long starts again from its current one: the chain was
/// rolled back.
const PEAK_RESET: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Member>,
    tasks: Mutex<JoinSet<()>>,
    /// Changes after each check.
    checked: watch::Sender<()>,
    limits: LagLimits,
    rotation: Mutex<Rotation>,
    /// The head that [`Endpoints::head`] returned last.
    last_head: Mutex<Option<Header>>,
}

/// The endpoints for one transaction.
#[derive(Debug)]
pub(crate) struct SendTargets {
    /// The endpoints that can be asked now, the best first.
    pub(crate) ready: Vec<SendTarget>,
    /// The endpoints that should get the transaction and cannot be asked now.
    pub(crate) skipped: Vec<SendTarget>,
}

#[derive(Clone, Debug)]
pub(crate) struct SendTarget {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) sends: Arc<SendHealth>,
}

impl SendTarget {
    pub(crate) fn is_same(&self, other: &SendTarget) -> bool {
        Arc::ptr_eq(&self.endpoint, &other.endpoint)
    }

    /// The endpoint may still give a verdict on a transaction.
    pub(crate) fn may_still_answer(&self) -> bool {
        self.endpoint.may_still_answer() && self.sends.may_still_answer()
    }
}

#[derive(Debug)]
struct Member {
    endpoint: Arc<Endpoint>,
    sends: Arc<SendHealth>,
    /// Held by the task that runs, so that tasks do not pile up on a slow endpoint.
    checking: TaskFlag,
    asking_head: TaskFlag,
    history: Mutex<HeadHistory>,
}

/// The head and health of an endpoint at the last review.
#[derive(Clone, Copy, Debug, Default)]
struct HeadHistory {
    changed_at: Option<Instant>,
    /// The highest head of the endpoint, and the last time it was there.
    peak: Option<(u64, Instant)>,
    overtaken_at: Option<Instant>,
    health: Option<EndpointHealth>,
}

impl HeadHistory {
    /// Notes a head. Returns true if it is above all heads before: only that proves that the chain goes on. An endpoint
    /// that oscillates, or shows another block at the same height, overtakes no other. The first head is no rise.
    fn has_risen_to(&mut self, number: u64, now: Instant) -> bool {
        match self.peak {
            Some((peak, at)) if number < peak && now.duration_since(at) < PEAK_RESET => false,
            before => {
                self.peak = Some((number, now));
                before.is_some_and(|(peak, _)| number > peak)
            }
        }
    }
}

/// A flag that is taken while a second handle exists. Two tasks that take it at the same moment both get it, which
/// costs one extra request.
#[derive(Clone, Debug, Default)]
struct TaskFlag(Arc<()>);

impl TaskFlag {
    fn take(&self) -> Option<TaskFlag> {
        (!self.is_taken()).then(|| self.clone())
    }

    fn is_taken(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Endpoints {
    pub(crate) fn new(list: Vec<Arc<Endpoint>>, limits: LagLimits) -> Self {
        let member = |endpoint| Member {
            endpoint,
            sends: Arc::default(),
            checking: TaskFlag::default(),
            asking_head: TaskFlag::default(),
            history: Mutex::default(),
        };
        Endpoints {
            list: list.into_iter().map(member).collect(),
            tasks: Mutex::default(),
            checked: watch::Sender::new(()),
            limits,
            rotation: Mutex::default(),
            last_head: Mutex::default(),
        }
    }

    pub(crate) fn statuses(&self) -> Vec<EndpointStatus> {
        let ranking = self.ranking();
        let status =
            |(index, member): (usize, &Member)| member.endpoint.status(ranking.health(index), ranking.lag(index));
        self.list.iter().enumerate().map(status).collect()
    }

    /// Asks the best endpoint, and another one if it fails.
    pub(crate) async fn read<T, F, A>(&self, ask: F) -> Result<T, ChainError>
    where
        F: Fn(Arc<Endpoint>) -> A,
        A: Future<Output = Result<T, Classified>>,
    {
        let mut tried = Vec::new();
        let mut last = None;
        while tried.len() < TRIES {
            let Some(index) = self.best(&tried).await else { break };
            tried.push(index);
            let Some(member) = self.list.get(index) else { break };
            match ask(Arc::clone(&member.endpoint)).await {
                Ok(answer) => return Ok(answer),
                // A revert is a property of the call. Every endpoint would return it.
                Err(classified) if classified.verdict == Verdict::Reverted => return Err(ChainError { classified }),
                Err(classified) => last = Some(classified),
            }
        }
        Err(ChainError { classified: last.unwrap_or_else(|| self.no_endpoint()) })
    }

    /// Asks one endpoint after the other until one has the item. Only for items that are named by their hash: even an
    /// endpoint that lags has the right one.
    pub(crate) async fn find<T, F, A>(&self, ask: F) -> Result<Option<T>, ChainError>
    where
        F: Fn(Arc<Endpoint>) -> A,
        A: Future<Output = Result<Option<T>, Classified>>,
    {
        self.ensure_checked().await;
        let mut is_answered = false;
        let mut last = None;
        for index in self.in_turn(self.ranking().for_finding()) {
            let Some(member) = self.list.get(index) else { continue };
            match ask(Arc::clone(&member.endpoint)).await {
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) => is_answered = true,
                Err(classified) => last = Some(classified),
            }
        }
        if is_answered { Ok(None) } else { Err(ChainError { classified: last.unwrap_or_else(|| self.no_endpoint()) }) }
    }

    /// Asks for several items by hash. Each endpoint is asked for the items that the endpoints before did not have.
    pub(crate) async fn find_each<T, F, A>(&self, hashes: &[B256], ask: F) -> Result<Vec<Option<T>>, ChainError>
    where
        F: Fn(Arc<Endpoint>, Vec<B256>) -> A,
        A: Future<Output = Result<Vec<Option<T>>, Classified>>,
    {
        let mut found: Vec<Option<T>> = std::iter::repeat_with(|| None).take(hashes.len()).collect();
        if hashes.is_empty() {
            return Ok(found);
        }
        self.ensure_checked().await;
        let mut answered = false;
        let mut last = None;
        for index in self.in_turn(self.ranking().for_finding()) {
            let Some(member) = self.list.get(index) else { continue };
            let open: Vec<usize> = (0..found.len()).filter(|at| matches!(found.get(*at), Some(None))).collect();
            if open.is_empty() {
                break;
            }
            let asked = open.iter().filter_map(|at| hashes.get(*at).copied()).collect();
            match ask(Arc::clone(&member.endpoint), asked).await {
                Ok(answers) => {
                    answered = true;
                    for (at, answer) in open.into_iter().zip(answers) {
                        if let Some(slot) = found.get_mut(at) {
                            *slot = answer;
                        }
                    }
                }
                Err(classified) => last = Some(classified),
            }
        }
        if answered { Ok(found) } else { Err(ChainError { classified: last.unwrap_or_else(|| self.no_endpoint()) }) }
    }

    /// All good endpoints, for questions that need every one of them.
    pub(crate) async fn good(&self) -> Vec<Arc<Endpoint>> {
        self.ensure_checked().await;
        let ranking = self.ranking();
        let is_good = |index: usize| ranking.is_usable(index) && ranking.health(index) == EndpointHealth::Good;
        let good = self.list.iter().enumerate().filter(|(index, _)| is_good(*index));
        good.map(|(_, member)| Arc::clone(&member.endpoint)).collect()
    }

    /// The hash of the head that [`Endpoints::head`] returned last.
    pub(crate) fn last_head(&self) -> Option<B256> {
        locked(&self.last_head).map(|head| head.block.hash)
    }

    /// The newest head. All endpoints are asked, so that their heads are known for the reads that follow.
    pub(crate) async fn head(&self) -> Result<Header, ChainError> {
        self.ensure_checked().await;
        let (sender, mut heads) = mpsc::channel(self.list.len().max(1));
        for index in self.ranking().for_heads(SPARE_HEAD_INTERVAL) {
            let Some(member) = self.list.get(index) else { continue };
            let Some(flag) = member.asking_head.take() else { continue };
            let (endpoint, sender) = (Arc::clone(&member.endpoint), sender.clone());
            self.spawn(async move {
                let head = read::head(&endpoint).await;
                drop(flag);
                drop(sender.send((index, head)).await);
            });
        }
        drop(sender);
        let mut answers: Vec<(usize, Header)> = Vec::new();
        let mut last = None;
        let mut until = None;
        while let Some((index, head)) = receive(&mut heads, until).await {
            match head {
                Ok(head) => answers.push((index, head)),
                Err(classified) => last = Some(classified),
            }
            // If another endpoint has reported a newer head, its answer is awaited.
            let ranking = self.ranking();
            let newest = ranking.newest().unwrap_or_default();
            if answers.iter().any(|(index, head)| head.block.number >= newest && ranking.is_plausible(*index)) {
                until.get_or_insert_with(|| now() + GRACE);
            }
        }
        self.review();
        if answers.is_empty() && last.is_none() {
            // Another call is asking all endpoints already. One answer is enough here.
            return self.read(|endpoint| async move { read::head(&endpoint).await }).await;
        }
        match (self.newest_of(&answers), last) {
            (Some(head), _) => Ok(head),
            (None, Some(classified)) if answers.is_empty() => Err(ChainError { classified }),
            (None, _) => Err(failed("only endpoints that lag or have an incredible head answered")),
        }
    }

    /// The newest credible head. Of two blocks at one height it is the one that was returned last, else the one that
    /// extends it: endpoints on two forks must not make the head jump between them.
    fn newest_of(&self, answers: &[(usize, Header)]) -> Option<Header> {
        let ranking = self.ranking();
        let readable = ranking.for_reading();
        let newest = ranking.newest().unwrap_or_default();
        let is_credible = |index| readable.contains(&index) && ranking.is_plausible(index);
        let credible = answers.iter().filter(|(index, head)| is_credible(*index) && head.block.number >= newest);
        let mut last = locked(&self.last_head);
        let before = last.map(|last| last.block.hash);
        let rank = |head: &Header| {
            let is_last = Some(head.block.hash) == before;
            let extends_last = Some(head.parent_hash) == before;
            (head.block.number, is_last, extends_last)
        };
        // Among equals the first answer wins.
        let head =
            credible.map(|(_, head)| *head).reduce(|best, head| if rank(&head) > rank(&best) { head } else { best });
        if head.is_some() {
            *last = head;
        }
        head
    }

    /// Notes which heads changed, and reports changes of endpoint health.
    fn review(&self) {
        let now = now();
        let (mut risen, mut still) = (Vec::new(), Vec::new());
        for (index, member) in self.list.iter().enumerate() {
            let head = member.endpoint.view().head;
            let changed_at = head.map(|head| head.changed_at);
            let mut history = locked(&member.history);
            if head.is_some_and(|head| history.has_risen_to(head.number, now)) {
                risen.push(index);
            }
            if changed_at == history.changed_at {
                still.push(member);
            } else {
                (history.changed_at, history.overtaken_at) = (changed_at, None);
            }
        }
        let ranking = self.ranking();
        if risen.into_iter().any(|index| ranking.has_credible_head(index)) {
            for member in still {
                locked(&member.history).overtaken_at.get_or_insert(now);
            }
        }
        for (member, status) in self.list.iter().zip(self.statuses()) {
            let before = locked(&member.history).health.replace(status.health);
            meter::endpoint_status(member.endpoint.chain(), &status);
            if before.is_some_and(|before| before != status.health) {
                meter::endpoint_status_changed(member.endpoint.chain(), &status);
            }
        }
    }

    /// The endpoints for a transaction: all that are up or may be up again. If none is, all that are not on another
    /// chain and have not asked for a pause. `max` are wanted at once; the others stand in for them.
    pub(crate) fn for_sending(&self, max: usize) -> SendTargets {
        let (ready, mut skipped) = self.ranking().for_sending();
        // A skipped endpoint is not awaited if there are enough others.
        skipped.truncate(max.saturating_sub(ready.len()));
        let target =
            |member: &Member| SendTarget { endpoint: Arc::clone(&member.endpoint), sends: Arc::clone(&member.sends) };
        let targets =
            |indexes: Vec<usize>| indexes.into_iter().filter_map(|index| self.list.get(index).map(target)).collect();
        SendTargets { ready: targets(ready), skipped: targets(skipped) }
    }

    /// Runs a task to its end, even if its caller is dropped. The number of tasks is limited for each endpoint: one
    /// check, one head request, and as many broadcasts as `SendHealth` permits.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// The failure of a request for which no endpoint can be used.
    pub(crate) fn no_endpoint(&self) -> Classified {
        let statuses = self.statuses();
        let errors: Vec<String> = statuses
            .iter()
            .filter_map(|status| Some(format!("{}: {}", status.name, status.last_error.as_deref()?)))
            .collect();
        let why = if errors.is_empty() { "none is up to date".to_owned() } else { errors.join("; ") };
        let text = format!("no endpoint can be used ({why})");
        let is_rate_limited = |status: &EndpointStatus| status.health == EndpointHealth::RateLimited;
        let is_on_other_chain = |status: &EndpointStatus| status.health == EndpointHealth::WrongChain;
        if statuses.iter().any(is_rate_limited)
            && statuses.iter().all(|status| is_rate_limited(status) || is_on_other_chain(status))
        {
            return without_verdict(Reason::RateLimited, &text);
        }
        without_verdict(Reason::Unreachable, &text)
    }

    fn ranking(&self) -> EndpointRanking {
        let facts = |member: &Member| EndpointFacts {
            view: member.endpoint.view(),
            overtaken_at: locked(&member.history).overtaken_at,
            takes_sends: !member.sends.is_paused(),
        };
        EndpointRanking::new(now(), self.limits, self.list.iter().map(facts).collect(), self.last_head())
    }

    /// Moves the endpoint whose turn it is among the best to the front of a ranked list.
    fn in_turn(&self, mut ranked: Vec<usize>) -> Vec<usize> {
        let equals = self.ranking().equals(&ranked);
        if let Some(chosen) = locked(&self.rotation).turn(&equals)
            && let Some(at) = ranked.iter().position(|index| *index == chosen)
        {
            ranked.remove(at);
            ranked.insert(0, chosen);
        }
        ranked
    }

    async fn best(&self, tried: &[usize]) -> Option<usize> {
        self.ensure_checked().await;
        let mut ranked = self.ranking().for_reading();
        ranked.retain(|index| !tried.contains(index));
        for index in self.in_turn(ranked) {
            if self.ranking().is_up_to_date(index) {
                return Some(index);
            }
            // Its head may be newer than its last report.
            let endpoint = Arc::clone(&self.list.get(index)?.endpoint);
            if read::head(&endpoint).await.is_ok() && self.ranking().is_up_to_date(index) {
                return Some(index);
            }
        }
        None
    }

    /// Starts the checks that are due. Waits for them only while no endpoint can be asked.
    async fn ensure_checked(&self) {
        let mut changes = self.checked.subscribe();
        let any_askable = || {
            let ranking = self.ranking();
            (0..self.list.len()).any(|index| ranking.is_askable(index))
        };
        self.start_checks(!any_askable());
        while !any_askable() && self.list.iter().any(|member| member.checking.is_taken()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
        // Other endpoints may be ahead of the first one that answered. They are awaited once, at the start.
        let until = now() + GRACE;
        let is_first =
            |member: &Member| member.endpoint.connectivity() == Connectivity::Unchecked && member.checking.is_taken();
        while self.list.iter().any(is_first) {
            if !changed_until(&mut changes, until).await {
                return;
            }
        }
    }

    fn start_checks(&self, none_is_askable: bool) {
        for member in &self.list {
            let view = member.endpoint.view();
            let wanted = match view.connectivity {
                _ if view.has_retry_after => false,
                Connectivity::Up => view.is_check_due,
                Connectivity::Unchecked => true,
                Connectivity::Down => none_is_askable || view.is_retry_due,
                Connectivity::WrongChain => view.is_retry_due,
            };
            let Some(flag) = member.checking.take().filter(|_| wanted) else { continue };
            let (endpoint, checked) = (Arc::clone(&member.endpoint), self.checked.clone());
            self.spawn(async move {
                endpoint.check().await;
                drop(flag);
                checked.send_replace(());
            });
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn failed(text: &str) -> ChainError {
    ChainError { classified: without_verdict(Reason::Unreachable, text) }
}

/// A failure of our own, without a verdict. Its text is not classified, because it may repeat foreign texts about other
/// requests.
pub(crate) fn without_verdict(reason: Reason, text: &str) -> Classified {
    Classified::new(reason, Source::NoRule, text)
}

/// The next message, or `None` if the channel is closed or the time is up.
pub(crate) async fn receive<T>(messages: &mut mpsc::Receiver<T>, until: Option<Instant>) -> Option<T> {
    match until {
        None => messages.recv().await,
        Some(until) => tokio::time::timeout_at(until, messages.recv()).await.ok().flatten(),
    }
}

async fn changed_until(changes: &mut watch::Receiver<()>, until: Instant) -> bool {
    matches!(tokio::time::timeout_at(until, changes.changed()).await, Ok(Ok(())))
}
