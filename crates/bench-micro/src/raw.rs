//! The barest code that does the same work; for accepts, the same as in `gapless bench`.

use std::time::Instant;

use gapless_domain::SubmitterId;
use tokio_postgres::Client;
use uuid::Uuid;

/// Writes batches of `size`, one after the other, until the deadline. Returns the number of rows.
pub(crate) async fn insert_batches(client: &Client, lanes: &[SubmitterId], size: usize, deadline: Instant) -> u64 {
    gapless_bench_cluster::raw::insert_batches(client, lanes, size, deadline).await.unwrap()
}

/// Plain single INSERTs, one after the other.
pub(crate) async fn insert_singly(client: &Client, lanes: &[SubmitterId], deadline: Instant) -> u64 {
    gapless_bench_cluster::raw::insert_singly(client, &lanes[0], deadline).await.unwrap().len() as u64
}

/// Plain batch updates of the same rows, without lease, version or event.
pub(crate) async fn update_batches(client: &Client, ids: &[Uuid], deadline: Instant) -> u64 {
    let update = "
        UPDATE managed_tx t
        SET state = i.state, sub_state = i.sub_state, detail = i.detail::jsonb, updated_at = clock_timestamp()
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS i (tx_id, state, sub_state, detail)
        WHERE t.tx_id = i.tx_id";
    let statement = client.prepare(update).await.unwrap();
    let states = vec!["ALLOCATED"; ids.len()];
    let details = vec!["{}"; ids.len()];
    let mut rows = 0;
    while Instant::now() < deadline {
        let subs = vec![if rows % 2 == 0 { "PENDING" } else { "AWAITING_FUNDS" }; ids.len()];
        client.execute(&statement, &[&ids, &states, &subs, &details]).await.unwrap();
        rows += ids.len() as u64;
    }
    rows
}
