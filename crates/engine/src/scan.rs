//! Scans: reads blocks for the transactions of one account.
//!
//! A nonce count says that a nonce is used, and not by which transaction. The blocks do: a scan reads them from the
//! watcher's head down, each by the parent hash in the block above, so that all blocks are of one chain and none is
//! left out (P4). A block that does not fit ends the scan without a result: the lane asks again, and decides nothing
//! meanwhile.
//!
//! A node whose endpoints lag does not scan: its head must be at or above the final block that any node has saved, and
//! on the same chain. A node reports a block as final after it has saved the block. So an operator who sees a
//! transaction as final knows that no later `resync` overlooks it.
//!
//! The request names a lower bound: a block that is known to lie below all wanted transactions. The bound counts only
//! when the scan reaches it by its hash: after a reorg below a final block another block may have its number, and then
//! the scan continues to its limit.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use gapless_chain::{HeaderAt, SentInBlock};
use gapless_domain::{
    AccountFacts, BlockLink, BlockRef, NodeText, Nonce, ScanRequest, ScanResult, ScannedTx, SignedPlan, SubmitterId,
};

use crate::chain_desk::ChainDesk;
use crate::watcher::ChainStatus;

/// Blocks in one request.
const CHUNK_BLOCKS: u64 = 64;
/// Limit on the bytes of the transactions found. A scan that has found more ends there, as at its last block.
const MAX_FOUND_BYTES: usize = 64 << 20;

/// The reasons for a scan without a result.
#[derive(Debug, thiserror::Error)]
enum ScanError {
    #[error("the chain has not been read yet, or has a finality violation")]
    NoChain,
    #[error("no endpoint could read the account")]
    NoAccount,
    #[error("this node is at block {head}, below the final block {saved} that a node has saved; its endpoints lag")]
    BelowSavedFinal { head: u64, saved: u64 },
    #[error("this node is on another fork than the final block {0} that a node has saved")]
    ForkedFromSavedFinal(u64),
    #[error("the saved head cannot be read: {0}")]
    Store(#[from] gapless_store::StoreError),
    #[error("the final block or its nonce is above that of the head")]
    HeadBelowFinal,
    #[error(transparent)]
    Chain(#[from] gapless_chain::ChainError),
    #[error("block {0} is missing or does not link to the block above it")]
    Unlinked(u64),
    #[error("block {0} differs from the final block at its height")]
    NotFinal(u64),
    #[error("the account has two transactions with nonce {0}")]
    TwoOfOneNonce(Nonce),
    #[error("the head of the scan is no longer canonical")]
    Reorged,
}

impl ChainDesk {
    /// Scans, one lane at a time. The error is the reason why there is no result.
    pub(crate) async fn scan(&self, submitter: &SubmitterId, request: ScanRequest) -> Result<ScanResult, NodeText> {
        let _turn = self.scan_lock.lock().await;
        match self.read_blocks(submitter, request).await {
            Ok(result) => {
                tracing::info!(
                    head = result.head.number,
                    oldest = result.oldest,
                    whole = result.is_whole,
                    found = result.sent.len(),
                    "account scanned"
                );
                Ok(result)
            }
            Err(error) => {
                tracing::warn!("account scan failed: {error}");
                Err(NodeText::new(&error.to_string()))
            }
        }
    }

    async fn read_blocks(&self, submitter: &SubmitterId, request: ScanRequest) -> Result<ScanResult, ScanError> {
        let account = self.account(submitter).await.ok_or(ScanError::NoAccount)?;
        let status = self.undisputed_status().ok_or(ScanError::NoChain)?;
        let head = status.head;
        let saved = self.heads.head(self.chain.id()).await?.and_then(|saved| saved.finalized);
        if let Some(saved) = saved.filter(|saved| saved.number > head.number) {
            return Err(ScanError::BelowSavedFinal { head: head.number, saved: saved.number });
        }
        if let Some(saved) = saved.filter(|saved| status.facts.tail.contradicts(*saved)) {
            return Err(ScanError::ForkedFromSavedFinal(saved.number));
        }
        // An endpoint may be ahead of the watcher, and its count may include blocks above the head, which are not read.
        let at_head = self.chain.accounts(std::slice::from_ref(submitter), Some(head)).await?.pop();
        let latest = at_head.and_then(|view| view.finalized).ok_or(ScanError::NoAccount)?;
        let account = AccountFacts { latest, ..account };
        let mut walk = ScanWalk::begin(request, account, head)?;
        let most = u64::from(self.watcher_options.survey_blocks).max(1);
        let lowest = head.number.saturating_sub(most - 1);
        while let Some(numbers) = walk.next_chunk(lowest) {
            let blocks = self.chain.sent_by(submitter, numbers.clone()).await?;
            walk.read(numbers, blocks)?;
        }
        // The chain may have changed during the scan, and an orphaned branch proves nothing.
        let status = self.undisputed_status().ok_or(ScanError::NoChain)?;
        let tail = &status.facts.tail;
        let is_canonical = if head.number >= tail.first_number() {
            tail.contains(head)
        } else {
            let header = self.chain.header(HeaderAt::Number(head.number)).await?;
            header.is_some_and(|header| header.block == head)
        };
        if !is_canonical {
            return Err(ScanError::Reorged);
        }
        Ok(walk.into_result())
    }

    /// The status of a chain without a finality violation; under a violation a scan proves nothing.
    fn undisputed_status(&self) -> Option<ChainStatus> {
        self.status().filter(|status| status.broken().is_none())
    }
}

/// The state of a scan on its way down from the head.
struct ScanWalk {
    /// The wanted nonces: from `from` on, and below the account's count at the head.
    from: Nonce,
    below: Nonce,
    /// The lower bound: no wanted transaction is in this block or below it.
    above: Option<BlockRef>,
    account: AccountFacts,
    head: BlockRef,
    /// The next block down; `None` below the first block of the chain.
    next: Option<BlockRef>,
    /// The lower bound is on this chain.
    bound_is_reached: bool,
    oldest: u64,
    found: BTreeMap<Nonce, ScannedTx>,
    found_bytes: usize,
}

impl ScanWalk {
    fn begin(request: ScanRequest, account: AccountFacts, head: BlockRef) -> Result<Self, ScanError> {
        let is_above = |block: BlockRef| block.number > head.number;
        if account.final_block.is_some_and(is_above) || account.finalized > Some(account.latest) {
            return Err(ScanError::HeadBelowFinal);
        }
        let (next, oldest) = (Some(head), head.number);
        let (from, below, above) = (request.from, account.latest, request.above);
        let (bound_is_reached, found) = (above == Some(head), BTreeMap::new());
        Ok(ScanWalk { from, below, above, account, head, next, bound_is_reached, oldest, found, found_bytes: 0 })
    }

    /// The next blocks to read, none of them below `lowest`; `None` at the end of the scan.
    fn next_chunk(&self, lowest: u64) -> Option<RangeInclusive<u64>> {
        let top = self.next.filter(|next| next.number >= lowest && !self.is_over())?.number;
        let above = self.above.map(|above| above.number).filter(|above| *above < top);
        let bottom = top.saturating_sub(CHUNK_BLOCKS - 1).max(lowest);
        Some(above.map_or(bottom, |above| bottom.max(above.saturating_add(1)))..=top)
    }

    /// Reads the blocks at these heights, given lowest first, from the top down and no further than needed.
    fn read(&mut self, numbers: RangeInclusive<u64>, blocks: Vec<Option<SentInBlock>>) -> Result<(), ScanError> {
        let mut blocks = blocks.into_iter();
        for number in numbers.rev() {
            if self.is_over() {
                break;
            }
            let block = blocks.next_back().flatten().ok_or(ScanError::Unlinked(number))?;
            self.step(number, block)?;
        }
        Ok(())
    }

    fn step(&mut self, number: u64, block: SentInBlock) -> Result<(), ScanError> {
        let at = block.link.block;
        if self.next != Some(at) || at.number != number {
            return Err(ScanError::Unlinked(number));
        }
        if self.account.final_block.is_some_and(|known| known.number == number && known != at) {
            return Err(ScanError::NotFinal(number));
        }
        for tx in block.sent {
            self.record(tx, block.link)?;
        }
        (self.next, self.oldest) = (block.link.parent(), number);
        self.bound_is_reached |= self.above.is_some() && self.above == self.next;
        Ok(())
    }

    fn record(&mut self, tx: SignedPlan, BlockLink { block, parent_hash }: BlockLink) -> Result<(), ScanError> {
        let nonce = tx.plan.nonce;
        if nonce < self.from || nonce >= self.below {
            return Ok(());
        }
        self.found_bytes = self.found_bytes.saturating_add(tx.signed.raw.len());
        match self.found.insert(nonce, ScannedTx { tx, block, parent_hash }) {
            None => Ok(()),
            Some(_) => Err(ScanError::TwoOfOneNonce(nonce)),
        }
    }

    /// Every wanted nonce is found, or there is nothing below, or the size limit is reached.
    fn is_over(&self) -> bool {
        let wanted = self.below.get().saturating_sub(self.from.get());
        self.found.len() as u64 >= wanted || self.is_whole() || self.found_bytes > MAX_FOUND_BYTES
    }

    /// Is there no wanted transaction further down? Not known before the final block is seen on this chain.
    fn is_whole(&self) -> bool {
        let Some(next) = self.next else { return true };
        let is_past = |known: BlockRef| known.number > next.number || known == next;
        self.bound_is_reached && self.account.final_block.is_none_or(is_past)
    }

    fn into_result(self) -> ScanResult {
        let is_whole = self.is_whole();
        let ScanWalk { account, head, oldest, found, .. } = self;
        ScanResult { account, head, oldest, is_whole, sent: found.into_values().collect() }
    }
}

#[cfg(test)]
mod tests;
