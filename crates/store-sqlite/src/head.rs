//! What is known of each chain.

use gapless_domain::{ChainId, Head};
use gapless_store::codec::{HeadRow, head_from_row, head_to_row};
use gapless_store::{AuditRow, HeadVerdict, merge_heads};

use crate::audit;
use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;

pub(crate) fn save_head(writing: &Writing<'_>, chain: &ChainId, head: &Head) -> Result<HeadVerdict, Failure> {
    let kept = self::head(writing, chain)?;
    let (verdict, write) = merge_heads(kept.as_ref(), head);
    if let Some(head) = write {
        put_head(writing, chain, &head)?;
    }
    Ok(verdict)
}

pub(crate) fn head(reading: &Reading<'_>, chain: &ChainId) -> Result<Option<Head>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT latest_number, latest_hash, parent_hash, final_number, final_hash, tail_first, tail, genesis
         FROM chain_head WHERE chain = ?1",
    )?;
    rows::first(statement, [chain.as_str()], |row| {
        let row = HeadRow {
            number: row.get(0)?,
            hash: row.get(1)?,
            parent_hash: row.get(2)?,
            final_number: row.get(3)?,
            final_hash: row.get(4)?,
            tail_first: row.get(5)?,
            tail: row.get(6)?,
            genesis: row.get(7)?,
        };
        Ok(head_from_row(&row)?)
    })
}

pub(crate) fn forget_head(writing: &Writing<'_>, chain: &ChainId, audited: &AuditRow) -> Result<(), Failure> {
    writing.sql.prepare_cached("DELETE FROM chain_head WHERE chain = ?1")?.execute([chain.as_str()])?;
    audit::write(writing, audited)
}

fn put_head(writing: &Writing<'_>, chain: &ChainId, head: &Head) -> Result<(), Failure> {
    let row = head_to_row(head);
    writing
        .sql
        .prepare_cached(
            "INSERT OR REPLACE INTO chain_head (chain, latest_number, latest_hash, parent_hash, final_number, final_hash,
                 tail_first, tail, genesis, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute((
            chain.as_str(),
            row.number,
            row.hash,
            row.parent_hash,
            row.final_number,
            row.final_hash,
            row.tail_first,
            row.tail,
            row.genesis,
            writing.now.as_micros(),
        ))?;
    Ok(())
}
