//! The newest linked block of each chain, and the newest final one.

use gapless_domain::{BlockRef, ChainId, Head};
use gapless_store::HeadVerdict;
use gapless_store::codec::{signed, unsigned};

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;

/// The final block only moves forward; the latest is whatever was linked last, since a reorg may lead back.
pub(crate) fn save_head(writing: &Writing<'_>, chain: &ChainId, head: &Head) -> Result<HeadVerdict, Failure> {
    let stored = self::head(writing, chain)?;
    let known = stored.and_then(|stored| stored.finalized);
    let (finalized, is_newer) = match (stored, known, head.finalized) {
        (_, Some(old), Some(new)) if new.number > old.number || new == old => (Some(new), false),
        (_, Some(old), Some(new)) if new.number < old.number => (Some(old), true),
        (Some(stored), Some(_), Some(_)) => return Ok(HeadVerdict::FinalDiffers(stored)),
        (_, old, new) => (new.or(old), false),
    };
    let kept = Head { finalized, ..*head };
    put_head(writing, chain, &kept)?;
    Ok(if is_newer { HeadVerdict::FinalIsNewer(kept) } else { HeadVerdict::Saved })
}

pub(crate) fn head(reading: &Reading<'_>, chain: &ChainId) -> Result<Option<Head>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT latest_number, latest_hash, parent_hash, final_number, final_hash FROM chain_head WHERE chain = ?1",
    )?;
    rows::first(statement, [chain.as_str()], |row| {
        let finalized = match row.get::<_, Option<i64>>(3)? {
            Some(number) => Some(BlockRef { number: unsigned("final block", number)?, hash: rows::hash(row, 4)? }),
            None => None,
        };
        Ok(Head {
            latest: BlockRef { number: unsigned("latest block", row.get(0)?)?, hash: rows::hash(row, 1)? },
            parent_hash: rows::hash(row, 2)?,
            finalized,
        })
    })
}

fn put_head(writing: &Writing<'_>, chain: &ChainId, head: &Head) -> Result<(), Failure> {
    writing
        .sql
        .prepare_cached(
            "INSERT OR REPLACE INTO chain_head
                 (chain, latest_number, latest_hash, parent_hash, final_number, final_hash, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            chain.as_str(),
            signed(head.latest.number),
            head.latest.hash.as_slice(),
            head.parent_hash.as_slice(),
            head.finalized.map(|block| signed(block.number)),
            head.finalized.as_ref().map(|block| block.hash.as_slice()),
            writing.now.as_micros(),
        ))?;
    Ok(())
}
