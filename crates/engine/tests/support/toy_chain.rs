//! A chain in memory with the rules that nonces go by: a pool, blocks, forks; and whatever trouble a test makes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use gapless_chain::{
    AccountView, Chain, ChainError, Classified, Classifier, EndpointStatus, FeeQuote, Header, HeaderAt, Method,
    NodeFailure, Overrides, Receipt, Revert, SendAnswer, SentInBlock, SignError, UnreadableTx, Wanted,
};
use gapless_domain::{
    Amount, B256, BlockLink, BlockRef, Bytes, ChainId, DiagnoseRequest, EvmCall, Fees, MempoolSignal, NodeText, Nonce,
    Outline, Permit, SignedPlan, SignedTx, SubmitterId, TxPlan, U256, keccak256,
};
use tokio::sync::Notify;

pub(crate) struct ToyChain {
    pub(crate) id: ChainId,
    inner: Mutex<Inner>,
    new_head: Notify,
    classifier: Classifier,
}

#[derive(Default)]
struct Inner {
    blocks: Vec<Block>,
    /// By sender and nonce.
    pool: BTreeMap<(SubmitterId, u64), SignedTx>,
    /// What every hash is that was ever signed.
    signed: HashMap<B256, TxPlan>,
    /// Nonces that were used without a transaction (EIP-7702), by account, and in which block.
    skipped: Vec<(SubmitterId, u64)>,
    pub(crate) sends: Vec<SignedTx>,
    pub(crate) calls: BTreeMap<&'static str, usize>,
    trouble: Trouble,
    forks: u64,
}

struct Block {
    header: Header,
    txs: Vec<SignedTx>,
}

/// What goes wrong, as long as it is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    /// Nothing answers.
    pub(crate) away: bool,
    /// The next sends are answered so, whatever happens to them.
    pub(crate) answers: VecDeque<Answer>,
    pub(crate) estimate_reverts: bool,
    pub(crate) balance: Option<u64>,
    pub(crate) null_receipts: bool,
    /// Blocks come, and nothing is taken into them.
    pub(crate) empty_blocks: bool,
    /// Blocks are shown without any receipt.
    pub(crate) hidden_receipts: bool,
    /// No block's receipts are ever whole.
    pub(crate) no_block_receipts: bool,
    /// How deep the chain's tags lie; it has none without.
    pub(crate) finalized: Option<u64>,
    /// Whatever this account sends reverts.
    pub(crate) reverting: Option<SubmitterId>,
    /// Why what reverts does, if anybody can tell.
    pub(crate) revert: Option<Revert>,
    /// Nobody answers when asked why.
    pub(crate) reverts_fail: bool,
    /// How long each of the watcher's questions takes.
    pub(crate) latency: Duration,
    /// A question that has this hash in it fails.
    pub(crate) poison: Option<B256>,
    /// Headers below this are not there.
    pub(crate) first_block: u64,
    /// Heads, or single headers, are answered by this one: another endpoint of what should be the same chain.
    pub(crate) head_from: Option<Arc<ToyChain>>,
    pub(crate) header_from: Option<Arc<ToyChain>>,
    pub(crate) reverts_take: Duration,
    /// Whole blocks are answered by this one.
    pub(crate) blocks_from: Option<Arc<ToyChain>>,
    /// These accounts have delegated code.
    pub(crate) delegated: Vec<SubmitterId>,
    /// Nodes look whether the account can pay for what is sent.
    pub(crate) asks_for_funds: bool,
}

/// One answer to a send.
#[allow(dead_code, reason = "not every test makes sends go wrong")]
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Pooled, but nobody hears of it.
    TimeOutAfterAccepting,
    /// Lost on the way.
    TimeOut,
    Text(&'static str),
    /// Pooled, and the node says this all the same.
    AcceptedButText(&'static str),
}

impl fmt::Debug for ToyChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToyChain").finish_non_exhaustive()
    }
}

impl ToyChain {
    pub(crate) fn new(id: ChainId) -> Arc<Self> {
        let chain = ToyChain {
            id,
            inner: Mutex::default(),
            new_head: Notify::new(),
            classifier: Classifier::new(Overrides::default()).unwrap(),
        };
        chain.inner().push(Vec::new());
        Arc::new(chain)
    }

    /// For as long as the test runs.
    pub(crate) fn mine_every(self: &Arc<Self>, pause: Duration) {
        let chain = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                chain.mine();
            }
        });
    }

    pub(crate) fn mine(&self) {
        let mut inner = self.inner();
        let mut txs = Vec::new();
        let senders: Vec<SubmitterId> = inner.pool.keys().map(|(sender, _)| sender.clone()).collect();
        let senders = if inner.trouble.empty_blocks { Vec::new() } else { senders };
        for sender in senders {
            let mut next = inner.count(&sender) + txs_of(&txs, &inner.signed, &sender);
            while let Some(tx) = inner.pool.remove(&(sender.clone(), next)) {
                txs.push(tx);
                next += 1;
            }
        }
        inner.push(txs);
        drop(inner);
        self.new_head.notify_waiters();
    }

    /// Replaces the newest `depth` blocks by as many and one more. What was in them is back in the pool, or gone.
    #[allow(dead_code, reason = "not every test that has this chain has forks")]
    pub(crate) fn reorg(&self, depth: usize, to_pool: bool) {
        let mut inner = self.inner();
        inner.forks += 1;
        for block in inner.cut(depth) {
            if to_pool {
                for tx in block.txs {
                    let plan = &inner.signed[&tx.hash];
                    let key = (plan.submitter.clone(), plan.nonce.get());
                    inner.pool.insert(key, tx);
                }
            }
        }
        for _ in 0..=depth {
            inner.push(Vec::new());
        }
        drop(inner);
        self.new_head.notify_waiters();
    }

    /// The same, but what was in the old blocks is in the lowest of the new ones.
    #[allow(dead_code, reason = "not every test that has this chain has forks like this")]
    pub(crate) fn reorg_keeping(&self, depth: usize) {
        let mut inner = self.inner();
        inner.forks += 1;
        let txs = inner.cut(depth).into_iter().flat_map(|block| block.txs).collect();
        inner.push(txs);
        for _ in 0..depth {
            inner.push(Vec::new());
        }
        drop(inner);
        self.new_head.notify_waiters();
    }

    /// The newest blocks are taken away, as by `evm_revert`.
    #[allow(dead_code, reason = "not every test that has this chain goes back")]
    pub(crate) fn rollback(&self, depth: usize) {
        let mut inner = self.inner();
        inner.forks += 1;
        inner.cut(depth);
        drop(inner);
        self.new_head.notify_waiters();
    }

    /// The chain is started anew, from another genesis.
    #[allow(dead_code, reason = "not every test that has this chain starts it anew")]
    pub(crate) fn begin_anew(&self, blocks: usize) {
        let mut inner = self.inner();
        inner.forks += 1;
        inner.blocks.clear();
        inner.pool.clear();
        inner.skipped.clear();
        (0..blocks).for_each(|_| inner.push(Vec::new()));
        drop(inner);
        self.new_head.notify_waiters();
    }

    /// Somebody else uses the key.
    #[allow(dead_code, reason = "not every test has a stranger")]
    pub(crate) fn foreign(&self, sender: &SubmitterId, nonce: u64) -> B256 {
        let call = EvmCall { data: Bytes::from_static(b"foreign"), ..EvmCall::default() };
        self.foreign_call(sender, nonce, call)
    }

    /// The same, with what it does.
    #[allow(dead_code, reason = "not every test has a stranger")]
    pub(crate) fn foreign_call(&self, sender: &SubmitterId, nonce: u64, call: EvmCall) -> B256 {
        let (submitter, nonce) = (sender.clone(), Nonce::new(nonce).unwrap());
        let fees = Fees::Legacy { gas_price: 7 };
        let tx = self.make(TxPlan { submitter, nonce, call, gas_limit: 21_000, fees });
        self.inner().pool.insert((sender.clone(), nonce.get()), tx.clone());
        tx.hash
    }

    /// The account's next nonce is used up in the newest block, by no transaction of its own (an EIP-7702 authorization).
    #[allow(dead_code, reason = "not every test has authorizations")]
    pub(crate) fn use_without_transaction(&self, account: &SubmitterId) {
        let mut inner = self.inner();
        let newest = inner.blocks.len() as u64 - 1;
        inner.skipped.push((account.clone(), newest));
    }

    /// No node has anything any more that is in no block.
    #[allow(dead_code, reason = "not every test has nodes that forget")]
    pub(crate) fn forget_pool(&self) {
        self.inner().pool.clear();
    }

    /// Signed by whoever has the key, and sent nowhere.
    #[allow(dead_code, reason = "not every test has borrowers")]
    pub(crate) fn signed_outside(&self, plan: TxPlan) -> SignedTx {
        self.make(plan)
    }

    fn make(&self, plan: TxPlan) -> SignedTx {
        let raw = Bytes::from(format!("{plan:?}").into_bytes());
        let hash = keccak256(&raw);
        self.inner().signed.insert(hash, plan);
        SignedTx { hash, raw }
    }

    pub(crate) fn trouble(&self, change: impl FnOnce(&mut Trouble)) {
        change(&mut self.inner().trouble);
    }

    #[allow(dead_code, reason = "not every test looks at heights")]
    pub(crate) fn height(&self) -> u64 {
        self.inner().blocks.len() as u64 - 1
    }

    /// The hashes of a sender in canonical blocks, in order.
    #[allow(dead_code, reason = "not every test looks at blocks")]
    pub(crate) fn mined(&self, sender: &SubmitterId) -> Vec<(u64, B256)> {
        let inner = self.inner();
        let txs = inner.blocks.iter().flat_map(|block| &block.txs);
        let plans = txs.filter_map(|tx| Some((inner.signed.get(&tx.hash)?, tx.hash)));
        plans.filter(|(plan, _)| plan.submitter == *sender).map(|(plan, hash)| (plan.nonce.get(), hash)).collect()
    }

    /// Everything that was ever given to this chain, in order.
    #[allow(dead_code, reason = "not every test looks at sends")]
    pub(crate) fn sends(&self) -> Vec<SignedTx> {
        self.inner().sends.clone()
    }

    #[allow(dead_code, reason = "not every test counts calls")]
    pub(crate) fn calls(&self, method: &'static str) -> usize {
        self.inner().calls.get(method).copied().unwrap_or(0)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    async fn slow(&self) {
        let latency = self.inner().trouble.latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }

    fn unreachable(&self) -> ChainError {
        let failure = NodeFailure::Unreachable { text: "connection refused" };
        ChainError { classified: self.classifier.classify(None, Method::Other, &failure) }
    }

    fn enter(&self, method: &'static str) -> Result<MutexGuard<'_, Inner>, ChainError> {
        let mut inner = self.inner();
        *inner.calls.entry(method).or_default() += 1;
        if inner.trouble.away {
            return Err(self.unreachable());
        }
        Ok(inner)
    }

    fn text(&self, method: Method, text: &str) -> Classified {
        self.classifier.classify(None, method, &NodeFailure::Answer { code: Some(-32000), text, data: None })
    }

    fn take(&self, inner: &mut Inner, tx: &SignedTx) -> Classified {
        let Some(plan) = inner.signed.get(&tx.hash) else {
            return self.text(Method::Send, "invalid sender");
        };
        let (sender, nonce) = (plan.submitter.clone(), plan.nonce.get());
        let balance = U256::from(inner.trouble.balance.unwrap_or(u64::MAX));
        if inner.trouble.asks_for_funds && plan.worst_cost().get() > balance {
            return self.text(Method::Send, "insufficient funds for gas * price + value");
        }
        if nonce < inner.count(&sender) {
            return self.text(Method::Send, "nonce too low");
        }
        match inner.pool.get(&(sender.clone(), nonce)) {
            Some(known) if known.hash == tx.hash => self.text(Method::Send, "already known"),
            Some(_) => self.text(Method::Send, "replacement transaction underpriced"),
            None => {
                inner.pool.insert((sender, nonce), tx.clone());
                Classified::answered(tx.hash, tx.hash)
            }
        }
    }
}

impl Inner {
    fn push(&mut self, txs: Vec<SignedTx>) {
        let number = self.blocks.len() as u64;
        let parent_hash = self.blocks.last().map_or(B256::ZERO, |block| block.header.block.hash);
        let seed = [number.to_be_bytes().as_slice(), &self.forks.to_be_bytes(), parent_hash.as_slice()].concat();
        let block = BlockRef { number, hash: keccak256(seed) };
        let header = Header { block, parent_hash, timestamp: number, base_fee: Some(1) };
        self.blocks.push(Block { header, txs });
    }

    /// Takes the newest blocks away, with whatever happened in them.
    fn cut(&mut self, depth: usize) -> Vec<Block> {
        let keep = self.blocks.len() - depth;
        self.skipped.retain(|(_, at)| *at < keep as u64);
        self.blocks.drain(keep..).collect()
    }

    fn count(&self, sender: &SubmitterId) -> u64 {
        self.count_at(sender, u64::MAX)
    }

    fn count_at(&self, sender: &SubmitterId, number: u64) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.header.block.number <= number);
        let skipped = self.skipped.iter().filter(|(account, at)| account == sender && *at <= number).count() as u64;
        skipped + blocks.map(|block| txs_of(&block.txs, &self.signed, sender)).sum::<u64>()
    }

    fn sent_in(&self, block: &Block, account: &SubmitterId) -> SentInBlock {
        let plans = block.txs.iter().map(|tx| SignedPlan { plan: self.signed[&tx.hash].clone(), signed: tx.clone() });
        let sent = plans.filter(|tx| tx.plan.submitter == *account).collect();
        SentInBlock { link: BlockLink { block: block.header.block, parent_hash: block.header.parent_hash }, sent }
    }

    fn receipt(&self, block: &Block, tx: &SignedTx) -> Receipt {
        let sender = &self.signed[&tx.hash].submitter;
        Receipt {
            hash: tx.hash,
            block: block.header.block,
            from: sender.evm_address().unwrap(),
            succeeded: self.trouble.reverting.as_ref() != Some(sender),
            gas_used: 21_000,
            effective_gas_price: Amount::from(1_u64),
            contract_address: None,
        }
    }
}

fn txs_of(txs: &[SignedTx], signed: &HashMap<B256, TxPlan>, sender: &SubmitterId) -> u64 {
    txs.iter().filter(|tx| signed.get(&tx.hash).is_some_and(|plan| plan.submitter == *sender)).count() as u64
}

#[async_trait]
impl Chain for ToyChain {
    fn id(&self) -> &ChainId {
        &self.id
    }

    async fn estimate_gas(&self, _: &SubmitterId, _: &EvmCall, _: BlockRef) -> Result<u64, ChainError> {
        let inner = self.enter("estimate_gas")?;
        if inner.trouble.estimate_reverts {
            return Err(ChainError { classified: self.text(Method::Call, "execution reverted: no") });
        }
        Ok(21_000)
    }

    async fn quote(&self) -> Result<FeeQuote, ChainError> {
        drop(self.enter("quote")?);
        let fees = Fees::Eip1559 { max_fee: 3, max_priority_fee: 1 };
        Ok(FeeQuote { slow: fees, standard: fees, fast: fees, instant: fees, base_fee: 0 })
    }

    async fn sign(&self, permit: &Permit, plan: &TxPlan) -> Result<SignedTx, SignError> {
        assert_eq!(permit.lease().submitter(), &plan.submitter);
        Ok(self.make(plan.clone()))
    }

    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
        let hash = keccak256(raw);
        let plan = self.inner().signed.get(&hash).cloned();
        let plan = plan.ok_or_else(|| UnreadableTx(NodeText::new("nobody signed this")))?;
        Ok(SignedPlan { plan, signed: SignedTx { hash, raw: raw.clone() } })
    }

    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        let plan = self.inner().signed.get(&keccak256(raw)).cloned()?;
        Some(Outline { cost: Amount::from(100_000_u64), ..Outline::of(&plan) })
    }

    async fn diagnose(&self, _: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
        let Ok(inner) = self.enter("diagnose") else { return vec![MempoolSignal::Unknown; asked.len()] };
        let known: HashSet<B256> =
            inner.pool.values().chain(inner.blocks.iter().flat_map(|block| &block.txs)).map(|tx| tx.hash).collect();
        let signal = |request: &DiagnoseRequest| match request.hashes.iter().any(|hash| known.contains(hash)) {
            true => MempoolSignal::InMempool,
            false => MempoolSignal::LikelyDropped,
        };
        asked.iter().map(signal).collect()
    }

    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer> {
        let away = |text| self.classifier.classify(None, Method::Send, &NodeFailure::Unreachable { text });
        match self.enter("broadcast") {
            Err(_) => txs.iter().map(|_| away("connection refused").into()).collect(),
            Ok(mut inner) => txs
                .iter()
                .map(|tx| {
                    inner.sends.push(tx.clone());
                    let answer = match inner.trouble.answers.pop_front() {
                        None => self.take(&mut inner, tx),
                        Some(Answer::TimeOut) => self.classifier.classify(None, Method::Send, &NodeFailure::TimedOut),
                        Some(Answer::TimeOutAfterAccepting) => {
                            self.take(&mut inner, tx);
                            self.classifier.classify(None, Method::Send, &NodeFailure::TimedOut)
                        }
                        Some(Answer::AcceptedButText(text)) => {
                            self.take(&mut inner, tx);
                            self.text(Method::Send, text)
                        }
                        Some(Answer::Text(text)) => self.text(Method::Send, text),
                    };
                    answer.into()
                })
                .collect(),
        }
    }

    async fn head(&self) -> Result<Header, ChainError> {
        self.slow().await;
        let other = self.inner().trouble.head_from.clone();
        if let Some(other) = other {
            return other.head().await;
        }
        Ok(self.enter("head")?.blocks.last().unwrap().header)
    }

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError> {
        let other = self.inner().trouble.header_from.clone();
        if let Some(other) = other {
            return other.header(at).await;
        }
        let inner = self.enter("header")?;
        let mut headers = inner.blocks.iter().map(|block| block.header);
        Ok(match at {
            HeaderAt::Number(number) => headers.find(|header| header.block.number == number),
            HeaderAt::Hash(hash) => headers.find(|header| header.block.hash == hash),
            HeaderAt::Safe | HeaderAt::Finalized => {
                let newest = inner.blocks.len() as u64 - 1;
                let tagged = inner.trouble.finalized.map(|depth| newest.saturating_sub(depth));
                tagged.and_then(|number| headers.find(|header| header.block.number == number))
            }
        })
    }

    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError> {
        self.slow().await;
        let inner = self.enter("headers")?;
        let at =
            |number: u64| inner.blocks.iter().map(|block| block.header).find(|header| header.block.number == number);
        let first = inner.trouble.first_block;
        Ok(numbers.map(|number| at(number).filter(|_| number >= first)).collect())
    }

    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError> {
        let takes = self.inner().trouble.reverts_take;
        tokio::time::sleep(takes).await;
        let inner = self.enter("reverts")?;
        if inner.trouble.reverts_fail {
            return Err(self.unreachable());
        }
        Ok(hashes.iter().map(|_| inner.trouble.revert.clone()).collect())
    }

    async fn block_receipts(&self, block: BlockRef, _: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError> {
        self.slow().await;
        let inner = self.enter("block_receipts")?;
        if inner.trouble.no_block_receipts {
            return Ok(None);
        }
        if inner.trouble.hidden_receipts {
            return Ok(Some(Vec::new()));
        }
        let found = inner.blocks.iter().find(|other| other.header.block == block);
        Ok(found.map(|block| block.txs.iter().map(|tx| inner.receipt(block, tx)).collect()))
    }

    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError> {
        self.slow().await;
        let inner = self.enter("receipts")?;
        if inner.trouble.poison.is_some_and(|poison| hashes.contains(&poison)) {
            return Err(self.unreachable());
        }
        let find = |hash: &B256| {
            let mut all = inner.blocks.iter().flat_map(|block| block.txs.iter().map(move |tx| (block, tx)));
            all.find(|(_, tx)| tx.hash == *hash).map(|(block, tx)| inner.receipt(block, tx))
        };
        Ok(hashes.iter().map(|hash| find(hash).filter(|_| !inner.trouble.null_receipts)).collect())
    }

    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError> {
        self.slow().await;
        let other = self.inner().trouble.blocks_from.clone();
        if let Some(other) = other {
            return other.sent_by(account, numbers).await;
        }
        let inner = self.enter("sent_by")?;
        let first = inner.trouble.first_block;
        let at = |number: u64| inner.blocks.get(usize::try_from(number).unwrap()).filter(|_| number >= first);
        Ok(numbers.map(|number| at(number).map(|block| inner.sent_in(block, account))).collect())
    }

    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError> {
        let inner = self.enter("accounts")?;
        let view = |account: &SubmitterId| {
            let latest = inner.count(account);
            let mut pending = latest;
            while inner.pool.contains_key(&(account.clone(), pending)) {
                pending += 1;
            }
            AccountView {
                latest: Nonce::new(latest).unwrap(),
                pending: Nonce::new(pending).unwrap(),
                finalized: final_at.map(|at| Nonce::new(inner.count_at(account, at.number)).unwrap()),
                balance: Amount::new(U256::from(inner.trouble.balance.unwrap_or(u64::MAX))),
                delegated: inner.trouble.delegated.contains(account),
            }
        };
        Ok(accounts.iter().map(view).collect())
    }

    async fn head_changed(&self) {
        self.new_head.notified().await;
    }

    fn endpoints(&self) -> Vec<EndpointStatus> {
        Vec::new()
    }
}
