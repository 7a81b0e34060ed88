//! Batched reads and sends: requests of many lanes in one round trip, by the loop that also groups commits.

use std::sync::Arc;

use gapless_chain::{AccountView, ChainError, ChainReader, ChainSender, SendAnswer};
use gapless_domain::{BlockRef, Peeked, SignedTx, SubmitterId, Tick, TxId};
use gapless_store::{Lanes, StoreError};

use crate::clock::Clock;
use crate::group_commit::{BatchLimits, BatchLoop, BatchQueue, Job, Weight, group_commit};

/// Reads the queues and commands of many lanes at once.
#[derive(Clone, Debug)]
pub(crate) struct Peeker(BatchQueue<PeekOp, Option<Peeked>>);

#[derive(Debug)]
pub(crate) struct PeekerLoop {
    batches: BatchLoop<PeekOp, Option<Peeked>>,
    store: Arc<dyn Lanes>,
}

#[derive(Debug)]
struct PeekOp {
    lane: SubmitterId,
    limit: u32,
    without: Vec<TxId>,
}

impl Peeker {
    pub(crate) fn new(store: Arc<dyn Lanes>, limits: BatchLimits) -> (Peeker, PeekerLoop) {
        let (queue, batches) = group_commit(limits);
        (Peeker(queue), PeekerLoop { batches, store })
    }

    /// `None` if the store failed.
    pub(crate) async fn peek(&self, lane: SubmitterId, limit: u32, without: Vec<TxId>) -> Option<Peeked> {
        self.0.submit(PeekOp { lane, limit, without }).await.ok().flatten()
    }
}

impl PeekerLoop {
    pub(crate) async fn run(self) {
        let store = self.store.as_ref();
        let flush = async |batch: Vec<Job<PeekOp, Option<Peeked>>>| {
            // An abandoned peek must not hide its excluded intents from the next owner of the lane (N11).
            let batch: Vec<_> = batch.into_iter().filter(|job| !job.is_abandoned()).collect();
            if batch.is_empty() {
                return Vec::new();
            }
            let lanes: Vec<_> = batch.iter().map(|job| (job.op.lane.clone(), job.op.limit)).collect();
            let without: Vec<TxId> = batch.iter().flat_map(|job| job.op.without.iter().copied()).collect();
            match peek_lanes(store, &lanes, &without).await {
                Ok(answers) => batch.into_iter().zip(answers).for_each(|(job, answer)| job.answer(Some(answer))),
                // A row that cannot be decoded must fail only its own lane, so each lane is read alone.
                Err(StoreError::Row(error)) if lanes.len() > 1 => {
                    tracing::warn!("a queue row cannot be decoded; reading the queues one by one: {error}");
                    for (job, lane) in batch.into_iter().zip(&lanes) {
                        let answer = peek_lanes(store, std::slice::from_ref(lane), &without).await;
                        job.answer(answer.ok().and_then(|mut answers| answers.pop()));
                    }
                }
                Err(error) => {
                    tracing::warn!(lanes = lanes.len(), "queues cannot be read: {error}");
                    batch.into_iter().for_each(|job| job.answer(None));
                }
            }
            Vec::new()
        };
        self.batches.run(flush).await;
    }
}

async fn peek_lanes(
    store: &dyn Lanes,
    lanes: &[(SubmitterId, u32)],
    without: &[TxId],
) -> Result<Vec<Peeked>, StoreError> {
    let names: Vec<SubmitterId> = lanes.iter().map(|(lane, _)| lane.clone()).collect();
    let nonempty: Vec<_> = lanes.iter().filter(|(_, limit)| *limit > 0).cloned().collect();
    let queues =
        async { if nonempty.is_empty() { Ok(Vec::new()) } else { store.peek_queues(&nonempty, without).await } };
    let (queues, commands) = tokio::try_join!(queues, store.open_commands(&names))?;
    let mut queues = queues.into_iter();
    let queue_of = |limit: u32| if limit > 0 { queues.next().unwrap_or_default() } else { Vec::new() };
    let queues = lanes.iter().map(|(_, limit)| *limit).map(queue_of);
    Ok(queues.zip(commands).map(|(queue, commands)| Peeked { queue, commands }).collect())
}

/// Reads nonces and balances of many accounts of one chain at once.
#[derive(Clone, Debug)]
pub(crate) struct AccountReader(BatchQueue<AccountOp, Option<AccountReadOp>>);

#[derive(Debug)]
pub(crate) struct AccountReaderLoop {
    batches: BatchLoop<AccountOp, Option<AccountReadOp>>,
    chain: Arc<dyn ChainReader>,
}

/// An account, and the final block at which its final nonce was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountReadOp {
    pub(crate) view: AccountView,
    pub(crate) final_at: Option<BlockRef>,
}

#[derive(Debug)]
struct AccountOp {
    submitter: SubmitterId,
    final_at: Option<BlockRef>,
}

impl AccountReader {
    pub(crate) fn new(chain: Arc<dyn ChainReader>, limits: BatchLimits) -> (AccountReader, AccountReaderLoop) {
        let (queue, batches) = group_commit(limits);
        (AccountReader(queue), AccountReaderLoop { batches, chain })
    }

    pub(crate) async fn read(&self, submitter: SubmitterId, final_at: Option<BlockRef>) -> Option<AccountReadOp> {
        self.0.submit(AccountOp { submitter, final_at }).await.ok().flatten()
    }
}

impl AccountReaderLoop {
    pub(crate) async fn run(self) {
        let chain = self.chain.as_ref();
        let flush = async |batch: Vec<Job<AccountOp, Option<AccountReadOp>>>| {
            let accounts: Vec<_> = batch.iter().map(|job| job.op.submitter.clone()).collect();
            // The oldest of the final blocks is final for all of the accounts.
            let final_at = batch.iter().filter_map(|job| job.op.final_at).min_by_key(|block| block.number);
            let answer: Result<Vec<AccountView>, ChainError> = chain.accounts(&accounts, final_at).await;
            match answer {
                Ok(views) => {
                    let answers = views.into_iter().map(|view| AccountReadOp { view, final_at });
                    batch.into_iter().zip(answers).for_each(|(job, read)| job.answer(Some(read)));
                }
                Err(error) => {
                    tracing::warn!(chain = %chain.id(), accounts = accounts.len(), "accounts cannot be read: {error}");
                    batch.into_iter().for_each(|job| job.answer(None));
                }
            }
            Vec::new()
        };
        self.batches.run(flush).await;
    }
}

/// Sends transactions of many lanes of one chain in one batch. The transactions of one call stay together and in order.
#[derive(Clone, Debug)]
pub(crate) struct Sender(BatchQueue<SendOp, Option<Vec<SendAnswer>>>);

#[derive(Debug)]
pub(crate) struct SenderLoop {
    batches: BatchLoop<SendOp, Option<Vec<SendAnswer>>>,
    chain: Arc<dyn ChainSender>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct SendOp {
    txs: Vec<SignedTx>,
    /// The time until which the lease behind the transactions is trusted.
    until: Tick,
}

impl Sender {
    pub(crate) fn new(chain: Arc<dyn ChainSender>, clock: Arc<dyn Clock>, limits: BatchLimits) -> (Sender, SenderLoop) {
        let (queue, batches) = group_commit(limits);
        (Sender(queue), SenderLoop { batches, chain, clock })
    }

    /// `None` if nothing was sent because the lease had lapsed meanwhile.
    pub(crate) async fn send(&self, txs: Vec<SignedTx>, until: Tick) -> Option<Vec<SendAnswer>> {
        self.0.submit(SendOp { txs, until }).await.ok().flatten()
    }
}

impl SenderLoop {
    pub(crate) async fn run(self) {
        let (chain, clock) = (self.chain.as_ref(), self.clock.as_ref());
        let flush = async |batch: Vec<Job<SendOp, Option<Vec<SendAnswer>>>>| {
            let now = clock.now();
            // An abandoned request belongs to a lane that lost its lease or is reloaded: its transactions must not be
            // sent (N06).
            let may_send = |job: &Job<SendOp, _>| now < job.op.until && !job.is_abandoned();
            let (mut batch, lapsed): (Vec<_>, Vec<_>) = batch.into_iter().partition(may_send);
            lapsed.into_iter().for_each(|job| job.answer(None));
            let sizes: Vec<usize> = batch.iter().map(|job| job.op.txs.len()).collect();
            let txs: Vec<SignedTx> = batch.iter_mut().flat_map(|job| std::mem::take(&mut job.op.txs)).collect();
            if txs.is_empty() {
                return Vec::new();
            }
            let mut answers = chain.broadcast(&txs).await.into_iter();
            for (job, size) in batch.into_iter().zip(sizes) {
                job.answer(Some(answers.by_ref().take(size).collect()));
            }
            Vec::new()
        };
        self.batches.run(flush).await;
    }
}

impl Weight for PeekOp {
    fn items(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        size_of_val(self.without.as_slice())
    }
}

impl Weight for AccountOp {
    fn items(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl Weight for SendOp {
    fn items(&self) -> usize {
        self.txs.len()
    }

    fn bytes(&self) -> usize {
        self.txs.iter().map(|tx| tx.raw.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use gapless_domain::{LeaseTerms, OwnerId};
    use gapless_store::conformance::fixtures as f;
    use gapless_store::{ManualClock, Model};

    use super::*;

    /// The intents of the abandoned peek were never bound, and the next owner peeks in the same batch.
    ///
    /// proves N11
    #[tokio::test]
    async fn abandoned_peek_does_not_hide_intents_from_next_owner() {
        let model = Model::new(LeaseTerms::default(), Arc::new(ManualClock::default()));
        let node: f::Node = Arc::new(model.node(OwnerId::new("a", 1)));
        let lane = f::lane(&node, 1).await;
        let ids = f::accept(&node, &lane, &["first", "second"]).await;
        let (peeker, peeking) = Peeker::new(node, BatchLimits::default());
        let mut abandoned = Box::pin(peeker.peek(lane.clone(), 2, ids.clone()));
        assert!(std::future::poll_fn(|cx| Poll::Ready(abandoned.as_mut().poll(cx).is_pending())).await);
        drop(abandoned);
        let next_owner = async move { peeker.peek(lane, 2, Vec::new()).await };
        let (peeked, ()) = tokio::join!(biased; next_owner, peeking.run());
        assert_eq!(peeked.unwrap().queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), ids);
    }
}
