//! The endpoints of one chain: who is asked, and who is believed.
//!
//! Reads go to the endpoint with the newest head. One that is behind another is not believed: its counts and its "no such
//! receipt" are of the past. A claim of a newer head stands while its endpoint is well, and for [`CLAIM_STANDS`] after. A bare
//! number far above everybody else's is no claim before its endpoint has shown the header ([`MAX_LEAP`]): one endpoint that
//! makes up a number would put all others into the past.
//!
//! Checks, sends and questions for the head run as tasks of this room, so that a slow endpoint is not cut off in the middle, and
//! nobody has to wait for it. They end by their time-outs, or when the chain is dropped.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::{ChainError, Classified, Classifier, EndpointStatus, Failure, Header, Method, Verdict};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::endpoint::{Endpoint, HeadClaim, Standing, now};
use crate::read;

/// How long the slower ones are waited for when one has already answered.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
const CLAIM_STANDS: Duration = Duration::from_secs(30);
/// Blocks that a head may be above all others without being shown. Endpoints that are up to date are never so far apart.
const MAX_LEAP: u64 = 1_000;
/// One more endpoint is asked when the first fails on the road.
const TRIES: usize = 2;
const MAX_TASKS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Member>,
    tasks: Mutex<JoinSet<()>>,
    /// Changes whenever a check ended.
    checked: watch::Sender<()>,
    classifier: Classifier,
}

/// Who gets a transaction, and who should but wants to be left alone now.
#[derive(Debug)]
pub(crate) struct Recipients {
    pub(crate) asked: Vec<Arc<Endpoint>>,
    pub(crate) missed: Vec<Arc<Endpoint>>,
}

#[derive(Debug)]
struct Member {
    endpoint: Arc<Endpoint>,
    /// Held by the task that does it, so that tasks of one kind do not pile up on a slow endpoint.
    checking: Busy,
    asking_head: Busy,
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
    pub(crate) fn new(list: Vec<Arc<Endpoint>>, classifier: Classifier) -> Self {
        let member = |endpoint| Member { endpoint, checking: Busy::default(), asking_head: Busy::default() };
        Endpoints {
            list: list.into_iter().map(member).collect(),
            tasks: Mutex::default(),
            checked: watch::Sender::new(()),
            classifier,
        }
    }

    pub(crate) fn statuses(&self) -> Vec<EndpointStatus> {
        self.list.iter().map(|member| member.endpoint.status()).collect()
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
        for place in self.by_head() {
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
        for place in self.by_head() {
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

    /// The newest head. All are asked, so that everybody's place is known for the reads that follow.
    pub(crate) async fn head(&self) -> Result<Header, ChainError> {
        self.ensure_checked().await;
        let (sender, mut heads) = mpsc::channel(self.list.len().max(1));
        for place in self.by_head() {
            let Some(member) = self.list.get(place) else { continue };
            let Some(busy) = member.asking_head.take() else { continue };
            let (endpoint, sender) = (Arc::clone(&member.endpoint), sender.clone());
            self.spawn(async move {
                let head = read::head(&endpoint).await;
                drop(busy);
                drop(sender.send(head).await);
            });
        }
        drop(sender);
        let mut best: Option<Header> = None;
        let mut last = None;
        let mut until = None;
        while let Some(head) = receive(&mut heads, until).await {
            match head {
                Ok(head) => {
                    if best.is_none_or(|best| head.block.number > best.block.number) {
                        best = Some(head);
                    }
                }
                Err(classified) => last = Some(classified),
            }
            // Somebody told of a newer one before: then the rest is waited for.
            let newest = self.newest_claim(None).unwrap_or_default();
            if best.is_some_and(|best| best.block.number >= newest) {
                until.get_or_insert_with(|| now() + GRACE);
            }
        }
        match (best, self.newest_claim(None)) {
            (Some(best), Some(newest)) if best.block.number < newest => {
                Err(self.failed("only endpoints that lag behind answered"))
            }
            (Some(best), _) => Ok(best),
            // Others are asking already; one answer is enough for us.
            (None, _) if last.is_none() => self.read(|endpoint| async move { read::head(&endpoint).await }).await,
            (None, _) => Err(ChainError { classified: last.unwrap_or_else(|| self.nobody()) }),
        }
    }

    /// Whom a transaction is given to: all that are well, and those that may be well again. If none is, everybody who is not
    /// of another chain.
    pub(crate) fn for_sending(&self, most: usize) -> Recipients {
        let usable = |member: &&Member| match member.endpoint.standing() {
            Standing::Good | Standing::Unchecked | Standing::Down => member.endpoint.is_due(),
            Standing::WrongChain => false,
        };
        let mut places: Vec<usize> = self.by_head();
        places.extend((0..self.list.len()).filter(|place| !places.contains(place)).collect::<Vec<_>>());
        let members: Vec<&Member> = places.iter().filter_map(|place| self.list.get(*place)).collect();
        let (mut chosen, mut rest): (Vec<&Member>, Vec<&Member>) = members.into_iter().partition(usable);
        rest.retain(|member| member.endpoint.standing() != Standing::WrongChain);
        if chosen.is_empty() {
            chosen = std::mem::take(&mut rest);
        }
        // Whoever is wanted no more, since there are enough without it, is not missed.
        rest.truncate(most.saturating_sub(chosen.len()));
        let endpoints =
            |members: Vec<&Member>| members.into_iter().map(|member| Arc::clone(&member.endpoint)).collect::<Vec<_>>();
        chosen.truncate(most);
        Recipients { asked: endpoints(chosen), missed: endpoints(rest) }
    }

    /// Runs something to its end, whoever waits for it; false if too much runs already.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= MAX_TASKS {
            return false;
        }
        tasks.spawn(task);
        true
    }

    pub(crate) fn failed(&self, text: &str) -> ChainError {
        ChainError { classified: self.unreachable(text) }
    }

    pub(crate) fn unreachable(&self, text: &str) -> Classified {
        self.classifier.classify(None, Method::Other, &Failure::Unreachable { text })
    }

    fn nobody(&self) -> Classified {
        let troubles: Vec<String> = self
            .statuses()
            .into_iter()
            .filter_map(|status| Some(format!("{}: {}", status.name, status.trouble?)))
            .collect();
        let why = if troubles.is_empty() { "none is up to date".to_owned() } else { troubles.join("; ") };
        self.unreachable(&format!("no endpoint can be used ({why})"))
    }

    /// The endpoints that are well, the newest first; those that asked to be left alone come last.
    fn by_head(&self) -> Vec<usize> {
        let mut places: Vec<(bool, std::cmp::Reverse<Option<u64>>, usize)> = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, member)| member.endpoint.standing() == Standing::Good)
            .map(|(place, Member { endpoint, .. })| {
                (!endpoint.is_due(), std::cmp::Reverse(endpoint.head().map(|head| head.number)), place)
            })
            .collect();
        places.sort_unstable();
        places.into_iter().map(|(_, _, place)| place).collect()
    }

    async fn best(&self, tried: &[usize]) -> Option<usize> {
        self.ensure_checked().await;
        for place in self.by_head().into_iter().filter(|place| !tried.contains(place)) {
            if self.is_believed(place) {
                return Some(place);
            }
            // What we know of its head may be older than its head.
            let endpoint = Arc::clone(&self.list.get(place)?.endpoint);
            if read::head(&endpoint).await.is_ok() && self.is_believed(place) {
                return Some(place);
            }
        }
        None
    }

    fn is_believed(&self, place: usize) -> bool {
        let own = self.list.get(place).and_then(|member| member.endpoint.head());
        own.is_none_or(|own| self.is_credible(place, own))
            && own.map(|head| head.number) >= self.newest_claim(Some(place))
    }

    /// The newest head that somebody (else) tells of.
    fn newest_claim(&self, except: Option<usize>) -> Option<u64> {
        let others = self.claims().filter(|(place, _)| Some(*place) != except);
        others.filter(|(place, claim)| self.is_credible(*place, *claim)).map(|(_, claim)| claim.number).max()
    }

    fn is_credible(&self, place: usize, claim: HeadClaim) -> bool {
        let others = self.claims().filter(|(other, _)| *other != place).map(|(_, claim)| claim.number).max();
        claim.shown || others.is_none_or(|newest| claim.number <= newest.saturating_add(MAX_LEAP))
    }

    /// Who tells of which head, as far as it stands.
    fn claims(&self) -> impl Iterator<Item = (usize, HeadClaim)> {
        self.list.iter().enumerate().filter_map(|(place, Member { endpoint, .. })| {
            let claim = endpoint.head()?;
            let stands = endpoint.standing() == Standing::Good || claim.heard_at.elapsed() < CLAIM_STANDS;
            stands.then_some((place, claim))
        })
    }

    /// Checks whom nobody knows yet and whoever may be back, and waits only as long as there is nobody to ask.
    async fn ensure_checked(&self) {
        let mut changes = self.checked.subscribe();
        let any_good = || self.list.iter().any(|member| member.endpoint.standing() == Standing::Good);
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
            let wanted = match member.endpoint.standing() {
                Standing::Good => false,
                Standing::Unchecked => true,
                Standing::Down => nobody_is_well || member.endpoint.is_due(),
                Standing::WrongChain => member.endpoint.is_due(),
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
