//! The toy chain by way of endpoints that fail, lie, or lag.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use gapless_chain::{
    AccountView, Chain, ChainError, Classifier, EndpointStatus, FeeQuote, Header, HeaderAt, Method, NodeFailure,
    Overrides, Receipt, Revert, SendAnswer, SentInBlock, SignError, UnreadableTx, Wanted,
};
use gapless_domain::{
    B256, BlockRef, Bytes, ChainId, DiagnoseRequest, EvmCall, MempoolSignal, Outline, Permit, SignedPlan, SignedTx,
    SubmitterId, TxPlan,
};

use super::support::ToyChain;

#[derive(Debug)]
pub(crate) struct OddChain {
    inner: Arc<ToyChain>,
    oddities: Mutex<Oddities>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Oddities {
    /// So many questions for a header are answered; the one after that fails.
    pub(crate) header_fails_after: Option<usize>,
    pub(crate) receipts_fail: bool,
    /// Receipts of these are told to be in a block that is on no chain.
    pub(crate) lies_about: HashSet<B256>,
    /// Its newest blocks have not come here yet.
    pub(crate) lag: u64,
}

impl Oddities {
    fn count_header(&mut self) -> Result<(), ChainError> {
        if let Some(left) = self.header_fails_after {
            self.header_fails_after = left.checked_sub(1);
            if left == 0 {
                return Err(OddChain::failure());
            }
        }
        Ok(())
    }
}

impl OddChain {
    pub(crate) fn new(inner: &Arc<ToyChain>) -> Arc<Self> {
        Arc::new(OddChain { inner: Arc::clone(inner), oddities: Mutex::default() })
    }

    pub(crate) fn odd(&self) -> MutexGuard<'_, Oddities> {
        self.oddities.lock().unwrap()
    }

    fn failure() -> ChainError {
        let classifier = Classifier::new(Overrides::default()).unwrap();
        ChainError { classified: classifier.classify(None, Method::Other, &NodeFailure::TimedOut) }
    }
}

#[async_trait]
impl Chain for OddChain {
    fn id(&self) -> &ChainId {
        self.inner.id()
    }

    async fn estimate_gas(&self, from: &SubmitterId, call: &EvmCall, at: BlockRef) -> Result<u64, ChainError> {
        self.inner.estimate_gas(from, call, at).await
    }

    async fn quote(&self) -> Result<FeeQuote, ChainError> {
        self.inner.quote().await
    }

    async fn sign(&self, permit: &Permit, plan: &TxPlan) -> Result<SignedTx, SignError> {
        self.inner.sign(permit, plan).await
    }

    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
        self.inner.read_signed(raw)
    }

    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        self.inner.outline(raw)
    }

    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer> {
        self.inner.broadcast(txs).await
    }

    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
        self.inner.diagnose(account, asked).await
    }

    async fn head(&self) -> Result<Header, ChainError> {
        let lag = self.odd().lag;
        let head = self.inner.head().await?;
        let at = HeaderAt::Number(head.block.number.saturating_sub(lag));
        Ok(self.inner.header(at).await?.unwrap())
    }

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError> {
        self.odd().count_header()?;
        self.inner.header(at).await
    }

    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError> {
        self.odd().count_header()?;
        self.inner.headers(numbers).await
    }

    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError> {
        self.inner.reverts(hashes).await
    }

    async fn block_receipts(&self, block: BlockRef, wanted: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError> {
        self.inner.block_receipts(block, wanted).await
    }

    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError> {
        let Oddities { receipts_fail, lies_about, .. } = self.odd().clone();
        if receipts_fail {
            return Err(Self::failure());
        }
        let mut receipts = self.inner.receipts(hashes).await?;
        for receipt in receipts.iter_mut().flatten().filter(|receipt| lies_about.contains(&receipt.hash)) {
            receipt.block.hash = B256::repeat_byte(0xee);
        }
        Ok(receipts)
    }

    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError> {
        self.odd().count_header()?;
        self.inner.sent_by(account, numbers).await
    }

    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError> {
        self.inner.accounts(accounts, final_at).await
    }

    async fn head_changed(&self) {
        self.inner.head_changed().await;
    }

    fn endpoints(&self) -> Vec<EndpointStatus> {
        Vec::new()
    }
}
