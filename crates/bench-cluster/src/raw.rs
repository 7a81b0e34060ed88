//! Raw rows for comparison: the same rows into the same tables, without any check.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gapless_domain::{Address, Amount, Bytes, EvmCall, Intent, IntentDraft, InvalidIntent, Limits, Speed, SubmitterId};
use gapless_store_sql::payload_to_json;
use tokio_postgres::Client;
use uuid::Uuid;

/// The rows of one accept (key, intent, event) in one statement and one round trip, without a check for conflicts.
const INSERT: &str = "
    WITH input AS (
        SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[])
            AS i (tx_id, submitter, request_id, hash, payload)
    ), keys AS (
        INSERT INTO request_key (submitter, request_id, payload_hash, tx_id)
        SELECT submitter, request_id, hash, tx_id FROM input
    ), events AS (
        INSERT INTO tx_event (submitter, tx_id, seq, kind, state, detail)
        SELECT submitter, tx_id, 1, 'accepted', 'QUEUED', '{}' FROM input
    )
    INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, state, detail, version)
    SELECT tx_id, submitter, request_id, payload::jsonb, 'standard', 'QUEUED', '{}', 1 FROM input";

/// The intent's row alone.
const INSERT_ONE: &str = "
    INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, state, detail, version)
    VALUES ($1, $2, $3, $4::text::jsonb, 'standard', 'QUEUED', '{}', 1)";

/// The content of the rows: a token transfer with 68 bytes of calldata, like most intents.
pub fn intent(lane: &SubmitterId) -> Result<Intent, InvalidIntent> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let call = EvmCall {
        to: Some(Address::repeat_byte(0x11)),
        value: Amount::ZERO,
        data: Bytes::from(vec![0xa9; 68]),
        ..EvmCall::default()
    };
    let draft = IntentDraft {
        submitter: lane.clone(),
        request_id: format!("order-{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        payload: call.into(),
        speed: Speed::Standard,
        valid_until: None,
        metadata: None,
    };
    Intent::new(draft, &Limits::default())
}

/// The reason why raw rows could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    #[error("an intent of the benchmark is refused: {0:?}")]
    Intent(InvalidIntent),
}

/// Writes batches of `size`, one after the other, until the deadline. Returns the number of rows.
pub async fn insert_batches(
    client: &Client,
    lanes: &[SubmitterId],
    size: usize,
    deadline: Instant,
) -> Result<u64, RawError> {
    let statement = client.prepare(INSERT).await?;
    let mut rows = 0;
    while Instant::now() < deadline {
        let intents: Result<Vec<_>, _> = lanes.iter().cycle().take(size).map(intent).collect();
        let intents = intents.map_err(RawError::Intent)?;
        let ids: Vec<Uuid> = intents.iter().map(|_| Uuid::now_v7()).collect();
        let submitters: Vec<&str> = intents.iter().map(|intent| intent.submitter().as_str()).collect();
        let requests: Vec<&str> = intents.iter().map(|intent| intent.request_id().as_str()).collect();
        let hashes: Vec<Vec<u8>> = intents.iter().map(|intent| intent.payload().fingerprint().0.to_vec()).collect();
        let payloads: Vec<String> = intents.iter().map(|intent| payload_to_json(intent.payload())).collect();
        client.execute(&statement, &[&ids, &submitters, &requests, &hashes, &payloads]).await?;
        rows += intents.len() as u64;
    }
    Ok(rows)
}

/// Writes single rows, one after the other. Returns the latency of each.
pub async fn insert_singly(client: &Client, lane: &SubmitterId, deadline: Instant) -> Result<Vec<Duration>, RawError> {
    let statement = client.prepare(INSERT_ONE).await?;
    let mut times = Vec::new();
    while Instant::now() < deadline {
        let intent = intent(lane).map_err(RawError::Intent)?;
        let payload = payload_to_json(intent.payload());
        let (lane, request) = (intent.submitter().as_str(), intent.request_id().as_str());
        let began = Instant::now();
        client.execute(&statement, &[&Uuid::now_v7(), &lane, &request, &payload]).await?;
        times.push(began.elapsed());
    }
    Ok(times)
}
