//! The endpoints of one chain: who is asked, and who is believed.
//!
//! Reads go to the endpoint with the newest head, and by turns where several have it (`rotation`). One that is behind another is
//! not believed: its counts and its "no such receipt" are of the past. A claim of a newer head stands for a while after it was
//! heard, longer while its endpoint is well. A number far above everybody else's is no claim before its endpoint has shown the
//! header, and none against two others that agree: one endpoint that makes up heads would put all others into the past. All
//! this is decided in `outlook`, from what is seen of each at one moment. Who is given transactions is a matter of its own
//! (`sends`): some read well and take none.
//!
//! Checks, sends and questions for the head run as tasks of this room, so that a slow endpoint is not cut off in the middle, and
//! nobody has to wait for it. They end by their time-outs, or when the chain is dropped.

mod outlook;
mod rotation;
mod sends;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::{ChainError, Classified, EndpointHealth, EndpointStatus, Header, Reason, Source, Verdict};
use gapless_domain::NodeText;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use outlook::LagTerms;
pub(crate) use sends::{Sends, had_no_part};

use crate::endpoint::{Endpoint, Standing, now};
use crate::{meter, read};
use outlook::{Outlook, Seen};
use rotation::Rotation;

/// How long the slower ones are waited for when one has already answered.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
/// How often one that is only for need is asked where its head is.
const SPARE_LOOK: Duration = Duration::from_secs(20);
/// One more endpoint is asked when the first fails on the road.
const TRIES: usize = 2;
/// An endpoint that has been below its highest head for so long begins anew: the chain has gone back.
const PEAK_FORGOTTEN: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Member>,
    tasks: Mutex<JoinSet<()>>,
    /// Changes whenever a check ended.
    checked: watch::Sender<()>,
    terms: LagTerms,
    rotation: Mutex<Rotation>,
    /// The head that was told last.
    told: Mutex<Option<Header>>,
}

/// Who gets a transaction, the best first, and who should but wants to be left alone now.
#[derive(Debug)]
pub(crate) struct Recipients {
    pub(crate) asked: Vec<Recipient>,
    pub(crate) missed: Vec<Recipient>,
}

#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) sends: Arc<Sends>,
}

impl Recipient {
    pub(crate) fn is(&self, other: &Recipient) -> bool {
        Arc::ptr_eq(&self.endpoint, &other.endpoint)
    }

    /// It may yet say something on a transaction.
    pub(crate) fn may_speak_soon(&self) -> bool {
        self.endpoint.may_speak_soon() && self.sends.may_speak_soon()
    }
}

#[derive(Debug)]
struct Member {
    endpoint: Arc<Endpoint>,
    sends: Arc<Sends>,
    /// Held by the task that does it, so that tasks of one kind do not pile up on a slow endpoint.
    checking: Busy,
    asking_head: Busy,
    watch: Mutex<Watch>,
}

/// How an endpoint was at the last review.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    moved_at: Option<Instant>,
    /// The highest head that it showed, and when it last was there.
    peak: Option<(u64, Instant)>,
    overtaken_at: Option<Instant>,
    standing: Option<EndpointHealth>,
}

impl Watch {
    /// It shows a head above all that it showed before: only that proves that the chain goes on. One that goes to and fro, or
    /// shows another block of the same height, overtakes nobody. The first head that is heard of is no rise.
    fn has_risen_to(&mut self, number: u64, now: Instant) -> bool {
        match self.peak {
            Some((peak, at)) if number < peak && now.duration_since(at) < PEAK_FORGOTTEN => false,
            before => {
                self.peak = Some((number, now));
                before.is_some_and(|(peak, _)| number > peak)
            }
        }
    }
}

/// Somebody has it while there is a second handle on it. Two that take it in the same moment both get it, which costs one
/// question.
#[derive(Clone, Debug, Default)]
struct Busy(Arc<()>);

impl Busy {
    fn take(&self) -> Option<Busy> {
        (!self.is_taken()).then(|| self.clone())
    }

    fn is_taken(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Endpoints {
    pub(crate) fn new(list: Vec<Arc<Endpoint>>, terms: LagTerms) -> Self {
        let member = |endpoint| Member {
            endpoint,
            sends: Arc::default(),
            checking: Busy::default(),
            asking_head: Busy::default(),
            watch: Mutex::default(),
        };
        Endpoints {
            list: list.into_iter().map(member).collect(),
            tasks: Mutex::default(),
            checked: watch::Sender::new(()),
            terms,
            rotation: Mutex::default(),
            told: Mutex::default(),
        }
    }

    pub(crate) fn statuses(&self) -> Vec<EndpointStatus> {
        let outlook = self.outlook();
        let status =
            |(place, member): (usize, &Member)| member.endpoint.status(outlook.standing(place), outlook.lag(place));
        self.list.iter().enumerate().map(status).collect()
    }

    /// Asks the best endpoint, and another one if that fails.
    pub(crate) async fn read<T, F, A>(&self, ask: F) -> Result<T, ChainError>
    where
        F: Fn(Arc<Endpoint>) -> A,
        A: Future<Output = Result<T, Classified>>,
    {
        let mut tried = Vec::new();
        let mut last = None;
        while tried.len() < TRIES {
            let Some(place) = self.best(&tried).await else { break };
            tried.push(place);
            let Some(member) = self.list.get(place) else { break };
            match ask(Arc::clone(&member.endpoint)).await {
                Ok(answer) => return Ok(answer),
                // The call's own doing: it would be the same everywhere.
                Err(classified) if classified.verdict == Verdict::Reverted => return Err(ChainError { classified }),
                Err(classified) => last = Some(classified),
            }
        }
        Err(ChainError { classified: last.unwrap_or_else(|| self.nobody()) })
    }

    /// Asks one endpoint after the other until one knows. Only for what is named by its hash: whoever has it, has the right
    /// one, however far behind.
    pub(crate) async fn find<T, F, A>(&self, ask: F) -> Result<Option<T>, ChainError>
    where
        F: Fn(Arc<Endpoint>) -> A,
        A: Future<Output = Result<Option<T>, Classified>>,
    {
        self.ensure_checked().await;
        let mut known_to_nobody = false;
        let mut last = None;
        for place in self.in_turn(self.outlook().for_finding()) {
            let Some(member) = self.list.get(place) else { continue };
            match ask(Arc::clone(&member.endpoint)).await {
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) => known_to_nobody = true,
                Err(classified) => last = Some(classified),
            }
        }
        if known_to_nobody { Ok(None) } else { Err(ChainError { classified: last.unwrap_or_else(|| self.nobody()) }) }
    }

    /// The same for many things at once: whatever the first does not know, the next is asked for.
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
        for place in self.in_turn(self.outlook().for_finding()) {
            let Some(member) = self.list.get(place) else { continue };
            let open: Vec<usize> = (0..found.len()).filter(|at| matches!(found.get(*at), Some(None))).collect();
            if open.is_empty() {
                break;
            }
            let asked = open.iter().filter_map(|at| hashes.get(*at).copied()).collect();
            match ask(Arc::clone(&member.endpoint), asked).await {
                Ok(answers) => {
                    answered = true;
                    for (at, answer) in open.into_iter().zip(answers) {
                        if let Some(place) = found.get_mut(at) {
                            *place = answer;
                        }
                    }
                }
                Err(classified) => last = Some(classified),
            }
        }
        if answered { Ok(found) } else { Err(ChainError { classified: last.unwrap_or_else(|| self.nobody()) }) }
    }

    /// Everybody who is asked and believed, for what only all together can tell.
    pub(crate) async fn good(&self) -> Vec<Arc<Endpoint>> {
        self.ensure_checked().await;
        let outlook = self.outlook();
        let is_good = |place: usize| outlook.is_usable(place) && outlook.standing(place) == EndpointHealth::Good;
        let good = self.list.iter().enumerate().filter(|(place, _)| is_good(*place));
        good.map(|(_, member)| Arc::clone(&member.endpoint)).collect()
    }

    /// The head that was told last, if any was.
    pub(crate) fn told(&self) -> Option<B256> {
        locked(&self.told).map(|told| told.block.hash)
    }

    /// The newest head. All are asked, so that everybody's place is known for the reads that follow.
    pub(crate) async fn head(&self) -> Result<Header, ChainError> {
        self.ensure_checked().await;
        let (sender, mut heads) = mpsc::channel(self.list.len().max(1));
        for place in self.outlook().for_heads(SPARE_LOOK) {
            let Some(member) = self.list.get(place) else { continue };
            let Some(busy) = member.asking_head.take() else { continue };
            let (endpoint, sender) = (Arc::clone(&member.endpoint), sender.clone());
            self.spawn(async move {
                let head = read::head(&endpoint).await;
                drop(busy);
                drop(sender.send((place, head)).await);
            });
        }
        drop(sender);
        let mut answers: Vec<(usize, Header)> = Vec::new();
        let mut last = None;
        let mut until = None;
        while let Some((place, head)) = receive(&mut heads, until).await {
            match head {
                Ok(head) => answers.push((place, head)),
                Err(classified) => last = Some(classified),
            }
            // Somebody told of a newer one before: then the rest is waited for.
            let outlook = self.outlook();
            let newest = outlook.newest().unwrap_or_default();
            if answers.iter().any(|(place, head)| head.block.number >= newest && outlook.is_plausible(*place)) {
                until.get_or_insert_with(|| now() + GRACE);
            }
        }
        self.review();
        if answers.is_empty() && last.is_none() {
            // Others are asking already; one answer is enough for us.
            return self.read(|endpoint| async move { read::head(&endpoint).await }).await;
        }
        match (self.newest_of(&answers), last) {
            (Some(head), _) => Ok(head),
            (None, Some(classified)) if answers.is_empty() => Err(ChainError { classified }),
            (None, _) => Err(failed("only endpoints that lag behind or are not believed answered")),
        }
    }

    /// The newest head of those that are believed. Of two blocks of one height it is the one that we are on already, else the one
    /// that goes on from there: endpoints on two forks do not make us jump to and fro.
    fn newest_of(&self, answers: &[(usize, Header)]) -> Option<Header> {
        let outlook = self.outlook();
        let readable = outlook.for_reading();
        let newest = outlook.newest().unwrap_or_default();
        let is_believed = |place| readable.contains(&place) && outlook.is_plausible(place);
        let believed = answers.iter().filter(|(place, head)| is_believed(*place) && head.block.number >= newest);
        let mut told = locked(&self.told);
        let before = told.map(|told| told.block.hash);
        let rank = |head: &Header| {
            let is_ours = Some(head.block.hash) == before;
            let goes_on = Some(head.parent_hash) == before;
            (head.block.number, is_ours, goes_on)
        };
        // The first of equals: the one that answered first.
        let head =
            believed.map(|(_, head)| *head).reduce(|best, head| if rank(&head) > rank(&best) { head } else { best });
        if head.is_some() {
            *told = head;
        }
        head
    }

    /// Notes whose head has moved and whose has not, and reports who stands otherwise than before.
    fn review(&self) {
        let now = now();
        let (mut risen, mut still) = (Vec::new(), Vec::new());
        for (place, member) in self.list.iter().enumerate() {
            let head = member.endpoint.sight().head;
            let moved_at = head.map(|head| head.moved_at);
            let mut watch = locked(&member.watch);
            if head.is_some_and(|head| watch.has_risen_to(head.number, now)) {
                risen.push(place);
            }
            if moved_at == watch.moved_at {
                still.push(member);
            } else {
                (watch.moved_at, watch.overtaken_at) = (moved_at, None);
            }
        }
        let outlook = self.outlook();
        if risen.into_iter().any(|place| outlook.is_heeded(place)) {
            for member in still {
                locked(&member.watch).overtaken_at.get_or_insert(now);
            }
        }
        for (member, status) in self.list.iter().zip(self.statuses()) {
            let before = locked(&member.watch).standing.replace(status.standing);
            meter::standing(member.endpoint.chain(), &status);
            if before.is_some_and(|before| before != status.standing) {
                meter::stands_otherwise(member.endpoint.chain(), &status);
            }
        }
    }

    /// Whom a transaction is given to: all that are well, and those that may be well again. If none is, everybody who is not
    /// of another chain and has not asked to be left alone. `most` are wanted at once; the others stand in for them.
    pub(crate) fn for_sending(&self, most: usize) -> Recipients {
        let (asked, mut missed) = self.outlook().for_sending();
        // Whoever is wanted no more, since there are enough without it, is not missed.
        missed.truncate(most.saturating_sub(asked.len()));
        let recipient =
            |member: &Member| Recipient { endpoint: Arc::clone(&member.endpoint), sends: Arc::clone(&member.sends) };
        let recipients =
            |places: Vec<usize>| places.into_iter().filter_map(|place| self.list.get(place).map(recipient)).collect();
        Recipients { asked: recipients(asked), missed: recipients(missed) }
    }

    /// Runs something to its end, whoever waits for it. How much runs is limited for each endpoint by itself: one check, one
    /// question for its head, and as many broadcasts as `Sends` has places.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// There is nobody to ask.
    pub(crate) fn nobody(&self) -> Classified {
        let statuses = self.statuses();
        let troubles: Vec<String> = statuses
            .iter()
            .filter_map(|status| Some(format!("{}: {}", status.name, status.trouble.as_deref()?)))
            .collect();
        let why = if troubles.is_empty() { "none is up to date".to_owned() } else { troubles.join("; ") };
        let text = format!("no endpoint can be used ({why})");
        let wants_a_pause = |status: &EndpointStatus| status.standing == EndpointHealth::RateLimited;
        if statuses.iter().any(wants_a_pause)
            && statuses.iter().all(|status| wants_a_pause(status) || is_foreign(status))
        {
            return without_verdict(Reason::RateLimited, &text);
        }
        without_verdict(Reason::Unreachable, &text)
    }

    fn outlook(&self) -> Outlook {
        let seen = |member: &Member| Seen {
            sight: member.endpoint.sight(),
            overtaken_at: locked(&member.watch).overtaken_at,
            takes_sends: !member.sends.is_paused(),
        };
        Outlook { now: now(), terms: self.terms, all: self.list.iter().map(seen).collect(), told: self.told() }
    }

    /// A ranked list with the one in front whose turn it is among the best.
    fn in_turn(&self, mut ranked: Vec<usize>) -> Vec<usize> {
        let equals = self.outlook().equals(&ranked);
        if let Some(chosen) = locked(&self.rotation).turn(&equals)
            && let Some(at) = ranked.iter().position(|place| *place == chosen)
        {
            ranked.remove(at);
            ranked.insert(0, chosen);
        }
        ranked
    }

    async fn best(&self, tried: &[usize]) -> Option<usize> {
        self.ensure_checked().await;
        let mut ranked = self.outlook().for_reading();
        ranked.retain(|place| !tried.contains(place));
        for place in self.in_turn(ranked) {
            if self.outlook().is_believed(place) {
                return Some(place);
            }
            // What we know of its head may be older than its head.
            let endpoint = Arc::clone(&self.list.get(place)?.endpoint);
            if read::head(&endpoint).await.is_ok() && self.outlook().is_believed(place) {
                return Some(place);
            }
        }
        None
    }

    /// Checks whom nobody knows yet and whoever may be back, and waits only as long as there is nobody to ask.
    async fn ensure_checked(&self) {
        let mut changes = self.checked.subscribe();
        let any_good = || {
            let outlook = self.outlook();
            (0..self.list.len()).any(|place| outlook.is_askable(place))
        };
        self.start_checks(!any_good());
        while !any_good() && self.list.iter().any(|member| member.checking.is_taken()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
        // The others may be ahead of the first one that answered; this is waited for once, at the beginning.
        let until = now() + GRACE;
        let is_first =
            |member: &Member| member.endpoint.standing() == Standing::Unchecked && member.checking.is_taken();
        while self.list.iter().any(is_first) {
            if !changed_until(&mut changes, until).await {
                return;
            }
        }
    }

    fn start_checks(&self, nobody_is_well: bool) {
        for member in &self.list {
            let sight = member.endpoint.sight();
            let wanted = match sight.standing {
                _ if sight.is_barred => false,
                Standing::Good => sight.is_check_due,
                Standing::Unchecked => true,
                Standing::Down => nobody_is_well || sight.is_due,
                Standing::WrongChain => sight.is_due,
            };
            let Some(busy) = member.checking.take().filter(|_| wanted) else { continue };
            let (endpoint, checked) = (Arc::clone(&member.endpoint), self.checked.clone());
            self.spawn(async move {
                endpoint.check().await;
                drop(busy);
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

/// Our own word on what reached nobody. Its reason is ours: the text may repeat what strangers said of something else, and
/// nothing is to be read out of that.
pub(crate) fn without_verdict(reason: Reason, text: &str) -> Classified {
    let text = NodeText::new(text);
    Classified { verdict: reason.verdict(), reason, source: Source::Nobody, text, revert_data: None }
}

fn is_foreign(status: &EndpointStatus) -> bool {
    status.standing == EndpointHealth::WrongChain
}

/// The next message, or `None` when there is none any more or the time is up.
pub(crate) async fn receive<T>(messages: &mut mpsc::Receiver<T>, until: Option<Instant>) -> Option<T> {
    match until {
        None => messages.recv().await,
        Some(until) => tokio::time::timeout_at(until, messages.recv()).await.ok().flatten(),
    }
}

async fn changed_until(changes: &mut watch::Receiver<()>, until: Instant) -> bool {
    matches!(tokio::time::timeout_at(until, changes.changed()).await, Ok(Ok(())))
}
