//! Reasons of reverts. The reason is queried before the lane learns of the revert, so that it is known when the
//! transaction is final; without an answer the lane learns of the revert without a reason. No other step waits for this
//! (R02).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::{ChainError, Receipt, Revert};
use gapless_domain::{B256, Tick};

use super::Watcher;
use super::look_up::{BlockStatus, OldBlocks};

/// Answers without a reason before the revert is reported without one.
const MAX_ANSWERS: u32 = 3;
/// Time without any answer before the revert is reported without a reason.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Pause between two queries.
const QUERY_PAUSE: Duration = Duration::from_millis(250);
/// Transactions in one query.
const QUERY_MAX: usize = 100;

/// A reverted transaction whose reason is not known yet.
#[derive(Debug)]
pub(super) struct UnexplainedRevert {
    receipt: Receipt,
    /// Answers without a reason so far.
    tries: u32,
    since: Tick,
}

type Answers = (Vec<UnexplainedRevert>, Result<Vec<Option<Revert>>, ChainError>);

/// A query in flight, with its transactions.
pub(super) type RevertQuery = BoxFuture<'static, Answers>;

/// Pending for ever while there is no query.
pub(super) async fn query_answers(query: &mut Option<RevertQuery>) -> Answers {
    match query {
        Some(query) => query.await,
        None => std::future::pending().await,
    }
}

/// The reverts whose reasons are not known yet.
#[derive(Debug, Default)]
pub(super) struct Reverts {
    queue: VecDeque<UnexplainedRevert>,
    /// Lowest block of the reverts in the current query.
    queried_oldest: Option<u64>,
    next_query_at: Tick,
}

impl Reverts {
    pub(super) fn push(&mut self, receipt: Receipt, now: Tick) {
        if !self.queue.iter().any(|other| other.receipt.hash == receipt.hash) {
            self.queue.push_back(UnexplainedRevert { receipt, tries: 0, since: now });
        }
    }

    /// The lowest block that holds a revert without a known reason.
    pub(super) fn oldest_unexplained(&self) -> Option<u64> {
        self.queue.iter().map(|revert| revert.receipt.block.number).chain(self.queried_oldest).min()
    }

    /// The reverts of the next query; none before its time.
    fn take_for_query(&mut self, now: Tick) -> Vec<UnexplainedRevert> {
        if now < self.next_query_at {
            return Vec::new();
        }
        let count = self.queue.len().min(QUERY_MAX);
        let queried: Vec<UnexplainedRevert> = self.queue.drain(..count).collect();
        self.queried_oldest = queried.iter().map(|revert| revert.receipt.block.number).min();
        queried
    }

    fn query_ended(&mut self, now: Tick) {
        self.queried_oldest = None;
        self.next_query_at = now.saturating_add(QUERY_PAUSE);
    }
}

impl Watcher {
    /// Starts a query, which runs beside the rounds.
    pub(super) fn start_revert_query(&mut self) -> Option<RevertQuery> {
        let queried = self.reverts.take_for_query(self.driver.now());
        if queried.is_empty() {
            return None;
        }
        let hashes: Vec<B256> = queried.iter().map(|revert| revert.receipt.hash).collect();
        let chain = Arc::clone(&self.chain);
        Some(Box::pin(async move { (queried, chain.reverts(&hashes).await) }))
    }

    pub(super) async fn handle_revert_answers(&mut self, (queried, answers): Answers) {
        let answers = match answers {
            Ok(answers) => answers.into_iter().map(Some).collect(),
            Err(error) => {
                let (chain, reverts) = (self.chain.id(), queried.len());
                tracing::debug!(%chain, reverts, "revert reasons cannot be queried: {error}");
                vec![None; queried.len()]
            }
        };
        self.reverts.query_ended(self.driver.now());
        let mut old = OldBlocks::default();
        for (revert, answer) in queried.into_iter().zip(answers) {
            // An error says nothing and is not counted as a try; `None` says that no endpoint knows the reason.
            let is_late = self.driver.now().saturating_since(revert.since) > MAX_WAIT;
            let tries = revert.tries.saturating_add(u32::from(answer.is_some()));
            match answer.flatten() {
                Some(reason) => self.deliver_revert(revert.receipt, reason, &mut old).await,
                None if tries >= MAX_ANSWERS || is_late => {
                    self.deliver_revert(revert.receipt, Revert::default(), &mut old).await;
                }
                None => self.reverts.queue.push_back(UnexplainedRevert { tries, ..revert }),
            }
        }
    }

    /// Reports a revert. If its block was orphaned during the query, the hash is looked up again.
    async fn deliver_revert(&mut self, receipt: Receipt, reason: Revert, old: &mut OldBlocks) {
        let (hash, block) = (receipt.hash, receipt.block);
        match self.block_status(block, old).await {
            Ok(BlockStatus::Canonical { parent_hash, final_list, is_kept }) => {
                let is_reported = is_kept || final_list.is_some();
                self.deliver_mined(&receipt, parent_hash, Some(reason), final_list);
                if !is_reported {
                    self.park(hash, block);
                }
            }
            Ok(BlockStatus::Orphaned | BlockStatus::Unknown) | Err(_) => self.book.request(hash, None),
        }
    }
}
