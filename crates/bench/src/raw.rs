//! The barest thing that does the same work: the same rows into the same tables, with nothing asked and nothing checked.

use std::time::Instant;

use gapless_domain::SubmitterId;
use gapless_store::codec::payload_to_json;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::fixture::intent;

/// The rows of one accept: key, intent, event. One statement, so one round trip, and no conflict is ever looked for.
const INSERT: &str = "
    WITH input AS (
        SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[]) AS i (tx_id, submitter, request_id, hash, payload)
    ), keys AS (
        INSERT INTO request_key (submitter, request_id, payload_hash, tx_id) SELECT submitter, request_id, hash, tx_id FROM input
    ), events AS (
        INSERT INTO tx_event (submitter, tx_id, seq, kind, state, detail)
        SELECT submitter, tx_id, 1, 'accepted', 'QUEUED', '{}' FROM input
    )
    INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, state, detail, version)
    SELECT tx_id, submitter, request_id, payload::jsonb, 'standard', 'QUEUED', '{}', 1 FROM input";

/// The intent's own row and nothing else.
const INSERT_ONE: &str = "
    INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, state, detail, version)
    VALUES ($1, $2, $3, $4::text::jsonb, 'standard', 'QUEUED', '{}', 1)";

/// Batches of `size`, one after the other, until the deadline. Returns how many rows.
pub(crate) async fn insert_batches(client: &Client, lanes: &[SubmitterId], size: usize, deadline: Instant) -> u64 {
    let statement = client.prepare(INSERT).await.unwrap();
    let mut rows = 0;
    while Instant::now() < deadline {
        let intents: Vec<_> = (0..size).map(|n| intent(&lanes[n % lanes.len()])).collect();
        let ids: Vec<Uuid> = intents.iter().map(|_| Uuid::now_v7()).collect();
        let submitters: Vec<&str> = intents.iter().map(|intent| intent.submitter().as_str()).collect();
        let requests: Vec<&str> = intents.iter().map(|intent| intent.request_id().as_str()).collect();
        let hashes: Vec<Vec<u8>> = intents.iter().map(|intent| intent.payload().fingerprint().0.to_vec()).collect();
        let payloads: Vec<String> = intents.iter().map(|intent| payload_to_json(intent.payload())).collect();
        client.execute(&statement, &[&ids, &submitters, &requests, &hashes, &payloads]).await.unwrap();
        rows += size as u64;
    }
    rows
}

/// Plain single INSERTs, one after the other.
pub(crate) async fn insert_singly(client: &Client, lanes: &[SubmitterId], deadline: Instant) -> u64 {
    let statement = client.prepare(INSERT_ONE).await.unwrap();
    let mut rows = 0;
    while Instant::now() < deadline {
        let intent = intent(&lanes[0]);
        let payload = payload_to_json(intent.payload());
        let (lane, request) = (intent.submitter().as_str(), intent.request_id().as_str());
        client.execute(&statement, &[&Uuid::now_v7(), &lane, &request, &payload]).await.unwrap();
        rows += 1;
    }
    rows
}

/// Plain batch updates of the same rows, without lease, version or event.
pub(crate) async fn update_batches(client: &Client, ids: &[Uuid], deadline: Instant) -> u64 {
    let update = "
        UPDATE managed_tx t SET state = i.state, sub_state = i.sub_state, detail = i.detail::jsonb, updated_at = clock_timestamp()
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS i (tx_id, state, sub_state, detail) WHERE t.tx_id = i.tx_id";
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
