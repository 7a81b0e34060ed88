//! Suggested fees and fee history, as in geth.

use super::ChainRead;
use crate::block::Block;
use crate::core::base_fee_after;
use crate::error::ReadError;
use crate::genesis::GWEI;
use crate::query::{BlockSelector, FeeHistory};

/// The suggestion if recent blocks have no tips.
const DEFAULT_TIP: u128 = GWEI;
/// Maximum suggestion.
const MAX_TIP: u128 = 500 * GWEI;
/// Lower tips are ignored: a block producer may include its own transactions without a tip.
const IGNORED_TIP: u128 = 2;
const TIP_BLOCKS: u64 = 20;
const TIPS_PER_BLOCK: usize = 3;
const TIP_PERCENTILE: usize = 60;

/// The suggested tip, from the tips of recent blocks.
pub(super) fn suggested_tip(read: &ChainRead<'_>) -> u128 {
    let mut tips = Vec::new();
    for number in read.newest.saturating_sub(TIP_BLOCKS - 1)..=read.newest {
        let Some(block) = read.block_by_number(number) else { continue };
        let mut paid: Vec<u128> = tips_of(&block).map(|(tip, _)| tip).filter(|tip| *tip >= IGNORED_TIP).collect();
        paid.sort_unstable();
        tips.extend(paid.into_iter().take(TIPS_PER_BLOCK));
    }
    tips.sort_unstable();
    let index = tips.len().saturating_sub(1) * TIP_PERCENTILE / 100;
    tips.get(index).copied().unwrap_or(DEFAULT_TIP).min(MAX_TIP)
}

pub(super) fn fee_history(
    read: &ChainRead<'_>,
    count: u64,
    newest: BlockSelector,
    percentiles: &[f64],
) -> Result<FeeHistory, ReadError> {
    check_percentiles(percentiles)?;
    let newest = match newest {
        BlockSelector::Number(requested) if requested > read.newest => {
            return Err(ReadError::BeyondHead { requested, head: read.newest });
        }
        newest => read.number(newest).ok_or(ReadError::UnknownBlock)?,
    };
    let oldest = read.core.oldest();
    if newest < oldest {
        return Err(ReadError::StateGone { number: newest, oldest });
    }
    let count = count.min(read.core.limits().fee_history_blocks).min(newest - oldest + 1);
    let mut history =
        FeeHistory { oldest_block: 0, base_fee_per_gas: Vec::new(), gas_used_ratio: Vec::new(), reward: Vec::new() };
    if count == 0 {
        return Ok(history);
    }
    history.oldest_block = newest + 1 - count;
    for block in (history.oldest_block..=newest).filter_map(|number| read.block_by_number(number)) {
        history.base_fee_per_gas.push(u128::from(block.base_fee()));
        history.gas_used_ratio.push(block.header.gas_used as f64 / block.header.gas_limit.max(1) as f64);
        if !percentiles.is_empty() {
            history.reward.push(rewards(&block, percentiles));
        }
        if block.number() == newest {
            // The base fee of the following block, or its prediction if the block does not exist yet.
            let next = read.block_by_number(newest + 1).filter(|next| next.number() <= read.newest);
            let after = next.map_or_else(|| base_fee_after(&block.header), |next| next.base_fee());
            history.base_fee_per_gas.push(u128::from(after));
        }
    }
    Ok(history)
}

/// The tips of a block's transactions, by percentile of its gas.
fn rewards(block: &Block, percentiles: &[f64]) -> Vec<u128> {
    let mut paid: Vec<(u128, u64)> = tips_of(block).collect();
    paid.sort_unstable();
    let gas_used = block.header.gas_used as f64;
    percentiles
        .iter()
        .map(|percentile| {
            let threshold = (gas_used * percentile / 100.0) as u64;
            let mut sum = 0;
            let reached = paid.iter().find(|(_, gas)| {
                sum += gas;
                sum >= threshold
            });
            reached.or(paid.last()).map(|(tip, _)| *tip).unwrap_or_default()
        })
        .collect()
}

/// Tip per gas and gas used of each transaction.
fn tips_of(block: &Block) -> impl Iterator<Item = (u128, u64)> + '_ {
    let base_fee = u128::from(block.base_fee());
    block.receipts.iter().map(move |receipt| (receipt.effective_gas_price.saturating_sub(base_fee), receipt.gas_used))
}

fn check_percentiles(percentiles: &[f64]) -> Result<(), ReadError> {
    for (index, percentile) in percentiles.iter().enumerate() {
        if !(0.0..=100.0).contains(percentile) {
            return Err(ReadError::InvalidPercentile(format!("{percentile:.6}")));
        }
        let before = index.checked_sub(1).and_then(|before| Some((before, percentiles.get(before)?)));
        if let Some((place, before)) = before
            && percentile <= before
        {
            let text = format!("#{place}:{before:.6} >= #{index}:{percentile:.6}");
            return Err(ReadError::InvalidPercentile(text));
        }
    }
    Ok(())
}
