//! R03 and R04: a consumer that reads only notices has a correct list of confirmations, whatever the chain did and
//! whatever notices were omitted.
//!
//! The list is kept as a consumer keeps it: cleared at a new fork, extended by every other notice, empty when the block
//! of the transaction is gone. It begins with that block, each block is linked to the one before, and all of them are
//! blocks that the chain had, on one branch. So the last block identifies the whole list, and no block between two
//! notices is lost.

use std::collections::BTreeMap;

use gapless_domain::{
    B256, BlockLink, BlockRef, Change, EventKind, Inclusion, Progress, TransitionName, TxId, TxState,
};

use crate::fault::Fault;
use crate::history::Moment;
use crate::world_spec::WorldSpec;

use super::ledger::settled;
use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct ConfirmationNotices {
    /// The number of moments so far, which is the index of the next one.
    moments: usize,
    /// For each intent: its list after each change, with the index of the moment. Older lists are restored when commits
    /// are lost.
    lists: BTreeMap<TxId, Vec<(usize, Vec<BlockLink>)>>,
    /// The number and the parent of every block that the chain had, private ones too.
    parents: BTreeMap<B256, (u64, B256)>,
}

impl Check for ConfirmationNotices {
    fn promise(&self) -> &'static str {
        "R03"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let index = self.moments;
        self.moments += 1;
        match moment {
            Moment::Mined { block } | Moment::MinedPrivately { block } => {
                self.parents.insert(block.block.hash, (block.block.number, block.parent));
            }
            Moment::StoreLost { since } => {
                for lists in self.lists.values_mut() {
                    lists.retain(|(at, _)| at < since);
                }
            }
            Moment::Committed { commit, .. } => {
                let required = required(&view.plan);
                for change in commit.changes() {
                    let result = self.apply_notice(index, change, required);
                    let lane = commit.lease().submitter();
                    result.map_err(|what| CheckFailure::of(lane, format!("{}: {what}", change.tx_id())))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The least number of confirmations of an ended intent. With the `finalized` tag a block may be final with fewer
/// blocks on top. A final block also stays final when the branch above it becomes shorter, by a reorg or by an endpoint
/// that lags or has a private fork. P9 checks that the block itself was final.
fn required(plan: &WorldSpec) -> usize {
    let shortens = [Fault::EndpointForked, Fault::EndpointLags, Fault::EndpointDown, Fault::Reorg, Fault::DeepReorg];
    let is_exact = !plan.by_tag && !shortens.into_iter().any(|fault| plan.has(fault));
    if is_exact { plan.confirmations as usize } else { 1 }
}

impl ConfirmationNotices {
    fn apply_notice(&mut self, index: usize, change: &Change, required: usize) -> Result<(), String> {
        let lists = self.lists.entry(change.tx_id()).or_default();
        let before = lists.last().map(|(_, list)| list.clone()).unwrap_or_default();
        let mut list = before.clone();
        if change.event() == EventKind::Tx(TransitionName::Unmine) {
            list.clear();
        }
        if let Some(notice) = change.notice() {
            if notice.new_fork {
                list.clear();
            }
            list.extend_from_slice(&notice.links);
        }
        if list != before {
            lists.push((index, list.clone()));
        }
        match inclusion_of(change.to()) {
            Some((inclusion, notified)) => self.check_list(&list, inclusion, notified, required),
            None if list.is_empty() => Ok(()),
            None => Err(format!("the transaction is in no block, but consumers have {} confirmations", list.len())),
        }
    }

    /// Checks the list of one intent. `notified` is the last block of the list by the ledger; `None` means that the
    /// intent has ended, and the list must have the required length.
    fn check_list(
        &self,
        list: &[BlockLink],
        inclusion: &Inclusion,
        notified: Option<BlockRef>,
        required: usize,
    ) -> Result<(), String> {
        if list.first() != Some(&inclusion.link()) {
            let first = list.first().map(|link| link.block.number);
            return Err(format!(
                "the transaction is in block {}, but its list begins with {first:?}",
                inclusion.block.number
            ));
        }
        let gap = list.windows(2).find(|pair| match pair {
            [below, above] => above.parent() != Some(below.block),
            _ => false,
        });
        if let Some(number) = gap.and_then(|pair| pair.last()).map(|link| link.block.number) {
            return Err(format!("block {number} of its list is not linked to the one before"));
        }
        let unreal =
            |link: &&BlockLink| self.parents.get(&link.block.hash) != Some(&(link.block.number, link.parent_hash));
        if let Some(link) = list.iter().find(unreal) {
            return Err(format!("its list has block {}, which the chain never had", link.block.number));
        }
        let tip = list.last().map(|link| link.block);
        match notified {
            Some(notified) if tip != Some(notified) => {
                let tip = tip.map(|block| block.number);
                Err(format!(
                    "the ledger says that consumers have up to {}, but they have up to {tip:?}",
                    notified.number
                ))
            }
            None if list.len() < required => {
                Err(format!("the intent ended with {} confirmations of {required}", list.len()))
            }
            _ => Ok(()),
        }
    }
}

/// The inclusion of the transaction, and the last block that consumers were notified of. The ledger drops that block
/// when the intent ends.
fn inclusion_of(state: &TxState) -> Option<(&Inclusion, Option<BlockRef>)> {
    match state.bound().map(|bound| &bound.progress) {
        Some(Progress::Mined(mined)) => Some((&mined.inclusion, Some(mined.notified))),
        Some(Progress::Pending | Progress::AwaitingFunds) => None,
        None => settled(state).map(|settled| (&settled.inclusion, None)),
    }
}
