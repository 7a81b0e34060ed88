//! Bugs with the answers of the chain and its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gapless_domain::{
    Amount, B256, BlockLink, BlockRef, ChainFacts, Effect, Execution, Fact, Lane, MinedTx, NodeText, Nonce, Outgoing,
    SendOutcome, SentTx, Sighting, Tail, keccak256,
};

use super::lane::{KnownLane, LaneBug};

/// Knows only the newest attempt of a slot. Sightings of an older one are dropped, and a scan finds it as a foreign
/// transaction.
#[derive(Debug)]
pub(super) struct OnlyLastHash;

fn is_older(hash: &B256, known: &KnownLane) -> bool {
    known.nonce_of(hash).is_some_and(|nonce| known.newest_hash(nonce) != Some(hash))
}

fn hash_of(sighting: &Sighting) -> &B256 {
    match sighting {
        Sighting::StillMined { hash, .. }
        | Sighting::Unmined { hash, .. }
        | Sighting::Final { hash, .. }
        | Sighting::NotFound { hash }
        | Sighting::Mined(MinedTx { hash, .. }) => hash,
    }
}

impl LaneBug for OnlyLastHash {
    fn alter_fact(&mut self, mut fact: Fact, known: &KnownLane, _: &Lane) -> Vec<Fact> {
        match &mut fact {
            Fact::Sightings(sightings) => sightings.retain(|sighting| !is_older(hash_of(sighting), known)),
            Fact::Scanned(Ok(scan)) => {
                for sent in scan.sent.iter_mut().filter(|sent| is_older(&sent.tx.signed.hash, known)) {
                    sent.tx.signed.hash = keccak256(sent.tx.signed.hash);
                }
            }
            _ => {}
        }
        vec![fact]
    }
}

/// Reports an attempt as mined and final in the newest block if its nonce is too low.
#[derive(Debug, Default)]
pub(super) struct NonceTooLowIsSuccess {
    chain: Option<Arc<ChainFacts>>,
}

impl LaneBug for NonceTooLowIsSuccess {
    fn alter_fact(&mut self, fact: Fact, known: &KnownLane, _: &Lane) -> Vec<Fact> {
        if let Fact::Chain(chain) = &fact {
            self.chain = Some(Arc::clone(chain));
        }
        let (Fact::Sent(sent), Some(chain)) = (&fact, &self.chain) else { return vec![fact] };
        let Some(link) = chain.tail.get(chain.tail.last().number) else { return vec![fact] };
        let too_low = sent.iter().filter(|sent| sent.outcome == SendOutcome::NonceTooLow);
        let unmined = too_low.filter(|sent| !known.is_mined(sent.nonce));
        let sightings: Vec<Sighting> = unmined.flat_map(|sent| mined_and_final(sent.hash, link)).collect();
        if sightings.is_empty() { vec![fact] } else { vec![Fact::Sightings(sightings), fact] }
    }
}

fn mined_and_final(hash: B256, link: BlockLink) -> [Sighting; 2] {
    let mined = MinedTx {
        hash,
        block: link.block,
        parent_hash: link.parent_hash,
        execution: Execution::Success,
        work_used: 0,
        unit_price: Amount::ZERO,
    };
    [Sighting::Mined(mined), Sighting::Final { hash, block: link.block, list: [link].into() }]
}

/// Treats a nonce as delivered once a node has called its price too low.
#[derive(Debug, Default)]
pub(super) struct UnderpricedIsSuccess {
    delivered: BTreeSet<Nonce>,
    /// Answers to sends that were kept from the engine, for the next answer of the engine.
    unsent: Vec<SentTx>,
}

impl LaneBug for UnderpricedIsSuccess {
    fn alter_fact(&mut self, mut fact: Fact, _: &KnownLane, _: &Lane) -> Vec<Fact> {
        if let Fact::Sent(sent) = &mut fact {
            for sent in sent.iter_mut() {
                if matches!(sent.outcome, SendOutcome::Underpriced | SendOutcome::ReplacementUnderpriced) {
                    sent.outcome = SendOutcome::Accepted;
                    self.delivered.insert(sent.nonce);
                }
            }
            sent.append(&mut self.unsent);
        }
        vec![fact]
    }

    fn alter_effects(&mut self, effects: &mut Vec<Effect>, _: &KnownLane, _: &Lane) -> Vec<Fact> {
        let mut answers = Vec::new();
        for effect in effects.iter_mut() {
            let Effect::Broadcast(outgoing) = effect else { continue };
            let is_delivered = |outgoing: &Outgoing| self.delivered.contains(&outgoing.nonce);
            let delivered: Vec<SentTx> = outgoing.iter().filter(|tx| is_delivered(tx)).map(accepted).collect();
            outgoing.retain(|tx| !is_delivered(tx));
            if outgoing.is_empty() {
                answers.push(Fact::Sent(delivered));
            } else {
                self.unsent.extend(delivered);
            }
        }
        effects.retain(|effect| !matches!(effect, Effect::Broadcast(outgoing) if outgoing.is_empty()));
        answers
    }
}

fn accepted(outgoing: &Outgoing) -> SentTx {
    let text = NodeText::new("planted bug: the transaction is not sent again");
    let (nonce, hash) = (outgoing.nonce, outgoing.tx.hash);
    SentTx { nonce, hash, outcome: SendOutcome::Accepted, text, answers: Vec::new() }
}

/// Reports every block with one of our hashes as final.
#[derive(Debug)]
pub(super) struct MinedIsFinal;

impl LaneBug for MinedIsFinal {
    fn alter_fact(&mut self, mut fact: Fact, _: &KnownLane, _: &Lane) -> Vec<Fact> {
        if let Fact::Sightings(sightings) = &mut fact {
            let finals: Vec<Sighting> = sightings
                .iter()
                .filter_map(|sighting| match sighting {
                    Sighting::Mined(MinedTx { hash, block, parent_hash, .. }) => {
                        let link = BlockLink { block: *block, parent_hash: *parent_hash };
                        Some(Sighting::Final { hash: *hash, block: *block, list: [link].into() })
                    }
                    _ => None,
                })
                .collect();
            sightings.extend(finals);
        }
        vec![fact]
    }
}

/// Drops reports of orphaned blocks, and reports a block as final when the head is high enough.
#[derive(Debug)]
pub(super) struct ReorgIgnored {
    pub(super) required: u32,
}

impl LaneBug for ReorgIgnored {
    fn alter_fact(&mut self, mut fact: Fact, known: &KnownLane, _: &Lane) -> Vec<Fact> {
        if let Fact::Sightings(sightings) = &mut fact {
            sightings.retain(|sighting| !matches!(sighting, Sighting::Unmined { .. }));
        }
        let Fact::Chain(chain) = &fact else { return vec![fact] };
        let head = chain.tail.last().number;
        let is_deep = |block: &BlockRef| block.number.saturating_add(u64::from(self.required)) <= head + 1;
        let deep = known.mined.iter().filter(|(_, block)| is_deep(block));
        let finals = deep.map(|(hash, block)| Sighting::Final {
            hash: *hash,
            block: *block,
            list: chain.tail.list_from(*block, self.required).into(),
        });
        let finals: Vec<Sighting> = finals.collect();
        if finals.is_empty() { vec![fact] } else { vec![Fact::Sightings(finals), fact] }
    }
}

/// Shows the lane the first block that was known at each height, so that no fork is visible.
#[derive(Debug, Default)]
pub(super) struct ForkContinues {
    shown: BTreeMap<u64, B256>,
    is_loaded: bool,
}

impl ForkContinues {
    fn load(&mut self, known: &KnownLane) {
        if !self.is_loaded {
            self.is_loaded = true;
            self.shown.extend(known.notified.iter().map(|block| (block.number, block.hash)));
        }
    }

    /// The tail with the blocks that were shown before.
    fn splice(&mut self, tail: &Tail) -> Option<Tail> {
        let (parent, hashes) = tail.hashes().split_first()?;
        let numbered = (tail.first_number()..).zip(hashes);
        let spliced = numbered.map(|(number, hash)| *self.shown.entry(number).or_insert(*hash));
        Tail::restore(tail.first_number(), std::iter::once(*parent).chain(spliced).collect())
    }

    /// The list with the blocks that were shown before, unless its first block, which holds the transaction, differs.
    fn splice_list(&self, list: &[BlockLink]) -> Arc<[BlockLink]> {
        let differs = |first: &BlockLink| self.is_shown_otherwise(first.block);
        if list.first().is_some_and(differs) {
            return list.into();
        }
        let shown = |link: &BlockLink| {
            let hash = self.shown.get(&link.block.number).copied().unwrap_or(link.block.hash);
            BlockLink { block: BlockRef { hash, ..link.block }, ..*link }
        };
        list.iter().map(shown).collect()
    }

    fn is_shown_otherwise(&self, block: BlockRef) -> bool {
        self.shown.get(&block.number).is_some_and(|shown| *shown != block.hash)
    }

    fn see(&mut self, sighting: &mut Sighting) {
        match sighting {
            // The transaction itself is in another block now, which consumers learn.
            Sighting::Mined(MinedTx { block, .. }) if self.is_shown_otherwise(*block) => self.shown.clear(),
            Sighting::Final { list, .. } => *list = self.splice_list(list),
            _ => {}
        }
    }
}

impl LaneBug for ForkContinues {
    fn alter_fact(&mut self, mut fact: Fact, known: &KnownLane, _: &Lane) -> Vec<Fact> {
        self.load(known);
        match &mut fact {
            Fact::Sightings(sightings) => sightings.iter_mut().for_each(|sighting| self.see(sighting)),
            Fact::Chain(chain) => {
                if let Some(tail) = self.splice(&chain.tail) {
                    *chain = Arc::new(ChainFacts { tail, ..ChainFacts::clone(chain) });
                }
            }
            _ => {}
        }
        vec![fact]
    }
}
