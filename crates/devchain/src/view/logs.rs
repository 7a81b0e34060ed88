//! Log queries.

use super::ChainRead;
use crate::block::{Block, LogEntry};
use crate::error::ReadError;
use crate::query::{BlockSelector, LogBlocks, LogFilter};

pub(super) fn logs(read: &ChainRead<'_>, filter: &LogFilter) -> Result<Vec<LogEntry>, ReadError> {
    let limit = read.core.limits().logs_per_answer;
    let mut found = Vec::new();
    match filter.blocks {
        LogBlocks::Hash(hash) => {
            let block = read.block(BlockSelector::Hash(hash)).ok_or(ReadError::UnknownLogBlock)?;
            collect(&block, filter, limit, &mut found)?;
        }
        LogBlocks::Range { from, to } => {
            let (from, to) = (edge(read, from)?, edge(read, to)?);
            if from > to {
                return Err(ReadError::InvalidRange);
            }
            for number in from.max(read.core.oldest())..=to.min(read.newest) {
                if let Some(block) = read.block_by_number(number) {
                    collect(&block, filter, limit, &mut found)?;
                }
            }
        }
    }
    Ok(found)
}

/// The block number of one end of the range. A number beyond the head is allowed.
fn edge(read: &ChainRead<'_>, at: BlockSelector) -> Result<u64, ReadError> {
    match at {
        BlockSelector::Number(number) => Ok(number),
        _ => read.number(at).ok_or(ReadError::UnknownBlock),
    }
}

fn collect(block: &Block, filter: &LogFilter, limit: usize, found: &mut Vec<LogEntry>) -> Result<(), ReadError> {
    for entry in block.logs(false) {
        if !filter.wants(&entry.log) {
            continue;
        }
        if found.len() == limit {
            return Err(ReadError::TooManyLogs { limit });
        }
        found.push(entry);
    }
    Ok(())
}
