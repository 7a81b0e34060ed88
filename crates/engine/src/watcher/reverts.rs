//! Reasons of reverts. The reason is queried before the lane learns of the revert, so that it is known when the
//! transaction is final; without an answer the lane learns of the revert without a reason. No other step waits for this
//! (R02).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::{ChainError, Receipt, Revert};
use gapless_domain::{B256, Tick};

use super::Watcher;
use super::look_up::{OldBlocks, Standing};

/// Answers without a reason before the revert is reported without one.
const TRIES: u32 = 3;
/// Time without any answer before the revert is reported without a reason.
const WAIT: Duration = Duration::from_secs(30);
/// Pause between two queries.
const AGAIN: Duration = Duration::from_millis(250);
/// Transactions in one query.
const AT_ONCE: usize = 100;

#[derive(Debug)]
pub(super) struct Unexplained {
    receipt: Receipt,
    tries: u32,
    since: Tick,
}

type Answers = (Vec<Unexplained>, Result<Vec<Option<Revert>>, ChainError>);

/// A query in flight, with its transactions.
pub(super) type Asking = BoxFuture<'static, Answers>;

/// Pending for ever while there is no query.
pub(super) async fn answered(asking: &mut Option<Asking>) -> Answers {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

impl Watcher {
    pub(super) fn ask_why(&mut self, receipt: Receipt) {
        if !self.reverted.iter().any(|other| other.receipt.hash == receipt.hash) {
            self.reverted.push_back(Unexplained { receipt, tries: 0, since: self.driver.now() });
        }
    }

    /// The lowest block that holds a revert without a known reason.
    pub(super) fn oldest_unexplained(&self) -> Option<u64> {
        self.reverted.iter().map(|one| one.receipt.block.number).chain(self.explaining).min()
    }

    /// Starts a query, which runs beside the rounds.
    pub(super) fn begin_asking(&mut self) -> Option<Asking> {
        let count = self.reverted.len().min(AT_ONCE);
        if count == 0 || self.driver.now() < self.ask_why_at {
            return None;
        }
        let asked: Vec<Unexplained> = self.reverted.drain(..count).collect();
        self.explaining = asked.iter().map(|one| one.receipt.block.number).min();
        let hashes: Vec<B256> = asked.iter().map(|one| one.receipt.hash).collect();
        let chain = Arc::clone(&self.chain);
        Some(Box::pin(async move { (asked, chain.reverts(&hashes).await) }))
    }

    pub(super) async fn explain_reverts(&mut self, (asked, answers): Answers) {
        let answers = match answers {
            Ok(answers) => answers.into_iter().map(Some).collect(),
            Err(error) => {
                tracing::debug!(chain = %self.chain.id(), "cannot ask why {} reverted: {error}", asked.len());
                vec![None; asked.len()]
            }
        };
        self.explaining = None;
        self.ask_why_at = self.driver.now().saturating_add(AGAIN);
        let mut old = OldBlocks::default();
        for (one, answer) in asked.into_iter().zip(answers) {
            // An error says nothing and is not counted as a try; `None` says that no endpoint knows the reason.
            let is_late = self.driver.now().saturating_since(one.since) > WAIT;
            let tries = one.tries.saturating_add(u32::from(answer.is_some()));
            match answer.flatten() {
                Some(why) => self.tell_revert(one.receipt, why, &mut old).await,
                None if tries >= TRIES || is_late => {
                    self.tell_revert(one.receipt, Revert::default(), &mut old).await;
                }
                None => self.reverted.push_back(Unexplained { tries, ..one }),
            }
        }
    }

    /// Reports a revert. If its block was orphaned during the query, the hash is looked up again.
    async fn tell_revert(&mut self, receipt: Receipt, why: Revert, old: &mut OldBlocks) {
        let (hash, block) = (receipt.hash, receipt.block);
        match self.standing(block, old).await {
            Ok(Standing::Canonical { parent_hash, final_list, is_kept }) => {
                let is_told = is_kept || final_list.is_some();
                self.tell_mined(&receipt, parent_hash, Some(why), final_list);
                if !is_told {
                    self.park(hash, block);
                }
            }
            Ok(Standing::Orphaned | Standing::Unclear) | Err(_) => self.book.ask(hash, None),
        }
    }
}
