//! What is final, and what happens if it turns out not to be.
//!
//! The final block only moves forward, along linked headers. It is kept in the store with the newest headers, so that a node
//! that starts knows what the one before it took for final.

use futures_util::future::BoxFuture;
use gapless_chain::HeaderAt;
use gapless_domain::{BlockRef, Head, NodeText, ProtectCode, Protection, Sighting};
use gapless_store::{HeadVerdict, StoreError};

use super::canon::{Canon, Place};
use super::{WatchError, Watcher};

/// What makes a block final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finality {
    /// So many confirmations.
    #[default]
    Depth,
    /// So many confirmations, and the chain's `safe` tag. The tag alone is not final: what it stands on may be undone.
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

pub(super) type Saving = BoxFuture<'static, Result<HeadVerdict, StoreError>>;

impl Watcher {
    /// Goes on from what was kept.
    pub(super) async fn remember(&mut self) -> Result<(), WatchError> {
        if self.remembers {
            return Ok(());
        }
        let kept = self.store.head(self.chain.id()).await?;
        let genesis = self.chain.header(HeaderAt::Number(0)).await?.map(|header| header.block.hash);
        self.genesis = kept.as_ref().and_then(|head| head.genesis).or(genesis);
        if let Some(head) = kept {
            self.canon = Canon::restore(&head.tail, head.finalized);
            tracing::info!(chain = %self.chain.id(), block = head.tail.last().number, "going on from the head that was kept");
        }
        self.remembers = true;
        if self.genesis != genesis && genesis.is_some() {
            let text = "the chain has another genesis block than the one that was read before";
            self.breaks(ProtectCode::OtherChain, text);
        }
        Ok(())
    }

    /// Tells of everything that has become final.
    pub(super) async fn finalize(&mut self) -> Result<(), WatchError> {
        let Some(head) = self.canon.head() else { return Ok(()) };
        let required = self.options.confirmations;
        let by_depth = head.number.saturating_sub(u64::from(required.max(1)) - 1);
        let upto = match self.options.finality.tag() {
            None => Some(by_depth),
            Some(tag) => {
                let tagged = if self.tag_asked_at == Some(head) { None } else { self.chain.header(tag).await? };
                self.tag_asked_at = Some(head);
                // Only where it is linked to what we have read.
                let linked =
                    tagged.map(|header| header.block).filter(|block| self.canon.place(*block) == Place::Canonical);
                let number = linked.map(|block| block.number);
                if tag == HeaderAt::Safe { number.map(|number| number.min(by_depth)) } else { number }
            }
        };
        let Some(upto) = upto.filter(|upto| Some(*upto) >= self.canon.first_number()) else { return Ok(()) };
        for (block, ours) in self.canon.finalize(upto) {
            let list = self.canon.list(block.number, required);
            for hash in ours {
                self.book.tell(hash, Sighting::Final { hash, block, list: list.clone() });
            }
        }
        Ok(())
    }

    /// The chain no longer has a block that was final.
    pub(super) async fn is_broken_below(&mut self, finalized: BlockRef) {
        let genesis = self.chain.header(HeaderAt::Number(0)).await.ok().flatten().map(|header| header.block.hash);
        if genesis.is_some() && self.genesis.is_some() && genesis != self.genesis {
            let text = "the chain has another genesis block than before: it was started anew";
            self.breaks(ProtectCode::OtherChain, text);
        } else {
            let text =
                format!("block {} ({}) was final, and is not on the chain any more", finalized.number, finalized.hash);
            self.breaks(ProtectCode::DeepReorg, &text);
        }
    }

    /// The head is older than everything that is kept: an endpoint that lags, or another chain.
    pub(super) async fn is_behind(&mut self, head: gapless_chain::Header) -> Result<(), WatchError> {
        let finalized = self.canon.final_block().or(self.canon.head()).map_or(0, |block| block.number);
        let genesis = self.chain.header(HeaderAt::Number(0)).await?.map(|header| header.block.hash);
        if genesis.is_some() && self.genesis.is_some() && genesis != self.genesis {
            let text =
                format!("the chain has another genesis block than before, and its head is block {}", head.block.number);
            self.breaks(ProtectCode::OtherChain, &text);
        }
        Err(WatchError::Behind { finalized })
    }

    /// Every lane of the chain stops, until an operator decides (P7).
    fn breaks(&mut self, code: ProtectCode, text: &str) {
        if self.broken.is_none() {
            tracing::error!(chain = %self.chain.id(), code = code.as_str(), "the chain contradicts what was final; its lanes stop: {text}");
            metrics::counter!("gapless_chain_broken_total", "chain" => self.chain.id().to_string(), "code" => code.as_str())
                .increment(1);
            self.broken = Some(Protection { code, detail: NodeText::new(text) });
        }
    }

    /// Keeps the head for whoever comes next, when the final block has moved and the last time is long enough ago.
    pub(super) fn begin_saving(&mut self) -> Option<Saving> {
        let now = self.driver.now();
        let finalized = self.canon.final_block();
        if self.broken.is_some() || self.saved == finalized || now < self.save_at {
            return None;
        }
        let head = Head { tail: self.canon.tail()?, finalized, genesis: self.genesis };
        self.save_at = now.saturating_add(self.options.save_interval);
        self.saved = finalized;
        let (store, chain) = (self.store.clone(), self.chain.id().clone());
        Some(Box::pin(async move { store.save_head(&chain, &head).await }))
    }

    /// What the store made of it: another node may have seen another chain.
    pub(super) fn head_saved(&mut self, verdict: Result<HeadVerdict, StoreError>) {
        match verdict {
            Ok(HeadVerdict::Saved | HeadVerdict::FinalIsNewer(_)) => {}
            Ok(HeadVerdict::FinalDiffers(kept)) => {
                let number = kept.finalized.map_or(0, |block| block.number);
                let text = format!("block {number} was final for another node, or before, and is another one now");
                self.breaks(ProtectCode::DeepReorg, &text);
            }
            Ok(HeadVerdict::GenesisDiffers(_)) => {
                self.breaks(
                    ProtectCode::OtherChain,
                    "the chain has another genesis block than the one that was read before",
                );
            }
            Err(error) => {
                tracing::warn!(chain = %self.chain.id(), "cannot keep the head: {error}");
                self.saved = None;
            }
        }
    }
}
