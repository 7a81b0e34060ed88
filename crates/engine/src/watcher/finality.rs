//! Finality: the final block, its persistence, and finality violations.
//!
//! The final block only moves forward, along linked headers. It is saved in the store with the newest headers, so that
//! a node that starts knows the final block of the nodes before it.

use std::time::Duration;

use gapless_chain::{Header, HeaderAt};
use gapless_domain::{B256, BlockRef, Head, NodeText, ProtectCode, Protection, Sighting, Tick};
use gapless_store::HeadVerdict;

use super::canon::{Canon, Position};
use super::{WatchError, Watcher};

/// Most headers in memory, however far behind the finality tag is.
pub(super) const KEPT_HEADERS_MAX: u64 = 50_000;

/// Most headers in the store.
const SAVED_HEADERS_MAX: u64 = 1_000;
/// A chain that contradicts a final block, and grows for this long without overtaking our head, is another chain.
const BEHIND_TIMEOUT: Duration = Duration::from_secs(120);

/// The rule that makes a block final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finality {
    /// The required confirmations.
    #[default]
    Depth,
    /// The required confirmations, and the chain's `safe` tag. The tag alone is not final: a safe block may be undone.
    Safe,
    /// The chain's `finalized` tag.
    Finalized,
}

impl Finality {
    pub fn as_str(self) -> &'static str {
        match self {
            Finality::Depth => "depth",
            Finality::Safe => "safe",
            Finality::Finalized => "finalized",
        }
    }

    pub(super) fn tag(self) -> Option<HeaderAt> {
        match self {
            Finality::Depth => None,
            Finality::Safe => Some(HeaderAt::Safe),
            Finality::Finalized => Some(HeaderAt::Finalized),
        }
    }
}

/// The watcher's knowledge of finality.
#[derive(Debug, Default)]
pub(super) struct FinalityState {
    /// The saved head was read from the store.
    is_restored: bool,
    genesis: Option<B256>,
    /// The finality violation that stops the lanes of the chain.
    pub(super) violation: Option<Protection>,
    /// The head at which the finality tag was last read, and the tagged block.
    tag: Option<(BlockRef, Option<BlockRef>)>,
    /// The newest final block in the store, as far as this node has read it.
    pub(super) saved: Option<BlockRef>,
    /// The earliest time to save the head while none of our transactions becomes final.
    save_at: Tick,
    /// Start of the period in which endpoints contradict a final block without being ahead, and their lowest head in
    /// it.
    pub(super) behind: Option<(Tick, u64)>,
}

impl Watcher {
    /// Restores the saved head.
    pub(super) async fn restore_head(&mut self) -> Result<(), WatchError> {
        if self.finality.is_restored {
            if !self.is_violation_resolved().await? {
                return Ok(());
            }
            tracing::warn!(chain = %self.chain.id(), "finality violation resolved; following the chain again");
        }
        let kept = self.store.head(self.chain.id()).await?;
        let genesis = self.read_genesis().await?;
        self.finality.genesis = kept.as_ref().and_then(|head| head.genesis).or(genesis);
        self.finality.saved = kept.as_ref().and_then(|head| head.finalized);
        let canon = match &kept {
            Some(head) => {
                let (chain, block) = (self.chain.id(), head.tail.last().number);
                tracing::info!(%chain, block, "saved head restored");
                Canon::restore(&head.tail, head.finalized)
            }
            None => Canon::default(),
        };
        self.replace_canon(canon);
        (self.finality.is_restored, self.finality.violation, self.finality.behind) = (true, None, None);
        if genesis.is_some() && self.finality.genesis != genesis {
            let text = "the genesis block differs from the one that was read before";
            self.declare_violation(ProtectCode::OtherChain, text);
        }
        Ok(())
    }

    /// Has an operator removed the saved head, or saved a head of the chain that we see? Then the violation is
    /// resolved.
    async fn is_violation_resolved(&mut self) -> Result<bool, WatchError> {
        let now = self.driver.now();
        if self.finality.violation.is_none() || now < self.finality.save_at {
            return Ok(false);
        }
        self.finality.save_at = now.saturating_add(self.options.save_interval);
        let Some(kept) = self.store.head(self.chain.id()).await? else { return Ok(true) };
        Ok(match self.finality.violation.as_ref().map(|violation| violation.code) {
            // The linked chain must be the one that endpoints show.
            Some(ProtectCode::DeepReorg) => {
                let is_canonical = |block| self.canon.position(block) == Position::Canonical;
                self.pace.is_following() && kept.finalized.is_some_and(is_canonical)
            }
            // Another node has restarted first: no node saves a head of another genesis before the old head is removed.
            Some(ProtectCode::OtherChain) => kept.genesis.is_some() && kept.genesis == self.read_genesis().await?,
            _ => false,
        })
    }

    /// Reports every hash that has become final. The final block is saved in the store first, so that after a crash no
    /// terminal state stands on a block that the store does not know.
    pub(super) async fn finalize(&mut self) -> Result<(), WatchError> {
        let Some(upto) = self.final_candidate().await? else { return Ok(()) };
        // Under a finality violation no intent ends.
        if self.canon.is_final(upto.number) || self.finality.violation.is_some() {
            return Ok(());
        }
        let ours = self.canon.ours_up_to(upto);
        let lanes_wait = !ours.is_empty() || self.linking.has_parked_up_to(upto.number);
        if !lanes_wait && self.driver.now() < self.finality.save_at {
            return Ok(());
        }
        self.save_head(upto).await?;
        self.canon.finalize(upto);
        for (block, hashes) in ours {
            let list = self.canon.confirmations(block.number, self.options.confirmations);
            for hash in hashes {
                self.book.deliver(hash, Sighting::Final { hash, block, list: list.clone() });
            }
        }
        Ok(())
    }

    /// Reads the saved final block while the own one does not move, so that lanes know whether this node lags.
    pub(super) async fn read_saved_final(&mut self) -> Result<(), WatchError> {
        let now = self.driver.now();
        if now < self.finality.save_at || self.finality.violation.is_some() {
            return Ok(());
        }
        self.finality.save_at = now.saturating_add(self.options.save_interval);
        let kept = self.store.head(self.chain.id()).await?;
        self.finality.saved = kept.and_then(|head| head.finalized);
        Ok(())
    }

    /// The newest linked block that is final by now.
    async fn final_candidate(&mut self) -> Result<Option<BlockRef>, WatchError> {
        let Some(head) = self.canon.head() else { return Ok(None) };
        let by_depth = head.number.saturating_sub(u64::from(self.options.confirmations.max(1)) - 1);
        let number = match self.options.finality.tag() {
            None => Some(by_depth),
            Some(tag) => {
                if self.finality.tag.is_none_or(|(at, _)| at != head) {
                    self.book.deliver_held();
                    let tagged = self.chain.header(tag).await?.map(|header| header.block);
                    // An endpoint that does not know the tag does not undo an earlier answer.
                    let tagged = tagged.or(self.finality.tag.and_then(|(_, tagged)| tagged));
                    if tagged.is_none() && self.finality.tag.is_none() {
                        let (chain, finality) = (self.chain.id(), self.options.finality.as_str());
                        tracing::warn!(%chain, finality, "finality tag unknown to the chain; no block becomes final");
                    }
                    self.finality.tag = Some((head, tagged));
                }
                // The tag counts only if its block is linked.
                let tagged = self.finality.tag.and_then(|(_, tagged)| tagged);
                let linked =
                    tagged.filter(|block| self.canon.position(*block) == Position::Canonical).map(|block| block.number);
                if tag == HeaderAt::Safe { linked.map(|number| number.min(by_depth)) } else { linked }
            }
        };
        Ok(number.and_then(|number| self.canon.get(number)).map(|link| link.block))
    }

    /// The lowest height to keep.
    pub(super) fn oldest_wanted(&self) -> u64 {
        let Some(head) = self.canon.head() else { return 0 };
        let margin = u64::from(self.options.margin);
        let by_depth = head.number.saturating_sub(self.options.kept_headers() - 1);
        let by_finality = self.canon.final_block().map(|block| block.number.saturating_sub(margin));
        let by_tag = self.finality.tag.and_then(|(_, tagged)| tagged).map(|block| block.number.saturating_sub(margin));
        let wanted = match self.options.finality.tag() {
            None => by_depth,
            // Blocks that are not final yet are kept, however deep they are.
            Some(_) => by_depth.min(by_finality.or(by_tag).unwrap_or(by_depth)),
        };
        let wanted = wanted.max(head.number.saturating_sub(KEPT_HEADERS_MAX));
        self.linking.link_down_to.map_or(wanted, |number| number.min(wanted))
    }

    /// The lowest height to keep, including blocks of reverts whose reasons are still queried: without them the hashes
    /// would be looked up and queried again without end.
    pub(super) fn oldest_kept(&self) -> u64 {
        let linked = |number: &u64| self.canon.first_number().is_some_and(|first| first <= *number);
        let unexplained = self.reverts.oldest_unexplained().filter(linked);
        unexplained.map_or(self.oldest_wanted(), |number| number.min(self.oldest_wanted()))
    }

    /// Saves the head for the next node. An error if the block must not become final.
    async fn save_head(&mut self, finalized: BlockRef) -> Result<(), WatchError> {
        let Some(tail) = self.canon.tail(SAVED_HEADERS_MAX) else { return Ok(()) };
        let head = Head { tail, finalized: Some(finalized), genesis: self.finality.genesis };
        self.finality.save_at = self.driver.now().saturating_add(self.options.save_interval);
        let verdict = self.store.save_head(self.chain.id(), &head).await?;
        self.finality.saved = match &verdict {
            HeadVerdict::FinalIsNewer(kept) => kept.finalized,
            _ => Some(finalized),
        };
        match verdict {
            HeadVerdict::Saved => Ok(()),
            HeadVerdict::FinalIsNewer(kept) if kept.tail.contains(finalized) => Ok(()),
            // Another node is far ahead. Whether it is on this chain shows when this node gets there.
            HeadVerdict::FinalIsNewer(_) => Err(WatchError::Behind { head: finalized.number }),
            HeadVerdict::FinalDiffers(kept) => {
                let number = kept.finalized.map_or(0, |block| block.number);
                let text = format!("block {number} differs from the block that was final for another node or before");
                self.declare_violation(ProtectCode::DeepReorg, &text);
                Err(WatchError::FinalityViolation)
            }
            HeadVerdict::GenesisDiffers(_) => {
                let text = "the genesis block differs from the one that was read before";
                self.declare_violation(ProtectCode::OtherChain, text);
                Err(WatchError::FinalityViolation)
            }
        }
    }

    /// Declares the violation: a final block is not on the chain. No declaration while the genesis cannot be read.
    pub(super) async fn declare_missing_final(&mut self, finalized: BlockRef) -> Result<(), WatchError> {
        if self.has_another_genesis().await? {
            let text = "the genesis block differs from the one before: the chain was restarted";
            self.declare_violation(ProtectCode::OtherChain, text);
            return Err(WatchError::FinalityViolation);
        }
        let text = format!("block {} ({}) was final and is no longer on the chain", finalized.number, finalized.hash);
        self.declare_violation(ProtectCode::DeepReorg, &text);
        Ok(())
    }

    /// The head is below ours: the endpoint lags, or is on another chain. A chain that contradicts a final block and
    /// grows is another chain after a while.
    pub(super) async fn report_behind(&mut self, head: Header, contradicts: bool) -> Result<(), WatchError> {
        if self.has_another_genesis().await? {
            let number = head.block.number;
            let text = format!("the genesis block differs from the one before, and the head is block {number}");
            self.declare_violation(ProtectCode::OtherChain, &text);
        } else if contradicts {
            let now = self.driver.now();
            let (since, lowest) = *self.finality.behind.get_or_insert((now, head.block.number));
            let grown = head.block.number.saturating_sub(lowest) >= u64::from(self.options.confirmations);
            if grown
                && now.saturating_since(since) > BEHIND_TIMEOUT
                && let Some(finalized) = self.canon.final_block()
            {
                self.declare_missing_final(finalized).await?;
            }
        }
        Err(WatchError::Behind { head: head.block.number })
    }

    /// Do both genesis blocks, as far as they are known, differ?
    async fn has_another_genesis(&self) -> Result<bool, WatchError> {
        let now = self.read_genesis().await?;
        Ok(now.zip(self.finality.genesis).is_some_and(|(now, before)| now != before))
    }

    async fn read_genesis(&self) -> Result<Option<B256>, WatchError> {
        Ok(self.chain.header(HeaderAt::Number(0)).await?.map(|header| header.block.hash))
    }

    /// Stops every lane of the chain until an operator decides (P7).
    fn declare_violation(&mut self, code: ProtectCode, text: &str) {
        if self.finality.violation.is_none() {
            let (chain, code_name) = (self.chain.id(), code.as_str());
            tracing::error!(%chain, code = code_name, "finality violation; the chain's lanes stop: {text}");
            metrics::counter!("gapless_chain_broken_total", "chain" => chain.to_string(), "code" => code_name)
                .increment(1);
            self.finality.violation = Some(Protection { code, detail: NodeText::new(text) });
        }
    }
}
