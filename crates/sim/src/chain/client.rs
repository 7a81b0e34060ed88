//! The `Chain` of one process: chooses the endpoints to ask, and injects the faults of requests.

use std::fmt;
use std::future::pending;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use gapless_chain::{
    AccountView, Chain, ChainError, ChainPricer, ChainReader, ChainSender, EndpointHealth, EndpointStatus, FeeQuote,
    Header, HeaderAt, Reason, Receipt, Revert, SendAnswer, SentInBlock, UnreadableTx, Wanted,
};
use gapless_domain::{
    Action, Amount, B256, BlockRef, Bytes, ChainId, ChainRules, DiagnoseRequest, Fees, MempoolSignal, NodeText, Nonce,
    OwnerId, SignedPlan, SignedTx, SubmitterId, Work,
};

use super::block_tree::BlockId;
use super::calls::{data_of, rules};
use super::endpoint::{EndpointCondition, name_of};
use super::pool::PoolRefusal;
use super::signed::{self, gas_of, narrow};
use super::state::ChainState;
use super::texts::{self, RequestFailure};
use super::{ChainWorld, lock};
use crate::fault::{Fault, Faults};
use crate::history::{History, Moment, effect_of};
use crate::net::Net;

/// The margin of measured work over the gas that a call uses.
const MARGIN_PERMILLE: u64 = 1200;
/// The time-out of every request.
const TIME_OUT: Duration = Duration::from_secs(5);
/// The travel time of a slow request. It arrives, also after the time-out.
const SLOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));
/// The time for which an endpoint that did not answer is avoided.
const AVOIDED_FOR: Duration = Duration::from_secs(3);
/// The share of new-head hints that are lost, and the share of processes that never get one, in a thousand.
const HINT_LOST: u32 = 100;
const NO_HINTS: u32 = 200;

/// The priority fee of each speed.
const TIPS: [u128; 4] = [100_000_000, 200_000_000, 300_000_000, 500_000_000];

pub(super) type EndpointResult<T> = Result<T, RequestFailure>;

pub(super) struct ChainClient {
    pub(super) world: Arc<ChainWorld>,
    pub(super) net: Net,
    pub(super) faults: Faults,
    pub(super) history: History,
    pub(super) owner: OwnerId,
    gets_hints: bool,
    /// The only endpoint that this process reads from; `None` if it reads from all.
    reads_from: Option<usize>,
    tracked: Mutex<Vec<TrackedEndpoint>>,
}

/// The knowledge of this process about an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct TrackedEndpoint {
    head: Option<BlockRef>,
    head_since: Duration,
    avoided_until: Duration,
    asked: u32,
    failed: u32,
}

/// The chain as one endpoint shows it, while it serves one request.
pub(super) struct EndpointChain<'a> {
    pub(super) state: &'a mut ChainState,
    pub(super) endpoint: usize,
    pub(super) head: BlockId,
    pub(super) faults: Faults,
    pub(super) history: History,
}

impl ChainClient {
    pub(super) fn new(world: Arc<ChainWorld>, net: Net, faults: Faults, history: History, owner: OwnerId) -> Self {
        let count = world.enter(|state, _| state.endpoints.len());
        let gets_hints = !net.roll(|dice| dice.permille(NO_HINTS));
        ChainClient {
            world,
            net,
            faults,
            history,
            owner,
            gets_hints,
            reads_from: None,
            tracked: Mutex::new(vec![TrackedEndpoint::default(); count]),
        }
    }

    /// The client of a node that reads from one endpoint only.
    pub(super) fn reading_from_one(self, node: usize) -> Self {
        let reads_from = node.checked_rem(self.endpoint_count());
        ChainClient { reads_from, ..self }
    }

    pub(super) fn endpoint_count(&self) -> usize {
        lock(&self.tracked).len()
    }

    /// One request to one endpoint. A request that is not lost arrives, also when this process has ended.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        endpoint: usize,
        work: impl FnOnce(&mut ChainState, Duration) -> EndpointResult<T> + Send + 'static,
    ) -> EndpointResult<T> {
        let stage = self.net.stage();
        let mut travel_time = self.net.travel_time();
        if self.strikes(Fault::RpcTimeoutBefore, endpoint) {
            stage.sleep(TIME_OUT).await;
            return Err(RequestFailure::TimedOut);
        }
        if self.strikes(Fault::RpcTimeoutAfter, endpoint) {
            travel_time.back = TIME_OUT;
        } else if self.strikes(Fault::RpcSlow, endpoint) {
            travel_time.there = self.net.roll(|dice| dice.duration(SLOW.0, SLOW.1));
        }
        let world = Arc::clone(&self.world);
        let served = move || {
            world.enter(|state, now| match state.endpoints.get(endpoint).map(|endpoint| endpoint.condition(now)) {
                None | Some(EndpointCondition::Down { gateway: false, .. }) => Err(RequestFailure::Unreachable),
                Some(EndpointCondition::Down { gateway: true, .. }) => Err(RequestFailure::Gateway),
                Some(_) => work(state, now),
            })
        };
        tokio::select! {
            biased;
            answer = self.net.ask(travel_time, served) => answer,
            () = stage.sleep(TIME_OUT) => Err(RequestFailure::TimedOut),
        }
    }

    fn strikes(&self, fault: Fault, endpoint: usize) -> bool {
        let strikes = self.faults.strikes(fault);
        if strikes {
            let what = format!("a request of {} to endpoint {endpoint}", self.owner);
            self.history.tell(Moment::Struck { fault, what });
        }
        strikes
    }

    /// Asks one endpoint, and remembers the head that it shows or its failure.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        endpoint: usize,
        work: impl FnOnce(EndpointChain<'_>) -> EndpointResult<T> + Send + 'static,
    ) -> EndpointResult<T> {
        let (faults, history) = (self.faults.clone(), self.history.clone());
        let answer = self
            .call(endpoint, move |state, now| {
                let head = state.view(endpoint, now);
                let shown = state.tree.header(head).map(|header| header.block);
                work(EndpointChain { state, endpoint, head, faults, history }).map(|answer| (shown, answer))
            })
            .await;
        let now = self.net.stage().now();
        match answer {
            Ok((shown, answer)) => {
                self.track(endpoint, |entry| entry.shown(shown, now));
                Ok(answer)
            }
            Err(failure) => {
                let is_unreachable = !matches!(failure, RequestFailure::Answered { .. });
                self.track(endpoint, |entry| entry.failed(is_unreachable, now));
                Err(failure)
            }
        }
    }

    /// Asks the freshest endpoint, and the next one if it fails.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(EndpointChain<'_>) -> EndpointResult<T> + Clone + Send + 'static,
    ) -> Result<T, ChainError> {
        let mut last = RequestFailure::Unreachable;
        for endpoint in self.order() {
            match self.ask(endpoint, work.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => last = failure,
            }
        }
        Err(error(&last))
    }

    /// Asks one endpoint after the other until one has the item. `None` if an endpoint answered and none has it.
    async fn find<T: Send + 'static>(
        &self,
        work: impl FnOnce(EndpointChain<'_>) -> EndpointResult<Option<T>> + Clone + Send + 'static,
    ) -> Result<Option<T>, ChainError> {
        let (mut last, mut answered) = (RequestFailure::Unreachable, false);
        for endpoint in self.order() {
            match self.ask(endpoint, work.clone()).await {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => answered = true,
                Err(failure) => last = failure,
            }
        }
        if answered { Ok(None) } else { Err(error(&last)) }
    }

    /// The endpoints that are not avoided, the freshest first. If all are avoided: the one whose time ends first.
    pub(super) fn order(&self) -> Vec<usize> {
        let now = self.net.stage().now();
        let tracked = lock(&self.tracked);
        let is_read = |(at, _): &(usize, TrackedEndpoint)| self.reads_from.is_none_or(|own| own == *at);
        let mut order: Vec<(usize, TrackedEndpoint)> = tracked.iter().copied().enumerate().filter(is_read).collect();
        order.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.head.map(|head| head.number)));
        let available = order.iter().filter(|(_, entry)| entry.avoided_until <= now).map(|(at, _)| *at);
        let available: Vec<usize> = available.collect();
        match available.is_empty() {
            false => available,
            true => order.iter().min_by_key(|(_, entry)| entry.avoided_until).map(|(at, _)| *at).into_iter().collect(),
        }
    }

    fn track(&self, endpoint: usize, change: impl FnOnce(&mut TrackedEndpoint)) {
        if let Some(entry) = lock(&self.tracked).get_mut(endpoint) {
            change(entry);
        }
    }
}

impl TrackedEndpoint {
    fn shown(&mut self, head: Option<BlockRef>, now: Duration) {
        self.asked += 1;
        if self.head != head {
            (self.head, self.head_since) = (head, now);
        }
    }

    fn failed(&mut self, is_unreachable: bool, now: Duration) {
        self.asked += 1;
        self.failed += 1;
        if is_unreachable {
            self.avoided_until = now.saturating_add(AVOIDED_FOR);
        }
    }
}

impl EndpointChain<'_> {
    pub(super) fn head_header(&self) -> EndpointResult<Header> {
        self.state.tree.header(self.head).ok_or(RequestFailure::Unreachable)
    }

    pub(super) fn header(&self, at: HeaderAt) -> Option<Header> {
        let tree = &self.state.tree;
        let number = match at {
            HeaderAt::Hash(hash) => return tree.by_hash(hash, self.endpoint).map(|block| block.header),
            HeaderAt::Number(number) => number,
            HeaderAt::Safe | HeaderAt::Finalized => {
                (tree.header(self.head)?.block.number + 1).checked_sub(self.state.confirmations)?
            }
        };
        tree.at(self.head, number).and_then(|id| tree.header(id))
    }

    pub(super) fn measure(&self, from: &SubmitterId, action: &Action, at: BlockRef) -> EndpointResult<Work> {
        let state = &self.state;
        let id = state
            .tree
            .find(self.head, at)
            .ok_or_else(|| RequestFailure::answered(Reason::Unrecognized, "header not found"))?;
        let account =
            state.account(from).ok_or_else(|| RequestFailure::answered(Reason::Unrecognized, "unknown account"))?;
        let balance = state.tree.accounts(id).get(account).map_or(0, |account| account.balance);
        let cost = narrow(action.outflow().get());
        if cost > balance {
            let refused = PoolRefusal::InsufficientFunds { balance, cost };
            return Err(texts::refusal(state.family(self.endpoint), refused));
        }
        let effect = effect_of(data_of(action));
        if let Some(effect) = effect.filter(|effect| effect % 11 == 5) {
            // The call depends on an earlier intent that is not mined yet.
            let pool = state.endpoints.get(self.endpoint).map(|endpoint| &endpoint.pool);
            let mut pooled = pool.into_iter().flat_map(|pool| pool.of(account));
            if pooled.any(|tx| tx.effect().is_some_and(|other| other < effect)) {
                return Err(RequestFailure::reverted("too early"));
            }
        }
        Ok(Work::new(gas_of(action) * MARGIN_PERMILLE / 1000))
    }

    pub(super) fn account_view(&self, lane: &SubmitterId, final_at: Option<BlockRef>) -> AccountView {
        let state = &self.state;
        let at = state.account(lane);
        let of = |id: BlockId| at.and_then(|at| state.tree.accounts(id).get(at).copied());
        let latest = of(self.head);
        let count = latest.map_or(0, |account| account.count);
        let pool = state.endpoints.get(self.endpoint).map(|endpoint| &endpoint.pool);
        let pending = pool.zip(at).map_or(count, |(pool, at)| pool.pending(at, count));
        let finalized = final_at.and_then(|block| state.tree.find(self.head, block)).and_then(of);
        AccountView {
            latest: nonce(count),
            pending: nonce(pending),
            finalized: finalized.map(|account| nonce(account.count)),
            balance: Amount::from(latest.map_or(0, |account| account.balance)),
            narrow: false,
        }
    }

    pub(super) fn receipt(&self, hash: B256) -> Option<Receipt> {
        let (id, tx) = self.state.tree.locate(self.head, hash)?;
        let receipt = self.state.tree.block(id)?.receipt(tx);
        let is_hidden = self.faults.strikes(Fault::NullReceipt);
        if is_hidden {
            let what = format!("the receipt of {hash}, by endpoint {}", self.endpoint);
            self.history.tell(Moment::Struck { fault: Fault::NullReceipt, what });
        }
        (!is_hidden).then_some(receipt)
    }

    pub(super) fn block_receipts(&self, block: BlockRef) -> Option<Vec<Receipt>> {
        let tree = &self.state.tree;
        let block = tree.block(tree.find(self.head, block)?)?;
        Some(block.txs.iter().map(|tx| block.receipt(tx)).collect())
    }

    fn revert(&self, hash: B256) -> Option<Revert> {
        let (_, tx) = self.state.tree.locate(self.head, hash)?;
        let effect = tx.effect().filter(|_| !tx.succeeds)?;
        Some(Revert { reason: Some(NodeText::new(&format!("effect {effect} reverts"))), data: Bytes::new() })
    }

    pub(super) fn sent_in(&self, number: u64, account: &SubmitterId) -> Option<SentInBlock> {
        let tree = &self.state.tree;
        let block = tree.block(tree.at(self.head, number)?)?;
        let sent = block.txs.iter().filter(|tx| tx.read.plan.submitter == *account).map(|tx| tx.read.clone());
        Some(SentInBlock { link: block.link(), sent: sent.collect() })
    }
}

pub(super) fn error(failure: &RequestFailure) -> ChainError {
    ChainError { classified: failure.classified() }
}

/// The price of inclusion on top of a block.
pub(super) fn quote_at(head: &Header) -> FeeQuote {
    let base_fee = head.base_fee.unwrap_or_default();
    let [slow, standard, fast, instant] =
        TIPS.map(|tip| Fees::Eip1559 { max_fee: base_fee.saturating_mul(2) + tip, max_priority_fee: tip });
    FeeQuote { slow, standard, fast, instant, base_fee }
}

fn nonce(count: u64) -> Nonce {
    Nonce::new(count).unwrap_or(Nonce::MAX)
}

#[async_trait]
impl ChainReader for ChainClient {
    fn id(&self) -> &ChainId {
        &self.world.id
    }

    async fn head(&self) -> Result<Header, ChainError> {
        let order = self.order();
        let answers = join_all(order.iter().map(|endpoint| self.ask(*endpoint, |chain| chain.head_header()))).await;
        let mut best: Option<Header> = None;
        let mut last = RequestFailure::Unreachable;
        for answer in answers {
            match answer {
                Ok(header) if best.is_none_or(|best| header.block.number > best.block.number) => best = Some(header),
                Ok(_) => {}
                Err(failure) => last = failure,
            }
        }
        best.ok_or_else(|| error(&last))
    }

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError> {
        match at {
            HeaderAt::Hash(_) => self.find(move |chain| Ok(chain.header(at))).await,
            _ => self.read(move |chain| Ok(chain.header(at))).await,
        }
    }

    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError> {
        self.read(move |chain| Ok(numbers.map(|number| chain.header(HeaderAt::Number(number))).collect())).await
    }

    async fn block_receipts(&self, block: BlockRef, _: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError> {
        let receipts = self.find(move |chain| Ok(chain.block_receipts(block))).await?;
        // Hidden at all endpoints at once. If one hid it, the next one would answer.
        let is_hidden = receipts.is_some() && self.faults.strikes(Fault::NullReceipt);
        if is_hidden {
            let what = format!("the receipts of block {} {}, by all endpoints", block.number, block.hash);
            self.history.tell(Moment::Struck { fault: Fault::NullReceipt, what });
        }
        Ok(receipts.filter(|_| !is_hidden))
    }

    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError> {
        let hashes = hashes.to_vec();
        self.read(move |chain| Ok(hashes.iter().map(|hash| chain.receipt(*hash)).collect())).await
    }

    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError> {
        let hashes = hashes.to_vec();
        self.read(move |chain| Ok(hashes.iter().map(|hash| chain.revert(*hash)).collect())).await
    }

    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError> {
        let account = account.clone();
        self.read(move |chain| Ok(numbers.map(|number| chain.sent_in(number, &account)).collect())).await
    }

    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError> {
        let accounts = accounts.to_vec();
        self.read(move |chain| Ok(accounts.iter().map(|lane| chain.account_view(lane, final_at)).collect())).await
    }

    async fn head_changed(&self) {
        if !self.gets_hints {
            pending::<()>().await;
        }
        loop {
            self.world.new_head.notified().await;
            if !self.net.roll(|dice| dice.permille(HINT_LOST)) {
                let travel_time = self.net.travel_time();
                return self.net.stage().sleep(travel_time.back).await;
            }
        }
    }

    fn endpoints(&self) -> Vec<EndpointStatus> {
        let now = self.net.stage().now();
        let tracked = lock(&self.tracked);
        let newest = tracked.iter().filter_map(|entry| entry.head).map(|head| head.number).max();
        let status = |(at, entry): (usize, &TrackedEndpoint)| {
            let head = entry.head.map(|head| head.number);
            let lag = newest.zip(head).map(|(newest, head)| newest - head);
            let health = match lag {
                _ if entry.avoided_until > now => EndpointHealth::Down,
                None => EndpointHealth::Unchecked,
                Some(0..=2) => EndpointHealth::Good,
                Some(_) => EndpointHealth::Lagging,
            };
            EndpointStatus {
                name: name_of(at),
                weight: 1,
                health,
                head,
                head_age: head.map(|_| now.saturating_sub(entry.head_since)),
                lag,
                errors_permille: (entry.failed * 1000).checked_div(entry.asked),
                latency: None,
                in_flight: 0,
                last_error: (health == EndpointHealth::Down).then(|| "the endpoint did not answer".to_owned()),
            }
        };
        tracked.iter().enumerate().map(status).collect()
    }
}

#[async_trait]
impl ChainPricer for ChainClient {
    async fn measure(&self, from: &SubmitterId, actions: &[&Action], at: BlockRef) -> Vec<Result<Work, ChainError>> {
        let measure = |action: &&Action| {
            let (from, action) = (from.clone(), (*action).clone());
            self.read(move |chain| chain.measure(&from, &action, at))
        };
        join_all(actions.iter().map(measure)).await
    }

    async fn quote(&self) -> Result<FeeQuote, ChainError> {
        let head = self.read(|chain| chain.head_header()).await?;
        Ok(quote_at(&head))
    }
}

#[async_trait]
impl ChainSender for ChainClient {
    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer> {
        super::sends::broadcast(self, txs).await
    }

    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
        super::diagnose::diagnose(self, account, asked).await
    }
}

impl Chain for ChainClient {
    fn rules(&self) -> &'static dyn ChainRules {
        rules()
    }

    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
        let read = signed::read_signed(raw)?;
        if read.plan.submitter.chain() != &self.world.id {
            return Err(UnreadableTx(NodeText::new("the transaction is for another chain")));
        }
        Ok(read)
    }
}

impl fmt::Debug for ChainClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainClient").field("owner", &self.owner).finish_non_exhaustive()
    }
}
