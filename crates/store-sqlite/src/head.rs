//! The head of each chain.

use gapless_domain::{ChainId, Head};
use gapless_store::{AuditRow, HeadVerdict, merge_heads};
use gapless_store_sql::{HeadRow, head_from_row, head_to_row};

use crate::audit;
use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;
use crate::statement::statement;

statement! {
    struct HeadWrite<'a> {
        chain: &'a str,
        latest_number: i64,
        latest_hash: Vec<u8>,
        parent_hash: Vec<u8>,
        final_number: Option<i64>,
        final_hash: Option<Vec<u8>>,
        tail_first: Option<i64>,
        tail: Option<Vec<u8>>,
        genesis: Option<Vec<u8>>,
        updated_at: i64,
    } = "INSERT OR REPLACE INTO chain_head ({columns}) VALUES ({values})";
}

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
    let write = HeadWrite {
        chain: chain.as_str(),
        latest_number: row.number,
        latest_hash: row.hash,
        parent_hash: row.parent_hash,
        final_number: row.final_number,
        final_hash: row.final_hash,
        tail_first: row.tail_first,
        tail: row.tail,
        genesis: row.genesis,
        updated_at: writing.now.as_micros(),
    };
    write.execute(writing.sql)?;
    Ok(())
}
