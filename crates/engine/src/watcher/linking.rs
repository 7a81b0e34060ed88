//! Blocks that are known and not linked to the canonical chain yet.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use gapless_chain::Header;
use gapless_domain::{B256, BlockRef, Tick};

use super::follow::ReceiptFailures;

/// The state of linking blocks, above the head and below the oldest kept block.
#[derive(Debug, Default)]
pub(super) struct Linking {
    /// Lowest height that holds one of our transactions and is not linked yet.
    pub(super) link_down_to: Option<u64>,
    /// The earliest time of the next request for older headers.
    pub(super) deepen_at: Tick,
    /// By height: hashes that are mined too deep to be linked, and not final yet.
    parked: BTreeMap<u64, Vec<(B256, BlockRef)>>,
    /// Headers that link to the canonical chain and are not appended yet.
    pub(super) ahead: VecDeque<Header>,
    pub(super) receipt_failures: ReceiptFailures,
}

impl Linking {
    /// Extends the part that is to be linked down to this height.
    pub(super) fn link_to(&mut self, number: u64) {
        self.link_down_to = Some(self.link_down_to.map_or(number, |other| other.min(number)));
    }

    /// Parks a mined hash until its block can be final or linked.
    pub(super) fn park(&mut self, hash: B256, block: BlockRef) {
        self.parked.entry(block.number).or_default().push((hash, block));
    }

    /// Removes the parked hashes of blocks at these heights.
    pub(super) fn take_parked(&mut self, numbers: RangeInclusive<u64>) -> Vec<(B256, BlockRef)> {
        let due: Vec<u64> = self.parked.range(numbers).map(|(number, _)| *number).collect();
        due.into_iter().filter_map(|number| self.parked.remove(&number)).flatten().collect()
    }

    /// Is a hash parked at this height or below?
    pub(super) fn has_parked_up_to(&self, number: u64) -> bool {
        self.parked.range(..=number).next().is_some()
    }
}
