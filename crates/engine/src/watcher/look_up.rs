//! Hashes that no block explained: looked up by hash, and the ledger's word compared with the canonical chain.

use gapless_chain::{HeaderAt, Receipt};
use gapless_domain::{B256, BlockRef, Sighting};

use super::canon::Place;
use super::{WatchError, Watcher, mined};

/// What the canonical chain says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Canonical {
        is_final: bool,
    },
    Orphaned,
    /// Not to be told yet; asked again in the next round.
    Unclear,
}

impl Watcher {
    pub(super) async fn answer_requests(&mut self) -> Result<(), WatchError> {
        let mut outcome = Ok(());
        let mut unexplained = Vec::new();
        for (hash, known) in self.book.requests(self.options.look_ups.max(1)) {
            match known {
                None => unexplained.push(hash),
                Some(block) if outcome.is_ok() => {
                    self.book.tried(&[hash]);
                    outcome = self.compare(hash, block).await;
                }
                // After a failure the others come first, in the next round.
                Some(_) => {}
            }
        }
        unexplained.truncate(self.look_up_size);
        let looked_up = self.look_up(&unexplained).await;
        self.look_up_size = match looked_up {
            Ok(()) => self.look_up_size.saturating_mul(2).min(self.options.look_ups),
            Err(_) => self.look_up_size / 2,
        }
        .max(1);
        outcome.and(looked_up)?;
        self.book.go_on();
        Ok(())
    }

    async fn look_up(&mut self, hashes: &[B256]) -> Result<(), WatchError> {
        if hashes.is_empty() {
            return Ok(());
        }
        self.book.tried(hashes);
        let receipts = self.chain.receipts(hashes).await?;
        for (hash, receipt) in hashes.iter().copied().zip(receipts) {
            match receipt {
                Some(receipt) if receipt.hash == hash => self.explain(&receipt).await?,
                _ => {
                    metrics::counter!("gapless_receipt_check_total", "result" => "not_found").increment(1);
                    self.book.answered(hash, None);
                    self.book.tell(hash, Sighting::NotFound { hash });
                }
            }
        }
        Ok(())
    }

    /// The ledger says that it was mined there.
    async fn compare(&mut self, hash: B256, block: BlockRef) -> Result<(), WatchError> {
        match self.standing(block).await? {
            Standing::Canonical { is_final } => {
                self.canon.note(block, hash);
                self.book.answered(hash, Some(block));
                self.book.tell(hash, Sighting::StillMined { hash, block });
                if is_final {
                    self.book.tell(hash, Sighting::Final { hash, block });
                }
            }
            Standing::Orphaned => {
                self.book.tell(hash, Sighting::Unmined { hash, block });
                self.book.ask(hash, None);
            }
            Standing::Unclear => {}
        }
        Ok(())
    }

    /// A node says that it is mined: true only if the block is on the chain that we have linked.
    async fn explain(&mut self, receipt: &Receipt) -> Result<(), WatchError> {
        let (hash, block) = (receipt.hash, receipt.block);
        if let Standing::Canonical { is_final } = self.standing(block).await? {
            metrics::counter!("gapless_receipt_check_total", "result" => "mined").increment(1);
            self.canon.note(block, hash);
            self.book.answered(hash, None);
            self.book.tell(hash, Sighting::Mined(mined(receipt)));
            if is_final {
                self.book.tell(hash, Sighting::Final { hash, block });
            }
        }
        Ok(())
    }

    async fn standing(&self, block: BlockRef) -> Result<Standing, WatchError> {
        Ok(match self.canon.place(block) {
            Place::Canonical => {
                Standing::Canonical { is_final: self.canon.is_final(block.number, self.options.confirmations) }
            }
            Place::Orphaned => Standing::Orphaned,
            Place::Newer => Standing::Unclear,
            Place::Older => match self.chain.header(HeaderAt::Number(block.number)).await? {
                Some(header) if header.block == block => Standing::Canonical { is_final: true },
                Some(_) => Standing::Orphaned,
                None => Standing::Unclear,
            },
        })
    }
}
