//! The newest head of each chain.

use gapless_domain::{BlockRef, ChainId, Head};
use gapless_store::codec::{signed, unsigned};
use gapless_store::{HeadVerdict, StoreError};
use tokio_postgres::Row;

use crate::error::unavailable;
use crate::rows::{get, hash};
use crate::session::within;
use crate::store::PgStore;

const LOCKED: &str = "SELECT * FROM chain_head WHERE chain = $1 FOR NO KEY UPDATE";

const WRITE: &str = "
    INSERT INTO chain_head (chain, number, hash, parent_hash, final_number, final_hash) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (chain) DO UPDATE SET number = excluded.number, hash = excluded.hash, parent_hash = excluded.parent_hash,
        final_number = excluded.final_number, final_hash = excluded.final_hash, updated_at = clock_timestamp()";

pub(crate) async fn save(store: &PgStore, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
    within(store.options.call_timeout, "saving a head", async {
        let session = store.pool.lend().await?;
        let client = session.client();
        // The first head of a chain has no row to lock; two nodes that write it at once agree by the lock of the insert.
        client.batch_execute("BEGIN").await.map_err(unavailable)?;
        client
            .execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&chain.as_str()])
            .await
            .map_err(unavailable)?;
        let row = client.query_opt(LOCKED, &[&chain.as_str()]).await.map_err(unavailable)?;
        let kept = row.as_ref().map(parse).transpose()?;
        let (verdict, finalized) = merge(kept.as_ref(), head);
        if !matches!(verdict, HeadVerdict::FinalDiffers(_)) {
            let (number, hash) = (signed(head.latest.number), head.latest.hash.to_vec());
            let (final_number, final_hash) =
                (finalized.map(|block| signed(block.number)), finalized.map(|block| block.hash.to_vec()));
            client
                .execute(
                    WRITE,
                    &[&chain.as_str(), &number, &hash, &head.parent_hash.to_vec(), &final_number, &final_hash],
                )
                .await
                .map_err(unavailable)?;
        }
        client.batch_execute("COMMIT").await.map_err(unavailable)?;
        session.give_back();
        Ok(verdict)
    })
    .await
}

pub(crate) async fn load(store: &PgStore, chain: &ChainId) -> Result<Option<Head>, StoreError> {
    let row = store
        .with_session("reading a head", async |session| {
            session.client().query_opt("SELECT * FROM chain_head WHERE chain = $1", &[&chain.as_str()]).await
        })
        .await?;
    row.as_ref().map(parse).transpose()
}

/// The final block only moves forward, and never to another block at the same height.
fn merge(kept: Option<&Head>, head: &Head) -> (HeadVerdict, Option<BlockRef>) {
    let Some((kept, old)) = kept.and_then(|kept| kept.finalized.map(|old| (kept, old))) else {
        return (HeadVerdict::Saved, head.finalized);
    };
    match head.finalized {
        Some(new) if new.number == old.number && new.hash != old.hash => (HeadVerdict::FinalDiffers(*kept), Some(old)),
        Some(new) if new.number >= old.number => (HeadVerdict::Saved, Some(new)),
        Some(_) => (HeadVerdict::FinalIsNewer(Head { finalized: Some(old), ..*head }), Some(old)),
        None => (HeadVerdict::Saved, Some(old)),
    }
}

fn parse(row: &Row) -> Result<Head, StoreError> {
    let final_number: Option<i64> = get(row, "final_number")?;
    let final_hash: Option<&[u8]> = get(row, "final_hash")?;
    let finalized = match (final_number, final_hash) {
        (Some(number), Some(bytes)) => Some(BlockRef { number: unsigned("number", number)?, hash: hash(bytes)? }),
        _ => None,
    };
    Ok(Head {
        latest: BlockRef { number: unsigned("number", get(row, "number")?)?, hash: hash(get(row, "hash")?)? },
        parent_hash: hash(get(row, "parent_hash")?)?,
        finalized,
    })
}
