//! The chain of a test: blocks, pool and accounts of the simulated chain, without a network. A [`Script`] says where
//! its answers deviate, and the test makes the blocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use gapless_chain::{
    AccountView, Chain, ChainError, ChainPricer, ChainReader, ChainSender, Classified, EndpointStatus, FeeQuote,
    Header, HeaderAt, Reason, Receipt, Revert, SendAnswer, SentInBlock, UnreadableTx, Wanted, mempool_signal,
};
use gapless_domain::{
    Action, Amount, B256, BlockRef, Bytes, ChainId, ChainRules, DiagnoseRequest, EvmCall, Fees, MempoolSignal, Nonce,
    SignedPlan, SignedTx, SubmitterId, Tick, TxPlan, U256, Work,
};
use gapless_engine::Driver;
use tokio::sync::Notify;

use super::client::{EndpointChain, EndpointResult, error, quote_at};
use super::state::ChainState;
use super::texts::{self, ClientFamily, RequestFailure};
use super::{lock, signed};
use crate::fault::{Faults, Odds};
use crate::history::History;
use crate::stage::Stage;

const GWEI: u128 = 1_000_000_000;
const FOREIGN_GAS: u64 = 50_000;

/// One endpoint of a chain whose blocks a test makes. Endpoints of one chain share blocks and pool; each has its own
/// script.
pub struct ScriptedChain {
    shared: Arc<Shared>,
    script: Mutex<Script>,
}

struct Shared {
    id: ChainId,
    driver: Arc<dyn Driver>,
    state: Mutex<ChainState>,
    history: History,
    sends: Mutex<Vec<SignedTx>>,
    /// Requests of each method, over all endpoints.
    requests: Mutex<BTreeMap<&'static str, usize>>,
    new_head: Notify,
}

/// Deviations of an endpoint from the truth, for as long as they are set.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Every request fails: connection refused.
    pub unreachable: bool,
    /// The duration of every request for headers, blocks and receipts.
    pub latency: Duration,
    /// The answers to the next sends, in order.
    pub sends: VecDeque<ScriptedSend>,
    pub estimate_reverts: bool,
    /// The balance that the endpoint shows of every account.
    pub balance: Option<u64>,
    /// Blocks that are mined by this handle have no transaction.
    pub empty_blocks: bool,

    // --- Heads and headers ---
    /// The endpoint stands so many blocks behind the head.
    pub lag: u64,
    /// The depth of the `safe` and `finalized` tags below the head. The chain has no tags without it.
    pub finalized_depth: Option<u64>,
    /// So many requests for headers are answered. The one after them fails, and the number is `None` again.
    pub header_fails_after: Option<usize>,
    /// Lower blocks are missing from ranges.
    pub first_block: u64,
    /// Another endpoint answers for the head, or for single headers.
    pub head_from: Option<Arc<ScriptedChain>>,
    pub header_from: Option<Arc<ScriptedChain>>,
    /// Another endpoint answers for the transactions that an account sent.
    pub sent_from: Option<Arc<ScriptedChain>>,

    // --- Receipts ---
    /// No receipt is found by its hash.
    pub null_receipts: bool,
    /// Blocks are shown without receipts.
    pub hidden_receipts: bool,
    /// The receipts of no block are ever complete.
    pub no_block_receipts: bool,
    /// Every request for receipts by hash fails.
    pub receipts_fail: bool,
    /// A request for receipts with this hash in it fails.
    pub poison: Option<B256>,
    /// Receipts of these hashes name a block that no chain has.
    pub misplaced: BTreeSet<B256>,

    // --- Reverts ---
    /// Every transaction of this account reverts.
    pub reverting: Option<SubmitterId>,
    /// The answer to every request for the reason of a revert.
    pub revert: Option<Revert>,
    pub reverts_fail: bool,
    pub reverts_take: Duration,
}

/// The answer to one send, in place of the pool's own.
#[derive(Clone, Debug)]
pub enum ScriptedSend {
    /// The pool has it, and the answer is lost.
    TimeOutAfterAccepting,
    /// The request is lost.
    TimeOut,
    /// The pool does not have it, and the endpoint answers this.
    Refused(Reason, &'static str),
    /// The pool has it, and the endpoint answers this.
    AcceptedButRefused(Reason, &'static str),
}

impl ScriptedChain {
    /// A chain with its genesis, and an account with a lot of money for every lane.
    pub fn new(lanes: &[SubmitterId], driver: Arc<dyn Driver>) -> Arc<Self> {
        let Some(first) = lanes.first() else { unreachable!("a chain has at least one lane") };
        let history = History::new(Stage::default());
        let state = ChainState::scripted(lanes, driver.now().elapsed(), history.clone());
        let shared = Shared {
            id: first.chain().clone(),
            driver,
            state: Mutex::new(state),
            history,
            sends: Mutex::default(),
            requests: Mutex::default(),
            new_head: Notify::new(),
        };
        Arc::new(ScriptedChain { shared: Arc::new(shared), script: Mutex::default() })
    }

    /// Another endpoint of the same chain.
    pub fn endpoint(&self) -> Arc<Self> {
        Arc::new(ScriptedChain { shared: Arc::clone(&self.shared), script: Mutex::default() })
    }

    /// Changes the script from now on.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.scripted());
    }

    /// The script, for a test that reads it.
    pub fn scripted(&self) -> MutexGuard<'_, Script> {
        lock(&self.script)
    }

    // --- Blocks. ---

    pub fn mine(&self) {
        let is_empty = self.scripted().empty_blocks;
        self.change(|state, now| state.mine_block(is_empty, now));
    }

    /// Mines for as long as the test runs.
    pub fn mine_every(self: &Arc<Self>, pause: Duration) {
        let chain = Arc::clone(self);
        self.shared.driver.spawn(Box::pin(async move {
            loop {
                chain.sleep(pause).await;
                chain.mine();
            }
        }));
    }

    /// Replaces the newest blocks by as many empty ones and one more. Their transactions are pooled again, or lost.
    pub fn reorg(&self, depth: u64, to_pool: bool) {
        self.change(|state, now| {
            let txs = state.cut(depth, now);
            (0..=depth).for_each(|_| state.put_block(Vec::new(), now));
            if to_pool {
                state.put_back(&txs, now);
            }
        });
    }

    /// Replaces the newest blocks by as many and one more. The lowest of the new blocks has all their transactions.
    pub fn reorg_keeping(&self, depth: u64) {
        self.change(|state, now| {
            let txs = state.cut(depth, now);
            state.put_block(txs, now);
            (0..depth).for_each(|_| state.put_block(Vec::new(), now));
        });
    }

    /// Takes the newest blocks away, as `evm_revert` does.
    pub fn rollback(&self, depth: u64) {
        self.change(|state, now| drop(state.cut(depth, now)));
    }

    /// Blocks from now on differ from the blocks of another chain with the same history.
    pub fn diverge(&self) {
        self.change(|state, now| state.diverge(now));
    }

    /// Starts the chain anew from another genesis, with so many blocks.
    pub fn begin_anew(&self, blocks: u64) {
        self.change(|state, now| {
            state.reset(now);
            (1..blocks).for_each(|_| state.put_block(Vec::new(), now));
        });
    }

    // --- Other users of the keys. ---

    /// Another user of the key sends a transaction, which outbids any of ours at the nonce.
    pub fn foreign(&self, sender: &SubmitterId, nonce: u64) -> B256 {
        let call = EvmCall { data: Bytes::from_static(b"foreign"), ..EvmCall::default() };
        self.foreign_call(sender, nonce, call)
    }

    pub fn foreign_call(&self, sender: &SubmitterId, nonce: u64, call: EvmCall) -> B256 {
        let Ok(nonce) = Nonce::new(nonce) else { unreachable!("a test names real nonces") };
        let fees = Fees::Eip1559 { max_fee: 100 * GWEI, max_priority_fee: 9 * GWEI };
        let plan = TxPlan { submitter: sender.clone(), nonce, action: call.into(), work: Work::new(FOREIGN_GAS), fees };
        let SignedTx { raw, hash } = signed::sign_as_stranger(&plan);
        let _ = self.enter(|state, now| state.accept(&raw, now));
        hash
    }

    /// The newest block uses the next nonce of the account without a transaction (an EIP-7702 authorization).
    pub fn use_without_transaction(&self, lane: &SubmitterId) {
        self.enter(|state, _| {
            if let Some(account) = state.account(lane) {
                state.tree.use_nonce(state.tree.head(), account);
            }
        });
    }

    /// No pool has any transaction any more.
    pub fn forget_pool(&self) {
        self.enter(|state, _| state.pools().for_each(super::pool::TxPool::clear));
    }

    // --- The truth. ---

    pub fn height(&self) -> u64 {
        self.enter(|state, _| state.tree.head_number())
    }

    /// The nonces and hashes of a lane in canonical blocks, in order.
    pub fn mined(&self, lane: &SubmitterId) -> Vec<(u64, B256)> {
        self.enter(|state, _| {
            let blocks = (0..=state.tree.head_number()).filter_map(|number| state.tree.canonical_at(number));
            let txs = blocks.filter_map(|id| state.tree.block(id)).flat_map(|block| &block.txs);
            let of_lane = txs.filter(|tx| tx.read.plan.submitter == *lane);
            of_lane.map(|tx| (tx.nonce, tx.hash())).collect()
        })
    }

    /// Every transaction that was sent to any endpoint, in order.
    pub fn sends(&self) -> Vec<SignedTx> {
        lock(&self.shared.sends).clone()
    }

    /// Requests of one method of [`Chain`], over all endpoints.
    pub fn requests(&self, method: &str) -> usize {
        lock(&self.shared.requests).get(method).copied().unwrap_or(0)
    }

    // --- Behind the answers. ---

    fn enter<T>(&self, work: impl FnOnce(&mut ChainState, Duration) -> T) -> T {
        work(&mut lock(&self.shared.state), self.shared.driver.now().elapsed())
    }

    fn change(&self, work: impl FnOnce(&mut ChainState, Duration)) {
        self.enter(work);
        self.shared.new_head.notify_waiters();
    }

    async fn sleep(&self, span: Duration) {
        if !span.is_zero() {
            let driver = &self.shared.driver;
            driver.sleep_until(Tick::since_start(driver.now().elapsed().saturating_add(span))).await;
        }
    }

    /// Counts the request. It fails while the endpoint is unreachable.
    fn count(&self, method: &'static str) -> EndpointResult<()> {
        *lock(&self.shared.requests).entry(method).or_default() += 1;
        if self.scripted().unreachable { Err(RequestFailure::Unreachable) } else { Ok(()) }
    }

    /// Counts a request for headers against the one that fails.
    fn count_header(&self, method: &'static str) -> EndpointResult<()> {
        self.count(method)?;
        let mut script = self.scripted();
        if let Some(left) = script.header_fails_after {
            script.header_fails_after = left.checked_sub(1);
            if left == 0 {
                return Err(RequestFailure::TimedOut);
            }
        }
        Ok(())
    }

    /// Asks the endpoint on the block where it stands.
    fn ask<T>(&self, work: impl FnOnce(EndpointChain<'_>) -> EndpointResult<T>) -> EndpointResult<T> {
        let lag = self.scripted().lag;
        self.enter(|state, _| {
            let number = state.tree.head_number().saturating_sub(lag);
            let head = state.tree.canonical_at(number).ok_or(RequestFailure::Unreachable)?;
            let (faults, history) = (Faults::new(0, &Odds::new()), self.shared.history.clone());
            work(EndpointChain { state, endpoint: 0, head, faults, history })
        })
    }

    fn send(&self, tx: &SignedTx) -> EndpointResult<B256> {
        lock(&self.shared.sends).push(tx.clone());
        let scripted = self.scripted().sends.pop_front();
        let accept = || self.enter(|state, now| state.accept(&tx.raw, now));
        match scripted {
            None => accept().map_err(|refused| texts::refusal(ClientFamily::Geth, refused)),
            Some(ScriptedSend::TimeOut) => Err(RequestFailure::TimedOut),
            Some(ScriptedSend::Refused(reason, text)) => Err(RequestFailure::answered(reason, text)),
            Some(ScriptedSend::TimeOutAfterAccepting) => {
                let _ = accept();
                Err(RequestFailure::TimedOut)
            }
            Some(ScriptedSend::AcceptedButRefused(reason, text)) => {
                let _ = accept();
                Err(RequestFailure::answered(reason, text))
            }
        }
    }

    /// The receipt as the script shows it.
    fn shown(&self, mut receipt: Receipt) -> Receipt {
        let sender = self.enter(|state, _| state.known(receipt.hash).map(|tx| tx.read.plan.submitter.clone()));
        let script = self.scripted();
        receipt.succeeded &= script.reverting.is_none() || script.reverting != sender;
        if script.misplaced.contains(&receipt.hash) {
            receipt.block.hash = B256::repeat_byte(0xee);
        }
        receipt
    }
}

#[async_trait]
impl ChainReader for ScriptedChain {
    fn id(&self) -> &ChainId {
        &self.shared.id
    }

    async fn head(&self) -> Result<Header, ChainError> {
        let Script { latency, head_from, .. } = self.scripted().clone();
        self.sleep(latency).await;
        if let Some(other) = head_from {
            return other.head().await;
        }
        self.count("head").and_then(|()| self.ask(|chain| chain.head_header())).map_err(|failure| error(&failure))
    }

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError> {
        let Script { header_from, finalized_depth, .. } = self.scripted().clone();
        if let Some(other) = header_from {
            return other.header(at).await;
        }
        self.count_header("header").map_err(|failure| error(&failure))?;
        let at = match at {
            HeaderAt::Safe | HeaderAt::Finalized => match finalized_depth {
                Some(depth) => HeaderAt::Number(self.height().saturating_sub(depth)),
                None => return Ok(None),
            },
            at => at,
        };
        self.ask(|chain| Ok(chain.header(at))).map_err(|failure| error(&failure))
    }

    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError> {
        let Script { latency, first_block, .. } = self.scripted().clone();
        self.sleep(latency).await;
        self.count_header("headers").map_err(|failure| error(&failure))?;
        self.ask(|chain| {
            let at = |number| chain.header(HeaderAt::Number(number)).filter(|_| number >= first_block);
            Ok(numbers.map(at).collect())
        })
        .map_err(|failure| error(&failure))
    }

    async fn block_receipts(&self, block: BlockRef, _: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError> {
        let Script { latency, no_block_receipts, hidden_receipts, .. } = self.scripted().clone();
        self.sleep(latency).await;
        self.count("block_receipts").map_err(|failure| error(&failure))?;
        if no_block_receipts {
            return Ok(None);
        }
        if hidden_receipts {
            return Ok(Some(Vec::new()));
        }
        let receipts = self.ask(|chain| Ok(chain.block_receipts(block))).map_err(|failure| error(&failure))?;
        Ok(receipts.map(|all| all.into_iter().map(|receipt| self.shown(receipt)).collect()))
    }

    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError> {
        let Script { latency, receipts_fail, poison, null_receipts, .. } = self.scripted().clone();
        self.sleep(latency).await;
        self.count("receipts").map_err(|failure| error(&failure))?;
        if receipts_fail || poison.is_some_and(|poison| hashes.contains(&poison)) {
            return Err(error(&RequestFailure::Unreachable));
        }
        let find = |chain: EndpointChain<'_>| Ok(hashes.iter().map(|hash| chain.receipt(*hash)).collect::<Vec<_>>());
        let found = self.ask(find).map_err(|failure| error(&failure))?;
        let shown = found.into_iter().map(|found| found.filter(|_| !null_receipts).map(|receipt| self.shown(receipt)));
        Ok(shown.collect())
    }

    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError> {
        let takes = self.scripted().reverts_take;
        self.sleep(takes).await;
        self.count("reverts").map_err(|failure| error(&failure))?;
        let Script { reverts_fail, revert, .. } = self.scripted().clone();
        if reverts_fail {
            return Err(error(&RequestFailure::Unreachable));
        }
        Ok(hashes.iter().map(|_| revert.clone()).collect())
    }

    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError> {
        let Script { latency, first_block, sent_from, .. } = self.scripted().clone();
        self.sleep(latency).await;
        if let Some(other) = sent_from {
            return other.sent_by(account, numbers).await;
        }
        self.count_header("sent_by").map_err(|failure| error(&failure))?;
        self.ask(|chain| {
            let at = |number| chain.sent_in(number, account).filter(|_| number >= first_block);
            Ok(numbers.map(at).collect())
        })
        .map_err(|failure| error(&failure))
    }

    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError> {
        let balance = self.scripted().balance.map(|balance| Amount::new(U256::from(balance)));
        let view = |chain: &EndpointChain<'_>, lane: &SubmitterId| {
            let view = chain.account_view(lane, final_at);
            AccountView { balance: balance.unwrap_or(view.balance), ..view }
        };
        let views = |chain: EndpointChain<'_>| Ok(accounts.iter().map(|lane| view(&chain, lane)).collect());
        self.count("accounts").and_then(|()| self.ask(views)).map_err(|failure| error(&failure))
    }

    async fn head_changed(&self) {
        self.shared.new_head.notified().await;
    }

    fn endpoints(&self) -> Vec<EndpointStatus> {
        Vec::new()
    }
}

#[async_trait]
impl ChainPricer for ScriptedChain {
    async fn measure(&self, from: &SubmitterId, actions: &[&Action], at: BlockRef) -> Vec<Result<Work, ChainError>> {
        let is_reverted = self.scripted().estimate_reverts;
        let reached = self.count("measure");
        let measure = |action: &Action| {
            reached.clone()?;
            if is_reverted {
                return Err(RequestFailure::reverted("no"));
            }
            self.ask(|chain| chain.measure(from, action, at))
        };
        actions.iter().map(|action| measure(action).map_err(|failure| error(&failure))).collect()
    }

    async fn quote(&self) -> Result<FeeQuote, ChainError> {
        let head = self.count("quote").and_then(|()| self.ask(|chain| chain.head_header()));
        head.map(|head| quote_at(&head)).map_err(|failure| error(&failure))
    }
}

#[async_trait]
impl ChainSender for ScriptedChain {
    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer> {
        let reached = self.count("broadcast");
        let send = |tx: &SignedTx| match reached.clone().and_then(|()| self.send(tx)) {
            Ok(hash) => Classified::answered(tx.hash, hash).into(),
            Err(failure) => failure.classified().into(),
        };
        txs.iter().map(send).collect()
    }

    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
        let pool_views = self.count("diagnose").and_then(|()| self.ask(|chain| chain.pool_views(account, asked)));
        let Ok(pool_views) = pool_views else { return vec![MempoolSignal::Unknown; asked.len()] };
        asked.iter().zip(pool_views).map(|(request, pool_view)| mempool_signal(request.nonce, &[pool_view])).collect()
    }
}

impl Chain for ScriptedChain {
    fn rules(&self) -> &'static dyn ChainRules {
        super::rules()
    }

    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
        signed::read_signed(raw)
    }
}

impl fmt::Debug for ScriptedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedChain").field("id", &self.shared.id).finish_non_exhaustive()
    }
}
